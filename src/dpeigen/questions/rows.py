"""How many rows are used, where each row of a person counts alike and a person has at most m.

Guarantee: worth its cost for every data set under replacement of all rows of one person, who has between 1 and m of
them: it changes by less than m. Exact discrete noise.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.noise import perturb
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, Question, plain_noise
from dpeigen.stats import Frame, Statistic

__all__ = ["RowCount", "RowsUsed"]


@dataclass(frozen=True)
class RowsUsed(Question[float]):
    """The number of rows of all people together, each having at most ``most``; at least 1."""

    rows: Frame
    most: int

    @property
    def view(self) -> Frame:
        return self.rows

    @property
    def reads(self) -> tuple[Hashable | Frame, ...]:
        return "rows used", self.rows

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    def statistic(self) -> RowCount:
        return RowCount(self.rows)

    def answer(self, found: RowCount, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> float:  # noqa: ARG002
        if relation is not Relation.REPLACE:
            raise AssertionError("where the number of people is private, it is released with noise instead")
        value = np.array([found.rows_seen], dtype=object)
        return max(1.0, float(perturb(value, cost, l2=self.most, l1=self.most, rng=rng)[0]))

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> float:  # noqa: ARG002
        noise = self.most * rng.laplace() / pure_epsilon(cost)
        return max(1.0, people.terms(self.rows) * self.most + float(noise))


class RowCount(Statistic):
    """How many rows there are; those that the view refuses are refused."""

    takes_units = True

    def __init__(self, frame: Frame) -> None:
        self.frame, self.rows_seen = frame, 0

    def fresh(self) -> RowCount:
        return RowCount(self.frame)

    def update(self, block: Any) -> RowCount:
        self.frame.image(block.rows)
        self.rows_seen += len(block)
        return self

    def merge(self, other: RowCount) -> RowCount:
        self.rows_seen += other.rows_seen
        return self
