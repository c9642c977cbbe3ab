"""Second moments on a coarse lattice, exactly, in single precision: for rough looks whose noise hides the difference.

Rows are lattice rows (`stats.lattice`) whose entries are multiples of 2^12: z = 2^12·y, y an integer vector with
‖y‖ ≤ 2^8, checked on the integers for every row. So sensitivities are those of `stats.moments`, word for word. What is
gained is that all sums are exact in single precision, in a third of the time: of 2^8 rows no sum of products of entries
of y, in whatever order, exceeds 2^24.

A turned row is exact in the same way. Framed rows x are rounded to integers of about 10 bits, and so are the directions
of the turn; sums of their products stay below 2^24. The factors of the turn are one multiplication for each entry. So
y depends on its row alone. That directions were rounded is undone after noise was added (`RoughMap.undone`).

Whether rounding is small beside the noise is a matter of public numbers (`RoughMap.error`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.frame import Frame, RowView
from dpeigen.stats.lattice import LEVELS, Lattice
from dpeigen.stats.moments import SecondMoment
from dpeigen.stats.products import exact_in_single
from dpeigen.stats.sparse_rows import SparseRows
from dpeigen.stats.stretch import WhitenedRows, is_near
from dpeigen.stats.tiles import Tiles
from dpeigen.stats.units import UnitBlock

__all__ = ["RoughMap", "RoughSum", "Singles", "rough_map"]

Singles = NDArray[np.float32]
_COARSE = 2**12  # grid steps that entries are multiples of
_LEVELS = LEVELS // _COARSE
_EXACT = 2.0**24  # sums of integers up to this are exact in single precision
_ROWS = int(_EXACT) // _LEVELS**2  # sums of products of entries of so many rows are
_CHUNK = 5 * _ROWS  # rows that are worked on at a time
_MOST = 2**20  # rows whose sums are moved to long integers at once
_MOST_COLUMNS = 1024  # of more, sums would leave single precision
_SKEW = 0.1  # that rounded directions may have, in the units of turned rows


@dataclass(frozen=True, eq=False)
class RoughMap:
    """y = factors · (integers · z), z framed rows in steps of 1/``unit``; or y = z where there is no turn."""

    frame: Frame
    unit: float
    integers: Singles | None  # columns × directions
    factors: Singles | None
    undo: Floats  # what makes the moment of the rows that were asked for of that of y
    error: float  # the variance of what rounding adds to an entry, in framed units

    def undone(self, total: Floats) -> Floats:
        """A moment of y, or one with a constant, in the axes that were asked for."""
        if self.integers is None:
            return total
        undo = np.eye(len(total))
        undo[-len(self.undo) :, -len(self.undo) :] = self.undo
        return undo @ total @ undo.T

    def rows(self, block: Any) -> Singles:
        """Integers y, of any length, a new array."""
        whole: Singles = self.frame.integer_image(block, self.unit).astype(np.float32, copy=False)
        if self.integers is None or self.factors is None:
            return whole
        scores = exact_in_single(whole, self.integers)
        scores = self._tiles.applied([(np.multiply, self.factors)], scores, 0)
        return np.rint(scores, out=scores)

    @cached_property
    def _tiles(self) -> Tiles:
        return Tiles()


def rough_map(view: RowView, step: float) -> RoughMap | None:
    """The map of a view with this grid step to rows on the coarse lattice; None where it cannot be had."""
    frame = view.frame if isinstance(view, WhitenedRows) else view
    if not isinstance(frame, Frame) or not is_near(frame) or frame.pairs or not frame.reach > 0:
        return None
    d, coarse = frame.n_features, step * _COARSE
    if not d < _MOST_COLUMNS or not frame.reach <= coarse * 2.0**20:
        return None
    if not isinstance(view, WhitenedRows):
        return RoughMap(frame, 1 / coarse, None, None, np.eye(d), coarse**2 / 12)
    bits = 24 - math.ceil(math.log2(np.abs(view.directions).sum(axis=1).max() * 1.01))
    of_rows = bits // 2
    unit = math.ldexp(1.0, of_rows - math.ceil(math.log2(frame.reach)))
    integers = np.rint(view.directions * 2.0 ** (bits - of_rows))
    if np.abs(integers).sum(axis=1).max() * 2.0**of_rows > _EXACT or frame.reach * unit > 2.0**of_rows:
        return None
    rounded = integers / 2.0 ** (bits - of_rows)
    undo = view.factors[:, None] * (view.directions @ np.linalg.inv(rounded)) / view.factors
    if not np.linalg.norm(undo - np.eye(d)) <= _SKEW * math.sqrt(d):
        return None
    factors = view.factors / (unit * 2.0 ** (bits - of_rows) * coarse)
    error = (coarse**2 + (float(view.factors.max()) / unit) ** 2) / 12
    return RoughMap(frame, unit, _single(integers.T), _single(factors), undo, error)


def _single(numbers: Floats) -> Singles:
    return np.ascontiguousarray(numbers, dtype=np.float32)


class RoughSum(SecondMoment):
    """Σzzᵀ and Σz over rows on the coarse lattice; rows of people, and sparse ones, on the fine lattice."""

    def __init__(self, lattice: Lattice, center_weight: int = 0, used: RoughMap | None = None) -> None:
        super().__init__(lattice, center_weight)
        found = rough_map(lattice.frame, lattice.step) if used is None else used
        if found is None:
            raise AssertionError("rows of this view are not rounded coarsely")
        self._map = found

    def fresh(self) -> RoughSum:
        return RoughSum(self.lattice, self.center_weight, self._map)

    def update(self, block: Any) -> Any:
        if isinstance(block, (UnitBlock, SparseRows)):
            return super().update(block)
        for start in range(0, len(block), _MOST):
            self._update(block[start : start + _MOST])
        return self

    def _update(self, block: Any) -> None:
        self._check_room(len(block))
        d = self.lattice.n_columns
        gram, total = np.zeros((d, d)), np.zeros(d)
        for start in range(0, len(block), _CHUNK):
            rows = self._shortened(self._map.rows(block[start : start + _CHUNK]))
            for first in range(0, len(rows), _ROWS):
                part = rows[first : first + _ROWS]
                gram += exact_in_single(part.T, part)
            total += exact_in_single(np.ones(len(rows), dtype=np.float32), rows)
        self._gram.add(gram.astype(np.int64) * _COARSE**2)  # below 2^60
        if self._sums is not None:
            self._sums.add_rows(total * _COARSE, len(block))
        self.count += len(block)
        self._seen += len(block)

    def _shortened(self, rows: Singles) -> Singles:
        """Integer rows no longer than `_LEVELS`, in place."""
        squares = _squares(rows)
        outside = ~(squares <= _LEVELS**2)
        if not outside.any():
            return rows
        inner = _LEVELS - math.sqrt(rows.shape[1]) / 2 - 1
        lengths = np.sqrt(squares.astype(np.float64))
        far = np.flatnonzero(squares >= _EXACT)  # their sums of squares are not exact in single precision
        if len(far):
            long = rows[far].astype(np.float64)
            lengths[far] = np.sqrt(np.einsum("ij,ij->i", long, long))
        factors = np.where(outside, inner / np.maximum(lengths, 1.0), 1.0).astype(np.float32)
        rows *= factors[:, None]
        np.rint(rows, out=rows)
        outside = ~(_squares(rows) <= _LEVELS**2)  # none is; the proof rests on this check
        if outside.any():
            rows[outside] = 0.0
        return rows


def _squares(rows: Singles) -> Singles:
    """Sums of squares of integers, exact below 2^24; others are no less than that."""
    return exact_in_single(rows * rows, np.ones(rows.shape[1], dtype=np.float32))
