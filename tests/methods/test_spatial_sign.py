"""Spatial signs: no bound, no moments, no trouble with outliers or with the size of the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.evaluation import sin_theta
from dpeigen.methods import SpatialSign
from dpeigen.methods.base import run_method
from dpeigen.sources import ArraySource

N, D = 4000, 5
SCALES = np.array([5.0, 3.0, 1.0, 1.0, 1.0])
X = np.random.default_rng(21).normal(size=(N, D)) * SCALES


def pca(k=2, **options):
    options = {"epsilon": 2.0, "delta": 1e-6, "method": "spatial-sign", "center": None, "random_state": 0, **options}
    return PrivatePCA(k, **options)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_length_of_a_row_does_not_matter_for_the_directions(delta):
    """Powers of two change no bit of a direction; any other factor only its rounding on the lattice."""
    rng = np.random.default_rng(0)
    plain = pca(delta=delta).fit(X)
    exact = pca(delta=delta).fit(X * np.exp2(rng.integers(-300, 300, size=(N, 1))))
    rounded = pca(delta=delta).fit(X * rng.lognormal(sigma=5.0, size=(N, 1)))
    for other, tolerance in ((exact, 0.0), (rounded, 1e-5)):
        first, second = (np.sort(np.abs(e.components_), axis=0) for e in (plain, other))  # the order is by variance
        np.testing.assert_allclose(first, second, atol=tolerance)


def test_the_estimate_scales_with_the_data():
    """By a power of the grid's ratio every number scales along exactly, where noise moves no radius."""
    plain, scaled = (pca(center="private", epsilon=500.0).fit(factor * (X + 1.0)) for factor in (1, 16))
    np.testing.assert_array_equal(plain.components_, scaled.components_)
    np.testing.assert_array_equal(256 * plain.explained_variance_, scaled.explained_variance_)
    np.testing.assert_array_equal(16 * plain.mean_, scaled.mean_)


@pytest.mark.parametrize("center", [None, "private", "pairs"])
def test_one_huge_row_changes_little(center):
    rows = X.copy()
    rows[17] = 1e200 * np.array([0.0, 0.0, 0.0, 1.0, 1.0])
    fitted = pca(center=center).fit(rows)
    truth = np.eye(D)[:2]
    assert sin_theta(fitted.components_, truth) < 0.1
    assert fitted.explained_variance_[0] < 40.0
    # The twin: plain components follow the one row.
    plain = np.linalg.svd(rows / 1e200, full_matrices=False)[2][:2]
    assert sin_theta(plain, truth) > 0.9


def test_a_tenth_of_outliers_does_not_turn_the_directions():
    rows = X.copy()
    rows[: N // 10] = 1e6 * np.array([0.0, 0.0, 0.0, 0.0, 1.0]) + np.random.default_rng(1).normal(size=(N // 10, D))
    assert sin_theta(pca().fit(rows).components_, np.eye(D)[:2]) < 0.25
    assert sin_theta(np.linalg.svd(rows, full_matrices=False)[2][:2], np.eye(D)[:2]) > 0.9


def test_heavy_tails_without_moments():
    rows = np.random.default_rng(4).standard_cauchy(size=(N, 1)) * X  # elliptical, infinite variance
    assert sin_theta(pca().fit(rows).components_, np.eye(D)[:2]) < 0.1


@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e300, 1e-300, 5e-324])
@pytest.mark.parametrize("center", [None, "private", "pairs"])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_huge_and_tiny_numbers_raise_nothing(scale, center, relation):
    if center == "pairs":
        relation = "replace"
    options = {"epsilon": 2.0, "delta": 1e-6, "center": center, "relation": relation, "random_state": 0}
    for estimator in (PrivatePCA(2, **options), PrivateCovariance(**options)):
        release = estimator.fit(X * scale).release_
        assert np.isfinite(release.covariance).all()
        assert np.isfinite(release.components).all()
        assert (release.eigenvalues >= 0).all()
    if center != "private" and scale > 5e-324:
        # Signs need no scale; a private centre is looked for between 2^−48 and 2^48 only.
        assert sin_theta(pca(center=center, relation=relation).fit(X * scale).components_, np.eye(D)[:2]) < 0.1


@pytest.mark.parametrize("row", [[0.0] * 5, [1e-320, 0, 0, 0, 0], [1.7e308] * 5, [-0.0] * 5])
def test_rows_at_the_centre_and_beyond_squares(row, tools):
    rows = np.tile(row, (50, 1))
    estimate = run_method(
        SpatialSign(), ArraySource(rows), tools.task(rows, epsilon=4.0, bound=1.0, k=2), tools.seeded(0)
    )
    assert np.isfinite(estimate.covariance).all()
    np.testing.assert_allclose(estimate.components @ estimate.components.T, np.eye(2), atol=1e-12)


def test_a_row_at_the_centre_counts_for_no_direction(tools):
    rows = np.vstack([X, np.zeros((N, D))])
    task = tools.task(rows, epsilon=4.0, delta=1e-6, bound=3.0, k=2)
    with_zeros = run_method(SpatialSign(), ArraySource(rows), task, tools.Silent())
    task = tools.task(X, epsilon=4.0, delta=1e-6, bound=3.0, k=2)
    without = run_method(SpatialSign(), ArraySource(X), task, tools.Silent())
    np.testing.assert_array_equal(with_zeros.components, without.components)
    np.testing.assert_allclose(2 * with_zeros.eigenvalues, without.eigenvalues, rtol=1e-12)


def test_the_note_says_what_the_variances_are():
    fitted = pca().fit(X)
    assert any("clipped to the radius" in note for note in fitted.guarantee_.notes)
    purposes = [spend.purpose for spend in fitted.guarantee_.split]
    assert sorted(purposes) == ["directions", "radius for the scores", "variances"]
