"""The reach of each column: a size that almost no entry of the column exceeds.

Guarantee: pure ε-DP, exact integers. Each of the d columns gets an answer that costs ε/d, by report noisy max over
sizes of half octaves (`noisy_max`). The score of a size is minus the number of larger entries, minus a public cost of
the size. A row has one entry in a column, so replacing, adding or removing it moves these numbers by at most 1, all in
one direction. Differences of two rows count like rows: see `questions.columns`.

A histogram with noise on all cells shows only counts that exceed the noise of all cells, about 40/ε·d entries. This
question asks for one number for each column, and leaves about d/ε entries outside.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Bools, Floats
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, Question, counted
from dpeigen.questions.radius import NOISY_MAX, STEPS, length_costs, noisy_max
from dpeigen.stats.columns import REACH, Sizes
from dpeigen.stats.frame import Frame

__all__ = ["ColumnReaches", "shows_scale"]

_SHORTEST, _LONGEST = -4, 20  # half octaves: reaches from ¼ to 1024
_SHOWN = 2  # half octaves: a constant column is said to reach this far with probability about 10⁻⁴
_SAMPLE = 20_000


@dataclass(frozen=True)
class ColumnReaches(Question[Floats]):
    """A size of framed entries for each column, from ¼ to 1024."""

    rows: Frame

    @property
    def view(self) -> Frame:
        return self.rows

    @property
    def reads(self) -> tuple[Hashable | Frame, ...]:
        return "sizes", self.rows, tuple(range(self.rows.n_features))

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return NOISY_MAX

    def statistic(self) -> Sizes:
        return Sizes(self.rows, tuple(range(self.rows.n_features)))

    def scale(self, cost: Cost) -> float:
        """The scale of the noise on a score, in entries; public."""
        return math.nextafter(self.rows.n_features / pure_epsilon(cost), math.inf)

    def draw(self, cost: Cost, relation: Relation, rng: Randomness) -> NDArray[np.int64]:  # noqa: ARG002
        scale, shape = math.nextafter(STEPS * self.scale(cost), math.inf), (self.rows.n_features, len(_cells()))
        return rng.discrete_laplace(scale, shape[0] * shape[1]).reshape(shape)

    def answer(self, found: Sizes, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Floats:  # noqa: ARG002
        return _sizes(noisy_max(self._scores(found.counts, cost), noise))

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Floats:  # noqa: ARG002
        scores = self._scores(counted(people, self.statistic(), _SAMPLE), cost)
        return _sizes(noisy_max(scores, rng.laplace(scale=STEPS * self.scale(cost), size=scores.shape)))

    def _scores(self, counts: NDArray[Any], cost: Cost) -> NDArray[Any]:
        """Scores in steps; columns × sizes."""
        larger = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, _cells() + REACH]  # from the cell of each size on
        return np.asarray(-STEPS * larger - length_costs(len(_cells()), self.scale(cost)))


def shows_scale(sizes: Floats) -> Bools:
    """Where an answer shows the size of entries, and not only that none, or too many, exceed the limits of the grid."""
    return (sizes >= 2.0 ** (_SHOWN / 2)) & (sizes < 2.0 ** (_LONGEST / 2))


def _cells() -> NDArray[np.int64]:
    """Half octaves of the sizes."""
    return np.arange(_SHORTEST, _LONGEST + 1)


def _sizes(places: NDArray[np.intp]) -> Floats:
    return np.asarray(np.exp2(_cells()[places] / 2.0))
