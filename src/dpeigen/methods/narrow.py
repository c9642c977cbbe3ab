"""Locations of columns that are narrow beside the common scale of all columns.

Guarantee: only answers that are paid for are used (`questions.columns`).

Methods with one unit for all columns, such as those of signs, find a location of every column in units of one common
scale, and correct it by a mean whose noise has the size of the largest columns (`methods.location`). A column in a far
smaller unit would then have a location with an error of many of its own deviations. Its rows all lie in one cell of
that scale, or in two neighbouring ones. Here these cells are divided, again and again, until the rows of the column
fill several cells.

A flag has most rows in one cell too, but its mean is elsewhere. So a location found here is used only as far as it
agrees with the mean that was measured besides, and if its error is smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Bools, Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.costs import part_of, sum_of
from dpeigen.methods.base import Task
from dpeigen.methods.places import Places
from dpeigen.privacy import Cost
from dpeigen.questions import ColumnCounts
from dpeigen.stats import Frame
from dpeigen.stats.columns import CELLS

__all__ = ["NarrowPlaces", "ask_narrow_places", "narrow_columns", "narrow_integers"]

_LOOKS = range(3, 9)  # measurements: more where noise is small
_IN_TWO = 0.97  # of the rows, in two neighbouring cells
_MOST = 0.6  # of the rows, in the window that shows where a column is and how wide it is
_CLEAR = 4.0  # deviations of the noise on counts that are exceeded rarely enough
_LEAST_WINDOW, _GOOD_WINDOW = 4.0, 8.0  # cells of the longest window that can be found: to look at all, and enough
_CELLS_OF_WINDOW = 1.5  # cells of a measurement over those of that window
_NARROW = 1 / 8  # of a scale: longer windows belong to columns that are not narrow
_FEW = 2  # cells of a window that are divided again
_DEVIATIONS = 1.7  # of a normal column in a window with 60% of its rows
_AGREES = 3.0  # deviations of the error of a mean, from which a location differs by less
_UNEVEN = 0.15  # deviations of a column between the mean of its middle part and the mean of all rows


@dataclass(frozen=True, eq=False)
class NarrowPlaces:
    """Locations of all columns, the deviations of their errors (∞ if they are not narrow), and what was spent."""

    place: Floats
    deviation: Floats
    spent: Cost

    def instead_of(self, mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
        """Means and deviations of their errors, replaced by these locations where these are more precise.

        A location far from the mean, for the error of that, replaces it only in part.
        """
        away, most = self.place - mean, _AGREES * deviation
        place = np.where(self.deviation < deviation, mean + np.clip(away, -most, most), mean)
        return place, np.where(np.abs(away) < most, np.minimum(self.deviation, deviation), deviation)


def narrow_integers(d: int) -> int:
    """The most noisy integers that `ask_narrow_places` draws."""
    return d * _LOOKS[-1] * CELLS


def narrow_columns(found: Places, rows: float) -> Bools:
    """Columns whose rows are nearly all in two neighbouring cells of their place, so that they may be narrow."""
    both = found.inside + np.maximum(found.below, found.above)
    return np.asarray(both > _IN_TWO * rows - 2 * found.deviation)


def ask_narrow_places(
    curator: Curator, found: Places, columns: Bools, rows: float, cost: Cost, task: Task
) -> NarrowPlaces | None:
    """The locations of these columns as far as they are narrow; None if noise would hide them.

    ``rows``: their number, public or released. Measurements cost up to ``cost`` together.
    """
    d, left = len(found.place), np.flatnonzero(columns)
    looks, cells = _looks_and_cells(len(left), rows, cost, task)
    if not looks:
        return None
    low = np.where(found.above >= found.below, found.low, found.low - found.width)
    width, place, deviation = 2 * found.width, found.place.copy(), np.full(d, math.inf)
    left_in, moved = np.full(d, rows), np.zeros(d)  # rows in the region, and the error by those that it has lost
    each = spent = part_of(cost, looks)
    for look in range(looks):
        if not len(left):
            break
        spent, cell = sum_of(spent, each) if look else each, width / cells
        question = ColumnCounts(Frame(d, low, 1 / cell, missing=task.missing), "stretch", tuple(map(int, left)), cells)
        counts = curator.measure(question, purpose=Purpose.CENTER, cost=each)
        again = []
        for j, row in zip(left, counts.counts, strict=True):
            start, length = _shortest_window(row, rows, counts.deviation)
            if 0 < length * cell[j] <= _NARROW * found.width[j]:
                middle, error = _mean_of_middle(row, start, length, rows, counts.deviation)
                error = math.hypot(error * cell[j], moved[j])
                if error < deviation[j]:
                    place[j], deviation[j] = low[j] + middle * cell[j], error
            if 0 < length <= _FEW:
                again.append(j)
                near = row[max(start - 1, 0) : start + length + 1]
                inside = min(float(near.sum()) + _CLEAR * counts.deviation * math.sqrt(len(near)), left_in[j])
                moved[j] += (left_in[j] - inside) / rows * width[j] / 2
                left_in[j] = inside
                first = start - _before(row, start, length, counts.deviation)
                low[j], width[j] = low[j] + first * cell[j], (length + 1) * cell[j]
        left = np.array(again, dtype=np.intp)
    return NarrowPlaces(place, deviation, spent)


def _looks_and_cells(columns: int, rows: float, cost: Cost, task: Task) -> tuple[int, int]:
    """The number of measurements, and the cells of each, from public facts; (0, 0) if noise would hide any window."""
    question, best = ColumnCounts(Frame(columns), "stretch", tuple(range(columns))), (0, 0)
    for looks in _LOOKS:
        noise = question.deviation(part_of(cost, looks), task.relation)
        longest = ((1 - _MOST) * rows / (_CLEAR * noise)) ** 2
        if longest < (_GOOD_WINDOW if best[0] else _LEAST_WINDOW):
            break
        best = looks, max(2, min(CELLS, round(_CELLS_OF_WINDOW * longest)))
    return best


def _shortest_window(counts: Floats, rows: float, noise: float) -> tuple[int, int]:
    """Start and length of the shortest window of 2^k cells with most of the rows; (0, 0) if noise hides it."""
    sums, length = np.append(0.0, np.cumsum(counts)), 1
    while length <= len(counts) and _CLEAR * noise * math.sqrt(length) < (1 - _MOST) * rows:
        inside = sums[length:] - sums[:-length]
        start = int(np.argmax(inside))
        if inside[start] > _MOST * rows:
            return start, length
        length *= 2
    return 0, 0


def _before(counts: Floats, start: int, length: int, noise: float) -> float:
    """How many cells before a window belong to the region that is divided next, which has one cell more than it.

    Half a cell on either side; or the whole of the cell that has more rows, if a column is on the edge of a cell.
    """
    below, above = (float(counts[at]) if 0 <= at < len(counts) else 0.0 for at in (start - 1, start + length))
    if abs(below - above) < _CLEAR * noise:
        return 0.5
    return 1.0 if below > above else 0.0


def _mean_of_middle(counts: Floats, start: int, length: int, rows: float, noise: float) -> tuple[float, float]:
    """The mean position of entries in a window and beside it, and the deviation of its error, in cells."""
    first, last = max(start - (length + 1) // 2, 0), min(start + length + (length + 1) // 2, len(counts))
    away = np.arange(first, last) + 0.5 - (start + length / 2)
    inside = max(float(counts[first:last].sum()), _MOST * rows)
    moved = min(max(float(counts[first:last] @ away) / inside, -length), length)
    noisy = noise * math.sqrt(float(np.sum((away - moved) ** 2))) / inside
    return start + length / 2 + moved, math.sqrt(noisy**2 + 1 / 12 + (_UNEVEN * length / _DEVIATIONS) ** 2)
