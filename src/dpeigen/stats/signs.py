"""How taking spatial signs compresses a moment, for elliptical rows with a few strong directions.

Let rows have variances α₁..αⱼ along j directions and β in each of the m others, and z = x/|x|. Then E[zzᵀ] has the
same eigenvectors as the covariance A and, for Gaussian (hence all elliptical) rows,

    E[zᵢ²] = ∫ αᵢEᵢ(t)P(t) dt,   Eᵢ = 1/(1 + 2αᵢt),   P = Πᵢ √Eᵢ,

because 1/|x|² = ∫ e^{−t|x|²} dt. An entry Aᵢₗ off the diagonal enters, to first order, with the weight cᵢₗ = ∫ EᵢEₗP dt
= (E[zᵢ²] − E[zₗ²])/(αᵢ − αₗ). Everything here is a function of released numbers; privacy does not depend on Gaussian
rows.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpeigen._types import Floats

__all__ = ["compression", "sign_gap", "solve_levels", "stretches"]

# Step of log t. The error of the trapezoidal rule is about e^(−2π²/step), since singularities are πi away from the
# axis. This is far less than what is cut off at the ends, 10⁻⁷ of the integral.
_STEP = 0.4


def compression(levels: Floats, rest: float, others: int, repeats: int = 1) -> tuple[Floats, Floats]:
    """(E[zᵢ²], cᵢₗ), where the last index stands for each of the ``others`` directions with variance ``rest``.

    Each of the levels belongs to ``repeats`` directions.
    """
    j = len(levels)
    alphas, counts = np.empty(j + 1), np.full(j + 1, float(repeats))
    alphas[:j], alphas[j], counts[j] = levels, rest, others
    t, dt = _grid(float(alphas @ counts), float(alphas[counts > 0].min()), float(counts.sum()))
    scaled = 2 * alphas[:, None] * t
    damped = 1 / (1 + scaled)
    weight = np.exp(-0.5 * (counts @ np.log1p(scaled))) * dt
    return (alphas[:, None] * damped) @ weight, (damped * weight) @ damped.T


def solve_levels(shares: Floats, others: int) -> Floats:
    """α for β = 1 from the shares E[zᵢ²] of j directions, which with those of the others sum to 1.

    Fixed point of αᵢ ← αᵢ · (wanted ratio)/(ratio at α). Noisy shares are first moved into (0, 1).
    """
    shares = np.maximum(shares, 1e-9)
    total = float(shares.sum())
    if total > 1 - 1e-9:
        shares = shares * ((1 - 1e-9) / total)
    wanted = shares / ((1 - shares.sum()) / others)
    alphas = wanted.copy()
    for _ in range(80):
        found, _ = compression(alphas, 1.0, others)
        step = wanted / (found[:-1] / found[-1])
        alphas = np.clip(alphas * step, 1e-12, 1e15)
        if np.abs(np.log(step)).max(initial=0.0) < 1e-6:
            break
    return alphas


def stretches(levels: Floats, others: int) -> Floats:
    """Factors t for directions of variance λᵢ > 1 among ``others`` of variance 1 that minimise the effect of noise.

    Noise on the sign moment of Tx, where T has these factors, moves direction i by an angle ∝ tr(TAT)/(tᵢ·(λᵢ − 1)).
    The sum of squares is least for tᵢ² ∝ 1/((λᵢ − 1)√λᵢ), scaled so that both halves of the trace are equal.
    """
    if not len(levels):
        return np.zeros(0)
    squares = 1 / ((levels - 1) * np.sqrt(levels))
    return np.sqrt(squares * (others / float(squares @ levels)))


@lru_cache(maxsize=1024)
def sign_gap(level: float, k: int, others: int) -> tuple[float, float]:
    """(gap, spread) of signs for k variances ``level`` and others of 1.

    The gap is E[z₁²] − E[z_d²]. The spread is n times the variance of the angle by which n rows rotate a direction:
    E[z₁²z_d²]/gap², where E[zᵢ²zₗ²] = ∫ t·αᵢEᵢαₗEₗP dt.
    """
    t, dt = _grid(level * k + others, min(level, 1.0), k + others)
    first, rest = 1 / (1 + 2 * level * t), 1 / (1 + 2 * t)
    weight = np.exp(0.5 * (k * np.log(first) + others * np.log(rest))) * dt
    gap = float((level * first - rest) @ weight)
    return gap, float((t * level * first * rest) @ weight) / gap**2


def _grid(trace: float, least: float, count: float) -> tuple[Floats, Floats]:
    """(t, dt of the trapezoidal rule for log t)."""
    t = np.exp(np.arange(math.log(1e-7 / trace), math.log(1e7 / least) + 60 / count, _STEP))
    return t, _STEP * t
