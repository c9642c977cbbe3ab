"""Mean squares of bounded scores.

Guarantee: the stated cost, for every data set. The scores are lattice rows of radius r (`stats.lattice`). The sums of
their squares, column by column, have ℓ2 sensitivity √2·r² (replace) or r² (add/remove), and ℓ1 sensitivity 2·r² or r².
Exact discrete noise. Under addition and removal the number of rows is released together with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpeigen._types import Floats
from dpeigen.privacy import Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.noise import noise_scale
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import LatticeSum, People, noisy_sums, simulated_sums
from dpeigen.stats import SquareSums
from dpeigen.stats.lattice import LEVELS

__all__ = ["MeanSquares", "NoisySquares"]

_COUNT_UNIT = LEVELS**2 // 4


@dataclass(frozen=True)
class NoisySquares:
    """Released mean squares of the columns in the frame's units, and the number of terms, public or released."""

    squares: Floats
    count: float
    deviation: float = 0.0  # of the noise on each mean square


class MeanSquares(LatticeSum[NoisySquares]):
    """Mean squares of lattice rows, column by column."""

    kind = "squares"

    def statistic(self) -> SquareSums:
        return SquareSums(self.lattice)

    def answer(self, found: SquareSums, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> NoisySquares:  # noqa: ARG002
        l2, l1 = self._reach(relation)
        noisy, count = noisy_sums(
            found.squares, found.count, cost, relation, l2=l2, l1=l1, unit=_COUNT_UNIT,
            rows_per_term=self.view.rows_per_term, rng=rng,
        )  # fmt: skip
        unit = self.lattice.step**2 / count
        return NoisySquares(noisy * unit, count, self._deviation(cost, relation) * unit)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> NoisySquares:
        (l2, l1), unit, terms = self._reach(relation), self.lattice.step**2, people.terms(self.view)
        total = people.squares(self.view, self.lattice.radius) * (terms / unit)
        noisy, count = simulated_sums(total, terms, cost, relation, l2=l2, l1=l1, unit=_COUNT_UNIT, rng=rng)
        return NoisySquares(noisy * (unit / count), count, self._deviation(cost, relation) * (unit / count))

    def _deviation(self, cost: Cost, relation: Relation) -> float:
        """The standard deviation of the noise on a sum, in grid steps squared; public."""
        l2, l1 = self._reach(relation)
        return noise_scale(cost, l2=l2, l1=l1) * (1.0 if isinstance(cost, GaussianCost) else math.sqrt(2))

    @staticmethod
    def _reach(relation: Relation) -> tuple[float, float]:
        """ℓ2 and ℓ1 sensitivity in grid steps squared."""
        whole, replaced = float(LEVELS**2), relation is Relation.REPLACE
        return (math.sqrt(2) * whole, 2 * whole) if replaced else (whole, whole)
