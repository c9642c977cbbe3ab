"""Histograms of single columns: of the sizes of entries, and of their positions. Exact counts, column by column.

A framed row falls into at most one cell of each column (into none if its cell there is missing), and the cell depends
on that row alone. So replacing a row (or a pair of rows) takes at most one unit out of a cell and adds one to another
in every column: ℓ2 sensitivity √(2d), ℓ1 sensitivity 2d for d columns. Adding or removing a row changes one cell per
column: √d and d. For speed, entries are rounded to single precision first, a relative change of at most 2^−24.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Integers
from dpeigen.stats.base import Statistic
from dpeigen.stats.frame import Frame
from dpeigen.stats.moments import chunk_rows

__all__ = ["CELLS", "OCTAVES", "REACH", "ColumnHistogram", "Octaves", "Sizes", "Stretch"]

REACH = 200  # half octaves: sizes from 2^−100 to 2^100 have their own cells
OCTAVES = 64  # on either side of zero: positions up to 2^64 units away
CELLS = 256  # the most cells of a `Stretch`
_FRACTION, _BIAS = 23, 127  # single precision: bits of the fraction, and the bias of the exponent
_UNSIGNED, _ONE = 2**31 - 1, 2**_FRACTION
_ROOT = int(np.float32(math.sqrt(0.5)).view(np.int32)) % _ONE  # the fraction of √½, and of all numbers √½·2^j

_FEW = 8  # number of cells up to which comparing entries with each edge is faster than counting codes
_SHORT = 255  # the most rows whose number fits in an unsigned byte

Singles = NDArray[np.float32]
Codes = NDArray[np.int32]


class ColumnHistogram(Statistic):
    """``counts`` (columns × cells) of framed rows, and the number of rows.

    Entries are counted by a code, computed from their bits with a few integer operations. A cell is a sum of codes.
    """

    n_cells: int
    n_codes: int

    def __init__(self, frame: Frame, columns: tuple[int, ...]) -> None:
        self.frame, self.columns, self.count = frame, columns, 0
        self.counts: Integers = np.zeros((len(columns), self.n_cells), dtype=np.int64)
        self._repeated: Codes | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_repeated": None}

    def fresh(self) -> Any:
        return type(self)(self.frame, self.columns)

    def update(self, block: Any) -> Any:
        size = chunk_rows(self.frame.n_columns) * self.frame.rows_per_term
        for start in range(0, len(block), size):
            self.tally(*self.frame.image_and_holes(block[start : start + size], single=True))
        return self

    def tally(self, rows: NDArray[Any], holes: NDArray[np.bool_] | None = None) -> None:
        """Count framed rows; a missing entry falls into no cell."""
        self.count += len(rows)
        entries = rows if len(self.columns) == rows.shape[1] else rows[:, list(self.columns)]
        if holes is not None:
            holes = holes if holes.shape[1] in (1, len(self.columns)) else holes[:, list(self.columns)]
        with np.errstate(over="ignore"):  # beyond the last cell
            self.counts += self._counted(np.ascontiguousarray(entries, dtype=np.float32), holes)

    def _counted(self, entries: Singles, holes: NDArray[np.bool_] | None) -> Integers:
        codes, slots = self._codes(entries), self.n_codes + 1  # the last slot is for missing entries
        if holes is not None:
            codes = np.where(holes, np.int32(self.n_codes), codes)
        codes += self._places(len(codes))
        found = np.bincount(codes.ravel(), minlength=len(self.columns) * slots)
        return self._in_cells(found.reshape(len(self.columns), slots)[:, :-1])

    def _places(self, rows: int) -> Codes:
        """The slot of code 0 of every column, repeated for this many rows: faster than row by row."""
        if self._repeated is None or len(self._repeated) < rows:
            slots = np.arange(len(self.columns), dtype=np.int32) * np.int32(self.n_codes + 1)
            self._repeated = np.tile(slots, (rows, 1))
        return self._repeated[:rows]

    def merge(self, other: Any) -> Any:
        self.counts += other.counts
        self.count += other.count
        return self

    @abstractmethod
    def _codes(self, entries: Singles) -> Codes:
        """The code of every finite entry, a new array."""

    @abstractmethod
    def _in_cells(self, found: Integers) -> Integers:
        """Counts by cell, from counts by code."""


def _passing(entries: Singles, edges: Sequence[tuple[np.ufunc, float]]) -> Integers:
    """For each comparison with an edge, the number of entries of each column that pass it.

    Truth values are added in bytes, for many groups of `_SHORT` rows at once: short additions take most of the time.
    """
    found = np.zeros((len(edges), entries.shape[1]), dtype=np.int64)
    groups = max(1, -(-len(entries) // _SHORT))
    whole = len(entries) // groups * groups
    for part, side_by_side in ((entries[:whole], groups), (entries[whole:], 1)):
        passed = np.empty(part.shape, dtype=np.bool_)
        for count, (compare, edge) in zip(found, edges, strict=True):
            compare(part, np.float32(edge), out=passed)
            bytes_of = passed.view(np.uint8).reshape(-1, side_by_side * part.shape[1])
            sums = np.add.reduce(bytes_of, axis=0, dtype=np.uint8)
            count += sums.reshape(side_by_side, -1).sum(axis=0, dtype=np.int64)
    return found


class Sizes(ColumnHistogram):
    """Sizes by half octaves: cell REACH + j holds entries of size 2^(j/2) up to 2^((j+1)/2); zeros have none."""

    n_cells = 2 * REACH + 1
    n_codes = 512

    def _codes(self, entries: Singles) -> Codes:
        bits = entries.view(np.int32) & _UNSIGNED
        codes = bits >> _FRACTION  # the exponent twice, the second one larger from √2 on: their sum counts half octaves
        bits += _ONE - _ROOT
        bits >>= _FRACTION
        codes += bits
        return codes

    def _in_cells(self, found: Integers) -> Integers:
        first = 2 * _BIAS - REACH
        cells = found[:, first : first + self.n_cells].copy()
        cells[:, -1] += found[:, first + self.n_cells :].sum(axis=1)
        return cells


class Octaves(ColumnHistogram):
    """Positions by octaves: the middle cell holds entries between −1 and 1, the next ones up to 2, 4, 8 and so on."""

    n_cells = 2 * OCTAVES + 1
    n_codes = 512

    def _counted(self, entries: Singles, holes: NDArray[np.bool_] | None) -> Integers:
        size = max(entries.max(initial=0.0), -entries.min(initial=0.0))
        reached = max(0, int(np.frexp(size)[1]))  # octaves from 1 on that entries reach
        if holes is not None or not 2 * reached <= _FEW or not np.isfinite(size):
            return super()._counted(entries, holes)
        cells = np.zeros((entries.shape[1], self.n_cells), dtype=np.int64)
        cells[:, OCTAVES] = len(entries)
        for sign, beyond in ((1, np.greater_equal), (-1, np.less_equal)):
            passed = _passing(entries, [(beyond, sign * 2.0**octave) for octave in range(reached)])
            side = cells[:, OCTAVES::sign][:, : reached + 1].T
            side[1:] += passed
            side[:-1] -= passed
        return cells

    def _codes(self, entries: Singles) -> Codes:
        return (entries.view(np.uint32) >> np.uint32(_FRACTION)).view(np.int32)  # sign and exponent, 9 bits

    def _in_cells(self, found: Integers) -> Integers:
        last = _BIAS - 1 + OCTAVES  # the exponent from which on entries are in the last cell
        cells = np.zeros((len(found), self.n_cells), dtype=np.int64)
        for sign, of_sign in ((1, found[:, :256]), (-1, found[:, 256:])):
            side = cells[:, OCTAVES::sign]
            side[:, 0] += of_sign[:, :_BIAS].sum(axis=1)
            side[:, 1:-1] += of_sign[:, _BIAS:last]
            side[:, -1] += of_sign[:, last:].sum(axis=1)
        return cells


class Stretch(ColumnHistogram):
    """Positions by equal cells: cell j holds entries from j up to j + 1; those outside 0 … ``n_cells`` have none."""

    def __init__(self, frame: Frame, columns: tuple[int, ...], n_cells: int = CELLS) -> None:
        self.n_cells, self.n_codes = n_cells, n_cells + 2
        super().__init__(frame, columns)

    def fresh(self) -> Stretch:
        return Stretch(self.frame, self.columns, self.n_cells)

    def _counted(self, entries: Singles, holes: NDArray[np.bool_] | None) -> Integers:
        if self.n_cells > _FEW:
            return super()._counted(entries, holes)
        if holes is not None:
            entries = np.where(holes, np.float32(-1), entries)
        above = _passing(entries, [(np.greater_equal, edge) for edge in range(self.n_cells + 1)])
        return (above[:-1] - above[1:]).T

    def _codes(self, entries: Singles) -> Codes:
        inside = np.maximum(entries, np.float32(-1))
        np.minimum(inside, np.float32(self.n_cells), out=inside)
        codes = np.floor(inside, out=inside).astype(np.int32)
        codes += 1  # the first code is for entries below, the last for those above
        return codes

    def _in_cells(self, found: Integers) -> Integers:
        return found[:, 1:-1]
