"""The second moment of bounded rows, or of their signs, with symmetric noise.

Guarantee: the stated cost, for every data set, by the law of its noise (`questions.laws`). The statistic is an integer
matrix. Rows are clipped to the lattice's radius (or scaled to its sphere), so its Frobenius sensitivity is √2·R²
(replace) or R² (add/remove), and its trace sensitivity is 2·R² or R². R² includes the weight of an appended constant
(`stats.moments`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, Question, public_count
from dpeigen.questions.laws import SymmetricLaw, SymmetricNoise
from dpeigen.stats import Lattice, SecondMoment
from dpeigen.stats.frame import RowView
from dpeigen.stats.lattice import LEVELS

__all__ = ["Moment", "NoisyMoment"]


@dataclass(frozen=True)
class NoisyMoment:
    """A released sum of zzᵀ, in grid steps squared; with a constant of weight c it is the augmented (c, z)(c, z)ᵀ."""

    total: Floats
    deviation: float  # of an off-diagonal entry
    count: float | None  # the number of terms, if it is public


@dataclass(frozen=True)
class Moment(Question[NoisyMoment]):
    """Σzzᵀ over lattice rows; with a ``weight`` c in grid steps, Σ(c, z)(c, z)ᵀ."""

    lattice: Lattice
    law: SymmetricLaw
    weight: int = 0

    @property
    def numerics(self) -> Numerics:  # type: ignore[override]
        return self.law.numerics

    @property
    def view(self) -> RowView:
        return self.lattice.frame

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "moment", self.lattice, self.weight

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return self.law.name

    def statistic(self) -> SecondMoment:
        return SecondMoment(self.lattice, self.weight)

    @property
    def clipped_to(self) -> float | None:
        """The radius to which rows are clipped; None on a sphere."""
        return None if self.lattice.shape == "sphere" else self.lattice.radius

    def bounded(self) -> SecondMoment:
        """The empty sum to which noise is added; it knows its sensitivity."""
        return self.statistic()

    def draw(self, cost: Cost, relation: Relation, rng: Randomness) -> SymmetricNoise:
        return self.law.draw(self.bounded(), cost, relation, rng)

    def answer(
        self,
        found: SecondMoment,
        noise: SymmetricNoise,
        cost: Cost,  # noqa: ARG002
        relation: Relation,
        rng: Randomness,  # noqa: ARG002
    ) -> NoisyMoment:
        count = public_count(found.count, self.view.rows_per_term) if relation is Relation.REPLACE else None
        return NoisyMoment(noise.added_to(found.augmented), noise.deviation, count)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> NoisyMoment:
        radius = self.clipped_to
        unit = 1.0 / LEVELS**2 if radius is None else self.lattice.step**2
        mean = people.moment(self.view, radius)
        if self.weight:
            constant = self.weight * self.lattice.step
            row = constant * people.mean(self.view, self.lattice.radius if radius is None else radius)
            mean = np.block([[np.array([[constant**2]]), row[None]], [row[:, None], mean]])
        deviation = self.law.entry_deviation(self.law.scale(self.bounded(), cost, relation), len(mean))
        total = mean * (people.terms(self.view) / unit) + self.law.made_up(len(mean), deviation, rng)
        return NoisyMoment(total, deviation, float(people.terms(self.view)) if relation is Relation.REPLACE else None)
