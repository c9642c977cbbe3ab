"""Moments on the coarse lattice: exact in single precision, no row outside the ball, never more sensitive."""

import math

import numpy as np
import pytest

from dpeigen.privacy import Relation
from dpeigen.questions import GaussianLaw, Moment, RoughMoment
from dpeigen.stats import Frame, Lattice, SecondMoment, rough
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.products import passes
from dpeigen.stats.rough import RoughSum, rough_map
from dpeigen.stats.single import known
from dpeigen.stats.stretch import WhitenedRows

D, COARSE = 30, 2**12


def table(n=1500, d=D, seed=0, shortest=0.1, kind=np.float64):
    """Rows with long tails in many units, the frame of their columns, and a view along a basis of them."""
    rng = np.random.default_rng(seed)
    rows = (rng.standard_t(3, size=(n, d)) * rng.uniform(1e-3, 1e3, size=d) + 1e3).astype(kind)
    center, deviation = np.median(rows, axis=0).astype(float), 2 * rows.std(axis=0).astype(float)
    frame = Frame(d, center, 1 / deviation, (center - 2 * deviation, center + 2 * deviation))
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rows, frame, WhitenedRows(frame, basis, np.geomspace(shortest, 1.0, d))


def views(**options):
    rows, frame, turned = table(**options)
    return [(rows, frame, 2.5), (rows, turned, 1.0), (rows, turned, 0.4)]


def coarse_rows(view, radius, rows):
    statistic = RoughSum(Lattice(view, radius), 1)
    return statistic._shortened(statistic._map.rows(rows)).astype(np.int64)


@pytest.mark.parametrize("case", range(3))
def test_sums_are_those_of_python_integers(case):
    rows, view, radius = views()[case]
    y = coarse_rows(view, radius, rows).astype(object) * COARSE
    found = RoughSum(Lattice(view, radius), 7).update(rows)
    assert found.gram.tolist() == (y.T @ y).tolist()
    assert found.augmented[0, 1:].tolist() == (7 * y.sum(axis=0)).tolist()
    assert found.augmented[0, 0] == 49 * len(rows)


def off_where_one_column_is_long():
    """How far sums are off where as many rows as are summed at once may not be: all are as long as they may be."""
    frame = Frame(D, np.zeros(D), np.ones(D), (np.full(D, -2.0), np.full(D, 2.0)))
    rng, lattice = np.random.default_rng(8), Lattice(frame, 1.5)
    rows = 1e-3 * rng.normal(size=(3 * rough._CHUNK, D))
    rows[:, 3] += rng.choice([-1.0, 1.0], size=len(rows)) * (lattice.step * COARSE * 253)
    y = coarse_rows(frame, 1.5, rows).astype(object) * COARSE
    assert abs(y[:, 3]).max() > 240 * COARSE
    return np.abs(RoughSum(lattice, 1).update(rows).gram - y.T @ y).max()


def test_more_rows_are_summed_at_once_only_where_sums_are_exact(monkeypatch):
    assert off_where_one_column_is_long() == 0
    monkeypatch.setattr(rough, "_SURELY", np.inf)
    assert off_where_one_column_is_long() > 0  # the rows would show it


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("case", range(3))
def test_a_row_is_rounded_alike_wherever_it_stands(case, kind):
    rows, view, radius = views(kind=kind)[case]
    rows = known(rows, finite=True)
    expected = RoughSum(Lattice(view, radius), 3).update(rows).augmented
    for seed in range(3):
        rng = np.random.default_rng(seed)
        merged = RoughSum(Lattice(view, radius), 3)
        for part in np.array_split(rng.permutation(len(rows)), rng.integers(2, 300)):
            merged.merge(RoughSum(Lattice(view, radius), 3).update(rows[part]))
        np.testing.assert_array_equal(merged.augmented, expected)


@pytest.mark.parametrize("case", range(3))
def test_rows_are_shortened_alike_in_place_and_apart(case, monkeypatch):
    rows, view, radius = views()[case]
    rows = np.vstack([rows, rows * 1e3])
    found = []
    for many in (0.0, 2.0):
        monkeypatch.setattr(rough, "_MANY", many)
        statistic = RoughSum(Lattice(view, radius), 3)
        whole = statistic._map.rows(rows)
        entries = whole * whole
        shortened = statistic._shortened(whole, entries)
        np.testing.assert_array_equal(entries, shortened * shortened)
        found.append((shortened, RoughSum(Lattice(view, radius), 3).update(rows).augmented))
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)


def test_the_products_do_not_depend_on_single_precision(monkeypatch):
    rows, view, radius = views()[1]
    expected = RoughSum(Lattice(view, radius), 3).update(rows).augmented
    double = lambda left, right: (left.astype(np.int64) @ right.astype(np.int64)).astype(np.float32)  # noqa: E731
    monkeypatch.setattr(rough, "exact_in_single", double)
    np.testing.assert_array_equal(RoughSum(Lattice(view, radius), 3).update(rows).augmented, expected)


def test_sums_of_fewer_bits_are_found_out():
    assert passes(np.matmul, np.float32)

    def shortened(left, right):
        return (np.ascontiguousarray(left @ right).view(np.int32) & ~1).view(np.float32)

    assert not passes(shortened, np.float32)


def largest_length(shortened=None):
    """Of rows on the coarse lattice, in grid steps, for rows of all lengths; as a part of what is allowed."""
    worst = 0.0
    for seed in range(4):
        for rows, view, radius in views(seed=seed):
            far = np.vstack([rows, rows * 1e3, rows * 1e-3, np.full((1, D), 1e300), np.full((1, D), -1e300)])
            statistic = RoughSum(Lattice(view, radius))
            y = statistic._map.rows(far)
            y = statistic._shortened(y) if shortened is None else shortened(y)
            worst = max(worst, float(np.sqrt((y.astype(np.float64) ** 2).sum(axis=1)).max()) * COARSE / LEVELS)
    return worst


def test_no_row_is_longer_than_the_lattice_allows():
    assert 0.9 < largest_length() <= 1.0
    assert largest_length(lambda rows: rows) > 1.0  # a sum that forgets to shorten is found out


def test_no_pair_of_rows_changes_the_moment_by_more_than_is_said():
    rng, worst = np.random.default_rng(0), dict.fromkeys(Relation, 0.0)
    for rows, view, radius in views(n=60):
        frame = view.frame if isinstance(view, WhitenedRows) else view
        for one, two in frame.center + rng.normal(size=(30, 2, D)) / frame.weights:
            first, second, none = (
                RoughSum(Lattice(view, radius), 1000).update(np.vstack([*extra, rows])) for extra in ([one], [two], [])
            )
            for relation, other in ((Relation.REPLACE, second), (Relation.ADD_REMOVE, none)):
                change = (first.augmented - other.augmented).astype(float)
                size = np.linalg.norm(change) / first.frobenius_sensitivity(relation)
                trace = np.abs(np.linalg.eigvalsh(change)).sum() / first.trace_sensitivity(relation)
                worst[relation] = max(worst[relation], size, trace)
    assert all(0.5 < ratio <= 1.0 for ratio in worst.values())


def test_the_moment_is_near_that_of_the_fine_lattice():
    for rows, view, radius in views(n=4000):
        lattice, used = Lattice(view, radius), rough_map(view, Lattice(view, radius).step)
        fine = np.asarray(SecondMoment(lattice).update(rows)) / len(rows)
        coarse = used.undone(np.asarray(RoughSum(lattice).update(rows))) / len(rows)
        assert np.linalg.norm(coarse - fine) < 0.05 * np.linalg.norm(fine)  # rows that are clipped end a little shorter
        assert used.error < 1e-4 * radius**2


def test_directions_that_were_rounded_are_undone():
    rows, _, view = table(n=4000, shortest=0.3)
    lattice = Lattice(view, 40.0)  # nobody is clipped
    used = rough_map(view, lattice.step)
    fine, raw = np.asarray(SecondMoment(lattice).update(rows)), np.asarray(RoughSum(lattice).update(rows))
    allowed = 20 * used.error * len(rows) / math.sqrt(len(rows)) + used.error * len(rows)
    assert np.abs(used.undone(raw) - fine).max() < 5 * allowed + 1e-3 * np.abs(fine).max()
    assert np.linalg.norm(used.undone(raw) - fine) < np.linalg.norm(raw - fine)


def test_it_is_asked_where_noise_hides_the_rounding():
    rows, frame, view = table()
    del rows
    plain = Moment(Lattice(view, 1.0), GaussianLaw(), 5)
    asked = RoughMoment.instead_of(plain, noise=1e-3)
    assert isinstance(asked, RoughMoment)
    assert asked.lattice == plain.lattice
    assert asked.weight == 5
    assert RoughMoment.instead_of(plain, noise=1e-9) is plain
    assert RoughMoment.instead_of(Moment(Lattice(Frame(D), 1.0), GaussianLaw()), noise=1.0).view == Frame(D)
    steep = WhitenedRows(frame, view.directions, np.geomspace(1e-6, 1.0, D))
    plain = Moment(Lattice(steep, 1.0), GaussianLaw())
    assert RoughMoment.instead_of(plain, noise=1.0) is plain  # rounded directions would mix long and short ones
