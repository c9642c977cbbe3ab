"""Counts of rows that are far out, in cells that describe their two largest entries.

Guarantee: the stated cost, for every data set, with exact integers. A row is in at most one cell (`stats.far_rows`), so
the counts of all cells have ℓ1 sensitivity 2 (replace) or 1 (add/remove). Every cell gets discrete Laplace noise of
scale 2/ε or 1/ε, including empty cells. For differences of rows, one pair is replaced or added: 2 for both relations,
see `questions.columns`.

Counts are whole numbers. At a large ε noise of this law is 0 in nearly every cell: it is at least 1 with probability
below e^(−ε/2) (replace). So single rows can be counted without error, which noise on a sum cannot do: its scale is the
square of the longest row, divided by ε.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen._types import Integers
from dpeigen.privacy import Cost, PureCost, Randomness, Relation
from dpeigen.privacy.noise import perturb
from dpeigen.privacy.randomness import Generator, SeededRandomness
from dpeigen.questions.base import People, Question, plain_noise
from dpeigen.stats.far_rows import FarCells, number_of_cells
from dpeigen.stats.frame import Frame

__all__ = ["FarRows", "cost_of_far_rows"]

_SAMPLE = 20_000  # rows that are drawn for a larger simulated population


@dataclass(frozen=True)
class FarRows(Question[Integers]):
    """The number of rows in each cell of `stats.far_rows`; noise can make it negative."""

    rows: Frame

    @property
    def view(self) -> Frame:
        return self.rows

    @property
    def reads(self) -> tuple[Hashable | Frame, ...]:
        return "far rows", self.rows

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    def statistic(self) -> FarCells:
        return FarCells(self.rows)

    def answer(self, found: FarCells, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Integers:  # noqa: ARG002
        moved = _moved(relation, pairs=self.rows.pairs)
        return np.asarray(perturb(found.counts, cost, l2=math.sqrt(moved), l1=float(moved), rng=rng))

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Integers:
        found, terms = self.statistic(), people.terms(self.rows)
        found.tally(people.sample(self.rows, min(terms, _SAMPLE)))
        if found.count < terms:
            found.counts = rng.poisson(found.counts * (terms / found.count))
        return self.answer(found, None, cost, relation, SeededRandomness(rng))


def cost_of_far_rows(d: int, relation: Relation, wrong: float) -> PureCost:
    """The cost at which noise shows a row in an empty cell with probability ``wrong`` at most, for d columns."""
    return PureCost(_moved(relation, pairs=False) * math.log(number_of_cells(d) / wrong))


def _moved(relation: Relation, *, pairs: bool) -> int:
    """The most that one row can change all counts together."""
    return 2 if relation is Relation.REPLACE or pairs else 1
