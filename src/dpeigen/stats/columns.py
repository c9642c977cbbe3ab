"""Histograms of single columns: of how large entries are, and of where they lie. Exact counts, column by column.

A framed row falls into at most one cell of each column (into none where the column has a hole), and its cell depends on
that row alone. So a row (or a pair of rows) that is replaced moves at most one unit out of a cell and one into another
in every column: ℓ2 sensitivity √(2d), ℓ1 sensitivity 2d for d columns. A row more or less moves half as much. Entries
are rounded to single precision first, which moves none by more than 2^−24 of its size, and is faster.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Integers
from dpeigen.stats.base import Statistic
from dpeigen.stats.frame import Frame
from dpeigen.stats.moments import chunk_rows

__all__ = ["CELLS", "OCTAVES", "REACH", "ColumnHistogram", "Octaves", "Sizes", "Stretch"]

REACH = 200  # half octaves: sizes from 2^−100 to 2^100 have cells of their own
OCTAVES = 64  # to either side of zero: places up to 2^64 units away
CELLS = 256  # that a stretch of a column is divided into, at most
_FRACTION, _BIAS = 23, 127  # of single precision: bits of the fraction, and what is added to the exponent
_UNSIGNED, _ONE = 2**31 - 1, 2**_FRACTION
_ROOT = int(np.float32(math.sqrt(0.5)).view(np.int32)) % _ONE  # the fraction of √½, and of all numbers √½·2^j

_EXPONENTS = np.clip(np.arange(256) - (_BIAS - 1), 0, OCTAVES)
_OCTAVE_OF = np.concatenate([OCTAVES + _EXPONENTS, OCTAVES - _EXPONENTS])  # by sign and exponent

Singles = NDArray[np.float32]


class ColumnHistogram(Statistic):
    """``counts`` (columns × cells) of framed rows, and how many rows there were."""

    n_cells: int

    def __init__(self, frame: Frame, columns: tuple[int, ...]) -> None:
        self.frame, self.columns, self.count = frame, columns, 0
        self.counts: Integers = np.zeros((len(columns), self.n_cells), dtype=np.int64)
        self._repeated: Integers | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_repeated": None}

    def fresh(self) -> Any:
        return type(self)(self.frame, self.columns)

    def update(self, block: Any) -> Any:
        size = chunk_rows(self.frame.n_columns) // 4 * 2  # an even number: cells are worked on beside the entries
        for start in range(0, len(block), size):
            self.tally(*self.frame.image_and_holes(block[start : start + size], single=True))
        return self

    def tally(self, rows: NDArray[Any], holes: NDArray[np.bool_] | None = None) -> None:
        """Take in framed rows; an entry that is a hole falls into no cell."""
        self.count += len(rows)
        slots = self.n_cells + 2  # the first and the last are for entries that have no cell
        entries = rows if len(self.columns) == rows.shape[1] else rows[:, list(self.columns)]
        with np.errstate(over="ignore"):  # beyond the last cell
            cells = self._cells(np.ascontiguousarray(entries, dtype=np.float32))
        if holes is not None:
            holes = holes if holes.shape[1] in (1, len(self.columns)) else holes[:, list(self.columns)]
            cells = np.where(holes, self.n_cells, cells)
        cells += self._places(len(cells))
        found = np.bincount(cells.ravel(), minlength=len(self.columns) * slots)
        self.counts += found.reshape(len(self.columns), slots)[:, 1:-1]

    def _places(self, rows: int) -> Integers:
        """The slot of cell 0 of every column, repeated for so many rows: faster than row by row."""
        if self._repeated is None or len(self._repeated) < rows:
            self._repeated = np.tile(np.arange(len(self.columns)) * (self.n_cells + 2) + 1, (rows, 1))
        return self._repeated[:rows]

    def merge(self, other: Any) -> Any:
        self.counts += other.counts
        self.count += other.count
        return self

    @abstractmethod
    def _cells(self, entries: Singles) -> Integers:
        """The cell of every finite entry, a new array; −1 or `n_cells` for none."""


class Sizes(ColumnHistogram):
    """Sizes by half octaves: cell REACH + j holds entries of size 2^(j/2) up to 2^((j+1)/2); zeros have none."""

    n_cells = 2 * REACH + 1

    def _cells(self, entries: Singles) -> Integers:
        bits = entries.view(np.int32) & _UNSIGNED
        cells = bits >> _FRACTION  # the exponent, and once more, one larger from √2 on: together half octaves
        bits += _ONE - _ROOT
        bits >>= _FRACTION
        cells += bits
        cells += REACH - 2 * _BIAS
        np.maximum(cells, -1, out=cells)  # both together are several times as fast as clip
        return np.minimum(cells, self.n_cells - 1, out=cells).astype(np.int64)


class Octaves(ColumnHistogram):
    """Places by octaves: the middle cell holds entries between −1 and 1, the next ones up to 2, 4, 8 and so on."""

    n_cells = 2 * OCTAVES + 1

    def _cells(self, entries: Singles) -> Integers:
        codes = (entries.view(np.uint32) >> np.uint32(_FRACTION)).astype(np.intp)  # sign and exponent, 9 bits
        return np.take(_OCTAVE_OF, codes, mode="clip")


class Stretch(ColumnHistogram):
    """Places by equal cells: cell j holds entries from j up to j + 1; those outside 0 … ``n_cells`` have none."""

    def __init__(self, frame: Frame, columns: tuple[int, ...], n_cells: int = CELLS) -> None:
        self.n_cells = n_cells
        super().__init__(frame, columns)

    def fresh(self) -> Stretch:
        return Stretch(self.frame, self.columns, self.n_cells)

    def _cells(self, entries: Singles) -> Integers:
        inside = np.maximum(entries, np.float32(-1))
        np.minimum(inside, np.float32(self.n_cells), out=inside)
        return np.floor(inside, out=inside).astype(np.int64)
