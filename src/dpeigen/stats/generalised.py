"""Generalised spatial signs, one row at a time: g(x)/b = ξ(|x|)/b · x/|x|, inside the unit ball (`stats.transform`).

A `SignFrame` is a view of rows: the image of a row depends only on that row and on public or released numbers
(elementwise arithmetic, and a norm from an exact sum of integers). The image is put on the lattice of the unit ball
(`stats.lattice`), which clips it to that ball in any case. So sums over such rows have the sensitivities of rows in the
unit ball, for every ξ and every cutoff: √2 or 1 for Σ g·gᵀ/b² (Frobenius; replace, add or remove), 2 or 1 for Σ g/b.
The proof does not use ξ or its rounding; they only determine what is estimated.

>>> from dpeigen.stats import Frame
>>> from dpeigen.stats.transform import redescending
>>> np.round(SignFrame(Frame(2), redescending(5.0)).image(np.array([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]])), 4)
array([[0.6   , 0.8   ],
       [0.0375, 0.05  ],
       [0.    , 0.    ]])
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.exact_norms import LARGEST_FLOAT, exact_bits, normalised
from dpeigen.stats.frame import RowView
from dpeigen.stats.lattice import Lattice
from dpeigen.stats.transform import SMALLEST_FLOAT, Transform

__all__ = ["SignFrame", "SplitSigns", "WeighedSigns"]


@dataclass(frozen=True)
class _SignRows(ABC):
    """Rows of norm at most 1, made of the rows of a view; rows of norm 0 stay 0."""

    frame: RowView
    transform: Transform  # a function of the norms of the view's rows

    @property
    def rows_per_term(self) -> int:
        return self.frame.rows_per_term

    @property
    @abstractmethod
    def n_columns(self) -> int: ...

    @abstractmethod
    def image(self, block: Any) -> Floats: ...

    def quick_image(self, block: Any) -> Floats | None:  # noqa: ARG002
        return None

    @property
    def lattice(self) -> Lattice:
        """The lattice of the unit ball that contains these rows."""
        return Lattice(self, 1.0)


@dataclass(frozen=True)
class SignFrame(_SignRows):
    """The rows of a view, transformed."""

    @property
    def n_columns(self) -> int:
        return self.frame.n_columns

    def image(self, block: Any) -> Floats:
        return _transformed(self.frame.image(block), self.transform)[0]


@dataclass(frozen=True)
class WeighedSigns(_SignRows):
    """Transformed rows times √(1 − κ²), and in one more column κ times their weight ξ(s)/s, which is at most 1.

    If rows are moved by a vector that is short compared with them, the mean of transformed rows moves by about the mean
    weight times that vector. Both parts together have norm at most 1. κ is small, so noise on the mean hardly grows.
    """

    kappa: ClassVar[float] = 0.2

    @property
    def n_columns(self) -> int:
        return self.frame.n_columns + 1

    def image(self, block: Any) -> Floats:
        rows, norms = _transformed(self.frame.image(block), self.transform)
        with np.errstate(over="ignore", under="ignore"):
            weights = self.transform.weights(norms)
        return np.column_stack([math.sqrt(1 - self.kappa**2) * rows, self.kappa * weights])


@dataclass(frozen=True)
class SplitSigns(_SignRows):
    """Signs in twice as many columns: ξ·x/|x|, then √(1 − ξ²)·x/|x|, with ξ ≤ 1 of a redescending transform.

    Both parts together are the sign of the row, of norm 1. So rows beyond the cutoff are measured separately from those
    inside, and the sum of products has the sensitivity of signs.
    """

    @property
    def n_columns(self) -> int:
        return 2 * self.frame.n_columns

    def image(self, block: Any) -> Floats:
        scaled, roots, norms = _signs(self.frame.image(block))
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            gains = self.transform.gains(norms)
            signs = scaled * np.where(roots > 0, 1.0 / np.maximum(roots, 1.0), 0.0)[:, None]
            beyond = np.sqrt(np.maximum(1.0 - gains * gains, 0.0))
            return np.concatenate([signs * gains[:, None], signs * beyond[:, None]], axis=1)


def _transformed(rows: Floats, transform: Transform) -> tuple[Floats, Floats]:
    """Transformed rows over the bound, and the norms of the rows before."""
    scaled, roots, norms = _signs(rows)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        gains = transform.gains(norms)
        return np.asarray(scaled * np.where(roots > 0, gains / np.maximum(roots, 1.0), 0.0)[:, None]), norms


def _signs(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Rows times a power of two each, the norms of these, and the norms of the rows."""
    scaled, exponents, squared = normalised(rows)
    roots = np.sqrt(squared)  # of row · 2^(b − exponent)
    with np.errstate(over="ignore", under="ignore"):
        norms = np.ldexp(roots, exponents - exact_bits(rows.shape[1]))
    return scaled, roots, np.clip(norms, SMALLEST_FLOAT, LARGEST_FLOAT)
