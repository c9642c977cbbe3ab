"""Attacks on the page: other hosts, other sites, other folders, hostile names, looks at rows that nobody paid for."""

import ast
import os
import re
from types import SimpleNamespace

import pytest
from studio_client import HOST, SECRET, TOKEN, Client, confirmed, declared, prepared

from dpeigen import Ledger
from dpeigen.studio import exporting
from dpeigen.studio.guard import POLICY
from dpeigen.studio.workspace import Workspace

for package in ("starlette", "jinja2"):
    pytest.importorskip(package, reason="the studio needs it")

PAGES = ("columns", "question", "privacy", "check", "history", "export")


def test_the_whole_address_opens_the_page(client):
    assert client.get("/").status == 200
    assert client.get("/", host="localhost:4321").status == 200


@pytest.mark.parametrize("token", ["", "0" * 32, TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "..", "é"])
def test_without_the_token_there_is_nothing(client, token):
    answer = client.get("/", token=token)
    assert answer.status == 404
    assert "visits" not in answer.text
    assert client.get("/static/studio.js", token=token).status == 404


def test_a_started_browser_gets_a_code_that_works_once(client):
    """Other users of the machine may see the command line of a browser; the token is not in it."""
    client.app.admit_once("c" * 32)
    assert client.get("", token="c" * 31).status == 404
    assert client.get("", token="c" * 32, host="evil.example").status == 421
    assert client.get("", token="c" * 32, headers={"sec-fetch-site": "cross-site"}).status in (403, 404)
    answer = client.get("", token="c" * 32)
    assert answer.status == 303
    assert answer.headers["location"] == f"/{TOKEN}/"
    assert client.get("", token="c" * 32).status == 404
    client.app.admit_once("d" * 32, seconds=-1.0)
    assert client.get("", token="d" * 32).status == 404


def test_a_folder_that_is_a_link_is_not_served(client, tmp_path):
    client.post("/open", {"table": "visits.csv"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("SECRET-OUTSIDE", encoding="utf-8")
    release = client.folder / "visits-study" / "releases" / "001"
    release.mkdir(parents=True)
    (release / "job.json").write_text("{}", encoding="utf-8")
    (release / "release").symlink_to(outside)
    answer = client.get("/p/visits-study/releases/001/file/secret.txt")
    assert answer.status == 404
    assert "SECRET" not in answer.text
    (release / "release").unlink()
    (release / "release").mkdir()
    (release / "release" / "plain.txt").write_text("plain", encoding="utf-8")
    assert client.get("/p/visits-study/releases/001/file/plain.txt").status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4321", "127.0.0.1", "127.0.0.1:80", "localhost", f"{HOST}.evil.example", ""]
)
def test_another_name_that_points_here_is_refused(client, host):
    """DNS rebinding: the page of another site reaches this server, and says under which name."""
    answer = client.get("/", host=host)
    assert answer.status == 421
    assert "visits" not in answer.text


def test_it_is_the_guard_that_refuses(client):
    """The planted fault: without it, a foreign host and a foreign site get what they ask for."""
    client.app = client.app._app
    assert client.get("/", host="evil.example").status == 200
    assert client.post("/open", {"table": "visits.csv"}, origin="http://evil.example").status == 303


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", f"https://{HOST}", "http://127.0.0.1:80", f"http://{HOST}.evil"]
)
def test_another_site_cannot_post(client, origin):
    assert client.post("/open", {"table": "visits.csv"}, origin=origin).status == 403
    assert not (client.folder / "visits-study").exists()
    assert client.post("/open", {"table": "visits.csv"}).status == 303


def test_a_request_that_the_browser_says_is_cross_site_is_refused(client):
    for site in ("cross-site", "same-site"):
        assert client.get("/", headers={"sec-fetch-site": site}).status == 403
        answer = client.post("/open", {"table": "visits.csv"}, headers={"sec-fetch-site": site})
        assert answer.status == 403
    assert client.get("/", headers={"sec-fetch-site": "same-origin"}).status == 200


def test_a_form_of_another_kind_is_refused(client):
    """text/plain and multipart can be sent by a form of any site."""
    for kind in ("text/plain", "multipart/form-data; boundary=x", ""):
        answer = client.post("/open", {"table": "visits.csv"}, headers={"content-type": kind})
        assert answer.status == 415


def test_every_answer_says_what_a_page_may_do(client):
    prepared(client)
    answers = [client.get(f"/p/visits-study/{name}") for name in PAGES]
    answers += [client.get("/"), client.get("/help"), client.get("/nothing"), client.get("/", token="x")]
    answers += [client.get("/static/studio.js"), client.get("/", host="evil.example")]
    for answer in answers:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "set-cookie" not in answer.headers
    assert "unsafe" not in POLICY


def test_pages_hold_no_script_no_style_and_no_foreign_address(client):
    prepared(client)
    for name in PAGES:
        text = client.get(f"/p/visits-study/{name}").text
        assert not re.search(r"<script(?![^>]*src=)", text)
        assert not re.search(r"\son[a-z]+=|style=|javascript:", text)
        assert not re.search(r'(src|href|action)="(?!/0123456789abcdef|#|data:,)', text)


@pytest.mark.parametrize(
    "path",
    [
        "/p/../columns",
        "/p/..%2f..%2fetc/columns",
        "/p/%2e%2e/columns",
        "/p/visits-study%00/columns",
        "/p/visits-study/releases/..",
        "/p/visits-study/releases/..%2f..",
        "/p/visits-study/releases/001/file/../../../study.ledger",
        "/p/visits-study/releases/../file/visits.csv",
        "/p/visits-study/export/..%2fvisits.csv",
        "/static/../serving.py",
        "/static/..%2fserving.py",
        "/static//etc/passwd",
    ],
)
def test_no_path_leads_out_of_the_folder(client, path):
    prepared(client)
    answer = client.get(path)
    assert answer.status in (404, 405), answer.status
    assert "root:" not in answer.text
    assert "import" not in answer.text


def test_a_link_out_of_the_folder_is_not_followed(tmp_path, messy):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "private.csv").write_bytes(messy)
    (outside / "study").mkdir()
    (outside / "study" / "studio.json").write_text('{"table": "private.csv"}')
    os.symlink(outside / "private.csv", inside / "link.csv")
    os.symlink(outside / "study", inside / "linked-study")
    client = Client(inside)
    page = client.get("/")
    assert "link.csv" not in page.text
    assert "linked-study" not in page.text
    assert client.post("/open", {"table": "link.csv"}).status == 404
    assert client.post("/open", {"table": "../outside/private.csv"}).status == 404
    assert client.get("/p/linked-study/columns").status == 404


def test_a_project_cannot_name_a_table_or_a_ledger_elsewhere(client):
    prepared(client)
    state = client.folder / "visits-study" / "studio.json"
    state.write_text('{"table": "../secret.csv", "ledger": "../../other.ledger"}')
    assert client.get("/p/visits-study/check").status in (400, 404)
    assert "other.ledger" not in client.get("/p/visits-study/export").text


@pytest.mark.parametrize(
    "name", ["..%2fx.csv", "x.sh", ".hidden.csv", "a%5cb.csv", "visits.csv", "-rf.csv", "con:.csv", "x.csv%00.csv"]
)
def test_a_dropped_file_has_a_plain_name_and_overwrites_nothing(client, name, messy):
    answer = client.request("POST", f"/drop/{name}", b"a,b\n1,2\n")
    assert answer.status in (400, 404, 405)
    assert (client.folder / "visits.csv").read_bytes() == messy
    assert sorted(os.listdir(client.folder)) == ["visits.csv"]
    assert not (client.folder.parent / "x.csv").exists()


def test_a_dropped_file_is_for_its_owner(client):
    answer = client.request("POST", "/drop/new table.csv", b"a,b\n1,2\n")
    assert answer.status == 200
    assert (client.folder / "new table.csv").read_bytes() == b"a,b\n1,2\n"
    assert (client.folder / "new table.csv").stat().st_mode & 0o077 == 0
    assert client.request("POST", "/drop/other.csv", b"a\n1\n", origin="http://evil.example").status == 403
    assert not (client.folder / "other.csv").exists()


EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "a\u202eb",
    "{{ 7*7 }}",
    "x'y&z",
    "</textarea><b>",
]


def test_names_are_shown_as_text(tmp_path):
    header = ",".join('"' + name.replace('"', '""') + '"' for name in EVIL)
    (tmp_path / "<b>evil & co.csv").write_text(header + "\n" + ",".join("1" * len(EVIL)) + "\n", encoding="utf-8")
    client = Client(tmp_path)
    assert "<b>evil" not in client.get("/").text
    location = client.post("/open", {"table": "<b>evil & co.csv"}).headers["location"]
    path = location.split(TOKEN, 1)[1]
    page = client.get(path)
    assert page.status == 200
    form = {"names": page.field("names"), "go": "next", "unit": "", **{f"use_{i}": "yes" for i in range(len(EVIL))}}
    base = path.removesuffix("/columns")
    assert client.post(path, form).status == 303
    client.post(f"{base}/ledger", {"total_epsilon": "4"})
    client.post(f"{base}/question", {"question": "covariance", "title": "<i>t</i>"})
    client.post(f"{base}/privacy", {"epsilon": "1", "people": "10000"})
    for name in PAGES:
        text = client.get(f"{base}/{name}").text
        for bad in ("<script>alert", "<img src=x", "\u202e", "<b>", "<i>t", "</textarea><b"):
            assert bad not in text, (name, bad)
    assert "{{ 7*7 }}" in client.get(f"{base}/columns").text


@pytest.mark.skipif(os.name == "nt", reason="names of files have no quotes on Windows")
@pytest.mark.parametrize("name", ['a""" and print() or """.csv', "it's \\.csv", 'a\\".csv', 'x"""\nprint()\n".csv'])
def test_the_name_of_a_table_is_no_code_in_the_script(tmp_path, name):
    (tmp_path / name).write_text("a,b\n1,2\n", encoding="utf-8")
    project = Workspace(tmp_path).open(name)
    columns = {"a": {"type": "number"}, "b": {"type": "number"}}
    project = project.save(content={"epsilon": 1.0, "delta": 1e-6, "components": 1, "columns": columns})
    Ledger.create(project.ledger_path, epsilon=1.0)
    told, *_ = body = ast.parse(exporting.script(project)).body
    assert ast.literal_eval(told.value).endswith(f"in the folder of {name!r}.")
    opened = next(node.value for node in body if isinstance(node, ast.Assign))
    assert ast.literal_eval(opened.args[0]) == name


def test_pages_do_not_depend_on_rows(tmp_path, messy, monkeypatch):
    """Before anything is paid for, all pages and files are the same for other rows, and another number of them."""
    # Predictions that are cut off by time would depend on how busy the machine is.
    monkeypatch.setattr("dpeigen.studio.foresee.time", SimpleNamespace(thread_time=lambda: 0.0))
    header = messy.split(b"\r\n", 1)[0] + b"\r\n"
    seen = []
    for name, raw in (("a", messy), ("b", header + messy[len(header) :][::-1][:5000]), ("c", header)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "visits.csv").write_bytes(raw)
        client = Client(folder)
        prepared(client)
        texts = [client.get(f"/p/visits-study/{page}").text for page in PAGES if page != "privacy"]
        texts += [client.get("/p/visits-study/foresee?epsilon=1&delta=1e-6&people=3000").text]
        texts += [(folder / "visits-study" / f).read_text() for f in ("study.toml", "studio.json")]
        seen.append(re.sub(r"\b(?=\w*\d)\w{3,}-\w+ \d\d:\d\d", "", "\n".join(texts).replace(str(folder), "")))
    assert seen[0] == seen[1] == seen[2]
    assert SECRET not in seen[0]


def test_the_comparison_sees_a_page_that_depends_on_the_header(tmp_path, messy):
    """The planted fault of the test above."""
    texts = []
    for name, raw in (("a", messy), ("b", messy.replace(b"gewicht", b"masse", 1))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "visits.csv").write_bytes(raw)
        client = Client(tmp_path / name)
        client.post("/open", {"table": "visits.csv"})
        texts.append(client.get("/p/visits-study/columns").text)
    assert texts[0] != texts[1]


def test_rows_in_place_of_a_header_are_not_shown(tmp_path):
    (tmp_path / "bare.csv").write_text("4711,98.6,1\n1,2,3\n")
    client = Client(tmp_path)
    client.post("/open", {"table": "bare.csv"})
    page = client.get("/p/bare-study/columns")
    assert page.status == 400
    assert "4711" not in page.text
    assert "98.6" not in page.text
    form = {"reading_header": "0", "reading_names": "a, b, c", "go": "again"}
    assert client.post("/p/bare-study/columns", form).status == 303
    page = client.get("/p/bare-study/columns")
    assert page.status == 200
    assert "4711" not in page.text


def test_nothing_but_the_button_spends(client):
    prepared(client)
    page = client.get("/p/visits-study/check")
    form = confirmed(page)
    assert client.request("GET", "/p/visits-study/spend").status == 405
    assert client.post("/p/visits-study/spend", form, origin="http://evil.example").status == 403
    assert client.post("/p/visits-study/spend", {**form, "understood": ""}).status == 400
    assert client.post("/p/visits-study/spend", {**form, "digest": "0" * 64}).status == 409
    assert client.post("/p/visits-study/spend", {**form, "number": "007"}).status == 409
    assert client.post("/p/visits-study/spend", {**form, "number": "../x"}).status == 409
    assert not (client.folder / "visits-study" / "releases").exists()
    assert "Nothing was reserved yet" in client.get("/p/visits-study/history").words


def test_a_header_that_changed_is_noticed(client):
    client.post("/open", {"table": "visits.csv"})
    form = declared(client.get("/p/visits-study/columns"))
    raw = (client.folder / "visits.csv").read_bytes()
    (client.folder / "visits.csv").write_bytes(raw.replace(b"gewicht", b"masse", 1))
    answer = client.post("/p/visits-study/columns", form)
    assert answer.status == 400
    assert "has changed" in answer.words
