"""What clipping took away is found again for elliptical rows, from the radius and the noise it was found with."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.stats import lost
from dpeigen.stats.clipping import NORMAL_TAILS, USUAL_LAWS, Clipping, _likelihood, clipping, far_likelihoods

N, D = 40_000, 4


def clipped_moment(freedom: float, radius: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(N, D))
    if np.isfinite(freedom):
        rows *= np.sqrt((freedom - 2) / rng.chisquare(freedom, size=(N, 1)))
    lengths = np.linalg.norm(rows, axis=1)
    short = rows * np.minimum(1, radius / lengths)[:, None]
    return np.linalg.eigvalsh(short.T @ short / N), float((lengths > radius).mean())


@pytest.mark.parametrize("freedom", [np.inf, 7.0])
def test_variances_of_elliptical_rows_are_found_again(freedom):
    """The radius tells tails apart only roughly: less than 60% of what was lost is off, and draws hold the rest."""
    values, share = clipped_moment(freedom, 3.2)
    found = clipping(values, 3.2, (share, 0.1 * share), 400, np.random.default_rng(0))
    missing = 1 - values.mean()
    assert missing > 0.01  # clipping took something away
    assert abs((values * found.gains).mean() - 1) < 0.6 * missing
    sizes = (values * found.gains * found.sizes).mean(axis=1)
    assert sizes.min() < 1.005
    assert sizes.max() > 1
    assert found.shortened > 0


def test_the_draws_hold_the_variances_of_very_long_rows():
    """Student's t with 3 degrees of freedom. Twin: with the laws of sign methods, which end at 3.5, they do not."""
    values, share = clipped_moment(3.0, 6.0)
    draws = []
    for count in (USUAL_LAWS, 11):
        found = clipping(values, 6.0, (share, 0.2 * share), 400, np.random.default_rng(0), count=count)
        draws.append((values * found.gains * found.sizes).mean(axis=1))
    usual, long = np.quantile(draws, 0.975, axis=1)
    assert usual < 1 < long


def test_a_radius_that_fewer_rows_are_longer_than_loses_less():
    """Rows are clipped at 4, and a share is known at 3.2. Told that it is known at 4, tails look heavier."""
    values, share = clipped_moment(7.0, 4.0)[0], clipped_moment(7.0, 3.2)[1]
    right = clipping(values, 4.0, (share, 0.1 * share), 400, np.random.default_rng(0), asked=3.2)
    wrong = clipping(values, 4.0, (share, 0.1 * share), 400, np.random.default_rng(0))
    assert abs((values * right.gains).mean() - 1) < 0.04
    assert wrong.gains.mean() > right.gains.mean() + 0.01


def test_the_likelihood_is_how_often_a_scan_stops_there():
    """20,000 scans: the frequency is within five standard errors (one false alarm in a million)."""
    shares, allowed, scale, rng = np.array([0.02, 0.05, 0.12]), 0.04, 0.01, np.random.default_rng(1)
    noise, threshold = rng.laplace(scale=scale, size=(20_000, 3)), rng.laplace(scale=scale, size=(20_000, 1))
    passed = allowed - shares + noise >= threshold
    stops = (passed[:, 0] & ~passed[:, 1:].any(axis=1)).mean()
    assert abs(_likelihood(list(shares), allowed, scale) - stops) < 5 * 0.5 / np.sqrt(20_000)
    assert abs(_likelihood(list(shares), 2 * allowed, scale) - stops) > 5 * 0.5 / np.sqrt(20_000)


def test_rows_clipped_on_purpose_lose_what_lies_beyond_the_paid_radius(monkeypatch):
    """Of a Pareto tail beyond 1.4, clipped at 1: lengths and squares, within 1%. Twin: a tail from 1 on loses more."""
    for name, value in {
        "_SHORTEST_TAIL": 0.2,
        "_LONGEST_TAIL": 0.2,
        "_COUNTED": (1.0, 1.0),
        "_NOT_FURTHER": 0.0,
    }.items():
        monkeypatch.setattr(lost, name, value)
    share, tail = 0.03, 1.4 * (1 - (np.arange(1_000_000) + 0.5) / 1_000_000) ** -0.2
    one = np.ones(1)
    cut = Clipping(one, 0.0, np.ones((50, 1)), np.zeros(50), np.zeros(50), 0.0, 1.0, share, 1.4)
    found, _ = lost.far_rows(np.eye(1), np.eye(1), 1.0, cut, None, np.random.default_rng(0))
    np.testing.assert_allclose(found.mean, share * (tail - 1).mean(), rtol=0.01)
    np.testing.assert_allclose(found.square, share * (tail**2 - 1).mean(), rtol=0.01)
    from_radius = share * 1.4**5 / 4  # the same tail drawn inwards to the radius
    assert from_radius > 1.5 * found.mean.max()


def far_weight(rows, cutoff):
    """The mean weight 1 − s⁻⁸ of rows beyond a multiple of their median norm."""
    lengths = np.linalg.norm(rows, axis=1)
    return float((1 - np.maximum(lengths / (cutoff * np.median(lengths)), 1.0) ** -8).mean())


def test_the_weight_of_far_rows_shows_heavy_tails():
    """Laws are in the order of their tails: light, normal, then Student's t with fewer and fewer freedoms."""
    rng, deviations = np.random.default_rng(0), np.array([3.0, 1.5, 1.0, 1.0, 1.0, 1.0])
    found = {}
    for freedom in (4.5, 10.0, np.inf):
        rows = rng.normal(size=(40_000, 6)) * deviations
        if np.isfinite(freedom):
            rows *= np.sqrt(freedom / rng.chisquare(freedom, size=(len(rows), 1)))
        likelihoods = far_likelihoods(deviations**2, 1.5, far_weight(rows, 1.5), 0.001, 40_000.0)
        found[freedom] = float(np.average(np.arange(len(likelihoods)), weights=likelihoods))
    assert found[np.inf] < 2.8
    assert 3.3 < found[10.0] < 5.5
    assert found[4.5] > 5.5


def test_squares_of_rows_with_decreasing_weight_are_corrected():
    """Twin: the correction for rows clipped to the radius is too small."""
    rng, values = np.random.default_rng(1), np.array([4.0, 1.0, 1.0, 1.0])
    rows = rng.normal(size=(100_000, 4)) * np.sqrt(values)
    lengths = np.linalg.norm(rows, axis=1)
    radius = float(np.quantile(lengths, 0.9))
    weighted = rows * np.minimum(1.0, (radius / lengths) ** 5)[:, None]
    squares = (weighted**2).mean(axis=0)
    normal = NORMAL_TAILS + 1e-12
    facts = radius, (0.1, 0.03), 200, np.random.default_rng(2)
    right = squares * clipping(squares, *facts, count=USUAL_LAWS, power=5, evidence=normal).gains
    np.testing.assert_allclose(right, values, rtol=0.06)
    wrong = squares * clipping(squares, *facts, count=USUAL_LAWS, evidence=normal).gains
    assert (wrong[0] < 0.9 * values[0]).all()
