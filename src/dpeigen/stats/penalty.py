"""The choice of a ridge penalty from a released covariance: estimated prediction errors, and what noise alone requires.

Everything here is a function of a released matrix and of public facts about its noise, so it spends nothing. The noise
is known by ``deviation``, the standard deviation of an off-diagonal entry of N, where Ĉ = C + UNU (`stats.ridge`).
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.ridge import RidgePath

__all__ = ["choose_penalty", "expected_error", "noise_penalty", "prediction_variance"]

_GRID = 100  # penalties tried by `choose_penalty`
_NOISE = 0.6  # the penalty that noise alone requires, in τ√p
_TRUSTED = 24  # number of features above which the least expected error is more reliable than the noise alone
_USUAL, _MOST = 0.35, 3.0  # the apparent R² below which a fit needs a larger penalty, and the largest factor on it
_LEFT = 0.9  # of the deviation of the noise that is left in a released matrix after shrinking


def prediction_variance(path: RidgePath, penalties: Floats, deviation: float) -> Floats:
    """The effect of noise on predictions: E ‖Â^½ δw‖², δw = G·(UNU(−ŵ, 1)) on the features, G = (Â + λI)⁻¹.

    To first order in N. For entries of deviation τ off the diagonal and √2·τ on it, uncorrelated (Gaussian noise and
    the difference of two Wishart matrices), E[(Nq)(Nq)ᵀ] = τ²(‖q‖²I + qqᵀ), so this is
    τ²·(‖q‖²·tr(U²GÂG) + (U²ŵ)ᵀGÂG(U²ŵ)) with q = U(−ŵ, 1).
    """
    coefficients = path.coefficients(penalties)
    damped = path.values * path.inverse(penalties) ** 2  # the eigenvalues of GÂG
    spread = (path.units**2) @ path.vectors**2  # the diagonal of U² in the eigenvectors
    turned = (coefficients * path.units**2) @ path.vectors
    return deviation**2 * (path.length(coefficients) ** 2 * (damped @ spread) + np.sum(damped * turned**2, axis=1))


def expected_error(path: RidgePath, penalties: Floats, deviation: float, n_rows: float) -> Floats:
    """An estimate of the mean squared prediction error of ŵ for fresh rows, from released and public numbers only.

    It is Mallows's Cp with a second source of noise: the residual variance by Ĉ, plus a correction, since it is too low
    because ŵ was fitted to the noise too,

        (v̂ − 2b̂·ŵ + ŵᵀÂŵ)·(1 + 2·df/n) + 2·`prediction_variance`,     df = tr ÂG

    The factor 2 is that of Cp: the noise makes the error seem smaller by its variance and makes it larger by as much.
    For raw Gaussian noise Stein's identity gives the exact correction, which has G in place of GÂG; the two agree if λ
    is small compared with the eigenvalues. A released matrix has been shrunk and projected, and has little noise in the
    directions where Â is nearly 0; there GÂG contributes nothing, and G would contribute most.

    Limits: it is an estimate without a guarantee. It treats the shrunk matrix as a noisy one with the full deviation,
    is of first order, ignores the bias from clipping rows, and compares penalties better than it measures errors.
    docs/ridge.md states how far the choice is from the best in hindsight.
    """
    freedom = (path.values * path.inverse(penalties)).sum(axis=1)
    sampling = 1 + 2 * freedom / n_rows
    return path.residual(penalties) * sampling + 2 * prediction_variance(path, penalties, deviation)


def choose_penalty(path: RidgePath, deviation: float, n_rows: float, *, stated: bool = False) -> float:
    """The λ of least `expected_error` on a grid of 100 from 10⁻⁸ to 10 times the largest eigenvalue of Â.

    A released matrix has been shrunk for its noise, so it contains less than all of it (docs/ridge.md).

    ``stated``: the deviation is that of the noise, not a guess. Then the noise itself is a better guide to λ than the
    minimum of a curve that noise has moved, unless the curve is a sum over many features. λ is the geometric mean of
    the λ of least error and `noise_penalty`, with weights p : 24, times a factor for how well the fit explains the
    target (`_for_explained`).
    """
    largest = float(path.values.max(initial=0.0)) or 1.0
    grid = largest * np.logspace(-8, 1, _GRID)
    best = float(grid[np.argmin(expected_error(path, grid, _LEFT * deviation, n_rows))])
    trust = len(path.units) / (len(path.units) + _TRUSTED)
    if not stated or deviation <= 0:
        return best
    penalty = best**trust * noise_penalty(path, deviation) ** (1 - trust)
    return penalty * _for_explained(path, penalty, deviation)


def _for_explained(path: RidgePath, penalty: float, deviation: float) -> float:
    """0.35/R̂², at least 1 and at most 3, where R̂² = b̂ᵀGb̂/v̂ is the share of the variance that the fit explains.

    For a target that nothing explains, whatever noise does to the coefficients is a loss. Noise that is large compared
    with the variances of the features hides what they explain, so the factor is at most that ratio.

    Chosen on 520 cells that benchmarks/ridge.py draws with seeds 101 to 104: where R̂² was below 0.3, factors of 2 gave
    the highest R². Without the ratio as a limit, targets that few rows explain well would lose.
    """
    noise, spread = deviation * float(np.mean(path.units**2)), float(np.mean(path.values))
    most = _MOST if spread >= _MOST * noise else max(1.0, spread / noise)
    explained = float(path.scores**2 @ path.inverse(np.array([penalty]))[0])
    if explained * most <= _USUAL * path.variance:
        return most
    return max(1.0, _USUAL * path.variance / explained)


def noise_penalty(path: RidgePath, deviation: float) -> float:
    """0.6·τ√p for p features, with τ the noise on an entry of Â: where the variance of a direction equals its noise.

    ŵ is off by (Â + λ)⁻¹(Nq) and λ(Â + λ)⁻¹w. In a direction where Â has the eigenvalue a, with coefficients of size
    ‖q‖/√p each, both have the same mean square at λ = τ√p, whatever a is. It does not depend on the noise in b̂.
    """
    return _NOISE * deviation * float(np.mean(path.units**2)) * math.sqrt(len(path.units))
