"""Histograms of single columns: of how large entries are, and of where they lie. Exact counts, column by column.

A framed row falls into at most one cell of each column (into none where the column has a hole), and its cell depends on
that row alone. So a row (or a pair of rows) that is replaced moves at most one unit out of a cell and one into another
in every column: ℓ2 sensitivity √(2d), ℓ1 sensitivity 2d for d columns. A row more or less moves half as much.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
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
_CHUNK_CELLS = 4  # rows of a chunk for each cell, at least
_ROOT = math.sqrt(0.5)


@dataclass(frozen=True)
class _Bits:
    """How a number lies in memory: its fraction, then the exponent plus ``bias``, then the sign."""

    integer: type[np.signedinteger[Any]]
    fraction: int
    bias: int

    @property
    def one(self) -> int:
        """Of the exponent."""
        return int(2**self.fraction)

    @property
    def unsigned(self) -> int:
        """All bits but the sign."""
        return int(np.iinfo(self.integer).max)

    @property
    def after_root(self) -> int:
        """What makes the exponent one larger from √½·2^j on."""
        root = np.array(_ROOT, dtype=f"f{np.dtype(self.integer).itemsize}").view(self.integer)
        return self.one - int(root) % self.one


_BITS = {np.dtype(np.float64): _Bits(np.int64, 52, 1023), np.dtype(np.float32): _Bits(np.int32, 23, 127)}


class ColumnHistogram(Statistic):
    """``counts`` (columns × cells) of framed rows, and how many rows there were."""

    n_cells: int

    def __init__(self, frame: Frame, columns: tuple[int, ...]) -> None:
        self.frame, self.columns, self.count = frame, columns, 0
        self.counts: Integers = np.zeros((len(columns), self.n_cells), dtype=np.int64)
        self._repeated: NDArray[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_repeated": None}

    def fresh(self) -> Any:
        return type(self)(self.frame, self.columns)

    def update(self, block: Any) -> Any:
        size = chunk_rows(self.frame.n_columns) // 4 * 2  # an even number: cells are worked on beside the entries
        size = max(size, _CHUNK_CELLS * self.n_cells // 2 * 2)  # counts are added up once for each chunk
        for start in range(0, len(block), size):
            self.tally(*self.frame.image_and_holes(block[start : start + size], single=True))
        return self

    def tally(self, rows: NDArray[Any], holes: NDArray[np.bool_] | None = None) -> None:
        """Take in framed rows; an entry that is a hole falls into no cell."""
        self.count += len(rows)
        slots = self.n_cells + 2  # the first and the last are for entries that have no cell
        entries = rows if len(self.columns) == rows.shape[1] else rows[:, list(self.columns)]
        cells = self._cells(entries)
        if holes is not None:
            holes = holes if holes.shape[1] in (1, len(self.columns)) else holes[:, list(self.columns)]
            cells = np.where(holes, cells.dtype.type(self.n_cells), cells)
        cells += self._places(len(cells), cells.dtype)
        found = np.bincount(cells.ravel(), minlength=len(self.columns) * slots)
        self.counts += found.reshape(len(self.columns), slots)[:, 1:-1]

    def _places(self, rows: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """The slot of cell 0 of every column, repeated for so many rows: faster than row by row."""
        if self._repeated is None or len(self._repeated) < rows or self._repeated.dtype != kind:
            slots = np.arange(len(self.columns), dtype=kind) * kind.type(self.n_cells + 2) + kind.type(1)
            self._repeated = np.tile(slots, (rows, 1))
        return self._repeated[:rows]

    def merge(self, other: Any) -> Any:
        self.counts += other.counts
        self.count += other.count
        return self

    @abstractmethod
    def _cells(self, entries: NDArray[Any]) -> NDArray[Any]:
        """The cell of every finite entry, a new array; −1 or `n_cells` for none.

        Entries are in single or double precision, cells in integers of the same size.
        """


class Sizes(ColumnHistogram):
    """Sizes by half octaves: cell REACH + j holds entries of size 2^(j/2) up to 2^((j+1)/2); zeros have none."""

    n_cells = 2 * REACH + 1

    def _cells(self, entries: NDArray[Any]) -> NDArray[Any]:
        kind = _BITS[entries.dtype]
        bits = entries.view(kind.integer) & kind.unsigned
        cells = bits >> kind.fraction  # the exponent, and once more, one larger from √2 on: together half octaves
        bits += kind.after_root
        bits >>= kind.fraction
        cells += bits
        cells += REACH - 2 * kind.bias
        return _clipped(cells, -1, self.n_cells - 1)


class Octaves(ColumnHistogram):
    """Places by octaves: the middle cell holds entries between −1 and 1, the next ones up to 2, 4, 8 and so on."""

    n_cells = 2 * OCTAVES + 1

    def _cells(self, entries: NDArray[Any]) -> NDArray[Any]:
        kind = _BITS[entries.dtype]
        bits = np.ascontiguousarray(entries).view(kind.integer)
        cells = bits & kind.unsigned
        cells >>= kind.fraction
        cells -= kind.bias - 1
        _clipped(cells, 0, OCTAVES)
        signs = bits >> (8 * cells.itemsize - 1)  # 0, or −1
        cells ^= signs
        cells -= signs
        cells += OCTAVES
        return cells


class Stretch(ColumnHistogram):
    """Places by equal cells: cell j holds entries from j up to j + 1; those outside 0 … ``n_cells`` have none."""

    def __init__(self, frame: Frame, columns: tuple[int, ...], n_cells: int = CELLS) -> None:
        self.n_cells = n_cells
        super().__init__(frame, columns)

    def fresh(self) -> Stretch:
        return Stretch(self.frame, self.columns, self.n_cells)

    def _cells(self, entries: NDArray[Any]) -> NDArray[Any]:
        inside = np.maximum(entries, -1.0)
        np.minimum(inside, self.n_cells, out=inside)
        return np.floor(inside, out=inside).astype(_BITS[entries.dtype].integer)


def _clipped(cells: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    """In place, and several times as fast as `np.clip`."""
    np.maximum(cells, low, out=cells)
    found: NDArray[Any] = np.minimum(cells, high, out=cells)
    return found
