"""The fraction of missing cells in each column, or of rows in which two columns are both missing.

Guarantee: the stated cost, for every data set. One row (or all rows of one person, or a pair) changes each of c counts
by at most 1 (`stats.holes`): ℓ2 sensitivity √c, ℓ1 sensitivity c, for both relations. Under addition and removal the
number of rows is released together with them. Exact discrete noise.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.noise import noise_scale
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, Question, noisy_sums, plain_noise, simulated_sums
from dpeigen.stats.frame import Frame
from dpeigen.stats.holes import WHOLE, HoleCounts

__all__ = ["HoleShares", "NoisyShares"]

_UNIT = int(LEAST_SENSITIVITY)  # grid steps per row


@dataclass(frozen=True)
class NoisyShares:
    """Released fractions of missing cells, not clipped to [0, 1], and the standard deviation of their noise."""

    shares: Floats
    deviation: float


@dataclass(frozen=True)
class HoleShares(Question[NoisyShares]):
    """The fraction of rows (or pairs) with a missing cell in each column; ``together``: in both columns i < j."""

    rows: Frame
    together: bool = False

    @property
    def view(self) -> Frame:
        return self.rows

    @property
    def reads(self) -> tuple[Hashable | Frame, ...]:
        return "holes", self.rows

    @property
    def counts(self) -> int:
        """The number of fractions."""
        d = self.rows.n_features
        return d * (d - 1) // 2 if self.together else d

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    def statistic(self) -> HoleCounts:
        return HoleCounts(self.rows)

    def answer(self, found: HoleCounts, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> NoisyShares:  # noqa: ARG002
        d, (l2, l1) = self.rows.n_features, self._reach
        values = found.together[np.triu_indices(d, 1)] if self.together else np.diag(found.together)
        values = values.astype(object) * (_UNIT // WHOLE)
        noisy, count = noisy_sums(
            values,
            found.count,
            cost,
            relation,
            l2=l2,
            l1=l1,
            unit=_UNIT,
            rows_per_term=self.rows.rows_per_term,
            rng=rng,
        )
        return NoisyShares(noisy / (_UNIT * count), self._deviation(cost, relation) / count)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> NoisyShares:
        (l2, l1), terms = self._reach, people.terms(self.rows)  # simulated rows have no missing cells
        sums, count = simulated_sums(np.zeros(self.counts), terms, cost, relation, l2=l2, l1=l1, unit=_UNIT, rng=rng)
        return NoisyShares(sums / (_UNIT * count), self._deviation(cost, relation) / count)

    @property
    def _reach(self) -> tuple[float, float]:
        """ℓ2 and ℓ1 sensitivity in grid steps."""
        return math.sqrt(self.counts) * _UNIT, float(self.counts * _UNIT)

    def _deviation(self, cost: Cost, relation: Relation) -> float:
        """The standard deviation of the noise on a count, in rows; public."""
        joined, (l2, l1) = relation is Relation.ADD_REMOVE, self._reach
        scale = noise_scale(cost, l2=math.hypot(l2, _UNIT * joined), l1=l1 + _UNIT * joined) / _UNIT
        return scale if isinstance(cost, GaussianCost) else math.sqrt(2) * scale
