"""Codes such as -99: the dry run names them before anything is spent, and options and settings declare them."""

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import load_release
from dpeigen.cli.app import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def words(done):
    return " ".join(done.output.split())


@pytest.fixture
def table(tmp_path):
    """Ages with -99, doses with 9999, visits with 1900-01-01, and a column in which -99 is a value."""
    rng, n = np.random.default_rng(0), 3000
    hole = rng.random((3, n)) < 0.05
    age = np.where(hole[0], -99, rng.normal(50, 10, n).round(1))
    dose = np.where(hole[1], 9999, rng.normal(100, 20, n).round(1))
    days = np.datetime64("2010-01-01") + rng.integers(0, 1000, n)
    days = np.where(hole[2], np.datetime64("1900-01-01"), days)
    rows = zip(age, dose, days, rng.normal(-99, 40, n).round(), strict=True)
    path = tmp_path / "t.csv"
    path.write_text("age,dose,day,balance\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


COMMON = ("--epsilon", 8, "--delta", 1e-6, "--missing", "correct", "--type", "day=date")


def test_the_dry_run_says_that_a_code_would_count_as_a_value(table):
    said = words(run("covariance", table, *COMMON, "--dry-run"))
    assert "No codes for missing cells are declared for age, dose, day, balance." in said
    assert "--missing-codes '-99|9999'" in said
    done = ("--missing-codes", "-99|9999|1900-01-01", "--limits", "balance=-400..200", "--outside", "missing")
    assert "No codes for missing" not in words(run("covariance", table, *COMMON, *done, "--dry-run"))


def test_declared_codes_are_missing_cells(table, tmp_path):
    codes = ("--missing-codes", "-99|1900-01-01", "--missing-codes", "dose=9999", "--missing-codes", "balance=-1")
    done = run("covariance", table, *COMMON, *codes, "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    release = load_release(tmp_path / "r")
    assert release.columns["age"].missing_codes == (-99.0,)
    np.testing.assert_allclose(release.mean[[0, 1, 3]], [50, 100, -99], atol=8)
    assert release.center_text(2).startswith("2011-0")
    assert (release.missing_shares[:3] > 0.01).all()
    assert "-99 in age; 9999 in dose; 1900-01-01 in day" in (tmp_path / "r" / "card.html").read_text(encoding="utf-8")


def test_the_settings_file_says_how(table, tmp_path):
    study = tmp_path / "study.toml"
    run("init", table, "--out", study)
    text = study.read_text(encoding="utf-8")
    assert "# missing_codes = [-99, 9999]" in text
    text = text.replace("# missing_codes = [-99, 9999]", "missing_codes = [-99, 9999, 1900-01-01]")
    text = text.replace("# epsilon", "epsilon").replace('missing = "refuse"', 'missing = "correct"')
    text = text.replace('[columns."day"]\ntype = "number"', '[columns."day"]\ntype = "date"')
    study.write_text(text.replace('[columns."balance"]', '[columns."balance"]\nmissing_codes = []'), encoding="utf-8")
    done = run("covariance", table, "--config", study, "--epsilon", 4, "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    columns = load_release(tmp_path / "r").columns
    assert columns["dose"].missing_codes == (-99.0, 9999.0)
    assert len(columns["day"].missing_codes) == 1
    assert not columns["balance"].missing_codes


def test_codes_without_missing_cells_are_told_before_anything_is_spent(table):
    said = words(run("covariance", table, "--epsilon", 4, "--missing-codes", "-99", "--dry-run"))
    assert "one such cell stops the release" in said
    assert "Give --missing correct" in said


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("-99,9999",), "separated by |"),
        (("x1",), "'missing_codes'"),
        (("age=1900-01-01",), "'missing_codes'"),
        (("size=-99",), "settings declare must be names"),
    ],
)
def test_wrong_codes_are_refused(table, wrong, told):
    done = run("covariance", table, *COMMON, "--missing-codes", *wrong, "--dry-run")
    assert done.exit_code == 2
    assert told in words(done)
