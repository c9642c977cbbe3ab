"""The terminal tells the released shares of missing cells, whatever columns are divided by."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen.cli.app import app

ROWS = 4000


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A column of decimal numbers with 30% words, one with units in all cells, and two complete ones."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("table") / "visits.csv"
    weight, age, pulse = rng.normal(70, 10, ROWS), rng.uniform(20, 80, ROWS), rng.normal(70, 9, ROWS)
    lines = ["weight,height,age,pulse"]
    for at in range(ROWS):
        cell = "n/a" if rng.random() < 0.3 else f"{weight[at]:.1f}"
        lines.append(f"{cell},171 cm,{age[at]:.0f},{pulse[at]:.0f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("command", [["covariance"], ["covariance", "--scale", "private"], ["pca", "-k", "2"]])
def test_the_terminal_names_columns_with_missing_cells(table, tmp_path, command):
    options = ["--epsilon", "2", "--delta", "1e-6", "--missing", "correct", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*command[:1], str(table), *command[1:], *options], env={"COLUMNS": "300"})
    assert result.exit_code == 0, result.output
    words = " ".join(result.output.split())
    told = words.partition("Missing cells (shares released with noise, with 95% intervals): ")[2]
    found = re.match(r"weight ([\d.]+)% \([^)]*\), height ([\d.]+)% \([^)]*\)[,;.]", told)
    assert found
    assert 20 < float(found[1]) < 40
    assert float(found[2]) > 90
    assert "Scale of the columns" not in words  # the centres and deviations stand in another table
