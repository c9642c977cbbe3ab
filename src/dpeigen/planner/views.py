"""Views of assumed rows, and sums over many rows after one linear map.

The cost of such sums is that of products with the map, so rows are mapped once. Norms and weights for an error s of the
centre follow from |z − s|² = |z|² − 2z·s + |s|², and a sum of weighted (z − s)(z − s)ᵀ is one of zzᵀ plus terms of
rank 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.transform import Transform

__all__ = ["LEAST_LENGTH", "Mapped", "View"]

LEAST_LENGTH = 1e-150  # its square and the reciprocal of that do not under- or overflow
_ROUNDING = 1e-14  # relative differences of squares below this are rounding


@dataclass(frozen=True)
class View:
    """How a moment sees the rows: a linear map of the eigenbasis (None: none), then a radius (None: signs).

    Or, instead of the radius, a transform of norms in units of ``unit`` (`stats.generalised`).
    """

    radius: float | None = None
    stretch: Floats | None = None  # rows are multiplied by its transpose
    shift: Floats | None = None  # the error of the centre
    transform: Transform | None = None
    unit: float = 1.0

    def image(self, rows: Floats) -> Floats:
        mapped = Mapped.of(rows, self.stretch)
        off = mapped.moved(self.shift)
        images = mapped.rows if off is None else mapped.rows - off
        return images * self.factors(mapped.lengths(off))[:, None]

    def factors(self, lengths: Floats) -> Floats:
        """The factors for rows of these norms."""
        if self.transform is not None:
            return self.transform.gains(lengths * self.unit) / lengths
        return 1 / lengths if self.radius is None else np.minimum(1.0, self.radius / lengths)

    @property
    def plain_signs(self) -> bool:
        """Whether rows are divided by their norms."""
        return self.radius is None and self.transform is None

    @property
    def key(self) -> object | None:
        """A key for caching, if the view is likely to be used again."""
        known = self.stretch is not None or self.shift is not None or self.transform is not None
        return None if known else ("moment", self.radius)


@dataclass(frozen=True, eq=False)
class Mapped:
    """Rows z after a linear map, and their squared norms."""

    rows: Floats
    stretch: Floats | None
    squares: Floats

    @classmethod
    def of(cls, rows: Floats, stretch: Floats | None) -> Mapped:
        mapped = rows if stretch is None else rows @ stretch.T
        return cls(mapped, stretch, np.einsum("ij,ij->i", mapped, mapped))

    def made_by(self, stretch: Floats | None) -> bool:
        """Whether the rows were mapped by ``stretch``."""
        if self.stretch is None or stretch is None:
            return self.stretch is stretch
        return np.array_equal(self.stretch, stretch)

    @overload
    def moved(self, shift: Floats) -> Floats: ...

    @overload
    def moved(self, shift: Floats | None) -> Floats | None: ...

    def moved(self, shift: Floats | None) -> Floats | None:
        """The image of a shift under the map."""
        return shift if shift is None or self.stretch is None else self.stretch @ shift

    def lengths(self, off: Floats | None) -> Floats:
        """|z − off|."""
        squares = self.squares
        if off is not None:
            both = squares + float(off @ off)
            squares = np.maximum(both - 2 * (self.rows @ off), _ROUNDING * both)
        return np.maximum(np.sqrt(squares), LEAST_LENGTH)

    def about(self, off: Floats) -> tuple[Floats, Floats, Floats]:
        """|z − off|, |z + off| and |z|."""
        return self.lengths(off), self.lengths(-off), self.lengths(None)

    def moment(
        self,
        weights: Floats,
        off: Floats | None = None,
        opposite: Floats | None = None,
        plain: Floats | None = None,
    ) -> Floats:
        """Σ of weighted (z − off)(z − off)ᵀ, plus (z + off)(z + off)ᵀ and zzᵀ with their own weights."""
        total = weights
        for other in (opposite, plain):
            total = total if other is None else total + other
        found: Floats = (self.rows * total[:, None]).T @ self.rows
        if off is None:
            return found
        odd, even = (weights, weights) if opposite is None else (weights - opposite, weights + opposite)
        cross = np.outer(odd @ self.rows, off)
        return found - (cross + cross.T) + float(even.sum()) * np.outer(off, off)

    def mean(self, weights: Floats, off: Floats | None = None) -> Floats:
        """Σ of weighted z − off."""
        found: Floats = weights @ self.rows
        return found if off is None else found - float(weights.sum()) * off
