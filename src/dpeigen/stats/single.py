"""Framed rows in single precision, for tables that are in single precision as a whole.

Rounding a framed entry to 24 bits is elementwise, so the image of a row still depends on that row alone, and no proof
depends on its precision. But two neighbouring tables must be rounded in the same way. The type of an array is public,
like its number of columns. That of a block, a list of rows or a data frame may depend on one value in it: a word, a
missing cell or a number in double precision. So only rows that are marked as `SingleRows`, a whole array at a time, are
framed like this. It takes half the time.

A centre far from 0 is subtracted in two parts, so that no precision of the rows is lost.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats

__all__ = ["FiniteRows", "FiniteSingleRows", "SingleRows", "Steps", "known", "single_steps"]

Steps = list[tuple[np.ufunc, NDArray[Any]]]
_LARGEST = 2.0**100  # limit for facts, and one over the least: far from the limits of single precision
_NOTHING = 2.0**-22  # of the largest entry, or of one unit: the most that may be left out of a centre
_COARSE = 2.0**-8  # of the largest entry: if the ends of the box are off by more, single precision is too coarse
_TRIES = 3  # steps of single precision by which an end of the box may have to be moved


class FiniteRows(np.ndarray[Any, np.dtype[Any]]):
    """Rows in memory that were all checked before and have no missing cells, so that they are not checked again."""


class SingleRows(np.ndarray[Any, np.dtype[Any]]):
    """Rows of a table in memory that is in single precision as a whole."""


class FiniteSingleRows(FiniteRows, SingleRows):
    """Rows that are both."""


def known(rows: NDArray[Any], *, finite: bool, single: bool = True) -> NDArray[Any]:
    """All rows of a table in memory, or some of them, marked; ``finite``: all of them were checked.

    ``single``: the type of the table is public.
    """
    if single and rows.dtype == np.float32:
        return rows.view(FiniteSingleRows if finite else SingleRows)
    return rows.view(FiniteRows) if finite else rows


def single_steps(
    center: Floats | None, weights: Floats | None, box: tuple[Floats, Floats] | None, limit: float
) -> Steps | None:
    """The steps of a frame in single precision; None if its facts do not fit, or barely, in single precision.

    With a box no entry exceeds ``limit``, in single precision too.
    """
    if weights is None:
        return None
    whole = np.zeros_like(weights) if center is None else center
    if not (np.abs(whole).max(initial=0.0) <= _LARGEST and _moderate(weights)):
        return None
    near = whole.astype(np.float32)
    rest, times = (whole - near).astype(np.float32), weights.astype(np.float32)
    moved: Steps = [] if center is None else [(np.subtract, near)]
    if (np.abs(rest) * np.abs(weights)).max(initial=0.0) > _NOTHING * min(limit, 1.0 if box is None else math.inf):
        moved.append((np.subtract, rest))
    moved.append((np.multiply, times))
    if box is None:
        return moved
    ends = []
    for end in box:
        found, image = _within(end, near, moved, limit)
        exact = np.clip((end - whole) * weights, -limit, limit)
        held = np.abs(end) <= _LARGEST  # a box wider than the range of single precision has no effect
        if found is None or (held & ~(np.abs(image - exact) <= _COARSE * limit)).any():
            return None
        ends.append(found)
    return [(np.maximum, ends[0]), (np.minimum, ends[1]), *moved]


def _moderate(weights: Floats) -> bool:
    sizes = np.abs(weights)
    return bool(sizes.min(initial=1.0) >= 1 / _LARGEST and sizes.max(initial=1.0) <= _LARGEST)


def _within(
    end: Floats, center: NDArray[np.float32], steps: Steps, limit: float
) -> tuple[NDArray[np.float32] | None, NDArray[np.float32]]:
    """An end of the box, moved towards the centre until its image is within the limit, and the image."""
    with np.errstate(over="ignore"):
        found = image = end.astype(np.float32)
        for _ in range(_TRIES):
            image = found
            for function, fact in steps:
                image = function(image, fact)
            outside = ~(np.abs(image) <= limit)
            if not outside.any():
                return found, image
            found = np.where(outside, np.nextafter(found, center), found)
    return None, image
