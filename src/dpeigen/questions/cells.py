"""Counts of rows in cells of a plane, and, for each class, a weighted count and the sum of positions; Laplace noise.

Guarantee: ε-DP for every data set, under replacement and under addition and removal, with exact integers. A row is in
at most one cell, so cell counts have ℓ1 sensitivity 2 (replace) or 1 (add/remove). A row adds to at most one class, so
class sums have 2(C + L) or C + L (`stats.cells`), however many classes there are. Both questions are answered from one
pass, each for its own share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.noise import perturb
from dpeigen.privacy.randomness import Generator, SeededRandomness
from dpeigen.questions.base import Answer, People, Question, plain_noise
from dpeigen.stats.cells import PlaneCells, PlaneView, cell_sensitivity, class_sensitivity
from dpeigen.stats.frame import RowView

__all__ = ["CellCounts", "ClassSums", "NoisyCells"]


@dataclass(frozen=True)
class _OfPlane(Question[Answer]):
    """A question about rows projected onto a plane; ``by_class``: with separate cells for each class."""

    plane: PlaneView
    cells: int
    by_class: bool

    @property
    def view(self) -> RowView:
        return self.plane.frame

    def look(self, block: Any) -> Any:
        return self.plane.scores(np.asarray(block))

    @property
    def reads(self) -> tuple[Any, ...]:
        return "cells", self.plane, self.cells, self.by_class

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    def statistic(self) -> PlaneCells:
        return PlaneCells(self.plane, self.cells, by_class=self.by_class)


@dataclass(frozen=True)
class NoisyCells:
    """Released counts (groups × cells × cells), and the number of rows if it is public."""

    counts: NDArray[np.int64]
    rows: float | None


@dataclass(frozen=True)
class CellCounts(_OfPlane[NoisyCells]):
    """The number of rows in each cell."""

    def answer(self, found: PlaneCells, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> NoisyCells:  # noqa: ARG002
        return self._noisy(found, cost, relation, rng)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> NoisyCells:  # noqa: ARG002
        return self._noisy(self.statistic(), cost, relation, SeededRandomness(rng))

    def _noisy(self, found: PlaneCells, cost: Cost, relation: Relation, rng: Randomness) -> NoisyCells:
        size = cell_sensitivity(relation)
        noisy = perturb(found.counts.ravel(), cost, l2=size, l1=size, rng=rng).reshape(found.counts.shape)
        return NoisyCells(noisy, float(found.count) if relation is Relation.REPLACE else None)


@dataclass(frozen=True)
class ClassSums(_OfPlane[Floats]):
    """The weighted count and the sum of clipped positions of each class: classes × 3."""

    def answer(self, found: PlaneCells, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Floats:  # noqa: ARG002
        return self._noisy(found.sums, cost, relation, rng)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Floats:  # noqa: ARG002
        return self._noisy(self.statistic().sums, cost, relation, SeededRandomness(rng))

    def _noisy(self, sums: Any, cost: Cost, relation: Relation, rng: Randomness) -> Floats:
        reach = class_sensitivity(relation)
        return perturb(sums.ravel(), cost, l2=reach, l1=reach, rng=rng).reshape(-1, 3).astype(np.float64)
