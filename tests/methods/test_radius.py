"""The private radius: its output distribution computed exactly, for the worst neighbours that can be found."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpeigen.auditing.events import exact_epsilon_discrete
from dpeigen.curator import DataCurator, Purpose
from dpeigen.methods.radius import check_enough_rows, rows_needed
from dpeigen.privacy import Budget, GaussianCost, PureCost, Randomness, Relation
from dpeigen.questions import RadiusHolding
from dpeigen.questions import radius as radius_module
from dpeigen.questions.radius import KEEP, OUT_OF, holding_scale
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame, norms

REPLACE, ADD_REMOVE = Relation.REPLACE, Relation.ADD_REMOVE
SMALL_GRID = np.array([1.0, 2.0, 4.0, 8.0])


@pytest.fixture
def small_grid(monkeypatch):
    for module in (radius_module, norms):
        monkeypatch.setattr(module, "GRID", SMALL_GRID)
    return SMALL_GRID


def private_radius(source, frame, cost, relation, rng):
    curator = DataCurator(source, relation, {Purpose.RADIUS: cost}, Budget(cost.epsilon), rng)
    return curator.measure(RadiusHolding(frame), purpose=Purpose.RADIUS, cost=cost)


def margins_of(cells, relation, slack=0) -> np.ndarray:
    """What is compared with the threshold, from the number of rows in each cell (the last one beyond the grid)."""
    cumulative, n = np.cumsum(cells)[:-1], int(np.sum(cells))
    if relation is REPLACE:
        return cumulative - math.ceil(n * KEEP / OUT_OF) + slack
    return OUT_OF * cumulative - KEEP * n + slack


def output_pmf(margins, scale) -> np.ndarray:
    """P(the first i with margin_i + noise_i ≥ threshold noise), summed over that noise; none counts as the last."""
    reach = int(60 * scale + np.abs(margins).max()) + 2
    t = np.arange(-reach, reach + 1)
    p = np.tanh(1 / (2 * scale)) * np.exp(-np.abs(t) / scale)
    # P(N ≥ k) of discrete Laplace noise, exact on both sides
    q = math.exp(-1 / scale)
    k = t[None, :] - margins[:, None]
    at_least = np.where(k > 0, q ** np.maximum(k, 0) / (1 + q), 1 - q ** np.maximum(1 - k, 0) / (1 + q))
    below = np.vstack([np.ones(len(t)), np.cumprod(1 - at_least, axis=0)])
    pmf = (p * below[:-1] * at_least).sum(axis=1)
    pmf[-1] += (p * below[-1]).sum()
    return pmf


class Fixed(Randomness):
    """Returns given draws, one list after the other."""

    seeded = True

    def __init__(self, *values):
        self.values = list(values)

    def discrete_laplace(self, scale, size):
        value = np.asarray(self.values.pop(0))
        assert len(value) == size
        return value

    uniform = normal = permutation = discrete_gaussian = None


Fixed.__abstractmethods__ = frozenset()


def rows_in(cells) -> np.ndarray:
    lengths = np.append(SMALL_GRID * 0.75, 100.0)
    return np.repeat(lengths, cells)[:, None]


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
def test_the_scan_is_the_one_that_is_analysed(relation, small_grid):
    rng = np.random.default_rng(0)
    for _ in range(300):
        cells = rng.integers(0, 6, size=5)
        cells[0] += 2
        threshold, noise = rng.integers(-40, 40, size=1), rng.integers(-40, 40, size=4)
        found = private_radius(ArraySource(rows_in(cells)), Frame(1), PureCost(1.0), relation, Fixed(threshold, noise))
        margins = margins_of(cells, relation, radius_module.slack(PureCost(1.0), relation))
        passing = [i for i in range(4) if margins[i] + noise[i] >= threshold[0]]
        assert found == SMALL_GRID[passing[0] if passing else 3]


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
def test_the_output_has_the_computed_distribution(relation, small_grid, tools):
    """Cell by cell exact binomial tails, Bonferroni over 4 cells and two sides: false alarms ≤ 1e-6."""
    cells, cost, runs = np.array([60, 60, 60, 16, 4]), PureCost(1.0 if relation is REPLACE else 0.3), 3000
    scale = holding_scale(cost, relation)
    source = ArraySource(rows_in(cells))

    def surprise(rng):
        found = [private_radius(source, Frame(1), cost, relation, rng) for _ in range(runs)]
        seen = np.array([found.count(r) for r in SMALL_GRID])
        pmf = output_pmf(margins_of(cells, relation, radius_module.slack(cost, relation)), scale)
        assert pmf.sum() == pytest.approx(1.0, abs=1e-12)
        tails = np.minimum(stats.binom.cdf(seen, runs, pmf), stats.binom.sf(seen - 1, runs, pmf))
        return 8 * tails.min()

    assert surprise(tools.seeded(1)) > 1e-6
    assert surprise(tools.faulty(1)) < 1e-6  # the twin: noise × 0.7


def all_small(relation, top):
    """Pairs of cell counts that differ by one row, over small and lopsided histograms of a grid of four."""
    for cells in itertools.product([0, 1, 3, top], repeat=5):
        first = np.array(cells)
        if first.sum() < 2:
            continue
        for a in range(5):
            if relation is ADD_REMOVE:
                yield first, first + np.eye(5, dtype=int)[a]
            elif first[a]:
                yield from (
                    (first, first - np.eye(5, dtype=int)[a] + np.eye(5, dtype=int)[b]) for b in range(5) if b != a
                )


def many_at_the_threshold(relation, steps):
    """The worst that is known: many radii at the threshold before the answer, and one row that moves them all."""
    for inside, answer in itertools.product([19, 38, 57, 190], [2, steps // 2, steps - 2]):
        for beyond in (1, 2, 3, 10):
            first = np.zeros(steps + 1, dtype=int)
            first[0], first[answer] = inside, beyond
            for shortfall in (0, 1, 3):
                second = first.copy()
                second[-1] += shortfall
                moved = second.copy()
                moved[answer] -= 1
                if relation is REPLACE:
                    moved[0] += 1
                yield second, moved


def worst_loss(pairs, relation, scale) -> float:
    worst, known = 0.0, {}
    for pair in pairs:
        pmfs = []
        for cells in pair:
            margins = tuple(margins_of(cells, relation).tolist())
            if margins not in known:
                known[margins] = output_pmf(np.array(margins), scale)
            pmfs.append(known[margins])
        worst = max(worst, exact_epsilon_discrete(*pmfs))
    return worst


# What one row can do, in units of 1/scale: replace, threshold 1 and count 1; add/remove, threshold 19 and count 20.
REACH = {REPLACE: 2, ADD_REMOVE: KEEP + OUT_OF}


@pytest.mark.parametrize("relation", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_privacy_loss_is_at_most_epsilon(relation, epsilon):
    scale = holding_scale(PureCost(epsilon), relation)
    loss = worst_loss(many_at_the_threshold(relation, 48), relation, scale)
    assert loss <= epsilon * (1 + 1e-9)
    assert loss == pytest.approx(REACH[relation] / scale, rel=0.01)  # the search is not idle: it finds all there is
    assert worst_loss(many_at_the_threshold(relation, 48), relation, scale / 2) > epsilon  # a halved scale is caught


@pytest.mark.parametrize(("relation", "epsilon"), [(REPLACE, 1.0), (REPLACE, 3.0), (ADD_REMOVE, 3.0)])
def test_no_pair_of_small_histograms_loses_more(relation, epsilon):
    scale = holding_scale(PureCost(epsilon), relation)
    assert 0.3 * epsilon < worst_loss(all_small(relation, 40), relation, scale) <= epsilon * (1 + 1e-9)


def test_pure_costs_only():
    with pytest.raises(TypeError, match="pure ε"):
        holding_scale(GaussianCost(1.0), REPLACE)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_with_the_rows_it_asks_for_it_finds_the_quantile(epsilon, tools):
    """All rows at one length: fewer than 1 in 100 answers may lie more than one grid step off; so with 30 runs
    (binomial tail) more than 6 off happen with probability below 1e-6. A tenth of the rows is caught as too few."""
    n = rows_needed(PureCost(epsilon))

    def misses(rows):
        source, rng = ArraySource(np.full((rows, 1), 3.0)), tools.seeded(5)
        found = [private_radius(source, Frame(1), PureCost(epsilon), REPLACE, rng) for _ in range(30)]
        return sum(not 3.0 <= r <= 3.0 * 2**0.5 for r in found)

    assert stats.binom.sf(6, 30, 0.01) < 1e-6
    assert misses(n) <= 6
    assert misses(n // 10) > 6


def test_too_few_rows_are_refused_and_unknown_numbers_are_not():
    cost = PureCost(1.0)
    check_enough_rows(rows_needed(cost), cost, "Test")
    check_enough_rows(None, cost, "Test")
    with pytest.raises(ValueError, match=r"'bound' parameter of Test .* at least \d+ rows"):
        check_enough_rows(rows_needed(cost) - 1, cost, "Test")


def test_every_draw_is_made_before_the_scan(tools):
    """The number of draws, and so the time, does not depend on the data."""
    counts = set()
    for rows in (np.full((50, 1), 1e-9), np.full((50, 1), 1e9), np.zeros((50, 1))):
        silent = tools.Silent()
        private_radius(ArraySource(rows), Frame(1), PureCost(1.0), REPLACE, silent)
        counts.add(tuple(size for _, _, size in silent.asked))
    assert counts == {(1, len(norms.GRID))}
