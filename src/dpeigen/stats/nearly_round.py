"""An upper bound on |Tz| that takes few products: T stretches most directions nearly alike, except a few.

Let M = TᵀT have eigenvalues m and eigenvectors v, and let a be the largest eigenvalue. Then

    |Tz|² = a·|z|² − Σ (a − m)·(v·z)²,

and no term of the sum is negative. So leaving out terms gives an upper bound. A whitened table usually has a few long
directions, with small m; the terms of these are kept. Most rows are far enough inside the ball for the bound to show
it. The others are decided as before (`stats.whole`), so each row is decided as by exact arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats

__all__ = ["NearlyRound", "nearly_round"]

Singles = NDArray[np.float32]
_TERMS = 8  # numbers of terms that are tried are multiples of this
_MOST_TERMS = 1 / 4  # of the columns: with more terms there is little to gain
_LOOSE = 1.0  # the most that the bound adds to the square of a whitened row, relative to it (`benchmarks/inside.py`)
_ROUNDED = 1e-9  # relative error of eigenvalues and eigenvectors in double precision, generously
_SINGLE = 2.0**-24


@dataclass(frozen=True, eq=False)
class NearlyRound:
    """|Tz|² ≤ ``whole``·|z|² − |Wz|², with W the transpose of ``parts``, as computed in single precision."""

    whole: float
    parts: Singles  # columns × terms

    def beyond(self, rows: Singles, limit: float) -> NDArray[np.intp]:
        """The rows, integers in single precision, for which the bound does not show |Tz| ≤ ``limit``."""
        squares = np.einsum("ij,ij->i", rows, rows).astype(np.float64)
        squares *= self.whole
        if self.parts.shape[1]:
            scores = rows @ self.parts
            squares -= np.multiply(scores, scores, out=scores) @ np.ones(scores.shape[1], dtype=np.float32)
        return np.flatnonzero(~(squares <= limit * abs(limit) * (1 - _ROUNDED)))


def nearly_round(matrix: Floats) -> NearlyRound | None:
    """The bound for a matrix T, with as few terms as make it tight; None if they would be too many."""
    values, vectors = np.linalg.eigh(matrix.T @ matrix)
    largest, d = float(values[-1]), len(values)
    if not 0 < values[0] < math.inf:
        return None
    for terms in range(0, int(_MOST_TERMS * d) + 1, _TERMS):
        if (largest / values[terms:] - 1).sum() <= _LOOSE * d:
            return _with_terms(largest * (1 + _ROUNDED), values[:terms], vectors[:, :terms])
    return None


def _with_terms(largest: float, values: Floats, vectors: Floats) -> NearlyRound:
    """The bound with these terms, with room for all errors of single precision.

    In any order, fused or not, a sum of d products has an error of at most ((1 + u)^(d+2) − 1) times the sum of their
    sizes, u = 2^−24, the rounding of W included. So the computed Wz is off by at most e·|z|.
    """
    d, terms = vectors.shape
    parts: Any = np.ascontiguousarray(vectors * np.sqrt(largest - values), dtype=np.float32)
    off = 1.02 * (d + 2) * _SINGLE * float(np.linalg.norm(parts)) * (1 + _ROUNDED)
    longest = math.sqrt(largest) + off  # the computed |Wz| is at most this many times |z|
    whole = largest + 2 * longest * off + 1.03 * (terms + 2) * _SINGLE * longest**2
    return NearlyRound(whole * (1 + 1.1 * (d + 2) * _SINGLE) * (1 + _ROUNDED), parts)
