"""Limits of single columns: by options, a settings file and in Python they hold for their own column alone."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpeigen import PrivateCovariance, load_release
from dpeigen.cli.app import app

BUDGET = ("--epsilon", "20", "--delta", "1e-6")
LIMITS = "--limits", "salt=90..110"
SETTINGS = {
    "other columns": '[columns.salt]\nlower = 90\nupper = 110\n[columns.age]\n[columns.sex]\ncategories = ["f", "m"]\n',
    "one end only": '[columns.salt]\nupper = 110\n[columns.age]\nlower = 0\n[columns.sex]\ncategories = ["f", "m"]\n',
}


def call(command, *arguments):
    return CliRunner().invoke(app, [command, *map(str, arguments)])


@pytest.fixture
def table(tmp_path):
    rng, n = np.random.default_rng(0), 4000
    columns = {"salt": rng.normal(100, 20, n), "age": rng.normal(50, 10, n), "sex": rng.choice(["f", "m"], n)}
    path = tmp_path / "table.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def planned(command, table, *arguments):
    done = call(command, table, *BUDGET, *arguments, "--dry-run", "--rows", 4000, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output[done.output.index("{") :])


def test_limits_of_one_column_leave_the_others_as_they_are(table, tmp_path):
    options = ("--skip", "sex", *LIMITS)
    assert call("covariance", table, *BUDGET, *options, "--out", tmp_path / "r").exit_code == 0
    release = load_release(tmp_path / "r")
    assert "bounds" not in release.facts
    np.testing.assert_array_equal(release.limits, [[90, -np.inf], [110, np.inf]])
    assert release.mean[1] == pytest.approx(50, abs=2)
    frame = pd.read_csv(table)[["salt", "age"]]
    columns = {"salt": {"lower": 90, "upper": 110}, ...: None}
    python = PrivateCovariance(epsilon=20, delta=1e-6, columns=columns).fit(frame).release_
    assert python.columns == release.columns
    np.testing.assert_array_equal(python.limits, release.limits)


def test_a_dry_run_shows_limits_and_whether_they_are_bounds_of_all_columns(table):
    found = planned("covariance", table, "--skip", "sex", *LIMITS)
    assert (found["limits"], found["all_bounded"]) == ({"salt": "90 to 110 (clipped)"}, False)
    shown = call("covariance", table, *BUDGET, "--skip", "sex", *LIMITS, "--dry-run").output
    assert "limits     salt 90 to 110 (clipped). Other columns are not affected." in shown
    of_all = planned("covariance", table, *LIMITS, "--limits", "age=0..120", "--category", "sex=f|m")
    assert of_all["all_bounded"]
    assert planned("covariance", table, "--columns", "salt,age", *LIMITS)["limits"] == found["limits"]


@pytest.mark.parametrize("text", SETTINGS.values(), ids=SETTINGS)
def test_a_settings_file_may_limit_single_columns(table, tmp_path, text):
    (tmp_path / "s.toml").write_text(text)
    found = planned("covariance", table, "--config", tmp_path / "s.toml")
    assert "salt" in found["limits"]
    assert not found["all_bounded"]


def test_a_regression_with_limits_of_one_column(table):
    assert not planned("ridge", table, "--skip", "sex", "--target", "age", *LIMITS)["all_bounded"]
    assert not planned("ridge", table, "--skip", "sex", "--target", "salt", *LIMITS)["all_bounded"]


@pytest.mark.parametrize("command", ["covariance", "ridge"])
@pytest.mark.parametrize("ends", [("0,1,2", "300"), ("0", "3,4,5")])
def test_bounds_are_one_number_or_one_for_each_column(table, command, ends):
    lower, upper = ends
    target = ["--target", "age"] if command == "ridge" else []
    options = (*BUDGET, *target, "--skip", "sex", "--lower", lower, "--upper", upper)
    done = call(command, table, *options, "--dry-run")
    assert done.exit_code == 2
    words = " ".join(done.output.split())
    assert "must be one number for all columns, or one for each of the 2 columns used" in words
    assert "Got 3 numbers instead" in words


def test_a_category_is_no_target_and_its_levels_are_not_suggested(table):
    done = call("ridge", table, *BUDGET, "--category", "sex=f|m", "--target", "sex", "--dry-run")
    assert done.exit_code == 2
    words = " ".join(done.output.split())
    assert "levels = ['f', 'm'] (--ordinal 'sex=f|m')" in words
    assert "sex=m'?" not in words
    declared = ("--ordinal", "sex=f|m", "--target", "sex")
    assert call("ridge", table, *BUDGET, *declared, "--dry-run").exit_code == 0
