"""The questions of Liu, Kong, Jain, Oh 2022 as printed: Algorithm 4, and the histograms of Algorithm 5.

Guarantee: the stated cost and `failure`, for every data set under replacement. They differ from `questions.scale` and
`questions.ranges` in constants only:

- `PrintedTopEigenvalue` always uses bins of 2^(1/4), whatever the size of the groups. It returns the lower end of the
  fullest bin, and does not divide differences by √2, so the answer is about twice the covariance's top eigenvalue.
- `PrintedRanges` uses d histograms with Laplace noise of scale 2/ε_h each. Each is ε_h-DP; together they are paid for
  as one dε_h²/2-concentrated mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import ConcentratedCost, Cost, PureCost, Randomness, Relation
from dpeigen.privacy.histogram import most_popular, stable_histograms
from dpeigen.privacy.randomness import Generator, SeededRandomness
from dpeigen.questions.base import People
from dpeigen.questions.gathered import OfAllRows
from dpeigen.questions.scale import _OfGroups, log_spectra
from dpeigen.stats.frame import RowView
from dpeigen.stats.gradients import Bins

__all__ = ["PrintedRanges", "PrintedTopEigenvalue"]

_PER_DOUBLING = 4.0
_SAMPLE = 10_000  # rows in simulations


class PrintedTopEigenvalue(_OfGroups[float | None]):
    """Algorithm 4: Λ̂, the lower end of the fullest bin; 0 for constant rows, None (⊥) if no bin stands out."""

    def _shown(self, rows: Floats, groups: int, cost: Cost, relation: Relation, rng: Randomness) -> float | None:
        size = max(1, len(rows) // 2 // groups)
        pairs = rows[: 2 * size * groups].reshape(groups, size, 2, rows.shape[1])
        halves = pairs[:, :, 1] / 2 - pairs[:, :, 0] / 2  # halved first: a difference of finite numbers can overflow
        logs = log_spectra(halves)[:, 0] + 2.0
        found = self._bin(logs, _PER_DOUBLING, cost, relation, rng)
        return found if not found else found * 2.0 ** (-0.5 / _PER_DOUBLING)


@dataclass(frozen=True)
class PrintedRanges(OfAllRows[tuple[float | None, ...]]):
    """Lines 2 to 5 of Algorithm 5: the lower end of the fullest bin of each column; None where no bin stands out."""

    rows: RowView
    width: float
    epsilon: float  # ε_h of each histogram
    chance: float  # probability of failure of all histograms together

    @property
    def failure(self) -> float:
        return self.chance

    @property
    def view(self) -> RowView:
        return Bins(self.rows, self.width)

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return "stability histograms, discrete Laplace"

    def _answered(self, rows: Floats, cost: Cost, relation: Relation, rng: Randomness) -> tuple[float | None, ...]:
        columns = self.rows.n_columns
        if relation is not Relation.REPLACE or not isinstance(cost, ConcentratedCost):
            raise AssertionError("paid for as a concentrated mechanism, for a replaced row")
        if columns * self.epsilon**2 / 2 > cost.rho * (1 + 1e-9):
            raise AssertionError("these histograms are worth more than what pays for them")
        whole = PureCost(columns * self.epsilon)  # noise of 2·columns/whole = 2/ε_h on every count
        fullest = map(most_popular, stable_histograms(rows, whole, self.chance, relation, rng))
        return tuple(None if label is None else label * self.width for label in fullest)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> tuple[float | None, ...]:
        rows = people.sample(self.rows, min(people.terms(self.rows), _SAMPLE))
        return self._answered(np.floor(rows / self.width), cost, relation, SeededRandomness(rng))
