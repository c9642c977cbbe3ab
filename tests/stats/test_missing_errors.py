"""The error of a covariance whose entries come from different rows, and regressions on it."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivateCovariance
from dpeigen.privacy.randomness import made_up_generator
from dpeigen.ridge import _missing_deviation
from dpeigen.stats.missing_errors import missing_errors


def corrected(rows, seen, rng):
    """The second moment of rows with missing cells, divided by the shares of rows that have them."""
    present = rng.random(rows.shape) < seen
    filled, shares = np.where(present, rows, 0.0), present.mean(axis=0)
    both = np.outer(shares, shares)
    np.fill_diagonal(both, shares)
    return filled.T @ filled / len(rows) / both


def test_the_law_is_that_of_rows_with_missing_cells():
    """Covariances of all entries with each other, to 12% of their size in 3,000 draws; and along a constant sum."""
    rng = np.random.default_rng(0)
    root, seen, n = np.array([[1.0, 0.0], [0.8, 0.6], [-1.8, -0.6]]), np.array([0.7, 0.9, 0.8]), 500
    exact = root @ root.T  # the columns add up to 0
    true = []
    for _ in range(3000):
        rows = rng.normal(size=(n, 2)) @ root.T
        true.append(corrected(rows, seen, rng) - rows.T @ rows / n)
    drawn = missing_errors(exact, seen, n, 3000, made_up_generator(1))
    assert drawn == pytest.approx(np.swapaxes(drawn, 1, 2))
    upper = np.triu_indices(3)
    found, expected = (np.cov(np.asarray(part)[:, upper[0], upper[1]].T) for part in (drawn, true))
    sizes = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs(found - expected).max() < 0.12 * sizes.max()
    assert np.abs((found - expected) / sizes).max() < 0.2
    whole, same = (np.asarray(part).sum(axis=(1, 2)).std() for part in (drawn, true))
    assert whole == pytest.approx(same, rel=0.15)


def test_nothing_is_added_without_missing_cells():
    assert not missing_errors(np.eye(3), np.ones(3), 100.0, 5, made_up_generator(1)).any()


def test_intervals_of_coefficients_cover_with_many_missing_cells():
    """75 coefficients, of which 0.87 were covered before: errors were those of sampling, made larger."""
    make = np.random.default_rng(6)
    root, coef = make.normal(size=(5, 2)), make.normal(size=5)
    covered = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(6000, 2)) @ root.T + 0.4 * rng.normal(size=(6000, 5))
        rows = np.column_stack([features, features @ coef + rng.normal(size=6000)])
        rows[rng.random(rows.shape) < 0.3] = np.nan
        fit = PrivateCovariance(epsilon=5.0, delta=1e-6, missing="correct", random_state=seed).fit(rows)
        low, high = fit.release_.regression(5).intervals
        covered.append((low <= coef) & (coef <= high))
    assert np.mean(covered) > 0.9


@pytest.mark.parametrize("center", ["private", "pairs"])
def test_the_penalty_knows_how_far_missing_cells_move_a_covariance(center):
    """A pair of rows has a cell only if both have it: with the shares of rows it was 2.3 times too small for pairs."""
    seen, bounds, moved, stated = 0.7, (np.full(3, -5.0), np.full(3, 5.0)), [], []
    options = {"epsilon": 2000.0, "delta": 1e-6, "missing": "correct", "bound": bounds, "method": "gaussian"}
    for seed in range(30):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(2000, 3))
        whole = np.cov(rows.T)
        rows[rng.random(rows.shape) > seen] = np.nan
        release = PrivateCovariance(center=center, random_state=seed, **options).fit(rows).release_
        moved.append((release.covariance - whole)[np.triu_indices(3, 1)])
        stated.append(_missing_deviation(release, [0, 1, 2], 2000.0) * np.mean(release.noise_units**2))
    assert 0.75 < np.mean(stated) / np.sqrt(np.mean(np.square(moved))) < 1.35


def test_a_residual_below_0_gives_no_overflow():
    """Missing cells made the measured residual variance negative here: partial correlations are then not known."""
    make, rng = np.random.default_rng(6), np.random.default_rng(3)
    root, coef = make.normal(size=(5, 5)), make.normal(size=5)
    features = rng.normal(size=(6000, 5)) @ root.T + 0.5 * rng.normal(size=(6000, 5))
    rows = np.column_stack([features, features @ coef + rng.normal(size=6000)])
    rows[rng.random(rows.shape) < 0.3] = np.nan
    fit = PrivateCovariance(epsilon=5.0, delta=1e-6, missing="correct", random_state=0).fit(rows)
    found = fit.release_.regression(5)
    assert found.r_squared == 1.0
    assert all((ends == sign).all() for ends, sign in zip(found.partial_correlation_intervals, (-1, 1), strict=True))
