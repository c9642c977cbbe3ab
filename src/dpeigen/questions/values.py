"""Arrays as frozen values, so that questions can be compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Matrix"]


@dataclass(frozen=True, eq=False)
class Matrix:
    """A released or public array. Two are equal if their entries are."""

    array: NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matrix) and np.array_equal(self.array, other.array)

    __hash__ = None  # type: ignore[assignment]
