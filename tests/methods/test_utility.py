"""How good the answers are: bounds that the right version keeps, and one with twice the noise does not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.evaluation import principal_angles, relative_frobenius, sin_theta
from dpeigen.methods import Gaussian, Laplace, MatrixLaplace, SpatialSign
from dpeigen.methods.base import run_method
from dpeigen.sources import ArraySource


def spiked(n=10_000, d=20, spikes=5):
    """Five directions with 70% of the variance, rows mostly inside the unit ball (SCIENCE §3)."""
    rng = np.random.default_rng(12)
    variances = np.concatenate([np.full(spikes, 0.7 / spikes), np.full(d - spikes, 0.3 / (d - spikes))])
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    rows = (rng.normal(size=(n, d)) * np.sqrt(variances)) @ basis.T
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True)), basis.T[:spikes]


X, SPIKES = spiked()


def error(method, rng, tools, **options):
    """Mean sin² of the five directions over three runs."""
    task = tools.task(X, **{"epsilon": 1.0, "bound": 1.0, "k": 5, "shrink": True, **options})
    runs = [run_method(method, ArraySource(X), task, rng) for _ in range(3)]
    return float(np.mean([np.sin(principal_angles(run.components, SPIKES)) ** 2 for run in runs]))


@pytest.mark.parametrize(
    ("method", "options", "bound"),
    [
        (MatrixLaplace(), {}, 0.0018),
        (Laplace(), {}, 0.0140),
        (Gaussian(), {"delta": 1e-6}, 0.0011),
        (SpatialSign(), {"delta": 1e-6}, 0.0012),
        (SpatialSign(), {}, 0.0028),
    ],
    ids=lambda v: getattr(v, "name", str(v)),
)
def test_directions_are_as_good_as_they_should_be(method, options, bound, tools):
    assert error(method, tools.seeded(1), tools, **options) < bound
    assert error(method, tools.faulty(1, 2.0), tools, **options) > bound  # the twin: twice the noise


def test_matrix_laplace_beats_entrywise_laplace(tools):
    assert error(MatrixLaplace(), tools.seeded(2), tools) < 0.5 * error(Laplace(), tools.seeded(2), tools)


def test_add_remove_costs_no_more_noise_than_replace(tools):
    replaced = error(Gaussian(), tools.seeded(3), tools, delta=1e-6)
    assert error(Gaussian(), tools.seeded(3), tools, delta=1e-6, relation="add_remove") < replaced


def test_shrinkage_and_projection_pay():
    """Where the noise dominates, removing its known inflation must cut the error by more than a quarter."""
    truth = X.T @ X / len(X)
    found = {}
    for shrink in (True, False):
        options = {"epsilon": 0.05, "delta": 1e-6, "bound": 1.0, "center": None, "method": "gaussian"}
        fits = [PrivateCovariance(**options, shrink=shrink, random_state=seed).fit(X) for seed in range(5)]
        found[shrink] = np.mean([relative_frobenius(fit.covariance_, truth) for fit in fits])
    assert found[True] < 0.75 * found[False]


@pytest.mark.parametrize("center", ["private", "pairs"])
@pytest.mark.parametrize("method", ["auto", "gaussian", "spatial-sign"])
def test_data_far_from_the_origin_are_centred(center, method):
    """Without centring the first component would be the direction of the mean."""
    rows = X[:, :4] @ np.diag([4.0, 1.0, 1.0, 1.0]) + [0.0, 3.0, 3.0, 3.0]
    bound = "private" if center == "private" else 4.0
    options = {"epsilon": 4.0, "delta": 1e-6, "bound": bound, "method": method, "random_state": 0}
    fitted = PrivatePCA(1, center=center, **options).fit(rows)
    truth = np.linalg.eigh(np.cov(rows.T))[1][:, -1:].T
    assert sin_theta(fitted.components_, truth) < 0.1
    left_in = PrivatePCA(1, center=None, **{**options, "bound": 8.0}).fit(rows)
    assert sin_theta(left_in.components_, truth) > 0.5
    if center == "private":
        assert np.linalg.norm(fitted.mean_ - rows.mean(axis=0)) < 0.1


def test_the_whole_way_on_a_real_table():
    """scikit-learn's breast cancer table with public column bounds: the demo's setting."""
    table = load_breast_cancer().data
    upper = np.exp2(np.ceil(np.log2(table.max(axis=0))))  # any public bounds of about the right size
    scaled = table / upper
    truth = np.cov(scaled.T, bias=True)
    options = {"epsilon": 4.0, "delta": 1e-6, "bound": (0.0, 1.0)}
    errors = [relative_frobenius(PrivateCovariance(**options, random_state=s).fit(scaled).covariance_, truth)
              for s in range(3)]  # fmt: skip
    assert np.mean(errors) < 0.75
    tight = [relative_frobenius(PrivateCovariance(**options, method=Gaussian(tighten=True), random_state=s).fit(scaled)
                                .covariance_, truth) for s in range(3)]  # fmt: skip
    loose = [relative_frobenius(PrivateCovariance(**options, method=Gaussian(), random_state=s).fit(scaled)
                                .covariance_, truth) for s in range(3)]  # fmt: skip
    assert np.mean(tight) < np.mean(loose)


def test_more_budget_and_more_rows_help(tools):
    for method in (MatrixLaplace(), Gaussian(), SpatialSign()):
        worse = error(method, tools.seeded(4), tools, delta=1e-6, epsilon=0.3)
        better = error(method, tools.seeded(4), tools, delta=1e-6, epsilon=3.0)
        assert better < 0.5 * worse
