"""The mean of rows clipped to a box, as printed by Liu, Kong, Jain, Oh 2022.

Guarantee: the stated cost, for every data set under replacement. Each entry becomes an integer between −L and L, so the
sum has ℓ2 sensitivity 2L√d and ℓ1 sensitivity 2Ld. The noise is discrete and exact. Clipping to a ball instead
(`questions.mean`) needs √d times less noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.noise import noise_scale, perturb
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, plain_noise, public_count, simulated_sums
from dpeigen.questions.gathered import OfAllRows
from dpeigen.questions.mean import NoisyMean
from dpeigen.stats.frame import RowView
from dpeigen.stats.lattice import LEVELS

__all__ = ["BoxMean"]

_ROW_UNIT = int(LEAST_SENSITIVITY) // LEVELS


@dataclass(frozen=True)
class BoxMean(OfAllRows[NoisyMean]):
    """The mean of rows whose entries are clipped to ± ``half``."""

    rows: RowView
    half: float

    @property
    def view(self) -> RowView:
        return self.rows

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    def _answered(self, rows: Floats, cost: Cost, relation: Relation, rng: Randomness) -> NoisyMean:
        l2, l1 = self._reach(relation)
        with np.errstate(over="ignore"):
            inside = np.clip(np.rint(rows / self._step), -LEVELS, LEVELS)
        total = inside.sum(axis=0).astype(np.int64)  # integers below 2^53: exact in any order
        noisy = perturb(total.astype(object) * _ROW_UNIT, cost, l2=l2, l1=l1, rng=rng)
        return self._mean(noisy.astype(np.float64), public_count(len(rows), self.view.rows_per_term), cost, relation)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> NoisyMean:
        (l2, l1), terms = self._reach(relation), people.terms(self.rows)
        mean = np.clip(people.mean(self.rows, math.inf), -self.half, self.half)  # the box is far wider than the rows
        total = mean * (terms * _ROW_UNIT / self._step)
        noisy, _ = simulated_sums(total, terms, cost, relation, l2=l2, l1=l1, unit=_ROW_UNIT, rng=rng)
        return self._mean(noisy, float(terms), cost, relation)

    @property
    def _step(self) -> float:
        return self.half / LEVELS

    def _reach(self, relation: Relation) -> tuple[float, float]:
        """ℓ2 and ℓ1 sensitivity in the grid steps of the sum."""
        if relation is not Relation.REPLACE:
            raise AssertionError("the number of rows must be public")
        d = self.rows.n_columns
        return 2.0 * LEVELS * _ROW_UNIT * math.sqrt(d), 2.0 * LEVELS * _ROW_UNIT * d

    def _mean(self, noisy: Floats, count: float, cost: Cost, relation: Relation) -> NoisyMean:
        l2, l1 = self._reach(relation)
        unit = self._step / _ROW_UNIT / count
        scale = noise_scale(cost, l2=l2, l1=l1) * (1.0 if plain_noise(cost) == "discrete Gaussian" else math.sqrt(2))
        return NoisyMean(noisy * unit, scale * math.sqrt(self.rows.n_columns) * unit)
