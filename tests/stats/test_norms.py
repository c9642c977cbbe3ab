"""Counts of norms: right, and one row moves one unit, in one direction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeigen.stats.frame import Frame
from dpeigen.stats.norms import GRID, NormHistogram

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=80)
ENTRIES = st.one_of(st.sampled_from([0.0, 1.0, 2.0**-48, 2.0**48, 1e300, 5e-324]), st.floats(-1e6, 1e6))
ROWS = st.lists(st.tuples(ENTRIES, ENTRIES), min_size=1, max_size=8)


def rows_of_all_sizes(n, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * 2.0 ** rng.uniform(-60, 60, (n, 1))


def directly(rows):
    """Counts of cells and of rows within each radius, one row and one radius at a time."""
    norms = [math.hypot(*row) for row in rows]
    distance = min(abs(norm / radius - 1) for norm in norms for radius in GRID)
    assert distance > 1e-6  # the norms are not so close to a radius that rounding decides
    within = [sum(norm <= radius for norm in norms) for radius in GRID]
    return np.diff([0, *within, len(norms)]), within


def test_the_grid_is_public_and_geometric():
    assert (GRID[0], GRID[-1], len(GRID)) == (2.0**-48, 2.0**48, 385)
    assert np.allclose(GRID[1:] / GRID[:-1], 2**0.25)


@pytest.mark.parametrize("d", [1, 3, 50])
def test_counts_agree_with_counting(d):
    rows = rows_of_all_sizes(300, d)
    histogram = NormHistogram(Frame(d)).update(rows)
    counts, within = directly(rows)
    assert np.array_equal(histogram.counts, counts)
    assert np.array_equal(histogram.cumulative, within)
    assert histogram.count == 300


def test_a_norm_on_the_grid_belongs_to_the_cell_below():
    rows = np.array([[1.0], [-1.0], [2.0], [2.0**-48], [2.0**48], [0.0], [2.0**49], [1e300]])
    histogram = NormHistogram(Frame(1)).update(rows)
    at_most = dict(zip(GRID.tolist(), histogram.cumulative.tolist(), strict=True))
    assert (at_most[2.0**-48], at_most[1.0], at_most[2.0], at_most[2.0**48]) == (2, 4, 5, 6)
    assert histogram.counts[-1] == 2  # above the grid


def test_norms_are_taken_in_the_frame():
    rows = np.array([[3.0, 4.0], [6.0, 8.0], [np.nan, 1.0]])
    frame = Frame(2, center=np.array([3.0, 4.0]), missing="drop")
    histogram = NormHistogram(frame).update(rows)
    assert histogram.counts[0] == 2  # the first and the dropped row sit at the centre
    assert histogram.cumulative[np.searchsorted(GRID, 5.0)] == 3
    pairs = NormHistogram(Frame(2, pairs=True)).update(rows[:2])
    assert pairs.count == 1


@pytest.mark.parametrize("cuts", [(1,), (7, 7, 100), (150, 299)])
def test_blocks_and_merges_do_not_matter(cuts):
    rows = rows_of_all_sizes(300, 3)
    whole = NormHistogram(Frame(3)).update(rows)
    blocks = np.split(rows, cuts)
    stream, merged = whole.fresh(), whole.fresh()
    assert merged.count == 0
    for block in blocks:
        stream.update(block)
        merged = whole.fresh().update(block).merge(merged)
    assert np.array_equal(stream.counts, whole.counts)
    assert np.array_equal(merged.counts, whole.counts)
    shuffled = whole.fresh().update(np.asfortranarray(rows[::-1]))
    assert np.array_equal(shuffled.counts, whole.counts)


def assert_one_row_moves_one_unit(count, rows, position, new):
    before = count(np.array(rows))
    after = count(np.array([*rows[:position], new, *rows[position + 1 :]]))
    more = count(np.array([*rows, new]))
    change = after.counts - before.counts
    assert change.sum() == 0
    assert np.abs(change).sum() in (0, 2)
    shift = after.cumulative - before.cumulative
    assert (shift >= 0).all() or (shift <= 0).all()
    assert np.abs(shift).max() <= 1
    added = more.counts - before.counts
    assert added.sum() == added.max() == 1
    assert added.min() == 0
    assert set(np.unique(more.cumulative - before.cumulative)) <= {0, 1}


@FIXED
@given(ROWS, st.tuples(ENTRIES, ENTRIES), st.data())
def test_one_row_moves_one_unit_and_all_cumulative_counts_one_way(rows, new, data):
    position = data.draw(st.integers(0, len(rows) - 1))
    frame = Frame(2, center=np.array([0.5, -0.5]), weights=np.array([2.0, 0.1]))
    assert_one_row_moves_one_unit(lambda block: NormHistogram(frame).update(block), rows, position, new)


def test_twin_norms_relative_to_the_largest_move_more_than_one_unit():
    def faulty(block):
        return NormHistogram(Frame(2)).update(block / np.abs(block).max())

    with pytest.raises(AssertionError):
        assert_one_row_moves_one_unit(faulty, [(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)], 0, (100.0, 0.0))
