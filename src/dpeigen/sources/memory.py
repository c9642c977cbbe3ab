"""Rows that are already in memory, as an array of numbers (any real dtype, any memory order; never copied whole)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.base import Source

_BLOCK_NUMBERS = 2**21  # numbers per block: enough work for one turn of a thread


class ArraySource(Source):
    """A two-dimensional array."""

    def __init__(self, array: NDArray[np.generic], feature_names: list[str] | None = None) -> None:
        self._array = array
        self.n_rows, self.n_features = array.shape
        self.feature_names = feature_names

    def blocks(self) -> Iterator[NDArray[np.generic]]:
        step = max(2, _BLOCK_NUMBERS // max(1, self.n_features) // 2 * 2)
        for start in range(0, len(self._array), step):
            yield self._array[start : start + step]

    def whole_blocks(self) -> Iterator[NDArray[np.generic]]:
        yield self._array

    def rows(self, start: int, stride: int) -> NDArray[np.generic]:
        """Every so many rows from a start on; not copied."""
        return self._array[start::stride]
