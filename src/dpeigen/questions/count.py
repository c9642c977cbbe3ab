"""The number of rows, if it is private.

Guarantee: the stated cost, for every data set: one row more or less changes it by 1. Exact discrete noise in fine
steps. It is answered from the statistic of another question, which counts its rows anyway.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen.privacy import Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.noise import perturb
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, Question, plain_noise
from dpeigen.stats import Statistic
from dpeigen.stats.frame import RowView

__all__ = ["Count"]

_UNIT = int(LEAST_SENSITIVITY)


@dataclass(frozen=True)
class Count(Question[float]):
    """The number of terms that the statistic of ``of`` sums over, at least 1."""

    of: Question[Any]

    @property
    def view(self) -> RowView:
        return self.of.view

    @property
    def shuffled(self) -> bool:  # type: ignore[override]
        return self.of.shuffled

    @property
    def gathers(self) -> bool:  # type: ignore[override]
        return self.of.gathers

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return self.of.reads

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    def statistic(self) -> Statistic:
        return self.of.statistic()

    def answer(self, found: Any, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> float:  # noqa: ARG002
        if relation is not Relation.ADD_REMOVE:
            raise AssertionError("under replacement the number of rows is public")
        value = np.array([found.count * _UNIT], dtype=object)
        return max(1.0, float(perturb(value, cost, l2=_UNIT, l1=_UNIT, rng=rng)[0]) / _UNIT)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> float:  # noqa: ARG002
        noise = rng.normal() / cost.mu if isinstance(cost, GaussianCost) else rng.laplace() / pure_epsilon(cost)
        return max(1.0, people.terms(self.view) + float(noise))
