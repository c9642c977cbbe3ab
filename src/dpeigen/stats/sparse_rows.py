"""Lattice rows of sparse rows: the same integers as for dense rows, without the zeros.

If 0 has the image 0 (no centre is subtracted, and the box contains 0), the lattice row of a sparse row is sparse: every
stored entry is weighted, clipped and rounded separately, and the norm of a row is a sum over its stored entries. The
arithmetic is that of `stats.lattice`, entry by entry, so the integers and their exact sums are the same. Rows that are
not finite, or so long that their squares are not summed exactly, are made dense and processed by the lattice.

The time depends on the number of stored entries, that is, on the data; see SECURITY.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.frame import Frame
from dpeigen.stats.lattice import EXACT_ROWS, LEVELS, Lattice
from dpeigen.stats.products import exact_product

__all__ = ["SparseRows", "keeps_zeros", "sparse_gram"]

_DENSE_NUMBERS = 2**20  # the most numbers in rows that are made dense at a time


class SparseRows:
    """A block of rows of a CSR matrix without repeated entries. Code that needs dense rows can use it as an array.

    Parameters
    ----------
    matrix : scipy.sparse CSR matrix or array
        The rows.
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def __getitem__(self, rows: Any) -> SparseRows:
        return SparseRows(self.matrix[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self.matrix.toarray()
        return found if dtype is None else found.astype(dtype, copy=False)


def keeps_zeros(lattice: Lattice) -> bool:
    """Whether a lattice maps every cell that is 0 to 0; a public fact."""
    frame = lattice.frame
    if lattice.shape != "ball" or not isinstance(frame, Frame) or frame.pairs or frame.center is not None:
        return False
    return frame.box is None or bool((frame.box[0] <= 0).all() and (frame.box[1] >= 0).all())


def sparse_gram(lattice: Lattice, block: SparseRows) -> Iterator[tuple[int, Floats, Floats]]:
    """The lattice rows of a block, some at a time: their number, Σzzᵀ and Σz, integers below 2^53.

    Parameters
    ----------
    lattice : Lattice
        One that `keeps_zeros`.
    block : SparseRows
        The rows.

    Yields
    ------
    (int, (d, d) array, (d,) array)
        At most `EXACT_ROWS` rows are summed in one piece.
    """
    if block.shape[1] != lattice.n_columns:
        raise ValueError(f"A block of rows has another shape; expected (rows, {lattice.n_columns}).")
    for start in range(0, len(block), EXACT_ROWS):
        part = block.matrix[start : start + EXACT_ROWS]
        rows, left = _integers(lattice, part)
        gram = np.asarray((rows.T @ rows).toarray(), dtype=np.float64)  # sums of integers: exact in any order
        total = np.asarray(rows.sum(axis=0), dtype=np.float64).ravel()
        size = max(_DENSE_NUMBERS // max(lattice.n_columns, 1), 1)
        for first in range(0, len(left), size):
            dense = lattice.integers(part[left[first : first + size]].toarray())
            gram += exact_product(dense.T, dense)
            total += dense.sum(axis=0)
        yield part.shape[0], gram, total


def _integers(lattice: Lattice, part: Any) -> tuple[Any, NDArray[np.int64]]:
    """The lattice rows computed from stored entries, and the indices of the rows that are left to the lattice.

    Those rows are 0 in the first result.
    """
    frame = lattice.frame
    assert isinstance(frame, Frame)
    columns, counts = part.indices, np.diff(part.indptr)
    with np.errstate(over="ignore", invalid="ignore"):
        values = part.data.astype(np.float64)  # a copy
        good = np.isfinite(values)
        if frame.box is not None:
            np.maximum(values, frame.box[0][columns], out=values)
            np.minimum(values, frame.box[1][columns], out=values)
        scale = 1.0 / lattice.step
        values *= scale if frame.weights is None else (frame.weights * scale)[columns]
        np.rint(values, out=values)
        squared = _by_rows(values * values, part.indptr)
        outside = ~(squared <= LEVELS**2)
        if outside.any():
            values *= np.repeat(np.where(outside & (squared < 2.0**53), _shorter(lattice, squared), 1.0), counts)
            np.rint(values, out=values)
            squared = _by_rows(values * values, part.indptr)
    bad = ~(squared <= LEVELS**2) | (_by_rows((~good).astype(np.float64), part.indptr) > 0)
    values[np.repeat(bad, counts)] = 0.0
    rows = type(part)((values, columns, part.indptr), shape=part.shape)
    return rows, np.flatnonzero(bad)


def _shorter(lattice: Lattice, squared: Floats) -> Floats:
    """The factors by which the lattice shortens rows with these squared norms."""
    inner = max(lattice._inner(math.sqrt(LEVELS**2)), 0.0)
    return np.asarray(inner / np.sqrt(np.maximum(squared, 1.0)))


def _by_rows(values: Floats, pointers: NDArray[Any]) -> Floats:
    """Sums of non-negative entries, row by row: exact if they are integers below 2^53, otherwise at least 2^53."""
    found = np.zeros(len(pointers) - 1)
    filled = np.flatnonzero(np.diff(pointers))
    if len(filled):
        found[filled] = np.add.reduceat(values, pointers[filled])
    return found
