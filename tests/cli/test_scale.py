"""``--scale``, ``--robust`` and ``--units``, on the command line and in a file of settings."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import load_release
from dpeigen.cli.app import app

RNG = np.random.default_rng(0)
KG = RNG.normal(70, 10, 20_000)
TABLE = np.column_stack([1000 * KG + RNG.normal(0, 5000, 20_000), KG, RNG.normal(5, 0.1, 20_000)])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("scale") / "t.csv"
    np.savetxt(path, TABLE, delimiter=",", header="grams,kg,ph", comments="", fmt="%.6g")
    return path


def call(*options):
    return CliRunner().invoke(app, [str(option) for option in options])


BUDGET = ["--epsilon", "2", "--delta", "1e-6"]


@pytest.mark.parametrize("by", ["option", "file"])
def test_private_scales(table, tmp_path, by):
    (tmp_path / "s.toml").write_text('epsilon = 2\ndelta = 1e-6\ncomponents = 2\nscale = "private"\n', encoding="utf-8")
    given = [*BUDGET, "-k", "2", "--scale", "private"] if by == "option" else ["--config", tmp_path / "s.toml"]
    done = call("pca", table, *given, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    for shown in (done.stdout, call("check", tmp_path / "out").stdout):
        assert "about      the correlation matrix of the columns" in shown
        assert "Scale of the columns" in shown
    release = load_release(tmp_path / "out")
    np.testing.assert_allclose(release.scale, TABLE.std(axis=0), rtol=0.1)
    np.testing.assert_allclose(np.abs(release.components[0, :2]), 0.5**0.5, atol=0.05)
    assert "scaled columns" in (tmp_path / "out" / "card.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("rescale", [False, True])
def test_public_deviations_in_the_order_of_the_file(table, tmp_path, rescale):
    """The target comes last in a release. Rescaled columns have deviations in units of their bounds."""
    box = ["--lower", "0,0,0", "--upper", "200000,200,14", "--rescale"] if rescale else []
    given = ["ridge", table, *BUDGET, "--target", "kg", "--alpha", "1", "--scale", "10000,10,0.1", *box]
    done = call(*given, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    widths = [200_000, 14, 200] if rescale else [1, 1, 1]
    np.testing.assert_allclose(told["scale"], np.divide([10_000, 0.1, 10], widths))
    assert told["estimand"] == "covariance of columns in public units"
    slope = 0.8e-3 * (1000 if rescale else 1)
    assert told["coef"]["grams"] == pytest.approx(slope, rel=0.1)


def test_robust_and_units(table, tmp_path):
    done = call(
        "pca", table, *BUDGET, "-k", "1", "--robust", "--units", "same", "--dry-run", "--rows", "20000", "--json"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["guarantee"]["estimand"] in ("spatial signs", "Kendall's tau")
    (tmp_path / "s.toml").write_text('epsilon = 2\ncomponents = 1\nrobust = true\nunits = "same"\n', encoding="utf-8")
    given = ["pca", table, "--config", tmp_path / "s.toml", "--dry-run", "--rows", "20000", "--json"]
    assert json.loads(call(*given).stdout)["guarantee"]["estimand"] in ("spatial signs", "Kendall's tau")
    assert json.loads(call(*given, "--no-robust").stdout)["guarantee"]["estimand"] == "covariance"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scale", "a,b,c"], "--scale must be 'private', 'none', or positive numbers"),
        (["--scale", "1,2"], "one for each of the 3 columns used. Got 2 numbers"),
        (["--scale", "1,0,2"], "'scale' parameter of PrivatePCA must be"),
        (["--units", "grams"], "'units' parameter of PrivatePCA must be"),
        (["--robust", "--method", "gaussian", "--bound", "9"], "'robust' parameter of PrivatePCA must be False"),
    ],
)
def test_what_cannot_be_is_refused(table, tmp_path, options, words):
    done = call("pca", table, *BUDGET, "-k", "1", *options, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("line", ["scale = {a = 1}", 'scale = ["x"]', "robust = 1", "scale = true"])
def test_settings_that_cannot_be(table, tmp_path, line):
    (tmp_path / "s.toml").write_text(f"epsilon = 2\ncomponents = 1\n{line}\n", encoding="utf-8")
    done = call("pca", table, "--config", tmp_path / "s.toml", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output


def test_the_file_of_init_needs_no_bounds(table, tmp_path):
    assert call("init", table, "--out", tmp_path / "s.toml").exit_code == 0
    text = (tmp_path / "s.toml").read_text(encoding="utf-8").replace("# epsilon", "epsilon")
    assert "\ndelta = 1e-6 " in text  # 0 would need far more rows than most tables have
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    done = call("pca", table, "--config", tmp_path / "s.toml", "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["estimand"] == "correlation"
