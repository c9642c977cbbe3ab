"""Sums of lattice rows: the right integers, the same from anywhere (sensitivities: test_sensitivity.py)."""

from __future__ import annotations

import copy
import math
import pickle
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from dpeigen.privacy import Relation
from dpeigen.stats import moments
from dpeigen.stats.frame import Frame
from dpeigen.stats.lattice import LEVELS, Lattice, unit_lattice
from dpeigen.stats.moments import RowSums, SecondMoment, SquareSums, chunk_rows, second_moment


def data(n, d, seed=0, scale=1.0):
    return np.random.default_rng(seed).standard_normal((n, d)) * scale


def python_integers(lattice, rows):
    return lattice.integers(rows).astype(np.int64).astype(object)


def everything(statistic):
    """All that a statistic knows, as bytes."""
    parts = [np.asarray(statistic.count)]
    for name in ("augmented", "gram", "total", "squares"):
        if hasattr(statistic, name):
            value = getattr(statistic, name)
            assert value.dtype == np.int64
            parts.append(value)
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def kinds(lattice):
    return [SecondMoment(lattice), SecondMoment(lattice, 1000), SquareSums(lattice), RowSums(lattice)]


# --- the right integers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["ball", "sphere"])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (40, 1), (500, 7), (60, 30)])
def test_sums_equal_those_in_python_integers(n, d, shape):
    rows = data(n, d)
    lattice = Lattice(Frame(d, center=np.full(d, 0.25)), radius=math.sqrt(d), shape=shape)
    z = python_integers(lattice, rows)
    moment, weighted, squares, sums = (kind.update(rows) for kind in kinds(lattice))
    assert (moment.gram == z.T.dot(z)).all()
    assert (moment.augmented == z.T.dot(z)).all()
    augmented = np.hstack([np.full((n, 1), 1000, dtype=object), z])
    assert (weighted.augmented == augmented.T.dot(augmented)).all()
    assert (weighted.total == z.sum(axis=0)).all()
    assert (squares.squares == (z * z).sum(axis=0)).all()
    assert (sums.total == z.sum(axis=0)).all()
    assert moment.count == n
    assert np.array_equal(moment.gram, moment.gram.T)
    assert np.allclose(np.asarray(moment), moment.gram * lattice.step**2, rtol=1e-15)


def test_pairs_count_pairs():
    lattice = Lattice(Frame(3, pairs=True), 2.0)
    rows = data(11, 3)
    z = python_integers(lattice, rows)
    assert len(z) == 5
    for kind in kinds(lattice):
        once = everything(kind.update(rows))
        assert kind.count == 5
        assert everything(kind.update(rows[:1])) == once  # one row is no pair
    assert (SecondMoment(lattice).update(rows).gram == z.T.dot(z)).all()


def test_reading_does_not_disturb_and_copies_are_copies():
    rows = data(50, 3)
    lattice = Lattice(Frame(3), 2.0)
    for kind in kinds(lattice):
        read = kind.fresh()
        for block in np.split(rows, 5):
            everything(read.update(block))
        assert everything(read) == everything(kind.update(rows))
        assert kind.fresh().count == 0
    moment = SecondMoment(lattice).update(rows)
    before = moment.gram.tobytes()
    moment.augmented[:] = 0
    assert moment.gram.tobytes() == before
    assert rows.tobytes() == data(50, 3).tobytes()


def test_the_flush_between_exact_sums_is_invisible(monkeypatch):
    rows = data(1000, 4)
    lattice = Lattice(Frame(4), 2.0)
    expected = everything(SecondMoment(lattice, 7).update(rows))
    for exact_rows, size in [(10, 4), (16, 16), (17, 16), (250, 100), (1, 2)]:
        monkeypatch.setattr(moments, "EXACT_ROWS", exact_rows)
        monkeypatch.setattr(moments, "chunk_rows", lambda d, size=size: size)
        with mock.patch.object(SecondMoment, "_flush", autospec=True, side_effect=SecondMoment._flush) as flush:
            assert everything(SecondMoment(lattice, 7).update(rows)) == expected
        assert flush.call_count >= 1000 // max(exact_rows, size)


@pytest.mark.parametrize("exact_rows", [moments.EXACT_ROWS, 2**62])
def test_sums_beyond_the_range_of_doubles_are_exact(monkeypatch, exact_rows):
    # 3·2^20 full rows have Σz² ≈ 3·2^60: without the flush (the twin) the last digits would be lost.
    monkeypatch.setattr(moments, "EXACT_ROWS", exact_rows)
    lattice = Lattice(Frame(1), 1.0)
    few = 1.0 - np.random.default_rng(0).random((2**12, 1)) * 1e-3
    z = [int(value) for value in lattice.integers(few)[:, 0]]
    expected = 768 * sum(value**2 for value in z)
    assert expected > 2**53
    moment = SecondMoment(lattice)
    tiled = np.tile(few, (64, 1))[:-1]  # an odd number of rows, so that partial sums are odd as well
    for _ in range(12):
        moment.update(tiled)
    expected -= 12 * z[-1] ** 2
    assert (int(moment.gram[0, 0]) == expected) == (exact_rows == 2**13)


def test_chunks_are_even_and_small():
    for d in (1, 10, 100, 1000, 10**6):
        assert chunk_rows(d) % 2 == 0
        assert 256 <= chunk_rows(d) <= 8192


def test_too_many_rows_are_refused_before_they_overflow(monkeypatch):
    monkeypatch.setattr(moments, "MOST_ROWS", 100)
    assert 2**40 * LEVELS < 2**63  # Σz; Σzzᵀ has more than 64 bits where it needs them
    lattice = Lattice(Frame(2), 1.0)
    for kind in kinds(lattice):
        kind.update(data(60, 2))
        before = everything(kind)
        with pytest.raises(ValueError, match="More than 100 rows"):
            kind.update(data(41, 2))
        with pytest.raises(ValueError, match="More than 100 rows"):
            kind.merge(kind.fresh().update(data(41, 2)))
        assert everything(kind) == before
        assert kind.update(data(40, 2)).count == 100


def test_sums_beyond_64_bits_are_exact():
    """2^23 rows of full length: Σz² ≈ 2^63. Merging a moment with itself doubles it exactly, forty times over."""
    lattice = Lattice(Frame(2), 1.0)
    moment = SecondMoment(lattice, 5).update(np.random.default_rng(0).normal(size=(1001, 2)) * 10)
    expected = [[int(value) for value in row] for row in moment.augmented]
    squares = SquareSums(lattice).update(np.random.default_rng(0).normal(size=(1001, 2)) * 10)
    expected_squares = [int(value) for value in squares.squares]
    for _ in range(28):
        moment.merge(copy.deepcopy(moment))
        squares.merge(copy.deepcopy(squares))
    assert max(map(max, expected)) * 2**28 > 2**63
    assert [[int(value) for value in row] for row in moment.augmented] == [[2**28 * v for v in row] for row in expected]
    assert [int(value) for value in squares.squares] == [2**28 * value for value in expected_squares]
    assert np.isfinite((moment.augmented + np.ones((3, 3), dtype=np.int64)).astype(float)).all()


# --- the same from anywhere -------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 5, 33])
def test_neither_order_nor_blocks_matter(d):
    rows = data(3000, d)
    rng = np.random.default_rng(1)
    lattice = Lattice(Frame(d), radius=math.sqrt(d))
    for kind in kinds(lattice):
        expected = everything(kind.fresh().update(rows))
        for size in (1, 2, 7, 256, 1001, 3000):
            shuffled = rng.permutation(rows)
            statistic = kind.fresh()
            for start in range(0, len(rows), size):
                statistic.update(shuffled[start : start + size])
            assert everything(statistic) == expected
        if d == 5:
            for size in (2, 64, 500):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(moments, "chunk_rows", lambda d, size=size: size)
                    assert everything(kind.fresh().update(rows)) == expected


def test_the_number_of_threads_does_not_matter():
    rows = data(20_000, 96)
    lattice = Lattice(Frame(96), radius=10.0)
    seen = set()
    for threads in (1, 2):
        with threadpool_limits(threads):
            seen.add(everything(SecondMoment(lattice, 500).update(rows)))
    assert len(seen) == 1


def test_the_way_rows_are_stored_does_not_matter():
    def gram(rows):
        return second_moment(rows, bound=3.0).gram.tobytes()

    single = data(500, 6).astype(np.float32)
    expected = gram(single.astype(np.float64))
    wide = np.zeros((1000, 18), dtype=np.float32)
    wide[::2, 1::3] = single
    backwards = single[::-1, ::-1].copy()
    readonly = single.copy()
    readonly.setflags(write=False)
    frame = pd.DataFrame(single, columns=list("abcdef"))
    for view in (
        single,
        np.asfortranarray(single),
        wide[::2, 1::3],
        backwards[::-1, ::-1],
        readonly,
        single.astype(">f4"),
        frame.to_numpy(),
        frame,
        single.tolist(),
    ):
        assert gram(view) == expected
    assert gram(single.astype(np.float64)[:, ::-1]) != expected  # the comparison can fail


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64, np.float32, bool])
def test_integers_are_numbers(dtype):
    rows = np.random.default_rng(0).integers(0, 2 if dtype is bool else 200, (300, 4)).astype(dtype)
    expected = second_moment(rows.astype(np.float64), bound=150.0)
    assert everything(second_moment(rows, bound=150.0)) == everything(expected)
    table = pd.DataFrame({str(i): rows[:, i] for i in range(4)})
    assert everything(second_moment(table.to_numpy(), bound=150.0)) == everything(expected)


def test_merging_is_associative_and_commutative():
    rows = data(400, 3)
    lattice = Lattice(Frame(3), 1.5)
    for kind in kinds(lattice):

        def of(a, b, kind=kind):
            return kind.fresh().update(rows[a:b])

        expected = everything(of(0, 400))
        assert everything(of(0, 100).merge(of(100, 250)).merge(of(250, 400))) == expected
        assert everything(of(0, 100).merge(of(100, 250).merge(of(250, 400)))) == expected
        assert everything(of(250, 400).merge(of(0, 100)).merge(of(100, 250))) == expected
        assert everything(of(0, 400).merge(kind.fresh())) == expected
        assert everything(kind.fresh().merge(of(0, 400))) == expected
        other = of(100, 400)
        before = everything(other)
        assert everything(of(0, 100).merge(other)) == expected
        assert everything(other) == before  # merging takes nothing away
        assert everything(of(0, 399).merge(of(398, 400))) != expected


def test_statistics_back_from_another_process_merge():
    lattice = Lattice(Frame(3, center=np.ones(3), weights=np.full(3, 0.5), box=(np.zeros(3), np.ones(3))), 1.5)
    rows = data(200, 3)
    for kind in kinds(lattice):
        away = pickle.loads(pickle.dumps(kind.fresh().update(rows[:50])))
        assert everything(kind.fresh().update(rows[50:]).merge(away)) == everything(kind.fresh().update(rows))


def test_what_does_not_belong_together_does_not_merge():
    here = SecondMoment(Lattice(Frame(3, center=np.zeros(3)), 1.0), 5).update(data(5, 3))
    before = everything(here)
    for lattice in (Lattice(Frame(3, center=np.ones(3)), 1.0), Lattice(Frame(3, center=np.zeros(3)), 2.0)):
        with pytest.raises(ValueError, match="different lattices"):
            here.merge(SecondMoment(lattice, 5).update(data(5, 3)))
    with pytest.raises(ValueError, match="different centre weights"):
        here.merge(SecondMoment(here.lattice, 6).update(data(5, 3)))
    assert everything(here) == before


@pytest.mark.parametrize("X", [np.ones(3), np.ones((2, 2, 2))])
def test_second_moment_wants_a_table(X):
    with pytest.raises(ValueError, match="two-dimensional"):
        second_moment(X, bound=1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_second_moment_wants_a_bound(bound):
    with pytest.raises(ValueError, match="'bound' parameter of second_moment"):
        second_moment(np.ones((2, 2)), bound=bound)


# --- near the moment in floating point --------------------------------------------------------------------


def relative_distance(rows, bound):
    exact = rows.T @ rows
    return np.linalg.norm(np.asarray(second_moment(rows, bound)) - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize(
    ("n", "d", "looseness"),
    [(200, 2, 1), (200, 50, 1), (200, 110, 1), (10_000, 110, 1), (10_000, 50, 10), (10_000, 2, 30)],
)
def test_the_lattice_moment_is_within_one_in_ten_thousand(n, d, looseness):
    # Over ten seeds 4.9e-5 at most, with deviations below 7e-6: a false alarm is seven deviations away.
    rows = data(n, d)
    assert relative_distance(rows, looseness * np.linalg.norm(rows, axis=1).max()) <= 1e-4


@pytest.mark.parametrize("looseness", [1, 10, 100])
@pytest.mark.parametrize(("n", "d"), [(200, 13), (4000, 50), (100, 110), (200, 500)])
def test_the_distance_is_that_of_independent_rounding(n, d, looseness):
    # Rounding adds an error of deviation step/√12 to each entry: ‖E‖/‖M‖ ≈ (step/σ)·√(d/6(n+d)) for columns
    # of deviation σ. This says where one in ten thousand fails: loose bounds, many columns, few rows. The
    # norm of 91 or more independent errors has a deviation of 9% of this at most: six of them to the factors.
    rows = data(n, d)
    bound = looseness * np.linalg.norm(rows, axis=1).max()
    expected = Lattice(Frame(d), bound).step * math.sqrt(d / (6 * (n + d)))
    assert 0.4 * expected <= relative_distance(rows, bound) <= 1.7 * expected


def test_clipped_rows_are_those_of_the_clipped_moment():
    rows = data(2000, 8)
    clipped = rows * np.minimum(1.0, 1.5 / np.linalg.norm(rows, axis=1, keepdims=True))
    exact = clipped.T @ clipped
    assert np.linalg.norm(np.asarray(second_moment(rows, 1.5)) - exact) <= 1e-4 * np.linalg.norm(exact)
    signs = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    sphere = SecondMoment(unit_lattice(Frame(8))).update(rows)
    assert np.allclose(np.asarray(sphere), signs.T @ signs, atol=1e-4 * 2000 / 8)


def test_a_constant_that_the_proof_does_not_cover_has_no_sensitivity():
    lattice = Lattice(Frame(2), 1.0)
    assert SecondMoment(lattice, LEVELS).upper_sensitivity(Relation.REPLACE) > 0
    with pytest.raises(AssertionError, match="no longer than the rows"):
        SecondMoment(lattice, LEVELS + 1).upper_sensitivity(Relation.REPLACE)
