"""Maps that make all directions about equally long, from rough second moments, and what noise they leave."""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.spectrum import symmetric_eigh


def noise_left(radius: float, back: Floats, rough: Floats) -> float:
    """How much noise a moment of rows in this radius leaves, up to constants: on correlations, and in all directions.

    Noise of deviation R² on the moment of turned rows is R²·‖bᵢ‖‖bⱼ‖/sᵢsⱼ on a correlation, b the rows of the map back.
    In coordinates in which the covariance is the identity it is R²·‖B‖², B the map to them.
    """
    of_columns = np.einsum("ij,ij->i", back, back) / np.diag(rough)
    levels, basis = np.linalg.eigh(rough)
    levels = np.maximum(levels, np.finfo(np.float64).eps * levels.max())  # of a matrix that may be close to singular
    of_directions = ((basis.T @ back) ** 2 / levels[:, None]).sum() / len(rough)
    return float(radius**2 * of_columns.mean() * math.sqrt(radius**2 * of_directions))


def whitening(rough: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
    """(levels, basis, factors) from a rough moment whose entries carry noise of this deviation."""
    levels, basis = symmetric_eigh(rough)
    levels = np.maximum(levels, 0.0) + math.sqrt(len(rough)) * noise  # half of the norm of the noise: less is not known
    return levels, basis, np.sqrt(levels.min() / levels)


def quadratic_forms(rows: Floats, moment: Floats) -> Floats:
    """rᵀMr for every row r."""
    return np.einsum("ij,jk,ik->i", rows, moment, rows)
