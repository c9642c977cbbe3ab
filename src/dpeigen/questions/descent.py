"""A subspace by noisy gradient descent on spatial signs, started from the second moment of the signs.

Guarantee. The start is the second moment of signs of differences (`questions.moment`). A step adds Gaussian noise of a
stated deviation to Σ (Qz/max(|Qz|, flat))(Vᵀz)ᵀ over all pairs, or over a random part of them. Each term has norm at
most 1, so replacing a row moves the sum by at most 2, plus the effect of rounding (`reach`). If all steps see every
pair, their joint μ is √steps·reach/deviation. Steps on random parts are accounted for by `privacy.subsampling`. Noise
is continuous and rounded to a grid ("idealised"). After Maunu et al. 2022, as printed in Kim and Jung 2025, Algorithm
3.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import ApproximateCost, Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.noise import continuous_grid
from dpeigen.privacy.randomness import Generator, SeededRandomness
from dpeigen.privacy.subsampling import subsampled_epsilon
from dpeigen.questions.base import People, Question
from dpeigen.questions.gathered import Gathered
from dpeigen.questions.values import Matrix
from dpeigen.stats import Lattice
from dpeigen.stats.frame import RowView
from dpeigen.stats.lattice import LEVELS

__all__ = ["UNIT", "Descent", "gradient_reach", "noisy_gradient"]

_FLAT = 2.0**-10  # least divisor of residuals: makes the gradient continuous in the row
UNIT = 2**32  # grid steps per unit of the gradient
_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Descent(Question[Floats]):
    """An orthonormal basis (columns) after noisy steps from a released start.

    ``rates``: the step sizes on the mean gradient. ``part``: the number of pairs that each step draws out of ``pairs``.
    ``deviation``: the standard deviation of the noise on a sum of gradients.
    """

    lattice: Lattice
    start: Matrix
    rates: tuple[float, ...]
    part: int
    pairs: int
    deviation: float

    numerics: ClassVar[Numerics] = "idealised"
    gathers: ClassVar[bool] = True

    @property
    def view(self) -> RowView:
        return self.lattice.frame

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "signs", self.lattice

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return "Gaussian steps"

    def statistic(self) -> Gathered:
        return Gathered(self.lattice.frame, self.lattice)

    def answer(self, found: Gathered, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Floats:  # noqa: ARG002
        if relation is not Relation.REPLACE:
            raise AssertionError("the proof is for a replaced row")
        self._check(cost)
        return self._run(found.table() / LEVELS, rng)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Floats:  # noqa: ARG002
        rows = people.sample(self.view, self.pairs)
        lengths = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        return self._run(rows / lengths, SeededRandomness(rng))

    def _check(self, cost: Cost) -> None:
        """Refuse noise that is too small for the cost."""
        d, k = self.start.array.shape
        reach = gradient_reach(d, k, self.part)
        if isinstance(cost, GaussianCost):
            within = reach * math.sqrt(len(self.rates)) / self.deviation <= cost.mu * _SLACK
        else:
            assert isinstance(cost, ApproximateCost)
            noise = self.deviation / reach
            real = subsampled_epsilon(self.part, self.pairs, len(self.rates), noise, cost.delta)
            within = real <= cost.epsilon * _SLACK
        if not within:
            raise AssertionError("these steps are worth more than what pays for them")

    def _run(self, signs: Floats, rng: Randomness) -> Floats:
        v, n = self.start.array, len(signs)
        grid = continuous_grid(self.deviation * UNIT) / UNIT
        for rate in self.rates:
            part = signs if self.part >= n else signs[rng.permutation(n)[: self.part]]
            step = noisy_gradient(_gradient(part, v), self.deviation, grid, rng) / len(part)
            left, _, right = np.linalg.svd(v + rate * step, full_matrices=False)
            v = left @ right
        return v


def noisy_gradient(gradient: Floats, deviation: float, grid: float, rng: Randomness) -> Floats:
    """The released sum of gradients, on a public grid."""
    noisy: Floats = gradient + deviation * rng.normal(gradient.shape)
    return np.rint(noisy / grid) * grid


def gradient_reach(d: int, k: int, part: int) -> float:
    """The sensitivity of the sum of ``part`` gradients of d × k entries to a replaced row, rounding included."""
    return 2.0 + 2 * part * _allowance(d, k, part) + d * k / UNIT


def _allowance(d: int, k: int, size: int) -> float:
    """The most by which rounding moves one term of the gradient.

    z has norm 1 and V has orthonormal columns, up to 4d·2^−53. The error of Qz is at most 8(d + k)·2^−53, and it is
    divided by at least `_FLAT`. The sum over terms of norm at most 1 takes 2^12 additions in a chunk and one per chunk.
    """
    return 2.0**-53 * (16 * (d + k) / _FLAT + 2**13 + size / 2**11)


def _gradient(signs: Floats, v: Floats) -> Floats:
    """Σ (Qz/max(|Qz|, flat))(Vᵀz)ᵀ; every term has norm at most 1."""
    total = np.zeros_like(v)
    for at in range(0, len(signs), 2**12):
        z = signs[at : at + 2**12]
        scores = z @ v
        residual = z - scores @ v.T
        length = np.sqrt(np.einsum("ij,ij->i", residual, residual))
        total += residual.T @ (scores / np.maximum(length, _FLAT)[:, None])
    return total
