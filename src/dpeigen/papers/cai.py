"""Rates of Cai, Xia and Zha 2024 that `stats.rates` does not have: §5, Remarks 2 and 3, and when lower bounds hold.

Theorems 3.2, 3.3, 4.2, 4.3 and Corollary 5.1 are `subspace_upper_rate`, `covariance_upper_rate`, `subspace_lower_rate`
and `covariance_lower_rate`, which are found here too. All have unspecified absolute constants: ``constant`` multiplies
the rate and is 1 unless one is given, so these are rates, not errors. Errors are in the Schatten-q norm (``order``; 2:
Frobenius, ∞: spectral).

Theorems 3.2 to 4.3 and Corollary 5.1 are proven for Gaussian rows. Corollary 5.2 is stated for a class of sub-Gaussian
laws that is empty as printed (the errata); with a constant in the exponent it is not, and the rates keep their form.
Beyond sub-Gaussian rows (§7.3) the paper proves nothing: it states what remains to be bounded.

The arguments mean the same everywhere: ``n`` rows of ``p`` columns, ``rank`` r, ``signal`` λ, ``noise_variance`` σ²,
``epsilon`` and ``delta`` the budget. Each returns one number, but for `nuisance_conditions`.

>>> facts = dict(n=5000, p=50, rank=3, signal=10.0, noise_variance=1.0, epsilon=1.0, delta=1e-5)
>>> round(subspace_upper_rate(**facts), 3), round(sub_gaussian_subspace_rate(**facts), 3)
(0.158, 0.229)
>>> round(dp_gauss_rate(**facts, longest=126.0), 2), round(oja_rate(n=5000, p=50, signal=10.0, noise_variance=1.0,
...     epsilon=1.0, delta=1e-5), 3)
(1.15, 0.147)
"""

from __future__ import annotations

import math

from dpeigen._validate import check_count, check_epsilon, check_positive
from dpeigen.stats.rates import (
    check_model,
    covariance_lower_rate,
    covariance_upper_rate,
    positive_delta,
    schatten_root,
    subspace_lower_rate,
    subspace_upper_rate,
)

__all__ = [
    "covariance_lower_rate",
    "covariance_upper_rate",
    "dp_gauss_rate",
    "largest_delta_of_lower_bounds",
    "nuisance_conditions",
    "oja_rate",
    "rank_condition",
    "signal_condition",
    "sub_gaussian_covariance_rate",
    "sub_gaussian_subspace_rate",
    "subspace_lower_rate",
    "subspace_upper_rate",
    "unknown_noise_covariance_rate",
    "unknown_noise_subspace_rate",
]


def sub_gaussian_subspace_rate(
    n: int,
    p: int,
    rank: int,
    signal: float,
    noise_variance: float,
    epsilon: float,
    delta: float,
    order: float = 2.0,
    constant: float = 1.0,
) -> float:
    """Corollary 5.2, projector: Theorem 3.2 with √(p·ln p/n) in the place of √(p/n)."""
    _check(n, p, rank, signal, noise_variance, epsilon, delta)
    ratio, tail = noise_variance / signal, math.sqrt(math.log(2.5 / delta))
    privacy = p * math.sqrt(rank + math.log(n)) / (n * epsilon) * tail
    rate = (ratio + math.sqrt(ratio)) * (math.sqrt(p * math.log(p) / n) + privacy)
    return constant * rate * schatten_root(rank, order, "cai")


def sub_gaussian_covariance_rate(
    n: int,
    p: int,
    rank: int,
    signal: float,
    noise_variance: float,
    epsilon: float,
    delta: float,
    order: float = 2.0,
    constant: float = 1.0,
) -> float:
    """Corollary 5.2, covariance."""
    _check(n, p, rank, signal, noise_variance, epsilon, delta)
    spread, tail = rank + math.log(n), math.sqrt(math.log(2.5 / delta))
    values = signal * (math.sqrt(rank / n) + math.sqrt(rank) * spread / (n * epsilon) * tail)
    across = math.sqrt(noise_variance * (signal + noise_variance))
    vectors = across * (math.sqrt(p * math.log(p) / n) + p * math.sqrt(spread) / (n * epsilon) * tail)
    return constant * (values + vectors) * schatten_root(rank, order, "cai")


def unknown_noise_subspace_rate(
    n: int, p: int, rank: int, signal: float, noise_variance: float, epsilon: float, delta: float, constant: float = 1.0
) -> float:
    """Theorem 5.4, projector in Frobenius norm, σ² unknown."""
    _check(n, p, rank, signal, noise_variance, epsilon, delta)
    ratio, tail = noise_variance / signal, math.sqrt(math.log(4 / delta))
    privacy = p * math.sqrt(rank * (rank + math.log(n))) / (n * epsilon) * tail
    return constant * (ratio + math.sqrt(ratio)) * (math.sqrt(p * rank / n) + privacy)


def unknown_noise_covariance_rate(
    n: int, p: int, rank: int, signal: float, noise_variance: float, epsilon: float, delta: float, constant: float = 1.0
) -> float:
    """Theorem 5.4, covariance in spectral and Frobenius norm, σ² unknown."""
    _check(n, p, rank, signal, noise_variance, epsilon, delta)
    spread, tail = rank + math.log(n), math.sqrt(math.log(4 / delta))
    values = signal * (math.sqrt(rank / n) + spread**1.5 / (n * epsilon) * tail)
    across = math.sqrt(noise_variance * (signal + noise_variance))
    return constant * (values + across * (math.sqrt(p / n) + p * math.sqrt(spread) / (n * epsilon) * tail))


def nuisance_conditions(
    n: int, p: int, rank: int, signal: float, noise_variance: float, epsilon: float, delta: float, printed: bool = False
) -> tuple[float, float]:
    """The two ratios of condition (12), which c₁ must be at least for Theorem 5.4: σ̃² is then of the order of σ².

    The second is printed with ε/√ln(4/δ) upside down (the errata); ``printed`` returns that.
    """
    _check(n, p, rank, signal, noise_variance, epsilon, delta)
    m, noise = min(p, n), math.sqrt(math.log(4 / delta)) / epsilon
    first = signal / noise_variance * (rank + math.log(n)) / (n * math.sqrt(m / math.log(n))) * noise
    second = p / n * math.sqrt(math.log(n) / m) * (1 / noise if printed else noise)
    return first, second


def rank_condition(
    n: int, p: int, largest_rank: int, epsilon: float, delta: float, constant: float = 1.0, printed: bool = False
) -> float:
    """§7.1: the λ/σ² from which on the noisy eigen-ratio finds the rank.

    ``printed``: p·√(ln R·ln(2.5/δ)/(nε)), where the root covers nε; the noise, of order Δ₂√ln(2.5/δ)/ε, asks for
    p·√(ln R·ln(2.5/δ))/(nε), as §7.2 has it for λ.
    """
    check_count("largest_rank", largest_rank, "cai", low=2)
    logs, rows = math.log(largest_rank) * math.log(2.5 / delta), n * check_epsilon(epsilon, "cai")
    return constant * p * (math.sqrt(logs / rows) if printed else math.sqrt(logs) / rows)


def signal_condition(n: int, p: int, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """§7.2: the λ/σ² from which on the noisy eigenvalues determine λ up to a constant; also nε must exceed r + ln n."""
    return constant * p * math.sqrt(math.log(2.5 / delta)) / (n * check_epsilon(epsilon, "cai"))


def oja_rate(
    n: int, p: int, signal: float, noise_variance: float, epsilon: float, delta: float, constant: float = 1.0
) -> float:
    """Remark 2: DP-Oja (Liu et al. 2022, Corollary 5.2), one direction, without logarithms of n and p."""
    _check(n, p, 1, signal, noise_variance, epsilon, delta)
    privacy = p * math.sqrt(math.log(1 / delta)) / (epsilon * n)
    return constant * (1 + noise_variance / signal) * (math.sqrt(p / n) + privacy)


def dp_gauss_rate(
    n: int,
    p: int,
    rank: int,
    signal: float,
    noise_variance: float,
    epsilon: float,
    delta: float,
    longest: float | None = None,
    constant: float = 1.0,
) -> float:
    """Remark 3, (8): ‖Σ̃_r − Σ̂_r‖_F of DP-Gauss; ``longest`` is max ‖x‖², by default rλ + pσ²."""
    _check(n, p, rank, signal, noise_variance, epsilon, delta)
    square = rank * signal + p * noise_variance if longest is None else check_positive("longest", longest, "cai")
    privacy = math.sqrt(rank * p) / (n * epsilon) * math.sqrt(math.log(1 / delta))
    return constant * square * (1 + noise_variance / signal) * privacy


def largest_delta_of_lower_bounds(n: int, p: int, rank: int, epsilon: float, constant: float = 1.0) -> float:
    """The δ up to which Theorems 4.2 and 4.3 are proven: exp(2ε − c₀(ε√(npr) + pr)), nearly 0 in every use."""
    check_count("n", n, "cai", low=2)
    exponent = 2 * check_epsilon(epsilon, "cai") - constant * (epsilon * math.sqrt(n * p * rank) + p * rank)
    return math.exp(max(min(exponent, 0.0), -745.0))


def _check(n: int, p: int, rank: int, signal: float, noise_variance: float, epsilon: float, delta: float) -> None:
    check_model(n, p, rank, signal, noise_variance, epsilon, "cai")
    positive_delta(delta, "cai")
