"""Maps that make all directions about equally long, from rough second moments, and what noise they leave."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = ["noise_across", "noise_left", "quadratic_forms", "shrunk_mean", "whitening"]

_LEAST_GAP = 0.2  # of a leading variance: rough ones tell no more


def noise_left(rough: Floats, sampling: float = 0.0) -> Callable[[float, Floats], float]:
    """How much noise moments of rows in a radius leave, up to constants: on correlations, and in all directions.

    Noise of deviation R² on the moment of turned rows is R²·‖bᵢ‖‖bⱼ‖/sᵢsⱼ on a correlation, b the rows of the map back.
    In coordinates in which the covariance is the identity it is R²·‖B‖², B the map to them. A function of the radius
    and the map back; the covariance is known roughly. Both are taken together with the ``sampling`` error, in the same
    unit: where noise on correlations is small beside it, little is won by less, and all directions decide.
    """
    levels, basis = np.linalg.eigh(rough)
    levels = np.maximum(levels, np.finfo(np.float64).eps * levels.max())  # of a matrix that may be close to singular

    def noise(radius: float, back: Floats) -> float:
        of_columns = np.einsum("ij,ij->i", back, back) / np.diag(rough)
        of_directions = ((basis.T @ back) ** 2 / levels[:, None]).sum() / len(rough)
        return (
            math.hypot(radius**2 * of_columns.mean(), sampling) * math.hypot(radius**2 * of_directions, sampling) ** 0.5
        )

    return noise


def noise_across(rough: Floats, k: int) -> Callable[[float, Floats], float]:
    """How far moments of rows in a radius let k leading directions turn, up to constants.

    Noise of deviation R² on the moment of turned rows is R²·‖bᵢ‖‖bⱼ‖ between directions i and j of the covariance, b
    the rows of the map back along them, and turns direction i by that over the difference of their variances. A
    function of the radius and the map back.
    """
    levels, basis = symmetric_eigh(rough)
    gaps = np.maximum(levels[:k, None] - levels[k:], _LEAST_GAP * np.abs(levels[:k, None]))
    safe = np.maximum(gaps, np.finfo(np.float64).tiny)

    def noise(radius: float, back: Floats) -> float:
        lengths = ((basis @ back) ** 2).sum(axis=1)
        return float(radius**2 * math.sqrt((np.outer(lengths[:k], lengths[k:]) / safe**2).sum()))

    return noise


def whitening(rough: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
    """(levels, basis, factors) from a rough moment whose entries carry noise of this deviation."""
    levels, basis = symmetric_eigh(rough)
    levels = np.maximum(levels, 0.0) + math.sqrt(len(rough)) * noise  # half of the norm of the noise: less is not known
    return levels, basis, np.sqrt(levels.min() / levels)


def quadratic_forms(rows: Floats, moment: Floats) -> Floats:
    """rᵀMr for every row r."""
    return np.einsum("ij,ij->i", rows @ moment, rows)


def shrunk_mean(mean: Floats, deviation: float) -> Floats:
    """A noisy mean drawn towards 0 by the positive part of James and Stein's factor; the noise has this deviation.

    Its expected squared error is below that of the mean itself from three columns on, whatever the truth is. Where the
    noise is longer than the mean, it keeps the centre from being moved by noise alone.
    """
    length = float(mean @ mean)
    removed = max(1, len(mean) - 2) * deviation**2
    return mean * max(0.0, 1 - removed / length) if length > 0 else mean
