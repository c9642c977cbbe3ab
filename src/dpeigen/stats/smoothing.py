"""A density from noisy counts of cells: as smooth as the noise requires, not negative, and with the right total.

All of it is a function of released and public numbers. Counts are smoothed by a Gaussian kernel that is reflected at
the edges, which keeps their total. Its width minimises Mallows' estimate of the squared error

    ‖Sy − y‖² + 2·v·tr S,   v = variance of the noise + mean count (the variance of sampling),

so that strong noise or few rows give a wide kernel, and many rows none. Negative cells are set to 0 and all others are
lowered by the same amount (the nearest point with the given total). Setting negative cells to 0 alone would bias the
total upwards.

>>> smooth(np.array([[90.0, -10.0], [0.0, 0.0]]), noise_variance=0.0, total=80.0).round().tolist()
[[80.0, 0.0], [0.0, 0.0]]
"""

from __future__ import annotations

import numpy as np

from dpeigen._types import Floats

__all__ = ["onto_total", "smooth"]

_WIDTHS = (0.0, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 2.4, 2.8, 3.4, 4.0, 4.8, 5.6, 6.8, 8.0)  # in cells


def smooth(counts: Floats, noise_variance: float, total: float) -> Floats:
    """The density, in rows per cell, from a square array of noisy counts."""
    if total <= 0:
        return np.zeros_like(counts)
    variance = noise_variance + total / counts.size
    best, least = counts, np.inf
    for width in _WIDTHS:
        kernel = _kernel(len(counts), width)
        smoothed = kernel @ counts @ kernel.T
        risk = float(np.sum((smoothed - counts) ** 2)) + 2 * variance * float(np.trace(kernel)) ** 2
        if risk < least:
            best, least = smoothed, risk
    return onto_total(best, total)


def onto_total(values: Floats, total: float) -> Floats:
    """The nearest values ≥ 0 that add up to ``total`` > 0.

    >>> onto_total(np.array([3.0, 1.0, -2.0]), 3.0).tolist()
    [2.5, 0.5, 0.0]
    """
    ordered = np.sort(values, axis=None)[::-1]
    lowered = (np.cumsum(ordered) - total) / np.arange(1, values.size + 1)
    level = lowered[np.flatnonzero(ordered > lowered)[-1]]
    return np.maximum(values - level, 0.0)


def _kernel(size: int, width: float) -> Floats:
    """A Gaussian kernel along one axis of ``size`` cells, reflected at both ends: rows and columns add up to 1."""
    if width == 0:
        return np.eye(size)
    from scipy.ndimage import gaussian_filter1d

    kernel: Floats = gaussian_filter1d(np.eye(size), width, axis=0, mode="reflect", truncate=6.0)
    return kernel
