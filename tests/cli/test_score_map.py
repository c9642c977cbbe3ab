"""`dpeigen scoremap`: maps from files, exit codes, and silence about the values of the data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import Ledger, PrivatePCA, load_score_map
from dpeigen.cli.app import app
from dpeigen.sources import open_source

FEATURES = ["age", "dose", "sex=f", "sex=m"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("map")
    rng = np.random.default_rng(0)
    site = rng.integers(0, 2, size=2000)
    lines = ["site,age,dose,sex"]
    for s, (a, d) in zip(site, rng.normal(size=(2000, 2)), strict=True):
        lines.append(f"{'north' if s else 'secret-site'},{a + 4 * s},{3 * d},{'fm'[int(a > 0)]}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    source = open_source(folder / "table.csv", columns=["age", "dose", "sex"], categories={"sex": ["f", "m"]})
    PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=10.0).fit(source).release_.save(folder / "release")
    return folder


def call(folder, out, *options):
    arguments = ["scoremap", str(folder / "release"), str(folder / "table.csv"), "--category", "sex=f|m"]
    return CliRunner().invoke(app, [*arguments, "--epsilon", "1", "--out", str(out), *options])


def test_a_folder_of_a_map_is_checked_as_one(folder, tmp_path):
    out = tmp_path / "map"
    assert call(folder, out).exit_code == 0
    good = CliRunner().invoke(app, ["check", str(out)])
    assert good.exit_code == 0, good.output
    assert "A score map. Complete" in good.output
    assert "release.safetensors" in good.output
    card = CliRunner().invoke(app, ["card", str(out)])
    assert card.exit_code == 2
    assert "holds a score map, which has no card" in card.output
    assert not (out / "card.html").exists()
    with (out / "release.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"x")
    bad = CliRunner().invoke(app, ["check", str(out)])
    assert bad.exit_code != 0
    assert "Do not use it" in bad.output


def test_a_map_with_labels(folder, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=2.0)
    result = call(
        folder, tmp_path / "out", "--label", "site", "--labels", "north,south", "--ledger", str(ledger.path), "--json"
    )
    assert result.exit_code == 0, result.output
    found = load_score_map(tmp_path / "out")
    answer = json.loads(result.stdout)
    assert [line["label"] for line in answer["classes"]] == ["north", "south"]
    north, south = answer["classes"]
    assert north["shown"]
    assert abs(south["count"]) < 160 < north["count"]  # noise of scale 8: beyond it with probability below 1e-8
    assert answer["total"]["epsilon"] == found.total.epsilon
    assert found.feature_names == FEATURES
    assert [entry["what"] for entry in ledger.history()] == ["score map"]
    assert (tmp_path / "out" / "map.svg").stat().st_size > 1000
    assert (tmp_path / "out" / "map.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "out" / "map.svg").read_text(encoding="utf-8")
    assert "secret-site" not in result.output + drawn
    assert "date>" not in drawn  # nothing says when, to the microsecond, the fit was over


def test_a_map_without_labels_and_a_paid_folder(folder, tmp_path):
    result = call(folder, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "Map written to" in result.output
    again = call(folder, tmp_path / "out")
    assert again.exit_code == 2
    assert "paid for" in again.output


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_dry_run(folder, tmp_path, options):
    ledger = Ledger.create(tmp_path / "l", epsilon=1.0)
    result = call(folder, tmp_path / "out", "--dry-run", "--ledger", str(ledger.path), *options)
    assert result.exit_code == 0, result.output
    assert "density" in result.output
    assert not (tmp_path / "out").exists()
    assert ledger.history() == []


def test_it_needs_a_folder(folder):
    arguments = ["scoremap", str(folder / "release"), str(folder / "table.csv"), "--category", "sex=f|m"]
    result = CliRunner().invoke(app, [*arguments, "--epsilon", "1"])
    assert (result.exit_code, "--out" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--label", "site"], 2),
        (["--labels", "a,b"], 2),
        (["--label", "nowhere", "--labels", "a,b"], 2),
        (["--category", "sex"], 2),
        (["--by-class", "density"], 2),
    ],
)
def test_refusals(folder, tmp_path, options, code):
    result = call(folder, tmp_path / "out", *options)
    assert result.exit_code == code, result.output
    assert result.output.count("\n") == 1
    assert "secret-site" not in result.output


def test_the_ledger_refuses(folder, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=0.5)
    result = call(folder, tmp_path / "out", "--ledger", str(ledger.path))
    assert result.exit_code == 4
    assert not (tmp_path / "out" / "release.json").exists()


def test_a_map_of_a_rescaled_release_is_in_its_units(tmp_path):
    """Raw rows would all lie far beyond an edge of the window."""
    rows = 100 + np.random.default_rng(0).normal(size=(2000, 3)) * [15.0, 8.0, 2.0]
    table = tmp_path / "table.csv"
    np.savetxt(table, rows, delimiter=",", header="a,b,c", comments="")
    common = ["--epsilon", "8", "--json"]
    bounds = ["--lower", "0", "--upper", "200", "--rescale"]
    out = CliRunner().invoke(
        app, ["pca", str(table), "-k", "2", *common, "--delta", "1e-6", *bounds, "--out", str(tmp_path / "release")]
    )
    assert out.exit_code == 0, out.output
    out = CliRunner().invoke(
        app, ["scoremap", str(tmp_path / "release"), str(table), *common, "--out", str(tmp_path / "map")]
    )
    assert out.exit_code == 0, out.output
    counts = load_score_map(tmp_path / "map").counts.sum(axis=0)
    inside = counts[1:-1, 1:-1].sum()
    assert inside > 1800  # of 2,000 rows, and not in the cells at the edge
