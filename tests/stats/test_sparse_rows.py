"""Sparse second moments are the dense ones, integer by integer, for rows of every kind; and they really are sparse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dpeigen import PrivateCovariance
from dpeigen.sources import ArraySource
from dpeigen.sources.sparse import SparseSource
from dpeigen.stats import BadRowsError, Frame, Lattice, SecondMoment, sparse_rows
from dpeigen.stats.sparse_rows import SparseRows, keeps_zeros

D = 40


def rows_of(rng, n=700, share=0.04):
    """Short, long, huge, tiny and empty rows."""
    X = np.zeros((n, D))
    stored = rng.random((n, D)) < share
    X[stored] = rng.normal(size=stored.sum()) * 10.0 ** rng.integers(-3, 4, stored.sum())
    X[: n // 50] *= 10.0 ** rng.integers(-300, 300, (n // 50, 1))
    X[-3:] = 0.0
    return X


FRAMES = {
    "plain": Frame(D),
    "weights": Frame(D, weights=np.linspace(0.3, 7, D)),
    "box": Frame(D, box=(np.full(D, -2.0), np.linspace(0.0, 3.0, D))),
    "box and weights": Frame(D, weights=np.linspace(0.1, 2, D), box=(np.full(D, -2.0), np.full(D, 5.0))),
    "missing cells": Frame(D, missing="correct"),
    "missing cells, weights": Frame(D, missing="correct", weights=np.linspace(0.1, 1e300, D)),
    "dropped rows": Frame(D, missing="drop"),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("weight", [0, 2**19])
def test_the_integers_are_those_of_dense_rows(name, weight):
    frame, rng = FRAMES[name], np.random.default_rng(len(name))
    for radius in (0.5, 30.0):
        X = rows_of(rng)
        if frame.missing != "refuse":
            X[rng.integers(0, len(X), 5), rng.integers(0, D, 5)] = [np.nan, np.inf, -np.inf, np.nan, np.inf]
        statistic = SecondMoment(Lattice(frame, radius), weight)
        dense = ArraySource(X).reduce(statistic.fresh())
        source = SparseSource(sparse.csr_array(X))
        assert all(isinstance(block, SparseRows) for block in source.blocks_for(statistic))
        found = source.reduce(statistic.fresh())
        assert found.augmented.tolist() == dense.augmented.tolist()
        assert found.count == dense.count == len(X)


def test_no_block_is_made_dense(monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.csr_array(np.where(rng.random((3000, 500)) < 0.01, rng.normal(size=(3000, 500)), 0.0))
    source = SparseSource(X)
    monkeypatch.setattr(SparseSource, "blocks", lambda self: pytest.fail("dense blocks"))
    monkeypatch.setattr(Lattice, "integers", lambda *arguments: pytest.fail("dense rows"))
    moment = source.reduce(SecondMoment(Lattice(Frame(500), 30.0)))
    assert np.allclose(np.asarray(moment), (X.T @ X).toarray(), atol=1e-3)


def test_frames_that_move_zeros_get_dense_rows():
    box = (np.full(D, 1.0), np.full(D, 2.0))
    for frame in (Frame(D, center=np.ones(D)), Frame(D, pairs=True), Frame(D, box=box)):
        assert not keeps_zeros(Lattice(frame, 1.0))
        X = rows_of(np.random.default_rng(1), n=200)
        found = SparseSource(sparse.csr_array(X)).reduce(SecondMoment(Lattice(frame, 1.0)))
        assert found.gram.tolist() == ArraySource(X).reduce(SecondMoment(Lattice(frame, 1.0))).gram.tolist()
    assert not keeps_zeros(Lattice(Frame(D), 1.0, "sphere"))


def test_repeated_and_unsorted_cells_count_as_in_dense_rows():
    data, columns, pointers = np.array([1.0, 2.0, 4.0, 8.0]), np.array([3, 1, 3, 2]), np.array([0, 3, 3, 4])
    X = sparse.csr_array((data, columns, pointers), shape=(3, D))
    statistic = SecondMoment(Lattice(Frame(D), 20.0))
    expected = ArraySource(X.toarray()).reduce(statistic.fresh()).gram.tolist()
    assert SparseSource(X).reduce(statistic.fresh()).gram.tolist() == expected
    single = sparse.csr_array((data[:3], np.array([3, 1, 2]), np.array([0, 3, 3, 3])), shape=(3, D))
    source = SparseSource(single)
    assert source._stored is not None
    assert not single.has_sorted_indices  # the caller's matrix is left alone
    expected = ArraySource(single.toarray()).reduce(statistic.fresh()).gram.tolist()
    assert source.reduce(statistic.fresh()).gram.tolist() == expected


def test_missing_cells_are_refused_as_in_dense_rows():
    X = rows_of(np.random.default_rng(2))
    X[5, 5] = np.nan
    with pytest.raises(BadRowsError, match="missing="):
        SparseSource(sparse.csr_array(X)).reduce(SecondMoment(Lattice(Frame(D), 1.0)))


def test_a_fit_uses_it_and_gives_the_dense_release(monkeypatch):
    X = rows_of(np.random.default_rng(3))
    options = {"epsilon": 1.0, "delta": 1e-6, "method": "gaussian", "bound": 5.0, "random_state": 1}
    used = []
    right = sparse_rows._integers
    monkeypatch.setattr(sparse_rows, "_integers", lambda *given: used.append(1) or right(*given))
    for center in (None, "private"):
        found = PrivateCovariance(center=center, **options).fit(sparse.csr_matrix(X))
        dense = PrivateCovariance(center=center, **options).fit(X)
        assert np.array_equal(found.covariance_, dense.covariance_)
        assert found.guarantee_ == dense.guarantee_
    assert len(used) == 2


def test_a_wrong_rounding_would_be_seen(monkeypatch):
    X = rows_of(np.random.default_rng(4))
    monkeypatch.setattr(sparse_rows, "_shorter", lambda lattice, squared: 0.999 / np.sqrt(np.maximum(squared, 1.0)))
    statistic = SecondMoment(Lattice(Frame(D), 0.5))
    found = SparseSource(sparse.csr_array(X)).reduce(statistic.fresh())
    assert found.gram.tolist() != ArraySource(X).reduce(statistic.fresh()).gram.tolist()


def test_a_cell_stored_twice_is_one_cell_whatever_scipy_remembers():
    """SciPy keeps that cells are stored once; a caller may write to the indices afterwards."""
    X = sparse.csr_array((np.ones(4), np.arange(4), np.array([0, 4])), shape=(1, 100))
    assert X.has_canonical_format
    X.indices[:] = 0  # one cell of 4, in four parts
    assert X.has_canonical_format
    statistic = SecondMoment(Lattice(Frame(100), 1.0))
    found = SparseSource(X).reduce(statistic.fresh()).gram
    assert np.trace(found) <= 2**40  # a row of length 4 is clipped to 1; its four parts would be four times as much
    assert found.tolist() == ArraySource(X.toarray()).reduce(statistic.fresh()).gram.tolist()
