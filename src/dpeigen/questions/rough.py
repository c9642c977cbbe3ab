"""A second moment that is looked at roughly: of rows on a coarse lattice, summed in single precision.

Guarantee: that of `questions.moment`. Rows on the coarse lattice are lattice rows, so sensitivities are the same
(`stats.rough`); that directions were rounded is undone in the noisy answer.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.questions.laws import SymmetricNoise
from dpeigen.questions.moment import Moment, NoisyMoment
from dpeigen.stats import SecondMoment
from dpeigen.stats.frame import RowView
from dpeigen.stats.rough import RoughSum, rough_map

__all__ = ["RoughMoment"]

_WIDE = 24  # columns, below which sums take little of the time
_SMALL = 1 / 8  # of the noise on an entry: what rounding may add


@dataclass(frozen=True)
class RoughMoment(Moment):
    """`Moment`, with rows rounded coarsely."""

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "rough moment", self.lattice, self.weight

    def statistic(self) -> SecondMoment:
        return RoughSum(self.lattice, self.weight)

    def answer(
        self, found: SecondMoment, noise: SymmetricNoise, cost: Cost, relation: Relation, rng: Randomness
    ) -> NoisyMoment:
        noisy, used = super().answer(found, noise, cost, relation, rng), rough_map(self.view, self.lattice.step)
        return noisy if used is None else replace(noisy, total=used.undone(noisy.total))

    @staticmethod
    def instead_of(question: Moment, noise: float) -> Moment:
        """This question where rounding is small beside noise of this deviation on a mean, in framed units."""
        wide = question.lattice.shape == "ball" and question.view.n_columns >= _WIDE
        used = rough_map(question.view, question.lattice.step) if wide else None
        if used is None or used.error > _SMALL * noise:
            return question
        return RoughMoment(question.lattice, question.law, question.weight)
