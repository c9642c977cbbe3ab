"""Generalised Kendall's tau with symmetric noise.

Guarantee: the stated cost, for every data set under replacement of one row. The mean of g·gᵀ over pairs of rows, ‖g‖ ≤
b, has Frobenius sensitivity 2√2·b²/n, rounding included (`stats.kendall`). This holds for every public design of pairs:
all pairs, a circulant one over a secret random order, or one inside parts of a random order. Noise: `questions.laws`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpeigen._types import Floats
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, Question
from dpeigen.questions.gathered import Gathered
from dpeigen.questions.laws import SymmetricLaw
from dpeigen.stats import Frame, KendallTau, Statistic
from dpeigen.stats.frame import RowView
from dpeigen.stats.pairs import n_pairs, pairs_per_row
from dpeigen.stats.transform import Transform

__all__ = ["PART", "NoisyTau", "Tau"]

PART = 8192  # rows per part of the random order


@dataclass(frozen=True)
class NoisyTau:
    """A released mean of g·gᵀ/b² over pairs, and public facts about it."""

    mean: Floats
    deviation: float  # of an off-diagonal entry
    pairs: int
    share: float  # the most pairs that one row is in, divided by 2/n of all pairs


@dataclass(frozen=True)
class Tau(Question[NoisyTau]):
    """Kendall's tau over pairs of ``rows`` rows.

    ``design``: None for all pairs; B to pair each row with the B that follow it in a random order. ``in_parts``: only
    pairs inside parts of `PART` rows of a random order, so that not all rows must be in memory at once.
    """

    frame: Frame
    transform: Transform
    rows: int
    law: SymmetricLaw
    design: int | None = None
    in_parts: bool = False

    @property
    def numerics(self) -> Numerics:  # type: ignore[override]
        return self.law.numerics

    @property
    def view(self) -> RowView:
        return self.frame

    @property
    def shuffled(self) -> bool:  # type: ignore[override]
        """Whether rows must be in a random order: in a sorted table, rows would be compared with similar rows only."""
        return self.in_parts or pairs_per_row(self.rows, self.design) < self.rows - 1

    @property
    def gathers(self) -> bool:  # type: ignore[override]
        return not self.in_parts

    @property
    def reads(self) -> tuple[Any, ...]:
        return "tau", self

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return "discrete Gaussian" if self.law.name == "gaussian" else "matrix Laplace"

    def statistic(self) -> Statistic:
        if self.in_parts:
            return self._tau(self.frame, PART)
        return Gathered(self.frame)

    def _tau(self, frame: Frame, rows: int) -> KendallTau:
        return KendallTau(frame, self.transform, rows, self.design)

    def answer(self, found: Any, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> NoisyTau:  # noqa: ARG002
        if isinstance(found, Gathered):
            table = found.table()
            found = self._tau(Frame(self.frame.n_features), len(table)).update(table)  # the rows are framed already
        # Noise is drawn after the pass, because the allowance for rounding depends on the number of parts.
        drawn = self.law.draw(found, cost, relation, rng)
        unit = found.steps * found.count
        mean = drawn.added_to(found.gram) / unit
        return NoisyTau(mean, drawn.deviation / unit, found.count, self.rows * found.reach / (2 * found.count))

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> NoisyTau:
        # One row is in a fraction 2/n of the pairs; rounding is negligible beside that.
        deviation = 2 * self.law.deviation(self.frame.n_features, cost, relation) / people.terms(self.frame)
        mean = people.tau(self.frame, self.transform, self.design)
        rows = PART if self.in_parts else max(1, self.rows)
        pairs = n_pairs(rows, self.design) * max(1, self.rows // rows)
        return NoisyTau(mean + self.law.made_up(len(mean), deviation, rng), deviation, pairs, 1.0)
