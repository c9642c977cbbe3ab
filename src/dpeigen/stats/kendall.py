"""Generalised multivariate Kendall's tau: the mean of g(w)·g(w)ᵀ over pairs of rows, w = (x − y)/√2, ‖g‖ ≤ b.

g(w) = ξ(|w|)·w/|w| with a bounded ξ ≥ 0, and g(0) = 0, so that ties and duplicate rows are allowed. Pairs are all
pairs, or a circulant design in which row i is compared with rows i+1 … i+B (modulo n), inside parts of a fixed number
of rows.

Sensitivity. In units of b², replacing one row changes at most r terms, where r is the number of pairs it is in, each by
uuᵀ − vvᵀ with |u|, |v| ≤ 1: Frobenius √2·r, and P − Q with tr P + tr Q ≤ 2·r. For all pairs of n rows r = n − 1, which
is 2√2·b²/n for the mean. The sum is computed in floating point, within `allowance` of the exact one for every data set
(`stats.pairs`), and then rounded to a grid. Both errors are added to the sensitivity, so it holds for the numbers
actually computed. The sums of parts are integers and merge exactly.

>>> np.round(kendall_tau(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [0.0, 3.0]])), 3)
array([[ 0.333, -0.167],
       [-0.167,  0.5  ]])
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpeigen._types import Floats
from dpeigen._validate import check_count, complain
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import Relation
from dpeigen.stats.base import Statistic
from dpeigen.stats.exact import ExactSum
from dpeigen.stats.frame import RowView
from dpeigen.stats.pairs import allowance, n_pairs, pair_sum, pairs_per_row
from dpeigen.stats.transform import Scale, Transform

__all__ = ["KendallTau", "kendall_tau"]


class KendallTau(Statistic):
    """Σ g·gᵀ/b² over the pairs inside parts of at most ``rows`` rows each, in integers.

    A part is that many consecutive rows of a block. Blocks must be cut by row numbers, so that parts are public.
    """

    def __init__(self, frame: RowView, transform: Transform, rows: int, design: int | None = None) -> None:
        self.frame, self.transform, self.rows, self.design = frame, transform, rows, design
        d = frame.n_columns
        self._sum = ExactSum((d, d))
        self.count = 0  # pairs
        self.parts = 0

    def fresh(self) -> KendallTau:
        return KendallTau(self.frame, self.transform, self.rows, self.design)

    def update(self, block: Any) -> KendallTau:
        rows = np.asarray(self.frame.image(block))
        for start in range(0, len(rows), self.rows):
            part = rows[start : start + self.rows]
            self._sum.add(np.rint(pair_sum(part, self.transform, self.design) * self.steps).astype(np.int64))
            self.count += n_pairs(len(part), self.design)
            self.parts += 1
        return self

    def merge(self, other: KendallTau) -> KendallTau:
        facts = ("frame", "transform", "rows", "design")
        if any(getattr(self, name) != getattr(other, name) for name in facts):
            raise ValueError("Statistics of different designs cannot be merged.")
        self._sum.merge(other._sum)
        self.count += other.count
        self.parts += other.parts
        return self

    @property
    def dimension(self) -> int:
        return self.frame.n_columns

    @property
    def reach(self) -> int:
        """The most pairs that one row is in."""
        return max(1, pairs_per_row(self.rows, self.design))

    @property
    def steps(self) -> float:
        """Grid steps per b²: a power of two that makes the sensitivity at least `LEAST_SENSITIVITY`."""
        return 2.0 ** max(0, math.ceil(math.log2(LEAST_SENSITIVITY / self.reach)))

    @property
    def gram(self) -> NDArray[Any]:
        """The sum in grid steps, integers."""
        return self._sum.value

    def _rounding(self) -> float:
        """The most that rounding adds to the sensitivity (Frobenius, in steps): floating point and grid, all parts."""
        pairs = n_pairs(self.rows, self.design)
        error = allowance(self.rows, self.dimension, self.design, steepness=self.transform.steepness)
        part = 2 * error * pairs * self.steps + self.dimension
        return part * max(1, self.parts)

    def frobenius_sensitivity(self, relation: Relation) -> float:
        _refuse_add_remove(relation)
        return (math.sqrt(2) if self.dimension > 1 else 1.0) * self.reach * self.steps + self._rounding()

    def trace_sensitivity(self, relation: Relation) -> float:
        """The largest tr P + tr Q if neighbours differ by P − Q with P, Q positive semi-definite."""
        _refuse_add_remove(relation)
        sides = 2.0 if self.dimension > 1 else 1.0
        return sides * self.reach * self.steps + math.sqrt(self.dimension) * self._rounding()


def _refuse_add_remove(relation: Relation) -> None:
    if relation is not Relation.REPLACE:
        raise ValueError("Kendall's tau has no bounded sensitivity when a row is added or removed.")


def kendall_tau(
    X: ArrayLike,
    transform: str | Scale = "spherical",
    radius: float | None = None,
    design: str | int = "all",
) -> Floats:
    """Generalised Kendall's tau of the rows of X. Not private by itself.

    Parameters
    ----------
    X : (n, d) finite rows, n ≥ 2.
    transform : "spherical", "winsorized", "redescending", "winsorized-redescending", or a function ξ of distances s =
        |x − y|/√2, ξ ≥ 0, applied to arrays.
    radius : the winsorising radius, or the cutoff of a redescending transform; for a custom function, a bound to which
        its values are clipped (None: none).
    design : "all" pairs, or B: row i is compared with rows i+1 … i+B (modulo n). Shuffle sorted rows first.
    """
    owner = "kendall_tau"
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise ValueError(complain("X", owner, "a table of at least 2 finite rows", f"shape {rows.shape}"))
    chosen = Transform.of(transform, radius, owner)
    band = None if design == "all" else check_count("design", design, owner)
    return pair_sum(rows, chosen, band) * (chosen.unit / n_pairs(len(rows), band))
