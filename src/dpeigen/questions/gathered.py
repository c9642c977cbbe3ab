"""Questions that need all rows at once. Their statistic is the rows themselves, which stay with the curator."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.questions.base import Answer, Question
from dpeigen.stats import Lattice, Statistic
from dpeigen.stats.frame import RowView

__all__ = ["Gathered", "OfAllRows"]


class OfAllRows(Question[Answer]):
    """A question that is answered from one array of all rows, as its view shows them."""

    gathers: ClassVar[bool] = True

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "rows", self.shuffled, self.view

    def statistic(self) -> Gathered:
        return Gathered(self.view)

    def answer(self, found: Gathered, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Answer:  # noqa: ARG002
        return self._answered(found.table(), cost, relation, rng)

    @abstractmethod
    def _answered(self, rows: Floats, cost: Cost, relation: Relation, rng: Randomness) -> Answer:
        """The noisy answer."""


class Gathered(Statistic):
    """All framed rows (on a lattice, if there is one), in the order in which they came."""

    def __init__(self, frame: RowView, lattice: Lattice | None = None) -> None:
        self.frame, self.lattice = frame, lattice
        self._blocks: list[Floats] = []

    def fresh(self) -> Gathered:
        return Gathered(self.frame, self.lattice)

    def update(self, block: Any) -> Gathered:
        rows = self.frame.image(block) if self.lattice is None else self.lattice.integers(block)
        self._blocks.append(np.array(rows) if np.may_share_memory(rows, block) else rows)
        return self

    def merge(self, other: Gathered) -> Gathered:
        self._blocks += other._blocks
        return self

    @property
    def count(self) -> int:
        return sum(len(block) for block in self._blocks)

    def table(self) -> Floats:
        """The rows."""
        if len(self._blocks) == 1:
            return self._blocks[0]
        return np.concatenate([np.empty((0, self.frame.n_columns)), *self._blocks])
