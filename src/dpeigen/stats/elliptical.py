"""Variances from the eigenvalues of signs, and error bounds from the eigenvalues of Kendall's tau, for elliptical rows.

Under an elliptical law with variances λ the sign matrix has the eigenvalues φⱼ = E[λⱼYⱼ²/Q], Q = Σλᵢ Yᵢ², Y standard
Gaussian, which is ∫₀^∞ λⱼ/(1 + 2tλⱼ)·Πᵢ(1 + 2tλᵢ)^−½ dt (Dürre, Vogel, Tyler 2014). Winsorised at r, Gaussian rows have
φⱼ = E[min(1, r²/Q)·λⱼYⱼ²] (Kim and Jung 2025, equation 3.2). Both are inverted by the fixed point λ ← λ·φ/φ(λ).
Everything here is a function of releases: it costs nothing.

>>> np.round(sign_eigenvalues(np.array([4.0, 1.0])), 6)  # √4 : √1
array([0.666667, 0.333333])
>>> np.round(relative_variances(np.array([2 / 3, 1 / 3])), 6)
array([0.8, 0.2])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtri, ndtri

from dpeigen._types import Floats
from dpeigen.stats.transform import Transform

__all__ = [
    "breakdown_bound",
    "normal_squares",
    "pair_lengths",
    "relative_variances",
    "sign_eigenvalues",
    "subspace_error_bound",
    "tau_eigenvalues",
    "winsorized_eigenvalues",
    "winsorized_variances",
]

_ROUNDS = 500
_STEP = 0.25  # of the trapezoidal rule, whose error is below e^(−π²/step)
_POINTS = np.exp(np.arange(-30.0, 60.0, _STEP))


def sign_eigenvalues(variances: ArrayLike) -> Floats:
    """φ of the spatial signs of a centred elliptical law with these variances (up to a factor); they sum to 1."""
    values = np.asarray(variances, dtype=np.float64)
    scaled = values / values.max()
    # t = e^x and the trapezoidal rule, exponentially accurate for this smooth integrand; its tails are below 1e-12.
    grown = 1.0 + 2.0 * _POINTS[:, None] * scaled
    mass = _STEP * _POINTS * np.exp(-0.5 * np.log(grown).sum(axis=1))
    phi: Floats = scaled * (mass @ (1.0 / grown))
    return phi / phi.sum()


def relative_variances(phi: ArrayLike) -> Floats:
    """Variances, relative to their sum, of the elliptical law whose signs have the eigenvalues φ."""
    target = np.maximum(np.asarray(phi, dtype=np.float64), 0.0)
    if not target.any():
        return np.full(len(target), 1.0 / len(target))
    target = target / target.sum()
    values = _fixed_point(target, target, sign_eigenvalues)
    return values / values.sum()


def winsorized_eigenvalues(variances: ArrayLike, radius: float) -> Floats:
    """Second moments of Gaussian rows with these variances, winsorised at a radius."""
    values = np.asarray(variances, dtype=np.float64)
    squares = normal_squares(len(values))
    q = squares @ values
    gain = radius**2 / np.maximum(q, radius**2)
    return values * (gain @ squares) / len(squares)


def tau_eigenvalues(variances: ArrayLike, transform: Transform, tails: float | None = None) -> Floats:
    """Eigenvalues of generalised Kendall's tau of an elliptical law whose dispersion matrix has these eigenvalues.

    φⱼ = E[ξ(|w|)²·wⱼ²/|w|²], w = (x − y)/√2. Rows are Gaussian, or multivariate t with ``tails`` degrees of freedom
    (Kim and Jung 2025, equation 3.2, for every ξ). A difference of t rows is A·(Gaussian), A² = (ν/V₁ + ν/V₂)/2 with V₁
    and V₂ chi-squared; it does not have a t distribution.
    """
    values = np.asarray(variances, dtype=np.float64)
    if transform.kind == "spherical":
        return sign_eigenvalues(values)
    squares, (stretches, weights) = normal_squares(len(values)), _difference_scales(tails)
    q = squares @ values
    gains = np.zeros(len(q))
    for stretch, weight in zip(stretches, weights, strict=True):
        gains += weight * transform.gains(stretch * np.sqrt(q)) ** 2
    return np.asarray(transform.unit * values * ((gains / q) @ squares) / len(squares))


def pair_lengths(d: int, tails: float | None = None) -> tuple[Floats, Floats]:
    """Points and weights of the law of R = |Σ^(−½)(x − y)|/√2 in d columns: chi, times the A of `tau_eigenvalues`."""
    middles = (np.arange(1000) + 0.5) / 1000
    chi = np.sqrt(chdtri(d, 1 - middles))
    stretches, weights = _difference_scales(tails)
    return np.outer(stretches, chi).reshape(-1), np.repeat(weights / len(chi), len(chi))


@lru_cache(maxsize=16)
def _difference_scales(tails: float | None) -> tuple[Floats, Floats]:
    """Points and weights of the law of A: 1 for Gaussian rows."""
    if tails is None or math.isinf(tails):
        return np.ones(1), np.ones(1)
    middles = (np.arange(60) + 0.5) / 60
    inverse = tails / chdtri(tails, 1 - middles)  # ν/V at the middles of 60 parts of equal probability
    first, second = np.triu_indices(len(inverse))
    return np.sqrt((inverse[first] + inverse[second]) / 2), np.where(first == second, 1.0, 2.0) / len(inverse) ** 2


def winsorized_variances(phi: ArrayLike, radius: float) -> Floats:
    """Variances of the Gaussian law whose rows, winsorised at a radius, have the second moments φ.

    If nearly every row is clipped (Σφ near radius²), the size of the variances cannot be determined; so Σφ is limited
    to 0.97·radius².
    """
    target = np.maximum(np.asarray(phi, dtype=np.float64), 0.0) / radius**2
    total = target.sum()
    if total == 0:
        return target
    target = target * min(1.0, 0.97 / total)
    return _fixed_point(target, target, lambda values: winsorized_eigenvalues(values, 1.0)) * radius**2


def _fixed_point(start: Floats, target: Floats, forward: Callable[[Floats], Floats]) -> Floats:
    values = start.copy()
    positive = target > 0
    for _ in range(_ROUNDS):
        ratio = target[positive] / forward(values)[positive]
        values[positive] *= ratio
        if np.abs(ratio - 1).max() < 1e-10:
            break
    return values


@lru_cache(maxsize=4)
def normal_squares(d: int) -> Floats:
    """Squares of quasi-random Gaussians: Sobol points through the inverse cdf; a fixed set, not a random draw."""
    from scipy.stats import qmc  # slow to import, and rarely needed

    if d > qmc.Sobol.MAXDIM:
        return np.ones((1, d))  # with this many columns Q hardly varies
    bits = 13 if d <= 200 else 11
    uniform = qmc.Sobol(d, scramble=False).random_base2(bits) + 0.5 ** (bits + 1)  # moved to the middle of their cells
    squares: Floats = ndtri(uniform) ** 2
    return squares / squares.mean(axis=0)


# --- error bounds for the components of a release of Kendall's tau (Kim and Jung 2025, Theorems 3.2 and 3.3) --------


def breakdown_bound(eigenvalues: ArrayLike, k: int, bound: float, noise: float = 0.0) -> float:
    """A lower bound on the fraction of rows that must be changed to rotate the first k components by a right angle.

    Replacing a fraction a of the rows changes tau by P − Q, both positive semi-definite and at most 2a·b² in norm. A
    direction v of the new first k that is orthogonal to all old ones has φ_k − 2ab² ≤ vᵀτ'v ≤ φ_{k+1} + 2ab², so
    a ≥ (φ_k − φ_{k+1})/4b²: twice the printed bound. ``noise`` bounds the norm of the noise on the eigenvalues given.
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    if k >= len(values):
        return 1.0
    return float(np.clip((values[k - 1] - values[k] - 2 * noise) / (4 * bound**2), 0.0, 1.0))


def subspace_error_bound(
    eigenvalues: ArrayLike,
    k: int,
    bound: float,
    n_rows: float,
    noise: float,
    failure: float = 0.05,
    contamination: float = 0.0,
) -> float:
    """A bound on sinΘ between the released and the true first k directions that fails with probability ``failure``.

    For elliptical rows. ‖τ̂ − τ‖ ≤ φ₁·√(16·(b²/φ₁ + 1)·ln(2d/β)/3n) by matrix Bernstein for U-statistics (β =
    ``failure``). Let E be this plus the norm of the noise. Then sinΘ ≤ E/(φ_k − φ_{k+1} − E) by Davis and Kahan, with
    the released eigenvalues. The result is 1 if the bound is void.

    With a fraction a of arbitrary rows (``contamination``; Theorem 3.4) τ̂ = (1 − c)·τ̂_clean + c·M, where c ≤ 2a is
    the fraction of pairs with such a row and M the mean of their terms. M and τ are positive semi-definite and at most
    b² in norm, so the bias is at most 2a·b² (the theorem has a(2 − a)(b² + φ₁)). The sampling error is that of (1 −
    a)·n rows.
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64))[::-1]
    d = len(values)
    if k >= d:
        return 0.0
    biased = noise + 2 * contamination * bound**2
    error, n_rows = biased, (1 - contamination) * n_rows
    for _ in range(50):  # φ₁ is known only up to the error; the fixed point is an upper bound
        first = min(max(float(values[0]), 0.0) + error, bound**2)
        sampling = math.sqrt(16 * first * (bound**2 + first) * math.log(2 * d / failure) / (3 * n_rows))
        error = biased + sampling
    gap = float(values[k - 1] - values[k])
    return min(1.0, error / (gap - error)) if gap > error and sampling <= first else 1.0
