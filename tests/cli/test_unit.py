"""``--unit`` and ``--max-rows``, on the command line and in a file of settings."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpeigen import load_release
from dpeigen.cli.app import app

RNG = np.random.default_rng(0)
WHO = RNG.integers(0, 800, 4000)
TABLE = pd.DataFrame(RNG.normal(size=(4000, 3)) * [3, 1, 1], columns=["a", "b", "c"]).assign(
    patient_id=[f"SECRET{i}" for i in WHO]
)
PEOPLE = len(set(WHO))
BUDGET = ["--epsilon", "8", "--delta", "1e-6"]


@pytest.fixture(scope="module", params=["t.csv", "t.parquet"])
def table(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("unit") / request.param
    TABLE.to_csv(path, index=False) if path.suffix == ".csv" else TABLE.to_parquet(path)
    return path


def call(*options):
    return CliRunner().invoke(app, [str(option) for option in options])


@pytest.mark.parametrize("by", ["option", "file"])
def test_releases_protect_people(table, tmp_path, by):
    (tmp_path / "s.toml").write_text('epsilon = 8\ndelta = 1e-6\ncomponents = 2\nunit = "patient_id"\n')
    given = [*BUDGET, "-k", "2", "--unit", "patient_id"] if by == "option" else ["--config", tmp_path / "s.toml"]
    done = call("pca", table, *given, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "all rows of one 'patient_id' replaced" in done.stdout
    assert "SECRET" not in done.output
    release = load_release(tmp_path / "out")
    assert release.unit == "patient_id"
    assert release.facts["n_rows"] == PEOPLE
    assert release.facts["feature_names"] == ["a", "b", "c"]
    assert "all rows of one" in (tmp_path / "out" / "card.html").read_text(encoding="utf-8")
    mapped = call("scoremap", tmp_path / "out", table, "--epsilon", "1", "--dry-run")
    assert mapped.exit_code == 0, mapped.output


def test_a_file_of_settings_that_init_wrote_lists_the_unit(table, tmp_path):
    study = tmp_path / "study.toml"
    assert call("init", table, "--out", study).exit_code == 0
    text = study.read_text(encoding="utf-8")
    assert '\nunit = "patient_id"' in text
    text = text.replace("use = false  # looks like the id", "use = FALSE  #").replace("use = false", "use = true")
    text = text.replace("use = FALSE", "use = false")
    study.write_text("\n".join(line for line in text.splitlines() if "categories" not in line), encoding="utf-8")
    done = call("pca", table, "--config", study, *BUDGET, "-k", "2", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "all rows of one 'patient_id'" in done.stdout


def test_caps_and_dry_runs(table, tmp_path):
    options = [*BUDGET, "--unit", "patient_id", "--max-rows", "3", "--lower", "-9", "--upper", "9", "--rescale"]
    plan = call("covariance", table, *options, "--dry-run", "--json")
    assert plan.exit_code == 0, plan.output
    assert "number of rows" in json.dumps(json.loads(plan.stdout))
    done = call("ridge", table, "--target", "a", *options, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert load_release(tmp_path / "out").facts["max_rows"] == 3


@pytest.mark.parametrize(
    "options", [["--unit", "nobody"], ["--unit", "patient_id", "--columns", "a,patient_id"], ["--max-rows", "3"]]
)
def test_refusals(table, tmp_path, options):
    columns = [] if "--unit" in options else ["--columns", "a,b,c"]
    done = call("pca", table, *BUDGET, "-k", "1", *columns, *options, "--out", tmp_path / "out")
    assert done.exit_code not in (0, 1, 70)
    assert "unit" in done.output
    assert "SECRET" not in done.output


@pytest.mark.parametrize("cap", [[], ["--max-rows", "3"]])
def test_a_dry_run_asks_for_the_number_of_people_and_shows_what_a_fit_pays(table, tmp_path, cap):
    """The number of rows would give another split; of a Parquet file it is known, and is not what is asked for."""
    options = ["pca", table, "--method", "whitened", "--epsilon", "2", "-k", "2", "--unit", "patient_id", *cap]
    unknown = " ".join(call(*options, "--dry-run").stdout.split())
    assert "one more to count the distinct 'patient_id'" in unknown
    assert "Give the number of distinct 'patient_id'; the number of rows is private" in unknown
    told = json.loads(call(*options, "--dry-run", "--rows", PEOPLE, "--json").stdout)
    assert call(*options, "--out", tmp_path / "out").exit_code == 0
    paid = load_release(tmp_path / "out").guarantee.split
    shown, spent = [(s["purpose"], s["cost"]) for s in told["split"]], [(s.purpose, str(s.cost)) for s in paid]
    if cap and load_release(tmp_path / "out").facts["rows_that_count"] == 1:
        # Their number is then that of the people, and what it would have cost goes to all other purposes.
        assert [purpose for purpose, _ in spent] == [purpose for purpose, _ in shown[:1] + shown[2:]]
    else:
        assert shown == spent
    other = json.loads(call(*options, "--dry-run", "--rows", len(WHO), "--json").stdout)
    assert other["split"] != told["split"]


def test_a_name_that_looks_like_an_identifier_is_warned_of(tmp_path):
    TABLE.assign(patient_id=WHO).to_csv(tmp_path / "t.csv", index=False)
    done = call("pca", tmp_path / "t.csv", *BUDGET, "-k", "1", "--bound", "900", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "warning: Column 'patient_id' looks like an identifier" in done.output
