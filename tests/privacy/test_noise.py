"""Noise on symmetric matrices: moments, exact laws where they are known, and audits.

False alarms: at most 1e-6 per seeded test over the choice of seed, 1e-9 per unseeded one; twins carry planted faults.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpeigen.auditing.events import audit
from dpeigen.privacy import ApproximateCost, ConcentratedCost, GaussianCost, PureCost, randomness
from dpeigen.privacy.noise import (
    continuous_grid,
    draw_ahead,
    matrix_laplace,
    perturb,
    round_to_grid,
    symmetric_gaussian,
    symmetric_laplace,
)

SEEDED, SYSTEM = 1e-6, 1e-9
CLT = 1e-8  # for z-tests: leaves a factor of a hundred for the central limit theorem's error


def isometric(matrices):
    """(diagonal, √2·upper triangle): Euclidean norm here is the Frobenius norm there."""
    d = matrices.shape[-1]
    upper = np.triu_indices(d, 1)
    return np.concatenate([np.diagonal(matrices, axis1=1, axis2=2), math.sqrt(2) * matrices[:, upper[0], upper[1]]], 1)


def second_moments(vectors):
    return np.einsum("ni,nj->nij", vectors, vectors)


@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("state", [None, 0])
def test_noise_is_symmetric_and_integer_where_it_should_be(d, state):
    rng = randomness(state)
    for noise, kind in (
        (symmetric_gaussian(d, 1e4, rng), np.int64),
        (symmetric_laplace(d, 1e4, rng), np.int64),
        (matrix_laplace(d, 1.0, rng), np.float64),
    ):
        assert noise.shape == (d, d)
        assert noise.dtype == kind
        np.testing.assert_array_equal(noise, noise.T)


def test_gaussian_noise_is_isotropic_in_isometric_coordinates(chance):
    """Variance σ² on the diagonal, σ²/2 off it, all uncorrelated: the covariance is σ²·I there."""
    d, sigma, n, rng = 3, 1000.0, 20_000, randomness(41)
    draws = np.stack([symmetric_gaussian(d, sigma, rng) for _ in range(n)]) / sigma
    wanted = np.eye(d * (d + 1) // 2)
    assert chance.means(isometric(draws), 0.0) > CLT
    assert chance.means(second_moments(isometric(draws)), wanted) > CLT
    # Planted fault: independent N(0, σ²) on the whole upper triangle, as several papers have it.
    wide = draws * np.where(np.eye(d), 1, math.sqrt(2))
    assert chance.means(second_moments(isometric(wide)), wanted) < CLT
    # An independent construction of the same law passes: all d² entries, averaged with the transpose.
    full = randomness(42).normal((n, d, d))
    assert chance.means(second_moments(isometric((full + full.swapaxes(1, 2)) / 2)), wanted) > CLT


def test_gaussian_noise_from_the_system_has_its_variances():
    """Sums of squares are σ²·χ²; at σ = 1000 steps the discrete law's error is below 1e-6."""
    d, sigma = 150, 1000.0
    noise = symmetric_gaussian(d, sigma, randomness(None))
    upper = noise[np.triu_indices(d, 1)]

    def surprise(values, scale):
        squares = np.sum((values / scale) ** 2)
        return 2 * min(stats.chi2.cdf(squares, len(values)), stats.chi2.sf(squares, len(values)))

    assert surprise(np.diag(noise), sigma) > SYSTEM
    assert surprise(upper, sigma / math.sqrt(2)) > SYSTEM
    assert surprise(upper, sigma) < SYSTEM  # planted fault: the diagonal's scale off the diagonal


def test_laplace_noise_is_independent_on_the_upper_triangle(chance):
    d, scale = 150, 2.0
    noise = symmetric_laplace(d, scale, randomness(None))
    ratio = math.exp(-1 / scale)
    pmf = {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-10, 11)}
    draws = noise[np.triu_indices(d)]
    assert chance.counts(draws, pmf) > SYSTEM
    assert chance.counts(noise.ravel()[: len(draws)] + noise.ravel()[-len(draws) :], pmf) < SYSTEM  # planted: twice


def wishart_noise(d, scale, freedom, normals):
    """W₁ − W₂ by its definition, with any degrees of freedom."""
    first, second = normals(d, freedom), normals(d, freedom)
    return scale * (first @ first.swapaxes(-1, -2) - second @ second.swapaxes(-1, -2))


def test_matrix_laplace_moments(chance):
    """E = 0, variance 2(d+1)s² off the diagonal and 4(d+1)s² on it, no correlations."""
    d, s, n, rng = 3, 0.7, 40_000, randomness(43)
    draws = np.stack([matrix_laplace(d, s, rng) for _ in range(n)])
    wanted = 4 * (d + 1) * s**2 * np.eye(d * (d + 1) // 2)
    assert chance.means(isometric(draws), 0.0) > CLT
    assert chance.means(second_moments(isometric(draws)), wanted) > CLT
    fault = randomness(44)  # planted: d degrees of freedom instead of d+1
    fewer = wishart_noise(d, s, d, lambda a, b: fault.normal((n, a, b)))
    assert chance.means(second_moments(isometric(fewer)), wanted) < CLT
    assert chance.means(isometric(draws + 0.1), 0.0) < CLT


def test_matrix_laplace_in_one_dimension_is_laplace(chance):
    s, rng = 0.7, randomness(45)
    draws = np.array([matrix_laplace(1, s, rng)[0, 0] for _ in range(30_000)])
    assert chance.cdf(draws, stats.laplace(scale=2 * s).cdf) > SEEDED
    assert chance.cdf(draws, stats.laplace(scale=2.2 * s).cdf) < SEEDED  # planted faults: scale, and a Gaussian
    assert chance.cdf(draws, stats.norm(scale=2 * s * math.sqrt(2)).cdf) < SEEDED


def test_matrix_laplace_along_a_direction(chance):
    """vᵀ(W₁ − W₂)v is s times the difference of two χ² with d+1 degrees of freedom: symmetric gamma difference."""
    d, rng = 5, randomness(46)
    v = np.arange(1.0, d + 1) / math.sqrt(55)
    draws = np.array([v @ matrix_laplace(d, 0.5, rng) @ v for _ in range(20_000)])
    other = randomness(47).normal((2, 20_000, d + 1)) ** 2
    assert chance.two_samples(draws, 0.5 * np.subtract(*other.sum(axis=2))) > SEEDED
    assert chance.two_samples(draws, 0.6 * np.subtract(*other.sum(axis=2))) < SEEDED  # planted fault


# --- vectors, grids, background draws ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cost", "law"),
    [
        (GaussianCost(0.5), stats.norm(scale=3e6 / 0.5)),
        (PureCost(0.25), stats.laplace(scale=5e6 / 0.25)),
    ],
)
def test_perturb_uses_the_norm_that_the_cost_needs(chance, cost, law):
    values = np.arange(20_000, dtype=np.int64) * 10**9
    noisy = perturb(values, cost, l2=3e6, l1=5e6, rng=randomness(51))
    assert noisy.dtype == np.int64
    assert chance.cdf(noisy - values, law.cdf) > SEEDED
    swapped = perturb(values, cost, l2=5e6, l1=3e6, rng=randomness(51))  # planted fault: the norms exchanged
    assert chance.cdf(swapped - values, law.cdf) < SEEDED


def test_noise_is_not_sold_for_other_costs():
    for cost in (ApproximateCost(0.25, 1e-6), ConcentratedCost(0.1)):
        with pytest.raises(TypeError, match="paid for in pure ε"):
            perturb(np.zeros(3, dtype=np.int64), cost, l2=1.0, l1=1.0, rng=randomness(0))


@pytest.mark.parametrize("wide", [False, True])
def test_a_sum_with_continuous_noise_is_rounded_to_its_grid(wide):
    noise = 1e9 * randomness(52).normal((6, 6))
    values = np.array([[int(v) * (2**70 if wide else 10**7) for v in row] for row in np.arange(36).reshape(6, 6)])
    grid = continuous_grid(1e9)
    found = round_to_grid(values + np.rint(noise).astype(np.int64), grid)
    assert 1e9 / 512 < grid <= 1e9 / 256
    for value, draw, result in zip(values.flat, noise.flat, found.flat, strict=True):
        assert int(result) % grid == 0
        assert abs(int(result) - int(value) - draw) <= grid / 2 + 1


@pytest.mark.parametrize("scale", [2.0**20, 2.0**41, 2.0**54])
def test_the_last_bits_of_the_noise_say_nothing_about_the_statistic(scale):
    """Parity of the released steps for an even and an odd statistic: fair coins (Hoeffding, false alarms ≤ 1e-6)."""
    runs = 2000
    for odd in (0, 1):
        noise = np.array([matrix_laplace(1, scale, rng) for rng in [randomness(odd)] for _ in range(runs)])
        grid = continuous_grid(scale)
        steps = (
            round_to_grid(np.full((runs, 1, 1), 2**60 + odd) + np.rint(noise).astype(np.int64), grid).ravel() // grid
        )
        assert abs(np.mean([int(step) % 2 for step in steps]) - 0.5) < math.sqrt(math.log(2e6) / (2 * runs))
    # The twin: without the grid, noise above 2^53 is even, and the parity of the sum is that of the statistic.
    bare = np.rint(np.array([matrix_laplace(1, 2.0**54, rng) for rng in [randomness(2)] for _ in range(runs)]))
    assert np.mean(bare.astype(np.int64) % 2) < 0.25


def test_noise_drawn_ahead_is_drawn_once_and_seeded_draws_keep_their_order():
    for state in (None, 53):
        rng = randomness(state)
        collect = draw_ahead(lambda rng=rng: symmetric_gaussian(3, 1e4, rng), rng)
        np.testing.assert_array_equal(collect(), collect())
    rng, plain = randomness(54), randomness(54)
    collect = draw_ahead(lambda: rng.normal(3), rng)
    after = rng.normal(3)
    np.testing.assert_array_equal(collect(), plain.normal(3))
    np.testing.assert_array_equal(after, plain.normal(3))


def test_a_failed_draw_fails_where_it_is_collected():
    rng = randomness(None)
    collect = draw_ahead(lambda: symmetric_gaussian(3, 2.0**62, rng), rng)
    with pytest.raises(ValueError, match="does not fit 64-bit integers"):
        collect()
    with pytest.raises(ValueError, match="does not fit 64-bit integers"):
        matrix_laplace(3, 2.0**61, rng)


# --- audits: replace and add/remove, with twins that claim too much -----------------------------------

X, Y = np.array([0.6, 0.8]), np.array([0.8, -0.6])


def matrix_laplace_mechanism(scale, seed, two_sided=True):
    rng = randomness(seed)

    def mechanism(moment, runs):
        if two_sided:
            noise = np.stack([matrix_laplace(2, scale, rng) for _ in range(runs)])
        else:
            g = rng.normal((runs, 2, 3))
            noise = scale * g @ g.swapaxes(1, 2)
        noisy = moment + noise
        # What separates the neighbours: xᵀ(·)x, yᵀ(·)y, and whether xxᵀ can be taken away within the cone.
        least = np.linalg.eigvalsh(noisy - np.outer(X, X))[:, 0]
        return np.column_stack([noisy @ X @ X, noisy @ Y @ Y, least])

    return mechanism


def test_matrix_laplace_keeps_its_promise():
    """Confidence 1 − 1e-6: the probability that a right mechanism is called wrong."""
    base = np.zeros((2, 2))
    for first, second, scale in (
        (base, np.outer(X, X), 0.5),  # add/remove at ε = 1: s = 1/2ε
        (np.outer(X, X), np.outer(Y, Y), 1.0),  # replace at ε = 1: s = 1/ε
    ):
        right = audit(matrix_laplace_mechanism(scale, 48), first, second, runs=40_000, confidence=1 - 1e-6)
        assert not right.violates(1.0)
        assert right.violates(0.3)  # the audit is not blind
        wrong = audit(matrix_laplace_mechanism(0.3 * scale, 49), first, second, runs=40_000, confidence=1 - 1e-6)
        assert wrong.violates(1.0)


def test_the_one_sided_wishart_mechanism_is_caught():
    wrong = audit(
        matrix_laplace_mechanism(0.5, 50, two_sided=False),
        np.zeros((2, 2)),
        np.outer(X, X),
        runs=40_000,
        confidence=1 - 1e-6,
    )
    assert wrong.violates(4.0)
