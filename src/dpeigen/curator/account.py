"""What every curator shares: the account of declared shares, from which each question is paid before it is answered.

A method declares what each purpose may cost. `measure` checks that the purpose was declared and that its share still
covers the cost, and records the spend; only then a subclass answers. So whatever a method does between questions, the
recorded spends are what its release costs. Subclasses: `DataCurator` over rows (`curator.curator`), and those over
assumed populations (`curator.rehearsal`, `planner.simulated`).
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
    relation : what neighbouring tables are.
    shares : what each purpose may cost, as the method declares it.
    budget : what all of it may cost together; shares that are worth more are refused.
    """

    known_terms: float | None = None  # what sums over rows are divided by, where it was released beforehand

    def __init__(self, relation: Relation, shares: Mapping[Purpose, Cost], budget: Budget) -> None:
        self._relation, self._budget = relation, budget
        self._declare(shares)

    @property
    def relation(self) -> Relation:
        """What neighbouring tables are; noise follows from it, so nobody changes it."""
        return self._relation

    @property
    def budget(self) -> Budget:
        """What all of it may cost together."""
        return self._budget

    def _declare(self, shares: Mapping[Purpose, Cost]) -> None:
        """An account of its own."""
        self.shares, self._prefix = dict(shares), ""
        self._left: dict[Purpose, Cost | None] = dict(shares)
        self._spent: list[Spend] = []  # shared with the parts
        self._number, self._latest = 0, [0]  # of this part, and of the last that was made; the latter is shared
        self._divided = [False]  # whether the rows were cut into parts with accounts of their own; shared
        self._check_budget(shares)

    def measure(self, question: Question[Answer], *, purpose: Purpose, cost: Cost) -> Answer:
        """The noisy answer to a question. Its chance of failure, if it has one, is paid under the purpose's threshold.

        Raises
        ------
        NotPaidForError
            If the purpose is not among the declared shares, or what is left of its share does not cover the cost, or
            a part was made since.
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

        Everything spent so far and the new shares must compose to no more than the budget. What other curators of the
        same rows had left counts no more: from now on only the new part may spend. ``prefix`` goes before the purposes
        in the record.
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
        """What is left of the shares of these purposes, together; None for nothing. They are of one kind."""
        found: Cost | None = None
        for purpose in purposes:
            rest = self._left.get(purpose)
            if rest is not None:
                found = rest if found is None else sum_of(found, rest)
        return found

    def sample(self: C, share: float, view: RowView) -> tuple[C, float]:  # noqa: ARG002
        """The same curator with the same account, of a random part of its rows; and how large a part that is.

        A secret coin is drawn for each row, whatever is in it, so one row is one row of the part or of the rest. Costs
        are those of asking all rows. The part may be all of them. Rows that ``view`` refuses are refused here. Of
        people with many rows a few may be taken, drawn at random, which share the person's weight as all of them would.
        """
        return self, 1.0

    def apart(self: C, *parts: tuple[int, Mapping[Purpose, Cost]], shuffled: bool = False) -> list[C]:
        """Curators of disjoint rows: of the next so many each, as the rows lie or in a secret random order.

        Each may spend the whole budget: a row is in one of them, and what is asked of the others depends on it through
        releases only (parallel composition). From now on only they may spend.
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
        """Let a stream ask batch after batch: disjoint rows in a random order, each batch for the whole cost.

        The cost is an (ε, δ). It is the budget of every batch, whatever else the curator may spend.
        """
        budget = worth(cost)
        place = self._pay_for(stream, purpose, cost)
        self._run(stream, budget)
        self._spent[place] = replace(self._spent[place], mechanism=stream.mechanism)  # which may be known by now only

    def divided(self: C, by: Floats) -> C:  # noqa: ARG002
        """The same curator, of rows whose columns are divided by public or released numbers.

        An assumed population stays as it is: what is assumed of the rows is assumed of the divided ones.
        """
        return self

    def counting(self: C, rows: int) -> C:  # noqa: ARG002
        """The same curator; of people each of whose rows counts alike, a person counts as so many at most."""
        return self

    @abstractmethod
    def seen(self: C, view: RowView) -> C:
        """The same curator, its rows being the images of rows (or pairs) in a random order: one row, one image."""

    @abstractmethod
    def first(self: C, rows: int) -> C:
        """The same curator, of its first so many rows, which are in a random order."""

    @abstractmethod
    def random_start(self, shape: tuple[int, int]) -> Floats:
        """Standard normal numbers that have nothing to do with the rows: a place to start from."""

    @abstractmethod
    def _cut(self: C, rows: Sequence[int], *, shuffled: bool) -> list[C]:
        """Copies of this curator with so many rows each."""

    @abstractmethod
    def _run(self, stream: BatchStream, budget: Budget) -> None:
        """Batches for a stream that is paid for, each with the budget that was."""

    def _pay_for(self, stream: BatchStream, purpose: Purpose, cost: Cost) -> int:
        """The place of a stream's spend in the record. It is there before a batch is, so that nothing is paid twice."""
        self._pay(purpose, cost)
        self._spent.append(Spend(self._prefix + purpose.value, stream.mechanism, cost))
        return len(self._spent) - 1

    @property
    def split(self) -> tuple[Spend, ...]:
        """What was spent, by purpose, in the order of the first measurement for each."""
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
