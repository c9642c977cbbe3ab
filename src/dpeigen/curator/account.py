"""The base class of all curators: an account of declared shares, from which each question is paid before its answer.

A method declares a share of the budget for each purpose. `measure` checks that the purpose was declared and that the
rest of its share covers the cost, and records the spend. Only then does a subclass answer. So the recorded spends are
the cost of the release, whatever a method does between questions. Subclasses: `DataCurator` over rows
(`curator.curator`), and curators over assumed populations (`curator.rehearsal`, `planner.simulated`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TypeVar

from dpeigen._types import Floats
from dpeigen.curator.costs import NotPaidForError, covers, rest_of, sum_of, worth
from dpeigen.curator.feed import BatchStream
from dpeigen.curator.purposes import Purpose
from dpeigen.privacy import Budget, Cost, Relation, Spend, compose_delta
from dpeigen.privacy.histogram import tail_spend
from dpeigen.questions.base import Question
from dpeigen.stats.frame import RowView

__all__ = ["Answer", "C", "Curator"]

Answer = TypeVar("Answer")
C = TypeVar("C", bound="Curator")


class Curator(ABC):
    """Answers questions against declared shares of a budget.

    Parameters
    ----------
    relation : the neighbouring relation.
    shares : the share of each purpose, as the method declares it.
    budget : the most that all shares may cost together; shares that compose to more are refused.
    """

    known_terms: float | None = None  # the divisor of sums over rows, if it was released beforehand

    def __init__(self, relation: Relation, shares: Mapping[Purpose, Cost], budget: Budget) -> None:
        self._relation, self._budget = relation, budget
        self._declare(shares)

    @property
    def relation(self) -> Relation:
        """The neighbouring relation. It is read-only, because the noise depends on it."""
        return self._relation

    @property
    def budget(self) -> Budget:
        """The most that all measurements may cost together."""
        return self._budget

    def _declare(self, shares: Mapping[Purpose, Cost]) -> None:
        """Open a new account with these shares."""
        self.shares, self._prefix = dict(shares), ""
        self._left: dict[Purpose, Cost | None] = dict(shares)
        self._spent: list[Spend] = []  # shared with the parts
        self._number, self._latest = 0, [0]  # of this part, and of the last part made (shared with all parts)
        self._divided = [False]  # whether the rows were cut into parts with their own accounts; shared
        self._check_budget(shares)

    def measure(self, question: Question[Answer], *, purpose: Purpose, cost: Cost) -> Answer:
        """The noisy answer to a question. Its probability of failure, if any, is paid under `Purpose.threshold`.

        Raises
        ------
        NotPaidForError
            If the purpose was not declared, if the rest of its share does not cover the cost, or if a part of this
            curator was made in the meantime.
        """
        self._pay(purpose, cost)
        self._spent.append(Spend(self._prefix + purpose.value, question.mechanism(cost), cost))
        if question.failure:
            tail = tail_spend(self._prefix + purpose.threshold.value, question.failure, self.budget.epsilon)
            self._pay(purpose.threshold, tail.cost)
            self._spent.append(tail)
        return self._answered(question, cost)

    def part(self: C, shares: Mapping[Purpose, Cost], prefix: str = "") -> C:
        """The same curator with other shares, for a method inside a method.

        Everything spent so far and the new shares must compose to no more than the budget. From now on only the new
        part may spend; what was left of earlier shares is lost. ``prefix`` is put before the purposes in the record.
        """
        if self._divided[0]:
            raise NotPaidForError("These rows were cut into parts, each with the whole budget: only those may spend.")
        self._check_budget(shares)
        other = copy(self)
        other.shares, other._left, other._prefix = dict(shares), dict(shares), prefix
        self._latest[0] += 1
        other._number = self._latest[0]
        return other

    def left(self, *purposes: Purpose) -> Cost | None:
        """The rest of the shares of these purposes, added up; None if nothing is left. Costs must be of one kind."""
        found: Cost | None = None
        for purpose in purposes:
            rest = self._left.get(purpose)
            if rest is not None:
                found = rest if found is None else sum_of(found, rest)
        return found

    def sample(self: C, share: float, view: RowView) -> tuple[C, float]:  # noqa: ARG002
        """A curator of a random sample of the rows, with the same account; and the fraction of rows sampled.

        Each row is sampled by its own secret coin, independently of its values, so one row stays one row: it is either
        in the sample or not. Costs are the same as for all rows. The sample may be all rows. Rows that ``view`` refuses
        are refused here. If people have many rows, a few of each may be drawn at random to share the person's weight.
        """
        return self, 1.0

    def apart(self: C, *parts: tuple[int, Mapping[Purpose, Cost]], shuffled: bool = False) -> list[C]:
        """Curators of disjoint blocks of rows with the given sizes, in stored order or in a secret random order.

        Each may spend the whole budget: a row is in one block only, and questions to the other blocks depend on it
        only through releases (parallel composition). From now on only these curators may spend.
        """
        if self.relation is not Relation.REPLACE:
            raise AssertionError("one row more or less would move rows from one part to the next")
        if self._spent:
            raise NotPaidForError("Something was spent on all of these rows before.")
        self._check_last()
        self._latest[0] += 1
        self._divided[0] = True
        found = self._cut([rows for rows, _ in parts], shuffled=shuffled)
        for other, (_, shares) in zip(found, parts, strict=True):
            other._declare(shares)
        return found

    def in_batches(self, stream: BatchStream, *, purpose: Purpose, cost: Cost) -> None:
        """Let a stream ask batch after batch of disjoint rows, in a random order. Every batch may spend the whole cost.

        The cost is an (ε, δ). It is the budget of every batch, whatever else the curator may spend.
        """
        budget = worth(cost)
        place = self._pay_for(stream, purpose, cost)
        self._run(stream, budget)
        self._spent[place] = replace(self._spent[place], mechanism=stream.mechanism)  # may not have been known before

    def divided(self: C, by: Floats) -> C:  # noqa: ARG002
        """The same curator, of rows whose columns are divided by public or released numbers.

        An assumed population does not change: its assumptions are about the rows after division.
        """
        return self

    def counting(self: C, rows: int) -> C:  # noqa: ARG002
        """The same curator, where at most this many rows of a person count (if every row has equal weight)."""
        return self

    @abstractmethod
    def seen(self: C, view: RowView) -> C:
        """The same curator, with rows replaced by their images (or those of pairs) in a random order: one per row."""

    @abstractmethod
    def first(self: C, rows: int) -> C:
        """The same curator, of only its first ``rows`` rows, which are in a random order."""

    @abstractmethod
    def random_start(self, shape: tuple[int, int]) -> Floats:
        """Standard normal numbers, independent of the rows, as a starting point."""

    @abstractmethod
    def _cut(self: C, rows: Sequence[int], *, shuffled: bool) -> list[C]:
        """Copies of this curator, with these numbers of rows."""

    @abstractmethod
    def _run(self, stream: BatchStream, budget: Budget) -> None:
        """Run a stream that is paid for; each batch has this budget."""

    def _pay_for(self, stream: BatchStream, purpose: Purpose, cost: Cost) -> int:
        """Record a stream's spend before its first batch, and return its index in the record."""
        self._pay(purpose, cost)
        self._spent.append(Spend(self._prefix + purpose.value, stream.mechanism, cost))
        return len(self._spent) - 1

    @property
    def split(self) -> tuple[Spend, ...]:
        """The spends, added up by purpose, in the order of the first measurement of each."""
        totals: dict[tuple[str, str], Cost] = {}
        for spend in self._spent:
            key = (spend.purpose, spend.mechanism)
            totals[key] = spend.cost if key not in totals else sum_of(totals[key], spend.cost)
        return tuple(Spend(purpose, mechanism, cost) for (purpose, mechanism), cost in totals.items())

    @abstractmethod
    def _answered(self, question: Question[Answer], cost: Cost) -> Answer:
        """The answer to a question that is paid for."""

    def _check_budget(self, shares: Mapping[Purpose, Cost]) -> None:
        planned = [Spend(purpose.value, "", cost) for purpose, cost in shares.items()]
        if compose_delta([*self._spent, *planned], self.budget.epsilon) > self.budget.delta:
            raise NotPaidForError("What was spent and what is to follow are more than the budget together.")

    def _check_last(self) -> None:
        if self._number != self._latest[0]:
            raise NotPaidForError("A part of this curator was made since: only the last part may spend.")

    def _pay(self, purpose: Purpose, cost: Cost) -> None:
        self._check_last()
        if purpose not in self._left:
            raise NotPaidForError(f"{purpose!s} is not among the shares that the method declared.")
        left = self._left[purpose]
        if left is None or not covers(left, cost):
            rest = "nothing" if left is None else str(left)
            raise NotPaidForError(f"{cost} for {purpose!s} is more than what is left of its share ({rest}).")
        self._left[purpose] = rest_of(left, cost)
