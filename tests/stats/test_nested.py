"""Moments whose radius is chosen after the rows were read: exact, the same as by a slow way, never more sensitive."""

import numpy as np
import pytest

from dpeigen.privacy import Relation
from dpeigen.sources.memory import ArraySource
from dpeigen.stats import Frame, Lattice, NormHistogram
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.nested import NestedMoment, ShortenedMoment, levels_of
from dpeigen.stats.norms import GRID, NormHistograms
from dpeigen.stats.stretch import WhitenedRows, lengths_of
from dpeigen.stats.units import UnitBlock

D, FIRST, LARGEST = 3, 2.0, 8.0
LATTICE = Lattice(Frame(D), LARGEST)
RADII = [float(r) for r in GRID[(GRID >= FIRST) & (GRID <= LARGEST)]]


def rows_of_all_lengths(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, D)) * np.exp2(rng.uniform(-3, 5, size=(n, 1)))


def shortened(rows, radius):
    """Lattice rows no longer than a radius, one by one, in Python integers."""
    levels = levels_of(radius, LATTICE)
    found = []
    for row in LATTICE.integers(rows):
        length = float(np.sqrt((row**2).sum()))
        found.append([int(entry * ((levels - 1) / length)) if length > levels else int(entry) for entry in row])
    return found


@pytest.mark.parametrize("radius", [RADII[0], RADII[3], RADII[-1]])
def test_the_moment_within_a_radius_is_the_sum_of_shortened_rows(radius):
    rows = rows_of_all_lengths(500)
    moment = ArraySource(rows).reduce(NestedMoment(LATTICE, FIRST)).within(radius, center_weight=7)
    short = shortened(rows, radius)
    gram = [[sum(row[i] * row[j] for row in short) for j in range(D)] for i in range(D)]
    assert moment.gram.tolist() == gram
    assert moment.augmented[0, 1:].tolist() == [7 * sum(row[i] for row in short) for i in range(D)]
    assert moment.augmented[0, 0] == 49 * len(rows)
    assert moment.count == len(rows)
    assert max(sum(entry**2 for entry in row) for row in short) <= moment.levels**2 < moment.squared_radius


@pytest.mark.parametrize("radius", RADII)
def test_rows_that_were_kept_count_as_if_the_radius_had_been_known(radius):
    rows = rows_of_all_lengths(40_000)
    nested = NestedMoment(LATTICE, FIRST)
    for part in np.array_split(rows, 7):
        nested.merge(nested.fresh().update(part))
    known = ShortenedMoment(LATTICE, radius, center_weight=5).update(rows)
    np.testing.assert_array_equal(nested.within(radius, 5).augmented, known.augmented)


def test_a_radius_that_rows_are_summed_beyond_is_refused():
    for radius in (FIRST / 2, LARGEST * 2):
        with pytest.raises(AssertionError, match="as they are"):
            NestedMoment(LATTICE, FIRST).within(radius, 0)


def test_rows_longer_than_a_radius_are_counted():
    rows = rows_of_all_lengths(3000)
    squares = (LATTICE.integers(rows) ** 2).sum(axis=1)
    found = NestedMoment(LATTICE, FIRST).update(rows)
    asked = (GRID >= FIRST) & (GRID <= LARGEST)
    expected = [(squares <= levels_of(radius, LATTICE) ** 2).sum() for radius in GRID[asked]]
    assert found.cumulative[asked].tolist() == expected
    assert expected[0] < expected[-1] == len(rows)
    assert NestedMoment(LATTICE, FIRST).cumulative[asked].tolist() == [0] * len(expected)


def test_one_row_moves_all_counts_in_one_direction_by_at_most_one():
    rows = rows_of_all_lengths(50)
    asked = (GRID >= FIRST) & (GRID <= LARGEST)
    before = NestedMoment(LATTICE, FIRST).update(rows).cumulative[asked]
    for other in rows_of_all_lengths(200, seed=1):
        change = NestedMoment(LATTICE, FIRST).update(np.vstack([other, rows[1:]])).cumulative[asked] - before
        assert set(change) <= {0, 1} or set(change) <= {0, -1}


@pytest.mark.parametrize("radius", [RADII[0], RADII[2]])
@pytest.mark.parametrize("relation", list(Relation))
def test_no_pair_of_tables_differs_by_more_than_the_sensitivity(radius, relation):
    rng = np.random.default_rng(2)
    rows = rows_of_all_lengths(20)
    bound = ShortenedMoment(LATTICE, radius, 1000).frobenius_sensitivity(relation)
    worst = 0.0
    for _ in range(200):
        first, second = (rng.normal(size=(2, D)) * 10.0 ** rng.integers(-2, 200, size=(2, 1)))[:, None]
        pair = [np.vstack([rows, first]), np.vstack([rows, second]) if relation is Relation.REPLACE else rows]
        a, b = (NestedMoment(LATTICE, FIRST).update(table).within(radius, 1000).augmented for table in pair)
        worst = max(worst, float(np.linalg.norm((a - b).astype(np.float64))))
    assert 0.8 * bound < worst <= bound
    assert bound < NestedMoment(LATTICE, FIRST).frobenius_sensitivity(relation) * (radius / LARGEST) ** 2 * 1.01


def test_rows_of_one_length_with_the_radius_stay_as_they_are():
    row = np.array([[LATTICE.step * levels_of(FIRST, LATTICE), 0.0, 0.0]])
    assert NestedMoment(LATTICE, FIRST).update(row).within(FIRST, 0).gram[0, 0] == (LEVELS // 4) ** 2


@pytest.mark.parametrize("box", [None, (np.full(5, -2.0), np.full(5, 2.0)), (np.full(5, -1e9), np.full(5, 1e9))])
def test_norms_along_one_basis_are_counted_as_one_by_one(box):
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    frame = Frame(5, np.full(5, 0.1), rng.uniform(0.5, 1.0, size=5), box)
    views = tuple(WhitenedRows(frame, basis, rng.uniform(0.01, 1.0, size=5) ** power) for power in (0.5, 1.0))
    rows = rng.standard_t(2, size=(30_000, 5))
    together = ArraySource(rows).reduce(NormHistograms(views))
    for view in views:
        np.testing.assert_array_equal(together.of(view).counts, NormHistogram(view).update(rows).counts)


def test_rows_of_one_person_share_their_weight_at_every_radius():
    """All rows of a person replaced: no sum moves by more than one row by itself may, whatever the radius."""
    rng = np.random.default_rng(3)
    for radius in RADII:
        for size in (1, 3, 50):
            rows = rows_of_all_lengths(size) * rng.choice([1.0, 1e6])
            sizes = np.full(size, size)
            block = UnitBlock(rows, sizes, np.arange(size) == 0)
            nested = NestedMoment(LATTICE, FIRST).update(block)
            moment = nested.within(radius, center_weight=7)
            assert np.trace(moment.gram) <= moment.levels**2
            assert moment.count == 1
            assert moment.augmented[0, 0] == 49
            assert (moment.augmented[0, 1:].astype(float) ** 2).sum() <= (7 * moment.levels) ** 2
            assert set(nested.cumulative.tolist()) <= {0, 1}


def near_views(d, seed=0):
    """A frame whose rows are on one scale, with some rows outside its box, and a view along a basis of it."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_t(3, size=(500, d)) * rng.uniform(1e-3, 1e3, size=d) + 1e4
    center, deviation = np.median(rows, axis=0), rows.std(axis=0)
    frame = Frame(d, center, 1 / deviation, (center - 2 * deviation, center + 2 * deviation))
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rows, frame, WhitenedRows(frame, basis, rng.uniform(0.01, 1.0, size=d))


@pytest.mark.parametrize("d", [1, 5, 60])
def test_rows_on_one_scale_are_as_long_and_lie_where_others_do(d):
    rows, frame, turned = near_views(d)
    framed = np.clip(rows, *frame.box)
    framed = (framed - frame.center) * frame.weights
    for view, image in ((frame, framed), (turned, framed @ turned.directions.T * turned.factors)):
        found = lengths_of(view, rows)
        np.testing.assert_allclose(found, np.linalg.norm(image, axis=1), rtol=1e-4, atol=1e-5)
        radius = 1.1 * found.max()
        lattice = Lattice(view, radius)
        np.testing.assert_allclose(lattice.integers(rows) * lattice.step, image, atol=20 * d * lattice.step)
        short = Lattice(view, found.max() / 3)  # many rows are clipped
        integers, squares = short.integers_and_squares(rows)
        assert (np.einsum("ij,ij->i", integers, integers) <= LEVELS**2).all()
        np.testing.assert_array_equal(squares, np.einsum("ij,ij->i", integers, integers))
        for i in range(0, 500, 50):  # each from its own row alone
            assert lengths_of(view, rows[i : i + 1])[0] == found[i]
            np.testing.assert_array_equal(short.integers(rows[i : i + 1])[0], integers[i])


def test_lengths_of_rows_that_are_stretched_very_unequally():
    """Of collinear columns one direction may be stretched 10⁷ times as much as another; no length may become 0."""
    rng = np.random.default_rng(4)
    frame = Frame(3, center=np.zeros(3), box=(np.full(3, -2.0), np.full(3, 2.0)), weights=np.ones(3))
    rows = rng.uniform(-2, 2, size=(200, 3))
    rows[:, 2] = -rows[:, 0] / 2 - rows[:, 1] / 2
    directions = np.linalg.qr(np.array([[1.0, 1.0, 2.0], [1.0, -1.0, 0.0], [1.0, 1.0, -1.0]]).T)[0].T
    view = WhitenedRows(frame, directions, np.array([1.0, 1e-7, 1e-7]))
    exact = np.linalg.norm((rows @ directions.T) * view.factors, axis=1)
    assert lengths_of(view, rows) == pytest.approx(np.maximum(exact, 0), rel=2.0, abs=1e-6)
    assert (lengths_of(view, rows) > 0).mean() > 0.99
