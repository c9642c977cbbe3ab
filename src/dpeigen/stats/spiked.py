"""The spiked covariance model Σ = UΛUᵀ + σ²I, rows N(0, Σ): sensitivities of its estimates, and counting of spikes.

Write a = Uᵀx for the part of a row in the r spiked directions and b for the rest. To first order, replacing a row
x by x′ moves the projector on the leading directions of the sample covariance by (Cai, Xia, Zha 2024, Lemma 3.1)

    √2·‖Λ⁻¹(abᵀ − a′b′ᵀ)‖_F / n,      ‖abᵀ − a′b′ᵀ‖²_F = |a|²|b|² + |a′|²|b′|² − 2(a·a′)(b·b′).

`published_sensitivities` are the paper's Δ₁ and Δ₂ with its unspecified constant C₂ set as in its experiments.
`sharp_sensitivities` bound the same terms with quantiles of the model's own distributions, for a stated probability
of failure over the n + 1 rows of a neighbouring pair. Both hold under the model only, and the second for Gaussian rows
only: rows with the same covariance but longer tails move the projector further.

>>> published, _ = published_sensitivities(n=5000, p=50, rank=3, signal=10.0, noise_variance=1.0)
>>> round(published, 5)
0.00799
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, ndtri

from dpeigen._types import Floats
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = [
    "CLEAR",
    "Model",
    "bulk_variance",
    "count_spikes",
    "dp_gauss_radius",
    "marchenko_pastur_quantiles",
    "printed_bulk_variance",
    "printed_rank",
    "published_bulk_sensitivity",
    "published_sensitivities",
    "sharp_sensitivities",
    "spikes_in_noise",
]

CLEAR = 3.0  # first-order sensitivities need a signal of at least this multiple of the detection threshold


def published_sensitivities(
    n: int, p: int, rank: int, signal: float, noise_variance: float, condition: float = 1.0, factor: float = 4.0
) -> tuple[float, float]:
    """Δ₁ of the projector and Δ₂ of the eigenvalues, as printed (Corollary 5.1 for a condition number κ₀ > 1)."""
    ratio, spread = noise_variance / signal, rank + math.log(n)
    first = factor * (ratio + math.sqrt(condition * ratio)) * math.sqrt(p * spread) / n
    second = factor * (condition * signal * spread + noise_variance * (p + math.log(n))) / n
    return first, second


def published_bulk_sensitivity(
    n: int, p: int, rank: int, signal: float, noise_variance: float, condition: float = 1.0, factor: float = 4.0
) -> float:
    """Δ₃ of the bulk estimate of σ² (Theorem 5.3): Δ₂/√(p ∧ n), for the same unspecified constant."""
    return published_sensitivities(n, p, rank, signal, noise_variance, condition, factor)[1] / math.sqrt(min(p, n))


def dp_gauss_radius(
    n: int, p: int, rank: int, signal: float, noise_variance: float, condition: float = 1.0, factor: float = 4.0
) -> float:
    """The bound of DP-Gauss in the paper's experiments, √((r + C₅ log n)λ + pσ²): few rows of the model are longer."""
    return math.sqrt((rank + factor * math.log(n)) * condition * signal + p * noise_variance)


def sharp_sensitivities(
    n: int, p: int, rank: int, signal: float, noise_variance: float, condition: float = 1.0, failure: float = 1e-6
) -> tuple[float, float]:
    """The same from quantiles: each fails with half the probability ``failure``, to first order in 1/n.

    Δ₁: |a||b| ≤ q for all n + 1 rows; the products (a·a′)(b·b′) are at most q·|a′|·σz, since b·b′ given the rest is
    N(0, σ²|b|²). Δ₂: given released directions V, |Vᵀx|² ≤ (λ₁ + σ²)·χ²_r, and ‖ssᵀ − s′s′ᵀ‖_F ≤ √2·max |s|².
    The first order is useless near λ = σ²√(p/n), where the sample's directions become noise. Unless λ is at least
    `CLEAR` times that, Δ₁ is √(2r), which bounds the distance of any two projectors; so it is if the bound is larger.
    """
    top, rest = condition * signal + noise_variance, p - rank
    each = failure / (8 * (n + 1))
    q = math.sqrt(top * noise_variance * _product_quantile(rank, rest, 2 * each))
    reach = math.sqrt(top * float(chdtri(rank, each)))
    turned = math.sqrt(noise_variance) * float(-ndtri(each))
    first = math.sqrt(2) / (n * signal) * math.sqrt(2 * q * q + 2 * q * reach * min(turned, q / reach))
    widest = math.sqrt(2 * min(rank, rest))
    first = min(first, widest) if signal > CLEAR * noise_variance * math.sqrt(p / n) else widest
    return first, math.sqrt(2) * top * float(chdtri(rank, 4 * each)) / n


def _product_quantile(first: int, second: int, tail: float) -> float:
    """The upper ``tail`` quantile of the product of independent χ² variables with these degrees of freedom."""
    levels = (np.arange(4096) + 0.5) / 4096
    values = chdtri(second, 1 - levels)

    def log_tail(log_product: float) -> float:
        chance = np.mean(chdtrc(first, math.exp(log_product) / values))
        return math.log(max(float(chance), 1e-300)) - math.log(tail)

    return math.exp(brentq(log_tail, math.log(1e-6), math.log(1e9)))


@dataclass(frozen=True)
class Model:
    """Estimated parameters of a spiked covariance, shifted to the side where sensitivities are larger."""

    dimension: int
    rank: int
    signal: float
    noise_variance: float
    least_signal: float
    most_noise: float
    condition: float  # ratio of the largest to the smallest signal

    @classmethod
    def of(
        cls,
        values: Floats,
        deviation: float,
        n: int,
        rank: int,
        signal: float | str,
        noise_variance: float | str,
        condition: float,
    ) -> Model:
        """The model from decreasing eigenvalues with noise of this deviation; given parameters are kept (§7.2)."""
        p, three = len(values), 3 * deviation
        if isinstance(noise_variance, str):
            used = max(1, min(p, n) // 2)  # about as many eigenvalues enter the estimate
            tiny = 1e-6 * max(float(values.max()), three)
            sigma2 = max(bulk_variance(values, p, n, rank), tiny)
            most = sigma2 + three / math.sqrt(used)
        else:
            sigma2 = most = float(noise_variance)
        if isinstance(signal, str):
            gamma = p / n
            mean = max(float(np.mean([_signal(float(v), sigma2, gamma) for v in values[:rank]])), 0.05 * most)
            least = max(_signal(float(values[:rank].min()) - three, most, gamma), 0.05 * most)
            spread = max(float(values[:rank].max()) - sigma2 + three, least)
            return cls(p, rank, mean, sigma2, least, most, spread / least)
        return cls(p, rank, float(signal), sigma2, float(signal), most, condition)


def _signal(value: float, noise_variance: float, gamma: float) -> float:
    """The λ whose sample eigenvalue is (λ + σ²)(1 + γσ²/λ) on average; 0 inside the bulk."""
    excess = value - noise_variance * (1 + gamma)
    square = excess * excess - 4 * gamma * noise_variance**2
    return (excess + math.sqrt(square)) / 2 if excess > 0 and square >= 0 else 0.0


# --- eigenvalues of sample covariances -----------------------------------------------------------------------------


def marchenko_pastur_quantiles(p: int, n: int, within: float = 0.5) -> Floats:
    """The k/(p ∧ n) upper quantiles, k = 1..p ∧ n, of the zero-excluded law for σ² = 1.

    ``within``: the position of a quantile in its cell: the middle by default, or 1 for its end, as printed.
    """
    gamma, m = p / n, min(p, n)
    low, high = (1 - math.sqrt(gamma)) ** 2, (1 + math.sqrt(gamma)) ** 2
    # x = centre + half·cos θ makes the density smooth at both ends
    theta = (np.arange(4096) + 0.5) * (math.pi / 4096)
    x = (low + high) / 2 + (high - low) / 2 * np.cos(theta)
    density = np.sin(theta) ** 2 / x
    upper = np.cumsum(density)  # x decreases with θ
    return np.interp((np.arange(m) + within) / m, (upper - density / 2) / upper[-1], x)


def bulk_variance(values: Floats, p: int, n: int, spikes: int = 0) -> float:
    """σ² from eigenvalues, decreasing: the middle half of the bulk matched to its Marchenko–Pastur quantiles (§5.3).

    Linear in the eigenvalues: Σ qₖλₖ / Σ qₖ², so noise of deviation s on each gives it a deviation of s/√(Σ qₖ²). Known
    spikes are left out first; the paper leaves them in, which moves the quantiles by r/p.
    """
    m = min(p, n) - spikes
    if m < 1:
        return float(values[-1])
    bulk, quantiles = values[spikes : spikes + m], marchenko_pastur_quantiles(p - spikes, n)[:m]
    first, last = m // 4, max(math.ceil(3 * m / 4), m // 4 + 1)
    return float(bulk[first:last] @ quantiles[first:last] / (quantiles[first:last] @ quantiles[first:last]))


def printed_bulk_variance(values: Floats, p: int, n: int) -> float:
    """σ̂² of §5.3 as printed: Σ qₖλₖ/Σ qₖ² over (p ∧ n)/4 ≤ k ≤ 3(p ∧ n)/4, spikes counted among the eigenvalues."""
    m = min(p, n)
    used = slice(max(math.ceil(m / 4), 1) - 1, max(math.floor(3 * m / 4), 1))
    quantiles = marchenko_pastur_quantiles(p, n, within=1.0)[used]
    return float(quantiles @ values[used] / (quantiles @ quantiles))


def printed_rank(noisy: Floats) -> int:
    """r̂ of §7.1: the k for which the ratio of one noisy eigenvalue to the next is largest, of R + 1 of them."""
    with np.errstate(divide="ignore"):
        return 1 + int(np.argmax(noisy[:-1] / noisy[1:]))


def count_spikes(values: Floats, p: int, n: int, noise: float, rule: str = "edge") -> int:
    """The number of spikes that noisy eigenvalues show, at least 1 and at most half of them (or p − 1).

    "edge": those above the upper edge of the bulk, σ²(1 + √(p/n))², plus a margin: 15%, and the 99% quantile of noise
    of deviation ``noise``. σ² is `bulk_variance`, estimated again without the spikes until their number does not
    change. "ratio": the k for which (λₖ + c)/(λₖ₊₁ + c) is largest (§7.1), where c is three deviations of the noise.
    Without c a ratio of two eigenvalues that are mere noise could be the largest.
    """
    most = max(1, min(p - 1, min(p, n) // 2))
    if rule == "ratio":
        lifted = np.maximum(values[: most + 1], 0.0) + max(3 * noise, 1e-300)
        return 1 + int(np.argmax(lifted[:-1] / lifted[1:])) if len(lifted) > 1 else 1
    return max(1, _spikes_above(values, p, n, np.full(most, noise * float(-ndtri(0.01 / p)))))


def spikes_in_noise(covariance: Floats, noise_map: Floats, n: int, rule: str = "edge") -> int:
    """The number of spikes of a noisy covariance of n rows: 0 up to half of its columns.

    Let B be the ``noise_map``. The norm of the noise on a subspace P is at most about ‖PB‖·‖PB‖_F/√p (Chevet 1978), and
    is taken to be at least 2‖PB‖²/√p, because the noise of one column may be large. The k-th direction is compared with
    the noise on the complement of the k − 1 before it. So noise on large directions, which may have another unit, does
    not hide small ones. The rules are those of `count_spikes`.
    """
    known = noise_map.any(axis=1)  # columns without a known scale are left out
    if known.sum() < 2:
        return 0
    covariance, noise_map, p = covariance[np.ix_(known, known)], noise_map[known], int(known.sum())
    values, directions = symmetric_eigh(covariance)
    most = max(1, min(p - 1, min(p, n) // 2))
    margins, turned = np.full(most, math.inf), directions @ noise_map
    for k in range(most):
        longest = float(np.linalg.norm(turned[k:], 2))
        margins[k] = longest * max(float(np.linalg.norm(turned[k:])), 2 * longest) / math.sqrt(p)
        if values[k] < margins[k]:
            break  # the following ones are not above the noise either
    if rule == "ratio":
        lifted = np.maximum(values[: most + 1], 0.0) + max(float(margins[0]), 1e-300)
        return (1 + int(np.argmax(lifted[:-1] / lifted[1:]))) if values[0] > margins[0] else 0
    return _spikes_above(values, p, n, margins)


def _spikes_above(values: Floats, p: int, n: int, margins: Floats) -> int:
    """How many of the first eigenvalues exceed the edge of the bulk by their margins."""
    spikes, most = 0, len(margins)
    for _ in range(most):
        sigma2 = max(bulk_variance(values, p, n, spikes), 0.0)
        edges = 1.15 * sigma2 * (1 + math.sqrt(p / n)) ** 2 + margins
        above = int(np.argmin(np.append(values[:most] > edges, False)))
        if above <= spikes:
            break
        spikes = above
    return spikes
