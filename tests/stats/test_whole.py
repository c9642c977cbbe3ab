"""Moments of turned rows from sums before the turn: the right integers, whatever the blocks, never more sensitive."""

import math

import numpy as np
import pytest

from dpeigen.privacy import Relation
from dpeigen.stats import Frame, Lattice, stretch
from dpeigen.stats.exact import ExactSum
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.nested import NestedMoment, levels_of
from dpeigen.stats.norms import GRID, NormHistogram, NormHistograms, told_lengths
from dpeigen.stats.products import precise_in_single, single_is_precise
from dpeigen.stats.stretch import WhitenedRows
from dpeigen.stats.whole import Turn, WholeRows, turn_of

D = 24


def table(n=600, d=D, seed=0, shortest=0.02, kind=np.float64):
    """Rows with long tails in many units, some outside the box, a view along a basis of them, and a radius."""
    rng = np.random.default_rng(seed)
    rows = (rng.standard_t(3, size=(n, d)) * rng.uniform(1e-3, 1e3, size=d) + 1e4).astype(kind)
    center, deviation = np.median(rows, axis=0).astype(float), rows.std(axis=0).astype(float)
    frame = Frame(d, center, 1 / deviation, (center - 2 * deviation, center + 2 * deviation))
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    view = WhitenedRows(frame, basis, np.geomspace(shortest, 1.0, d))
    lengths = np.linalg.norm(view.image(rows), axis=1)
    return rows, view, float(GRID[np.searchsorted(GRID, np.quantile(lengths, 0.7))])


def nested(view, first):
    return NestedMoment(Lattice(view, 4 * first), first)


def by_integers(statistic, rows, weight):
    """The augmented moment within the first radius, in Python integers, row by row."""
    turn, d = statistic.lattice.turn, statistic.lattice.n_columns
    exact = turn.integers.astype(np.int64).astype(object)
    shifts = [int(e) for e in turn.exponents]
    z = turn.rows(rows).astype(np.int64).astype(object)
    levels = levels_of(statistic.first, statistic.lattice)
    rounded = np.array(
        [[(2 * int(v) + 2**e) >> (e + 1) for v, e in zip(row, shifts, strict=True)] for row in z @ exact.T]
    )
    lengths = np.sqrt((rounded.astype(float) ** 2).sum(axis=1))
    inside = lengths <= levels - math.sqrt(d) / 2 - 2
    gram, total = exact @ (z[inside].T @ z[inside]) @ exact.T, weight * (exact @ z[inside].sum(axis=0))
    found = np.array([[int(gram[i, j]) >> (shifts[i] + shifts[j]) for j in range(d)] for i in range(d)], dtype=object)
    return inside, found, np.array([int(t) >> e for t, e in zip(total, shifts, strict=True)], dtype=object)


@pytest.mark.parametrize("shortest", [0.5, 0.02, 1e-6])
def test_rows_inside_are_summed_as_python_integers_would(shortest):
    rows, view, first = table(shortest=shortest)
    statistic = nested(view, first)
    inside, gram, total = by_integers(statistic, rows, 77)
    assert 0.3 < inside.mean() < 0.95
    moment = nested(view, first).update(rows[inside]).within(first, 77)
    assert moment.gram.tolist() == gram.tolist()
    assert moment.augmented[0, 1:].tolist() == total.tolist()
    assert moment.augmented[0, 0] == 77**2 * inside.sum()
    others = nested(view, first).update(rows[~inside])
    assert not others._whole.moment().value.any()  # they are lattice rows
    whole = nested(view, first).update(rows)
    assert whole.people == whole.count == len(rows)
    assert (whole.within(first, 77).gram == gram + others.within(first, 77).gram).all()


def test_the_sums_do_not_depend_on_blocks_order_or_type_of_the_rows():
    rows, view, first = table(n=5000, kind=np.float32)
    expected = nested(view, first).update(rows).within(1.2 * first, 5).augmented
    for seed in range(3):
        rng = np.random.default_rng(seed)
        parts = np.array_split(rows[rng.permutation(len(rows))].astype(np.float64), rng.integers(2, 40))
        merged = nested(view, first)
        for part in parts:
            merged.merge(nested(view, first).update(part))
        np.testing.assert_array_equal(merged.within(1.2 * first, 5).augmented, expected)


def test_single_precision_decides_nothing_that_integers_would_decide_otherwise(monkeypatch):
    rows, view, first = table(n=4000)
    lattice = Lattice(view, 4 * first)
    lengths = np.linalg.norm(lattice.turn.scaled(lattice.turn.rows(rows)), axis=1)
    for limit in np.quantile(lengths, [0.1, 0.5, 0.9]):
        doubtful = lattice.turn.doubtful(lattice.turn.rows(rows), limit)
        assert set(np.flatnonzero(lengths > limit)) <= set(doubtful)
        assert len(doubtful) < (lengths > 0.98 * limit).sum()  # and it decides most
    expected = nested(view, first).update(rows).within(first, 9).augmented
    monkeypatch.setattr(Turn, "doubtful", lambda self, rows, limit: np.arange(len(rows)))
    np.testing.assert_array_equal(nested(view, first).update(rows).within(first, 9).augmented, expected)


def largest_changes(weight=1000, seeds=6):
    """The largest change of a moment over pairs of rows, one about as long as the radius, as a part of what is said."""
    worst = dict.fromkeys(Relation, 0.0)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        rows, view, first = table(n=40, seed=seed)
        back = view.directions.T / view.factors
        sides = [(back @ side * first / np.linalg.norm(side)) for side in rng.normal(size=(2, D))]
        sides[1] -= sides[0] * (sides[0] @ sides[1]) / (sides[0] @ sides[0])
        for factor in (0.99999, 1.0, 1.00001, 3.0):
            one, two = (view.frame.center + factor * np.clip(side, -2, 2) / view.frame.weights for side in sides)
            moments = [
                nested(view, first).update(np.vstack([*extra, rows])).within(first, weight)
                for extra in ([one], [two], [])
            ]
            sums = [moment.augmented.astype(object) for moment in moments]
            for relation, change in ((Relation.REPLACE, sums[0] - sums[1]), (Relation.ADD_REMOVE, sums[0] - sums[2])):
                size = math.sqrt(sum(int(entry) ** 2 for entry in change.ravel()))
                worst[relation] = max(worst[relation], size / moments[0].frobenius_sensitivity(relation))
                values = np.linalg.eigvalsh(change.astype(float))
                worst[relation] = max(worst[relation], np.abs(values).sum() / moments[0].trace_sensitivity(relation))
    return worst


def test_no_pair_of_rows_changes_the_moment_by_more_than_is_said():
    worst = largest_changes()
    assert all(0.5 < found <= 1 for found in worst.values()), worst


def test_rows_that_are_called_inside_too_easily_would_be_found(monkeypatch):
    monkeypatch.setattr(WholeRows, "_limit", lambda self, levels: 2.0 * levels)
    assert max(largest_changes(seeds=2).values()) > 1


def test_sums_are_turned_exactly_however_large_they_are():
    _, view, first = table(d=30)
    turn = turn_of(view, Lattice(view, 4 * first).step)
    rng = np.random.default_rng(1)
    exact = turn.integers.astype(np.int64).astype(object)
    for size in (2, 2**40, 2**61):
        gram, whole = ExactSum((30, 30)), np.zeros((30, 30), dtype=object)
        for _ in range(5):
            part = rng.integers(-size, size, size=(30, 30))
            part = part // 2 + part.T // 2
            gram.add(part)
            whole = whole + part.astype(object)
        turned = exact @ whole @ exact.T
        shifts = turn.exponents[:, None] + turn.exponents
        expected = [[int(turned[i, j]) >> int(shifts[i, j]) for j in range(30)] for i in range(30)]
        assert turn.moment(gram).value.tolist() == expected


@pytest.mark.parametrize("shortest", [0.3, 1e-4])
def test_lengths_that_are_told_lie_in_the_cells_of_exact_ones(shortest):
    rows, view, _ = table(n=4000, shortest=shortest)
    half = WhitenedRows(view.frame, view.directions, np.sqrt(view.factors))
    both = NormHistograms((half, view)).update(rows)
    for each, told in zip((half, view), told_lengths((half, view), rows), strict=True):
        exact = each.lengths(*each.scores(rows))
        np.testing.assert_array_equal(np.searchsorted(GRID, told), np.searchsorted(GRID, exact))
        assert (told != exact).mean() > 0.5  # most are told without
        np.testing.assert_allclose(told, exact, rtol=0.01)
        np.testing.assert_array_equal(both.of(each).counts, NormHistogram(each).update(rows).counts)


def largest_error_of_norms(shortest):
    """Of norms in single precision, relative to what is said; for rows of all lengths, one by one."""
    rows, view, _ = table(n=2000, shortest=shortest)
    sizes = np.geomspace(1e-5, 10, len(rows))[:, None]
    whole = view.integer_rows(view.frame.center + (rows - view.frame.center) * sizes)
    exact = view.lengths(*view.exact_scores(whole))
    off, part = view.rough_error(np.sqrt(np.einsum("ij,ij->i", whole, whole)))
    assert off.min() < 0.5 * off.max()  # short rows have smaller errors
    return float((np.abs(np.sqrt(view.rough_squares(whole, (view,))[0]) - exact) / (off + part * exact)).max())


@pytest.mark.parametrize("shortest", [0.3, 1e-4])
def test_norms_in_single_precision_are_off_by_no_more_than_is_said(shortest, monkeypatch):
    assert largest_error_of_norms(shortest) <= 1

    def short(rows, triangle):
        return ((rows.astype(np.float32) @ triangle.T).view(np.int32) & -4096).view(np.float32)

    monkeypatch.setattr(stretch, "times_triangle", short)
    assert largest_error_of_norms(shortest) > 1  # with 12 bits it would be noticed


def test_products_with_fewer_bits_than_single_precision_has_are_noticed():
    assert single_is_precise()

    def rounded(array, bits):
        return np.ldexp(np.rint(np.ldexp(np.frexp(array)[0], bits)), np.frexp(array)[1] - bits).astype(np.float32)

    for bits in (8, 11, 16):
        assert not precise_in_single(lambda a, b, bits=bits: rounded(a, bits) @ rounded(b, bits))


def test_few_columns_and_boxes_without_width_are_turned_row_by_row():
    assert turn_of(table(d=5)[1], 1.0) is None
    frame = Frame(D, np.zeros(D), np.ones(D), (np.zeros(D), np.zeros(D)))
    assert turn_of(WhitenedRows(frame, np.eye(D), np.ones(D)), 1.0) is None
    assert LEVELS // 4 >= 2**17
