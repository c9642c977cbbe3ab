"""`dpeigen local`: from rows to reports to components, and what is refused on the way."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dpeigen import load_release
from dpeigen.cli.app import app
from dpeigen.local import LocalAggregator, LocalParameters, write_reports


def run(*arguments):
    return CliRunner().invoke(app, ["local", *map(str, arguments)])


@pytest.fixture
def table(tmp_path):
    rows = np.random.default_rng(0).normal(size=(500, 4)) * [0.6, 0.2, 0.1, 0.1]
    path = tmp_path / "rows.csv"
    np.savetxt(path, rows, delimiter=",", header="a,b,c,d", comments="")
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["--delta", "1e-6"],
        [],
        ["--delta", "1e-6", "--site", "--most-rows", 1000],
        ["--rows", "scale", "--columns", "a,b"],
    ],
)
def test_from_rows_to_components(table, tmp_path, options):
    made = run("randomize", table, "--epsilon", 8, "--out", tmp_path / "reports", *options)
    assert made.exit_code == 0, made.output
    assert "local" in made.output
    told = run("aggregate", tmp_path / "reports", "-k", 1, "--json", "--out", tmp_path / "out")
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    assert answer["reports"] == (1 if "--site" in options else 500)
    assert answer["guarantee"]["trust"] == "local"
    assert abs(load_release(tmp_path / "out").components[0, 0]) > 0.8


def test_sparse_state_and_shuffling(table, tmp_path):
    reports, state = tmp_path / "reports", tmp_path / "state.safetensors"
    assert run("randomize", table, "--epsilon", 1, "--out", reports).exit_code == 0
    first = run("aggregate", reports, "-k", 1, "--sparse", "--state", state, "--shuffled-delta", "1e-6")
    assert first.exit_code == 0, first.output
    assert "to all but the shuffler" in first.output
    again = run("aggregate", reports, "-k", 1, "--state", state)
    assert "500 duplicate" in again.output
    assert LocalAggregator.load(state).n_reports == 500
    late = run("aggregate", reports, "-k", 1, "--state", state, "--shuffled-delta", "1e-6")
    assert late.exit_code == 2
    assert "not declared shuffled" in " ".join(late.output.split())


def test_bad_reports_are_counted_and_do_not_matter(table, tmp_path):
    reports = tmp_path / "reports"
    run("randomize", table, "--epsilon", 2, "--out", reports)
    before = json.loads(run("aggregate", reports, "-k", 1, "--json").stdout)
    write_reports(reports / "more.parquet", [b"junk", b""])
    after = json.loads(run("aggregate", reports, "-k", 1, "--json").stdout)
    assert after["refused"] == {"not a report": 2}
    assert after["components"] == before["components"]


def test_parameters_are_written_with_their_digest(tmp_path):
    path = tmp_path / "parameters.json"
    made = run("parameters", "--features", 4, "--epsilon", 1, "--out", path)
    assert made.exit_code == 0
    assert json.loads(path.read_text())["digest"] == made.output.strip()
    other = tmp_path / "sites.json"
    sites = run("parameters", "--features", 4, "--epsilon", 1, "--delta", "1e-6", "--most-rows", 50, "--out", other)
    assert json.loads(other.read_text())["parameters"]["most_rows"] == 50
    content = path.read_text()
    again = run("parameters", "--features", 4, "--epsilon", 2, "--out", path)
    assert again.exit_code == 2
    assert "exists already" in again.output
    assert (path.read_text(), sites.exit_code) == (content, 0)


def test_the_order_of_reports_is_random_over_all_files(tmp_path, monkeypatch):
    """Almost no noise: the rows can be read from the reports, and the second half is not in the second file."""
    monkeypatch.setattr("dpeigen.cli.local._PER_FILE", 20)
    path, reports = tmp_path / "rows.csv", tmp_path / "reports"
    np.savetxt(path, np.arange(1, 41) / 40, header="a", comments="")
    assert run("randomize", path, "--epsilon", 50, "--delta", "0.1", "--out", reports).exit_code == 0
    agreed = LocalParameters(**json.loads((reports / "parameters.json").read_text())["parameters"])
    made = [r for file in sorted(reports.glob("*.parquet")) for r in pq.read_table(file)["report"].to_pylist()]
    found = [LocalAggregator(agreed).add_many([report]).moment[0, 0] for report in made]
    assert len(found) == 40
    truth = (np.arange(1, 41) / 40) ** 2
    assert np.corrcoef(np.sort(found), truth)[0, 1] > 0.9  # the reports tell the rows
    assert (
        abs(np.mean(found[20:]) - np.mean(found[:20])) < 0.45
    )  # 0.5 or more if in order; else above by a chance below 1e-5


def edited(table, tmp_path):
    reports = tmp_path / "reports"
    run("randomize", table, "--epsilon", 2, "--out", reports)
    path = reports / "parameters.json"
    path.write_text(path.read_text().replace("2.0", "3.0"))
    return ["aggregate", reports, "-k", 1]


CALLS = {
    "no such file": (lambda t, d: ["randomize", t.parent / "none.csv", "--epsilon", 1, "--out", d / "r"], 3, "No such"),
    "epsilon": (lambda t, d: ["randomize", t, "--epsilon", -1, "--out", d / "r"], 2, "epsilon"),
    "bound": (lambda t, d: ["randomize", t, "--epsilon", 1, "--bound", 0, "--out", d / "r"], 2, "bound"),
    "pure site": (lambda t, d: ["randomize", t, "--epsilon", 1, "--site", "--out", d / "r"], 2, "mechanism"),
    "unlimited site": (
        lambda t, d: ["randomize", t, "--epsilon", 1, "--delta", "1e-6", "--site", "--out", d / "r"],
        2,
        "most_rows",
    ),
    "no reports": (lambda t, d: ["aggregate", d / "none", "-k", 1], 3, "No such"),
    "no parameters": (lambda t, d: ["aggregate", d, "-k", 1], 2, "no parameters"),
    "edited parameters": (edited, 2, "was changed"),
}


@pytest.mark.parametrize("name", CALLS)
def test_refusals(table, tmp_path, name):
    arguments, code, words = CALLS[name]
    result = run(*arguments(table, tmp_path))
    assert result.exit_code == code
    assert words in result.output
    assert not (tmp_path / "r").exists()


def test_reports_are_not_made_twice_into_one_folder(table, tmp_path):
    options = ["randomize", table, "--epsilon", 1, "--out", tmp_path / "reports"]
    assert run(*options).exit_code == 0
    assert "already holds reports" in run(*options).output


def test_a_row_that_is_not_finite_is_refused_without_its_values(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n0.5,0.1\nnan,987654.125\n")
    result = run("randomize", tmp_path / "rows.csv", "--epsilon", 1, "--out", tmp_path / "reports")
    assert result.exit_code == 3
    assert "987654" not in result.output
    assert not (tmp_path / "reports").exists()


def test_unapproved_parameters_are_not_served(tmp_path):
    path = tmp_path / "parameters.json"
    run("parameters", "--features", 4, "--epsilon", 1, "--out", path)
    result = run("serve", tmp_path / "kept", "--parameters", path, "--approved", "0" * 64)
    assert result.exit_code == 2
    assert "approved" in result.output


def test_a_robust_sum_is_asked_for_and_not_mixed_with_a_plain_one(table, tmp_path):
    reports, state = tmp_path / "reports", tmp_path / "state.safetensors"
    run("randomize", table, "--epsilon", 4, "--out", reports)
    first = run("aggregate", reports, "-k", 1, "--robust", "--state", state)
    assert first.exit_code == 0, first.output
    assert "were shortened" in first.output
    assert LocalAggregator.load(state).aggregate == "clipped"
    plain = run("aggregate", reports, "-k", 1, "--state", state)
    assert plain.exit_code == 2
    assert "with --robust" in " ".join(plain.output.split())


def test_a_rehearsal_is_declared_in_the_parameters(tmp_path):
    path = tmp_path / "parameters.json"
    assert run("parameters", "--features", 4, "--epsilon", 1, "--seeded-test", "--out", path).exit_code == 0
    assert json.loads(path.read_text())["parameters"]["seeded_test"] is True


def test_a_token_that_is_too_short_is_refused_and_not_shown(tmp_path):
    path, token = tmp_path / "parameters.json", tmp_path / "token"
    digest = run("parameters", "--features", 4, "--epsilon", 1, "--out", path).output.strip()
    token.write_text("hush\n")
    result = run("serve", tmp_path / "kept", "--parameters", path, "--approved", digest, "--token-file", token)
    assert result.exit_code == 2
    assert "token" in result.output
    assert "hush" not in result.output


def test_reports_are_not_posted_over_plain_http_to_another_machine(tmp_path):
    write_reports(tmp_path / "r.parquet", [b"x"])
    result = run("post", tmp_path / "r.parquet", "--url", "http://study.example")
    assert result.exit_code == 2
    assert "https://" in result.output
