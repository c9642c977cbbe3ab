"""A second moment computed faster: rows are rounded to a coarse lattice and summed in single precision.

Guarantee: that of `questions.moment`. Rows on the coarse lattice are lattice rows, so the sensitivities are the same
(`stats.rough`). The rounding of directions is undone in the noisy answer.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property

from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.questions.laws import SymmetricNoise
from dpeigen.questions.moment import Moment, NoisyMoment
from dpeigen.stats import SecondMoment
from dpeigen.stats.frame import RowView
from dpeigen.stats.rough import RoughMap, RoughSum, rough_map

__all__ = ["RoughMoment"]

_WIDE = 24  # with fewer columns, sums take little of the time
_SMALL = 1 / 8  # the most that rounding may add, relative to the noise on an entry


@dataclass(frozen=True)
class RoughMoment(Moment):
    """`Moment`, with rows rounded coarsely."""

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "rough moment", self.lattice, self.weight

    @cached_property
    def used(self) -> RoughMap | None:
        """The map to rows on the coarse lattice, made once; None if there is none."""
        return rough_map(self.view, self.lattice.step)

    def statistic(self) -> SecondMoment:
        return RoughSum(self.lattice, self.weight, self.used)

    def answer(
        self, found: SecondMoment, noise: SymmetricNoise, cost: Cost, relation: Relation, rng: Randomness
    ) -> NoisyMoment:
        noisy = super().answer(found, noise, cost, relation, rng)
        return noisy if self.used is None else replace(noisy, total=self.used.undone(noisy.total))

    @staticmethod
    def instead_of(question: Moment, noise: float) -> Moment:
        """The rough question, if rounding is small beside noise of this deviation on the mean in the frame's units."""
        if question.lattice.shape != "ball" or question.view.n_columns < _WIDE:
            return question
        rough = RoughMoment(question.lattice, question.law, question.weight)
        return question if rough.used is None or rough.used.error > _SMALL * noise else rough
