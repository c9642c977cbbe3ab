"""Sparse matrices of SciPy: kept as they are, made dense a block of rows at a time.

A row's image depends on that row alone, as for any other table. Cells that are not stored are 0.

>>> from scipy.sparse import csr_matrix
>>> source = SparseSource(csr_matrix([[0.0, 2.0], [0.0, 0.0]]))
>>> [block.tolist() for block in source.blocks()]
[[[0.0, 2.0], [0.0, 0.0]]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.base import Source
from dpeigen.sources.memory import block_rows

__all__ = ["SparseSource", "by_blocks", "dense_blocks", "is_sparse"]


def is_sparse(X: Any) -> bool:
    """Whether it is a sparse matrix or array of SciPy, without loading SciPy for anything else."""
    if type(X).__module__.split(".")[0] != "scipy":
        return False
    from scipy.sparse import issparse

    return bool(issparse(X))


class SparseSource(Source):
    """A sparse matrix or array, of any format.

    Parameters
    ----------
    matrix : (n, d) scipy.sparse matrix or array
        The rows; real numbers. Other formats than CSR are converted once. One whose indices do not fit its shape is
        refused.
    """

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2:
            raise ValueError("X must be two-dimensional, rows × features.")
        if matrix.dtype.kind not in "fiub":
            raise ValueError(f"X must hold real numbers. Got a sparse matrix of dtype {matrix.dtype}.")
        if hasattr(matrix, "check_format"):  # SciPy would write entries with a wrong index into other rows
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


def dense_blocks(matrix: Any) -> Iterator[NDArray[np.generic]]:
    """The rows of a sparse matrix, some at a time; one empty block where there are none."""
    rows, step = matrix.tocsr(), block_rows(matrix.shape[1])
    for start in range(0, max(rows.shape[0], 1), step):
        yield rows[start : start + step].toarray()


def by_blocks(X: Any, compute: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
    """What is computed row by row, of a sparse matrix a block at a time, of anything else at once."""
    return np.concatenate([compute(block) for block in dense_blocks(X)]) if is_sparse(X) else compute(X)
