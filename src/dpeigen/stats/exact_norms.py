"""Norms of rows by exact integer sums, so that the norm of a row does not depend on the block in which it lies.

Each row is scaled by a power of two and rounded to integers so small that their squares are summed without rounding.
Scaling by powers of two is exact, and neither overflows nor underflows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats

__all__ = [
    "LARGEST_FLOAT",
    "TINY",
    "bounded_norms",
    "bounded_unit",
    "exact_bits",
    "finite",
    "normalised",
    "row_norms",
    "scaled_rows",
]

_NARROW = 16  # columns: up to this many, the largest entry is searched column by column
TINY = -900  # exponents of rows so small that the power of two that scales them up may overflow
LARGEST_FLOAT = float(np.finfo(np.float64).max)  # limit for weighted rows and scores that would overflow


def bounded_unit(reach: float, n_columns: int) -> float:
    """The power of two that scales rows with entries up to ``reach`` to integers that can be summed exactly."""
    return math.ldexp(1.0, exact_bits(n_columns) - math.frexp(reach)[1])


def bounded_norms(rows: Floats, unit: float) -> Floats:
    """Norms of rows whose entries were multiplied by a `bounded_unit`; the rows are overwritten.

    Like `row_norms`, in half the time, if all rows are on one scale.
    """
    integers = np.rint(rows, out=rows)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", integers, integers)) / unit)


def finite(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, with those that overflowed set to the largest possible (in place)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # then each of them is
            return values
    largest = np.finfo(values.dtype).max
    return np.clip(values, -largest, largest, out=values)


def exact_bits(n_columns: int) -> int:
    """b such that sums of n_columns products of two integers up to 2^b stay below 2^53."""
    return (52 - max(1, n_columns).bit_length()) // 2


def normalised(rows: Floats) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Rows scaled by powers of two to about 2^b, the removed exponents, and exact squared norms of the rounded rows.

    row = scaled · 2^(exponent − b). Overflow and underflow cannot happen.
    """
    scaled, exponents = scaled_rows(rows)
    integers = np.rint(scaled)
    return scaled, exponents, np.einsum("ij,ij->i", integers, integers)


def _largest(rows: Floats) -> Floats:
    """The largest absolute value of an entry, row by row."""
    sizes = np.abs(rows)
    if not 0 < rows.shape[1] <= _NARROW:
        return np.asarray(sizes.max(axis=1, initial=0.0))
    found = sizes[:, 0].copy()  # column by column: several times as fast as along short rows
    for column in range(1, rows.shape[1]):
        np.maximum(found, sizes[:, column], out=found)
    return found


def scaled_rows(rows: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Rows scaled by powers of two so that their largest entry is about 2^b, and the removed exponents."""
    bits = exact_bits(rows.shape[1])
    _, exponents = np.frexp(_largest(rows))
    exponents = exponents.astype(np.int64)
    # Products with powers of two equal what ldexp would give, and are several times as fast.
    if exponents.min(initial=0) > TINY:
        return rows * np.ldexp(1.0, bits - exponents)[:, None], exponents
    half = (bits - exponents) // 2  # in two steps, with the same result: 2^(bits − exponent) itself may overflow
    scaled = rows * np.ldexp(1.0, half)[:, None]
    scaled *= np.ldexp(1.0, bits - exponents - half)[:, None]
    return scaled, exponents


def row_norms(rows: Floats) -> Floats:
    """Euclidean norms, the same for a row wherever it is in a block."""
    _, exponents, squared = normalised(rows)
    with np.errstate(over="ignore"):
        return np.ldexp(np.sqrt(squared), exponents - exact_bits(rows.shape[1]))
