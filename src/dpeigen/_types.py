"""Types that every layer speaks of."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Floats", "Integers", "freeze_arrays"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


def freeze_arrays(value: Any, names: Iterable[str]) -> None:
    """Copies of a frozen value's arrays in place of them, which nobody can write to; None stays None."""
    for name in names:
        found = getattr(value, name)
        if found is not None:
            array: Floats = np.array(found, dtype=np.float64)
            array.setflags(write=False)
            object.__setattr__(value, name, array)
