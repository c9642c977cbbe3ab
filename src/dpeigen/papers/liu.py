"""The rates and constants of Liu, Kong, Jain, Oh 2022 as printed, up to the constants that the paper does not give.

κ = λ₁/(λ₁ − λ₂). M, V and γ are those of the paper's Assumption 1: bounds on ‖A − Σ‖/λ₁, on ‖E(A − Σ)²‖/λ₁² and on the
fourth moments of gradients. For Gaussian rows V and M are of order d and γ of order 1 (`gaussian_constants`). The lower
bounds of the paper are in `stats.converse`.

>>> round(exponential_rate(10_000, 10, 1.0, 4.0, 1.0), 4)
0.0133
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeigen._validate import check_count, check_delta, check_epsilon, check_positive, complain

__all__ = [
    "Spread",
    "dp_pca_rate",
    "dp_pca_rows",
    "exponential_rate",
    "gaussian_constants",
    "gaussian_rate",
    "oja_clip",
    "oja_noise",
    "oja_rows",
    "printed_xi",
]

_OWNER = "rates of Liu et al."


@dataclass(frozen=True)
class Spread:
    """M, V and γ of Assumption 1, and the a and K of its tails."""

    M: float
    V: float
    gamma: float
    a: float = 1.0
    K: float = 1.0


def gaussian_constants(n: int, d: int) -> Spread:
    """The orders that the paper gives for Gaussian rows: M = d·ln n, V = d, γ² = 2 (E z⁴ − 1 of a standard normal)."""
    return Spread(check_count("d", d, _OWNER) * math.log(check_count("n", n, _OWNER, low=2)), float(d), math.sqrt(2))


def exponential_rate(n: int, d: int, epsilon: float, top: float, second: float) -> float:
    """Equation (16): sin² of the exponential mechanism of Chaudhuri et al. under pure ε-DP, κd²/(εn); logs left out."""
    return _kappa(n, d, epsilon, top, second) * d**2 / (epsilon * n)


def gaussian_rate(n: int, d: int, epsilon: float, delta: float, top: float, second: float) -> float:
    """Equation (17): sin² of an intractable (ε, δ)-DP mechanism on Gaussian rows, κ(√(d/n) + (d + ln(1/δ))/(εn))."""
    kappa = _kappa(n, d, epsilon, top, second)
    return kappa * (math.sqrt(d / n) - (math.log(_proper(delta)) - d) / (epsilon * n))


def oja_rows(
    n: int, d: int, epsilon: float, delta: float, top: float, second: float, spread: Spread, zeta: float = 0.01
) -> float:
    """The right-hand side of (63), which depends on n: the bound holds if n is a constant times larger."""
    kappa, log_n, log_nd = _kappa(n, d, epsilon, top, second), math.log(n), math.log(n / _proper(delta))
    reach = spread.K * spread.gamma * math.log(n * d / zeta) ** spread.a + 1
    return (
        spread.M * kappa * log_n
        + (reach * kappa * d / epsilon) ** (2 / 3) * log_nd * log_n ** (2 / 3)
        + spread.V * (kappa * log_n) ** 2
        + reach * kappa * log_nd * log_n * d / epsilon
        + (kappa * log_n) ** 2
    )


def dp_pca_rows(
    n: int, d: int, epsilon: float, delta: float, top: float, second: float, spread: Spread, steps: int | None = None
) -> float:
    """The right-hand side of (71), for DP-PCA; ``steps`` is T, (ln n)² by default. Also ln n ≥ κ² is asked for."""
    kappa, log_n = _kappa(n, d, epsilon, top, second), math.log(n)
    T = check_count("steps", steps, _OWNER) if steps is not None else max(2, round(log_n**2))
    tails = math.log(n * d / log_n) ** spread.a
    root = math.sqrt(-math.log(_proper(delta)))
    return (
        spread.M * kappa * log_n * math.log(d * log_n)
        + math.sqrt(spread.V * math.log(d * T)) * kappa
        + spread.gamma * kappa * tails * root * math.sqrt(math.log(log_n)) * log_n * d / epsilon
        + spread.V * (kappa * log_n) ** 2
        + spread.gamma * kappa * tails * root * log_n**2 * d / epsilon
    )


def dp_pca_rate(n: int, d: int, epsilon: float, delta: float, top: float, second: float, spread: Spread) -> float:
    """sin of DP-PCA (Theorem 5.1, from (69)): κ(√(V/n) + γd√ln(1/δ)/(εn)); logs left out."""
    kappa = _kappa(n, d, epsilon, top, second)
    noise = spread.gamma * d * math.sqrt(-math.log(_proper(delta))) / (epsilon * n)
    return kappa * (math.sqrt(spread.V / n) + noise)


def printed_xi(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    top: float,
    second: float,
    spread: Spread,
    *,
    steps: int,
    h: float,
    zeta: float = 0.01,
) -> float:
    """ξ of (67) with all unnamed constants 1: 20·max(M̃h/(λ₁−λ₂), (Ṽ+λ₁²)h²/((λ₁−λ₂)²·ln(1+ζ/100)))."""
    _kappa(n, d, epsilon, top, second)
    B, gap = n / check_count("steps", steps, _OWNER), top - second
    beta = 16 * spread.K * spread.gamma * top * math.log(B * d / zeta) ** spread.a
    beta *= math.sqrt(2 * d * math.log(2.5 / _proper(delta))) / (epsilon * B)
    log_d = math.log(d * steps / zeta)
    V = spread.V * top**2 / B + beta**2 * d
    M = spread.M * top * log_d / B + math.sqrt(spread.V * top**2 * log_d / B)
    M += beta * (math.sqrt(d) + math.sqrt(math.log(steps / zeta)))
    return 20 * max(M * h / gap, (V + top**2) * h**2 / (gap**2 * math.log1p(zeta / 100)))


def oja_clip(n: int, d: int, top: float, spread: Spread, zeta: float = 0.01) -> float:
    """β of Lemma 3.2 (55): (Kγ·lnᵃ(2nd/ζ) + 1)·λ₁√d, which any gradient exceeds with probability at most ζ."""
    check_count("n", n, _OWNER)
    return (spread.K * spread.gamma * math.log(2 * n * d / zeta) ** spread.a + 1) * top * math.sqrt(d)


def oja_noise(n: int, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """α of Lemma 3.1: C′·ln(n/δ)/(ε√n). Steps have noise 2βα; C′ is "sufficiently large" there."""
    check_count("n", n, _OWNER, low=2)
    return constant * math.log(n / _proper(delta)) / (check_epsilon(epsilon, _OWNER) * math.sqrt(n))


def _kappa(n: int, d: int, epsilon: float, top: float, second: float) -> float:
    check_count("n", n, _OWNER, low=2)
    check_count("d", d, _OWNER)
    check_epsilon(epsilon, _OWNER)
    check_positive("top", top, _OWNER)
    if not 0 <= second < top:
        raise ValueError(complain("second", _OWNER, f"at least 0 and below top, {top:g}", second))
    return top / (top - second)


def _proper(delta: float) -> float:
    if check_delta(delta, _OWNER) == 0:
        raise ValueError(complain("delta", _OWNER, "> 0", delta))
    return delta
