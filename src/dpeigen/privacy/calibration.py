"""Gaussian noise calibrated by the exact privacy profile, stable from ε = 1e-4 to 50 and δ = 1e-16 to 0.1.

Two Gaussians N(0, 1) and N(μ, 1) satisfy (ε, δ) exactly when (Balle and Wang 2018, Theorem 8)

    δ ≥ Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).

Both terms nearly cancel for small δ. With t = ε/μ − μ/2 and Mills' ratio m(t) = (1 − Φ(t))/φ(t) the same number is
φ(t)·(m(t) − m(t + μ)), because e^ε φ(t + μ) = φ(t); m is `erfcx`, so nothing underflows and no digits are lost.

>>> round(gaussian_sigma(1.0, 1e-5, 1.0), 4)
3.7306
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from dpeigen._validate import check_delta, check_epsilon, check_positive, complain

__all__ = [
    "discrete_allowance",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_sigma",
    "largest_mu",
    "log_gaussian_delta",
]

_SQRT_HALF_PI = math.sqrt(math.pi / 2)
# Every μ that is solved for is reduced by this relative margin. It is far above the solver's tolerance and the rounding
# of the profile (≤ 1e-9 over the supported range, see tests), and far too small to matter to a user.
_SAFETY = 1e-8


def _mills(t: float) -> float:
    return _SQRT_HALF_PI * float(erfcx(t / math.sqrt(2)))


def log_gaussian_delta(epsilon: float, mu: float) -> float:
    """ln δ(ε) for μ-Gaussian DP; ε may be any real number."""
    t = epsilon / mu - mu / 2
    if t < -5.0:  # δ is of order one: no cancellation, and erfcx would overflow
        direct = math.exp(log_ndtr(-t)) - math.exp(epsilon + log_ndtr(-t - mu))
        return math.log(max(direct, 5e-324))
    if mu < 1e-5:
        # A difference would cancel. The slope of Mills' ratio is s·m(s) − 1; the error of the midpoint rule is O(μ²).
        s = t + mu / 2
        gap = max(mu * (1.0 - s * _mills(s)), 5e-324)
    else:
        gap = max(_mills(t) - _mills(t + mu), 5e-324)
    return -t * t / 2 - math.log(math.sqrt(2 * math.pi)) + math.log(gap)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Compute the smallest δ for which μ-Gaussian DP gives (ε, δ).

    Parameters
    ----------
    epsilon : float
        ε ≥ 0.
    mu : float
        μ > 0: sensitivity divided by standard deviation.

    Returns
    -------
    float
        δ.
    """
    return math.exp(min(log_gaussian_delta(epsilon, mu), 0.0))


def largest_mu(log_delta_of_mu: Callable[[float], float], log_delta: float) -> float:
    """The largest μ whose profile stays at or below the target, rounded down."""
    high = 1.0
    while log_delta_of_mu(high) < log_delta:
        high *= 2
    low = high / 2
    while log_delta_of_mu(low) >= log_delta:
        high, low = low, low / 2
        if low < 1e-290:
            raise ValueError("The budget is too small to be met in double precision. Use a larger epsilon or delta.")
    root = brentq(lambda mu: log_delta_of_mu(mu) - log_delta, low, high, xtol=1e-300, rtol=1e-13, maxiter=500)
    return float(root) * (1 - _SAFETY)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Compute the largest μ such that μ-Gaussian DP implies (ε, δ)-DP.

    Parameters
    ----------
    epsilon : float
        ε > 0.
    delta : float
        δ in (0, 1).

    Returns
    -------
    float
        μ.
    """
    epsilon, delta = check_epsilon(epsilon, "gaussian_mu"), check_delta(delta, "gaussian_mu")
    if delta == 0:
        raise ValueError(
            complain(
                "delta",
                "gaussian_mu",
                "> 0: Gaussian noise is never purely private",
                delta,
                "Use a pure method.",
            )
        )
    return _largest_gaussian_mu(epsilon, delta)


@lru_cache(maxsize=512)  # a fit asks for the same values several times, a plan very often
def _largest_gaussian_mu(epsilon: float, delta: float) -> float:
    return largest_mu(lambda mu: log_gaussian_delta(epsilon, mu), math.log(delta))


def gaussian_epsilon(delta: float, mu: float) -> float:
    """Compute the smallest ε ≥ 0 for which μ-Gaussian DP gives (ε, δ).

    Parameters
    ----------
    delta : float
        δ in (0, 1).
    mu : float
        μ > 0: sensitivity divided by standard deviation.

    Returns
    -------
    float
        ε.
    """
    check_positive("mu", mu, "gaussian_epsilon")
    if check_delta(delta, "gaussian_epsilon") == 0:
        raise ValueError(complain("delta", "gaussian_epsilon", "> 0: Gaussian noise is never purely private", delta))
    target = math.log(delta)
    if log_gaussian_delta(0.0, mu) <= target:
        return 0.0
    high = mu * mu / 2 + mu
    while log_gaussian_delta(high, mu) > target:
        high *= 2
    root = brentq(lambda e: log_gaussian_delta(e, mu) - target, 0.0, high, xtol=1e-300, rtol=1e-13, maxiter=500)
    return float(root) * (1 + _SAFETY)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Compute the smallest standard deviation of Gaussian noise that gives (ε, δ).

    Parameters
    ----------
    epsilon : float
        ε > 0.
    delta : float
        δ in (0, 1).
    sensitivity : float
        The ℓ2 sensitivity of what the noise is added to.

    Returns
    -------
    float
        The standard deviation, in the unit of the sensitivity.
    """
    return check_positive("sensitivity", sensitivity, "gaussian_sigma") / gaussian_mu(epsilon, delta)


# --- from the continuous Gaussian to the discrete one that is actually drawn -------------------------------------

_TAIL = 64.0  # half-width, in standard deviations, of the set on which the two noises are compared


def discrete_allowance(sigma: float, coordinates: int) -> tuple[float, float]:
    """(η, ln τ) such that exact discrete Gaussian noise costs at most 2η in ε and a factor e^η and ~τ in δ.

    Adding continuous N(0, σ²) to an integer and rounding is post-processing of the continuous mechanism. Its noise
    has mass φ_σ(k)·I(k) at k, I(k) = 2∫₀^½ e^{−u²/2σ²} cosh(ku/σ²) du, and e^{−1/8σ²} ≤ I(k) ≤ cosh(k/2σ²) ≤
    e^{k²/8σ⁴}. The discrete Gaussian has mass φ_σ(k)/Σφ_σ(j), and the sum is within 4·exp(−2π²σ²) of 1 (Poisson
    summation). So for every outcome whose m coordinates lie within t = 64 standard deviations the two probabilities
    agree within e^{±η}, η = m·(t² + 1)/8σ² + 4m·exp(−2π²σ²). All other outcomes together have probability at most
    τ = 2m·exp(−t²/2 + t/σ) under either. Let C be the rounded continuous and D the discrete mechanism. Then for
    neighbours x, y and any event S, D_x(S) ≤ e^η(e^ε′(e^η D_y(S) + τ) + δ′) + τ, that is, D is (ε′ + 2η,
    e^η δ′ + τ(1 + e^{η+ε′}))-DP.
    """
    if sigma < 100.0:
        raise ValueError(
            f"Discrete Gaussian noise of scale {sigma:.3g} grid steps is too coarse for the Gaussian accountant. "
            "Use a smaller epsilon (or a finer grid)."
        )
    eta = coordinates * ((_TAIL**2 + 1) / (8 * sigma**2) + 4 * math.exp(-2 * math.pi**2 * min(sigma, 6.0) ** 2))
    log_tau = math.log(2 * coordinates) - _TAIL**2 / 2 + _TAIL / sigma
    return eta, log_tau
