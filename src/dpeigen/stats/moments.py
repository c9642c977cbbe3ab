"""Exact second moments of lattice rows: Σzzᵀ, and optionally Σz, in integers.

With ``center_weight`` c > 0 the statistic is the augmented moment Σ(c, z)(c, z)ᵀ, from which one release gives the
count, the mean and the second moment together. Sensitivities, with L the lattice radius (proofs in
docs/sensitivity.md):

    Frobenius   replace √2·(L² + c²)     add/remove L² + c²       (‖xxᵀ − yyᵀ‖²_F = |x|⁴ + |y|⁴ − 2(x·y)²)
    trace       replace 2·(L² + c²)      add/remove L² + c²       (xxᵀ − yyᵀ is a difference of PSD terms)
    both        replace L² for a single column without a centre    (x² − y² lies in [−L², L²])
    upper ℓ1    replace min of two bounds, add/remove ((c + √d·L)² + c² + L²)/2

>>> moment = second_moment(np.array([[0.6, 0.8], [-0.8, 0.6]]), bound=1.0)
>>> np.round(np.asarray(moment), 3)
array([[1., 0.],
       [0., 1.]])
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dpeigen._types import Integers
from dpeigen._validate import check_positive
from dpeigen.privacy.budget import Relation
from dpeigen.stats.base import Statistic
from dpeigen.stats.exact import ExactSum
from dpeigen.stats.frame import Frame, RowView
from dpeigen.stats.lattice import EXACT_ROWS, LEVELS, Lattice
from dpeigen.stats.products import exact_product
from dpeigen.stats.sparse_rows import SparseRows, keeps_zeros, sparse_gram
from dpeigen.stats.sums import RowTotals
from dpeigen.stats.together import with_joint_lengths
from dpeigen.stats.units import UnitBlock, terms_of
from dpeigen.stats.whole import WholeRows

__all__ = ["FINER", "MOST_ROWS", "RowSums", "SecondMoment", "SquareSums", "chunk_rows", "second_moment"]

_CHUNK = 2**18  # numbers that are processed at a time
FINER = 2**12  # steps of the released sums of rows, for each grid step
MOST_ROWS = 2**40  # Σz stays below 2^62; Σzzᵀ may need more than 64 bits, which `ExactSum` provides


def chunk_rows(n_columns: int) -> int:
    """Rows per chunk: an even number, so that pairs are never split.

    About 2 MiB of doubles: the working set fits in the cache, and the allocator keeps the pages.
    """
    return min(max(_CHUNK // max(n_columns, 1), 512), EXACT_ROWS) // 2 * 2


def _width(block: Any) -> int:
    shape: tuple[int, ...] = getattr(block.rows if isinstance(block, UnitBlock) else block, "shape", ())
    return int(shape[1]) if len(shape) == 2 else 0


def _order(block: Any) -> Literal["C", "F"]:
    """The memory order: "C" if rows are contiguous, "F" if columns are, as in files that are read by columns."""
    strides: tuple[int, ...] = getattr(block.rows if isinstance(block, UnitBlock) else block, "strides", ())
    return "F" if len(strides) == 2 and 0 < strides[0] < strides[1] else "C"


class _LatticeSum(Statistic):
    """What all sums over lattice rows share: chunking, counting rows (or people), the limit on rows."""

    takes_units = True

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.count = 0  # rows, or people
        self._seen = 0  # rows

    @property
    def joint_views(self) -> tuple[RowView, ...]:
        return (self.lattice.frame,) if self.lattice.clips else ()

    def update(self, block: Any) -> Any:
        size = chunk_rows(max(self.lattice.n_columns, _width(block)))  # a view may have fewer columns than the rows
        block = with_joint_lengths(block, self.joint_views) if self.joint_views else block
        # One buffer, since new ones cost page faults; in the memory order of the rows, since transposing costs more.
        room = np.empty((min(size, len(block)), self.lattice.n_columns), order=_order(block))
        for start in range(0, len(block), size):
            chunk = block[start : start + size]
            rows, squares = self.lattice.integers_and_squares(chunk, out=room)
            self._check_room(len(rows))
            self._take(rows, chunk, squares)
            self.count += min(len(rows), terms_of(chunk))  # there are fewer pairs than rows
            self._seen += len(rows)
        return self

    def merge(self, other: Any) -> Any:
        if other.lattice != self.lattice:
            raise ValueError("Statistics of different lattices cannot be merged.")
        self._check_room(other._seen)
        self._join(other)
        self.count += other.count
        self._seen += other._seen
        return self

    def _check_room(self, more: int) -> None:
        if self._seen + more > MOST_ROWS:
            raise ValueError(f"More than {MOST_ROWS} rows: sums would leave 64-bit integers. Split the data.")

    @abstractmethod
    def _take(self, rows: NDArray[np.float64], block: Any, squares: NDArray[np.float64] | None = None) -> None:
        """Add the lattice rows of a block, which knows to whom they belong; ``squares``: squared norms, if known."""

    @abstractmethod
    def _join(self, other: Any) -> None:
        """Add the sums of another statistic."""


class SecondMoment(_LatticeSum):
    """Σzzᵀ (``gram``) over lattice rows, and with ``center_weight`` c > 0 also c·Σz and c² for each row or person."""

    levels = LEVELS  # the largest norm of a row, in grid steps
    mostly_whole: ClassVar[bool] = False  # whether few rows are clipped: the others are transformed after summation

    def __init__(self, lattice: Lattice, center_weight: int = 0) -> None:
        super().__init__(lattice)
        self.center_weight = center_weight
        d = lattice.n_columns
        self._gram = ExactSum((d, d))
        self._sums = RowTotals(d) if center_weight else None
        self._pending = np.zeros((d, d))
        self._pending_rows = 0
        turn = lattice.turn if self.mostly_whole else None
        self._whole = None if turn is None else WholeRows(turn)

    def fresh(self) -> SecondMoment:
        return SecondMoment(self.lattice, self.center_weight)

    def update(self, block: Any) -> Any:
        if self._whole is not None and not isinstance(block, UnitBlock):
            return self._update_whole(block, self._whole)
        if not isinstance(block, SparseRows) or not keeps_zeros(self.lattice):
            return super().update(block)
        for count, gram, total in sparse_gram(self.lattice, block):
            self._check_room(count)
            self._gram.add(gram.astype(np.int64))
            if self._sums is not None:
                self._sums.add_rows(total, count)
            self.count += count
            self._seen += count
        return self

    def _update_whole(self, block: Any, whole: WholeRows) -> Any:
        self._check_room(len(block))
        size = chunk_rows(self.lattice.n_columns)
        far, scaled = whole.take(block, self._whole_levels, size)
        self._count_whole(len(block) - len(far))
        for start in range(0, len(far), size):
            rows, turned = far[start : start + size], scaled[start : start + size]
            self._take(turned, rows, self.lattice.clip(turned, rows, np.float64(LEVELS**2)))
        self.count += len(block)
        self._seen += len(block)
        return self

    @property
    def _whole_levels(self) -> int:
        """The limit in grid steps of rows that are summed before they are transformed."""
        return self.levels

    def _count_whole(self, rows: int) -> None:
        if self._sums is not None:
            self._sums.add_rows(np.zeros(self.lattice.n_columns), rows)

    def _take(self, rows: NDArray[np.float64], block: Any, squares: NDArray[np.float64] | None = None) -> None:  # noqa: ARG002
        if self._pending_rows + len(rows) > EXACT_ROWS:
            self._flush()
        self._pending += exact_product(rows.T, rows)  # every partial sum is an integer below 2^53
        self._pending_rows += len(rows)
        if self._sums is not None:
            self._sums.add(rows, block)

    def _flush(self) -> None:
        self._gram.add(self._pending.astype(np.int64))
        self._pending[:] = 0.0
        self._pending_rows = 0

    def _join(self, other: SecondMoment) -> None:
        if other.center_weight != self.center_weight:
            raise ValueError("Statistics with different centre weights cannot be merged.")
        if other._pending_rows:
            other._flush()
        self._gram.merge(other._gram)
        if self._sums is not None and other._sums is not None:
            self._sums.merge(other._sums)
        if self._whole is not None and other._whole is not None:
            self._whole.merge(other._whole)

    @property
    def gram(self) -> NDArray[Any]:
        """Σzzᵀ in grid steps squared, exact integers."""
        if self._pending_rows:
            self._flush()
        if self._whole is None:
            return self._gram.value
        found = self._whole.moment()
        found.merge(self._gram)
        return found.value

    @property
    def total(self) -> Integers:
        """Σz of rows that belong to nobody else and are no `WholeRows`, if there is a centre weight."""
        return np.zeros(self.lattice.n_columns, dtype=np.int64) if self._sums is None else self._sums.total

    @property
    def dimension(self) -> int:
        """The number of rows of the released matrix."""
        return self.lattice.n_columns + (1 if self.center_weight else 0)

    @property
    def augmented(self) -> NDArray[Any]:
        """Σ(c, z)(c, z)ᵀ, or Σzzᵀ without a centre weight, exact integers."""
        gram, sums = self.gram, self._sums
        if sums is None:
            return gram
        d = len(gram)
        matrix = np.empty((d + 1, d + 1), dtype=object)
        c = self.center_weight
        matrix[0, 0], matrix[0, 1:], matrix[1:, 1:] = sums.squares(c), sums.rows(c), gram
        if self._whole is not None:
            matrix[0, 1:] += self._whole.sums(c)
        matrix[1:, 0] = matrix[0, 1:]
        small = self._seen * self.squared_radius < 2.0**61
        return matrix.astype(np.int64) if small else matrix

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Σxxᵀ of the bounded rows in framed units."""
        return np.asarray(self.gram.astype(np.float64) * self.lattice.step**2, dtype=dtype)

    # --- sensitivities, in grid steps squared ---------------------------------------------------------------------

    @property
    def squared_radius(self) -> float:
        """The largest squared norm of an augmented lattice row."""
        return float(self.levels**2 + self.center_weight**2)

    def frobenius_sensitivity(self, relation: Relation) -> float:
        return self.squared_radius * (math.sqrt(2) if self._two_sided(relation) else 1.0)

    def trace_sensitivity(self, relation: Relation) -> float:
        """The largest tr P + tr Q when neighbours differ by P − Q with P, Q positive semi-definite."""
        return self.squared_radius * (2.0 if self._two_sided(relation) else 1.0)

    def _two_sided(self, relation: Relation) -> bool:
        """Whether a neighbour may remove in one direction and add in another; one square has only one direction."""
        return relation is Relation.REPLACE and self.dimension > 1

    def upper_sensitivity(self, relation: Relation) -> float:
        """The largest change of the upper triangle (diagonal included) in ℓ1."""
        d, c = self.lattice.n_columns, float(self.center_weight)
        if c > self.levels:
            raise AssertionError("the bound is for a constant no longer than the rows")
        one_row = ((c + math.sqrt(d) * self.levels) ** 2 + self.squared_radius) / 2
        if relation is Relation.ADD_REMOVE:
            return one_row
        if d == 1 and not c:
            return self.squared_radius  # both squares are in [0, L²]
        # Σ_{i≤j}|Δᵢⱼ| = tr(SΔ) for a symmetric S with ±1 on the diagonal and ±½ off it. For Δ = xxᵀ − yyᵀ in the ball
        # this is at most max(λ_max, −λ_min, λ_max − λ_min) ≤ √2·‖S‖_F (the spread by Mirsky 1956, the others by ‖S‖_F).
        # In the other bound the constant c² entries cancel. For people with capped rows they may be c² and q·c², q < 1.
        # With t = √q and c ≤ L that adds at most (1 − t)(1 + t − √d)·L². The columns themselves leave room for it:
        # their part is at most √(d(d + 3)/2)·L² by the first bound, and (d + 1)·L² is counted for them.
        m = d + 1 if c else d
        return min(2 * (one_row - c * c), self.squared_radius * math.sqrt(m * (m + 3) / 2))


class SquareSums(_LatticeSum):
    """Σz² column by column. ℓ2 sensitivity √2·L² (replace) or L² (add/remove); ℓ1: 2·L² or L²."""

    def __init__(self, lattice: Lattice) -> None:
        super().__init__(lattice)
        self._squares = ExactSum((lattice.n_columns,))

    def fresh(self) -> SquareSums:
        return SquareSums(self.lattice)

    def _take(self, rows: NDArray[np.float64], block: Any, squares: NDArray[np.float64] | None = None) -> None:  # noqa: ARG002
        self._squares.add(np.einsum("ij,ij->j", rows, rows).astype(np.int64))

    def _join(self, other: SquareSums) -> None:
        self._squares.merge(other._squares)

    @property
    def squares(self) -> NDArray[Any]:
        """Σz² in grid steps squared, exact integers."""
        return self._squares.value


class RowSums(_LatticeSum):
    """Σz column by column. ℓ2 sensitivity 2·L (replace) or L (add/remove); ℓ1: √d times that."""

    def __init__(self, lattice: Lattice) -> None:
        super().__init__(lattice)
        self._sums = RowTotals(lattice.n_columns)

    def fresh(self) -> RowSums:
        return RowSums(self.lattice)

    def _take(self, rows: NDArray[np.float64], block: Any, squares: NDArray[np.float64] | None = None) -> None:  # noqa: ARG002
        self._sums.add(rows, block)

    def _join(self, other: RowSums) -> None:
        self._sums.merge(other._sums)

    @property
    def total(self) -> Integers:
        """Σz of rows that belong to nobody else."""
        return self._sums.total

    @property
    def fine(self) -> NDArray[Any]:
        """Σz in steps of 1/`FINER` of the grid, exact integers."""
        return self._sums.rows(FINER)


def second_moment(X: Any, bound: float) -> SecondMoment:
    """The exact lattice second moment of the rows of X clipped to norm ``bound``. Not private by itself.

    ``np.asarray`` of the result is Σxxᵀ in the units of X; ``.gram`` its integers, ``.lattice.step`` the grid step.
    """
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise ValueError(f"X must be two-dimensional, rows × features. Got shape {rows.shape}.")
    radius = check_positive("bound", bound, "second_moment")
    return SecondMoment(Lattice(Frame(rows.shape[1]), radius)).update(rows)
