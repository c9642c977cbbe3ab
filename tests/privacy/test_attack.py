"""What a guarantee means for an attacker: against the best of all tests that it allows, found by looking at them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen.privacy import best_guess


def best_of_all(epsilon: float, delta: float, prior: float) -> float:
    """The success of the best test whose two error rates the guarantee allows, over a fine grid and the corners."""
    corner = (1 - delta) / (1 + math.exp(epsilon))
    first = np.append(np.linspace(0.0, 1.0, 200_001), [corner, 1 - delta])
    second = np.maximum(0.0, 1 - delta - math.exp(epsilon) * first)
    second = np.maximum(second, math.exp(-epsilon) * (1 - delta - first))
    return float(np.max(prior * (1 - first) + (1 - prior) * (1 - second)))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.05, 0.6])
@pytest.mark.parametrize("prior", [0.02, 0.3, 0.5, 0.9])
def test_the_best_attacker(epsilon, delta, prior):
    assert best_guess(epsilon, delta, prior) == pytest.approx(best_of_all(epsilon, delta, prior), abs=1e-9)


def test_without_a_prior_the_two_data_sets_are_equally_likely():
    assert best_guess(0.7, 0.01) == best_guess(0.7, 0.01, 0.5)
    assert best_guess(0.0, 0.0) == 0.5


def test_a_huge_epsilon_protects_nobody():
    assert best_guess(5000.0, 0.0) == 1.0


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_prior_that_knows_already_is_refused(prior):
    with pytest.raises(ValueError, match="prior"):
        best_guess(1.0, 0.0, prior)
