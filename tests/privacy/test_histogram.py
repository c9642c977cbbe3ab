"""Stability-based histograms: thresholds against exact tails, no empty bin shown, and an attack on the threshold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from dpeigen.privacy import GaussianCost, PureCost, Relation
from dpeigen.privacy.histogram import (
    _occupied,
    failure_of,
    most_popular,
    noise_scale,
    stable_histograms,
    tail_delta,
    tail_spend,
    threshold,
)
from dpeigen.privacy.randomness import SystemRandomness

REPLACE, ADD_REMOVE = Relation.REPLACE, Relation.ADD_REMOVE


def laplace_tail(t: int, scale: float) -> float:
    """P(discrete Laplace ≥ t), t ≥ 1, summed from its mass."""
    with mp.workdps(40):
        x = mp.exp(-1 / mp.mpf(scale))
        return float((1 - x) / (1 + x) * x**t / (1 - x))


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("columns", [1, 7])
@pytest.mark.parametrize("failure", [1e-3, 1e-12])
def test_laplace_threshold_is_the_least_that_is_safe(relation, epsilon, columns, failure):
    t = threshold(PureCost(epsilon), columns, failure, relation)
    scale = noise_scale(PureCost(epsilon), columns, relation)
    assert scale >= (2 if relation is REPLACE else 1) * columns / epsilon
    assert t == int(t) >= 1
    assert columns * laplace_tail(int(t), scale) <= failure
    assert t == 1 or columns * laplace_tail(int(t) - 1, scale) > failure * (1 - 1e-6)


@pytest.mark.parametrize("mu", [0.02, 0.5])
@pytest.mark.parametrize("failure", [1e-3, 1e-12])
def test_gaussian_threshold_against_the_exact_tail(mu, failure):
    t, columns = threshold(GaussianCost(mu), 50, failure, REPLACE), 50
    with mp.workdps(40):
        tail = float(mp.erfc(mp.mpf(t) / noise_scale(GaussianCost(mu), columns, REPLACE) / mp.sqrt(2)) / 2)
    assert columns * tail <= failure
    assert columns * tail >= failure * (1 - 1e-6)


def normal_tail(x: float) -> float:
    with mp.workdps(40):
        return float(mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2)


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("failure", [1e-3, 1e-8, 1e-14])
@pytest.mark.parametrize("size", [1e-4, 0.3, 1.0, 2.0, 6.0])
def test_a_single_item_is_shown_no_more_often_than_any_ledger_was_told(relation, columns, failure, size):
    """What one item alone shows has an infinite loss: the share of δ must cover it whatever ε all is judged at."""
    told, step = tail_delta(failure, 0.0), 2.0**-32  # the least it can be told; a step of the grid
    t, exact = (
        threshold(GaussianCost(size), columns, failure, relation),
        noise_scale(GaussianCost(size), columns, relation),
    )
    scale = exact + step  # a whole number of steps, rounded up
    assert columns * normal_tail((t - 1 - step) / scale) <= told
    assert columns * normal_tail((t - step) / scale) <= failure
    lower = t * (1 - 1e-11) - 1e-8  # and not higher than it takes
    assert columns * normal_tail((lower - 1) / scale) > told or columns * normal_tail(lower / scale) > failure
    t, scale = threshold(PureCost(size), columns, failure, relation), noise_scale(PureCost(size), columns, relation)
    assert columns * laplace_tail(int(t), scale) * math.exp(1 / scale) <= tail_delta(failure, size)


def test_the_share_of_delta_is_recorded():
    spend = tail_spend("ranges", 1e-9, 2.0)
    assert spend.purpose == "ranges"
    assert spend.cost.delta == tail_delta(1e-9, 2.0) == pytest.approx(1e-9 * (1 + math.exp(2.0)))
    assert 0 < spend.cost.epsilon < 1e-12


def test_shares_of_delta_and_chances_of_failure_are_inverse():
    for epsilon in (0.1, 1.0, 30.0):
        assert tail_delta(failure_of(1e-6, epsilon), epsilon) == pytest.approx(1e-6)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(-5, 5), st.sampled_from([0.0, 3.0, 1e9, -1e300])), max_size=60))
def test_occupied_bins_are_those_of_unique(rows):
    labels = np.array(rows, dtype=float).reshape(-1, 2)
    for column, (names, counts) in enumerate(_occupied(labels)):
        expected, expected_counts = np.unique(labels[:, column], return_counts=True)
        np.testing.assert_array_equal(names, expected)
        np.testing.assert_array_equal(counts, expected_counts)


@pytest.mark.parametrize("cost", [PureCost(1.0), GaussianCost(0.3)])
def test_full_bins_are_shown_and_others_never_invented(cost):
    rng, labels = SystemRandomness(), np.repeat([[1e18, -2.0], [4.0, 5.0]], [800, 200], axis=0)
    for _ in range(50):
        first, second = stable_histograms(labels, cost, 1e-9, REPLACE, rng)
        assert most_popular(first) == 1e18
        assert most_popular(second) == -2.0
        assert set(first) <= {1e18, 4.0}
        assert abs(first[1e18] - 800) < 12 * noise_scale(cost, 2, REPLACE)


def test_no_items_no_bins():
    for cost in (PureCost(1.0), GaussianCost(0.3)):
        assert stable_histograms(np.zeros((0, 3)), cost, 1e-6, REPLACE, SystemRandomness()) == [{}, {}, {}]
    assert most_popular({}) is None


def test_counts_are_scaled_by_the_noise_of_all_columns():
    """Variance of the shown count: 2b² for Laplace noise, within 6 standard errors (false alarm below 1e-8)."""
    rng = SystemRandomness()
    for columns in (1, 4):
        labels = np.zeros((5000, columns))
        draws = [stable_histograms(labels, PureCost(1.0), 1e-6, REPLACE, rng)[0][0.0] - 5000 for _ in range(1500)]
        expected = 2 * (2 * columns) ** 2
        assert abs(np.mean(np.square(draws)) / expected - 1) < 6 * math.sqrt(5 / 1500)


def shown_by_a_single(cost, failure: float, runs: int) -> int:
    """How often a bin that holds a single item, the one that differs, is shown among its m columns."""
    rng, labels = SystemRandomness(), np.zeros((1, 20))
    return sum(any(h for h in stable_histograms(labels, cost, failure, REPLACE, rng)) for _ in range(runs))


@pytest.mark.parametrize("cost", [PureCost(20.0), GaussianCost(1.0)])
def test_a_unique_label_is_seen_no_more_often_than_delta_allows(cost):
    """One item against none: P(shown) ≤ e^ε·0 + δ. 400 runs at δ = 0.1; false alarm below 1e-6."""
    epsilon = 2.0
    failure = failure_of(0.1, epsilon)
    assert shown_by_a_single(cost, failure, 400) <= 40 + 5 * 6
    # The twin: a threshold that forgets the number of columns shows it far more often.
    assert shown_by_a_single(cost, min(0.49, 20 * failure), 400) > 70


def test_refusals():
    with pytest.raises(ValueError, match="failure"):
        threshold(PureCost(1.0), 1, 0.0, REPLACE)
    from dpeigen.privacy import ConcentratedCost

    many = np.broadcast_to(np.zeros((1, 1)), (2**29 + 1, 1))  # counts on the grid would leave 64-bit integers
    with pytest.raises(ValueError, match="at most 536870912 items"):
        stable_histograms(many, PureCost(1.0), 1e-6, REPLACE, SystemRandomness())
    with pytest.raises(TypeError, match="pure ε or in μ"):
        stable_histograms(np.zeros((1, 1)), ConcentratedCost(0.1), 1e-6, REPLACE, SystemRandomness())
