"""Thresholds for noisy counts of columns that noise alone exceeds with small probability only.

All are functions of public numbers: the number of cells or columns, and the law of the noise.

>>> round(stands_out(1000, True), 1), round(filtered_stands_out(10, True), 1)
(4.1, 3.9)
"""

from __future__ import annotations

import math

from scipy.special import ndtri

__all__ = ["FALSE_END", "FALSE_FAR_END", "filtered_stands_out", "stands_out"]

_FALSE, FALSE_END = 0.02, 0.005  # probability that noise alone exceeds the threshold anywhere, or far out in a column
FALSE_FAR_END = 1e-4  # the same so far out that the column would be lost in a scale that large
_FALSE_PURE = 0.3  # the same for scales with δ = 0, whose noise has longer tails: less would hide many columns

# For the filter that finds scales of columns (`methods.column_scales`), from 20,000 and 40,000 simulated columns:
_CELLS = 43  # independent cells whose largest Gaussian noise is about that of one filtered column
_LAPLACE = 4.6, 1.85  # the maximum of a column with Laplace noise exceeds t deviations with probability e^(4.6 − 1.85t)


def stands_out(cells: int, gaussian: bool, false: float = _FALSE) -> float:
    """The threshold, in deviations, that noise on any of ``cells`` cells exceeds with small probability."""
    tail = false / cells
    return -float(ndtri(tail)) if gaussian else -math.log(2 * tail) / math.sqrt(2)


def filtered_stands_out(columns: int, gaussian: bool) -> float:
    """The threshold, in deviations, that filtered noise of any of ``columns`` columns exceeds with small probability.

    A scale found in mere noise is worse than none: a column clipped to it appears to have almost no variance.
    """
    if gaussian:
        return stands_out(columns * _CELLS, True)
    highest, slope = _LAPLACE
    return (highest - math.log(_FALSE_PURE / columns)) / slope
