"""Tests of distributions with false-alarm probabilities that are bounds, not approximations.

Each function returns a number that is below α with probability at most α when the draws are right.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats


def counts(draws, pmf) -> float:
    """Draws against a pmf {value: probability}; what is outside is one more cell. Exact binomial tails, Bonferroni."""
    draws = np.asarray(draws)
    values, probabilities = np.array(list(pmf)), np.array(list(pmf.values()))
    seen = np.array([np.count_nonzero(draws == v) for v in values])
    seen = np.append(seen, draws.size - seen.sum())
    cells = np.append(probabilities, max(0.0, 1 - math.fsum(probabilities)))
    tails = np.minimum(stats.binom.cdf(seen, draws.size, cells), stats.binom.sf(seen - 1, draws.size, cells))
    return float(min(1.0, 2 * len(cells) * tails.min()))


def cdf(draws, function) -> float:
    """Draws against a continuous distribution function (Dvoretzky-Kiefer-Wolfowitz, Massart's constant)."""
    x = np.sort(np.ravel(draws))
    steps, reached = np.arange(len(x) + 1) / len(x), function(x)
    distance = max(np.max(steps[1:] - reached), np.max(reached - steps[:-1]))
    return min(1.0, 2 * math.exp(-2 * len(x) * distance**2))


def two_samples(first, second) -> float:
    """Two samples of one size against each other (Wei and Dudley 2012, equal sizes)."""
    assert len(first) == len(second)
    distance = stats.ks_2samp(first, second, method="asymp").statistic
    return min(1.0, math.exp(1 - len(first) * distance**2))


def means(draws, expected) -> float:
    """Column means against their expectations (central limit theorem, so use α ≤ 1e-8 for 1e-6), Bonferroni."""
    draws = np.asarray(draws, dtype=float).reshape(len(draws), -1)
    expected = np.broadcast_to(np.ravel(expected), draws.shape[1:])
    z = (draws.mean(axis=0) - expected) / (draws.std(axis=0) / math.sqrt(len(draws)))
    return float(min(1.0, draws.shape[1] * 2 * stats.norm.sf(np.abs(z).max())))


@pytest.fixture(scope="session")
def chance():
    """How surprising draws are: `counts`, `cdf`, `two_samples`, `means`."""
    return SimpleNamespace(counts=counts, cdf=cdf, two_samples=two_samples, means=means)
