"""Compressed sign moments: the integrals against simulation, their inverse, and stretches that are best."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.stats.signs import compression, solve_levels, stretches

CASES = [((11.0, 5.0, 2.0), 47), ((1000.0,) * 3, 47), ((50.0,), 1), ((0.3, 4.0), 6), ((1e6,), 9)]


@pytest.mark.parametrize(("levels", "others"), CASES)
def test_shares_are_those_of_simulated_signs(levels, others):
    """200,000 rows; false alarms below 1e-6 (six standard errors)."""
    levels = np.array(levels)
    variances = np.append(levels, np.ones(others))
    rows = np.random.default_rng(0).normal(size=(200_000, len(variances))) * np.sqrt(variances)
    squares = rows**2 / np.sum(rows**2, axis=1, keepdims=True)
    shares, _ = compression(levels, 1.0, others)
    j = len(levels)
    np.testing.assert_allclose(shares[:j], squares[:, :j].mean(axis=0), atol=6 * squares.std() / 447)
    assert shares[:-1].sum() + others * shares[-1] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("levels", "others"), CASES)
def test_levels_come_back_from_shares(levels, others):
    shares, _ = compression(np.array(levels), 1.0, others)
    np.testing.assert_allclose(solve_levels(shares[:-1], others), levels, rtol=1e-3)


def test_the_weight_of_a_turn_is_a_difference_quotient():
    levels = np.array([7.0, 3.0])
    shares, weights = compression(levels, 1.0, 5)
    assert weights[0, 1] == pytest.approx((shares[0] - shares[1]) / 4.0, rel=1e-4)
    assert weights[0, 2] == pytest.approx((shares[0] - shares[2]) / 6.0, rel=1e-4)


@pytest.mark.parametrize("shares", [[0.999999, 0.5], [-0.2, 0.1], [1.0], [0.0]])
def test_noisy_shares_never_break_it(shares):
    assert np.isfinite(solve_levels(np.array(shares), 5)).all()


def test_repeated_levels_are_a_short_form():
    one, weights = compression(np.full(3, 9.0), 1.0, 4)
    short, short_weights = compression(np.array([9.0]), 1.0, 4, repeats=3)
    assert (short[0], short_weights[0, 1]) == (pytest.approx(one[0]), pytest.approx(weights[0, 3]))


def test_stretches_are_best():
    levels, others = np.array([400.0, 30.0]), 20
    best = stretches(levels, others)

    def error(t):
        return (levels @ t**2 + others) ** 2 * np.sum(1 / (t * (levels - 1)) ** 2)

    rng = np.random.default_rng(1)
    assert all(error(best) <= error(best * np.exp(0.3 * rng.normal(size=2))) for _ in range(200))
    assert levels @ best**2 == pytest.approx(others)
