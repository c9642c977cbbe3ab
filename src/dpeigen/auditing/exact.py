"""Privacy losses that are computed, not sampled, for mechanisms with a known density.

Each check takes the scale that the library would use for a budget and returns the exact ε of the worst neighbours at
that δ. It must not exceed the stated ε (and should be close to it, otherwise the mechanism adds too much noise).

- Gaussian: the hockey-stick divergence of N(0, σ²) and N(Δ, σ²) by quadrature.
- Discrete Laplace: masses on the integers.
- Matrix Laplace, one column: Laplace. Two columns: symmetric 2×2 matrices are the cone w₀ ≥ |w| in R³ (w₀ half the
  trace, w the traceless part), the Wishart law with 3 degrees of freedom has density ∝ e^{−w₀/s} on it, and
  W₁ − W₂ has density f(x₀, x) ∝ e^{−x₀/s}·∫ exp(−(2/s)·max(|w|, |w + x| − x₀)) dw over the plane.
- Bingham: the circle in closed form; the sphere in R³ by quadrature of its normaliser.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ive

from dpeigen._types import Floats
from dpeigen.auditing.events import (
    bingham_circle_log_density,
    exact_epsilon_discrete,
    gaussian_log_density,
    hockey_stick_density,
)
from dpeigen.privacy import gaussian_sigma

__all__ = ["CHECKS", "ExactLoss", "bingham", "exact_losses", "gaussian", "laplace", "matrix_laplace"]

_DELTA = 1e-6


@dataclass(frozen=True)
class ExactLoss:
    """The largest loss found between the worst neighbours, and the stated one."""

    name: str
    stated: float
    delta: float
    loss: float

    @property
    def refuted(self) -> bool:
        return self.loss > self.stated * (1 + 1e-6)


def gaussian(epsilon: float, factor: float = 1.0) -> ExactLoss:
    """Isotropic noise for a change of length √2; ``factor`` scales the noise, to test that the check can fail."""
    shift = math.sqrt(2)
    sigma = factor * gaussian_sigma(epsilon, _DELTA, shift)

    def log_delta(e: float) -> float:
        kink = shift / 2 + e * sigma**2 / shift  # where the ratio of the densities is e^ε
        first, second = gaussian_log_density(sigma, shift), gaussian_log_density(sigma)
        found = hockey_stick_density(first, second, e, -12 * sigma, shift + 12 * sigma, [kink])
        return math.log(max(found, 1e-300)) - math.log(_DELTA)

    top = epsilon
    while log_delta(top) > 0:
        top *= 2
    return ExactLoss("gaussian", epsilon, _DELTA, brentq(log_delta, 0.0, top + 1e-9) if log_delta(0.0) > 0 else 0.0)


def laplace(epsilon: float, factor: float = 1.0) -> ExactLoss:
    """Discrete Laplace noise for a change of 64 steps, mass by mass."""
    shift, scale = 64, factor * 64 / epsilon
    k = np.arange(-round(60 * scale) - shift, round(60 * scale) + 2 * shift)
    first, second = (np.exp(-np.abs(k - c) / scale) for c in (0, shift))
    # Both have the same total; dividing by it would only add rounding errors.
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = (first > 0) & (second > 0)
    total = math.tanh(1 / (2 * scale))
    return ExactLoss("laplace", epsilon, 0.0, exact_epsilon_discrete(first[seen] * total, second[seen] * total))


def _log_difference_density(x0: float, x: float, scale: float, half: Floats, angle: Floats, weights: Floats) -> float:
    """ln f(x₀, (x, 0)) of W₁ − W₂ up to a constant, on a polar grid about the point −x/2."""
    a, b = half * np.cos(angle) - x / 2, half * np.sin(angle)
    larger = np.maximum(np.hypot(a, b), np.hypot(a + x, b) - x0)
    least = float(larger.min())
    return -x0 / scale - 2 * least / scale + math.log(float(np.sum(weights * np.exp(-2 * (larger - least) / scale))))


def matrix_laplace(epsilon: float, columns: int, factor: float = 1.0) -> ExactLoss:
    """e₁e₁ᵀ replaced by e₂e₂ᵀ, or (one column) 1 by 0: the largest log ratio over a grid of outputs."""
    traces = 2 if columns > 1 else 1  # of what is added and what is taken away; one square moves one way only
    scale = factor * traces / (2 * epsilon)
    if columns == 1:
        # A difference of two χ² with 2 degrees of freedom is Laplace of scale 2s; the moment moves by 1.
        return ExactLoss("matrix-laplace, one column", epsilon, 0.0, 1 / (2 * scale))
    nodes, node_weights = np.polynomial.legendre.leggauss(200)
    reach = 30 * scale
    radius, radius_weights = (nodes + 1) * reach / 2, node_weights * reach / 2
    turn = (np.arange(200) + 0.5) * math.pi / 200  # half of the plane: the other is its mirror image
    half, angle = radius[:, None], turn[None, :]
    weights = (radius_weights * radius)[:, None] * np.ones((1, len(turn)))

    def log_density(x0: float, x: float) -> float:
        return _log_difference_density(x0, abs(x), scale, half, angle, weights)

    worst = max(
        abs(log_density(x0, x + 0.5) - log_density(x0, x - 0.5))
        for x in np.linspace(0.0, 12 * scale, 25)
        for x0 in np.array([-1.0, 0.0, 1.0]) * scale
    )
    return ExactLoss("matrix-laplace, two columns", epsilon, 0.0, float(worst))


def bingham(epsilon: float, dimension: int, factor: float = 1.0) -> ExactLoss:
    """Directions ∝ exp(c·uᵀMu), c = ε/2: m rows e₁ of which one becomes e₂, over many m; densities by quadrature."""
    c = epsilon / 2 / factor
    worst = 0.0
    for m in (1, 2, 5, 20, 100, 1000, 10_000):
        for ties in (0, m):
            before, after = np.zeros((2, dimension))
            before[:2], after[:2] = (m, ties), (m - 1, ties + 1)
            worst = max(worst, _bingham_loss(c * before, c * after))
    return ExactLoss(f"Bingham draw, {dimension} columns", epsilon, 0.0, float(worst))


def _bingham_loss(before: Floats, after: Floats) -> float:
    """The largest |ln ratio| of two Bingham densities with the same axes: it is reached at one of them."""
    if len(before) == 2:
        first, second = (bingham_circle_log_density(np.diag(v)) for v in (before, after))
        return max(abs(first(t) - second(t)) for t in (0.0, math.pi / 2))
    change = before - after - (_log_total(before) - _log_total(after))
    return float(np.abs(change).max())


def _log_total(values: Floats) -> float:
    """ln ∫ exp(Σ vᵢuᵢ²) over the sphere in R³, up to a constant: latitude by quadrature, longitude by I₀."""
    a, b, c = values
    gap = abs(a - b) / 2

    def log_inner(z: float) -> float:
        flat = 1 - z * z
        return c * z * z + (a + b) / 2 * flat + gap * flat + math.log(float(ive(0, gap * flat)))

    top = max(log_inner(z) for z in np.linspace(0, 1, 2001))
    value = quad(lambda z: math.exp(log_inner(z) - top), 0, 1, limit=1000, points=[1e-3, 1e-2, 0.1, 0.9, 0.99, 0.999])
    return top + math.log(value[0])


CHECKS: tuple[Callable[[float], ExactLoss], ...] = (
    gaussian,
    laplace,
    lambda epsilon: matrix_laplace(epsilon, 1),
    lambda epsilon: matrix_laplace(epsilon, 2),
    lambda epsilon: bingham(epsilon, 2),
    lambda epsilon: bingham(epsilon, 3),
)


def exact_losses(epsilon: float) -> list[ExactLoss]:
    """Every check at one stated ε."""
    return [check(epsilon) for check in CHECKS]
