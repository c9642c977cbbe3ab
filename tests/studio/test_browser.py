"""The whole path in a real browser, on a messy table, one question after the other; accessible, and silent outside.

With ``DPEIGEN_PICTURES`` set to a folder the pages are kept there as pictures, for people to look at.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import messy_table
import pytest

from dpeigen import Ledger, load_release

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe checks accessibility")
for package in ("starlette", "uvicorn", "jinja2"):
    pytest.importorskip(package, reason="the studio needs it")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="No Chromium found (Debian: apt install chromium)."),
]
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1200, "height": 900}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def studio(tmp_path_factory, messy):
    """The command itself, and the address that it prints."""
    folder = tmp_path_factory.mktemp("office")
    (folder / "visits.csv").write_bytes(messy)
    words = [sys.executable, "-m", "dpeigen", "studio", str(folder / "visits.csv"), "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as server:
        address = re.search(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/", server.stdout.readline())[0]
        yield folder, address
        server.send_signal(signal.SIGINT)
        told, said = server.communicate(timeout=60)
        assert said == ""  # no request is logged
        assert "has ended" in told
        assert "/p/" not in told


class Visitor:
    """A page, with what it asked for and complained of."""

    def __init__(self, browser, address, viewport=None, scheme="light"):
        self.context = browser.new_context(viewport=viewport or DESK, color_scheme=scheme, reduced_motion="reduce")
        self.page, self.address = self.context.new_page(), address
        self.page.set_default_timeout(60_000)  # a busy machine is slow, not broken
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        self.page.goto(address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def look(self, name):
        """Nothing serious is wrong with the page, and it fits."""
        self.page.wait_for_load_state("load")
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, name
        if folder := os.environ.get("DPEIGEN_PICTURES"):
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
        found = axe.Axe().run(self.page).response["violations"]
        serious = [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")]
        assert serious == [], name


def declare(page):
    """The columns, as a person declares them from the code book."""
    if not page.get_by_label("Decimal mark").is_visible():
        page.get_by_text("File format", exact=True).click()
    page.get_by_label("Decimal mark").select_option(",")
    page.get_by_label("Date format").fill("%d.%m.%Y")
    page.get_by_label("Which column identifies the person?").select_option("patient")

    def column(name):
        return page.locator("fieldset.column", has=page.locator("legend", has_text=re.compile(f"^{name}$")))

    column("notiz").get_by_label("Use this column").uncheck()
    column("geboren").get_by_label("Type").select_option("date")
    column("geboren").get_by_label("Lowest possible value").fill("1900-01-01")
    column("geboren").get_by_label("Highest possible value").fill("2020-12-31")
    column("größe").get_by_role("button", name="Use 50 to 244 cm").click()
    for name, word in {"crp": "log", "einkommen": "asinh", "besuche": "log1p"}.items():
        column(name).get_by_label("Transform").select_option(word)
    column("raucht").get_by_label("Type").select_option("bool")
    for name, kind, values in (
        ("geschlecht", "category", ["weiblich", "männlich"]),
        ("region", "category", messy_table.REGIONS),
        ("schmerz", "ordinal", messy_table.PAIN),
    ):
        column(name).get_by_label("Type").select_option(kind)
        column(name).get_by_label("Possible values").fill("\n".join(values))


def spend(visitor, name):
    page = visitor.page
    assert "No row was read" in page.inner_text("main")
    visitor.look(f"{name}-check")
    page.get_by_label("I want to spend").check()
    page.get_by_role("button", name="Spend").dblclick()
    page.wait_for_url("**/releases/*")
    page.get_by_text("made and paid for").wait_for(timeout=300_000)
    visitor.look(f"{name}-release")
    return page.url.rsplit("/", 1)[1]


def test_from_a_messy_table_to_cards(browser, studio):
    """Components, then a covariance, a regression and a map of the same table: each paid for once."""
    folder, address = studio
    with Visitor(browser, address) as visitor:
        page = visitor.page
        visitor.look("start")
        page.get_by_role("button", name="Open the table").click()
        visitor.look("columns")
        page.get_by_role("button", name="Save and choose the question").click()
        page.get_by_text("Choose the decimal mark under").wait_for()  # nothing is guessed from rows
        assert [text for text in visitor.complaints if "400" not in text] == []
        visitor.complaints.clear()
        declare(page)
        visitor.look("columns-declared")
        page.get_by_role("button", name="Save and choose the question").click()
        visitor.look("question")
        page.get_by_text("Texts for the card").click()
        page.get_by_label("Title").fill("Visits to the office")
        page.get_by_role("button", name="Save and choose the privacy").click()
        page.get_by_role("button", name="Create the ledger").click()  # 4 in all
        page.get_by_label("Number of people").fill("3000")
        page.locator("#panel[data-fine=yes]").get_by_text("Based on 9 releases").wait_for()
        before = page.locator("#panel").inner_text()
        page.get_by_label("Slider for ε").focus()
        for _ in range(12):
            page.keyboard.press("ArrowLeft")
        assert float(page.get_by_label("ε, the privacy loss").input_value()) < 0.6
        page.wait_for_function("before => document.querySelector('#panel').innerText !== before", arg=before)
        page.get_by_label("ε, the privacy loss").fill("1")
        page.locator("#panel[data-fine=yes]").get_by_text("73.1%").wait_for()
        visitor.look("privacy")
        page.get_by_role("button", name="Save and look at the dry run").click()
        number = spend(visitor, "pca")
        page.go_back()  # to the dry run
        page.go_forward()
        page.reload()
        release = load_release(folder / "visits-study" / "releases" / number / "release")
        assert release.labels[1] == "größe (cm)"
        assert release.unit == "patient"
        assert release.about["title"] == "Visits to the office"
        with page.expect_popup() as popup:
            page.get_by_role("link", name="Open the card").click()
        assert popup.value.title() == "Visits to the office"
        popup.value.close()
        for question, more in (("Covariance", {}), ("Regression", {"Column to predict": "systole"}), ("Map", {})):
            page.get_by_role("link", name="Question").click()
            page.get_by_role("radio", name=question).check()
            for label, value in more.items():
                page.get_by_label(label).select_option(value)
            page.get_by_role("button", name="Save and choose the privacy").click()
            page.get_by_label("ε, the privacy loss").fill("0.8")
            page.get_by_role("button", name="Save and look at the dry run").click()
            spend(visitor, question.lower())
        page.get_by_role("link", name="History and ledger").click()
        visitor.look("history")
        page.get_by_role("link", name="Export").click()
        visitor.look("export")
        page.get_by_role("link", name="Help").click()
        visitor.look("help")
        assert {url.split("/")[2] for url in visitor.requests if url.startswith("http")} == {address.split("/")[2]}
        assert visitor.complaints == []
        stored = "localStorage.length + sessionStorage.length + document.cookie.length"
        assert page.evaluate(stored) == 0
    history = Ledger(folder / "visits-study" / "study.ledger").history()
    assert [entry["state"] for entry in history] == ["committed"] * 4


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_is_enough(browser, studio, scheme):
    """Runs after the path above, over the project that it made."""
    _, address = studio
    with Visitor(browser, address, PHONE, scheme) as visitor:
        visitor.look(f"phone-{scheme}-start")
        link = visitor.page.get_by_role("link", name="visits-study")
        if not link.count():
            visitor.page.get_by_role("button", name="Open the table").click()
        else:
            link.click()
        base = visitor.page.url.rsplit("/", 1)[0]
        for name in ("columns", "question", "privacy", "check", "history", "export", "releases/001"):
            answer = visitor.page.goto(f"{base}/{name}")
            if answer.status == 200:
                visitor.look(f"phone-{scheme}-{name.replace('/', '-')}")
        assert visitor.page.evaluate("parseFloat(getComputedStyle(document.querySelector('p')).fontSize)") >= 14


def test_the_keyboard_is_enough(browser, studio):
    _, address = studio
    with Visitor(browser, address) as visitor:
        page = visitor.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.get_by_role("radio", name="visits.csv").focus()
        page.keyboard.press("Enter")  # sends the form
        page.wait_for_url("**/columns")


def test_a_file_is_dropped(browser, studio):
    folder, address = studio
    with Visitor(browser, address) as visitor:
        page = visitor.page
        page.get_by_label("Choose a file").set_input_files(
            {"name": "dropped.csv", "mimeType": "text/csv", "buffer": b"x,y\n1,2\n"}
        )
        page.wait_for_url("**/dropped-study/columns")
        assert (folder / "dropped.csv").read_bytes() == b"x,y\n1,2\n"
        page.goto(address)
        page.get_by_label("Choose a file").set_input_files(
            {"name": "dropped.csv", "mimeType": "text/csv", "buffer": b"other"}
        )
        page.get_by_text("is not overwritten").wait_for()


def test_a_page_of_another_site_gets_nothing(browser, studio, tmp_path):
    """A form, a picture, a script and a fetch from elsewhere, even if it knew the token."""
    folder, address = studio
    (folder / "bait.csv").write_text("a,b\n1,2\n")
    port = address.split(":")[2].split("/")[0]
    form = f'<form method="post" action="{address}open"><input name="table" value="bait.csv"></form>'
    post = '{method: "POST", mode: "no-cors", body: new URLSearchParams({table: "bait.csv"})}'
    script = f"""window.found = [];
fetch("{address}").then(() => found.push("read"), () => found.push("no"));
fetch("{address}open", {post}).then(() => found.push("sent"), () => found.push("no"));"""
    page_text = f"<!DOCTYPE html>{form}<script>{script}</script>"
    (tmp_path / "evil.html").write_text(page_text)
    server = subprocess.Popen(
        [sys.executable, "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    try:
        evil = re.search(r"port (\d+)", server.stdout.readline())[1]
        assert evil != port
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{evil}/evil.html")
        page.wait_for_function("found.length == 2", timeout=60_000)
        assert "read" not in page.evaluate("found")
        page.evaluate("document.forms[0].submit()")
        page.wait_for_url(f"{address}open")
        assert "does not come from a page of the studio" in page.content()
        context.close()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert not (folder / "bait-study").exists()
