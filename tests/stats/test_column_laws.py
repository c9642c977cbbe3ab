"""What clipping took from skewed columns, by the shape of noisy counts: nothing if columns are normal."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.stats.column_laws import law_losses
from dpeigen.stats.columns import REACH
from dpeigen.stats.lost import Lost, loss_errors, skewed_losses, unseen_rows
from dpeigen.stats.tails import PairCounts

REST, RADIUS, PAIRS, NOISE = 5.0, 3.5, 2000, 30.0
LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "one in twenty": lambda rng, n: 1.0 * (rng.random(n) < 0.05),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=n)),
    "zeros": lambda rng, n: rng.exponential(size=n) * (rng.random(n) < 0.4),
}


def measured(law, seed):
    """Counts of differences with noise, the deviation of the clipped column, a step of 1 in norms, and the loss."""
    rng = np.random.default_rng([5, seed])
    column = LAWS[law](rng, 100_000)
    column = (column - column.mean()) / column.std()
    kept = np.minimum(1.0, RADIUS / np.sqrt(column**2 + REST))
    half = np.abs(np.diff(column[: 2 * PAIRS].reshape(-1, 2), axis=1)).ravel() / 2
    cells = np.floor(2 * np.log2(half[half > 0])).astype(int) + REACH
    counts = np.bincount(cells, minlength=2 * REACH + 1) + rng.normal(size=2 * REACH + 1) * NOISE
    return counts, np.sqrt(np.mean((column * kept) ** 2)), np.mean(column**2 * (1 - kept**2))


def found(counts, spread):
    sizes = PairCounts(counts[None], np.array([NOISE]), float(PAIRS))
    return law_losses(sizes, np.array([spread]), np.ones(1), REST, RADIUS)[:, 0]


@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_columns_that_are_not_skewed_lost_little(law):
    losses = [found(*measured(law, seed)[:2])[2] for seed in range(10)]
    assert np.median(losses) < 0.06


@pytest.mark.parametrize("law", ["one in twenty", "lognormal", "zeros"])
def test_skewed_columns_lost_about_what_is_found(law):
    tries = [measured(law, seed) for seed in range(10)]
    losses, truth = [found(*each[:2])[2] for each in tries], np.mean([each[2] for each in tries])
    assert truth > 0.15
    assert 0.4 * truth < np.median(losses) < 1.7 * truth


def test_the_shape_of_the_counts_shows_it():
    """With the counts of a normal column in their place, a lognormal column seems to have lost hardly anything."""
    skewed, normal = measured("lognormal", 1), measured("normal", 1)
    assert found(normal[0], normal[1])[2] < 0.2 * found(skewed[0], skewed[1])[2]


def test_without_information_the_uncertainty_is_larger_than_the_loss():
    counts = np.random.default_rng(3).normal(size=2 * REACH + 1) * 1000
    found = law_losses(PairCounts(counts[None], np.array([1000.0]), 2000.0), np.ones(1), np.ones(1), REST, RADIUS)
    assert found[3, 0] > found[2, 0] > 0


def loss_if_counted(share, radius=RADIUS):
    counts, spread, _ = measured("lognormal", 1)
    sizes = PairCounts(counts[None], np.array([NOISE]), float(PAIRS))
    return law_losses(sizes, np.array([spread]), np.ones(1), REST, RADIUS, counted=(radius, share))[2, 0]


def test_a_law_loses_no_more_rows_than_were_counted_beyond_the_radius():
    """A wrong law can be nearly certain, since real columns follow none. The number of its far rows was measured."""
    counts, spread, _ = measured("lognormal", 1)
    whole = found(counts, spread)[2]
    assert loss_if_counted(0.1) == pytest.approx(whole, rel=0.01)  # 2% of the rows are beyond it
    assert loss_if_counted(0.001) < 0.2 * whole
    assert loss_if_counted(0.0) == 0


def test_rows_between_the_radius_and_a_longer_one_are_not_in_the_count():
    """With more rows clipped on purpose, only those beyond the paid radius were counted."""
    assert loss_if_counted(0.0) == 0
    assert 0.03 < loss_if_counted(0.0, 2 * RADIUS) < 0.2 * loss_if_counted(1.0)


def test_columns_without_a_scale_have_no_loss():
    sizes = PairCounts(np.zeros((1, 2 * REACH + 1)), np.ones(1), 100.0)
    assert not law_losses(sizes, np.zeros(1), np.zeros(1), REST, RADIUS).any()


def test_draws_reach_from_nothing_to_more_than_the_estimate():
    tails = np.zeros((10, 2))
    tails[6:, 0] = 0.1, 0.0, 0.5, 0.0
    drawn = skewed_losses(tails, 400, np.random.Generator(np.random.PCG64(1)))
    assert drawn.square[:, 0].min() < 0.05
    assert 0.6 < drawn.square[:, 0].max() <= 0.75
    assert not drawn.square[:, 1].any()


def test_columns_say_something_about_each_other():
    """One loss in ten draws for a column alone; nearly none beside 19 columns that are surely not skewed."""
    tails = np.zeros((10, 20))
    tails[8], tails[9] = 0.1, 0.3  # a loss of 1 with probability 0.1
    alone = skewed_losses(tails[:, :1], 4000, np.random.Generator(np.random.PCG64(1))).square
    assert 0.08 < (alone > 0).mean() < 0.12
    assert 1.4 < alone.max() <= 1.5
    tails[9, 1:] = 10.0  # a loss with probability 0.0001
    beside = skewed_losses(tails, 4000, np.random.Generator(np.random.PCG64(1))).square
    assert (beside[:, 0] > 0).mean() < 0.03


def test_two_estimates_of_one_loss_are_not_added():
    first, second = Lost(np.array([[1.0, 0.0]]), np.array([[2.0, 1.0]])), Lost(np.array([[0.5, 3.0]]), np.ones((1, 2)))
    found = first.or_more(second)
    assert found.mean.tolist() == [[1.0, 3.0]]
    assert found.square.tolist() == [[2.0, 1.0]]


def test_rows_that_nothing_shows_are_long_in_columns_that_make_rows_long():
    drawn = unseen_rows(np.ones(3), np.array([1.0, 1.0, 0.0]), 1000, np.random.Generator(np.random.PCG64(1))).square
    assert 0.4 < (drawn.sum(axis=1) == 0).mean() < 0.6
    assert not drawn[:, 2].any()
    assert np.corrcoef(drawn[drawn.any(axis=1)][:, :2].T / drawn[drawn.any(axis=1)].sum(axis=1))[0, 1] < -0.9


def test_what_a_tail_takes_from_a_covariance_is_a_fraction_of_a_linear_relation_except_for_equal_columns():
    covariance = np.array([[1.0, 0.5, 1.0], [0.5, 1.0, 0.5], [1.0, 0.5, 1.0]])
    square = np.zeros((500, 3))
    square[:, 0] = 0.3
    errors = loss_errors(Lost(0 * square, square), covariance, np.random.Generator(np.random.PCG64(2)))
    np.testing.assert_allclose(errors[:, 0, 2], errors[:, 0, 0])
    fraction = errors[:, 0, 1] / (0.5 * errors[:, 0, 0])
    assert fraction.min() < 0.1
    assert 0.9 < fraction.max() <= 1


def test_a_declared_flag_loses_only_what_two_values_can_lose():
    """A flag of 4% that clipping shortens, beyond what it takes from normal rows. Twin: another gap between values."""
    rng = np.random.default_rng(5)
    flags = (rng.random(size=(2, 3000)) < 0.04).astype(float)
    counts = np.zeros((1, 2 * REACH + 1))
    counts[0, REACH - 2] = (flags[0] != flags[1]).sum()  # half differences of ½
    facts = PairCounts(counts, np.full(1, 15.0), 3000.0), np.array([0.12]), np.array([1.0]), 0.01, 0.25

    def lost(values):
        return np.mean(values**2 * (1 - np.minimum(1.0, 0.25**2 / (values**2 + 0.01))))

    truth = lost(flags - 0.04) - lost(flags.std() * rng.normal(size=100_000))
    assert law_losses(*facts, {0: 1.0})[2, 0] == pytest.approx(truth, rel=0.2)
    assert law_losses(*facts, {0: 3.0})[2, 0] != pytest.approx(truth, rel=0.2)
