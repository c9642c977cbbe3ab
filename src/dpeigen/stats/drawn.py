"""What directions drawn by the exponential mechanism show about a matrix, by drawing such directions anew.

A moment C = VΛVᵀ is measured by noisy eigenvalues, and by directions drawn one after the other from exp(cᵢ·uᵀCu). Its
eigenvectors and the directions are related by a rotation Q: direction i is Σⱼ Qᵢⱼvⱼ. The law of Q depends on Λ and c
alone, because turning C turns the draws in the same way. So with Q drawn for likely eigenvalues Λ, the matrix QΛQᵀ, in
axes that start with the released directions, is a likely C. This holds for weak directions too, where angles are large.
Nothing is released about axes orthogonal to all directions except eigenvalues: there Q is uniform.

>>> rng = np.random.Generator(np.random.PCG64(0))
>>> turns = drawn_rotations(np.tile([50.0, 1.0, 0.0], (200, 1)), np.array([1.0]), rng)
>>> bool(np.allclose(turns @ np.swapaxes(turns, 1, 2), np.eye(3)))
True
>>> round(float((turns[:, 0, 0] ** 2).mean()), 2)  # the first direction is close to the first eigenvector
0.98
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.intervals import Spectrum

__all__ = ["NoisyValues", "decreasing", "drawn_rotations", "value_noise"]

_NEWTON = 60  # steps for the envelope; it converges from below in fewer
_MOST_ROUNDS = 2000  # of proposals; on average one of 1.17·√d is accepted


@dataclass(frozen=True)
class NoisyValues(Spectrum):
    """Eigenvalues that were measured with noise of their own, after the errors of the matrix; made decreasing."""

    noise: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # draws × d

    def noisy(self, values: Floats, draws: int | None = None) -> Floats:
        found = np.linalg.eigvalsh(self.errors[:draws] + np.diag(values))[:, ::-1]
        return decreasing(found + self.noise[:draws])

    def _one(self, values: Floats, j: int) -> Floats:
        return self.noisy(values, self._few)[:, j]

    def _quantile(self, draws: Floats, reach: float) -> float:
        """At least as far out as among the draws: Laplace noise has longer tails than normal errors."""
        found, far = super()._quantile(draws, reach), float(np.quantile(draws, ndtr(reach), method="weibull"))
        return max(found, far) if reach > 0 else min(found, far)

    def traces(self) -> Floats:
        return np.asarray(super().traces() + self.noise.sum(axis=1))


def value_noise(law: str, deviation: float, shape: tuple[int, int], rng: Generator) -> Floats:
    """Noise with this deviation, Laplace or Gaussian."""
    drawn = rng.laplace(size=shape) / math.sqrt(2) if law == "laplace" else rng.normal(size=shape)
    return np.asarray(drawn * deviation)


def decreasing(values: Floats) -> Floats:
    """`isotonic_decreasing` of each row at once: entry i is maxₐ min_b of the means from b to a, b ≤ i ≤ a.

    SciPy's takes one row at a time, and there are hundreds of draws.
    """
    d = values.shape[-1]
    sums = np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)
    first, last = np.arange(d)[:, None], np.arange(d)
    means = (sums[..., None, 1:] - sums[..., :-1, None]) / np.maximum(last - first + 1, 1)
    least = np.minimum.accumulate(np.where(first <= last, means, math.inf), axis=-2)  # b ≤ i, for i along the rows
    most = np.maximum.accumulate(np.where(first <= last, least, -math.inf)[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray(np.einsum("...ii->...i", most))


def drawn_rotations(values: Floats, concentrations: Floats, rng: Generator) -> Floats:
    """Draws × d × d orthogonal matrices: directions as rows, in the eigenbasis of matrices with these eigenvalues.

    ``values``: draws × d. After the drawn directions, one for each concentration, rows are uniform.
    """
    count, d = values.shape
    left = values[:, :, None] * np.eye(d)  # the matrices on the subspace that remains, and a basis of it as columns
    basis, rows = np.broadcast_to(np.eye(d), left.shape), []
    for concentration in concentrations[: d - 1]:
        levels, vectors = np.linalg.eigh(left)
        u = (vectors @ _bingham(concentration * (levels[:, -1:] - levels), rng)[:, :, None])[:, :, 0]
        rows.append((basis @ u[:, :, None])[:, :, 0])
        rest = _complements(u)
        basis, left = basis @ rest, np.swapaxes(rest, 1, 2) @ left @ rest
    turned = np.linalg.qr(rng.normal(size=(count, d - len(rows), d - len(rows))))[0]
    return np.concatenate([np.stack(rows, axis=1), np.swapaxes(basis @ turned, 1, 2)], axis=1)


def _bingham(beta: Floats, rng: Generator) -> Floats:
    """One unit vector with density ∝ exp(−Σβᵢuᵢ²) for each row of β, as in `privacy.sphere`; the smallest β is 0."""
    count, d = beta.shape
    b = np.ones((count, 1))
    for _ in range(_NEWTON):  # the root of a convex decreasing function, from below
        inverse = 1 / (b + 2 * beta)
        b = b + np.maximum(inverse.sum(axis=1, keepdims=True) - 1, 0.0) / (inverse**2).sum(axis=1, keepdims=True)
    omega, bound = 1 + 2 * beta / b, ((d - b) / 2 - (d / 2) * np.log(d / b))[:, 0]
    found, missing = np.zeros((count, d)), np.arange(count)
    for _ in range(_MOST_ROUNDS):
        proposed = rng.normal(size=(len(missing), d)) / np.sqrt(omega[missing])
        proposed /= np.linalg.norm(proposed, axis=1, keepdims=True)
        across, inside = np.sum(proposed**2 * beta[missing], axis=1), np.sum(proposed**2 * omega[missing], axis=1)
        kept = np.log(rng.random(len(missing))) < -across + (d / 2) * np.log(inside) + bound[missing]
        found[missing] = proposed  # of those that are never accepted, the last proposal
        missing = missing[~kept]
        if not len(missing):
            break
    return found


def _complements(u: Floats) -> Floats:
    """Bases (columns) of the complements of unit vectors: Householder reflections without the first column."""
    v = u.copy()
    v[:, 0] += np.where(u[:, 0] >= 0, 1.0, -1.0)
    scale = 2 / np.sum(v**2, axis=1)
    return np.asarray((np.eye(u.shape[1]) - v[:, :, None] * v[:, None, :] * scale[:, None, None])[:, :, 1:])
