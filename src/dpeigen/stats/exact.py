"""Sums of integers that do not overflow: two 64-bit limbs while summing, Python integers only if they are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Integers

__all__ = ["ExactSum"]

_LIMB = 32


class ExactSum:
    """Σ of int64 arrays of one shape, exact for up to 2^31 summands of any size."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._high: Integers = np.zeros(shape, dtype=np.int64)
        self._low: Integers = np.zeros(shape, dtype=np.int64)

    def add(self, values: Integers) -> None:
        self._high += values >> _LIMB  # rounds down, so that 0 ≤ low < 2^32 and high·2^32 + low = values
        self._low += values & (2**_LIMB - 1)

    def merge(self, other: ExactSum) -> None:
        self._high += other._high
        self._low += other._low

    @property
    def limbs(self) -> tuple[Integers, Integers]:
        """(high, low) with 0 ≤ low < 2^32 and high·2^32 + low the sum: a unique form for each value."""
        return self._high + (self._low >> _LIMB), self._low & (2**_LIMB - 1)

    @classmethod
    def of_limbs(cls, high: NDArray[Any], low: NDArray[Any], shape: tuple[int, ...]) -> ExactSum:
        """The inverse of `limbs`."""
        made = cls(shape)
        if any(part.shape != shape or part.dtype != np.int64 for part in (high, low)):
            raise ValueError("the limbs of a sum have another shape or type")
        made._high += high
        made._low += low
        return made

    @property
    def value(self) -> NDArray[Any]:
        """The sum: int64 if it fits with room to spare, else an array of Python integers."""
        high, low = self.limbs
        if np.abs(high).max(initial=0) < 2**29:
            return (high << _LIMB) + low
        return (high.astype(object) << _LIMB) + low.astype(object)
