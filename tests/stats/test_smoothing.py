"""Smoothed counts: a right total, nothing negative, and closer to the truth than the noisy counts."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.stats.smoothing import onto_total, smooth

GRID = np.linspace(-3, 3, 25)
SHARE = np.exp(-(GRID[:, None] ** 2) - (GRID[None] - 0.5) ** 2)
SHARE /= SHARE.sum()


@pytest.mark.parametrize(("n", "scale"), [(500, 10.0), (5_000, 4.0), (1_000_000, 1.0)])
def test_totals_are_kept_and_error_falls(n, scale):
    rng = np.random.default_rng(1)
    noisy = rng.poisson(n * SHARE) + np.rint(rng.laplace(0, scale, SHARE.shape))
    found = smooth(noisy, 2 * scale**2, float(n))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(n)
    cut = np.maximum(noisy, 0)
    assert cut.sum() > 1.001 * n or n > 10_000  # what cutting off would do to the total
    assert np.sum((found - n * SHARE) ** 2) < np.sum((noisy - n * SHARE) ** 2)


def test_no_rows_no_density():
    assert not smooth(np.array([[3.0, -2.0], [1.0, 0.0]]), 4.0, -1.0).any()


def test_nearest_point_with_a_total():
    values = np.random.default_rng(2).normal(size=(6, 6)) * 3
    found = onto_total(values, 10.0)
    kept = found > 0
    assert found.sum() == pytest.approx(10)
    assert np.ptp((values - found)[kept]) == pytest.approx(0, abs=1e-12)  # one amount for all that are left
    assert ((values - found)[~kept] <= (values - found)[kept].max() + 1e-12).all()
