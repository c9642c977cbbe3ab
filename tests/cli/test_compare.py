"""`dpeigen compare`: public data only, files and pictures, exit codes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen.cli.app import app

MADE = ["--synthetic", "spiked:rows=500,columns=4,spikes=2"]
QUICK = ["--epsilon", "1,4", "-k", "2", "--repetitions", "2", "--seed", "1", "--workers", "1", "--delta", "1e-6"]
QUICK += ["--bound", "12", "--method", "gaussian,spatial-sign"]


def run(*arguments: object):
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


@pytest.fixture
def public(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 3)) * [3.0, 1.0, 0.5]
    np.savetxt(tmp_path / "public.csv", rows, delimiter=",", header="a,b,c", comments="")
    return tmp_path / "public.csv"


def test_a_table_must_be_declared_public(public):
    refused = run("--data", public, *QUICK)
    assert refused.exit_code == 2
    assert "--public" in refused.output
    assert "private data" in refused.output
    assert "0." not in refused.output  # no error is told
    assert run("--data", public, "--public", *QUICK).exit_code == 0


def test_results_picture_and_table(public, tmp_path):
    out, plot = tmp_path / "results.csv", tmp_path / "picture.png"
    result = run("--data", public, "--public", "--columns", "a,b,c", "--out", out, "--plot", plot, *QUICK)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    for words in ("sin_theta", "gaussian", "spatial-sign", "non-private", "ε = 4", "Seed 1", "results.csv"):
        assert words in text
    assert len(out.read_text(encoding="utf-8").splitlines()) == 1 + (2 * 2 + 1) * 2
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_categories_and_column_bounds(tmp_path):
    lines = ["age,sex,weight"] + [f"{20 + i % 60},{'fm'[i % 2]},{60 + i % 31}" for i in range(400)]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    call = ["--data", tmp_path / "people.csv", "--public", "--category", "sex=f|m", "--lower", "0,0,0,0"]
    call += ["--upper", "120,1,1,200", "--epsilon", "4", "--method", "gaussian", "--delta", "1e-6"]
    result = run(*call, "--repetitions", "1", "--workers", "1", "--json")
    assert result.exit_code == 0, result.output
    assert "400×4" in json.loads(result.stdout)["setting"]["data"]["about"]


def test_json(tmp_path):
    result = run(*MADE, *QUICK, "--json", "--out", tmp_path / "r.parquet")
    told = json.loads(result.stdout)
    assert told["setting"]["seed"] == 1
    assert {entry["method"] for entry in told["summary"]} == {"gaussian", "spatial-sign", "non-private"}
    assert told["summary"][0]["sin_theta"]["median"] > 0
    assert told["written"] == [str(tmp_path / "r.parquet")]


def test_refusals_are_told(tmp_path):
    result = run(*MADE, *QUICK, "--delta", "0")
    assert result.exit_code == 0
    assert "must be > 0 for method='gaussian'" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["--epsilon", "1"], "--synthetic", 2),
        ([*MADE, "--data", "x.csv", "--public", "--epsilon", "1"], "--synthetic", 2),
        (["--data", "none.csv", "--public", "--epsilon", "1"], "No such file", 3),
        (["--synthetic", "spiked:rows=5", "--epsilon", "1"], "columns", 2),
        ([*MADE, "--epsilon", "1,much"], "--epsilon", 2),
        ([*MADE, "--epsilon", "1", "--bound", "wide"], "--bound", 2),
        ([*MADE, "--epsilon", "1", "--lower", "0"], "--upper", 2),
        ([*MADE, "--epsilon", "1", "--bound", "1", "--lower", "0", "--upper", "1"], "--bound", 2),
        ([*MADE, "--epsilon", "1", "--method", "magic"], "'method'", 2),
        ([*MADE, "--epsilon", "1", "--out", "r.txt"], "'out'", 2),
        ([*MADE, "--epsilon", "1", "--plot", "r.txt"], "--plot", 2),
        ([*MADE, "--epsilon", "1", "--plot", "nowhere/r.png"], "--plot", 2),
        ([*MADE, "--epsilon", "1", "--metric", "sin_theta"], "--metric", 2),
        ([*MADE, "--epsilon", "1", "--metric", "luck", "-k", "2"], "--metric", 2),
    ],
)
def test_wrong_calls(arguments, words, code):
    result = run(*arguments)
    assert result.exit_code == code
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_another_setting_is_refused(tmp_path):
    out = ["--out", tmp_path / "r.csv"]
    assert run(*MADE, *QUICK, *out).exit_code == 0
    assert run(*MADE, *QUICK, *out).exit_code == 0
    result = run(*MADE, *QUICK, *out, "--delta", "1e-5")
    assert result.exit_code == 2
    assert "another setting" in result.output


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch):
    from dpeigen.evaluation import running

    run_cell, calls = running.run_cell, []

    def stopping(work, cell):
        calls.append(cell)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return run_cell(work, cell)

    out = ["--out", tmp_path / "r.csv"]
    monkeypatch.setattr(running, "run_cell", stopping)
    stopped = run(*MADE, *QUICK, *out)
    assert stopped.exit_code == 130
    assert "same command to resume" in stopped.output
    monkeypatch.setattr(running, "run_cell", run_cell)
    assert run(*MADE, *QUICK, *out).exit_code == 0
