"""Cells of far rows: what one row can change, whatever it holds, against a slow version, and how noise is spread."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpeigen.privacy import PureCost, Relation
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.questions import FarRows, cost_of_far_rows
from dpeigen.stats import Frame
from dpeigen.stats.far_rows import FarCells, describe, number_of_cells

D = 4
rng = np.random.default_rng(0)
ENTRY = st.floats(allow_nan=False, allow_infinity=False, width=64)
ROW = arrays(np.float64, D, elements=ENTRY | st.sampled_from([0.0, 1.0, -1.0, 2**0.25, 1e308, -1e308, 5e-324]))


def found(rows, frame=None):
    return FarCells(frame or Frame(D)).update(np.asarray(rows, dtype=float))


def slow_cell(row):
    """(first, second, quarter octaves, half octaves, same sign) with Python numbers; None if the row is not far."""
    order = sorted(range(len(row)), key=lambda j: (-abs(row[j]), j))
    first, second = order[:2]
    largest, other = abs(row[first]), abs(row[second])
    if largest < 1:
        return None
    step = max(j for j in range(32) if largest >= 2 ** (j / 4))
    ratio = sum(other < largest * 2 ** (-j / 2) for j in (1, 2, 3, 4))
    if ratio == 4:
        return first, None, step, None, True
    return first, second, step, ratio, math.copysign(1, row[first]) == math.copysign(1, row[second])


@given(ROW, ROW)
@settings(max_examples=300, deadline=None)
def test_one_row_changes_no_more_than_the_sensitivity(row, other):
    base = found(3 * rng.normal(size=(4, D))).counts
    one, two = base + found([row]).counts, base + found([other]).counts
    assert np.abs(one - base).sum() <= 1
    assert np.abs(one - two).sum() <= 2


def test_the_sensitivity_is_reached():
    assert np.abs(found([[9.0, 0, 0, 0]]).counts - found([[0, 9.0, 0, 0]]).counts).sum() == 2


@given(ROW)
@settings(max_examples=300, deadline=None)
def test_the_cell_of_a_row_is_that_of_a_slow_version(row):
    cells = np.flatnonzero(found([row]).counts)
    expected = slow_cell(row.tolist())
    assert len(cells) == (expected is not None)
    for cell in describe(cells, D):
        first, second, step, ratio, same = expected
        assert (cell.first, cell.second) == (first, second)
        assert cell.size == pytest.approx(2 ** ((step + 0.5) / 4))
        if second is not None:
            assert cell.ratio == pytest.approx(2 ** (-(ratio + 0.5) / 2))
            assert cell.same_sign == same


def test_every_cell_can_be_described_and_is_another_one():
    cells = describe(np.arange(number_of_cells(D)), D)
    assert len(set(cells)) == len(cells) == number_of_cells(D)


def test_blocks_orders_and_merging_give_the_same_counts():
    rows = 2 * rng.standard_t(2, size=(5000, D))
    whole = found(rows)
    parts = found(rows[4000:]).merge(found(rows[:4000][::-1]))
    np.testing.assert_array_equal(whole.counts, parts.counts)
    assert whole.count == parts.count == 5000
    single = [found(rows[i : i + 1]).counts for i in range(200)]
    np.testing.assert_array_equal(np.sum(single, axis=0), found(rows[:200]).counts)


@pytest.mark.parametrize(("relation", "moved"), [(Relation.REPLACE, 2), (Relation.ADD_REMOVE, 1)])
def test_noise_is_as_large_as_the_cost_says(relation, moved):
    """The share of cells with noise 0 is tanh(ε/2·moved): false alarm below 1e-6. Twin: noise of half the scale."""
    asked, cost = FarRows(Frame(12)), PureCost(4.0)
    empty = asked.statistic()
    noise = asked.answer(empty, None, cost, relation, SeededRandomness(np.random.default_rng(1)))
    p, cells = math.tanh(4.0 / moved / 2), len(noise)
    away = 5 * math.sqrt(p * (1 - p) / cells)
    assert abs(np.mean(noise == 0) - p) < away
    less = asked.answer(empty, None, PureCost(8.0), relation, SeededRandomness(np.random.default_rng(1)))
    assert abs(np.mean(less == 0) - p) > away


def test_the_cost_makes_false_rows_as_rare_as_it_says():
    """400 draws of all cells, of which at most a tenth may show a row. Twin: noise of twice the scale."""
    cost, asked = cost_of_far_rows(3, Relation.REPLACE, 0.1), FarRows(Frame(3))
    empty, made = asked.statistic(), SeededRandomness(np.random.default_rng(5))
    shown = sum((asked.answer(empty, None, cost, Relation.REPLACE, made) > 0).any() for _ in range(400))
    assert shown <= 72  # binomial(400, 0.1) is above with probability below 1e-6
    half = PureCost(cost.epsilon / 2)
    assert sum((asked.answer(empty, None, half, Relation.REPLACE, made) > 0).any() for _ in range(100)) > 90
