"""The score map: the distribution of rows on the plane of two released components, as cell counts and class centres.

Guarantee: ε-DP (δ = 0) for every data set, under replacement and under addition and removal, with exact integer
statistics and exact discrete Laplace noise. Proof: plane, window, grid and list of classes are functions of a release
and of public facts. One pass gives

- the counts of the cells, with ℓ1 sensitivity 2 (replace) or 1 (add/remove), because a row is in at most one cell;
- for each class, if there are any, the weighted count and the sum of clipped positions, with ℓ1 sensitivity 2(C + L) or
  C + L, because a row adds to at most one class (`stats.cells`), however many classes there are;
- under addition and removal the number of rows, with sensitivity 1.

Each gets discrete Laplace noise of scale sensitivity/share, so each costs its share of ε, and shares add up.

Why Laplace noise even if δ > 0 is allowed: one row changes at most two cells, so ℓ1 and ℓ2 sensitivity are nearly the
same. Then Laplace noise of √2·2/ε is below Gaussian noise of √2/μ(ε, δ) for every ε at usual δ.

Why class centres are not computed from cells: that would add up the noise of all cells, while the sum of clipped
positions has the noise of one number. The rhombus |x|/a + |y|/b ≤ 1 is the unit ball of the ℓ1 norm, for which Laplace
noise is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.curator import Curator, DataCurator, Purpose
from dpeigen.privacy import Budget, Cost, Randomness, Relation, Spend, allocate
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.randomness import check_scale
from dpeigen.questions import CellCounts, ClassSums, Count
from dpeigen.sources import Source
from dpeigen.stats.cells import COUNT_WEIGHT, PlaneView, cell_sensitivity, class_sensitivity
from dpeigen.stats.lattice import LEVELS

__all__ = [
    "CLASSES",
    "DENSITY",
    "FEWEST_CELLS",
    "MOST_CELLS",
    "ROWS",
    "MapEstimate",
    "MapTask",
    "cells_for",
    "estimate_map",
    "run_map",
]

DENSITY, CLASSES, ROWS = Purpose.DENSITY, Purpose.CLASSES, Purpose.ROWS
FEWEST_CELLS, MOST_CELLS = 8, 64
_COUNT_SHARE = 0.05
_ROWS_PER_CELL = 10.0  # Qardaji, Yang, Li 2013: as many cells as give about 10/ε rows in each
_USUAL_ROWS = 10_000  # assumed if the number of rows is neither public nor released


@dataclass(frozen=True)
class MapTask:
    """The public facts of a map."""

    epsilon: float
    relation: Relation
    view: PlaneView
    by_class: bool  # whether there is a density for each class
    cells: int
    density_share: float  # of ε; the rest is for the classes

    @property
    def groups(self) -> int:
        return self.view.n_classes if self.by_class else 1

    def shares(self) -> dict[Purpose, Cost]:
        """ε by purpose."""
        main = {DENSITY: self.density_share if self.view.n_classes else 1.0}
        if self.view.n_classes:
            main[CLASSES] = 1.0 - self.density_share
        if self.relation is Relation.ADD_REMOVE:
            main[ROWS] = _COUNT_SHARE
        return allocate(Budget(self.epsilon), main=main)

    def spends(self) -> tuple[Spend, ...]:
        """The record of what is paid."""
        return tuple(Spend(purpose.value, "discrete Laplace", cost) for purpose, cost in self.shares().items())

    def check(self) -> None:
        """Refuse an ε whose noise does not fit 64-bit integers."""
        check_scale(max(self.scales().values()))

    def scales(self) -> dict[Purpose, float]:
        """Laplace scales by purpose, in the units of each statistic."""
        sizes = {DENSITY: cell_sensitivity(self.relation), CLASSES: class_sensitivity(self.relation), ROWS: 1}
        return {name: sizes[name] / pure_epsilon(cost) for name, cost in self.shares().items()}


@dataclass(frozen=True)
class MapEstimate:
    """Released numbers only."""

    counts: NDArray[np.int64]  # groups × cells × cells
    class_counts: Floats
    class_sums: Floats  # classes × 2, in units of ``clip``
    n_rows: float  # public or released
    split: tuple[Spend, ...] = ()  # what was spent; the curator's record


def cells_for(n_rows: float | None, epsilon: float, relation: Relation, groups: int) -> int:
    """Cells along an axis, from public facts: √(n·ε/10) for one group of n rows, between 8 and 64."""
    n = (n_rows or _USUAL_ROWS) / groups
    wanted = math.sqrt(n * epsilon / cell_sensitivity(relation) / _ROWS_PER_CELL)
    return int(np.clip(round(wanted), FEWEST_CELLS, MOST_CELLS))


def estimate_map(curator: Curator, task: MapTask) -> MapEstimate:
    """Ask for the counts and, if paid for, the sums of the classes and the number of rows, in one pass."""
    costs = task.shares()
    facts = (task.view, task.cells, task.by_class)
    found = curator.measure(CellCounts(*facts), purpose=DENSITY, cost=costs[DENSITY])
    sums = np.zeros((task.view.n_classes, 3))
    if task.view.n_classes:
        sums = curator.measure(ClassSums(*facts), purpose=CLASSES, cost=costs[CLASSES])
    n_rows = found.rows
    if n_rows is None:
        n_rows = curator.measure(Count(CellCounts(*facts)), purpose=ROWS, cost=costs[ROWS])
    return MapEstimate(found.counts, sums[:, 0] / COUNT_WEIGHT, sums[:, 1:] / LEVELS, n_rows)


def run_map(source: Source, task: MapTask, rng: Randomness) -> MapEstimate:
    """The map of the rows of a source, with the record of what was spent."""
    curator = DataCurator(source, task.relation, task.shares(), Budget(task.epsilon), rng)
    return replace(estimate_map(curator, task), split=curator.split)
