"""Release files of all versions are read, and everything that a release can do works on them.

The folders were written by the version they are named after, with `save`, from 4,000 made-up rows of four columns
(since 0.2.0 by tools/compatibility.py).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpeigen import load_release
from dpeigen.cli.app import app
from dpeigen.report import write_card

FOLDERS = sorted(p.parent for p in Path(__file__).parent.glob("*/*/release.json"))


@pytest.fixture(params=FOLDERS, ids=lambda p: f"{p.parent.name}-{p.name}")
def folder(request):
    return request.param


def test_there_are_files_of_earlier_versions():
    assert {folder.parent.name for folder in FOLDERS} >= {"0.1.0", "0.2.0"}
    assert len(FOLDERS) >= 16


def test_a_release_is_read_with_its_guarantee_and_its_numbers(folder):
    release = load_release(folder)
    assert release.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    assert release.guarantee.unit == "row"
    assert list(release.facts["feature_names"]) == ["height", "weight", "age", "pulse"]
    assert "NOT PRIVATE" in str(release)  # they were made with a seed
    if release.components is not None:
        gram = release.components @ release.components.T
        assert gram == pytest.approx(np.eye(len(gram)), abs=1e-9)
        rows = pd.DataFrame(np.ones((3, 4)), columns=["height", "weight", "age", "pulse"])
        scores = release.to_sklearn(mean=np.zeros(4)).transform(rows)
        assert scores.shape == (3, len(release.components))
        assert np.isfinite(scores).all()


def test_intervals_are_given_or_refused_in_words_and_ridge_works(folder):
    release = load_release(folder)
    if folder.parent.name == "0.1.0":
        with pytest.raises(ValueError, match="older version"):
            release.intervals()
    elif folder.name != "pca-oja":  # has none in any version
        low, high = release.intervals().components
        assert (low <= high).all()
    if release.kind == "covariance":
        coefficients = release.ridge("pulse", alpha=1.0)
        assert np.isfinite(coefficients.coef).all()


def test_card_and_check_work(folder, tmp_path):
    release = load_release(folder)
    release.save(tmp_path / "again")
    assert (tmp_path / "again/release.safetensors").read_bytes() == (folder / "release.safetensors").read_bytes()
    result = CliRunner().invoke(app, ["check", str(folder)])
    assert result.exit_code == 0, result.output
    if folder.name in ("covariance-whitened", "pca-kendall"):  # drawing takes seconds
        assert "height" in write_card(release, tmp_path / "card").read_text(encoding="utf-8")
