"""Which share of the cells is missing, column by column, or in two columns at once. Paid for.

Guarantee: worth its cost for every data set. One row (or all rows of one person, or a pair) changes each of c counts by
at most 1 (`stats.holes`): ℓ2 sensitivity √c, ℓ1 sensitivity c, for both relations. Under addition and removal the
number of rows is released along with them. Exact discrete noise.
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

_UNIT = int(LEAST_SENSITIVITY)  # grid steps of one row


@dataclass(frozen=True)
class NoisyShares:
    """Released shares of holes, unclipped, and the deviation of their noise."""

    shares: Floats
    deviation: float


@dataclass(frozen=True)
class HoleShares(Question[NoisyShares]):
    """Of all rows (or pairs), those with a hole in each column; or, ``together``, in each two columns i < j."""

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
        """How many shares there are."""
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
        (l2, l1), terms = self._reach, people.terms(self.rows)  # who have no holes
        sums, count = simulated_sums(np.zeros(self.counts), terms, cost, relation, l2=l2, l1=l1, unit=_UNIT, rng=rng)
        return NoisyShares(sums / (_UNIT * count), self._deviation(cost, relation) / count)

    @property
    def _reach(self) -> tuple[float, float]:
        """ℓ2 and ℓ1 sensitivity in steps."""
        return math.sqrt(self.counts) * _UNIT, float(self.counts * _UNIT)

    def _deviation(self, cost: Cost, relation: Relation) -> float:
        """Of the noise on a count, in rows; public."""
        joined, (l2, l1) = relation is Relation.ADD_REMOVE, self._reach
        scale = noise_scale(cost, l2=math.hypot(l2, _UNIT * joined), l1=l1 + _UNIT * joined) / _UNIT
        return scale if isinstance(cost, GaussianCost) else math.sqrt(2) * scale
