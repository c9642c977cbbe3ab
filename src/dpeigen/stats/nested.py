"""Second moments for every radius of a part of the grid, in one pass: the radius may be chosen afterwards.

Lattice rows no longer than the first radius enter the sum at once. The few longer ones are kept unchanged until a
radius r is chosen. Then they are shortened to L_r = ⌊L·r/R⌋ grid steps, where R is the radius of the lattice and L its
grid steps, and added. So the sum is over integer rows; each is a function of its own row and r, and no longer than L_r.
The sensitivities are those of `stats.moments` with L_r in place of L. The number of rows longer than a radius is a sum
too; a row adds 0 or 1 to it, and no more for a larger radius.

A row that shares a person with m − 1 others is divided by √m, and so is its limit in grid steps (`stats.units`); of the
rows of one person only the one that represents them is counted. Rows that are clipped together (`stats.together`) may
have the squared norm ⌊a·B/S⌋ for every radius, where B grows with it; their person counts once, by the joint norm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.lattice import LEVELS, Lattice, limits_of
from dpeigen.stats.moments import SecondMoment
from dpeigen.stats.norms import GRID
from dpeigen.stats.units import UnitBlock, slack_of, terms_of

__all__ = ["NestedMoment", "ShortenedMoment", "levels_of"]


def levels_of(radius: float, lattice: Lattice) -> int:
    """The grid steps of a row of this norm, at most those of the lattice."""
    return min(LEVELS, math.floor(LEVELS * (radius / lattice.radius)))


class ShortenedMoment(SecondMoment):
    """Σzzᵀ and Σz over lattice rows shortened to a radius, which is at most that of the lattice."""

    mostly_whole = True

    def __init__(self, lattice: Lattice, radius: float, center_weight: int = 0) -> None:
        super().__init__(lattice, center_weight)
        self.radius, self.levels = radius, levels_of(radius, lattice)

    def fresh(self) -> ShortenedMoment:
        return ShortenedMoment(self.lattice, self.radius, self.center_weight)

    def _take(self, rows: Floats, block: Any, squares: Floats | None = None) -> None:
        """Add the rows, rounded towards 0 if they are shortened, so that they only get shorter."""
        limits = _limits(block, self.levels, self.lattice)
        squares = np.einsum("ij,ij->i", rows, rows) if squares is None else squares
        factors = np.where(squares > limits, (np.sqrt(limits) - 1) / np.sqrt(np.maximum(squares, 1.0)), 1.0)
        rows = np.trunc(rows * np.maximum(factors, 0.0)[:, None])
        short = np.einsum("ij,ij->i", rows, rows) <= limits  # always true; the proof rests on this check
        super()._take(np.where(short[:, None], rows, 0.0), block)


class NestedMoment(SecondMoment):
    """Σzzᵀ and Σz over rows up to the ``first`` radius; longer rows are kept separately."""

    reads_heads = True
    mostly_whole = True

    def __init__(self, lattice: Lattice, first: float) -> None:
        super().__init__(lattice, center_weight=1)  # so that rows are summed as well
        self.first = first
        self.people = 0  # rows, or people, whose norms are counted
        self._longer: list[tuple[Floats, Any]] = []  # lattice rows, and the people they belong to
        self._lengths: list[Floats] = []  # joint norms of people, if they exceed the first radius

    def fresh(self) -> NestedMoment:
        return NestedMoment(self.lattice, self.first)

    @property
    def _whole_levels(self) -> int:
        return levels_of(self.first, self.lattice)

    def _count_whole(self, rows: int) -> None:
        super()._count_whole(rows)
        self.people += rows

    def _take(self, rows: Floats, block: Any, squares: Floats | None = None) -> None:
        squares = np.einsum("ij,ij->i", rows, rows) if squares is None else squares
        longer = squares > _limits(block, levels_of(self.first, self.lattice), self.lattice)
        if longer.any():
            sizes = block.sizes[longer] if isinstance(block, UnitBlock) else None
            whose = None if sizes is None else UnitBlock(sizes, sizes, block.heads[longer], block.capped)
            whose = whose if whose is None else whose.given([each[longer] for each in block.together])
            self._longer.append((rows[longer], whose))
            rows[longer] = 0.0
        together = block.together if isinstance(block, UnitBlock) else ()
        for each in together:
            lengths = each.lengths[each.firsts]
            self._lengths.append(lengths[lengths > self.first])
            self.people += len(lengths)
        self.people += 0 if together else min(len(rows), terms_of(block))
        super()._take(rows, block)

    def _join(self, other: SecondMoment) -> None:
        super()._join(other)
        if isinstance(other, NestedMoment):
            self._longer += other._longer
            self._lengths += other._lengths
            self.people += other.people

    @property
    def cumulative(self) -> NDArray[np.int64]:
        """The number of rows (or people) within each grid radius, starting at the first."""
        if self._lengths:
            longer = np.sort(np.concatenate(self._lengths))
            return np.asarray(self.people - len(longer) + np.searchsorted(longer, GRID, side="right"))
        # z exceeds its limit (L² − s)/m if m·|z|² + s exceeds L²: integers below 2^53.
        lengths = [np.empty(0)]
        for rows, whose in self._longer:
            squares = np.einsum("ij,ij->i", rows, rows)
            if whose is not None:
                squares = (squares * whose.sizes + slack_of(self.lattice.n_columns))[whose.heads]
            lengths.append(squares)
        longer = np.sort(np.concatenate(lengths))
        limits = [float(levels_of(radius, self.lattice) ** 2) for radius in GRID]
        return np.asarray(self.people - len(longer) + np.searchsorted(longer, limits, side="right"))

    def within(self, radius: float, center_weight: int) -> ShortenedMoment:
        """The moment of rows shortened to this radius, between the first radius and that of the lattice."""
        if not self.first <= radius <= self.lattice.radius:
            raise AssertionError("rows up to the first radius are summed as they are")
        moment = ShortenedMoment(self.lattice, radius, center_weight)
        for rows, whose in self._longer:
            moment._take(rows, rows if whose is None else whose)
        if self._pending_rows:
            self._flush()
        moment._gram.merge(self._gram)
        if moment._sums is not None and self._sums is not None:
            moment._sums.uncount()  # longer rows were counted when they were read
            moment._sums.merge(self._sums)
        if moment._whole is not None and self._whole is not None:
            moment._whole.merge(self._whole)
        moment.count, moment._seen = self.count, self._seen
        return moment


def _limits(block: Any, levels: int, lattice: Lattice) -> Any:
    """The largest squared norms of the rows of a block, if a row that shares no person may have ``levels`` steps."""
    if isinstance(block, UnitBlock):
        return limits_of(block, levels, lattice.n_columns)
    return np.float64(levels**2)
