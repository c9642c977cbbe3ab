"""The studio over a folder with a messy table, without a network: requests go straight to the application."""

import asyncio
import html
import re
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlencode

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
import messy_table

from dpeigen.studio import studio_app

TOKEN, HOST = "0123456789abcdef0123456789abcdef", "127.0.0.1:4321"
SECRET = "Zebedäus-4711"  # stands in a row of the table and nowhere else


class Answer:
    """What a request was answered with."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        self.text = body.decode("utf-8", "replace")
        self.words = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", self.text)).split())

    def field(self, name):
        """The value of a field of a form."""
        found = re.search(rf'name="{name}" value="([^"]*)"', self.text)
        return html.unescape(found[1]) if found else None


class Client:
    """A browser without eyes."""

    def __init__(self, folder, start=None):
        self.folder = folder
        self.app = studio_app(folder, token=TOKEN, hosts=(HOST, "localhost:4321"), start=start)

    def request(self, method, path, body=b"", headers=None, host=HOST, token=TOKEN, origin="same"):
        path, _, query = path.partition("?")
        heads = {"host": host, **(headers or {})}
        if origin is not None and method != "GET":
            heads["origin"] = f"http://{HOST}" if origin == "same" else origin
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(f"/{token}{path}"),  # as servers do
            "raw_path": f"/{token}{path}".encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in heads.items()],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 4321),
        }
        sent = []

        async def run():
            given = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive():
                if not given:
                    await asyncio.Event().wait()  # the browser stays until it has the answer
                return given.pop(0)

            async def send(message):
                sent.append(message)

            await self.app(scope, receive, send)

        asyncio.run(run())
        content = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
        heads = {k.decode().lower(): v.decode("latin-1") for k, v in sent[0]["headers"]}
        return Answer(sent[0]["status"], heads, content)

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, form=None, **more):
        heads = {"content-type": "application/x-www-form-urlencoded", **more.pop("headers", {})}
        return self.request("POST", path, urlencode(form or {}).encode(), heads, **more)

    def wait(self, path, seconds=240):
        """The page of a release that is no longer being made."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = self.get(path)
            if "being made" not in answer.words:
                return answer
            time.sleep(0.3)
        raise AssertionError("the release took too long")


def declared(page):
    """The form of the columns, filled in as a person does it from the code book."""
    form = {"names": page.field("names"), "unit": "patient", "missing": "correct", "relation": "replace", "go": "next"}
    form |= {"reading_separator": ";", "reading_decimal": ",", "reading_encoding": "cp1252"}
    form["reading_date_format"] = "%d.%m.%Y"
    for at, name in enumerate(["patient", *messy_table.NAMES, "notiz"]):
        said = {
            "geboren": {"kind": "date", "lower": "1900-01-01", "upper": "2020-12-31"},
            "größe": {"kind": "number", "lower": "100", "upper": "230", "measure": "cm"},
            "crp": {"kind": "number", "transform": "log", "measure": "mg/l"},
            "einkommen": {"kind": "number", "transform": "asinh"},
            "besuche": {"kind": "number", "transform": "log1p"},
            "raucht": {"kind": "bool"},
            "geschlecht": {"kind": "category", "list": "weiblich\nmännlich"},
            "region": {"kind": "category", "list": "\n".join(messy_table.REGIONS)},
            "schmerz": {"kind": "ordinal", "list": "\n".join(messy_table.PAIN)},
            "patient": None,
            "notiz": None,
        }.get(name, {"kind": "number"})
        if said is not None:
            form |= {f"use_{at}": "yes", **{f"{key}_{at}": value for key, value in said.items()}}
    return form


def prepared(client, question="pca", epsilon="2", **more):
    """A project with columns, a question, a ledger and ε."""
    if not (client.folder / "visits-study").exists():
        assert client.post("/open", {"table": "visits.csv"}).status == 303
        answer = client.post("/p/visits-study/columns", declared(client.get("/p/visits-study/columns")))
        assert answer.status == 303, answer.words
        client.post("/p/visits-study/ledger", {"total_epsilon": "10", "total_delta": "1e-4"})
    form = {"question": question, "components": "2", "scale": "private", "robust": "no", **more}
    answer = client.post("/p/visits-study/question", form)
    assert answer.status == 303, answer.words
    answer = client.post("/p/visits-study/privacy", {"epsilon": epsilon, "delta": "1e-6", "people": "3000"})
    assert answer.status == 303, answer.words


def confirmed(page):
    """The form that spends, as the page of the dry run shows it."""
    return {"number": page.field("number"), "digest": page.field("digest"), "understood": "yes"}
