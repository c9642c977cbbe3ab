"""Columns that could not be read: the terminal says how many cells are missing, and gives no numbers in their place."""

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.cli._show import components_table, console, show_release
from dpeigen.report.results import standing, variance_cells
from dpeigen.sources import open_source
from dpeigen.sources.arrow import columns_of


@pytest.fixture(scope="module")
def half_readable(tmp_path_factory):
    """Decimal commas that nobody declared: the second of two columns is unreadable."""
    path, rng = tmp_path_factory.mktemp("table") / "visits.csv", np.random.default_rng(0)
    cells = np.column_stack([rng.integers(18, 90, 4000), rng.normal(size=4000)])
    lines = [f"{a:.0f};{b:.1f}".replace(".", ",") for a, b in cells]
    path.write_text("age;score\n" + "\n".join(lines) + "\n", encoding="utf-8")
    options = {"epsilon": 2.0, "delta": 1e-6, "scale": "private", "missing": "correct", "random_state": 0}
    return PrivatePCA(2, **options).fit(open_source(path, separator=";")).release_


def shown(what):
    out = console()
    with out.capture() as said:
        what(out)
    return said.get()


def test_the_terminal_shows_the_paid_shares_of_missing_cells(half_readable):
    text = shown(lambda out: show_release(out, half_readable, "Private PCA"))
    assert "missing cells" in text
    (row,) = [line for line in text.splitlines() if line.startswith("│ score")]
    assert row.rstrip("│ ").endswith(f"{100 * half_readable.missing_shares[1]:.1f}%")
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
    assert any(said.endswith("that could be measured: nothing is known about x4.") for said in standing(release))


def test_repeated_names_of_columns_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,a,c,b\n1,2,3,4,5\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"Got \['a', 'b'\] more than once\. Rename columns in the file\."):
        columns_of(tmp_path / "t.csv")
