"""Radii and reaches by report noisy max: their exact laws, on rows and on rows with one changed."""

import math

import numpy as np
import pytest

from dpeigen.privacy import PureCost, Relation, randomness
from dpeigen.questions import ColumnReaches, RadiusNear, shows_scale
from dpeigen.stats import Frame
from dpeigen.stats.norms import GRID

EPSILON, COST = 0.8, PureCost(0.8)
WITHIN = slice(184, 200)  # radii from ¼ to about 3.4
NEAR = RadiusNear(Frame(1), 2.0, within=WITHIN)
BOTH = (Relation.REPLACE, Relation.ADD_REMOVE)


def law(scores, scale):
    """The exact probabilities of the answers: that |Z| lifts a score to the top, Z discrete Laplace."""
    p = math.exp(-1 / scale)
    values = np.arange(int(np.ptp(scores)) + int(60 * scale))
    chances = np.where(values == 0, 1, 2) * p**values * (1 - p) / (1 + p)
    at_most = np.cumsum(chances)

    def below(limit):  # Pr(|Z| ≤ limit)
        return np.where(limit < 0, 0.0, at_most[np.clip(limit, 0, len(values) - 1)])

    found = []
    for j, score in enumerate(scores):
        product = chances.copy()
        for i, other in enumerate(scores):
            if i != j:  # the first of the largest is the answer
                product = product * below(score + values - other - (i < j))
        found.append(product.sum())
    return np.array(found)


def radius_law(rows, relation, *, scale=None):
    found = NEAR.statistic().update(rows)
    scores = NEAR.margins(found.cumulative, found.people, COST, relation)[WITHIN]
    return law(scores.astype(int), 64 * (scale or NEAR.scale(COST, relation)))


def neighbours(relation):
    rng = np.random.default_rng(3)
    for _ in range(12):
        rows = rng.choice([0.1, 0.5, 1.0, 3.0, 50.0], size=(int(rng.integers(1, 9)), 1))
        other = rows.copy()
        other[0] = rng.choice([0.0, 0.3, 0.9, 2.5, 1e6])
        yield rows, other if relation is Relation.REPLACE else rows[1:]


def worst(relation, **options):
    """The largest |ln| of a ratio of probabilities over pairs of tables."""
    ratios = [
        np.log(radius_law(a, relation, **options) / radius_law(b, relation, **options))
        for a, b in neighbours(relation)
        if len(b)
    ]
    return max(float(np.abs(each).max()) for each in ratios)


@pytest.mark.parametrize("relation", BOTH)
def test_the_law_of_a_radius_moves_by_epsilon_at_most(relation):
    assert 0.5 * EPSILON < worst(relation) <= EPSILON * (1 + 1e-6)
    assert worst(relation, scale=0.5 / EPSILON) > EPSILON  # twin: half of the noise


def test_radii_are_drawn_with_that_law():
    """False alarms: below 1e-6, by Hoeffding's inequality for each of 16 radii."""
    rows, draws, rng = np.array([[0.3], [0.5], [1.0], [3.0]]), 3000, randomness(5)
    found = NEAR.statistic().update(rows)
    drawn = [
        NEAR.answer(found, NEAR.draw(COST, Relation.REPLACE, rng), COST, Relation.REPLACE, rng) for _ in range(draws)
    ]
    shares = np.array([np.mean(np.array(drawn) == radius) for radius in GRID[WITHIN]])
    limit = math.sqrt(math.log(2 * 16 / 1e-6) / (2 * draws))
    assert np.abs(shares - radius_law(rows, Relation.REPLACE)).max() < limit
    assert np.abs(shares - radius_law(rows, Relation.REPLACE, scale=8 / EPSILON)).max() > limit  # twin: more noise


def test_no_row_is_left_outside_where_the_noise_is_far_below_one():
    rows = np.vstack([np.random.default_rng(1).normal(size=(500, 1)), [[60.0]]])
    near, rng, cost = RadiusNear(Frame(1), 0.0, within=slice(184, 225)), randomness(7), PureCost(40.0)
    found = near.statistic().update(rows)
    drawn = {near.answer(found, near.draw(cost, REPLACE, rng), cost, REPLACE, rng) for _ in range(50)}
    assert min(drawn) >= 60.0
    assert max(drawn) < 100.0


REPLACE = Relation.REPLACE


@pytest.mark.parametrize("relation", BOTH)
def test_a_row_moves_the_scores_of_every_column_by_one_row_at_most_and_one_way(relation):
    """Each column gets ε/d, and scores that move like those of a radius are worth it by the same proof."""
    rng, asked = np.random.default_rng(2), ColumnReaches(Frame(3))
    assert asked.scale(COST) >= 3 / EPSILON
    for _ in range(200):
        rows = rng.normal(size=(6, 3)) * rng.choice([0.0, 1e-3, 1.0, 900.0], size=(6, 3))
        other = rows.copy() if relation is REPLACE else rows[1:]
        if relation is REPLACE:
            other[0] = rng.normal(size=3) * rng.choice([0.0, 1.0, 1e9], size=3)
        first, second = (asked._scores(asked.statistic().update(each).counts, COST) for each in (rows, other))
        moved = second - first
        assert np.abs(moved).max() <= 64
        assert np.all((moved >= 0).all(axis=1) | (moved <= 0).all(axis=1))


def test_reaches_hold_all_but_few_entries():
    """Of 2,000 entries fewer than 40 are larger, at a noise scale of 3.75; ⅛ of the reach leaves more outside."""
    rows = np.random.default_rng(4).standard_t(2, size=(2000, 3)) * [0.5, 2.0, 20.0]
    asked, rng = ColumnReaches(Frame(3)), randomness(9)
    found = asked.statistic().update(rows)
    reaches = asked.answer(found, asked.draw(COST, REPLACE, rng), COST, REPLACE, rng)
    larger = (np.abs(rows) > reaches).sum(axis=0)
    assert larger.max() < 40
    assert (np.abs(rows) > reaches / 8).sum(axis=0).min() > 40


def test_a_reach_shows_a_scale_unless_it_is_short_or_the_longest():
    assert shows_scale(np.array([0.25, 1.0, 2.0, 32.0, 1024.0])).tolist() == [False, False, True, True, False]
