"""From raw rows to framed rows, one row at a time: the public transformation that every statistic applies first.

A frame holds only facts that are public or already paid for. Each operation is elementwise IEEE arithmetic or an exact
sum of integers, so the image of a row depends on that row alone: not on other rows, the block size, the thread or the
vector length of the processor. So "one row changes" means "one term of the sum changes", bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Bools, Floats
from dpeigen.stats.exact_norms import finite
from dpeigen.stats.single import FiniteRows, SingleRows, Steps, single_steps
from dpeigen.stats.tiles import Tiles

__all__ = ["LARGEST_FACT", "BadRowsError", "Frame", "Missing", "RowView", "same_facts"]

Missing = Literal["refuse", "correct", "drop"]
LARGEST_FACT = 1e150  # centres, bounds and radii stay below this, so that no framed row can overflow
_STEPS = np.maximum, np.minimum, np.subtract, np.multiply  # the first two together are several times as fast as clip


class BadRowsError(ValueError):
    """Rows that are not finite numbers, if the caller asked to refuse them."""


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
        """The same without a search for bad rows, whose image is then not finite; None if that is impossible."""


def _own(array: Floats | None) -> Floats | None:
    """A read-only copy; the array itself, if it is read-only already."""
    if array is None or (array.base is None and not array.flags.writeable):
        return array
    copied = np.array(array)
    copied.setflags(write=False)
    return copied


@dataclass(frozen=True, eq=False)
class Frame:
    """weights · (clip(x) − centre); with ``pairs``, half the difference of two consecutive rows.

    An entry that is not finite is missing. It becomes 0, that is, it is put at the centre ("correct"), or its whole row
    is ("drop"), or it raises `BadRowsError` ("refuse"), whatever the other rows are. In a pair, a missing entry in one
    row is a missing entry of the difference.
    """

    n_features: int
    center: Floats | None = None
    weights: Floats | None = None
    box: tuple[Floats, Floats] | None = None
    pairs: bool = False
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        """Copy the arrays, so that facts computed once, such as `reach`, stay true whatever the caller does."""
        for name in ("center", "weights"):
            object.__setattr__(self, name, _own(getattr(self, name)))
        if self.box is not None:
            object.__setattr__(self, "box", (_own(self.box[0]), _own(self.box[1])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and same_facts(self, other)

    @property
    def n_columns(self) -> int:
        return self.n_features

    @property
    def rows_per_term(self) -> int:
        return 2 if self.pairs else 1

    @cached_property
    def reach(self) -> float:
        """A bound on the size of framed entries: infinite without a box."""
        if self.box is None or self.pairs:
            return math.inf
        center = 0.0 if self.center is None else self.center
        ends = (np.array(self.box) - center) * (1.0 if self.weights is None else self.weights)
        return float(np.abs(ends).max(initial=0.0))  # rounding is monotone, so entries lie between

    @property
    def unit(self) -> Floats:
        """The factors from framed columns to the data's own units (for differences, times √2)."""
        unit = np.ones(self.n_features) if self.weights is None else 1.0 / self.weights
        return unit * np.sqrt(2.0) if self.pairs else unit

    def quick_image(self, block: Any) -> Floats | None:
        if self.box is not None or self.pairs or self.missing == "correct":
            return None  # clipping would make infinite entries finite; a missing cell leaves the rest of its row
        rows = self._rows(block)
        with np.errstate(invalid="ignore", over="ignore"):
            rows = rows if self.center is None else rows - self.center
            return rows if self.weights is None else rows * self.weights

    def image(self, block: Any) -> Floats:
        return self.image_and_holes(block)[0]

    def look(self, block: Any) -> bool:
        """Refuse what `image` would refuse, without computing an image; return whether no cell is missing."""
        return self._holes(self._rows(block, single=True)) is None

    def scaled_image(self, block: Any, times: float, out: Floats | None = None) -> Floats | None:
        """The image times a number, in an array that may be written to; None if that takes another pass.

        If rows must be converted, the result is the top of ``out``: new memory costs more than the conversion.
        """
        if self.weights is None or self.pairs:
            return None
        if self.box is None and self.missing != "correct":  # as in `quick_image`
            with np.errstate(invalid="ignore", over="ignore"):
                rows = self._rows(block) if self.center is None else self._rows(block) - self.center
                return np.multiply(rows, self.weights * times, out=None if self.center is None else rows)
        rows = self.image_and_holes(block, times, single=True)[0]
        if rows.dtype == np.float64 or out is None:
            return rows.astype(np.float64, copy=False)
        np.copyto(out[: len(rows)], rows)
        return out[: len(rows)]

    def image_and_holes(
        self, block: Any, times: float = 1.0, *, single: bool = False
    ) -> tuple[NDArray[Any], Bools | None]:
        """The framed rows, and which of their entries are missing (rows × columns, or rows × 1); None for none.

        ``times``: a factor on the weights; a power of two causes no rounding. ``single``: whether rows that were framed
        in single precision are returned so; the numbers are the same.
        """
        plain_pairs = self.box is None and self.weights is None and isinstance(block, SingleRows)
        rows = self._rows(block, single=not self.pairs or plain_pairs)
        holes = None if isinstance(block, FiniteRows) else self._holes(rows)
        with np.errstate(invalid="ignore", over="ignore"):
            if self.pairs:
                rows, holes = self._differences(rows, holes)
                if self.weights is not None:
                    rows *= self.weights if times == 1.0 else self.weights * times
            else:
                rows = self._in_tiles(rows, times, in_single=isinstance(block, SingleRows))
            if self.weights is not None:
                rows = rows if self.reach < math.inf else finite(rows)
        rows = rows if single else rows.astype(np.float64, copy=False)
        return (rows, None) if holes is None else (np.where(holes, 0.0, rows), holes)

    def _differences(self, rows: Floats, holes: Bools | None) -> tuple[Floats, Bools | None]:
        """Half the differences of consecutive rows, a new array."""
        if self.box is not None:
            rows = np.minimum(np.maximum(rows, self.box[0]), self.box[1])
        rows = rows[: len(rows) // 2 * 2]
        found = rows[0::2] * 0.5  # halved first: differences of finite numbers may overflow
        found -= rows[1::2] * 0.5
        rows = found
        return rows, None if holes is None else holes[0 : 2 * len(rows) : 2] | holes[1 : 2 * len(rows) : 2]

    def integer_image(self, block: Any, unit: float) -> NDArray[Any]:
        """Framed rows in steps of 1/``unit``, rounded, a new array; in single precision if the rows are."""
        rows = self.image_and_holes(block, unit, single=True)[0]
        found: NDArray[Any] = np.rint(rows, out=rows)
        return found

    def _in_tiles(self, rows: NDArray[Any], times: float, *, in_single: bool) -> NDArray[Any]:
        """Rows clipped, centred and weighted; may be the rows themselves."""
        single = self._single_steps(times) if in_single else None
        if single is not None:
            return self._tiles.applied(single, rows, (times, np.float32))
        low, high = self.box or (None, None)
        weights = self.weights if self.weights is None or times == 1.0 else self.weights * times
        facts = zip(_STEPS, (low, high, self.center, weights), strict=True)
        steps = [(function, fact) for function, fact in facts if fact is not None]
        return self._tiles.applied(steps, rows, (times, np.float64)) if steps else rows.astype(np.float64, copy=False)

    def _single_steps(self, times: float) -> Steps | None:
        made, steps = self.__dict__.get("_single", (math.nan, None))  # another thread may replace it meanwhile
        if made != times:
            weights = None if self.weights is None else self.weights * times
            steps = single_steps(self.center, weights, self.box, self.reach * times)
            self.__dict__["_single"] = times, steps
        return steps

    @cached_property
    def _tiles(self) -> Tiles:
        return Tiles()

    def _rows(self, block: Any, *, single: bool = False) -> Any:
        """The block as an array of doubles, or unchanged if ``single`` precision is enough."""
        rows = np.asarray(block)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(f"A block of rows has another shape; expected (rows, {self.n_features}).")
        if single and rows.dtype == np.float32:
            return rows
        with np.errstate(over="ignore"):  # types longer than double may become infinite, so a bad row
            return rows.astype(np.float64, copy=False)

    def _holes(self, rows: Floats) -> Bools | None:
        # A sum is finite unless an entry is not (or it overflows), so one fast pass is enough for most blocks.
        with np.errstate(over="ignore", invalid="ignore"):
            flat = rows.reshape(-1) if rows.flags.c_contiguous else None
            if np.isfinite(rows.sum() if flat is None else flat @ flat):
                return None
        holes = np.asarray(~np.isfinite(rows))
        if not holes.any():
            return None
        if self.missing == "refuse":
            raise BadRowsError(
                "The data hold NaN or infinite entries; nothing was spent. Cells that are not real numbers, or not "
                "what their column is declared to be, count as NaN. This refusal itself says something about the data. "
                "First leave columns of text out, or declare their types or categories (for a file its decimal mark "
                "too). For cells that are really missing set missing='correct': results are corrected for them. (In a "
                "column of text all cells would then be missing, and the budget would be spent.) Or clean the rows "
                "first, or set missing='drop', which counts a row with such a cell as a row at the centre."
            )
        return holes if self.missing == "correct" else np.asarray(holes.any(axis=1, keepdims=True))


def same_facts(first: Any, second: Any) -> bool:
    """Whether two frames have the same fields. In a frame from another process the arrays are copies."""
    names = [field.name for field in fields(first)]
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)
