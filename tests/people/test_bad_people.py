"""Search for bad people: all rows of one person, however many and however hostile, move no sum by more than is claimed.

The claims are those for one row. Planted faults (weights forgotten, a cap that is not applied, a person who is taken
for two) are found by the same search.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpeigen.privacy.budget import Relation
from dpeigen.privacy.randomness import randomness
from dpeigen.sources import ArraySource
from dpeigen.sources.units import UnitsByPlace
from dpeigen.stats import Frame, Lattice, RowSums, SecondMoment, SquareSums, unit_lattice
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.moments import FINER
from dpeigen.stats.nested import NestedMoment
from dpeigen.stats.norms import GRID
from dpeigen.stats.units import MOST_SHARED, UnitBlock, root_weights

RELATIONS = list(Relation)
RADIUS = 2.0


def block(people, sizes=None, capped=0):
    """Rows of people, one after the other; ``sizes``: what is taken for the number of their rows."""
    rows = np.concatenate(people) if people else np.empty((0, 1))
    sizes = [len(person) for person in people] if sizes is None else sizes
    heads = np.concatenate([np.arange(len(person)) == 0 for person in people])
    each = np.repeat(sizes, [len(person) for person in people]).astype(np.int64)
    whose = np.repeat(np.arange(len(people)), [len(person) for person in people])
    return UnitBlock(rows, np.full(len(rows), capped), heads, True, whose) if capped else UnitBlock(rows, each, heads)


def hostile(rng, d, most=3000):
    """A person with up to 3,000 rows, as bad as rows can be."""
    m = int(rng.choice([1, 2, 3, 7, 100, most]))
    kind = int(rng.integers(8))
    axis = np.eye(d)[rng.integers(d)]
    if kind == 0:
        return np.tile(rng.normal(size=d) * 10.0 ** rng.integers(-3, 12), (m, 1))
    if kind == 1:
        return np.tile(RADIUS * axis * rng.choice([-1, 1]), (m, 1))
    if kind == 2:
        return np.tile(np.full(d, RADIUS / math.sqrt(d)), (m, 1)) * rng.choice([-1, 1], size=(1, d))
    if kind == 3:
        return np.eye(d)[rng.integers(d, size=m)] * RADIUS
    if kind == 4:
        return rng.normal(size=(m, d)) * np.logspace(3, -9, m)[:, None]
    if kind == 5:  # halfway between grid steps, where rounding adds most
        steps = np.floor(rng.normal(size=(m, d)) * 300) + 0.5
        return steps * Lattice(Frame(d), RADIUS).step * math.sqrt(m)
    if kind == 6:
        return np.zeros((m, d))
    return np.where(rng.random((m, d)) < 0.5, 1.0, -1.0) * RADIUS / math.sqrt(d)


def upper(change):
    return float(np.abs(np.triu(change)).sum())


def nuclear(change):
    return float(np.abs(np.linalg.eigvalsh(change)).sum())


STATISTICS = {
    "moment": lambda d: SecondMoment(Lattice(Frame(d), RADIUS)),
    "augmented": lambda d: SecondMoment(Lattice(Frame(d), RADIUS), LEVELS // 3),
    "constant of the radius": lambda d: SecondMoment(Lattice(Frame(d), RADIUS), LEVELS),
    "small constant": lambda d: SecondMoment(Lattice(Frame(d), RADIUS), 105),
    "signs": lambda d: SecondMoment(unit_lattice(Frame(d))),
    "squares": lambda d: SquareSums(Lattice(Frame(d), RADIUS)),
    "sums": lambda d: RowSums(Lattice(Frame(d), RADIUS)),
}


def claims(kind, statistic, relation):
    """(measure, claimed sensitivity) of a statistic."""
    d, replaced = statistic.lattice.n_columns, relation is Relation.REPLACE
    if isinstance(statistic, SecondMoment):
        return [
            (np.linalg.norm, statistic.frobenius_sensitivity(relation)),
            (nuclear, statistic.trace_sensitivity(relation)),
            (upper, statistic.upper_sensitivity(relation)),
        ]
    length = float(LEVELS**2) if kind == "squares" else float(LEVELS * FINER)
    if kind == "squares":
        two, one = (math.sqrt(2), 2.0) if replaced else (1.0, 1.0)
    else:
        two, one = (2.0, 2.0 * math.sqrt(d)) if replaced else (1.0, math.sqrt(d))
    return [(np.linalg.norm, two * length), (lambda change: float(np.abs(change).sum()), one * length)]


def numbers(statistic):
    name = {SecondMoment: "augmented", SquareSums: "squares", RowSums: "fine"}[type(statistic)]
    return getattr(statistic, name).astype(object)


def worst(kind, relation, d, *, tries=60, seed=0, make=block):
    """The largest share of a claim that replacing, or adding, a person was seen to use."""
    rng, largest = np.random.default_rng([seed, d]), 0.0
    for _ in range(tries):
        others = [rng.normal(size=(int(rng.integers(1, 5)), d)) for _ in range(3)]
        first, second = hostile(rng, d), hostile(rng, d)
        tables = [[*others, first], [*others, second] if relation is Relation.REPLACE else others]
        before, after = (numbers(STATISTICS[kind](d).update(make(people))) for people in tables)
        change = (before - after).astype(np.float64)
        for measure, claim in claims(kind, STATISTICS[kind](d), relation):
            largest = max(largest, float(measure(change)) / claim)
    return largest


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_no_person_moves_a_sum_by_more_than_is_claimed_for_a_row(kind, relation, d):
    found = worst(kind, relation, d)
    assert found <= 1 + 1e-12
    assert found > 0.6  # the search does find bad people


@pytest.mark.parametrize("kind", STATISTICS)
def test_fault_weights_forgotten(kind):
    def unweighted(people):
        return block(people, sizes=[1] * len(people))

    assert worst(kind, Relation.REPLACE, 2, tries=12, make=unweighted) > 10


@pytest.mark.parametrize("kind", STATISTICS)
def test_fault_a_person_taken_for_two(kind):
    def halved(people):
        return block([half for person in people for half in (person[::2], person[1::2]) if len(half)])

    assert worst(kind, Relation.ADD_REMOVE, 2, make=halved) > 1.5


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_capped_people_move_no_more_either(kind, relation, d):
    def capped(people):
        return block([person[:4] for person in people], capped=4)

    assert 0.55 < worst(kind, relation, d, make=capped) <= 1 + 1e-12


def test_people_who_count_less_than_they_have_rows_move_no_more_either():
    """Of up to 3,000 rows that are used a person counts as two: rows of people with more share one."""

    def counted(people):
        made = block(people, capped=2)
        sizes = np.repeat([max(len(person), 2) for person in people], [len(person) for person in people])
        return replace(made, sizes=sizes)

    for kind in STATISTICS:
        assert 0.55 < worst(kind, Relation.REPLACE, 2, tries=30, make=counted) <= 1 + 1e-12


@pytest.mark.parametrize("kind", ["augmented", "signs", "sums"])
def test_fault_a_cap_that_is_not_applied(kind):
    """Where rows are clipped together, second moments stay within the radius all the same; weights and signs do not."""

    def uncapped(people):
        return block(people, capped=4)

    assert worst(kind, Relation.REPLACE, 3, make=uncapped) > 5


@pytest.mark.parametrize("shape", ["ball", "sphere"])
def test_the_squares_of_a_person_sum_to_at_most_the_radius(shape):
    rng = np.random.default_rng(1)
    for m in (1, 2, 3, 1000, MOST_SHARED):
        for d in (1, 3, 40):
            lattice = Lattice(Frame(d), 1.0, shape)
            z = lattice.integers(block([rng.normal(size=(m, d)) * 100]))
            assert int((z.astype(np.int64) ** 2).sum()) <= LEVELS**2
            assert (z == np.rint(z)).all()


def test_root_weights_are_the_largest_that_may_be():
    sizes = np.arange(1, 5000)
    for whole in (1, 105, 2**12, 2**20):
        weights = root_weights(sizes, whole).astype(np.int64)
        assert (sizes * weights**2 <= whole**2).all()
        assert (sizes * (weights + 1) ** 2 > whole**2).all()


def test_people_with_one_row_are_rows():
    rows = np.random.default_rng(2).normal(size=(500, 4)) * 3
    for make in STATISTICS.values():
        alone, shared = make(4).update(rows), make(4).update(block([row[None] for row in rows]))
        assert (numbers(alone) == numbers(shared)).all()
        assert alone.count == shared.count == 500


def test_a_person_counts_one_whatever_the_number_of_their_rows():
    row = np.array([[0.3, -0.7]])
    once, often = (SecondMoment(Lattice(Frame(2), 1.0), LEVELS).update(block([np.tile(row, (m, 1))])) for m in (1, 900))
    np.testing.assert_allclose(once.augmented.astype(float), often.augmented.astype(float), rtol=1e-3)
    assert once.augmented[0, 0] == often.augmented[0, 0] == LEVELS**2


def test_sums_do_not_depend_on_where_rows_of_a_person_lie():
    rng = np.random.default_rng(3)
    people = [rng.normal(size=(int(m), 3)) for m in rng.integers(1, 9, 60)]
    whole = block(people)
    order = rng.permutation(len(whole))
    for make in STATISTICS.values():
        expected = make(3).update(whole)
        parts = [make(3).update(whole[order][at : at + 17]) for at in range(0, len(whole), 17)]
        merged = parts[0]
        for part in parts[1:]:
            merged.merge(part)
        assert (numbers(merged) == numbers(expected)).all()
        assert merged.count == expected.count == 60


def test_rows_of_people_are_no_array():
    with pytest.raises((ValueError, TypeError)):
        Frame(2).image(block([np.ones((3, 2))]))
    with pytest.raises(AssertionError, match="pair of people"):
        Lattice(Frame(2, pairs=True), 1.0).integers(block([np.ones((4, 2))]))


def test_how_many_rows_someone_has_does_not_change_which_row_stands_for_others():
    """Of everybody's two rows the first is long. Counted by the first rows, nobody would be within the radius."""
    rows = np.tile([[3.0], [0.1]], (400, 1))
    for more in (1, MOST_SHARED + 1):  # of the last person: with so many, rows must be drawn at once
        table = np.concatenate([rows, np.full((more, 1), 0.1)])
        ids = np.concatenate([np.repeat(np.arange(400), 2), np.full(more, 400)])
        source = UnitsByPlace(ArraySource(table), lambda ids=ids: (ids, 401), "who")
        source.choose(randomness(0))
        found = source.reduce(NestedMoment(Lattice(Frame(1), 4.0), 1.0))
        assert 150 < found.cumulative[np.searchsorted(GRID, 1.0)] < 250
