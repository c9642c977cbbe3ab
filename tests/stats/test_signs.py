"""Compressed sign moments: the integrals against simulation, their inverse, and stretches that are best."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.stats.refinement import Directions, SignRelease, best_split, rescale, update, worth_stretching
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


def exact(variances, basis, factors, deviation):
    """A sign moment without noise, of rows with these variances along the axes."""
    stretched = np.ones(len(variances))
    stretched[: len(factors)] = factors
    shares, _ = compression(np.array(variances) * stretched**2, 1.0, 0)
    return SignRelease(np.diag(shares[:-1]), deviation, basis, factors)


def test_a_turned_basis_is_turned_back():
    d, angle = 12, 0.05
    variances = np.array([300.0, 80.0] + [1.0] * (d - 2))
    turned = np.eye(d)[:2].copy()
    turned[0, 5], turned[0, 0] = np.sin(angle), np.cos(angle)
    known = Directions(turned, variances[:2], np.full(2, 1.0))
    factors = known.factors
    stretch = np.eye(d) + turned.T @ np.diag(factors - 1) @ turned
    rows = np.random.default_rng(2).normal(size=(200_000, d)) * np.sqrt(variances) @ stretch
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    release = SignRelease(rows.T @ rows / len(rows), 1e-6, turned, factors)
    found, _ = update(known, [release], 2)
    assert np.abs(found.basis[0, 5]) < angle / 10
    np.testing.assert_allclose(found.levels, variances[:2], rtol=0.15)  # what leaked made the rest louder
    loud, _ = update(known, [SignRelease(release.matrix, 1e3, turned, factors)], 2)  # a release that knows nothing
    assert np.abs(loud.basis[0, 5]) > 0.9 * angle


def test_directions_inside_the_noise_are_not_used():
    d = 20
    release = exact([40.0] + [1.0] * (d - 1), np.zeros((0, d)), np.zeros(0), 1e-4)
    clear, both = update(Directions.none(d), [release], 2)
    assert (len(clear.basis), len(both)) == (1, 2)
    assert clear.levels[0] == pytest.approx(40.0, rel=0.05)
    loud, _ = update(Directions.none(d), [SignRelease(release.matrix, 0.3, release.basis, release.factors)], 2)
    assert len(loud.basis) == 0


def test_stretching_is_for_strong_directions():
    basis, precision = np.eye(30)[:2], np.full(2, 1e5)
    strong = worth_stretching(Directions(basis, np.full(2, 500.0), precision), 1e-3)
    weak = worth_stretching(Directions(basis, np.full(2, 14.0), precision), 1e-3)  # both halves are as long already
    assert (len(strong.basis), len(weak.basis)) == (2, 0)


def test_radii_set_the_mean_level():
    known = Directions(np.eye(10)[:2], np.array([4.0, 2.0]), np.ones(2))
    found = rescale(known, inner=30.0, outer=2.0)
    assert found.levels[0] / found.levels[1] == pytest.approx(2.0)
    assert rescale(Directions.none(10), 1.0, 1.0).levels.size == 0


def test_the_split_is_whole_and_grows_towards_the_end():
    for noise in (1e-2, 1e-3, 1e-4):
        split = best_split(noise, 50, 3, 2)
        assert sum(split) == pytest.approx(1.0)
        assert split[-1] == max(split)
    assert best_split(1e-3, 50, 3, 0) == (1.0,)
