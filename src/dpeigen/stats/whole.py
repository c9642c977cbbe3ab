"""Second moments of transformed rows from those of the original rows: TzzᵀTᵀ for rows that are not clipped.

A whitened row is y = Tz, with z a framed row in integers and T a released map in integers times powers of two. If y is
inside the ball, it enters the sum unchanged, so Σyyᵀ = T(Σzzᵀ)Tᵀ. Σzzᵀ is summed exactly and transformed once, in
integers, after all rows are summed. A row is transformed only to decide whether it is inside. Single precision is
enough for that, in half the time, except for rows near the boundary: its error has a bound that holds for any order of
summation. A triangular map gives the same lengths with half the products (`stats.triangular`). Rows near the boundary
are decided in integers. So for every row the decision is that of exact arithmetic.

Sensitivity (docs/sensitivity.md): a row that is accepted as inside has |y| ≤ L − 1, where L is the limit in grid steps.
The sum is rounded down once, entry by entry, which the missing step compensates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats, Integers
from dpeigen.stats.exact import ExactSum
from dpeigen.stats.nearly_round import NearlyRound, nearly_round
from dpeigen.stats.products import exact_product, single_is_precise
from dpeigen.stats.stretch import WhitenedRows, is_near
from dpeigen.stats.triangular import times_triangle, triangle_of

__all__ = ["MOST_WHOLE", "Turn", "WholeRows", "turn_of"]

_ROW_BITS, _MAP_BITS = 21, 22  # of integers in z and T; single precision holds 24
MOST_WHOLE = 2**53 // 4**_ROW_BITS  # rows at a time: sums of this many products of entries of z are exact in doubles
_PENDING = 2**62 // 4**_ROW_BITS  # the most rows whose sums of products fit in a 64-bit integer
_LEAST, _MOST = 24, 1024  # columns: with fewer, transforming rows is cheap; with more, sums would not be exact
_EXPONENTS = 200  # of the map, at most
_SINGLE = 2.0**-24  # half a unit in the last place of single precision
_DOUBTFUL = 0.1  # of the radius: if errors of single precision may be larger, it is not used
_SELDOM = 0.4  # of the rows: if the quick bound leaves more undecided, it is not worth its time
_FEW = 0.05  # of the rows: with fewer, a product with a triangle does not pay
_DIGIT = 16  # bits of the digits in which exact sums are transformed
_MASK = 2**_DIGIT - 1


@dataclass(frozen=True, eq=False)
class Turn:
    """y = Tz in grid steps, T = integers · 2^−exponents, row by row; z are framed rows in steps of 1/``unit``."""

    view: WhitenedRows
    unit: float
    integers: Floats
    exponents: Integers

    def rows(self, block: Any) -> NDArray[Any]:
        """The integers z of a block, a new array; in single precision if the rows are."""
        return self.view.frame.integer_image(block, self.unit)

    def scaled(self, rows: Floats) -> Floats:
        """Tz of integer rows, exact up to the last bit of a double."""
        turned = exact_product(rows, self.integers.T)
        turned *= self._sizes
        return turned

    @cached_property
    def _sizes(self) -> Floats:
        return np.ldexp(1.0, -self.exponents)

    @cached_property
    def _triangle(self) -> NDArray[np.float32]:
        return triangle_of(self.integers * self._sizes[:, None])

    @cached_property
    def _ones(self) -> NDArray[np.float32]:
        return np.ones(len(self.integers), dtype=np.float32)

    @cached_property
    def _off(self) -> float:
        """A bound on the error of a row transformed in single precision, in grid steps.

        A sum of d products of rounded numbers, in any order, has an error of at most ((1 + u)^(d+2) − 1)·Σ|rz|, where
        u = 2^−24 and r are the rows of the triangle R, whose norm is that of T. The difference between |Rz| and |Tz|,
        from rounding in the decomposition, is at most 10^−4 of that.
        """
        d = len(self.integers)
        size = float(np.linalg.norm(self.integers * self._sizes[:, None]))
        return 1.02 * (d + 2) * _SINGLE * size * math.sqrt(d) * 2.0**_ROW_BITS + 1e-3

    @cached_property
    def quick(self) -> NearlyRound | None:
        """A bound on |Tz| that decides about most rows with few products; None if there is none."""
        return nearly_round(self.integers * self._sizes[:, None]) if single_is_precise() else None

    def doubtful(self, rows: NDArray[Any], limit: float) -> NDArray[np.intp]:
        """The rows for which single precision does not prove that |Tz| is at most ``limit`` grid steps.

        Rows in single precision are overwritten.
        """
        sure = (limit - self._off) * (1 - (len(self.integers) + 4) * 2 * _SINGLE)
        if self._off > _DOUBTFUL * limit or not single_is_precise():
            return np.arange(len(rows))
        turned = times_triangle(rows, self._triangle, overwrite=True)
        squares = np.multiply(turned, turned, out=turned) @ self._ones
        return np.flatnonzero(~(squares <= np.float32(sure * sure)))

    def moment(self, gram: ExactSum) -> ExactSum:
        """⌊TGTᵀ⌋, entry by entry, for an exact G."""
        high, low = gram.limbs
        digits = _digits([low & _MASK, low >> _DIGIT, high])
        digits = _digits([self._times(digit.T).T for digit in digits])
        digits = _digits([self._times(digit) for digit in digits])
        shifts = self.exponents[:, None] + self.exponents
        high, low = _shifted(digits, shifts + 32), _shifted(digits, shifts) & (2**32 - 1)
        return ExactSum.of_limbs(high, low, high.shape)

    def sums(self, total: Integers, constant: int) -> NDArray[Any]:
        """⌊c·Ts⌋, entry by entry, for an exact s, as Python integers."""
        exact = constant * (self.integers.astype(np.int64).astype(object) @ total.astype(object))
        return np.asarray(exact >> self.exponents.astype(object))

    def _times(self, digits: Integers) -> Integers:
        """T times digits: entries stay below 2^48, so they are exact in doubles."""
        return exact_product(self.integers, digits.astype(np.float64)).astype(np.int64)


def turn_of(view: Any, step: float) -> Turn | None:
    """The `Turn` of a view with this grid step; None if it is better to transform each row."""
    if not isinstance(view, WhitenedRows) or not is_near(view.frame) or not _LEAST <= view.n_columns < _MOST:
        return None
    reach = view.frame.reach
    if not reach > 0:
        return None
    unit = math.ldexp(1.0, _ROW_BITS - math.ceil(math.log2(reach)))
    unit = unit if reach * unit <= 2.0**_ROW_BITS else unit / 2
    exact = (view.factors / (step * unit))[:, None] * view.directions
    largest = np.abs(exact).max(axis=1)
    if not (np.isfinite(largest) & (largest > 0)).all():
        return None
    bits = min(_MAP_BITS, 31 - view.n_columns.bit_length())
    exponents = bits - np.frexp(largest)[1].astype(np.int64)
    if exponents.min() < 0 or exponents.max() > _EXPONENTS:
        return None
    return Turn(view, unit, np.rint(np.ldexp(exact, exponents[:, None])), exponents)


class WholeRows:
    """Σzzᵀ and Σz over rows that are inside the ball after a `Turn`."""

    def __init__(self, turn: Turn) -> None:
        d = len(turn.integers)
        self.turn, self._gram = turn, ExactSum((d, d))
        self._quick = turn.quick
        self._pending: Integers = np.zeros((d, d), dtype=np.int64)
        self._total: Integers = np.zeros(d, dtype=np.int64)
        self._rows = 0  # in `_pending`
        self._room: Floats | None = None  # reused for rows in doubles: new memory costs more than the conversion
        self._held_ones = np.empty(0)

    def take(self, block: Any, levels: int, size: int) -> tuple[Floats, Floats]:
        """Add the rows of a block that are within ``levels`` grid steps; return the other rows, and their Tz.

        ``size``: rows that are processed at a time.
        """
        limit, size = self._limit(levels), min(size, MOST_WHOLE)
        doubtful: list[Floats] = []
        places: list[NDArray[np.intp]] = []
        for start in range(0, len(block), size):
            rows = self.turn.rows(block[start : start + size])
            whole = self._in_doubles(rows)
            doubted = self._doubted(rows, limit - math.sqrt(len(self._total)) / 2)
            if len(doubted):
                doubtful.append(whole[doubted])
                places.append(start + doubted)
                whole[doubted] = 0.0
            self._add(whole)
        if not places:
            return np.empty((0, len(self._total))), np.empty((0, len(self._total)))
        which = np.concatenate(places)
        outside, scaled = self._settle(np.concatenate(doubtful), limit)
        return np.asarray(block)[which[outside]], scaled

    def _doubted(self, rows: NDArray[Any], limit: float) -> NDArray[np.intp]:
        """The rows for which neither the quick bound nor the triangle shows that they are within the limit.

        Rows in single precision may be overwritten.
        """
        if self._quick is None:
            return self.turn.doubtful(rows, limit)
        rows = rows.astype(np.float32, copy=False)
        beyond = self._quick.beyond(rows, limit)
        if len(beyond) > _SELDOM * len(rows):  # the bound decides too seldom: from here on it is not asked
            self._quick = None
        if len(beyond) <= _FEW * len(rows):  # so few are sooner decided on the integers
            return beyond
        return beyond[self.turn.doubtful(rows[beyond], limit)]

    def _settle(self, rows: Floats, limit: float) -> tuple[NDArray[np.bool_], Floats]:
        """Add the doubtful rows that are inside; return which are outside, and their Tz."""
        scaled = self.turn.scaled(rows)
        rounded = np.rint(scaled)
        outside = ~(np.einsum("ij,ij->i", rounded, rounded) <= limit**2)
        self._add(rows[~outside])
        return outside, scaled[outside]

    def _limit(self, levels: int) -> float:
        """The norm of rounded rows up to which the row before rounding has at most ``levels`` − 1 steps."""
        return max(0.0, levels - math.sqrt(len(self._total)) / 2 - 2)

    def _add(self, rows: Floats) -> None:
        for start in range(0, len(rows), MOST_WHOLE):
            part = rows[start : start + MOST_WHOLE]  # sums of products are exact in doubles
            if self._rows + len(part) > _PENDING:
                self._flush()
            self._pending += exact_product(part.T, part).astype(np.int64)
            self._total += exact_product(self._ones(len(part)), part).astype(np.int64)
            self._rows += len(part)

    def _in_doubles(self, rows: NDArray[Any]) -> Floats:
        if rows.dtype == np.float64:
            return rows
        if self._room is None or len(self._room) < len(rows):
            self._room = np.empty(rows.shape)
        room = self._room[: len(rows)]
        np.copyto(room, rows)
        return room

    def _ones(self, count: int) -> Floats:
        if len(self._held_ones) < count:
            self._held_ones = np.ones(count)
        return self._held_ones[:count]

    def _flush(self) -> None:
        self._gram.add(self._pending)
        self._pending[:] = 0
        self._rows = 0

    def merge(self, other: WholeRows) -> None:
        if other._rows:
            other._flush()
        self._gram.merge(other._gram)
        self._total += other._total

    def moment(self) -> ExactSum:
        """Σyyᵀ in grid steps squared, rounded down."""
        if self._rows:
            self._flush()
        return self.turn.moment(self._gram)

    def sums(self, constant: int) -> NDArray[Any]:
        """c·Σy in grid steps, rounded down."""
        return self.turn.sums(self._total, constant)


def _digits(places: list[Integers]) -> list[Integers]:
    """Σ places[k]·2^(16k) in digits from 0 to 2^16, except the last, which carries the sign and is no larger."""
    found, carried = [], np.zeros_like(places[0])
    for place in places:
        whole = place + carried
        found.append(whole & _MASK)
        carried = whole >> _DIGIT
    while (np.abs(carried) > _MASK).any():
        found.append(carried & _MASK)
        carried = carried >> _DIGIT
    return [*found, carried]


def _shifted(digits: list[Integers], shifts: Integers) -> Integers:
    """⌊Σ digits[k]·2^(16k − shift)⌋ modulo 2^64: the number itself if it fits."""
    found = np.zeros_like(digits[0])
    for place, digit in enumerate(digits):
        by = _DIGIT * place - shifts
        up = np.where(by < 64, digit << np.clip(by, 0, 63), 0)
        found += np.where(by >= 0, up, digit >> np.clip(-by, 0, 63))
    return found
