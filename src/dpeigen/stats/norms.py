"""Counts of row norms on a fixed geometric grid, from which a private radius is chosen.

The grid is public and does not depend on the data: radii 2^(j/4), or finer, 2^(j/16), from 2^−48 to 2^48. One row
moves one unit of count, and moves every cumulative count in the same direction; `questions.radius` relies on this
sensitivity. If every row of a person has equal weight, a person is counted once, by the joint norm of their rows
(`stats.together`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.base import Statistic
from dpeigen.stats.exact_norms import bounded_norms, bounded_unit
from dpeigen.stats.frame import Frame, RowView
from dpeigen.stats.moments import chunk_rows
from dpeigen.stats.products import single_is_precise
from dpeigen.stats.single import SingleRows
from dpeigen.stats.stretch import WhitenedRows, is_near, lengths_of
from dpeigen.stats.together import with_joint_lengths
from dpeigen.stats.units import Together, UnitBlock

__all__ = ["FINE_GRID", "GRID", "NormHistogram", "NormHistograms", "told_lengths"]

_WIDE = 24  # number of columns above which transforming rows takes most of the time
GRID: NDArray[np.float64] = np.exp2(np.arange(-48 * 4, 48 * 4 + 1) / 4)
FINE_GRID: NDArray[np.float64] = np.exp2(np.arange(-48 * 16, 48 * 16 + 1) / 16)
# Edges of cells; infinite norms are in none.
_EDGES, _FINE_EDGES = (np.concatenate([[-np.inf], grid, [np.inf]]) for grid in (GRID, FINE_GRID))


def told_lengths(views: tuple[WhitenedRows, ...], block: Any) -> list[Floats]:
    """Norms of rows in views along one basis, so accurate that each is in the same cell as the exact norm.

    Single precision finds the cell of most rows in half the time. It also shows for which rows it cannot: those so near
    an edge that its error might matter. Their norms are computed exactly.
    """
    first = views[0]
    if len(first.factors) < _WIDE or not is_near(first.frame) or not single_is_precise():
        scores, times = first.scores(block)
        return [view.lengths(scores, times) for view in views]
    rows, found = first.integer_rows(block), []
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    for view, squares in zip(views, first.rough_squares(rows, views), strict=True):
        lengths = np.sqrt(squares)
        doubtful = _doubtful(lengths, *view.rough_error(norms))
        if doubtful.any():
            scores, times = first.exact_scores(rows[doubtful])
            lengths[doubtful] = view.lengths(scores, times)
        found.append(lengths)
    return found


def _doubtful(lengths: Floats, off: Floats | float, part: float, edges: Floats = _EDGES) -> NDArray[np.bool_]:
    """Which norms may be in another cell, if their error is at most ``off`` plus the fraction ``part`` of the norm."""
    away, cells = off + part * lengths, np.searchsorted(edges[1:-1], lengths)
    return np.asarray(~((lengths - away > edges[cells]) & (lengths + away < edges[cells + 1])))  # NaN too


def _told(view: RowView, block: Any, edges: Floats) -> Floats:
    """Norms of framed rows; for rows in single precision only accurate up to the cell, as above."""
    if not isinstance(view, Frame) or not is_near(view) or not isinstance(block, SingleRows) or not single_is_precise():
        return lengths_of(view, block)
    unit, d = bounded_unit(view.reach, view.n_columns), view.n_columns
    rows = view.image_and_holes(block, unit, single=True)[0]
    whole = np.rint(rows, out=rows)
    if whole.dtype != np.float32:
        return bounded_norms(whole, unit)
    lengths = np.sqrt((whole * whole) @ np.ones(d, dtype=np.float32)).astype(np.float64)
    lengths /= unit
    doubtful = _doubtful(lengths, 0.0, (d + 10) * 2.0**-24, edges)  # error of d squares, each rounded, in any order
    if doubtful.any():
        lengths[doubtful] = bounded_norms(whole[doubtful].astype(np.float64), unit)
    return lengths


class NormHistogram(Statistic):
    """How many framed rows have their norm in each cell (grid[j−1], grid[j]]; the last cell is open above."""

    takes_capped = True

    def __init__(self, frame: RowView, *, fine: bool = False) -> None:
        self.frame, self._fine, self._grid = frame, fine, FINE_GRID if fine else GRID
        self.count = 0  # terms: rows, or people as far as they count
        self.counts: NDArray[np.int64] = np.zeros(len(self._grid) + 1, dtype=np.int64)

    def fresh(self) -> NormHistogram:
        return NormHistogram(self.frame, fine=self._fine)

    @property
    def joint_views(self) -> tuple[RowView, ...]:
        return (self.frame,)

    def update(self, block: Any) -> NormHistogram:
        if isinstance(block, UnitBlock):
            block = with_joint_lengths(block, self.joint_views)
            return self.tally_people(block, block.together[0])
        size = chunk_rows(self.frame.n_columns)
        for start in range(0, len(block), size):
            self.tally(_told(self.frame, block[start : start + size], _FINE_EDGES if self._fine else _EDGES))
        return self

    def tally(self, lengths: Floats) -> None:
        """Add framed rows of these norms."""
        self._count(lengths)
        self.count += len(lengths)

    def tally_people(self, block: UnitBlock, together: Together) -> NormHistogram:
        """Add people, once each."""
        self._count(together.lengths[together.firsts])
        self.count += block.people
        return self

    def _count(self, lengths: Floats) -> None:
        cells = np.searchsorted(self._grid, lengths, side="left")
        self.counts += np.bincount(cells, minlength=len(self._grid) + 1)

    def merge(self, other: NormHistogram) -> NormHistogram:
        self.counts += other.counts
        self.count += other.count
        return self

    @property
    def people(self) -> int:
        """The number of rows, or people, whose norms were counted."""
        return int(self.counts.sum())

    @property
    def cumulative(self) -> NDArray[np.int64]:
        """The number of rows with norm at most each grid radius."""
        return np.cumsum(self.counts[:-1])


class NormHistograms(Statistic):
    """The histograms of several views along one released basis, from one pass."""

    takes_capped = True

    def __init__(self, views: tuple[WhitenedRows, ...]) -> None:
        self.views, self._parts = views, [NormHistogram(view) for view in views]

    @property
    def joint_views(self) -> tuple[WhitenedRows, ...]:
        return self.views

    def fresh(self) -> NormHistograms:
        return NormHistograms(self.views)

    def update(self, block: Any) -> NormHistograms:
        if isinstance(block, UnitBlock):
            block = with_joint_lengths(block, self.views)
            for part, together in zip(self._parts, block.together, strict=True):
                part.tally_people(block, together)
            return self
        size = chunk_rows(self.views[0].n_columns)
        for start in range(0, len(block), size):
            for part, lengths in zip(self._parts, told_lengths(self.views, block[start : start + size]), strict=True):
                part.tally(lengths)
        return self

    def merge(self, other: NormHistograms) -> NormHistograms:
        for part, theirs in zip(self._parts, other._parts, strict=True):
            part.merge(theirs)
        return self

    def of(self, view: RowView) -> NormHistogram:
        """The histogram of one of the views."""
        return self._parts[self.views.index(view)]
