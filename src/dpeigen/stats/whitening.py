"""Maps that give all directions about the same variance, from rough second moments, and the noise that they leave."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = ["noise_across", "noise_left", "quadratic_forms", "shrunk_mean", "whitening"]

_LEAST_GAP = 0.2  # of a leading variance: rough ones are no more precise


def noise_left(rough: Floats, sampling: float = 0.0) -> Callable[[float, Floats], float]:
    """The noise that moments of rows within a radius leave, up to constants: on correlations, and in all directions.

    Noise of deviation R² on the moment of mapped rows is R²·‖bᵢ‖‖bⱼ‖/sᵢsⱼ on a correlation, where b are the rows of the
    inverse map. In coordinates in which the covariance is the identity it is R²·‖B‖², where B is the map to them. The
    result is a function of the radius and the inverse map, since the covariance is known roughly. Both are combined
    with the ``sampling`` error, in the same unit: if noise on correlations is small compared with it, reducing the
    noise gains little, and all directions decide.
    """
    levels, basis = np.linalg.eigh(rough)
    levels = np.maximum(levels, np.finfo(np.float64).eps * levels.max())  # for a matrix that may be nearly singular

    def noise(radius: float, back: Floats) -> float:
        of_columns = np.einsum("ij,ij->i", back, back) / np.diag(rough)
        of_directions = ((basis.T @ back) ** 2 / levels[:, None]).sum() / len(rough)
        return (
            math.hypot(radius**2 * of_columns.mean(), sampling) * math.hypot(radius**2 * of_directions, sampling) ** 0.5
        )

    return noise


def noise_across(rough: Floats, k: int) -> Callable[[float, Floats], float]:
    """How far moments of rows within a radius let k leading directions rotate, up to constants.

    Noise of deviation R² on the moment of mapped rows is R²·‖bᵢ‖‖bⱼ‖ between directions i and j of the covariance,
    where b are the rows of the inverse map along them. It rotates direction i by that over the difference of their
    variances. The result is a function of the radius and the inverse map.
    """
    levels, basis = symmetric_eigh(rough)
    gaps = np.maximum(levels[:k, None] - levels[k:], _LEAST_GAP * np.abs(levels[:k, None]))
    safe = np.maximum(gaps, np.finfo(np.float64).tiny)

    def noise(radius: float, back: Floats) -> float:
        lengths = ((basis @ back) ** 2).sum(axis=1)
        return float(radius**2 * math.sqrt((np.outer(lengths[:k], lengths[k:]) / safe**2).sum()))

    return noise


def whitening(rough: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
    """(levels, basis, factors) from a rough moment whose entries have noise of this deviation."""
    levels, basis = symmetric_eigh(rough)
    levels = np.maximum(levels, 0.0) + math.sqrt(len(rough)) * noise  # half of the norm of the noise: less is unknown
    return levels, basis, np.sqrt(levels.min() / levels)


def quadratic_forms(rows: Floats, moment: Floats) -> Floats:
    """rᵀMr for every row r."""
    return np.einsum("ij,ij->i", rows @ moment, rows)


def shrunk_mean(mean: Floats, deviation: float) -> Floats:
    """A noisy mean shrunk towards 0 by the positive part of James and Stein's factor; the noise has this deviation.

    From three columns on, its expected squared error is below that of the mean itself, whatever the truth is. If the
    noise is larger than the mean, this keeps the centre from being moved by noise alone.
    """
    length = float(mean @ mean)
    removed = max(1, len(mean) - 2) * deviation**2
    return mean * max(0.0, 1 - removed / length) if length > 0 else mean
