"""Generalised spatial signs, one row at a time: g(x)/b = ξ(|x|)/b · x/|x|, inside the unit ball (`stats.pairs`).

A `SignFrame` is a view of rows like any other: the image of a row depends on that row and on public or released
numbers alone (elementwise arithmetic, and a length from an exact sum of integers). It is put on the lattice of the
unit ball (`stats.lattice`), which clips it to that ball whatever it is. So sums over such rows have the sensitivities
of rows in the unit ball, for every ξ and every cutoff: √2 or 1 for Σ g·gᵀ/b² (Frobenius; replace, add or remove), 2 or
1 for Σ g/b. ξ and its rounding have no part in the proof; they decide what is estimated.

>>> from dpeigen.stats import Frame
>>> from dpeigen.stats.pairs import redescending
>>> np.round(SignFrame(Frame(2), redescending(5.0)).image(np.array([[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]])), 4)
array([[0.6   , 0.8   ],
       [0.0375, 0.05  ],
       [0.    , 0.    ]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.frame import LARGEST_FLOAT, RowView, exact_bits, normalised
from dpeigen.stats.lattice import Lattice
from dpeigen.stats.pairs import SMALLEST_FLOAT, Transform

__all__ = ["SignFrame"]


@dataclass(frozen=True)
class SignFrame:
    """The rows of a view, transformed; rows of length 0 stay where they are."""

    frame: RowView
    transform: Transform  # its lengths are those of the view's rows

    @property
    def n_columns(self) -> int:
        return self.frame.n_columns

    @property
    def rows_per_term(self) -> int:
        return self.frame.rows_per_term

    def quick_image(self, block: Any) -> Floats | None:  # noqa: ARG002
        return None

    def image(self, block: Any) -> Floats:
        rows = self.frame.image(block)
        scaled, exponents, squared = normalised(rows)
        roots = np.sqrt(squared)  # of row · 2^(b − exponent)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            norms = np.clip(np.ldexp(roots, exponents - exact_bits(rows.shape[1])), SMALLEST_FLOAT, LARGEST_FLOAT)
            factors = np.where(roots > 0, self.transform.gains(norms) / np.maximum(roots, 1.0), 0.0)
            return np.asarray(scaled * factors[:, None])

    @property
    def lattice(self) -> Lattice:
        """The unit ball that these rows lie in."""
        return Lattice(self, 1.0)
