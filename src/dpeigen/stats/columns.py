"""Histograms of single columns: of how large entries are, and of where they lie. Exact counts, column by column.

A framed row falls into at most one cell of each column, and its cell depends on that row alone. So a row (or a pair of
rows) that is replaced moves at most one unit out of a cell and one into another in every column: ℓ2 sensitivity √(2d),
ℓ1 sensitivity 2d for d columns. A row more or less moves half as much.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.base import Statistic
from dpeigen.stats.frame import RowView
from dpeigen.stats.moments import chunk_rows

Integers = NDArray[np.int64]
REACH = 200  # half octaves: sizes from 2^−100 to 2^100 have cells of their own
OCTAVES = 64  # to either side of zero: places up to 2^64 units away
CELLS = 256  # that a stretch of a column is divided into
_HALF = math.sqrt(0.5)


class ColumnHistogram(Statistic):
    """``counts`` (columns × cells) of framed rows, and how many rows there were."""

    n_cells: int

    def __init__(self, frame: RowView, columns: tuple[int, ...]) -> None:
        self.frame, self.columns, self.count = frame, columns, 0
        self.counts: Integers = np.zeros((len(columns), self.n_cells), dtype=np.int64)

    def fresh(self) -> Any:
        return type(self)(self.frame, self.columns)

    def update(self, block: Any) -> Any:
        size = chunk_rows(self.frame.n_columns)
        for start in range(0, len(block), size):
            self.tally(self.frame.image(block[start : start + size]))
        return self

    def tally(self, rows: Floats) -> None:
        """Take in framed rows."""
        self.count += len(rows)
        places = np.arange(len(self.columns)) * (self.n_cells + 1)
        entries = rows if len(self.columns) == rows.shape[1] else rows[:, list(self.columns)]
        cells = self._cells(entries)  # the last cell is for entries that have none
        found = np.bincount((cells + places).ravel(), minlength=len(places) * (self.n_cells + 1))
        self.counts += found.reshape(len(places), self.n_cells + 1)[:, :-1]

    def merge(self, other: Any) -> Any:
        self.counts += other.counts
        self.count += other.count
        return self

    @abstractmethod
    def _cells(self, entries: Floats) -> NDArray[np.int64]:
        """The cell of every entry; `n_cells` for none."""


class Sizes(ColumnHistogram):
    """Sizes by half octaves: cell REACH + j holds entries of size 2^(j/2) up to 2^((j+1)/2); zeros have none."""

    n_cells = 2 * REACH + 1

    def _cells(self, entries: Floats) -> NDArray[np.int64]:
        mantissas, exponents = np.frexp(np.abs(entries))
        cells = 2 * (exponents.astype(np.int64) - 1) + (mantissas >= _HALF) + REACH
        return np.where((mantissas > 0) & (cells >= 0), np.minimum(cells, self.n_cells - 1), self.n_cells)


class Octaves(ColumnHistogram):
    """Places by octaves: the middle cell holds entries between −1 and 1, the next ones up to 2, 4, 8 and so on."""

    n_cells = 2 * OCTAVES + 1

    def _cells(self, entries: Floats) -> NDArray[np.int64]:
        _, exponents = np.frexp(np.abs(entries))
        away = np.clip(exponents.astype(np.int64), 0, OCTAVES)
        return OCTAVES + np.where(entries < 0, -away, away)


class Stretch(ColumnHistogram):
    """Places by equal cells: cell j holds entries from j up to j + 1; those outside 0 … CELLS have none."""

    n_cells = CELLS

    def _cells(self, entries: Floats) -> NDArray[np.int64]:
        inside = (entries >= 0) & (entries < CELLS)
        return np.where(inside, np.where(inside, entries, 0.0).astype(np.int64), CELLS)
