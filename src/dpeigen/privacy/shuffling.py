"""Privacy amplification by shuffling: reports in a random order protect better than each report alone.

n clients each apply a local randomiser, and a trusted shuffler puts the reports into a random order (or only an
aggregate that does not depend on the order is seen). Let one client's row change from x₀ to x₁.

Pure randomisers (Feldman, McMillan, Talwar 2021, Theorem 3.2). With loss ε₀, R(x₀) and R(x₁) are mixtures of two
distributions Q₀, Q₁ with weights e^ε₀ : 1 and 1 : e^ε₀, and every other client's report is, with probability r =
e^−ε₀, an even mixture of Q₀ and Q₁. So the shuffled reports are post-processing of counts. With C ~ Bin(n − 1, r), A ~
Bin(C, ½), B ~ Bernoulli(e^ε₀/(1 + e^ε₀)), they are as close as (A + B, C − A + 1 − B) and (A + 1 − B, C − A + B), whose
δ(ε) is summed exactly here.

Approximate randomisers, loss (ε₀, δ₀). By Kairouz, Oh, Viswanath 2015, R(x₀) is with probability 1 − δ₀ a draw from
R′₀, and R(x₁) from R′₁, where these two have loss ε₀. For another client's row x, R(x) ≥ e^−ε₀(R(x₀) − E₀) with an
excess E₀ of mass ≤ δ₀, and the same holds for x₁. So R(x) ≥ e^−ε₀(1 − δ₀)·(R′₀ + R′₁)/2 − E with E of mass ≤ e^−ε₀δ₀.
Thus R(x) is within total variation e^−ε₀δ₀ of a report that is an even mixture of Q₀ and Q₁ with probability r =
e^−ε₀(1 − δ₀). Replacing all n reports by such ones moves each side by at most t = δ₀·(1 + (n − 1)e^−ε₀), hence δ(ε) ≤
δ_pure(ε; r) + (1 + e^ε)·t. Gaussian noise satisfies a whole curve of (ε₀, δ₀); the best point is used.

The local guarantee (ε₀, δ₀) always holds too, so the smaller of both is returned.

>>> from dpeigen.privacy.budget import PureCost
>>> round(shuffled_epsilon(PureCost(1.0), 10_000, delta=1e-6), 3)
0.053
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc

from dpeigen._validate import check_count, check_delta, complain
from dpeigen.privacy.budget import ApproximateCost, ConcentratedCost, Cost, GaussianCost, PureCost
from dpeigen.privacy.calibration import gaussian_delta, gaussian_epsilon

__all__ = ["shuffled_delta", "shuffled_epsilon"]

_LARGEST = 700.0  # e^ε overflows above this; nothing is claimed there
_TAIL = 14.0  # standard deviations of C that are summed; the rest counts as δ
_POINTS = 24  # tried on a Gaussian's curve
_ROUNDING, _ROUNDING_PER_ROW = 1e-8, 1e-14  # relative: differences of probabilities that nearly cancel


def _clone_delta(epsilon: float, local: float, n: int, rate: float) -> float:
    """δ(ε) of the counts, if each of the other n − 1 reports is a clone with this probability."""
    if epsilon >= local:
        return 0.0
    if epsilon > _LARGEST:
        return 1.0
    spread = math.sqrt(n * rate * (1 - rate)) + 1
    low = max(0, math.floor((n - 1) * rate - _TAIL * spread))
    high = min(n - 1, math.ceil((n - 1) * rate + _TAIL * spread))
    c = np.arange(low, high + 1, dtype=np.float64)
    weights, left_out = _binomial(c, n - 1, rate)
    # The likelihood ratio exceeds e^ε where a count a out of c + 1 exceeds ρ : 1. Computed from c + 1 downwards, since
    # own may be less than a rounding error of other. Both are divided by e^ε₀/(1 + e^ε₀).
    own, other = -math.expm1(epsilon - local), math.expm1(epsilon) - math.expm1(-local)
    least = c + 2 - np.ceil(own / (own + other) * (c + 1))
    gap = own * _at_least(least - 1, c) - other * _at_least(least, c)
    total = float(weights @ np.maximum(gap, 0.0)) / (1 + math.exp(-local))
    return min(1.0, total * (1 + _ROUNDING + _ROUNDING_PER_ROW * n) + left_out)


def _binomial(c: np.ndarray, n: int, rate: float) -> tuple[np.ndarray, float]:
    """P(Bin(n, rate) = c) for consecutive c, and the mass they leave out; `scipy.stats` is slow to import.

    Products of ratios of consecutive terms, normalised to sum to 1. They are upper bounds, because the mass that is
    left out is counted twice.
    """
    rate = min(max(rate, math.ulp(0.0)), math.nextafter(1.0, 0.0))  # e^−ε₀ may round to 0 or 1
    ratios = np.log((n - c[:-1]) / (c[:-1] + 1)) + (math.log(rate) - math.log1p(-rate))
    logs = np.append(0.0, np.cumsum(ratios))
    weights = np.exp(logs - logs.max())
    low, high = float(c[0]), float(c[-1])
    below = float(betainc(n - low + 1, low, 1 - rate)) if low > 0 else 0.0
    above = float(betainc(high + 1, n - high, rate)) if high < n else 0.0
    return weights / weights.sum(), below + above


def _at_least(a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """P(Bin(c, ½) ≥ a)."""
    inside = (a > 0) & (a <= c)
    tail = betainc(np.where(inside, a, 1.0), np.where(inside, c - a + 1, 1.0), 0.5)
    return np.where(inside, tail, np.where(a <= 0, 1.0, 0.0))


def _approximate_delta(epsilon: float, local: float, delta0: float, n: int) -> float:
    kept = math.exp(-local)
    moved = delta0 * (1 + (n - 1) * kept)
    stretched = math.exp(min(math.log(moved) + epsilon, 0.0)) if moved else 0.0  # e^ε itself may overflow
    return min(1.0, _clone_delta(epsilon, local, n, kept * (1 - delta0)) + moved + stretched)


def _points(cost: Cost, n: int, delta: float) -> list[tuple[float, float]]:
    """Pairs (ε₀, δ₀) that the cost satisfies, to be tried."""
    if isinstance(cost, PureCost):
        return [(cost.epsilon, 0.0)]
    if isinstance(cost, ApproximateCost):
        return [(cost.epsilon, cost.delta)]
    if isinstance(cost, ConcentratedCost):
        raise TypeError("A concentrated cost has no amplification by shuffling here; state it as (ε, δ).")
    small = [delta / (10.0 * n ** (power / 4)) for power in range(_POINTS)]
    return [(gaussian_epsilon(d, cost.mu), d) for d in small if d > 1e-200]


def shuffled_delta(local: Cost, n: int, epsilon: float, *, hint: float = 1e-6) -> float:
    """Compute the δ of n shuffled reports at an ε.

    Parameters
    ----------
    local : Cost
        The cost of one report.
    n : int
        The number of reports.
    epsilon : float
        ε ≥ 0.
    hint : float, default=1e-06
        The δ around which a Gaussian's curve is tried.

    Returns
    -------
    float
        δ.
    """
    n = check_count("n", n, "shuffled_delta", low=1)
    found = [_approximate_delta(epsilon, e, d, n) for e, d in _points(local, n, hint)]
    return min([*found, _own_delta(local, epsilon)])


def _own_delta(local: Cost, epsilon: float) -> float:
    if isinstance(local, GaussianCost):
        return gaussian_delta(epsilon, local.mu)
    own = getattr(local, "delta", 0.0)
    return float(own) if epsilon >= getattr(local, "epsilon", math.inf) else 1.0


def shuffled_epsilon(local: Cost, n: int, delta: float) -> float:
    """Compute the ε of n shuffled reports at a δ.

    Parameters
    ----------
    local : Cost
        The cost of one report.
    n : int
        The number of reports.
    delta : float
        δ in (0, 1).

    Returns
    -------
    float
        ε.
    """
    n = check_count("n", n, "shuffled_epsilon", low=1)
    if not check_delta(delta, "shuffled_epsilon") > 0:
        must = "> 0: shuffling adds nothing without a δ"
        raise ValueError(complain("delta", "shuffled_epsilon", must, delta))
    best = math.inf
    if _own_delta(local, getattr(local, "epsilon", math.inf)) <= delta:
        best = float(getattr(local, "epsilon", math.inf))
    if isinstance(local, GaussianCost):
        best = gaussian_epsilon(delta, local.mu)
    for epsilon0, delta0 in _points(local, n, delta):
        ceiling = min(best, epsilon0)
        if _approximate_delta(ceiling, epsilon0, delta0, n) > delta:
            continue
        low, high = 0.0, ceiling
        while high - low > 1e-6 * high and high > 1e-9:
            middle = (low + high) / 2
            good = _approximate_delta(middle, epsilon0, delta0, n) <= delta
            low, high = (low, middle) if good else (middle, high)
        best = min(best, high)
    if math.isinf(best):
        raise ValueError(complain("delta", "shuffled_epsilon", "at least the δ of the local guarantee", delta))
    return best
