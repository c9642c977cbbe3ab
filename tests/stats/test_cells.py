"""Cells and class sums: what one row can change, whatever it holds, and that every order and block gives the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpeigen.privacy import Relation
from dpeigen.stats import BadRowsError, Frame
from dpeigen.stats.cells import PlaneCells, PlaneView, cell_sensitivity, class_sensitivity
from dpeigen.stats.lattice import LEVELS

rng = np.random.default_rng(0)
DIRECTIONS = np.linalg.qr(rng.normal(size=(3, 3)))[0][:2]


def view(classes=2, window=((-2.0, 2.0), (-1.0, 1.0)), **options):
    window = np.array(window)
    frame = Frame(3, np.array([0.1, -0.2, 0.3]), **options)
    return PlaneView(frame, DIRECTIONS, window, np.diff(window)[:, 0] / 2, (0, 1, 2), tuple(range(3, 3 + classes)))


def statistic(rows, by_class=False, **options):
    return PlaneCells(view(**options), 7, by_class=by_class).update(np.asarray(rows))


ENTRY = st.floats(allow_nan=False, allow_infinity=False, width=64)
ROW = arrays(np.float64, 5, elements=ENTRY | st.sampled_from([0.0, 1.0, 1e308, -1e308, 5e-324]))


@given(ROW, ROW, st.booleans())
@settings(max_examples=200, deadline=None)
def test_one_row_changes_no_more_than_the_sensitivity(row, other, by_class):
    base = statistic(rng.normal(size=(4, 5)), by_class)
    one, two = (base.fresh().merge(base).merge(statistic([r], by_class)) for r in (row, other))
    for relation, (left, right) in {Relation.ADD_REMOVE: (one, base), Relation.REPLACE: (one, two)}.items():
        assert np.abs(left.counts - right.counts).sum() <= cell_sensitivity(relation)
        assert np.abs(left.sums - right.sums).sum() <= class_sensitivity(relation)


def test_the_sensitivities_are_reached():
    far, here = np.zeros((2, 5))
    far[:3], far[3] = view().frame.center + 1e6 * DIRECTIONS[0], 1
    here[:3], here[4] = view().frame.center - 1e6 * DIRECTIONS[0], 1
    one, two = statistic([far]), statistic([here])
    assert np.abs(one.counts - two.counts).sum() == cell_sensitivity(Relation.REPLACE)
    assert np.abs(one.sums - two.sums).sum() == pytest.approx(class_sensitivity(Relation.REPLACE), rel=1e-5)


def test_a_row_that_counted_in_two_classes_would_be_seen():
    """The planted fault: sums for every class whose column is 1, not for the first alone."""
    row = np.array([[9.0, 9.0, 9.0, 1.0, 1.0]])
    assert np.count_nonzero(statistic(row).sums[:, 0]) == 1
    twice = statistic(row[:, [0, 1, 2, 3]], classes=1).sums[0]
    assert np.abs(np.stack([twice, twice])).sum() > class_sensitivity(Relation.ADD_REMOVE)


def test_blocks_order_and_merging_do_not_matter():
    rows = np.column_stack([rng.normal(size=(3001, 3)) * 1.5, rng.random((3001, 2)) < 0.4]).astype(float)
    whole = statistic(rows, by_class=True)
    parts = PlaneCells(view(), 7, by_class=True)
    for part in np.array_split(rows[::-1], 17):
        parts.merge(statistic(part, by_class=True))
    assert (whole.counts == parts.counts).all()
    assert (whole.sums == parts.sums).all()
    assert whole.count == parts.count == 3001
    one_by_one = PlaneCells(view(), 7)
    for row in rows[:200]:
        one_by_one.update(row[None])
    assert (one_by_one.counts == statistic(rows[:200]).counts).all()
    assert (one_by_one.sums == statistic(rows[:200]).sums).all()


def test_counts_and_sums_are_those_of_the_scores():
    rows = np.column_stack([rng.normal(size=(500, 3)), rng.integers(0, 2, size=500)[:, None] == [0, 1]]).astype(float)
    found = statistic(rows)
    scores = (rows[:, :3] - view().frame.center) @ DIRECTIONS.T
    edges = np.linspace(-2, 2, 8), np.linspace(-1, 1, 8)
    inside = np.clip(scores, [-1.999, -0.999], [1.999, 0.999])  # beyond the window: the cell at its edge
    assert np.abs(found.counts[0] - np.histogram2d(*inside.T, bins=edges)[0]).sum() <= 2  # rounding at a border
    place = scores / [2.0, 1.0]
    place /= np.maximum(np.abs(place).sum(axis=1), 1)[:, None]
    for c in (0, 1):
        mine = rows[:, 3 + c] == 1
        assert np.allclose(found.sums[c] / LEVELS, [mine.sum() / 2, *place[mine].sum(axis=0)], atol=2e-3)


def test_rows_without_a_class_are_in_no_class():
    rows = np.column_stack([rng.normal(size=(50, 3)), np.full((50, 2), 0.5)])
    assert statistic(rows).counts.sum() == 50
    assert not statistic(rows).sums.any()
    assert not statistic(rows, by_class=True).counts.any()


def test_bad_rows_are_refused_or_at_the_centre():
    row = np.array([[np.nan, 1.0, 1.0, 1.0, 0.0]])
    with pytest.raises(BadRowsError):
        statistic(row)
    found = statistic(row, missing="drop")
    assert found.counts[0, 3, 3] == 1
    assert found.sums[0].tolist() == [LEVELS // 2, 0, 0]


def test_other_planes_do_not_merge():
    with pytest.raises(ValueError, match="different planes"):
        statistic([[0] * 5]).merge(statistic([[0] * 5], window=((-3.0, 3.0), (-1.0, 1.0))))
