"""Cards in a real browser: clicked through, on a phone, in the dark, accessible, silent on the network."""

import re
import shutil
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.clipped import clipped_warning
from dpeigen.report import write_card
from dpeigen.sources import ArraySource

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe checks accessibility")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="No Chromium found (Debian: apt install chromium)."),
    pytest.mark.filterwarnings("ignore:The guarantee of method='spiked':UserWarning"),
]
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1200, "height": 900}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page, with what it asked for and complained of."""

    def __init__(self, browser, path, viewport=None, scheme="light"):
        self.context = browser.new_context(viewport=viewport or DESK, color_scheme=scheme, reduced_motion="reduce")
        self.page = self.context.new_page()
        self.page.set_default_timeout(120_000)  # a busy machine is slow, not broken
        self.requests, self.complaints = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        self.page.goto(path if str(path).startswith("http") else path.as_uri())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def serious_findings(self):
        found = axe.Axe().run(self.page).response["violations"]
        return [
            (v["id"], v["impact"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in ("serious", "critical")
        ]


@pytest.mark.parametrize("kind", ["pca", "covariance", "evil"])
def test_a_reader_clicks_through(browser, cards, kind):
    with Opened(browser, cards(kind)[1] / "card.html") as opened:
        page = opened.page
        links = page.locator("nav a")
        assert links.count() == 9
        for number in range(links.count()):
            link = links.nth(number)
            link.click()
            target = page.locator(link.get_attribute("href"))
            assert page.url.endswith(link.get_attribute("href"))
            assert target.locator("h2").inner_text() == link.inner_text()
        closed = page.locator("details")
        assert closed.count() >= 1
        for number in range(closed.count()):
            box = closed.nth(number)
            inside = box.locator(":scope > :nth-child(2)")
            assert not inside.is_visible()
            box.locator("summary").click()
            assert inside.is_visible()
            box.locator("summary").click()
            assert not inside.is_visible()
        for picture in page.locator("figure svg").all():
            assert picture.is_visible()
            assert picture.bounding_box()["height"] > 100
        assert "column" in page.title()  # no script of a column's name has run
        assert opened.complaints == []


def test_the_keyboard_is_enough(browser, cards):
    with Opened(browser, cards("pca")[1] / "card.html") as opened:
        page = opened.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the result"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left >= 0")
        page.keyboard.press("Enter")
        assert page.url.endswith("#result")
        page.locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("details").first.get_attribute("open") is not None
        scrolling = page.locator(".scroll")
        assert all(part.get_attribute("tabindex") == "0" for part in scrolling.all())


@pytest.mark.parametrize("kind", ["pca", "covariance", "ridge", "evil", "wide"])
def test_a_phone_shows_it_without_scrolling_sideways(browser, cards, kind):
    with Opened(browser, cards(kind)[1] / "card.html", PHONE) as opened:
        page = opened.page
        page.evaluate("document.querySelectorAll('details').forEach(box => box.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        for picture in page.locator("figure svg").all():
            assert picture.bounding_box()["width"] <= PHONE["width"]
        assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('p')).fontSize)") >= 16


CONTRAST = """() => {
  const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(Number).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
  const page = light(getComputedStyle(document.body).backgroundColor)
  return [...document.querySelectorAll('svg text')].map(t => getComputedStyle(t).fill)
    .map(c => { const a = light(c); return (Math.max(a, page) + 0.05) / (Math.min(a, page) + 0.05) }) }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["pca", "ridge"])
def test_pictures_follow_light_and_dark(browser, cards, kind, scheme):
    with Opened(browser, cards(kind)[1] / "card.html", scheme=scheme) as opened:
        background = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")
        contrasts = opened.page.evaluate(CONTRAST)
        assert len(contrasts) > 10
        assert min(contrasts) >= 4.5  # WCAG AA


@pytest.mark.parametrize(
    ("kind", "scheme", "viewport"),
    [
        ("pca", "light", DESK),
        ("pca", "dark", PHONE),
        ("covariance", "dark", DESK),
        ("ridge", "light", PHONE),
        ("spiked", "light", DESK),
        ("evil", "dark", DESK),
    ],
)
def test_axe_has_no_serious_finding(browser, cards, kind, scheme, viewport):
    with Opened(browser, cards(kind)[1] / "card.html", viewport, scheme) as opened:
        opened.page.evaluate("document.querySelectorAll('details').forEach(box => box.open = true)")
        assert opened.serious_findings() == []


def test_axe_sees_planted_faults(browser, cards, tmp_path):
    source = (cards("pca")[1] / "card.html").read_text(encoding="utf-8")
    for good, bad, finding in (
        ('<html lang="en">', "<html>", "html-has-lang"),
        ("--muted:#57606a", "--muted:#c8c8c8", "color-contrast"),
        ('role="img" aria-label', 'role="img" data-label', "svg-img-alt"),
    ):
        assert good in source
        (tmp_path / "bad.html").write_text(source.replace(good, bad), encoding="utf-8")
        with Opened(browser, tmp_path / "bad.html") as opened:
            assert finding in [name for name, _, _ in opened.serious_findings()]


def pages_of(browser, path, size, css=""):
    """How many sheets of paper the page takes."""
    with Opened(browser, path) as opened:
        if css:
            opened.page.add_style_tag(content=css)
        printed = opened.page.pdf(format=size)
    return len(re.findall(rb"/Type\s*/Page\b", printed))


@pytest.mark.parametrize("long", [0, 5])
@pytest.mark.parametrize("size", ["A4", "Letter"])
def test_ten_columns_print_on_two_pages(browser, tmp_path, size, long):
    """So they do with a warning that names five columns with rare large values."""
    rows = np.random.default_rng(0).normal(size=(20_000, 10)) * np.linspace(4, 1, 10)
    source = ArraySource(rows, [f"measurement {j}" for j in range(10)])
    pca = PrivatePCA(3, epsilon=2.0, delta=1e-6, scale=np.ones(10), random_state=0)
    release = pca.fit(source).release_
    assert release.resolved == 3
    tails = release.measured.tails.copy()
    tails[4] = np.where(np.arange(10) < long, 9.0, 0.0)
    release = replace(release, measured=replace(release.measured, tails=tails))
    assert (clipped_warning(release) is None) == (long == 0)
    release = release.describe(title="Ten columns", author="A; B", description="What was measured. " * 8)
    path = write_card(release, tmp_path / "card")
    assert pages_of(browser, path, size) == 2
    assert pages_of(browser, path, size, "html{font-size:16pt !important}") > 2  # the count sees more pages


def test_sixteen_columns_with_holes_print_on_two_pages(browser, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 2)) @ rng.normal(size=(2, 16)) + rng.normal(size=(20_000, 16))
    rows[rng.uniform(size=rows.shape) < 0.05] = np.nan
    names = [f"measurement {j}" for j in range(16)]
    fit = PrivatePCA(2, epsilon=4.0, delta=1e-6, scale="private", missing="correct").fit(ArraySource(rows, names))
    path = write_card(fit.release_.describe(title="Sixteen columns", author="A; B"), tmp_path / "card")
    assert pages_of(browser, path, "A4") == 2


@pytest.mark.parametrize("kind", ["covariance", "ridge"])
@pytest.mark.parametrize("size", ["A4", "Letter"])
def test_people_missing_cells_and_a_warning_print_on_two_pages(browser, tmp_path, size, kind):
    """Twelve columns of all types, one unknown, several rows of a person: results and a warning take one page."""
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    person = np.repeat(np.arange(2500), rng.integers(1, 6, 2500))
    n = len(person)
    values = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 8)) + rng.normal(size=(n, 8))
    values[:, 7] = rng.random(n) < 0.001
    values[rng.uniform(size=values.shape) < 0.03] = np.nan
    names = [f"measurement {j}" for j in range(8)]
    frame = pd.DataFrame(values, columns=names)
    frame["sex"], frame["intensive"] = rng.choice(["f", "m"], n), np.where(rng.random(n) < 0.004, "yes", "no")
    frame["amount"], frame["person"] = np.exp(rng.normal(size=n)), person
    columns = {name: {"unit_of_measure": "mmol/l", "missing_codes": [-99]} for name in names}
    columns |= {"sex": {"categories": ["f", "m"]}, "intensive": {"levels": ["no", "yes"]}}
    columns["amount"] = {"transform": "log", "missing_codes": [-99]}
    budget = {"epsilon": 1.0, "delta": 1e-6, "scale": "private", "missing": "correct"}
    options = {**budget, "unit": "person", "columns": columns, "random_state": 0}
    if kind == "ridge":
        release = PrivateRidge("auto", **options).fit(frame, names[0]).release_
    else:
        release = PrivateCovariance(**options).fit(frame).release_
    assert names[7] in release.unknown_columns
    assert clipped_warning(release) is not None
    texts = {"title": "Visits of a hospital", "author": "A; B", "contact": "a@example.org", "description": "One row."}
    path = write_card(release.describe(**texts, population="All patients of one hospital"), tmp_path / "card")
    assert pages_of(browser, path, size) == 2


def test_tables_of_four_columns_fit_a_phone(browser, cards):
    with Opened(browser, cards("pca")[1] / "card.html", PHONE) as opened:
        widths = opened.page.evaluate(
            "[...document.querySelectorAll('table')].filter(t => t.rows[0].cells.length <= 4)"
            ".map(t => [t.scrollWidth, t.parentElement.clientWidth])"
        )
        assert len(widths) > 3
        assert all(inner <= outer for inner, outer in widths)
        words = opened.page.evaluate(
            "[...document.querySelectorAll('thead th')].map(h => getComputedStyle(h).overflowWrap)"
        )
        assert set(words) == {"normal"}  # no heading is broken inside a word


@pytest.mark.parametrize("epsilon", [0.6, 4.0])
def test_a_phone_shows_which_components_are_clear_of_noise(browser, tmp_path, epsilon):
    """The mark is the last of five columns: the table must not be wider than the screen."""
    rows = np.random.default_rng(0).normal(size=(4_000, 8)) * np.linspace(3, 1, 8)
    path = write_card(PrivatePCA(4, epsilon=epsilon, delta=1e-6).fit(rows).release_, tmp_path / "card")
    with Opened(browser, path, PHONE) as opened:
        (width,) = opened.page.evaluate(
            "[...document.querySelectorAll('table.wide')].map(t => [t.scrollWidth, t.parentElement.clientWidth])"
        )
        assert width[0] <= width[1]
        assert "noise floor" in opened.page.locator("table.wide thead").inner_text()


@pytest.fixture
def served(tmp_path):
    """A web server of a folder, and what it was asked for."""
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", tmp_path, asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("kind", ["pca", "evil"])
def test_the_page_asks_for_nothing(browser, cards, served, kind):
    address, folder, asked = served
    shutil.copy(cards(kind)[1] / "card.html", folder / "card.html")
    with Opened(browser, f"{address}/card.html") as opened:
        opened.page.wait_for_load_state("networkidle")
        assert opened.requests == [f"{address}/card.html"]
    assert asked == ["/card.html"]


def test_the_watch_sees_a_planted_request_and_the_page_forbids_it(browser, cards, served):
    address, folder, asked = served
    source = (cards("pca")[1] / "card.html").read_text(encoding="utf-8")
    planted = source.replace("</main>", '<img alt="x" src="x.png"></main>')
    (folder / "kept.html").write_text(planted, encoding="utf-8")
    with Opened(browser, f"{address}/kept.html") as opened:
        opened.page.wait_for_load_state("networkidle")
        assert any("Content Security Policy" in words for words in opened.complaints)
    assert asked == ["/kept.html"]
    (folder / "open.html").write_text(planted.replace("Content-Security-Policy", "x"), encoding="utf-8")
    with Opened(browser, f"{address}/open.html") as opened:
        opened.page.wait_for_load_state("networkidle")
    assert "/x.png" in asked
