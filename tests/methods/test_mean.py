"""The private mean of unbounded vectors: near the truth wherever it is, worth its budget, refusals, an audit."""

import math

import numpy as np
import pytest

from dpeigen.auditing.events import audit
from dpeigen.curator import Purpose
from dpeigen.methods import private_mean
from dpeigen.methods.one_pass.mean import MeanShares, mean_of, vectors_needed
from dpeigen.privacy import Budget, compose, compose_pld
from dpeigen.privacy.randomness import SystemRandomness
from dpeigen.sources.memory import Batch

BUDGET = Budget(1.0, 1e-6)


def found_in(rows, scale, shares, rng=None):
    return mean_of(Batch(rows, in_random_order=True), scale, shares, rng or SystemRandomness())


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6, -1e100])
@pytest.mark.parametrize("scale", [0.25, 1.0, 4.0])
def test_near_the_truth_wherever_it_is(box, offset, scale):
    unit = max(1.0, abs(offset) / 1e9)
    rows = np.random.default_rng(0).normal(size=(6000, 4)) * unit + offset
    shares = MeanShares.of(BUDGET, 6000, 4, box=box)
    found = found_in(rows, scale * unit**2, shares)
    error = np.linalg.norm(found.mean - rows.mean(axis=0))
    assert error < 8 * found.deviation + 0.2 * unit
    assert found.deviation < (0.3 * math.sqrt(scale) if box else 0.02) * unit


def test_a_ball_has_much_less_noise_than_the_box():
    rows = np.random.default_rng(1).normal(size=(20_000, 50)) * np.r_[5.0, np.ones(49)]
    ball, box = (found_in(rows, 25.0, MeanShares.of(BUDGET, 20_000, 50, box=b)) for b in (False, True))
    assert ball.deviation < box.deviation / 10


@pytest.mark.parametrize("budget", [BUDGET, Budget(0.1, 1e-9), Budget(8.0, 1e-5)])
@pytest.mark.parametrize("box", [False, True])
def test_the_shares_are_worth_the_budget(budget, box):
    pytest.importorskip("dp_accounting")
    for n, d in ((vectors_needed(budget, 20, box=box), 20), (10**6, 3)):
        spends = MeanShares.of(budget, n, d, box=box).spends()
        assert 0.999 * budget.epsilon < compose(spends, budget.delta) <= budget.epsilon
        # Each pure share is moved up to the next of dp-accounting's grid of 1e-4.
        assert compose_pld(spends, budget.delta) <= budget.epsilon + 4e-4


def test_ranges_get_what_they_need_and_no_more():
    few, many = MeanShares.of(BUDGET, vectors_needed(BUDGET, 50), 50), MeanShares.of(BUDGET, 10**6, 50)
    assert many.costs[Purpose.RANGES].mu < few.costs[Purpose.RANGES].mu
    assert many.costs[Purpose.MEAN].mu > few.costs[Purpose.MEAN].mu


def test_a_coordinate_without_a_clear_bin_starts_from_0():
    rows = np.random.default_rng(2).uniform(-1e6, 1e6, size=(4000, 1))
    assert abs(found_in(rows, 1e-6, MeanShares.of(BUDGET, 4000, 1)).mean[0]) < 1e6


def test_outliers_cannot_move_it_far():
    rows = np.random.default_rng(3).normal(size=(6000, 3))
    rows[:100] = 1e300
    found = found_in(rows, 1.0, MeanShares.of(BUDGET, 6000, 3))
    assert np.linalg.norm(found.mean) < 0.3


def proven(tools, factor, runs=1000):
    """μ that an audit proves between a vector far up and one far down, all others at 0."""
    budget = Budget(6.0, 1e-6)
    n = vectors_needed(budget, 1)
    shares = MeanShares.of(budget, n, 1)

    def run(data, count):
        label, vectors = data
        rng = tools.faulty([label, 5], factor) if factor else tools.seeded([label, 5])
        return np.array([found_in(vectors, 1.0, shares, rng).mean for _ in range(count)])

    first, second = np.zeros((n, 1)), np.zeros((n, 1))
    first[0], second[0] = 1e9, -1e9
    result = audit(run, (1, first), (2, second), runs=runs, confidence=1 - 1e-6)
    claim = math.sqrt(
        math.fsum(c.mu**2 for name, c in shares.costs.items() if name.endswith("mean") and "radius" not in name)
    )
    return result.mu_lower, claim


@pytest.mark.slow
def test_audit(tools):
    """A false alarm has probability below 1e-6; half of the noise is caught."""
    found, claim = proven(tools, None)
    assert 0.4 * claim < found <= claim
    found, claim = proven(tools, 0.5)
    assert found > claim


def test_public_function_and_its_refusals():
    rows = np.random.default_rng(4).normal(size=(5000, 3)) + 100
    with pytest.warns(UserWarning, match="seeded"):
        found = private_mean(rows, 1.0, epsilon=1.0, delta=1e-6, random_state=0)
    np.testing.assert_allclose(found, rows.mean(axis=0), atol=0.1)
    with pytest.raises(ValueError, match=r"'X' parameter of private_mean .* needs at least \d+ rows"):
        private_mean(rows[:100], 1.0, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="'top_eigenvalue' parameter"):
        private_mean(rows, 0.0, epsilon=1.0, delta=1e-6)
