"""From raw rows to framed rows, one row at a time: the public view every statistic looks through.

A frame holds public (or already paid-for) facts only. Each operation is elementwise IEEE arithmetic or an exact sum
of integers, so the image of a row depends on that row alone: not on other rows, the block size, the thread or the
processor's vector length. That is what makes "one row changes" mean "one term of the sum changes", bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.products import exact_product

OnBadRow = Literal["refuse", "drop-to-zero"]
LARGEST_FACT = 1e150  # centres, bounds and radii stay below this, so that no framed row can overflow
_TINY = -900  # exponents of rows so small that the power of two that makes them large may be no number
LARGEST_FLOAT = float(np.finfo(np.float64).max)  # weighted rows and scores that would overflow stop here


class BadRowsError(ValueError):
    """Rows that are not finite numbers, and the caller asked to refuse them."""


class RowView(Protocol):
    """What a statistic needs to know about a frame."""

    @property
    def n_columns(self) -> int:
        """Columns of the framed rows."""

    @property
    def rows_per_term(self) -> int:
        """Raw rows behind one framed row: 1, or 2 for pairs."""

    def image(self, block: Any) -> Floats:
        """The framed rows of a block, all finite; may be the block itself, so it is never written to."""

    def quick_image(self, block: Any) -> Floats | None:
        """The same without looking for bad rows, whose image then is not finite; None where that cannot be had."""


@dataclass(frozen=True, eq=False)
class Frame:
    """weights · (clip(x) − centre); with ``pairs``, half the difference of two consecutive rows.

    A row with an entry that is not finite becomes the zero row ("drop-to-zero": it sits at the public centre and
    contributes nothing) or raises `BadRowsError` ("refuse"), whatever the other rows are.
    """

    n_features: int
    center: Floats | None = None
    weights: Floats | None = None
    box: tuple[Floats, Floats] | None = None
    pairs: bool = False
    on_bad_row: OnBadRow = "refuse"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and _same_facts(self, other)

    @property
    def n_columns(self) -> int:
        return self.n_features

    @property
    def rows_per_term(self) -> int:
        return 2 if self.pairs else 1

    @property
    def unit(self) -> Floats:
        """What framed columns are multiplied by to be in the data's own units (differences: times √2)."""
        unit = np.ones(self.n_features) if self.weights is None else 1.0 / self.weights
        return unit * np.sqrt(2.0) if self.pairs else unit

    def quick_image(self, block: Any) -> Floats | None:
        if self.box is not None or self.pairs:
            return None  # clipping would make an infinite entry finite
        rows = self._rows(block)
        with np.errstate(invalid="ignore", over="ignore"):
            rows = rows if self.center is None else rows - self.center
            return rows if self.weights is None else rows * self.weights

    def image(self, block: Any) -> Floats:
        rows = self._rows(block)
        bad = self._bad_rows(rows)
        with np.errstate(invalid="ignore", over="ignore"):
            if self.box is not None:
                rows = np.clip(rows, *self.box)
            if self.pairs:
                rows = rows[: len(rows) // 2 * 2]
                rows = rows[0::2] / 2 - rows[1::2] / 2  # halved first: a difference of finite numbers may overflow
                bad = None if bad is None else np.asarray(bad[: 2 * len(rows)].reshape(-1, 2).any(axis=1))
            elif self.center is not None:
                rows = rows - self.center
            if self.weights is not None:
                rows = finite(rows * self.weights)
        if bad is not None:
            rows = np.where(bad[:, None], 0.0, rows)
        return rows

    def _rows(self, block: Any) -> Floats:
        rows = np.asarray(block)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(f"A block of rows has another shape; expected (rows, {self.n_features}).")
        with np.errstate(over="ignore"):  # of a longer type than double: infinite, so a bad row
            return rows.astype(np.float64, copy=False)

    def _bad_rows(self, rows: Floats) -> NDArray[np.bool_] | None:
        # A sum is finite unless an entry is not (or it overflows): one fast pass settles the ordinary block.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(rows.sum()):
                return None
        bad = np.asarray(~np.isfinite(rows).all(axis=1))
        if not bad.any():
            return None
        if self.on_bad_row == "refuse":
            raise BadRowsError(
                "The data hold NaN or infinite entries; nothing was spent. Cells that are not real numbers, or not "
                "what their column is declared to be, count as NaN, and so does a line of a CSV that is not a record "
                "of as many fields as the header. This refusal itself says something about the data. Clean the rows "
                "first, leave columns of text out or declare their types or categories, or set "
                "on_bad_row='drop-to-zero' to count such a row as a row at the centre."
            )
        return bad


@dataclass(frozen=True, eq=False)
class ScoreFrame:
    """Scores of framed rows along released directions, and the length of what is left over.

    Directions are released, so they are public here. Rows and directions are rounded to integers whose products BLAS
    sums exactly; otherwise a score could depend on the shape of the block it was computed in.
    """

    frame: RowView
    directions: Floats  # k × d
    residual: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScoreFrame) and _same_facts(self, other)

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
    """Scores of finite rows along k directions, each row's from that row alone, and the length of what is left over."""
    scaled, exponents = _scaled(rows)
    bits = exact_bits(rows.shape[1])
    integers = np.rint(scaled, out=scaled)
    dots = exact_product(integers, np.rint(directions * 2.0**bits).T)  # integers below 2^53
    k = len(directions)
    scores = np.empty((len(dots), k + int(residual)))
    scores[:, :k] = dots * 2.0**-bits
    if residual:
        rest = np.einsum("ij,ij->i", integers, integers)
        for column in range(k):  # one column at a time: a fixed order of additions
            rest -= scores[:, column] ** 2
        scores[:, k] = np.sqrt(np.maximum(rest, 0.0))
    with np.errstate(over="ignore"):
        scores = np.ldexp(scores, (exponents - bits)[:, None])
    return np.clip(scores, -LARGEST_FLOAT, LARGEST_FLOAT)


def finite(values: Floats) -> Floats:
    """The same numbers, those that overflowed set to the largest there is (in place)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # then each of them is
            return values
    return np.clip(values, -LARGEST_FLOAT, LARGEST_FLOAT, out=values)


def _same_facts(first: Frame | ScoreFrame, second: Frame | ScoreFrame) -> bool:
    # A statistic back from another process holds copies of the arrays, which == would compare entry by entry.
    names = [field.name for field in fields(first)]
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


def exact_bits(n_columns: int) -> int:
    """b such that sums of n_columns products of two integers up to 2^b stay below 2^53."""
    return (52 - max(1, n_columns).bit_length()) // 2


def normalised(rows: Floats) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Rows scaled by powers of two to about 2^b, the exponents taken out, and exact squared norms of the rounded rows.

    row = scaled · 2^(exponent − b). Overflow and underflow cannot happen on the way.
    """
    scaled, exponents = _scaled(rows)
    integers = np.rint(scaled)
    return scaled, exponents, np.einsum("ij,ij->i", integers, integers)


def _scaled(rows: Floats) -> tuple[Floats, NDArray[np.int64]]:
    bits = exact_bits(rows.shape[1])
    _, exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    exponents = exponents.astype(np.int64)
    # Products with powers of two are what ldexp would give, and several times as fast.
    if exponents.min(initial=0) > _TINY:
        return rows * np.ldexp(1.0, bits - exponents)[:, None], exponents
    half = (bits - exponents) // 2  # in two steps, with the same result: 2^(bits − exponent) itself may overflow
    scaled = rows * np.ldexp(1.0, half)[:, None]
    scaled *= np.ldexp(1.0, bits - exponents - half)[:, None]
    return scaled, exponents


def row_norms(rows: Floats) -> Floats:
    """Euclidean norms, the same for a row wherever it stands."""
    _, exponents, squared = normalised(rows)
    with np.errstate(over="ignore"):
        return np.ldexp(np.sqrt(squared), exponents - exact_bits(rows.shape[1]))
