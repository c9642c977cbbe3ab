"""Scale and location of each column: noisy histograms of all columns at once.

Guarantee: the stated cost, for every data set. In each of the d columns asked about, a row falls into at most one cell
(`stats.columns`). So replacing a row changes the counts by at most √(2d) in ℓ2 and 2d in ℓ1; adding or removing it
changes them by √d and d. Every cell gets exact discrete noise, including empty cells.

Sizes are those of differences of two rows, so they do not depend on the column's location. The rows are paired at
random. Replacing a row replaces one pair. Adding a row to an even number of rows either leaves it unpaired, or pairs it
with a row whose former partner becomes unpaired. Adding a row to an odd number completes one more pair. In each case
every pairing is equally likely. So the bounds for replacement hold for both relations.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.noise import noise_scale, perturb
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, Question, plain_noise
from dpeigen.stats.columns import CELLS, ColumnHistogram, Octaves, Sizes, Stretch
from dpeigen.stats.frame import Frame

__all__ = ["ColumnCounts", "NoisyCounts"]

_UNIT = int(LEAST_SENSITIVITY)  # grid steps per row if the noise is Gaussian
_STATISTICS: dict[str, type[ColumnHistogram]] = {"sizes": Sizes, "octaves": Octaves}


@dataclass(frozen=True)
class NoisyCounts:
    """Released counts of rows (or pairs), columns × cells, and the standard deviation of their noise."""

    counts: Floats
    deviation: float

    def joined(self, counts: Floats, deviation: float) -> NoisyCounts:
        """The average of these counts and another measurement of them, weighted by precision."""
        weights = self.deviation**-2, deviation**-2
        total = weights[0] + weights[1]
        return NoisyCounts((weights[0] * self.counts + weights[1] * counts) / total, total**-0.5)


@dataclass(frozen=True)
class ColumnCounts(Question[NoisyCounts]):
    """Counts of framed entries by ``cells`` (`stats.columns`), in these columns only.

    A stretch has ``n_cells`` cells, a public or released number.
    """

    rows: Frame
    cells: Literal["sizes", "octaves", "stretch"]
    columns: tuple[int, ...]
    n_cells: int = CELLS

    @property
    def view(self) -> Frame:
        return self.rows

    @property
    def reads(self) -> tuple[Hashable | Frame, ...]:
        return self.cells, self.rows, self.columns, self.n_cells

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    def statistic(self) -> ColumnHistogram:
        if self.cells == "stretch":
            return Stretch(self.rows, self.columns, self.n_cells)
        return _STATISTICS[self.cells](self.rows, self.columns)

    def scale(self, cost: Cost, relation: Relation) -> float:
        """The scale of the noise on a count, in rows; public."""
        moved = self._moved(relation)
        return noise_scale(cost, l2=math.sqrt(moved), l1=float(moved))

    def _moved(self, relation: Relation) -> int:
        """The most counts that one row can change, each by 1."""
        replaced = relation is Relation.REPLACE or self.rows.pairs
        return (2 if replaced else 1) * max(1, len(self.columns))

    def answer(
        self,
        found: ColumnHistogram,
        noise: None,  # noqa: ARG002
        cost: Cost,
        relation: Relation,
        rng: Randomness,
    ) -> NoisyCounts:
        steps, moved = _steps(cost), self._moved(relation)
        counts = found.counts if found.count * steps < 2**62 else found.counts.astype(object)
        noisy = perturb(counts.ravel() * steps, cost, l2=math.sqrt(moved) * steps, l1=float(moved * steps), rng=rng)
        return NoisyCounts(noisy.reshape(counts.shape).astype(np.float64) / steps, self.deviation(cost, relation))

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> NoisyCounts:
        counts, scale = people.counts(self.statistic()), self.scale(cost, relation)
        draw = rng.normal if isinstance(cost, GaussianCost) else rng.laplace
        return NoisyCounts(counts + draw(scale=scale, size=counts.shape), self.deviation(cost, relation))

    def deviation(self, cost: Cost, relation: Relation) -> float:
        """The standard deviation of the noise on a count, in rows; public."""
        return self.scale(cost, relation) * (1.0 if isinstance(cost, GaussianCost) else math.sqrt(2))


def _steps(cost: Cost) -> int:
    """Grid steps per row: Gaussian noise is drawn on a fine grid."""
    return _UNIT if isinstance(cost, GaussianCost) else 1
