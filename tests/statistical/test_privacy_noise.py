"""Heavier tests of privacy/: system randomness end to end, at the scales mechanisms use.

Unseeded: each test raises a false alarm with probability at most 1e-9, and has a twin with a planted fault.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpeigen.auditing.events import audit
from dpeigen.privacy import gaussian_mu, randomness, sample_bingham
from dpeigen.privacy.noise import matrix_laplace, symmetric_gaussian, symmetric_laplace

ALARM = 1e-9
SURE = 1 - ALARM
GRID = 2.0**32


def off_diagonal(noise, scale):
    """Releases of one off-diagonal entry: those of one large noise matrix are independent, and one call draws all."""

    def mechanism(entry, runs):
        d = math.ceil((1 + math.sqrt(1 + 8 * runs)) / 2)
        return entry + noise(d, scale, randomness(None))[np.triu_indices(d, 1)][:runs].astype(float)

    return mechanism


def two_samples(first, second):
    """Below α with probability at most α (Wei and Dudley 2012, equal sizes)."""
    distance = stats.ks_2samp(first, second, method="asymp").statistic
    return math.exp(1 - len(first) * distance**2)


def test_symmetric_gaussian_off_the_diagonal_is_exactly_as_private_as_claimed():
    """x = (1,1)/√2 replaced by (1,−1)/√2 moves this entry by 1 and the moment by √2: the worst case, reached."""
    mu = gaussian_mu(4.0, 1e-5)
    sigma = math.sqrt(2) * GRID / mu
    right = audit(off_diagonal(symmetric_gaussian, sigma), 0.5 * GRID, -0.5 * GRID, runs=120_000, confidence=SURE)
    assert not right.violates_gaussian(mu)
    assert right.violates_gaussian(0.8 * mu)
    wrong = audit(  # planted fault: σ²/2 taken twice
        off_diagonal(symmetric_gaussian, sigma / math.sqrt(2)),
        0.5 * GRID,
        -0.5 * GRID,
        runs=120_000,
        confidence=SURE,
    )
    assert wrong.violates_gaussian(mu)


@pytest.mark.slow
def test_symmetric_laplace_is_exactly_as_private_as_claimed():
    right = audit(off_diagonal(symmetric_laplace, GRID), 0.0, GRID, runs=120_000, confidence=SURE)
    assert not right.violates(1.0)
    assert right.violates(0.7)
    wrong = audit(off_diagonal(symmetric_laplace, 0.6 * GRID), 0.0, GRID, runs=120_000, confidence=SURE)
    assert wrong.violates(1.0)


@pytest.mark.parametrize("d", [1, 2, 8])
def test_matrix_laplace_trace(d):
    """tr(W₁ − W₂) is s times the difference of two χ² with d(d+1) degrees of freedom; for d = 1 it is Laplace."""
    size, rng = 20_000, randomness(None)
    draws = np.array([np.trace(matrix_laplace(d, 0.5, rng)) for _ in range(size)])
    squares = rng.normal((2, size, d * (d + 1))) ** 2
    expected = 0.5 * np.subtract(*squares.sum(axis=2))
    assert two_samples(draws, expected) > ALARM
    assert two_samples(draws, 1.5 * expected) < ALARM  # planted fault
    if d == 1:
        distance = stats.kstest(draws, stats.laplace.cdf).statistic
        assert 2 * math.exp(-2 * size * distance**2) > ALARM


def test_bingham_from_the_system_agrees_with_rejection_from_uniform():
    values, size, rng = np.linspace(0, 5, 20), 20_000, randomness(None)
    slow = np.empty((0, 20))
    while len(slow) < size:
        u = rng.normal((50_000, 20))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        slow = np.concatenate([slow, u[np.log(rng.uniform(50_000)) < u**2 @ values - 5]])
    slow = slow[:size] ** 2 @ values
    assert two_samples(sample_bingham(np.diag(values), size=size) ** 2 @ values, slow) > ALARM
    assert two_samples(sample_bingham(np.diag(values) / 2, size=size) ** 2 @ values, slow) < ALARM  # planted fault
