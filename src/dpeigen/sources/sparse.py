"""Sparse matrices of SciPy. They stay sparse; blocks of rows are made dense if a statistic needs that.

The image of a row depends on that row alone, as for any other table. Cells that are not stored are 0. Second moments of
rows that are not centred are summed sparsely (`stats.sparse_rows`), with the same integers.

>>> from scipy.sparse import csr_matrix
>>> source = SparseSource(csr_matrix([[0.0, 2.0], [0.0, 0.0]]))
>>> [block.tolist() for block in source.blocks()]
[[[0.0, 2.0], [0.0, 0.0]]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.base import Source
from dpeigen.sources.memory import block_rows
from dpeigen.stats import SecondMoment, Statistic
from dpeigen.stats.lattice import EXACT_ROWS
from dpeigen.stats.sparse_rows import SparseRows, keeps_zeros

__all__ = ["SparseSource", "by_blocks", "dense_blocks", "is_sparse"]

_SPARSE = 0.05  # fraction of stored cells up to which sparse sums are faster (benchmarks/sparse_rows.py)


def is_sparse(X: Any) -> bool:
    """Whether it is a sparse matrix or array of SciPy; SciPy is not imported to find out."""
    if type(X).__module__.split(".")[0] != "scipy":
        return False
    from scipy.sparse import issparse

    return bool(issparse(X))


class SparseSource(Source):
    """A sparse matrix or array, of any format.

    Parameters
    ----------
    matrix : (n, d) scipy.sparse matrix or array
        The rows; real numbers. Formats other than CSR are converted once. A matrix whose indices do not fit its shape
        is refused.
    """

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2:
            raise ValueError("X must be two-dimensional, rows × features.")
        if matrix.dtype.kind not in "fiub":
            raise ValueError(f"X must hold real numbers. Got a sparse matrix of dtype {matrix.dtype}.")
        if hasattr(matrix, "check_format"):  # with a wrong index, SciPy would write entries into other rows
            try:
                matrix.check_format(full_check=True)
            except ValueError:
                sound = False
            else:
                sound = True
            if not sound:
                raise ValueError("X is not a valid sparse matrix: indices or pointers do not fit its shape.")
        self._matrix = matrix.tocsr()
        self.n_rows, self.n_features = matrix.shape

    def blocks(self) -> Iterator[NDArray[np.generic]]:
        return dense_blocks(self._matrix)

    def blocks_for(self, statistic: Statistic) -> Iterator[Any]:
        if type(statistic) is not SecondMoment or not keeps_zeros(statistic.lattice) or self._stored is None:
            return self.blocks()
        rows = self._stored
        return (SparseRows(rows[start : start + EXACT_ROWS]) for start in range(0, max(rows.shape[0], 1), EXACT_ROWS))

    @cached_property
    def _stored(self) -> Any | None:
        """The rows with every cell stored once; None if sparse sums would take longer than dense ones."""
        rows = self._matrix
        if rows.nnz > _SPARSE * rows.shape[0] * rows.shape[1]:
            return None
        # Created again: SciPy caches facts about indices, even if they have been changed since.
        rows = type(rows)((rows.data, rows.indices, rows.indptr), shape=rows.shape)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sort_indices()
        return rows if rows.has_canonical_format else None


def dense_blocks(matrix: Any) -> Iterator[NDArray[np.generic]]:
    """The rows of a sparse matrix in dense blocks; one empty block if there are none."""
    rows, step = matrix.tocsr(), block_rows(matrix.shape[1])
    for start in range(0, max(rows.shape[0], 1), step):
        yield rows[start : start + step].toarray()


def by_blocks(X: Any, compute: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
    """The result of a row-wise computation: block by block for a sparse matrix, otherwise at once."""
    return np.concatenate([compute(block) for block in dense_blocks(X)]) if is_sparse(X) else compute(X)
