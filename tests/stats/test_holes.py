"""Counts of missing cells: a slow reference, merging, weights of people, and a search for bad neighbours."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpeigen.stats import BadRowsError, Frame, Lattice, SecondMoment
from dpeigen.stats.columns import Octaves, Sizes, Stretch
from dpeigen.stats.holes import WHOLE, HoleCounts
from dpeigen.stats.units import UnitBlock

NAN_WITH_PAYLOAD = np.array([0x7FF8DEADBEEF0001, 0xFFF0000000000001], dtype=np.uint64).view(np.float64)
BAD = [np.nan, np.inf, -np.inf, *NAN_WITH_PAYLOAD]


def table(n=200, d=4, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    holes = rng.random((n, d)) < share
    rows[holes] = rng.choice(BAD, size=int(holes.sum()))
    return rows, holes


def test_counts_are_those_of_a_slow_count_whatever_a_hole_is_made_of():
    rows, holes = table()
    found = HoleCounts(Frame(4, missing="correct")).update(rows)
    slow = [[sum(h[i] and h[j] for h in holes) for j in range(4)] for i in range(4)]
    assert (found.together == WHOLE * np.array(slow)).all()
    assert found.count == 200


def test_a_difference_has_a_hole_where_one_of_its_rows_has_one():
    rows, holes = table(201)
    found = HoleCounts(Frame(4, pairs=True, missing="correct")).update(rows)
    either = (holes[:200:2] | holes[1:200:2]).astype(int)
    assert (found.together == WHOLE * (either.T @ either)).all()
    assert found.count == 100


def test_parts_merge_to_the_whole():
    rows, _ = table()
    frame = Frame(4, missing="correct")
    parts = HoleCounts(frame).update(rows[150:]).merge(HoleCounts(frame).update(rows[:150]))
    assert (parts.together == HoleCounts(frame).update(rows).together).all()
    with pytest.raises(ValueError, match="merged"):
        parts.merge(HoleCounts(Frame(4)))


@pytest.mark.parametrize("sizes", [[1, 2, 3, 7], [1, 1000, 4096, 5]])
def test_all_rows_of_a_person_add_at_most_one(sizes):
    of = np.repeat(sizes, sizes)
    heads = np.concatenate([[True, *[False] * (m - 1)] for m in sizes])
    block = UnitBlock(np.full((len(of), 2), np.nan), of, heads)
    found = HoleCounts(Frame(2, missing="correct")).update(block)
    assert found.count == len(sizes)
    assert (found.together <= WHOLE * len(sizes)).all()
    assert (found.together >= WHOLE * len(sizes) * 0.99).all()


def test_no_neighbour_changes_counts_by_more_than_one_each():
    """All pairs of masks of three columns, beside other rows."""
    frame, others = Frame(3, missing="correct"), table(20, 3)[0]
    masks = [np.where(mask, np.nan, 1.0) for mask in itertools.product([False, True], repeat=3)]
    worst = 0
    for first, second in itertools.product(masks, masks):
        before = HoleCounts(frame).update(np.vstack([others, first])).together
        after = HoleCounts(frame).update(np.vstack([others, second])).together
        worst = max(worst, int(np.abs(before - after).max()))
    assert worst == WHOLE


# --- the frame and its statistics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("box", [None, (np.full(3, -1.0), np.full(3, 1.0))])
def test_a_hole_is_zero_and_the_rest_of_its_row_stays(bad, box):
    rows = np.array([[0.5, bad, -0.25], [0.1, 0.2, 0.3]])
    center, weights = np.array([0.1, 5.0, 0.0]), np.array([2.0, 3.0, 1.0])
    frame = Frame(3, center, weights, box, missing="correct")
    assert np.array_equal(frame.image(rows)[0], [0.8, 0.0, -0.25])
    assert np.array_equal(frame.image(rows)[1], Frame(3, center, weights, box).image(rows[1:])[0])
    assert np.array_equal(Frame(3, pairs=True, missing="correct").image(rows), [[0.2, 0.0, -0.275]])
    assert not Frame(3, center, weights, box, missing="drop").image(rows)[0].any()
    with pytest.raises(BadRowsError, match="missing='correct'"):
        Frame(3, center, weights, box).image(rows)


def test_filling_makes_no_row_longer_and_stretches_none():
    rows, holes = table(500, 4)
    found = Lattice(Frame(4, missing="correct"), 1e3).integers(rows)
    plain = Lattice(Frame(4), 1e3).integers(np.where(holes, 0.0, rows))
    assert np.array_equal(found, plain)
    short = Lattice(Frame(4, missing="correct"), 0.5).integers(rows)
    assert (np.square(short).sum(axis=1) <= 2**40).all()
    moments = [SecondMoment(Lattice(Frame(4, missing="correct"), 2.0)) for _ in range(2)]
    moments[0].update(rows)
    for row in rows:
        moments[1].update(row[None])
    assert (moments[0].gram == moments[1].gram).all()  # a row's image depends on that row alone


@pytest.mark.parametrize("statistic", [Sizes, Octaves, Stretch])
def test_a_hole_falls_into_no_cell(statistic):
    rows, holes = table(300, 3)
    counted = statistic(Frame(3, missing="correct"), (0, 1, 2)).update(rows).counts
    alone = [statistic(Frame(1), (0,)).update(rows[~holes[:, j], j][:, None]).counts[0] for j in range(3)]
    assert np.array_equal(counted, alone)
    assert np.array_equal(statistic(Frame(3, missing="correct"), (2,)).update(rows).counts, counted[2:])
    dropped = statistic(Frame(3, missing="drop"), (0, 1, 2)).update(rows).counts
    assert np.array_equal(dropped, statistic(Frame(3), (0, 1, 2)).update(rows[~holes.any(axis=1)]).counts)
