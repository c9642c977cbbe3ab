"""Rows stretched along released directions, one row at a time: z = x + Σⱼ (tⱼ − 1)·(uⱼ·x)·uⱼ, or tⱼ·(uⱼ·x) for all j.

Scores are exact sums of integers (`frame.exact_scores`), and the rest is one multiplication and one addition per
entry and direction in a fixed order, so the image of a row depends on that row and on released numbers alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.frame import LARGEST_FLOAT, Frame, bounded_scores, exact_scores, finite

_NEAR = 4.0  # units of a frame: rows in a box of this reach are on one scale, others may be short in a wide box


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

    As long as the rows stretched by `Stretched`, in other axes, and many times as fast where all directions are.
    """

    def image(self, block: Any) -> Floats:
        return self.times_factors(self.scores(block))

    def scores(self, block: Any) -> Floats:
        """Before they are multiplied: the same for all views with this basis."""
        rows = self.frame.image(block)
        if self.frame.reach <= _NEAR:
            return bounded_scores(rows, self.directions, self.frame.reach)
        return exact_scores(rows, self.directions, residual=False)

    def times_factors(self, scores: Floats) -> Floats:
        """The image, in place of the scores."""
        with np.errstate(over="ignore"):
            scores *= self.factors
        return scores if self.frame.reach <= _NEAR else finite(scores)
