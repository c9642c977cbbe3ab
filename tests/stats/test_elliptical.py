"""Eigenvalues of signs, back to variances; what a released tau promises about its components.

Simulations use fixed seeds and five standard errors: false alarms below 1e-6 for each number compared.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeigen.evaluation import sin_theta
from dpeigen.stats import kendall_tau
from dpeigen.stats.elliptical import (
    breakdown_bound,
    relative_variances,
    sign_eigenvalues,
    subspace_error_bound,
    winsorized_eigenvalues,
    winsorized_variances,
)

SPECTRA = [[4.0, 1.0], [10.0, 5.0, 1.0, 1.0, 1.0], [100.0, 1.0, 0.01], np.geomspace(50, 0.1, 20), np.ones(7)]


def draws(variances, n=200_000):
    rng = np.random.default_rng(len(variances))
    return rng.normal(size=(n, len(variances))) ** 2 * variances


def within_errors(formula, samples):
    error = samples.std(axis=0) / np.sqrt(len(samples))
    return (np.abs(formula - samples.mean(axis=0)) <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("variances", SPECTRA, ids=len)
def test_phi_is_the_mean_of_signs(variances):
    squares = draws(np.asarray(variances))
    signs = squares / squares.sum(axis=1, keepdims=True)
    assert within_errors(sign_eigenvalues(variances), signs)
    if np.ptp(variances):  # the twin: the variances themselves are not it
        assert not within_errors(np.asarray(variances) / np.sum(variances), signs)


def test_phi_is_known_for_two_columns():
    for ratio in (1.0, 1e-2, 1e-6, 1e-12):
        phi = sign_eigenvalues([1.0, ratio])
        np.testing.assert_allclose(phi, np.array([1, np.sqrt(ratio)]) / (1 + np.sqrt(ratio)), rtol=1e-8)
    np.testing.assert_allclose(sign_eigenvalues(np.full(30, 1e-200)), np.full(30, 1 / 30))
    np.testing.assert_allclose(sign_eigenvalues([3.0]), [1.0])


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_only_ratios_matter(scale):
    np.testing.assert_allclose(sign_eigenvalues(np.array([5.0, 2.0, 1.0]) * scale), sign_eigenvalues([5.0, 2.0, 1.0]))


spectra = st.lists(st.floats(0.01, 100.0), min_size=2, max_size=12).map(lambda v: np.sort(v)[::-1])


@settings(max_examples=25)
@given(spectra)
def test_the_inversion_is_one(variances):
    np.testing.assert_allclose(relative_variances(sign_eigenvalues(variances)), variances / variances.sum(), rtol=1e-6)


def test_noisy_and_odd_eigenvalues_are_inverted_too():
    """A release may hold anything: negative numbers, zeros only, a single direction."""
    for phi in (
        [0.7, 0.4, -0.1],
        [1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [-1.0, -1.0],
        [1.0],
        [0.99999, 1e-5, 0.0],
        [9.0, 1],
    ):
        found = relative_variances(phi)
        assert np.isfinite(found).all()
        assert (found >= 0).all()
        assert np.isclose(found.sum(), 1.0)
        assert (np.diff(found) <= 1e-12).all()
    np.testing.assert_allclose(relative_variances([0.0, 0.0]), [0.5, 0.5])


@pytest.mark.parametrize("radius", [0.3, 1.5, 5.0, 100.0])
@pytest.mark.parametrize("variances", SPECTRA[:4], ids=len)
def test_winsorized_moments_are_those_of_gaussian_rows(variances, radius):
    squares = draws(np.asarray(variances))
    cut = squares * np.minimum(1.0, radius**2 / squares.sum(axis=1, keepdims=True))
    found = winsorized_eigenvalues(variances, radius)
    np.testing.assert_allclose(found, cut.mean(axis=0), rtol=0.02, atol=1e-3 * found.max())  # 8,192 points
    np.testing.assert_allclose(found.sum(), cut.sum(axis=1).mean(), rtol=0.005)


def test_winsorized_limits():
    variances = np.array([4.0, 2.0, 1.0])
    np.testing.assert_allclose(winsorized_eigenvalues(variances, 1e6), variances, rtol=1e-9)
    np.testing.assert_allclose(winsorized_eigenvalues(variances, 1e-6) / 1e-12, sign_eigenvalues(variances), rtol=0.01)


@settings(max_examples=15)
@given(spectra, st.floats(0.8, 3.0))
def test_the_winsorized_inversion_is_one(variances, factor):
    """For radii about the median length, which is what a private radius is."""
    radius = factor * np.sqrt(variances.sum())
    phi = winsorized_eigenvalues(variances, radius)
    np.testing.assert_allclose(winsorized_variances(phi, radius), variances, rtol=1e-3)


def test_winsorized_moments_that_say_nothing():
    assert not winsorized_variances([0.0, -1.0], 2.0).any()
    full = winsorized_variances([3.0, 2.0], 1.0)  # more than any rows can have
    assert np.isfinite(full).all()
    assert full[0] > full[1] > 0


# --- breakdown -----------------------------------------------------------------------------------------------------


def top(matrix, k):
    return np.linalg.eigh(matrix)[1].T[::-1][:k]


def attacked(rows, count, target, victims):
    """``count`` rows replaced by rows far out along a direction."""
    found = rows.copy()
    along = np.abs(rows @ target)
    chosen = {"random": np.arange(len(rows)), "useful": np.argsort(along), "long": np.argsort(-(rows**2).sum(axis=1))}
    at = chosen[victims][:count]
    found[at] = np.outer(1e8 * 3.0 ** np.arange(len(at)), target)  # every difference with them is along the target
    return found


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("victims", ["random", "useful", "long"])
def test_fewer_rows_than_the_breakdown_bound_never_turn_the_components(k, victims):
    n, d = 200, 4
    rows = np.random.default_rng(3).normal(size=(n, d)) * np.sqrt([16.0, 5.0, 0.2, 0.1])
    tau = kendall_tau(rows)
    bound = breakdown_bound(np.linalg.eigvalsh(tau), k, 1.0)
    assert bound > 0.02
    before = top(tau, k)
    target = top(tau, d)[k]

    def turned(share):
        matrix = kendall_tau(attacked(rows, int(share * n), target, victims))
        return sin_theta(top(matrix, k), before)

    assert all(turned(share) < 0.9999 for share in np.linspace(0, bound, 8))
    # The attack is a real one: with a few times as many rows it wins.
    assert turned(5 * bound) > 0.98


def test_the_breakdown_bound_is_twice_the_printed_one_and_pays_for_noise():
    phi = [0.6, 0.3, 0.1]
    assert np.isclose(breakdown_bound(phi, 1, 1.0), 0.3 / 4)
    assert np.isclose(breakdown_bound(phi, 2, 1.0), 0.2 / 4)
    assert np.isclose(breakdown_bound(np.array(phi)[::-1] * 9, 1, 3.0), 0.3 / 4)  # any order, any radius
    assert np.isclose(breakdown_bound(phi, 1, 1.0, noise=0.1), 0.1 / 4)
    assert breakdown_bound(phi, 1, 1.0, noise=0.2) == 0.0
    assert breakdown_bound(phi, 3, 1.0) == 1.0


def test_a_sharp_pair_for_the_breakdown_bound():
    """Rows in pairs on two axes, half against half: the bound is within a factor of 4 of an attack that works."""
    rows = np.zeros((400, 2))
    rows[:, 0] = np.random.default_rng(0).normal(size=400)
    rows[:, 1] = 0.3 * np.random.default_rng(1).normal(size=400)
    bound = breakdown_bound(np.linalg.eigvalsh(kendall_tau(rows)), 1, 1.0)
    worked = [
        m for m in range(0, 400, 4)
        if sin_theta(top(kendall_tau(attacked(rows, m, np.array([0.0, 1.0]), "useful")), 1), np.eye(2)[:1]) > 0.9
    ]  # fmt: skip
    assert bound * 400 <= worked[0] <= 4 * bound * 400


# --- the error of the subspace -------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_the_error_bound_covers(noise):
    """20 data sets, each covered with probability 95%: at most 4 misses, false alarm below 3e-3 if it were sharp."""
    n, misses, variances = 3000, 0, np.array([60.0, 1.0, 1.0])
    truth = np.eye(3)[:1]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n, 3)) * np.sqrt(variances) / rng.normal(size=(n, 1))  # no moments at all
        square = rng.normal(size=(3, 3))
        added = noise * (square + square.T) / np.linalg.norm(square + square.T, 2)
        tau = kendall_tau(rows, design=50) + added
        bound = subspace_error_bound(np.linalg.eigvalsh(tau), 1, 1.0, n, noise)
        assert bound < 0.7  # it says something
        misses += sin_theta(top(tau, 1), truth) > bound
    assert misses <= 4


def test_the_error_bound_knows_when_it_says_nothing():
    phi = [0.5, 0.3, 0.2]
    assert subspace_error_bound(phi, 1, 1.0, 20, 0.0) == 1.0
    assert subspace_error_bound(phi, 1, 1.0, 1e6, 0.1) == 1.0
    assert subspace_error_bound(phi, 3, 1.0, 20, 0.0) == 0.0
    bounds = [subspace_error_bound(phi, 1, 1.0, n, 0.0) for n in (1e5, 1e6, 1e8)]
    assert bounds[0] > bounds[1] > bounds[2] > 0
    assert subspace_error_bound(phi, 1, 1.0, 1e8, 0.01) > bounds[2]
    assert np.isclose(subspace_error_bound(np.array(phi) * 9, 1, 3.0, 1e6, 0.0), bounds[1])
