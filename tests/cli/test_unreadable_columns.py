"""Columns that could not be read: the terminal says how many cells are missing, and gives no numbers in their place."""

import re

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.cli._show import components_table, console, show_release
from dpeigen.report.columns import about_columns
from dpeigen.report.components import component_blocks, variance_cells
from dpeigen.report.matrices import covariance_blocks
from dpeigen.report.results import standing
from dpeigen.sources import open_source
from dpeigen.sources.files import columns_of


@pytest.fixture(scope="module")
def half_readable(tmp_path_factory):
    """Decimal commas that nobody declared: the second of two columns is unreadable."""
    path, rng = tmp_path_factory.mktemp("table") / "visits.csv", np.random.default_rng(0)
    cells = np.column_stack([rng.integers(18, 90, 4000), rng.normal(size=4000)])
    lines = [f"{a:.0f};{b:.1f}".replace(".", ",") for a, b in cells]
    path.write_text("age;score\n" + "\n".join(lines) + "\n", encoding="utf-8")
    options = {"epsilon": 2.0, "delta": 1e-6, "scale": "private", "missing": "correct", "random_state": 0}
    with pytest.warns(UserWarning, match="Declare decimal=',' or decimal='.'"):
        source = open_source(path, separator=";")
    return PrivatePCA(2, **options).fit(source).release_


def shown(what):
    out = console()
    with out.capture() as said:
        what(out)
    return said.get()


def test_the_terminal_shows_the_paid_shares_of_missing_cells(half_readable):
    text = shown(lambda out: show_release(out, half_readable, "Private PCA"))
    assert "missing cells" in text
    (row,) = [line for line in text.splitlines() if line.startswith("│ score")]
    assert re.search(rf"{100 * half_readable.missing_shares[1]:.1f}% \(\d+\.\d to 100\.0%\)", row)
    assert half_readable.missing_shares[1] > 0.9


def test_one_known_column_of_two_has_no_share_of_100_percent(half_readable):
    assert (half_readable.resolved, half_readable.unresolved) == (0, "unknown columns")
    assert [variance_cells(half_readable, i) for i in range(2)] == [("not known", "not known")] * 2
    assert "100.0" not in shown(lambda out: out.print(components_table(half_readable)))


def test_components_among_known_columns_name_the_others():
    table = np.random.default_rng(1).normal(size=(5000, 5)) * [3, 2, 1, 1, 0]
    table[:, 1] += table[:, 0]
    release = PrivatePCA(1, epsilon=4.0, delta=1e-6, scale="private", random_state=0).fit(table).release_
    assert release.resolved == 1
    assert "Loadings and variances are those of the other columns: x4 could not be measured." in standing(release)


def test_repeated_names_of_columns_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,a,c,b\n1,2,3,4,5\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"Got \['a', 'b'\] more than once\. Rename these columns\."):
        columns_of(tmp_path / "t.csv")


def test_columns_of_text_do_not_hide_the_components_of_the_others(tmp_path):
    """Three of five columns are text that was read as numbers: they have no cells, and the other two have a result."""
    rng, path = np.random.default_rng(2), tmp_path / "visits.csv"
    first = rng.normal(50, 10, 6000)
    second = first + rng.normal(0, 4, 6000)
    lines = [f"{a:.2f},{b:.2f},f,II,none" for a, b in zip(first, second, strict=True)]
    path.write_text("first,second,sex,stage,note\n" + "\n".join(lines) + "\n", encoding="utf-8")
    options = {"epsilon": 4.0, "delta": 1e-6, "scale": "private", "missing": "correct", "random_state": 0}
    release = PrivatePCA(1, **options).fit(path).release_
    assert release.columns_without_cells == [2, 3, 4]
    assert release.resolved == 1
    assert "Loadings and variances are those of the other columns: sex, stage, note could not be measured." in standing(
        release
    )


def test_too_few_known_columns_have_no_scree_plot_and_a_remedy(half_readable):
    names = [picture.name for block in component_blocks(half_readable) for picture in getattr(block, "pictures", [])]
    assert names == []
    (said,) = standing(half_readable)
    assert said.startswith("This release shows no component, because score could not be measured. Declare types,")


def test_a_covariance_without_components_says_what_is_known():
    table = np.random.default_rng(3).normal(100, 10, size=(1500, 4)) * [1, 1, 1, 0]
    release = PrivateCovariance(epsilon=1.0, delta=1e-6, scale="private", random_state=1).fit(table).release_
    assert release.resolved == 0
    (said,) = standing(release)
    assert said.startswith("The standard deviations of 3 of 4 columns can be distinguished from noise; no component")
    (matrix,) = [block.blocks[0] for block in covariance_blocks(release) if hasattr(block, "blocks")]
    assert matrix.rows[3] == ["x3", *["not known"] * 4]


def test_a_column_with_a_deviation_is_not_called_unknown(monkeypatch):
    """A variance may be too uncertain for correlations and still have an interval."""
    table = np.random.default_rng(4).normal(100, 10, size=(3000, 3))
    release = PrivatePCA(1, epsilon=2.0, delta=1e-6, scale="private", random_state=1).fit(table).release_
    monkeypatch.setitem(vars(release.usual_intervals), "known", np.array([True, True, False]))
    said = " ".join(block.text for block in about_columns(release))
    assert "The variance of x2 is too uncertain for correlations and loadings" in said
    assert "Nothing is known about" not in said
    (row,) = [line for line in shown(lambda out: show_release(out, release, "")).splitlines() if "│ x2 " in line]
    assert row.count(" to ") == 2
    assert "not known" not in row


def test_lines_with_more_fields_than_names_are_explained_before_and_after(tmp_path):
    """As R writes them: a number for each row, and no name for these numbers. No line is a record of three fields."""
    path, rng = tmp_path / "t.csv", np.random.default_rng(5)
    lines = [f"{i},{a:.2f},{b:.2f},{c:.2f}" for i, (a, b, c) in enumerate(rng.normal(size=(4000, 3)))]
    path.write_text("a,b,c\n" + "\n".join(lines) + "\n", encoding="utf-8")
    model = PrivatePCA(1, epsilon=4.0, delta=1e-6, missing="correct", random_state=0)
    (note,) = [text for text in model.explain(path).guarantee.notes if "line of a CSV file" in text]
    assert "A line that does not have exactly 3 fields, like the names of the columns, is a row without" in note
    release = model.fit(path).release_
    assert note in release.guarantee.notes
    assert (
        "perhaps the lines of the file have more or fewer fields than the line with the names" in standing(release)[0]
    )
