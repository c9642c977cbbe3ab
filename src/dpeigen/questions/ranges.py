"""The location of each column: the fullest bin of a histogram with a public bin width. No bound is needed.

Guarantee: the stated cost and `failure`, for every data set. In each column a row has one label, the number of its bin.
The histograms of all columns are one mechanism on counts (proof: `privacy.histogram`). The discrete Gaussian or Laplace
noise is scaled to the number of columns, and an empty bin reaches the threshold with probability at most ``failure``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import Cost, GaussianCost, PureCost, Randomness, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.histogram import most_popular, stable_histograms
from dpeigen.privacy.randomness import Generator, SeededRandomness
from dpeigen.questions.base import People, plain_noise
from dpeigen.questions.gathered import OfAllRows
from dpeigen.stats.frame import RowView
from dpeigen.stats.gradients import Bins

__all__ = ["Ranges"]

_SAMPLE = 10_000  # rows in simulations


@dataclass(frozen=True)
class Ranges(OfAllRows[tuple[float | None, ...]]):
    """The middle of the fullest bin of each column; None where no bin stands out."""

    rows: RowView
    width: float
    chance: float  # probability of failure

    @property
    def failure(self) -> float:
        return self.chance

    @property
    def view(self) -> RowView:
        return Bins(self.rows, self.width)

    def mechanism(self, cost: Cost) -> str:
        return f"stability histograms, {plain_noise(cost)}"

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> tuple[float | None, ...]:
        terms = people.terms(self.rows)
        rows = people.sample(self.rows, min(terms, _SAMPLE))
        more = terms / len(rows)  # relative to all rows, noise and threshold are smaller by this factor
        scaled = GaussianCost(cost.mu * more) if isinstance(cost, GaussianCost) else PureCost(pure_epsilon(cost) * more)
        return self._answered(np.floor(rows / self.width), scaled, relation, SeededRandomness(rng))

    def _answered(self, rows: Floats, cost: Cost, relation: Relation, rng: Randomness) -> tuple[float | None, ...]:
        fullest = map(most_popular, stable_histograms(rows, cost, self.chance, relation, rng))
        return tuple(None if label is None else (label + 0.5) * self.width for label in fullest)
