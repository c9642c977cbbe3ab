"""The mean of clipped rows.

Guarantee: the stated cost, for every data set. Σz on the lattice has ℓ2 sensitivity 2·L (replace) or L (add/remove) and
√d times that in ℓ1; exact discrete noise. Under addition and removal the number of rows is released together with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpeigen._types import Floats
from dpeigen.privacy import Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import LatticeSum, People, noisy_sums, simulated_sums
from dpeigen.stats import RowSums
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.moments import FINER

__all__ = ["ClippedMean", "NoisyMean"]

_COUNT_UNIT = int(LEAST_SENSITIVITY) // 4


@dataclass(frozen=True)
class NoisyMean:
    """A released mean in the frame's units, and the expected norm of its noise."""

    mean: Floats
    error: float


class ClippedMean(LatticeSum[NoisyMean]):
    """The mean of lattice rows."""

    kind = "sums"

    def statistic(self) -> RowSums:
        return RowSums(self.lattice)

    def answer(self, found: RowSums, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> NoisyMean:  # noqa: ARG002
        root, reach = math.sqrt(self.lattice.n_columns), self._reach(relation)
        noisy, count = noisy_sums(
            found.fine, found.count, cost, relation, l2=reach, l1=reach * root, unit=_COUNT_UNIT,
            rows_per_term=self.view.rows_per_term, rng=rng,
        )  # fmt: skip
        unit = self.lattice.step / FINER / count
        return NoisyMean(noisy * unit, self._deviation(cost, relation) * root * unit)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> NoisyMean:
        root, reach, terms = math.sqrt(self.lattice.n_columns), self._reach(relation), people.terms(self.view)
        unit = self.lattice.step / FINER
        total = people.mean(self.view, self.lattice.radius) * (terms / unit)
        noisy, count = simulated_sums(
            total, terms, cost, relation, l2=reach, l1=reach * root, unit=_COUNT_UNIT, rng=rng
        )
        return NoisyMean(noisy * (unit / count), self._deviation(cost, relation) * root * unit / count)

    def _reach(self, relation: Relation) -> float:
        return float(LEVELS * FINER) * (2 if relation is Relation.REPLACE else 1)

    def _deviation(self, cost: Cost, relation: Relation) -> float:
        """The standard deviation of the noise on an entry of the sum, in grid steps; public."""
        reach = self._reach(relation)
        if isinstance(cost, GaussianCost):
            return reach / cost.mu
        return math.sqrt(2 * self.lattice.n_columns) * reach / pure_epsilon(cost)
