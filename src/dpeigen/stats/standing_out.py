"""What noise alone stays below in noisy counts of columns, but for a small chance.

All functions are of public numbers: how many cells or columns there are, and the law of the noise.

>>> round(stands_out(1000, True), 1), round(filtered_stands_out(10, True), 1)
(4.1, 3.9)
"""

from __future__ import annotations

import math

from scipy.special import ndtri

__all__ = ["FALSE_END", "filtered_stands_out", "stands_out"]

_FALSE, FALSE_END = 0.02, 0.005  # chance that noise alone stands out somewhere, or far out in some column
_FALSE_PURE = 0.3  # the same for scales and δ = 0, whose noise has longer tails: less would hide many columns

# Of the filter that scales of columns are found with (`methods.column_scales`), by 20,000 and 40,000 simulated columns:
_CELLS = 43  # independent cells whose largest Gaussian noise is about that of one filtered column
_LAPLACE = 4.6, 1.85  # the largest of one column with Laplace noise exceeds t deviations with chance exp(4.6 − 1.85t)


def stands_out(cells: int, gaussian: bool, false: float = _FALSE) -> float:
    """Deviations that noise on so many cells stays below, but for a small chance."""
    tail = false / cells
    return -float(ndtri(tail)) if gaussian else -math.log(2 * tail) / math.sqrt(2)


def filtered_stands_out(columns: int, gaussian: bool) -> float:
    """Deviations that the filtered noise of so many columns stays below everywhere, but for a small chance.

    A scale that noise alone makes is worse than none: what is clipped to it looks like a column of next to no variance.
    """
    if gaussian:
        return stands_out(columns * _CELLS, True)
    highest, slope = _LAPLACE
    return (highest - math.log(_FALSE_PURE / columns)) / slope
