"""`dpeigen plan`: a table, JSON or a picture, from public facts; one line where it cannot be done."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import PrivatePCA
from dpeigen.cli.app import app

FACTS = ["--rows", "5000", "--columns", "8", "--components", "2", "--epsilon", "1", "--delta", "1e-6"]


def plan(*options):
    return CliRunner().invoke(app, ["plan", *FACTS, *options])


def test_a_table_for_people():
    done = plan("--bound", "private", "--target", "0.2")
    assert done.exit_code == 0, done.output
    for words in (
        "Predicted sinΘ",
        "refined",
        "gaussian",
        "without privacy",
        "minimax rate",
        "best attack",
        "ε = ",
        " rows at",
    ):
        assert words in done.stdout
    assert done.stdout.count('← "auto"') == 1


def test_json_for_programs():
    done = plan("--json", "--target", "0.0001")
    found = json.loads(done.stdout)
    assert found["facts"]["n_rows"] == 5000
    assert found["target"] == {"error": 0.0001, "epsilon": None, "rows": found["target"]["rows"]}
    errors = [p["error"] for p in found["predictions"]]
    assert errors == sorted(errors)
    assert found["auto"]["method"] in [p["method"] for p in found["predictions"]]


def test_a_whole_covariance():
    done = CliRunner().invoke(app, ["plan", *FACTS[:4], "--components", "all", *FACTS[6:], "--bound", "private"])
    assert done.exit_code == 0, done.output
    assert "the whole covariance" in done.stdout
    assert "relative Frobenius" in done.stdout
    assert "whitened" in done.stdout


def test_a_method_on_request_says_what_it_assumes():
    done = plan("--center", "none", "--method", "spiked", "--method", "refined")
    assert done.exit_code == 0, done.output
    assert "spiked is not worst-case" in done.stdout
    assert "kendall" not in done.stdout


def test_a_picture(tmp_path):
    done = plan("--plot", str(tmp_path / "plan.png"), "--spectrum", "power-law:1")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "plan.png").read_bytes()[:4] == b"\x89PNG"


def test_spectra_from_files_and_numbers(tmp_path):
    values = [9.0, 5.0, 1, 1, 1, 1, 1, 1]
    np.savetxt(tmp_path / "public.csv", np.diag(values), delimiter=",")
    X = np.random.default_rng(0).normal(size=(3000, 8)) * np.sqrt(values)
    PrivatePCA(2, epsilon=2.0, delta=1e-6).fit(X).release_.save(tmp_path / "release")
    given = [",".join(map(str, values)), str(tmp_path / "public.csv"), str(tmp_path / "release")]
    found = [
        json.loads(plan("--json", "--method", "spatial-sign", "--spectrum", text).stdout)["facts"]["eigenvalues"]
        for text in given
    ]
    assert found[0] == found[1] == values
    assert len(found[2]) == 8


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--spectrum", "flat"], "spectrum"),
        (["--tails", "fat"], "tails"),
        (["--lower", "0"], "--upper"),
        (["--target", "2"], "target"),
        (["--components", "9"], "n_components"),
        (["--components", "some"], "--components"),
        (["--method", "best"], "methods"),
        (["--bound", "wide"], "bound"),
    ],
)
def test_a_mistake_is_one_line(options, word):
    done = plan(*options)
    assert done.exit_code == 2
    assert word in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "content",
    ["name,age\nAda Lovelace,36.25\n", "36.25,Ada Lovelace\n", "36.25,72.5,1\n", "36.25,1\n72.5,3\n",
     "-36.25,0\n0,72.5\n", "36.25,nan\n1,72.5\n", "", "\x00\xff\n", "36.25\n72.5\n"],
)  # fmt: skip
def test_no_cell_of_a_file_that_is_no_covariance_is_shown(tmp_path, content):
    """Somebody may have named a private table by mistake."""
    (tmp_path / "table.csv").write_text(content, encoding="latin-1")
    done = plan("--spectrum", str(tmp_path / "table.csv"))
    assert done.exit_code == 2, done.output
    assert not [cell for cell in ("Ada", "Lovelace", "36.25", "72.5") if cell in done.output]
    assert "spectrum" in done.output


def test_rows_like_those_of_a_public_table(tmp_path):
    X = np.random.default_rng(0).exponential(size=(300, 5)) * [3, 2, 1, 1, 1]
    np.savetxt(tmp_path / "public.csv", X, delimiter=",", header="a,b,c,d,e", comments="")
    common = ["plan", "--like", str(tmp_path / "public.csv"), "--rows", "4000", "-k", "1", "--epsilon", "1"]
    common += ["--delta", "1e-6", "--method", "spatial-sign"]
    done = CliRunner().invoke(app, common)
    assert done.exit_code == 0, done.output
    assert "4,000 rows × 5 columns" in done.stdout
    assert "must be public or synthetic" in done.stdout
    found = json.loads(CliRunner().invoke(app, [*common, "--json"]).stdout)
    assert found["facts"]["like"] == 300
    for options, word in ((["--spectrum", "spiked"], "like"), (["--columns", "6"], "6 columns")):
        wrong = CliRunner().invoke(app, [*common, *options])
        assert wrong.exit_code == 2
        assert word in wrong.stderr
        assert len(wrong.stderr.strip().splitlines()) == 1


def test_columns_or_a_table_must_be_given():
    done = CliRunner().invoke(app, ["plan", "--rows", "100", "-k", "1", "--epsilon", "1"])
    assert done.exit_code == 2
    assert "--like" in done.stderr


def test_methods_left_out_are_named_once_for_each_reason():
    done = plan()
    lines = [line for line in done.stdout.splitlines() if line.startswith("not planned: ")]
    assert any("gaussian, laplace" in line and line.endswith("(need --bound)") for line in lines)
    assert any("dp-pca" in line and "too short" in line for line in lines)
    assert "'X' parameter" not in done.stdout
