"""Columns whose variance is too uncertain for correlations: named alike by the release, the card and the terminal."""

import re

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, errors
from dpeigen.cli._show import as_json, components_table, console, show_release
from dpeigen.notebook import release_html
from dpeigen.report import markdown
from dpeigen.report.components import variance_cells
from dpeigen.report.content import make_card
from dpeigen.report.results import standing
from dpeigen.sources import ArraySource

SAID = "The variance of rare is too uncertain for correlations and loadings: it is less than three times its error."
WHY = "its variance is too uncertain for correlations and loadings"


def table():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6000, 5)) @ np.diag([3.0, 1, 1, 1, 1])
    rows[:, 1:4] += rows[:, :1] / 2
    rows[:, 4] = rng.random(6000) < 0.02
    return ArraySource(rows, ["a", "b", "c", "d", "rare"])


@pytest.fixture(scope="module", params=["pca", "covariance"])
def release(request):
    """The variance of the last column is 15 times its error, those of the others about 40 times; 20 are asked for."""
    budget = {"epsilon": 1.0, "delta": 1e-6, "scale": "private", "random_state": 1}
    make = PrivatePCA(2, **budget) if request.param == "pca" else PrivateCovariance(**budget)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "_TOLD", 20.0)
        found = make.fit(table()).release_
        assert found.uncertain_columns == [4]
        assert found.resolved
        yield found


def shown(what):
    out = console()
    with out.capture() as said:
        what(out)
    return " ".join(said.get().split())


def test_the_release_names_the_columns_that_intervals_leave_out(release):
    assert release.unknown_columns == {"rare": WHY}
    assert np.flatnonzero(~release.intervals().known).tolist() == [4]
    assert as_json(release, "")["unknown_columns"] == {"rare": WHY}
    assert f"rare: not known, {WHY}." in release_html(release)


def test_card_and_terminal_say_the_same(release):
    card = markdown.render(make_card(release, {"release.json": "0" * 64}))
    terminal = shown(lambda out: show_release(out, release, ""))
    for text in (card, terminal):
        assert SAID in text
        assert "Its centre and standard deviation are known." in text
    for text in (card, terminal, " ".join(standing(release))):
        assert "rare could not be measured" not in text
        assert "Nothing is known about rare" not in text
    assert "of the other columns: the variance of rare is too uncertain." in " ".join(standing(release))
    (row,) = re.findall(r"\n\| rare \| ([^\n]*)", card)[:1]
    assert " to " in row or "not known" in row


def test_a_variance_that_is_drawn_is_printed_with_its_interval(release):
    """Beside an unknown column too: the scree plot draws the number, and its interval contains it."""
    for i in range(release.resolved):
        for value, ends in variance_cells(release, i):
            low, high = (float(end.rstrip("%")) for end in ends.split(" to "))
            assert low <= float(value.rstrip("%")) <= high
    value, ends = variance_cells(release, 0)[0]
    assert float(value) == pytest.approx(release.eigenvalues[0], abs=10.0 ** -len(ends.split(".")[-1]))
    assert value in shown(lambda out: out.print(components_table(release)))


def test_words_for_pictures_do_not_name_them(release):
    card = make_card(release, {"release.json": "0" * 64})
    for picture in card.pictures():
        if picture.name.startswith("loadings") or picture.name == "biplot":
            assert "rare" not in picture.alt
