"""Counts of row norms on a fixed geometric grid, from which a private radius is chosen.

The grid is public and does not depend on the data: radii 2^(j/4) from 2^−48 to 2^48. One row moves one unit of count,
and moves every cumulative count in the same direction; that is the sensitivity `questions.radius` relies on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.stats.base import Statistic
from dpeigen.stats.frame import RowView, row_norms
from dpeigen.stats.moments import chunk_rows

GRID: NDArray[np.float64] = np.exp2(np.arange(-48 * 4, 48 * 4 + 1) / 4)


class NormHistogram(Statistic):
    """How many framed rows have their norm in each cell (GRID[j−1], GRID[j]]; the last cell is open above."""

    def __init__(self, frame: RowView) -> None:
        self.frame = frame
        self.counts: NDArray[np.int64] = np.zeros(len(GRID) + 1, dtype=np.int64)

    def fresh(self) -> NormHistogram:
        return NormHistogram(self.frame)

    def update(self, block: Any) -> NormHistogram:
        size = chunk_rows(self.frame.n_columns)
        for start in range(0, len(block), size):
            norms = row_norms(self.frame.image(block[start : start + size]))
            cells = np.searchsorted(GRID, norms, side="left")
            self.counts += np.bincount(cells, minlength=len(GRID) + 1)
        return self

    def merge(self, other: NormHistogram) -> NormHistogram:
        self.counts += other.counts
        return self

    @property
    def count(self) -> int:
        return int(self.counts.sum())

    @property
    def cumulative(self) -> NDArray[np.int64]:
        """The number of rows with norm at most each grid radius."""
        return np.cumsum(self.counts[:-1])
