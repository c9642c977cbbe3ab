"""`dpeigen demo` writes releases that load and pictures that are pictures, and says what they cost."""

import numpy as np
import pytest
from typer.testing import CliRunner

from dpeigen import load_release, load_score_map
from dpeigen.cli.app import app
from dpeigen.cli.demo import COVARIANCE_BUDGET, COVARIANCE_COLUMNS, PCA_BUDGET


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "demo"
    return CliRunner().invoke(app, ["demo", "--out", str(out)]), out


def test_it_runs(ran):
    result, _ = ran
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("folder", "budget", "shape"),
    [("pca", PCA_BUDGET, (2, 30)), ("covariance", COVARIANCE_BUDGET, (COVARIANCE_COLUMNS, COVARIANCE_COLUMNS))],
)
def test_releases_load_and_are_private(ran, folder, budget, shape):
    release = load_release(ran[1] / folder)
    assert release.components.shape == shape
    assert release.guarantee.is_private
    assert (release.guarantee.epsilon, release.guarantee.delta) == budget
    assert release.feature_names[0] == "mean radius"


def test_release_is_useful(ran):
    """The first component is an overall size: the sum of its loadings is 4.55 ± 0.07 in 3000 seeded runs (least: 3.80).

    A direction without information has 0 ± 1, so 2.5 tells them apart; false alarms are below 1e-6.
    """
    assert load_release(ran[1] / "pca").components[0].sum() > 2.5


def test_the_map_tells_the_classes_apart(ran):
    """Centres of the classes are 1.0 apart along the first component, with noise of deviation below 0.1."""
    found = load_score_map(ran[1] / "map")
    assert found.guarantee.is_private
    assert found.total.epsilon == 3.0
    first, second = found.centroids().points
    assert abs(first[0] - second[0]) > 0.3


def test_pictures(ran):
    for name in ("scree.png", "biplot.png", "map.png"):
        content = (ran[1] / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000


def test_it_says_what_matters(ran):
    text = " ".join(ran[0].output.split())
    for words in (
        "(2, 1e-06)-differential privacy, one row replaced",
        "public bounds",
        "What the budget was spent on",
        "largest loadings",
        "(2, 1e-06) + (2, 1e-06) + (1, 0) = (5, 2e-06)",
        "at no further cost",
        "malignant",
        "If nobody is trusted with the rows",
        "scree.png",
        "map.png",
    ):
        assert words in text


def test_every_run_differs(ran, tmp_path):
    CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    first, second = (load_release(folder / "pca").components for folder in (ran[1], tmp_path))
    assert not np.array_equal(first, second)
