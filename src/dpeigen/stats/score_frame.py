"""Scores of framed rows along released directions, each from its row alone.

Directions are released, so they are public here. Rows and directions are rounded to integers whose products BLAS sums
exactly; otherwise a score could depend on the shape of the block in which it was computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.exact_norms import LARGEST_FLOAT, TINY, exact_bits, scaled_rows
from dpeigen.stats.frame import RowView, same_facts
from dpeigen.stats.products import exact_product

__all__ = ["ScoreFrame", "exact_scores"]


@dataclass(frozen=True, eq=False)
class ScoreFrame:
    """Scores of framed rows along released directions, and the norm of the remainder."""

    frame: RowView
    directions: Floats  # k × d
    residual: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreFrame) and same_facts(self, other)

    @property
    def n_columns(self) -> int:
        return len(self.directions) + int(self.residual)

    @property
    def rows_per_term(self) -> int:
        return self.frame.rows_per_term

    def quick_image(self, block: Any) -> Floats | None:  # noqa: ARG002
        return None

    def image(self, block: Any) -> Floats:
        return exact_scores(self.frame.image(block), self.directions, residual=self.residual)


def exact_scores(rows: Floats, directions: Floats, *, residual: bool) -> Floats:
    """Scores of finite rows along k directions, each from its row alone, and the norm of the remainder."""
    scaled, exponents = scaled_rows(rows)
    bits = exact_bits(rows.shape[1])
    integers = np.rint(scaled, out=scaled)
    scores = exact_product(integers, np.rint(directions * 2.0**bits).T)  # integers below 2^53
    scores *= 2.0**-bits
    if residual:
        rest = np.einsum("ij,ij->i", integers, integers)
        for column in range(len(directions)):  # one column at a time: a fixed order of additions
            rest -= scores[:, column] ** 2
        scores = np.column_stack([scores, np.sqrt(np.maximum(rest, 0.0))])
    if np.abs(exponents).max(initial=0) < -TINY:  # no product can overflow or underflow
        scores *= np.ldexp(1.0, exponents - bits)[:, None]
        return scores
    with np.errstate(over="ignore"):
        scores = np.ldexp(scores, (exponents - bits)[:, None])
    return np.clip(scores, -LARGEST_FLOAT, LARGEST_FLOAT)
