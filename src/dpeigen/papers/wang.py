"""The rates of Wang and Xu 2019 (local privacy) as printed: Theorems 1 to 4.

All of them are for the squared subspace distance ‖sin Θ‖²_F = ½‖V̂V̂ᵀ − VVᵀ‖²_F, for rows of norm at most 1, and up to
a constant that the paper does not give: ``constant`` stands for it. A `Rate` lists the conditions of its theorem that
the arguments do not meet; the number then says nothing.

The upper bounds do not hold as printed (docs/errata.md): the averaged noise does not shrink with the eigenvalues, so
the factor λ₁² in the numerator has to be 1, which is ``corrected=True``. `planner.plan_local` predicts the error of an
average of reports, without an unknown constant.

>>> local_upper_rate(100_000, 40, 5, 1.0, 1e-4, [0.1] * 5 + [0.01]).value < 0.3
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpeigen._validate import check_count, check_delta, check_epsilon, check_positive, complain

__all__ = [
    "Rate",
    "local_lower_rate",
    "local_upper_rate",
    "printed_penalty",
    "sparse_local_lower_rate",
    "sparse_local_upper_rate",
]

_OWNER = "rates of Wang and Xu"


@dataclass(frozen=True)
class Rate:
    """A rate, and the conditions of its theorem that are not met."""

    value: float
    unmet: tuple[str, ...] = ()


def local_lower_rate(
    n: int, p: int, k: int, epsilon: float, eigenvalues: Sequence[float], *, constant: float = 1.0
) -> Rate:
    """Theorem 1: no ε-local method has a smaller worst-case risk than λ₁λ_{k+1}/(λ_k − λ_{k+1})²·kp/(nε²)."""
    top, here, after = _spectrum(n, p, k, epsilon, eigenvalues)
    level = top * after / (here - after) ** 2
    unmet = [] if p / 4 <= k <= 3 * p / 4 else [f"p/4 ≤ k ≤ 3p/4 (k = {k}, p = {p})"]
    unmet += _small(epsilon)
    if n < level * min(k, p - k) / epsilon**2:
        unmet.append("n of the order of λ₁λ_{k+1}/(λ_k − λ_{k+1})²·min(k, p − k)/ε² or more")
    return Rate(constant * level * k * p / (n * epsilon**2), tuple(unmet))


def local_upper_rate(
    n: int,
    p: int,
    k: int,
    epsilon: float,
    delta: float,
    eigenvalues: Sequence[float],
    *,
    constant: float = 1.0,
    corrected: bool = False,
) -> Rate:
    """Theorem 2, for Algorithm 1: λ₁²·kp·ln(1/δ)/((λ_k − λ_{k+1})²nε²); ``corrected``: without the λ₁²."""
    top, here, after = _spectrum(n, p, k, epsilon, eigenvalues)
    level = (1.0 if corrected else top**2) / (here - after) ** 2
    return Rate(constant * level * k * p * -math.log(_proper(delta)) / (n * epsilon**2))


def sparse_local_lower_rate(
    n: int, p: int, k: int, s: int, epsilon: float, eigenvalues: Sequence[float], *, constant: float = 1.0
) -> Rate:
    """Theorem 3, for components on s columns: λ₁λ_{k+1}/(λ_k − λ_{k+1})²·s(k + ln p)/(nε²)."""
    top, here, after = _spectrum(n, p, k, epsilon, eigenvalues)
    check_count("s", s, _OWNER, low=k, high=p)
    level, width = top * after / (here - after) ** 2, k + math.log(p)
    unmet = _small(epsilon)
    if not (2 * k <= s - k <= p - k and k <= p - 4):
        unmet.append(f"2k ≤ s − k ≤ p − k and k ≤ p − 4 (k = {k}, s = {s}, p = {p})")
    if n < (s - k) * (top * after / (here - after)) * width / epsilon**2:
        unmet.append("n of the order of (s − k)·λ₁λ_{k+1}/(λ_k − λ_{k+1})·(k + ln p)/ε² or more")
    return Rate(constant * level * s * width / (n * epsilon**2), tuple(unmet))


def sparse_local_upper_rate(
    n: int,
    p: int,
    k: int,
    s: int,
    epsilon: float,
    delta: float,
    eigenvalues: Sequence[float],
    *,
    constant: float = 1.0,
    corrected: bool = False,
) -> Rate:
    """Theorem 4, for Algorithm 2: λ₁²/(λ_k − λ_{k+1})²·s²·ln p/(nε²); ``corrected``: ln(1/δ) in the place of λ₁²."""
    top, here, after = _spectrum(n, p, k, epsilon, eigenvalues)
    check_count("s", s, _OWNER, low=k, high=p)
    unmet = [] if epsilon < 1 else [f"ε < 1 (ε = {epsilon:g})"]
    level = (-math.log(_proper(delta)) if corrected else top**2) / (here - after) ** 2
    return Rate(constant * level * s**2 * math.log(p) / (n * epsilon**2), tuple(unmet))


def printed_penalty(n: int, p: int, epsilon: float, top: float, *, constant: float = 1.0) -> float:
    """λ of Theorem 4: λ₁·√(ln p/(nε²)), up to a constant."""
    check_count("n", n, _OWNER)
    return constant * check_positive("top", top, _OWNER) * math.sqrt(math.log(p) / n) / check_epsilon(epsilon, _OWNER)


def _spectrum(n: int, p: int, k: int, epsilon: float, eigenvalues: Sequence[float]) -> tuple[float, float, float]:
    """λ₁, λ_k and λ_{k+1}."""
    check_count("n", n, _OWNER)
    check_count("k", k, _OWNER, high=p - 1)
    check_epsilon(epsilon, _OWNER)
    if len(eigenvalues) <= k or not eigenvalues[k - 1] > eigenvalues[k] > 0:
        must = f"at least {k + 1} positive numbers, decreasing, with a gap after the first {k}"
        raise ValueError(complain("eigenvalues", _OWNER, must, list(eigenvalues)[: k + 1]))
    return float(eigenvalues[0]), float(eigenvalues[k - 1]), float(eigenvalues[k])


def _small(epsilon: float) -> list[str]:
    return [] if epsilon <= 0.5 else [f"ε ≤ ½ (ε = {epsilon:g})"]


def _proper(delta: float) -> float:
    if check_delta(delta, _OWNER) == 0:
        raise ValueError(complain("delta", _OWNER, "> 0: the upper bounds are of Gaussian noise", delta))
    return delta
