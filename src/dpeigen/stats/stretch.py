"""Rows stretched along released directions, one row at a time: z = x + Σⱼ (tⱼ − 1)·(uⱼ·x)·uⱼ, or tⱼ·(uⱼ·x) for all j.

Scores are exact sums of integers (`frame.exact_scores`). The rest is one multiplication and one addition per entry and
direction in a fixed order, so the image of a row depends on that row and on released numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.exact_norms import LARGEST_FLOAT, bounded_norms, bounded_unit, exact_bits, finite, row_norms
from dpeigen.stats.frame import Frame, RowView
from dpeigen.stats.products import exact_product
from dpeigen.stats.score_frame import exact_scores
from dpeigen.stats.tiles import Tiles
from dpeigen.stats.triangular import times_triangle, triangle_of

__all__ = ["Stretched", "WhitenedRows", "is_near", "lengths_of"]

_FINE = 2.0**12  # steps in the unit of the least stretched direction; with fewer, norms would be too coarse
_SMALL = 2**16  # numbers: with fewer, repeating the factors takes longer than it saves (`stats.tiles`)
_NEAR = 4.0  # units of a frame: within this reach, rows are on one scale; in a wider box, rows may be short


@dataclass(frozen=True, eq=False)
class _Turned:
    """Framed rows, and orthonormal directions with a factor for each."""

    frame: Frame
    directions: Floats  # orthonormal rows, released
    factors: Floats  # one for each, from released numbers

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Turned)
            and type(other) is type(self)
            and self.frame == other.frame
            and np.array_equal(self.directions, other.directions)
            and np.array_equal(self.factors, other.factors)
        )

    @property
    def n_columns(self) -> int:
        return self.frame.n_features

    @property
    def rows_per_term(self) -> int:
        return self.frame.rows_per_term

    def quick_image(self, block: Any) -> Floats | None:  # noqa: ARG002
        return None


class Stretched(_Turned):
    """Framed rows with their parts along some ``directions`` multiplied by ``factors``."""

    def image(self, block: Any) -> Floats:
        rows = self.frame.image(block)
        if not len(self.directions):
            return rows
        scores = exact_scores(rows, self.directions, residual=False)
        rows = rows.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            for j, direction in enumerate(self.directions):
                rows += (scores[:, j] * (self.factors[j] - 1))[:, None] * direction
        return np.clip(np.nan_to_num(rows, nan=0.0), -LARGEST_FLOAT, LARGEST_FLOAT)


class WhitenedRows(_Turned):
    """Scores of framed rows along all ``directions`` of a released basis, each multiplied by its factor.

    They have the same norms as rows stretched by `Stretched`, in other axes. This is many times faster if all
    directions are stretched.
    """

    def image(self, block: Any) -> Floats:
        scores, times = self.scores(block)
        return self.times_factors(scores, times, out=scores)

    def scaled_image(self, block: Any, times: float, out: Floats | None = None) -> Floats | None:  # noqa: ARG002
        """The image times a number, in an array that may be written to; None if that takes another pass."""
        if not is_near(self.frame):
            return None
        scores, lacking = self.scores(block)
        return self.times_factors(scores, lacking * times, out=scores)

    @cached_property
    def _integers(self) -> Floats:
        return np.rint(self.directions * 2.0 ** exact_bits(self.n_columns)).T

    def scores(self, block: Any) -> tuple[Floats, float]:
        """Scores without the factors, the same for all views with this basis; and a power of two that they lack.

        If the frame is near, one power of two is used for all rows, in half the time of `exact_scores`.
        """
        if not is_near(self.frame):
            return exact_scores(self.frame.image(block), self.directions, residual=False), 1.0
        return self.exact_scores(self.integer_rows(block))

    @cached_property
    def _unit(self) -> float:
        return bounded_unit(self.frame.reach, self.n_columns)

    def integer_rows(self, block: Any) -> NDArray[Any]:
        """Framed rows in steps so fine that sums of scores use all bits of a double; only if the frame is near.

        In single precision if the rows are.
        """
        return self.frame.integer_image(block, self._unit)

    def exact_scores(self, rows: NDArray[Any]) -> tuple[Floats, float]:
        """`scores` of integer rows."""
        rows = rows.astype(np.float64, copy=False)
        return exact_product(rows, self._integers), 2.0 ** -exact_bits(self.n_columns) / self._unit

    def rough_squares(self, rows: NDArray[Any], views: Sequence[WhitenedRows]) -> Floats:
        """Squared norms of integer rows in views along this basis, views × rows, in single precision."""
        if len(views) == 1:  # half the products (`stats.triangular`)
            turned = times_triangle(rows, views[0]._triangle)
            np.multiply(turned, turned, out=turned)
            squares: Floats = (turned @ np.ones(turned.shape[1], dtype=np.float32)).astype(np.float64)
            return squares[None] / self._unit**2
        scores = rows.astype(np.float32, copy=False) @ self._single
        np.multiply(scores, scores, out=scores)
        weights = np.stack([view.factors**2 for view in views], axis=1).astype(np.float32)
        return (scores @ weights).T.astype(np.float64) / self._unit**2

    @cached_property
    def _single(self) -> NDArray[np.float32]:
        return (self._integers * 2.0 ** -exact_bits(self.n_columns)).astype(np.float32)

    @cached_property
    def _triangle(self) -> NDArray[np.float32]:
        return triangle_of(self.factors[:, None] * self._integers.T * 2.0 ** -exact_bits(self.n_columns))

    def rough_error(self, norms: NDArray[Any]) -> tuple[Floats, float]:
        """The largest errors of the roots of `rough_squares` compared with `lengths`, for integer rows of these norms.

        An absolute part for each row, and a relative part. A sum of d products of rounded numbers has an error of at
        most ((1 + u)^(d+2) − 1) times the sum of their sizes, in any order, u = 2^−24; that sum is at most the product
        of two norms. Directions have norm 1 (nearly so in integers). A triangle has the norm of its map, and is found
        to within 10^−4 of that error. `lengths` rounds each entry.
        """
        d, u = self.n_columns, 2.0**-24
        longest = norms.astype(np.float64) * ((1 + 2 * d * u) / self._unit)  # norms may be in single precision
        scores = 1.02 * (d + 2) * u * float(np.linalg.norm(self.factors)) * longest
        rounded = math.sqrt(d) / self._length_unit if self._on_one_scale else 0.0
        fine = 0.0 if self._on_one_scale else math.sqrt(d) * 2.0 ** (1 - exact_bits(d))
        return scores + rounded + 1e-30, (d + 10) * u + fine

    @cached_property
    def _length_unit(self) -> float:
        # A score is at most the norm of its row; in rounded numbers, at most twice that.
        longest = 2 * max(1.0, self.factors.max()) * self.frame.reach * self.n_columns**0.5
        return bounded_unit(longest, self.n_columns)

    @cached_property
    def _on_one_scale(self) -> bool:
        """Whether images of rows can be rounded on one scale to compute their norms."""
        return is_near(self.frame) and bool(self._length_unit * self.factors.min() >= _FINE)

    def times_factors(self, scores: Floats, times: float, out: Floats | None = None) -> Floats:
        """The image of rows with these scores."""
        with np.errstate(over="ignore"):
            if scores.size < _SMALL:
                image: Floats = np.multiply(scores, self.factors * times, out=out)
            else:
                image = self._tiles.applied([(np.multiply, self.factors * times)], scores, times, out=out)
        return image if is_near(self.frame) else finite(image)

    @cached_property
    def _tiles(self) -> Tiles:
        return Tiles()

    def lengths(self, scores: Floats, times: float) -> Floats:
        """The norms of the image."""
        unit = self._length_unit
        if not self._on_one_scale:
            return row_norms(self.times_factors(scores, times))
        return bounded_norms(self.times_factors(scores, times * unit), unit)


def is_near(frame: Frame) -> bool:
    """Whether all rows can be rounded on one scale."""
    return frame.reach <= _NEAR and frame.weights is not None


def lengths_of(view: RowView, block: Any) -> Floats:
    """Norms of the image of a block, each from its row alone."""
    if isinstance(view, Frame) and is_near(view):
        unit = bounded_unit(view.reach, view.n_columns)
        return bounded_norms(view.image_and_holes(block, unit)[0], unit)
    return view.lengths(*view.scores(block)) if isinstance(view, WhitenedRows) else row_norms(view.image(block))
