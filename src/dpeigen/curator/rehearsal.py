"""A curator without rows: it checks and records every spend, counts the passes, and answers with made-up numbers.

Which question a method asks next depends on public facts and on its plan, never on values. So a rehearsal asks the
same questions as a real run. It shows what will be measured, at what cost, and in how many passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator.account import Curator
from dpeigen.curator.feed import BatchStream
from dpeigen.curator.purposes import Purpose
from dpeigen.privacy import Budget, Cost, Relation
from dpeigen.privacy.randomness import made_up_generator
from dpeigen.questions.base import Question, counted
from dpeigen.stats.columns import ColumnHistogram
from dpeigen.stats.frame import RowView

__all__ = ["Answer", "Nobody", "Rehearsal"]

Answer = TypeVar("Answer")
_ROWS = 1000  # assumed if the number of rows is private
_BATCHES = 500


class Nobody:
    """Made-up rows of norm 1, uniform over directions."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def terms(self, view: RowView) -> int:
        return max(1, self._rows // view.rows_per_term)

    def moment(self, view: RowView, radius: float | None) -> Floats:
        d = view.n_columns
        return np.eye(d) * (1.0 if radius is None else min(1.0, radius**2)) / d

    def mean(self, view: RowView, radius: float) -> Floats:  # noqa: ARG002
        return np.zeros(view.n_columns)

    def squares(self, view: RowView, radius: float) -> Floats:
        return np.full(view.n_columns, min(1.0, radius**2) / view.n_columns)

    def norms(self, view: RowView) -> Floats:  # noqa: ARG002
        return np.ones(1)

    def sample(self, view: RowView, count: int) -> Floats:
        d = view.n_columns
        return np.resize(np.eye(d), (max(1, min(count, 2 * d)), d))

    def counts(self, statistic: ColumnHistogram) -> Floats:
        return counted(self, statistic, self._rows)

    def expected(self, view: RowView, radius: float) -> Floats:
        return self.moment(view, radius)

    def tau(self, view: RowView, transform: Any, design: int | None) -> Floats:  # noqa: ARG002
        return np.eye(view.n_columns) / view.n_columns


class Rehearsal(Curator):
    """A curator over made-up rows."""

    def __init__(
        self, relation: Relation, shares: Mapping[Purpose, Cost], budget: Budget, n_rows: int | None = None
    ) -> None:
        super().__init__(relation, shares, budget)
        self._people, self._rng = Nobody(_ROWS if n_rows is None else n_rows), made_up_generator()
        self._passes: list[tuple[Any, ...]] = []  # shared with the parts

    @property
    def passes(self) -> int:
        """How often a real run reads the rows."""
        return len(self._passes)

    def _of(self, rows: int) -> Rehearsal:
        other = copy(self)
        other._people = Nobody(rows)
        return other

    def seen(self, view: RowView) -> Rehearsal:
        return self._of(self._people.terms(view))

    def first(self, rows: int) -> Rehearsal:
        return self._of(rows)

    def random_start(self, shape: tuple[int, int]) -> Floats:
        return self._rng.normal(size=shape)

    def _cut(self, rows: Sequence[int], *, shuffled: bool) -> list[Rehearsal]:  # noqa: ARG002
        return [self._of(count) for count in rows]

    def _run(self, stream: BatchStream, budget: Budget) -> None:
        """Run batches until a release is possible, or `_BATCHES` of them: later batches are alike."""
        for _ in range(_BATCHES):
            rows = 0 if stream.ready else stream.wanted()
            if not rows:
                break
            stream.rows_used += rows
            stream.use(Rehearsal(self.relation, {}, budget, rows))
        self._passes.append(("batches",))

    def _answered(self, question: Question[Answer], cost: Cost) -> Answer:
        if not self._passes or self._passes[-1] != question.reads:
            self._passes.append(question.reads)
        return question.simulated(self._people, cost, self.relation, self._rng)
