"""Noise for symmetric matrices and integer vectors.

Guarantees (σ and scales in grid steps; A an integer matrix, ‖·‖_F its Frobenius, ‖·‖_* its nuclear norm):

- `symmetric_gaussian`: A + noise is (‖Δ‖_F/σ)-Gaussian DP. The noise is N(0, σ²) on the diagonal and N(0, σ²/2) off it,
  that is, isotropic in the isometric coordinates (diagonal, √2·upper triangle), drawn as exact discrete Gaussians.
- `symmetric_laplace`: A + noise is (‖Δ‖₁/b)-DP, ‖·‖₁ the sum over the upper triangle, exact discrete Laplace.
- `matrix_laplace`: A + W₁ − W₂ is ε-DP when W = s·GGᵀ, G a d×(d+1) standard Gaussian matrix, and s = t/2ε where a
  neighbouring pair differs by P − Q with P, Q positive semi-definite of trace summing to at most t. With d+1
  degrees of freedom the Wishart density is ∝ exp(−tr W/2s) on the cone, so moving it by P changes it by at most
  e^{tr P/2s} where it is positive; W₁ absorbs P and W₂ absorbs Q. Drawn in floating point: "idealised".
- `perturb`: an integer vector plus exact discrete Gaussian (ℓ2) or Laplace (ℓ1) noise, depending on the kind of cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats, Integers
from dpeigen.privacy.budget import Cost, GaussianCost, pure_epsilon
from dpeigen.privacy.randomness import Randomness, check_scale

__all__ = [
    "T",
    "continuous_grid",
    "draw_ahead",
    "matrix_laplace",
    "noise_scale",
    "perturb",
    "perturb_with_count",
    "round_to_grid",
    "symmetric_gaussian",
    "symmetric_laplace",
]

T = TypeVar("T")
_FEW = 128  # up to this many columns, the indices of the upper triangle are cached


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


@lru_cache(maxsize=16)
def _above(d: int) -> tuple[Integers, Integers]:
    return np.triu_indices(d, 1)


def _mirror(diagonal: Integers, upper: Integers, d: int) -> Integers:
    matrix = np.zeros((d, d), dtype=np.int64)
    matrix[_above(d) if d <= _FEW else np.triu_indices(d, 1)] = upper
    matrix += matrix.T
    matrix[np.diag_indices(d)] = diagonal
    return matrix


def symmetric_gaussian(d: int, sigma: float, rng: Randomness, *, isometric: bool = True) -> Integers:
    """Discrete Gaussian noise on symmetric d×d matrices: isotropic, or with σ on every entry of the upper triangle."""
    diagonal = rng.discrete_gaussian(_up(sigma), d)
    off = sigma / math.sqrt(2) if isometric else sigma
    upper = rng.discrete_gaussian(_up(off), d * (d - 1) // 2) if d > 1 else diagonal[:0]
    return _mirror(diagonal, upper, d)


def symmetric_laplace(d: int, scale: float, rng: Randomness) -> Integers:
    """Independent discrete Laplace noise on the upper triangle, mirrored."""
    draws = rng.discrete_laplace(_up(scale), d * (d + 1) // 2)
    return _mirror(draws[:d], draws[d:], d)


def matrix_laplace(d: int, scale: float, rng: Randomness) -> Floats:
    """W₁ − W₂ for independent W = scale·GGᵀ with d+1 degrees of freedom."""
    check_scale(2 * scale * math.sqrt(d + 1))  # the deviation of a diagonal entry
    first, second = rng.normal((d, d + 1)), rng.normal((d, d + 1))
    noise: Floats = scale * (first @ first.T - second @ second.T)
    return (noise + noise.T) / 2


def continuous_grid(scale: float) -> int:
    """The grid, a power of two, to which a sum with continuous noise of this scale is rounded.

    Noise drawn in floating point has 53 significant bits. Its last bits are not random, so added to an exact integer
    they would reveal the integer's last bits. A grid of scale/256 is far coarser than those bits (for d columns an
    entry of the noise is accurate to about d·scale·2^−50) and far finer than the noise.
    """
    return 2 ** max(0, math.floor(math.log2(scale)) - 8)


def round_to_grid(values: NDArray[Any], grid: int) -> NDArray[Any]:
    """Integers rounded to multiples of the grid, in integer arithmetic."""
    return (values + grid // 2) // grid * grid


def perturb(values: NDArray[Any], cost: Cost, *, l2: float, l1: float, rng: Randomness) -> NDArray[Any]:
    """An integer vector with noise for ``cost``, given its ℓ2 and ℓ1 sensitivity in grid steps."""
    draw = rng.discrete_gaussian if isinstance(cost, GaussianCost) else rng.discrete_laplace
    return values + draw(_up(noise_scale(cost, l2=l2, l1=l1)), len(values))


def noise_scale(cost: Cost, *, l2: float, l1: float) -> float:
    """The scale, in grid steps, of noise for ``cost``: Gaussian by the ℓ2, Laplace by the ℓ1 sensitivity."""
    return l2 / cost.mu if isinstance(cost, GaussianCost) else l1 / pure_epsilon(cost)


def perturb_with_count(
    values: NDArray[Any], count: int, cost: Cost, *, l2: float, l1: float, unit: int, rng: Randomness
) -> tuple[NDArray[Any], float]:
    """`perturb` for values and the number of rows, if one row more or less changes both: values, and a count ≥ 1."""
    joined = np.append(values.astype(object), count * unit)
    noisy = perturb(joined, cost, l2=math.hypot(l2, unit), l1=l1 + unit, rng=rng)
    return noisy[:-1], max(1.0, float(noisy[-1]) / unit)


def draw_ahead(draw: Callable[[], T], rng: Randomness) -> Callable[[], T]:
    """Start drawing noise in the background; call the result to get it. Noise depends on public facts only.

    A seeded generator draws in the calling thread, so that its draws keep their order.
    """
    if rng.seeded:
        value = draw()
        return lambda: value
    pool = ThreadPoolExecutor(1)
    future = pool.submit(draw)
    pool.shutdown(wait=False)
    return future.result
