"""Counts of rows that are far out, by their two largest entries.

A framed row is far if its largest entry is at least 1 in size. A far row is in exactly one cell. The cell says in which
column its largest entry is and how large it is, by quarter octaves from 1 on; in which column its second largest entry
is, by which factor that is smaller (half octaves), and whether both have the same sign. If the second is much smaller,
only the first is described. Rows that are not far are in no cell.

So one row is in at most one cell, and the cell depends on that row alone: entries are framed row by row
(`stats.frame`), and compared with fixed numbers and with multiples of each other. Replacing a row changes the counts by
at most 2 in ℓ1, adding or removing it by at most 1.

>>> far = FarCells(Frame(3)).update(np.array([[0.5, 0.1, 0.2], [0.0, -9.0, 8.0]]))
>>> [cell] = describe(np.flatnonzero(far.counts), 3)
>>> cell.first, cell.second, round(cell.size, 2), round(cell.ratio, 2), cell.same_sign
(1, 2, 8.72, 0.84, False)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats, Integers
from dpeigen.stats.base import Statistic
from dpeigen.stats.frame import Frame
from dpeigen.stats.moments import chunk_rows

__all__ = ["HALF_RATIO", "HALF_SIZE", "LEAST_RATIO", "FarCell", "FarCells", "describe", "number_of_cells"]

# Chosen by `benchmarks/tables.py --only pca --epsilon 50`; with 5 octaves and 2 half octaves, very far rows were lost.
_OCTAVES, _PER_OCTAVE = 8, 4  # the last cell also holds all larger rows
_RATIOS = 4  # half octaves by which the second entry may be smaller than the first
_EDGES = 2.0 ** (np.arange(_OCTAVES * _PER_OCTAVE) / _PER_OCTAVE)
_SMALLER = 2.0 ** (-np.arange(1, _RATIOS + 1) / 2)
LEAST_RATIO = float(_SMALLER[-1])  # of the second entry to the first: a smaller one is not described
HALF_SIZE, HALF_RATIO = 2.0 ** (0.5 / _PER_OCTAVE), 2.0**0.25  # factors from the middle of a cell to its ends


def _kinds(d: int) -> int:
    """Cells of one size and one first column: no second entry, or its column, ratio and sign."""
    return 1 + (d - 1) * _RATIOS * 2


def number_of_cells(d: int) -> int:
    """The number of cells for rows of d columns."""
    return len(_EDGES) * d * _kinds(d)


@dataclass(frozen=True)
class FarCell:
    """The middle of a cell: the sizes of two entries, or of one (``second`` is None)."""

    first: int
    second: int | None
    size: float
    ratio: float = 0.0
    same_sign: bool = True


def describe(cells: Integers, d: int) -> list[FarCell]:
    """What the cells with these numbers stand for."""
    found = []
    for cell in cells.tolist():
        place, kind = divmod(cell, _kinds(d))
        step, first = divmod(place, d)
        size = float(_EDGES[step]) * HALF_SIZE
        if kind == 0:
            found.append(FarCell(first, None, size))
            continue
        rest, same = divmod(kind - 1, 2)
        other, ratio = divmod(rest, _RATIOS)
        second = other + (other >= first)
        found.append(FarCell(first, second, size, float(_SMALLER[ratio]) * HALF_RATIO, bool(same)))
    return found


class FarCells(Statistic):
    """``counts`` of far rows in each cell, and the number of all rows."""

    def __init__(self, frame: Frame) -> None:
        if frame.n_features < 2:
            raise ValueError("Cells of far rows need two columns.")
        self.frame, self.count = frame, 0
        self.counts: Integers = np.zeros(number_of_cells(frame.n_features), dtype=np.int64)

    def fresh(self) -> FarCells:
        return FarCells(self.frame)

    def update(self, block: Any) -> FarCells:
        size = chunk_rows(self.frame.n_columns) * self.frame.rows_per_term
        for start in range(0, len(block), size):
            self.tally(self.frame.image(block[start : start + size]))
        return self

    def tally(self, rows: Floats) -> None:
        """Count framed rows."""
        self.count += len(rows)
        far = rows[np.abs(rows).max(axis=1, initial=0.0) >= 1.0]
        if len(far):
            self.counts += np.bincount(_cells(far), minlength=len(self.counts))

    def merge(self, other: FarCells) -> FarCells:
        self.counts += other.counts
        self.count += other.count
        return self


def _cells(rows: Floats) -> NDArray[np.int64]:
    """The cell of each row, whose largest entry is at least 1; of equal entries the first counts as the largest."""
    d, index, sizes = rows.shape[1], np.arange(len(rows)), np.abs(rows)
    first = sizes.argmax(axis=1)
    largest = sizes[index, first]
    sizes[index, first] = -1.0
    second = sizes.argmax(axis=1)
    step = np.searchsorted(_EDGES, largest, side="right") - 1
    smaller = (sizes[index, second][:, None] < largest[:, None] * _SMALLER).sum(axis=1)
    same = np.signbit(rows[index, first]) == np.signbit(rows[index, second])
    kind = 1 + ((second - (second > first)) * _RATIOS + smaller) * 2 + same
    return np.asarray((step * d + first) * _kinds(d) + np.where(smaller == _RATIOS, 0, kind), dtype=np.int64)
