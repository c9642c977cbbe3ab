"""Rates of private PCA and covariance estimation under the spiked covariance model, in any Schatten norm.

Upper bounds: Cai, Xia, Zha 2024, Theorems 3.2 and 3.3, with Corollary 5.1 for a condition number κ₀. Lower bounds:
Theorems 4.2 and 4.3. The theorems have unspecified absolute constants. Here ``constant`` multiplies the rate and is 1
by default, so the numbers are rates, not errors: compare them with each other, or fit the constant to a pilot. All are
errors in the Schatten-q norm, that is r^{1/q} times the expressions of the theorems (q = 2 Frobenius, ∞ spectral, 1
nuclear). `refined_error` has no unknown constants: it predicts the error of `refined` itself.

As printed, the high-probability form of Theorem 3.3 has √(r(r + log n)) where its expectation form has √r·(r + log n);
the noise E of Algorithm 1 is an r×r Gaussian matrix with entries ∝ (r + log n), so the second is right and used here.
The lower bound of Theorem 4.3 is printed with √(rp)/(nε), a factor √p below the upper bound. With Theorem 4.2 and the
Davis–Kahan theorem (a covariance known to within e gives the projector to within 2e/λ) it is at least half of
(σ² + √(σ²λ))·(√(p/n) + p√r/(nε)), which is what `covariance_lower_rate` returns where that is larger.

>>> facts = dict(n=5000, p=50, rank=3, signal=10.0, noise_variance=1.0, epsilon=1.0)
>>> round(subspace_upper_rate(**facts, delta=1e-5), 4), round(subspace_lower_rate(**facts), 4)
(0.1583, 0.0846)
"""

from __future__ import annotations

import math

from dpeigen._validate import check_count, check_delta, check_epsilon, check_positive, complain
from dpeigen.privacy.calibration import gaussian_mu
from dpeigen.stats.next_look import predicted_variance

__all__ = [
    "check_model",
    "covariance_lower_rate",
    "covariance_upper_rate",
    "positive_delta",
    "refined_error",
    "schatten_root",
    "subspace_lower_rate",
    "subspace_upper_rate",
]


def subspace_upper_rate(
    n: int,
    p: int,
    rank: int,
    signal: float,
    noise_variance: float,
    epsilon: float,
    delta: float,
    order: float = 2.0,
    condition: float = 1.0,
    constant: float = 1.0,
) -> float:
    """Upper bound on ‖ÛÛᵀ − UUᵀ‖_q of Algorithm 1 (Theorem 3.2); never above the diameter (2r)^{1/q}."""
    _check(n, p, rank, signal, noise_variance, epsilon, order, condition)
    privacy = p * math.sqrt(rank + math.log(n)) / (n * epsilon) * math.sqrt(math.log(2.5 / positive_delta(delta)))
    rate = _ratio(signal, noise_variance, condition) * (math.sqrt(p / n) + privacy)
    return min(constant * rate * schatten_root(rank, order), schatten_root(2 * rank, order))


def covariance_upper_rate(
    n: int,
    p: int,
    rank: int,
    signal: float,
    noise_variance: float,
    epsilon: float,
    delta: float,
    order: float = 2.0,
    condition: float = 1.0,
    constant: float = 1.0,
) -> float:
    """Upper bound on ‖Σ̂ − Σ‖_q of Algorithm 1 with σ² known (Theorem 3.3, expectation)."""
    _check(n, p, rank, signal, noise_variance, epsilon, order, condition)
    top, spread, tail = condition * signal, rank + math.log(n), math.sqrt(math.log(2.5 / positive_delta(delta)))
    values = top * (math.sqrt(rank / n) + math.sqrt(rank) * spread / (n * epsilon) * tail)
    across = math.sqrt(noise_variance * (top + noise_variance))
    vectors = across * (math.sqrt(p / n) + p * math.sqrt(spread) / (n * epsilon) * tail)
    return constant * (values + vectors) * schatten_root(rank, order)


def subspace_lower_rate(
    n: int,
    p: int,
    rank: int,
    signal: float,
    noise_variance: float,
    epsilon: float,
    order: float = 2.0,
    constant: float = 1.0,
) -> float:
    """Lower bound on ‖ÛÛᵀ − UUᵀ‖_q of every private method, for δ (nearly) 0 (Theorem 4.2)."""
    _check(n, p, rank, signal, noise_variance, epsilon, order)
    rate = _ratio(signal, noise_variance) * (math.sqrt(p / n) + p * math.sqrt(rank) / (n * epsilon))
    return min(constant * rate, 1.0) * schatten_root(rank, order)


def covariance_lower_rate(
    n: int,
    p: int,
    rank: int,
    signal: float,
    noise_variance: float,
    epsilon: float,
    order: float = 2.0,
    constant: float = 1.0,
) -> float:
    """Lower bound on ‖Σ̂ − Σ‖_q of every private method, for δ (nearly) 0 (Theorem 4.3, and 4.2 with Davis–Kahan)."""
    _check(n, p, rank, signal, noise_variance, epsilon, order)
    values = signal * (math.sqrt(rank / n) + rank**1.5 / (n * epsilon))
    across = math.sqrt(noise_variance * (signal + noise_variance))
    vectors = across * (math.sqrt(p / n) + math.sqrt(rank * p) / (n * epsilon))
    printed = min(constant * (values + vectors), signal) * schatten_root(rank, order)
    from_subspace = signal / 2 * subspace_lower_rate(n, p, rank, signal, noise_variance, epsilon, order, constant)
    return max(printed, from_subspace)


def refined_error(
    n: int,
    p: int,
    rank: int,
    signal: float,
    noise_variance: float,
    epsilon: float,
    delta: float,
    rounds: int = 3,
    direction_share: float = 0.85,
) -> float:
    """The predicted Frobenius error ‖ÛÛᵀ − UUᵀ‖_F of `refined`: sampling and noise, without unknown constants.

    It is of first order in the angles: correct within about 20% while the result is below 0.5, and combined with the
    diameter √(2r) above that. ``direction_share`` of the budget's μ² is spent on the directions.
    """
    _check(n, p, rank, signal, noise_variance, epsilon, 2.0)
    level = 1 + signal / noise_variance
    noise = 1 / (gaussian_mu(epsilon, positive_delta(delta)) * math.sqrt(direction_share) * n)
    private = predicted_variance(rounds + 1, noise, level, p, rank)
    sampling = level / (level - 1) ** 2 / n * (1 + 2 / (rank + 2))  # for signs of rows, not their squares
    first_order = math.sqrt(2 * rank * (p - rank) * (private + sampling))
    most = math.sqrt(2 * rank)
    return first_order / math.hypot(1, first_order / most)


def _ratio(signal: float, noise_variance: float, condition: float = 1.0) -> float:
    return noise_variance / signal + math.sqrt(condition * noise_variance / signal)


def schatten_root(rank: int, order: float, owner: str = "rates") -> float:
    """r^{1/q}: the ratio of errors in the Schatten-q norm to those in the spectral norm."""
    if not order >= 1:
        raise ValueError(complain("order", owner, "a Schatten order ≥ 1 (inf for the spectral norm)", order))
    return 1.0 if math.isinf(order) else rank ** (1 / order)


def positive_delta(delta: float, owner: str = "rates") -> float:
    """Check that δ > 0, as Gaussian noise needs."""
    if check_delta(delta, owner) == 0:
        raise ValueError(complain("delta", owner, "> 0: the upper bounds are of Gaussian noise", delta))
    return delta


def check_model(
    n: int, p: int, rank: int, signal: float, noise_variance: float, epsilon: float, owner: str = "rates"
) -> None:
    """Check the parameters of the spiked model and the budget."""
    check_count("n", n, owner, low=2)
    check_count("rank", rank, owner, high=max(1, p - 1))
    check_positive("signal", signal, owner)
    check_positive("noise_variance", noise_variance, owner)
    check_epsilon(epsilon, owner)


def _check(
    n: int,
    p: int,
    rank: int,
    signal: float,
    noise_variance: float,
    epsilon: float,
    order: float,
    condition: float = 1.0,
) -> None:
    check_model(n, p, rank, signal, noise_variance, epsilon)
    schatten_root(rank, order)
    if not condition >= 1:
        raise ValueError(complain("condition", "rates", "at least 1", condition))
