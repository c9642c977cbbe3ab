"""Covariance and mean of a regression from the noisy moment of (w, z), denoised as one matrix.

w is the length of the constant and z a framed row. If noise is large, the row of the constant is as informative as the
others, so it is shrunk together with them. A mean that is hidden by noise would shift every prediction, so the constant
is penalised like the slopes: with D the denoised moment and g = D₀₀ + λ₀,

    mean = w·D₀ⱼ/g,     covariance = Dⱼₖ − D₀ⱼD₀ₖ/g

This is what remains for the slopes after a regression on the constant too, with a penalty of λ₀ on it (a Schur
complement, so no eigenvalue is negative). λ₀ = τ/2, where τ is the deviation of the noise, so for small noise both
tend to the mean and covariance of D.
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Floats
from dpeigen.questions import SymmetricLaw
from dpeigen.stats import project_eigenvalues, shrink_eigenvalues

__all__ = ["joint_estimate"]

_PENALTY = 0.5  # on the constant, in deviations of the noise


def joint_estimate(
    moment: Floats, law: SymmetricLaw, deviation: float, weight: float, trace: float
) -> tuple[Floats, Floats]:
    """Covariance and mean, in the frame of the rows.

    ``moment`` is the noisy mean of (w, z)(w, z)ᵀ, w = ``weight`` > 0; ‖z‖² is at most ``trace``.
    """
    d, whole = len(moment), trace + weight**2
    noisy, vectors = np.linalg.eigh((moment + moment.T) / 2)
    tau = deviation / whole  # in these units squares of eigenvalues neither overflow nor underflow
    values = whole * shrink_eigenvalues(noisy / whole, law.r_transform(d, tau), math.sqrt(d) * tau)
    values = project_eigenvalues(values, trace=whole)
    clean = (vectors * values) @ vectors.T
    corner = float(clean[0, 0]) + _PENALTY * deviation
    corner = corner if corner > 0 else weight**2  # nothing is left of the moment
    mean = weight * clean[0, 1:] / corner
    covariance = clean[1:, 1:] - np.outer(clean[0, 1:], clean[0, 1:]) / corner
    return (covariance + covariance.T) / 2, mean
