"""Views for one-pass methods: clipped rows, gradients of a direction, squared scores, bins.

Each image is computed from its own row (or pair) alone, entry by entry or by exact sums (`frame.exact_scores`), so one
changed row changes one image. Numbers that overflow are set to the largest floating-point number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.exact_norms import LARGEST_FLOAT, finite, row_norms
from dpeigen.stats.frame import RowView
from dpeigen.stats.score_frame import exact_scores

__all__ = ["Bins", "Clipped", "Gradients", "SquaredScores", "deflated"]

_CHUNK = 2048  # rows that fit into the processor's cache


class _Through(ABC):
    """A view of the images of another view."""

    inner: RowView

    @property
    def n_columns(self) -> int:
        return self.inner.n_columns

    @property
    def rows_per_term(self) -> int:
        return self.inner.rows_per_term

    def quick_image(self, block: Any) -> Floats | None:  # noqa: ARG002
        return None

    @abstractmethod
    def image(self, block: Any) -> Floats:
        """The framed rows of a block, all finite."""


@dataclass(frozen=True)
class Clipped(_Through):
    """Rows clipped to a radius, public or released; with None, rows as they are."""

    inner: RowView
    radius: float | None

    def image(self, block: Any) -> Floats:
        rows = self.inner.image(block)
        if self.radius is None:
            return rows
        lengths = row_norms(rows)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            factors = np.where(lengths > self.radius, self.radius / lengths, 1.0)
        return rows * factors[:, None]


@dataclass(frozen=True, eq=False)
class Gradients(_Through):
    """x(xᵀw) for the last w of some released directions, where x is projected orthogonally to the earlier ones."""

    inner: RowView
    directions: Floats

    def image(self, block: Any) -> Floats:
        rows = self.inner.image(block)
        gradients = np.empty_like(rows)
        for start in range(0, len(rows), _CHUNK):
            part, out = rows[start : start + _CHUNK], gradients[start : start + _CHUNK]
            scores = exact_scores(part, self.directions, residual=False)
            with np.errstate(over="ignore"):
                np.multiply(deflated(part, scores, self.directions[:-1]), scores[:, -1, None], out=out)
        return finite(gradients)


@dataclass(frozen=True, eq=False)
class SquaredScores(_Through):
    """Squared scores along released directions, and the squared norm of the residual, if there is any."""

    inner: RowView
    directions: Floats

    @property
    def n_columns(self) -> int:
        k, d = self.directions.shape
        return k + int(k < d)

    def image(self, block: Any) -> Floats:
        rows = self.inner.image(block)
        scores = exact_scores(rows, self.directions, residual=False)
        with np.errstate(over="ignore"):
            columns = list(scores.T**2)
            if self.n_columns > len(columns):
                rest = deflated(rows, scores, self.directions)
                columns.append(np.einsum("ij,ij->i", rest, rest))
            return np.clip(np.column_stack(columns), 0.0, LARGEST_FLOAT)


@dataclass(frozen=True)
class Bins(_Through):
    """For each entry, the number of its bin; the width is public."""

    inner: RowView
    width: float

    def image(self, block: Any) -> Floats:
        with np.errstate(over="ignore"):
            labels = self.inner.image(block) * (1 / self.width)
            return finite(np.floor(labels, out=labels))


def deflated(rows: Floats, scores: Floats, directions: Floats) -> Floats:
    """Rows minus their projections on unit directions, one direction at a time, in a fixed order of operations."""
    if not len(directions):
        return rows
    with np.errstate(over="ignore", invalid="ignore"):
        for column, direction in enumerate(directions):
            rows = rows - scores[:, column, None] * direction
    return np.nan_to_num(np.clip(rows, -LARGEST_FLOAT, LARGEST_FLOAT), nan=0.0)
