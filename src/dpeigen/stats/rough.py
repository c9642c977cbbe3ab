"""Exact second moments on a coarse lattice, in single precision: for rough measurements whose noise hides the rounding.

Rows are lattice rows (`stats.lattice`) whose entries are multiples of 2^12: z = 2^12·y, with y an integer vector of
‖y‖ ≤ 2^8, checked on the integers for every row. So the sensitivities are exactly those of `stats.moments`. The benefit
is that all sums are exact in single precision, in a third of the time: over 2^8 rows no sum of products of entries of
y, in any order, exceeds 2^24. Over more rows none does if no column has a larger sum of squares (Cauchy-Schwarz), which
is checked for a few thousand rows at a time.

A transformed row is exact in the same way. Framed rows x are rounded to integers of about 10 bits, and so are the
directions of the map; sums of their products stay below 2^24. The factors of the map are one multiplication for each
entry. So y depends on its row alone. The rounding of the directions is undone after noise was added
(`RoughMap.undone`).

Whether the rounding is small compared with the noise is decided by public numbers (`RoughMap.error`).
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
from dpeigen.stats.products import exact_in_single, single_is_exact
from dpeigen.stats.sparse_rows import SparseRows
from dpeigen.stats.stretch import WhitenedRows, is_near
from dpeigen.stats.tiles import Tiles
from dpeigen.stats.units import UnitBlock

__all__ = ["RoughMap", "RoughSum", "Singles", "rough_map"]

Singles = NDArray[np.float32]
_COARSE = 2**12  # entries are multiples of this many grid steps
_LEVELS = LEVELS // _COARSE
_EXACT = 2.0**24  # sums of integers up to this are exact in single precision
_ROWS = int(_EXACT) // _LEVELS**2  # sums of products of entries of this many rows are exact
_CHUNK = 10 * _ROWS  # rows that are processed at a time
_SURELY = 0.999 * _EXACT  # limit for sums of squares of this many rows, as computed in single precision in any order
_MOST = 2**20  # rows whose sums are added to long integers at once
_MOST_COLUMNS = 1024  # with more, sums would not be exact in single precision
_MANY = 0.2  # of the rows: if more of them are too long, all are shortened in place
_SKEW = 0.1  # largest skew of rounded directions, in the units of transformed rows


@dataclass(frozen=True, eq=False)
class RoughMap:
    """y = factors · (integers · z), with z framed rows in steps of 1/``unit``; or y = z without a map."""

    frame: Frame
    unit: float
    integers: Singles | None  # columns × directions
    factors: Singles | None
    undo: Floats  # maps the moment of y to that of the rows asked for
    error: float  # the variance of what rounding adds to an entry, in framed units

    def undone(self, total: Floats) -> Floats:
        """A moment of y, or one with a constant, in the axes that were asked for."""
        if self.integers is None:
            return total
        undo = np.eye(len(total))
        undo[-len(self.undo) :, -len(self.undo) :] = self.undo
        return undo @ total @ undo.T

    def rows(self, block: Any) -> Singles:
        """Integers y, of any norm, a new array."""
        whole: Singles = self.frame.integer_image(block, self.unit).astype(np.float32, copy=False)
        if self.integers is None or self.factors is None:
            return whole
        scores = exact_in_single(whole, self.integers)
        self._tiles.applied([(np.multiply, self.factors)], scores, 0, out=scores)
        return np.rint(scores, out=scores)

    @cached_property
    def _tiles(self) -> Tiles:
        return Tiles()


def rough_map(view: RowView, step: float) -> RoughMap | None:
    """The map of a view with this grid step to rows on the coarse lattice; None if there is none."""
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
    """Σzzᵀ and Σz over rows on the coarse lattice; for rows of people and sparse rows, on the fine lattice."""

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
        room = np.empty((min(_CHUNK, len(block)), d), dtype=np.float32)
        for start in range(0, len(block), _CHUNK):
            rows = self._map.rows(block[start : start + _CHUNK])
            squares = np.multiply(rows, rows, out=room[: len(rows)])
            rows = self._shortened(rows, squares)
            # Sums of products of columns are at most those of their squares.
            few = single_is_exact() and (np.ones(len(rows), dtype=np.float32) @ squares).max(initial=0.0) <= _SURELY
            size = _CHUNK if few else _ROWS
            for first in range(0, len(rows), size):
                part = rows[first : first + size]
                gram += exact_in_single(part.T, part)
            total += exact_in_single(np.ones(len(rows), dtype=np.float32), rows)
        self._gram.add(gram.astype(np.int64) * _COARSE**2)  # below 2^60
        if self._sums is not None:
            self._sums.add_rows(total * _COARSE, len(block))
        self.count += len(block)
        self._seen += len(block)

    def _shortened(self, rows: Singles, entries: Singles | None = None) -> Singles:
        """Integer rows of norm at most `_LEVELS`, in place; ``entries``: their squared entries, which are kept so."""
        entries = rows * rows if entries is None else entries
        squares = _sums(entries)
        outside = np.flatnonzero(~(squares <= _LEVELS**2))
        if not len(outside):
            return rows
        if len(outside) > _MANY * len(rows):  # all rows in place: those inside are multiplied by 1
            factors = np.ones(len(rows), dtype=np.float32)
            factors[outside] = self._factors(rows, outside, squares)
            rows *= factors[:, None]
            np.multiply(np.rint(rows, out=rows), rows, out=entries)
            beyond = np.flatnonzero(~(_sums(entries) <= _LEVELS**2))  # none; the proof rests on this check
            rows[beyond], entries[beyond] = 0.0, 0.0
            return rows
        long = rows[outside]
        long *= self._factors(rows, outside, squares)[:, None]
        short = np.rint(long, out=long) ** 2
        beyond = np.flatnonzero(~(_sums(short) <= _LEVELS**2))
        long[beyond], short[beyond] = 0.0, 0.0
        rows[outside], entries[outside] = long, short
        return rows

    def _factors(self, rows: Singles, outside: NDArray[np.intp], squares: Singles) -> Singles:
        """By what the rows outside are multiplied; ``squares``: sums of squares of all rows."""
        inner, lengths = _LEVELS - math.sqrt(rows.shape[1]) / 2 - 1, np.sqrt(squares[outside].astype(np.float64))
        far = np.flatnonzero(squares[outside] >= _EXACT)  # their sums of squares are not exact in single precision
        if len(far):
            further = rows[outside[far]].astype(np.float64)
            lengths[far] = np.sqrt(np.einsum("ij,ij->i", further, further))
        found: Singles = (inner / np.maximum(lengths, 1.0)).astype(np.float32)
        return found


def _sums(squares: Singles) -> Singles:
    """Sums of squares of integers, row by row, exact below 2^24; other results are at least 2^24."""
    return exact_in_single(squares, np.ones(squares.shape[1], dtype=np.float32))
