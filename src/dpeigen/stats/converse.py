"""Lower bounds on the error of the first component that hold for every private method, for planning.

All bound the expected sine between an estimate and v₁, from n independent rows with covariance eigenvalues λ₁ > λ₂, in
the worst case over a class of distributions, after Liu, Kong, Jain, Oh 2022 (Theorems 5.3, 5.4 and C.1). The
``lower_bound_…`` functions are rigorous, constants included: they evaluate the inequalities behind the theorems (Fano's
for private estimators, Acharya, Sun, Zhang 2021; Barber, Duchi 2014) at the best choice of the construction's
parameter. The constants are small, so a bound near 1 is rare; the bounds show how rows, columns, gap and ε trade off
against each other. The ``rate_…`` functions give the theorems' rates with constant 1, including the upper bounds for
the methods of the paper.

>>> bound = lower_bound_gaussian(n=1000, d=100, epsilon=0.01, top=1.2, second=1.0)
>>> 0.01 < bound < 0.2
True
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpeigen._validate import check_count, check_delta, check_epsilon, check_positive, complain

__all__ = [
    "lower_bound_gaussian",
    "lower_bound_heavy",
    "lower_bound_without_tails",
    "rate_gaussian",
    "rate_heavy",
    "rate_of_dp_pca",
    "rate_of_oja",
    "rate_without_tails",
    "rows_for",
]

_PACKING = 0.0233  # ln of the number of directions per column in the packing of Lemma C.3, for more than 10 columns


def _check(owner: str, n: int, d: int, epsilon: float, least: int) -> None:
    check_count("n", n, owner)
    check_count("d", d, owner, low=least)
    check_epsilon(epsilon, owner)


def _gap(top: float, second: float, owner: str) -> float:
    check_positive("second", second, owner)
    if not check_positive("top", top, owner) > second:
        raise ValueError(complain("top", owner, "above the second eigenvalue", top))
    return top - second


def _fano(tau: float, packing: float, information: float, variation: float, n: int, epsilon: float) -> float:
    """DP Fano (Acharya, Sun, Zhang 2021, Corollary 4): e^packing laws at distance τ, bounded KL and total variation."""
    plain = tau / 2 * (1 - (n * information + math.log(2)) / packing)
    private = 0.4 * tau * math.exp(min(0.0, packing - 10 * n * variation * epsilon))
    return max(plain, private, 0.0)


def lower_bound_gaussian(n: int, d: int, epsilon: float, top: float, second: float) -> float:
    """Theorem 5.3: Gaussian rows, any ε-DP estimator, more than 10 columns.

    The laws N(0, (λ₁ − λ₂)vvᵀ + λ₂I) for v in a packing of width α have pairwise sines ≥ α/2, KL divergence ≤ α²(λ₁ −
    λ₂)²/(λ₁λ₂) and total variation ≤ the root of half of that; the best α in (0, 1] is taken.
    """
    owner = "lower_bound_gaussian"
    _check(owner, n, d, epsilon, 11)
    contrast = _gap(top, second, owner) ** 2 / (top * second)
    return max(
        _fano(a / 2, _PACKING * d, contrast * a * a, a * math.sqrt(contrast / 2), n, epsilon)
        for a in np.geomspace(1e-8, 1.0, 801).tolist()
    )


def lower_bound_heavy(n: int, d: int, epsilon: float, delta: float, condition: float) -> float:
    """Theorem 5.4: rows with bounded fourth moments and no more, any (ε, δ)-DP estimator; ``condition`` = λ₁/(λ₁ − λ₂).

    A fraction α of the rows is ±α^(−1/4)·v, the others are standard Gaussian: λ₁ = 1 − α + √α, λ₂ = 1 − α, so the
    condition number fixes α. There are 2^(d−1) lines in d dimensions with pairwise sines ≥ ½ (caps of that size have
    measure at most 2^(1−d)). The bound of Barber and Duchi 2014, Theorem 3 (the paper's Lemma C.6) applies with
    distance ½.
    """
    owner = "lower_bound_heavy"
    _check(owner, n, d, epsilon, 2)
    check_delta(delta, owner)
    if not check_positive("condition", condition, owner) > 1:
        raise ValueError(complain("condition", owner, "> 1", condition))
    # (1 − α + √α)/√α = condition is a quadratic in √α with one root in (0, 1].
    b = condition - 1
    alpha = ((-b + math.sqrt(b * b + 4)) / 2) ** 2
    loss = epsilon * math.ceil(n * alpha)
    lines = (d - 1) * math.log(2)
    kept = 0.5 * math.exp(-loss) - delta * -math.expm1(-loss) / -math.expm1(-epsilon)
    if kept <= 0:
        return 0.0
    # (M − 1)·kept/(1 + (M − 1)·e^−loss), in logarithms: M may be huge
    others = lines + math.log1p(-math.exp(-lines)) if lines > 0 else -math.inf
    probability = math.exp(min(0.0, others + math.log(kept) - np.logaddexp(0.0, others - loss)))
    return 0.25 * probability


def lower_bound_without_tails(n: int, d: int, epsilon: float, top: float, second: float) -> float:
    """Theorem C.1: only ‖xxᵀ‖ = O(dλ₁) and its variance are bounded; any ε-DP estimator, more than 10 columns.

    A fraction (1 − λ₂/λ₁)/d of the rows is ±√(dλ₁)·v; the total variation between two such laws is that fraction too.
    Sines are ≥ √(λ₂/λ₁)/2. Fewer than about 0.002·d²/ε·λ₁/(λ₁ − λ₂) rows carry no information. (With more rows, this
    argument gives a bound that falls exponentially, not as 1/n as the theorem states: see docs/errata.md.)
    """
    owner = "lower_bound_without_tails"
    _check(owner, n, d, epsilon, 11)
    variation = _gap(top, second, owner) / (top * d)
    tau = math.sqrt(second / top) / 2
    return _fano(tau, _PACKING * d, math.inf, variation, n, epsilon)


def rows_for(error: float, bound: Callable[[int], float]) -> int:
    """The fewest rows for which a lower bound, a function of n, allows this error: every method needs as many.

    >>> rows_for(0.02, lambda n: lower_bound_gaussian(n, 50, 0.1, 1.5, 1.0))
    41
    """
    check_positive("error", error, "rows_for")
    high = 1
    while bound(high) > error:
        high *= 2
        if high > 2**60:
            raise ValueError(complain("error", "rows_for", "one that enough rows allow", error))
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bound(middle) > error else (low, middle)
    return high


def rate_gaussian(n: int, d: int, epsilon: float, top: float, second: float) -> float:
    """min(1, (√(d/n) + d/(εn))·√(λ₁λ₂)/(λ₁ − λ₂)): Theorem 5.3, constant 1."""
    _check("rate_gaussian", n, d, epsilon, 1)
    gap = _gap(top, second, "rate_gaussian")
    return min(1.0, (math.sqrt(d / n) + d / (epsilon * n)) * math.sqrt(top * second) / gap)


def rate_heavy(n: int, d: int, epsilon: float, delta: float, condition: float) -> float:
    """κ·min(1, √(min(d, ln((1 − e^−ε)/δ))/(εn))), at most 1: Theorem 5.4, constant 1; ``condition`` is κ."""
    _check("rate_heavy", n, d, epsilon, 1)
    budget = math.log(-math.expm1(-epsilon) / delta) if check_delta(delta, "rate_heavy") > 0 else math.inf
    return min(1.0, condition * min(1.0, math.sqrt(max(0.0, min(float(d), budget)) / (epsilon * n))))


def rate_without_tails(n: int, d: int, epsilon: float, top: float, second: float) -> float:
    """√(λ₂/λ₁)·min(1, κd²/(εn)): Theorem C.1 as printed, constant 1."""
    _check("rate_without_tails", n, d, epsilon, 1)
    condition = top / _gap(top, second, "rate_without_tails")
    return math.sqrt(second / top) * min(1.0, condition * d * d / (epsilon * n))


def rate_of_dp_pca(
    n: int, d: int, epsilon: float, delta: float, condition: float, *, variance: float, spread: float
) -> float:
    """κ(√(V/n) + γd√ln(1/δ)/(εn)), at most 1: the upper bound of Theorem 5.1, constant 1, logarithms of n left out.

    ``variance`` is V and ``spread`` γ of the paper's assumptions: ‖E(xxᵀ − Σ)²‖ = Vλ₁², and γ²λ₁² the largest variance
    of a gradient in any direction. For Gaussian rows V is about d and γ about √2; the method is best if γ is near 0.
    """
    _check("rate_of_dp_pca", n, d, epsilon, 1)
    noise = spread * d * math.sqrt(-math.log(delta)) / (epsilon * n)
    return min(1.0, condition * (math.sqrt(variance / n) + noise))


def rate_of_oja(
    n: int, d: int, epsilon: float, delta: float, condition: float, *, variance: float, spread: float
) -> float:
    """κ(√(V/n) + (γ + 1)d·ln(1/δ)/(εn)), at most 1: the upper bound of Theorem 3.3 for private Oja, likewise."""
    _check("rate_of_oja", n, d, epsilon, 1)
    noise = (spread + 1) * d * -math.log(delta) / (epsilon * n)
    return min(1.0, condition * (math.sqrt(variance / n) + noise))
