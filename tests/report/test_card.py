"""A card says what a reader needs, from the release alone, and names of columns stay names."""

import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge, load_release
from dpeigen._text import number_text
from dpeigen.noise_floor import compared
from dpeigen.plotting import ScreeDisplay
from dpeigen.report import components, html, markdown, matrices, results, write_card
from dpeigen.report.content import make_card
from dpeigen.report.matrices import covariance_blocks, deviation_intervals
from dpeigen.report.regressions import asked_regression, regression_errors

pytestmark = pytest.mark.filterwarnings("ignore:The guarantee of method='spiked':UserWarning")

HOMES = ("https://doi.org/", "https://dpeigen.readthedocs.io/", "https://github.com/dpeigen/")
KINDS = ["pca", "covariance", "ridge", "one", "spiked", "kendall", "scaled", "wide", "evil"]


def figures_of(release):
    """Names of the pictures: loadings only of components that can be distinguished from noise."""
    if release.kind == "pca" and components.loadings_unknown(release):
        return {"scree"}
    if release.kind == "pca":
        told = [i for i in range(len(release.components)) if release.is_resolved(i)]
        both = told[:2] == [0, 1] and not {0, 1} & set(components.undetermined(release))
        return {f"loadings-{i + 1}" for i in told[:3]} | {"scree"} | ({"biplot"} if both else set())
    strongest = {"strongest"} if release.usual_intervals is not None and matrices.strongest(release) else set()
    return {"correlations", "scree" if release.kind == "covariance" else "coefficients"} | strongest


class Page(HTMLParser):
    """Tags in order, those left open, and the text between them."""

    EMPTY = frozenset({"meta", "link", "br", "img", "path", "use"})

    def __init__(self, source):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert tag in self.EMPTY or self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def text(self):
        return " ".join(" ".join(self.words).split())


@pytest.fixture(params=KINDS)
def card(request, cards):
    return cards(request.param)


def page_of(folder):
    return Page((folder / "card.html").read_text(encoding="utf-8"))


def test_all_files_are_there(card):
    release, folder = card
    figures = figures_of(release)
    expected = {"release.json", "release.safetensors", "card.html", "card.md", "figures"}
    assert {path.name for path in folder.iterdir()} == expected
    assert {path.name for path in (folder / "figures").iterdir()} == {
        f"{n}.{e}" for n in figures for e in ("svg", "png")
    }
    for name in figures:
        root = ElementTree.parse(folder / "figures" / f"{name}.svg").getroot()
        assert root.find("{http://www.w3.org/2000/svg}title").text
        assert (folder / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_is_well_formed_and_asks_for_nothing(card):
    page = page_of(card[1])
    assert page.open == []
    tags = {tag for tag, _ in page.tags}
    assert [dict(a) for t, a in page.tags if t == "script"] == [{"type": "application/ld+json"}]  # data, never run
    assert not tags & {"iframe", "object", "embed", "form", "img", "base", "audio", "video", "foreignobject"}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert "src" not in attributes
        for name in ("href", "xlink:href"):
            target = attributes.get(name)
            followed = tag == "a" and (target or "").startswith(HOMES)  # by a click only
            assert target is None or target.startswith("#") or (tag, target) == ("link", "data:,") or followed
    source = (card[1] / "card.html").read_text(encoding="utf-8")
    style = "".join(re.findall(r"<style>(.*?)</style>", source, re.DOTALL))
    assert "@import" not in style
    assert not re.findall(r"url\((?!#)", source)
    policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_references_inside_the_page_lead_somewhere(card):
    page = page_of(card[1])
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    source = (card[1] / "card.html").read_text(encoding="utf-8")
    wanted = re.findall(r'(?:href="#|url\(#)([^")]+)', source) + re.findall(r'aria-labelledby="([^"]+)"', source)
    assert set(wanted) <= set(ids)


def test_headings_pictures_and_tables_are_accessible(card):
    page = page_of(card[1])
    assert page.tags[0] == ("html", {"lang": "en"})
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for tag, attributes in page.tags:
        if tag == "svg":
            assert attributes["role"] == "img"
            assert len(attributes["aria-label"]) > 30
        if tag == "th":
            assert attributes["scope"] in ("row", "col")


def test_page_and_markdown_say_what_matters(card):
    release, folder = card
    g, digest = release.guarantee, hashlib.sha256((folder / "release.json").read_bytes()).hexdigest()
    words = page_of(folder).text()
    plain = (folder / "card.md").read_text(encoding="utf-8")
    for said in ("What may and may not be concluded", "BibTeX", "dpeigen check .", digest, g.mechanism):
        assert said in words
        assert said in plain
    assert f"ε = {g.epsilon:g}" in words
    assert all(spend.purpose in words for spend in g.split)
    for kind, warning in (("spiked", "Private under assumptions only"), ("evil", "Seeded: not private")):
        assert (warning in words) == (warning in plain) == (folder.name == kind)
    assert ("Idealised numerics" in words) == ("Idealised numerics" in plain) == (g.numerics == "idealised")
    assert ("guesses" in words) == (g.is_private and g.basis == "worst-case")


def test_warnings_stand_before_everything_else(cards):
    for kind, warning in (("evil", "Seeded: not private"), ("spiked", "Private under assumptions only")):
        for name in ("card.html", "card.md"):
            source = (cards(kind)[1] / name).read_text(encoding="utf-8")
            assert source.index(warning) < source.index("This release depends little on")


def test_a_method_without_proof_says_so(cards):
    release = cards("pca")[0]
    bad = replace(release, guarantee=replace(release.guarantee, basis="none", assumptions=("it never was",)))
    card = make_card(bad, {"release.json": "0" * 64})
    assert [n.title for n in card.notices if n.level == "danger"] == ["Not private"]
    assert "This release is not private" in markdown.render(card)


def test_names_of_columns_stay_names(cards):
    from markdown_it import MarkdownIt

    folder = cards("evil")[1]
    page = page_of(folder)
    assert "document.title='owned'" in page.text()
    assert "img" not in [tag for tag, _ in page.tags]
    assert [a for tag, a in page.tags if tag == "script"] == [{"type": "application/ld+json"}]
    tokens = MarkdownIt("commonmark").enable("table").parse((folder / "card.md").read_text(encoding="utf-8"))
    flat = [token for block in tokens for token in [block, *(block.children or [])]]
    assert not [token for token in flat if token.type in ("html_block", "html_inline", "code_inline")]
    links = [token.attrs["href"] for token in flat if token.type == "link_open"]
    assert all(address.startswith(HOMES) for address in links)
    pictures = {token.attrs["src"] for token in flat if token.type == "image"}
    assert pictures == {f"figures/{name}.svg" for name in figures_of(cards("evil")[0])}
    rows_of = [token for token in flat if token.type == "th_open"]
    assert rows_of  # tables are tables, with names that hold pipes and line breaks in them
    text = "".join(token.content for token in flat if token.type == "text")
    assert "**bold** _it_ `code` ~~gone~~ https://example.org" in text
    bold = [after.content for token, after in pairwise(flat) if token.type == "strong_open"]
    assert "bold" not in bold
    for name in ("card.html", "card.md"):
        source = (folder / name).read_text(encoding="utf-8")
        assert not set("\u202e\x1b") & set(source)
    for path in (folder / "figures").glob("*.svg"):
        names = {element.tag.split("}")[1] for element in ElementTree.parse(path).iter()}
        assert not names & {"script", "img", "image", "foreignObject", "a"}


def test_names_are_shown_as_they_are(cards):
    from markdown_it import MarkdownIt

    for name in cards("evil")[0].feature_names:
        shown = "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in name)
        assert "".join(Page(f"<p>{html.text(name)}</p>").words) == shown
        (paragraph,) = (t for t in MarkdownIt("commonmark").parse(markdown.text(name)) if t.type == "inline")
        assert "".join(child.content for child in paragraph.children) == shown


def test_wide_tables_stay_usable(cards):
    release, folder = cards("wide")
    page = page_of(folder)
    assert "the other 110 are in the file" in page.text()
    assert "the other 4 are in the file" in page.text()
    assert "with this many columns they take minutes" in page.text()
    assert sum(tag == "tr" for tag, _ in page.tags) < 120
    assert (folder / "card.html").stat().st_size < 2**20
    largest = int(np.abs(release.components[0]).argmax())
    assert f"snp {largest}" in page.text()


def _with_interval(number, low, high, sign=""):
    """A number and its interval as a page shows them."""
    shown, first, last = (number_text(float(one), (float(low), float(high)), sign) for one in (number, low, high))
    return f"{shown} {first} to {last}"


def test_numbers_are_those_of_the_release(cards):
    release, folder = cards("pca")
    text = page_of(folder).text()
    assert f"{release.components[1, 4]:+.3f}" in text
    found = release.intervals()
    assert _with_interval(release.eigenvalues[0], found.eigenvalues[0][0], found.eigenvalues[1][0]) in text
    release, folder = cards("covariance")
    low, high = (np.sqrt(side[3, 3]) for side in release.intervals().covariance)
    assert _with_interval(np.sqrt(release.covariance[3, 3]), low, high) in page_of(folder).text()
    release, folder = cards("ridge")
    fit = asked_regression(release)
    assert fit.target == "y"
    text = page_of(folder).text()
    errors = regression_errors(release, fit)
    assert _with_interval(fit.coef[0], errors.intervals[0][0], errors.intervals[1][0], "+") in text
    assert "assume residuals of equal spread (homoscedastic)" in text
    assert f"R² is {errors.r_squared:.3f}" in text


def test_rescaled_coefficients_come_back_to_their_units(cards):
    """y = 3 + 2a − b with a in [10, 30], b in [0, 4]: rescaled, fitted without noise to speak of, and brought back."""
    from dpeigen.report.regressions import _in_own_units

    rng = np.random.default_rng(0)
    a, b = rng.uniform(10, 30, 200_000), rng.uniform(0, 4, 200_000)
    table = np.column_stack([a, b, 3 + 2 * a - b])
    lower, upper = np.array([10.0, 0.0, 15.0]), np.array([30.0, 4.0, 65.0])

    unit = (table - lower) / (upper - lower)
    model = PrivateRidge(1e-6, epsilon=1e4, bound=(0, 1), target_bounds=(0, 1)).fit(unit[:, :2], unit[:, 2])
    units = {"lower": lower.tolist(), "upper": upper.tolist()}
    release = replace(model.release_, facts={**model.release_.facts, "rescaled": units})
    coef, intercept = _in_own_units(release, asked_regression(release))
    np.testing.assert_allclose([*coef, intercept], [2, -1, 3], atol=0.1)


def test_the_noise_floor_is_where_noise_alone_ends():
    """Rows that are all the same: what the release holds is noise, and it stays below the floor.

    The largest eigenvalue of such noise is 2τ√d to within a few per cent at d = 60; the release's is shrunk. Against a
    floor that is 30% too low or high, the last line would fail.
    """
    for seed in range(5):
        pca = PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=1.0, center=None, method="gaussian", random_state=seed)
        release = pca.fit(np.zeros((1000, 60))).release_
        assert release.eigenvalues[0] < release.noise_floor.value
        signal = np.zeros((1000, 60))
        signal[:, 0] = np.tile([1.0, -1.0], 500)
        assert pca.fit(signal).release_.eigenvalues[0] > release.noise_floor.value
        edge = 2 * np.sqrt(60) * release.facts["noise_deviation"]
        assert 0.9 < release.noise_floor.value / edge < 1.15


def test_the_choice_of_auto_is_shown(cards):
    release = cards("pca")[0]
    for choice in (
        "least noise <b>",
        {"method": "gaussian <b>", "predicted": {"gaussian": 0.25}},
        ["gaussian <b>", 1.5],
    ):
        card = make_card(replace(release, facts={**release.facts, "choice": choice}), {"release.json": "0" * 64})
        page = html.render(card, dict.fromkeys((picture.name for picture in card.pictures()), ""))
        assert "Why this method" in page
        assert "&lt;b&gt;" in page


def test_a_card_is_made_from_a_saved_release_alone(cards, tmp_path):
    release, folder = cards("covariance")
    again = load_release(folder)
    write_card(again, tmp_path / "new")
    first, second = ((f / "card.html").read_text(encoding="utf-8") for f in (folder, tmp_path / "new"))
    assert first == second  # a covariance has no random cloud in its pictures
    assert json.loads((folder / "release.json").read_text())["release"]["kind"] == release.kind


def test_another_release_is_not_mixed_up(cards, tmp_path):
    release, other = cards("pca")[0], cards("kendall")[0]
    write_card(release, tmp_path / "card")
    write_card(release, tmp_path / "card")  # again is fine
    with pytest.raises(FileExistsError, match="another release"):
        write_card(other, tmp_path / "card")
    described = release.describe(title="A title")
    with pytest.raises(FileExistsError, match=r"other texts for its card \(title\)\. Save it with the new ones first"):
        write_card(described, tmp_path / "card")
    described.save(tmp_path / "card", overwrite=True)
    write_card(described, tmp_path / "card")
    assert "A title" in (tmp_path / "card" / "card.md").read_text(encoding="utf-8")
    with pytest.raises(TypeError, match="must be a Release"):
        write_card(np.eye(3), tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def test_settings_of_matplotlib_are_left_alone(cards, tmp_path):
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 7.0, "text.usetex": False}):
        write_card(cards("pca")[0], tmp_path)
        assert mpl.rcParams["font.size"] == 7.0
    assert ScreeDisplay.from_release(cards("pca")[0]).ax_.get_title(loc="left")


def test_scaled_columns_are_called_so_and_unknown_ones_named(cards):
    release, folder = cards("scaled")
    text = page_of(folder).text()
    assert "the correlation matrix of the columns" in text
    assert "divided by its released standard deviation" in text
    assert "variances are those of the scaled columns" in text
    assert "Nothing is known about constant: constant, rare, or too few rows" in text
    low, high = deviation_intervals(release)
    assert _with_interval(release.scale[2], low[2], high[2]) in text


def test_a_correlation_matrix_is_shown_where_it_was_asked_for(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20_000, 3)) * [1.0, 100.0, 1e4]
    rows[:, 1] += 100 * rows[:, 0]
    release = PrivateCovariance(epsilon=2.0, delta=1e-6, scale="private").fit(rows).release_
    write_card(release, tmp_path / "card")
    text = page_of(tmp_path / "card").text()
    assert "The correlation matrix" in text
    low, high = deviation_intervals(release)
    assert _with_interval(np.sqrt(release.raw_covariance[2, 2]), low[2], high[2]) in text


# --- who, when, from whom, how sure ---------------------------------------------------------------------------------

ABOUT = {
    "title": "Health & <work>",
    "author": "Ann O'Neil; B. </script><script>alert(1)</script>",
    "contact": "data@example.org",
    "description": "Visits to the doctor",
    "population": "Adults in 1984.",
}


@pytest.mark.parametrize("categories", [False, True])
@pytest.mark.parametrize("scale", [None, "private"])
def test_what_is_1_by_definition_has_no_interval(categories, scale):
    """The diagonal of divided columns. Their deviations were measured, so they have one; and so has the twin."""
    pd, rng, n = pytest.importorskip("pandas"), np.random.default_rng(0), 3000
    columns = {"age": {"lower": 0, "upper": 100}, "income": {"lower": 0, "upper": 1e5}}
    frame = pd.DataFrame({"age": rng.uniform(20, 60, n), "income": rng.uniform(2e4, 6e4, n)})
    if categories:
        columns["sex"], frame["sex"] = {"categories": ["f", "m"]}, rng.choice(["f", "m"], size=n)
    release = PrivateCovariance(epsilon=5.0, delta=1e-6, scale=scale, columns=columns).fit(frame).release_
    blocks = covariance_blocks(release)
    assert all(isinstance(row[2], tuple) for row in blocks[1].rows)
    matrix = blocks[-1].blocks[0].rows
    shown = [isinstance(matrix[j][j + 1], tuple) for j in range(release.n_features)]
    assert shown == [scale is None, scale is None, *([True, True] if categories else [])]
    assert isinstance(matrix[0][2], tuple)
    assert "its 95% interval" in blocks[1].note


def test_deviations_that_columns_were_divided_by_have_intervals_that_hold_the_truth():
    """60 of them at 95%: fewer than 50 hold with probability 1e-4; intervals a third as wide would hold about 30."""
    held, third = 0, 0
    for seed in range(12):
        rows = np.random.default_rng(seed).normal(size=(3000, 5)) * [0.01, 1.0, 5.0, 300.0, 1.0]
        pca = PrivateCovariance(epsilon=2.0, delta=1e-6, scale="private", random_state=seed).fit(rows)
        low, high = matrices.deviation_intervals(pca.release_)
        truth = np.array([0.01, 1.0, 5.0, 300.0, 1.0])
        assert ((low <= pca.release_.scale) & (pca.release_.scale <= high)).all()
        held += int(((low <= truth) & (truth <= high)).sum())
        middle, reach = (low + high) / 2, (high - low) / 6
        third += int((np.abs(truth - middle) <= reach).sum())
    assert held >= 50 > third


def data_of(folder):
    """What the page says to machines."""
    source = (folder / "card.html").read_text(encoding="utf-8")
    (text,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', source, re.DOTALL)
    assert not set("<>&") & set(text)
    return json.loads(text)


def test_texts_of_a_person_are_kept_with_the_release_and_shown_as_they_are(cards, tmp_path):
    release = cards("pca")[0].describe(title="old").describe(**ABOUT)
    write_card(release, tmp_path / "card")
    again = load_release(tmp_path / "card")
    assert again.about == ABOUT
    assert again.date == release.date
    page, plain = page_of(tmp_path / "card"), (tmp_path / "card" / "card.md").read_text(encoding="utf-8")
    for said in (*ABOUT.values(), release.date, "Private PCA of 9 columns"):
        for part in said.split("; "):
            assert part in page.text()
            assert markdown.text(part) in plain
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    found = data_of(tmp_path / "card")
    assert (found["@type"], found["name"], found["dateCreated"]) == ("Dataset", ABOUT["title"], release.date)
    assert [person["name"] for person in found["creator"]] == ABOUT["author"].split("; ")
    assert found["creator"][0]["contactPoint"]["email"] == ABOUT["contact"]
    assert found["description"].startswith("Visits to the doctor. Adults in 1984. Private PCA of 9 columns")
    digest = hashlib.sha256((tmp_path / "card" / "release.json").read_bytes()).hexdigest()
    assert found["identifier"] == f"sha256:{digest}"
    assert {part["name"]: part["sha256"] for part in found["distribution"]}["release.json"] == digest
    assert "author = {{Ann O'Neil} and {B. </script>" in page.text()


@pytest.mark.parametrize(("name", "value"), [("title", ""), ("title", "x" * 201), ("author", 3), ("contact", " ")])
def test_texts_that_are_none_are_refused(cards, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of Release.describe must be a text"):
        cards("pca")[0].describe(**{name: value})


def test_every_number_stands_with_its_interval(cards):
    release, folder = cards("pca")
    text, found = page_of(folder).text(), release.intervals()
    (low, high), (least, most) = found.eigenvalues, found.components
    assert release.resolved == 2
    for i in range(2):
        assert _with_interval(release.eigenvalues[i], low[i], high[i]) in text
        for j in range(9):
            assert f"{release.components[i, j]:+.3f} {least[i, j]:+.3f} to {most[i, j]:+.3f}" in text
        floor, measured = compared(release, i)
        assert f"{floor} {measured} yes" in text
    assert f"variances up to {release.noise_floor.value:.3g} in 95% of releases" in text
    release, folder = cards("covariance")
    text, (low, high) = page_of(folder).text(), release.intervals().mean
    assert _with_interval(release.mean[2], low[2], high[2]) in text


_INTERVAL = re.compile(r"\| ([-+.\de]+)%? \(([-+.\de]+) to ([-+.\de]+)%?\) (?=\|)")


def test_printed_intervals_contain_their_printed_numbers(card):
    """Read from the tables as they are printed: rounding must not move an end past its number."""
    text = (card[1] / "card.md").read_text(encoding="utf-8")
    for found in _INTERVAL.findall(text):
        value, low, high = map(float, found)
        assert low <= value <= high, found
    assert _INTERVAL.search(text) or card[0].usual_intervals is None


def test_an_interval_near_1_has_as_many_digits_as_its_number():
    rows = np.random.default_rng(0).normal(size=(20_000, 2))
    rows[:, 1] = rows[:, 0] + 0.04 * rows[:, 1]
    release = PrivateCovariance(epsilon=2.0, delta=1e-6, scale="private", random_state=0).fit(rows).release_
    ((value, ends),) = [
        row[1]
        for block in covariance_blocks(release)
        if getattr(block, "rows", ())
        for row in block.rows
        if "," in row[0]
    ]
    low, high = map(float, ends.split(" to "))
    assert low <= float(value) <= high
    assert value in ("+0.999", "+0.998")
    assert {len(end) for end in ends.split(" to ")} == {len(value)}


def test_the_intercept_lies_in_the_interval_beside_it(cards):
    from dpeigen.report.regressions import _intercepts

    release = cards("ridge")[0]
    fit = asked_regression(release)
    errors = regression_errors(release, fit)
    far = replace(errors, intercept=fit.intercept + 50 * errors.intercept_standard_error)
    for found in (errors, far):
        for value, ends in _intercepts(release, fit, found):
            low, high = map(float, ends.split(" to "))
            assert low <= float(value) <= high
    ((value, _),) = _intercepts(release, fit, errors)
    assert _intercepts(release, fit, replace(errors, intercept_standard_error=np.inf)) == ["not known"]


def test_each_component_has_a_floor_of_its_own(tmp_path):
    """The noise on the first column hides nothing of the second, which one floor for all would have said."""
    rows = np.random.default_rng(3).normal(size=(20_000, 4)) * [1000, 1, 0.1, 0.1]
    release = PrivatePCA(4, epsilon=4.0, delta=1e-6, random_state=0).fit(rows).release_
    assert release.resolved == 2
    assert release.eigenvalues[1] < release.noise_floor.value < release.eigenvalues[0]
    write_card(release, tmp_path)
    text = page_of(tmp_path).text()
    marks = ["yes", "yes", "not distinguishable from noise", "not distinguishable from noise"]
    for i, mark in enumerate(marks):
        floor, measured = compared(release, i)
        assert (float(measured.removeprefix("measured ")) > float(floor)) == (mark == "yes")
        assert f"{floor} {measured} {mark}" in text
    assert "It is compared with the variance as measured, before shrinking." in text
    assert "2 of 4 measured variances lie above their noise floor" in (tmp_path / "card.html").read_text()


def test_a_release_without_what_was_measured_has_one_floor():
    rows = np.random.default_rng(3).normal(size=(2_000, 4)) * [3, 2, 1, 1]
    pca = PrivatePCA(2, method="gaussian", bound=9.0, epsilon=1.0, delta=1e-6).fit(rows)
    release = replace(pca.release_, measured=None)
    text = markdown.render(make_card(release, {"release.json": "0" * 64}))
    assert f"Noise floor {release.noise_floor.value:.3g}:" in text
    assert "Dashed: noise floor" in text
    assert "before shrinking" not in text


def test_floors_are_written_with_as_many_digits_as_it_takes_to_compare(cards):
    release = cards("pca")[0]
    for floor, value, said in (
        (1.23456, 1.23459, ("1.23456", "measured 1.23459")),
        (-math.inf, 0.5, ("none", "measured 0.5")),
        (math.inf, 0.5, ("not known", "")),
        (1.0, math.nan, ("not known", "")),
    ):
        fake = SimpleNamespace(noise_floors=np.array([floor]), measured_variances=np.array([value]))
        assert compared(fake, 0) == said
    assert compared(SimpleNamespace(noise_floors=None, measured_variances=None), 0) is None
    assert compared(release, 0) is not None


def test_noise_is_no_result(tmp_path):
    rows = np.random.default_rng(3).normal(size=(60, 4))
    release = PrivatePCA(2, epsilon=0.5, delta=1e-6, bound=5.0, random_state=0).fit(rows).release_
    assert release.resolved == 0
    card = make_card(release, {"release.json": "0" * 64})
    assert [picture.name for picture in card.pictures()] == ["scree"]
    text = markdown.render(card)
    assert "No result" in text
    assert text.count("not distinguishable from noise") >= 2
    assert "Loadings of" not in text
    assert f"{release.components[0, 0]:+.3f}" not in text


def test_clear_correlations_are_a_result_without_components():
    """One clear pair among several columns: no component stands out, and the card does not say "no result"."""
    rows = np.random.default_rng(1).normal(size=(3000, 6))
    rows[:, 1] = 0.1 * rows[:, 0] + np.sqrt(1 - 0.1**2) * rows[:, 1]
    release = PrivateCovariance(epsilon=4.0, delta=1e-6, scale="private", random_state=2).fit(rows).release_
    text = markdown.render(make_card(release, {"release.json": "0" * 64}))
    found = results.clear_correlations(release)
    assert found > 0
    assert release.resolved == 0
    assert "No result" not in text
    assert "but one correlation can, corrected for the number of pairs of columns" in text
    assert results.clear_correlations(replace(release, kind="pca")) == 0


def test_a_covariance_of_independent_columns_is_no_result():
    """In at most 2% of releases; 2 or more of 12 have a probability of 2%. Twin: without correction, most do."""
    shown = single = 0
    for seed in range(12):
        rows = np.random.default_rng(seed).normal(size=(3000, 12))
        release = PrivateCovariance(epsilon=2.0, delta=1e-6, random_state=seed).fit(rows).release_
        shown += results.clear_correlations(release) > 0
        single += len(matrices.strongest(release)) > 0
    assert shown < 2
    assert single > 6


def test_links_lead_to_the_papers_of_the_method(cards):
    for kind, doi in (("kendall", "10.48550/arXiv.2507.15232"), ("spiked", "10.48550/arXiv.2401.03820")):
        folder = cards(kind)[1]
        addresses = [a["href"] for tag, a in page_of(folder).tags if tag == "a" and "doi.org" in a.get("href", "")]
        assert f"https://doi.org/{doi}" in addresses
        assert f"<https://doi.org/{doi}>" in (folder / "card.md").read_text(encoding="utf-8")
        assert f"docs/mechanisms/{kind}.md" in page_of(folder).text()
        assert data_of(folder)["citation"] == addresses


def test_every_method_has_a_proof_page_and_the_papers_it_names():
    from pathlib import Path

    from dpeigen.methods import METHODS
    from dpeigen.privacy import Guarantee
    from dpeigen.report.links import DOIS, papers, proof_page

    docs = Path(__file__).parents[2] / "docs"
    for name, method in METHODS.items():
        g = Guarantee(1.0, 0.0, "replace", name, reference=method.reference)
        page = proof_page(g)[0].split()[1]
        assert (docs.parent / page).is_file()
        assert papers(g) or method.reference == "Amin et al. 2019"  # which has no DOI
    assert all(re.fullmatch(r"10\.\d{4,5}/\S+", doi) for doi in DOIS.values())


def test_notebooks_show_releases_guarantees_and_intervals_escaped(cards):
    release = cards("evil")[0]
    shown = [release, release.guarantee, release.intervals(), cards("ridge")[0].regression("y")]
    shown.append(PrivatePCA(1, epsilon=1.0, bound=1.0).explain(np.zeros((50, 2))))
    for thing in shown:
        source = thing._repr_html_()
        page = Page(source)
        assert page.open == []
        assert {tag for tag, _ in page.tags} <= {
            "div",
            "strong",
            "p",
            "table",
            "caption",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
        }
        assert all(set(attributes) <= {"style", "scope"} for _, attributes in page.tags)
        assert "url(" not in source
    assert "document.title='owned'" in Page(release._repr_html_()).text()
    assert "NOT PRIVATE" in release._repr_html_()


def test_a_card_gives_no_numbers_for_columns_of_which_nothing_is_known(cards):
    release, folder = cards("scaled")
    assert release.facts["details"]["columns_without_scale"] == [3]
    text = (folder / "card.md").read_text(encoding="utf-8")
    assert re.search(r"\| *constant *\| *not known *\| *not known *\|", text)
    assert "Nothing stood out of the noise in constant: constant, rare, or too few rows" in text
    assert "counted from 0" not in text


@pytest.mark.parametrize(
    ("unclear", "words"),
    [([0], "component 1 are"), ([0, 1], "components 1 and 2 are"), ([0, 1, 2], "components 1, 2 and 3 are")],
)
def test_components_that_are_not_determined_are_counted(cards, monkeypatch, unclear, words):
    release, _ = cards("pca")
    monkeypatch.setattr(results, "undetermined", lambda _: unclear)
    assert f"The loadings of {words} not determined" in " ".join(results.standing(release))


# --- regressions, categories, ordinal scales ------------------------------------------------------------------------


def text_of(release):
    from dpeigen.report import markdown

    return markdown.render(make_card(release, {"release.json": "0" * 64}))


@pytest.fixture(scope="module")
def visits():
    """A regression of a messy table: two categories, an ordinal scale, a transformed count."""
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 30_000
    pain = rng.integers(0, 3, size=n)
    days = rng.poisson(3, size=n)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], size=n),
            "site": rng.choice(["north", "south", "west"], size=n),
            "pain": np.array(["none", "mild", "severe"])[pain],
            "days": days,
            "noise": rng.normal(size=n),
            "visits": 1.5 * np.log1p(days) + pain + rng.normal(size=n),
        }
    )
    columns = {
        "sex": {"categories": ["f", "m"]},
        "site": {"categories": ["north", "south", "west"]},
        "pain": {"levels": ["none", "mild", "severe"]},
        "days": {"transform": "log1p", "unit_of_measure": "days"},
        "noise": None,
        "visits": None,
    }
    budget = {"epsilon": 4.0, "delta": 1e-6}
    plain = PrivateRidge("auto", columns=columns, **budget).fit(frame, "visits").release_
    scaled = PrivateRidge("auto", columns=columns, scale="private", **budget).fit(frame, "visits").release_
    covariance = PrivateCovariance(columns=columns, **budget).fit(frame).release_
    return {"plain": plain, "scaled": scaled, "covariance": covariance}


@pytest.mark.parametrize("kind", ["plain", "scaled"])
def test_sentences_about_a_regression_agree_with_each_other(visits, kind):
    release = visits[kind]
    text = text_of(release)
    assert "widths of their bounds" not in text  # there are none
    assert "All numbers but the centre are those of scaled columns" not in text
    assert "Coefficients are in the columns' own units" in text
    assert "Transformed columns are used after the transform" in text
    assert "| days (log1p days) |" in text  # as everywhere on the card, and not "days"
    assert "pain: 0 = none, 1 = mild, 2 = severe" in text


@pytest.mark.parametrize("kind", ["plain", "scaled"])
def test_a_coefficient_of_a_level_is_not_the_difference_between_levels(visits, kind):
    """Between f and m the target changes by the difference of two coefficients, about twice each of them."""
    said = "between two levels the target changes by the difference of their coefficients"
    assert said in text_of(visits[kind])


def test_the_card_says_which_columns_have_no_codes_for_missing_cells(visits):
    text = text_of(visits["plain"])
    assert "none declared for days, noise, visits: a code such as -99 would have been read as a value" in text


def test_centres_and_divisors_are_shown_on_paper(visits):
    """What is folded is not printed. The card of a covariance has these numbers among its results."""
    facts = next(
        part for part in make_card(visits["scaled"], {"release.json": "0" * 64}).sections if part.key == "data"
    )
    assert "What columns were divided by (95% intervals)" in [getattr(block, "title", "") for block in facts.blocks]


def test_words_for_the_picture_name_no_coefficient_that_is_not_shown(visits):
    from dpeigen.report.regressions import regression_errors

    release = visits["plain"]
    errors = regression_errors(release, asked_regression(release))
    picture = next(p for p in make_card(release, {"release.json": "0" * 64}).pictures() if p.name == "coefficients")
    told = dict(zip(release.labels, errors.told, strict=False))
    assert told["days (log1p days)"]
    assert not told["noise"]
    for name, clear in told.items():
        assert clear or f"{name} (" not in picture.alt
    unclear = replace(errors, intervals=(errors.coef - 100, errors.coef + 100))
    from dpeigen.report.regressions import _coefficients_picture

    said = _coefficients_picture(release, asked_regression(release), unclear).alt
    assert "None can be distinguished from 0" in said
    assert "days (" not in said


def test_levels_of_one_category_are_no_finding(visits):
    from dpeigen.report.matrices import strongest

    release = visits["covariance"]
    pairs = [{release.labels[i], release.labels[j]} for i, j in strongest(release)]
    assert {"days (log1p days)", "visits"} in pairs
    assert not any(len({name.split(" = ")[0] for name in pair}) == 1 for pair in pairs)
    assert not any("sex = m" in pair for pair in pairs)  # it is sex = f with the other sign
    assert "Left out: pairs of levels of one category" in text_of(release)


def test_centres_say_what_they_count(visits):
    text = text_of(visits["covariance"]).replace("\\", "")
    number = r"[01]\.\d{2,3}"
    assert re.search(rf"\| pain \| {number} levels above none \({number} to {number} levels above none\) \|", text)
    assert "a logarithm it is the geometric mean" in text


def test_no_interval_stands_beside_not_known(cards):
    """A column of which nothing is known has no interval, whatever the release's other columns have."""
    from dpeigen.report.matrices import _centers

    release = cards("covariance")[0]
    details = {**(release.facts.get("details") or {}), "columns_without_scale": [0]}
    unknown = replace(release, facts={**release.facts, "details": details})
    row = next(row for row in _centers(unknown).rows if row[0] == "column 0")
    assert row[1:] == ["not known", "not known"]


def test_a_regression_of_which_nothing_is_known_says_why(visits):
    from dpeigen.report import regressions

    release = visits["plain"]
    fit = asked_regression(release)
    errors = regressions.regression_errors(release, fit)
    infinite = np.full(len(fit.coef), np.inf)
    nothing = replace(errors, standard_errors=infinite, intervals=(-infinite, infinite), r_squared_interval=(0.0, 1.0))
    rows = regressions._coefficients(release, fit, nothing).rows
    assert all(row[1] == "not distinguishable from noise" for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regressions, "regression_errors", lambda *_: nothing)
        said = " ".join(regressions.standing_coefficients(release))
        assert "coefficients" not in {picture.name for picture in make_card(release, {"release.json": ""}).pictures()}
    assert "R² is not known" in said
    assert "release.regression('visits', features=[…])" in said


def test_loadings_of_unknown_columns_are_not_printed(cards):
    """One column without a scale: the components are those of the others, and say so."""
    text = (cards("scaled")[1] / "card.md").read_text(encoding="utf-8")
    assert re.search(r"\| constant \| not known \| not known \|", text)
    assert re.search(r"\| mg \| [+-]0\.\d+ \(", text)
    assert "those of the other columns: constant could not be measured" in text


def test_a_component_without_a_loading_that_is_told_from_0_says_so():
    """Two components of equal variance beside six of less: told from noise, but chance turns them in their plane."""
    from dpeigen.report.results import standing

    rows = (
        np.random.default_rng(0).normal(size=(20_000, 8))
        @ np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
    )
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(8, 8)))[0]
    rows = rows * np.array([3.0, 3.0, 1, 1, 1, 1, 1, 1]) @ turn
    release = PrivatePCA(2, epsilon=4.0, delta=1e-6, bound=20.0, random_state=5).fit(rows).release_
    assert release.resolved == 2
    unclear = [i for i in range(2) if not release.usual_intervals.determined[i]]
    said = " ".join(standing(release))
    names = {picture.name for picture in make_card(release, {"release.json": "0" * 64}).pictures()}
    assert ("it is not known which columns contribute" in said) == bool(unclear)
    assert ("biplot" in names) == (not unclear)
    assert unclear  # that is what the rows were made for


def test_shares_are_never_printed_as_infinite(cards):
    from dpeigen.report.columns import share_interval

    assert share_interval(0.0, np.inf) == "not known"
    assert share_interval(0.25, np.inf) == "25.0 to 100.0%"
    assert "inf%" not in (cards("scaled")[1] / "card.md").read_text(encoding="utf-8")


def test_a_choice_that_says_nothing_has_no_table(cards):
    release = cards("pca")[0]
    empty = {"method": "whitened", "predicted": {}, "measure": ""}
    text = text_of(replace(release, facts={**release.facts, "choice": empty}))
    why = text.split("### Why this method")[1].split("##")[0]
    assert "Predicted" not in why
    assert "measure" not in why
    assert "Why this method" not in text_of(replace(release, facts={**release.facts, "choice": {"predicted": {}}}))


def test_a_heat_map_has_a_colour_scale(cards):
    svg = (cards("covariance")[1] / "figures" / "correlations.svg").read_text(encoding="utf-8")
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert "correlation" in shown
    assert {"0.0", "0.5", "1.0"} <= set(shown)


def test_pages_leave_captions_to_the_page(cards):
    folder = cards("pca")[1]
    alone = (folder / "figures" / "scree.svg").read_text(encoding="utf-8")
    assert "whiskers: 95% intervals" in alone
    assert "whiskers: 95% intervals" not in (folder / "card.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("declared", "wanted"),
    [
        (["Documentation, https://docs.example.org/"], "https://docs.example.org/mechanisms/whitened.html"),
        (["Repository, https://git.example.org/p"], "https://git.example.org/p/blob/v{}/docs/mechanisms/whitened.md"),
        (["Documentation, javascript:alert(1)"], None),
        ([], None),
    ],
)
def test_the_proof_page_is_linked_where_the_package_says_where(monkeypatch, declared, wanted):
    from email.message import Message

    from dpeigen import __version__
    from dpeigen.privacy import Guarantee
    from dpeigen.report import links

    message = Message()
    for line in declared:
        message["Project-URL"] = line
    monkeypatch.setattr(links.metadata, "metadata", lambda _: message)
    found = links.proof_page(Guarantee(1.0, 0.0, "replace", "whitened"))[1]
    assert found == (None if wanted is None else wanted.format(__version__))
