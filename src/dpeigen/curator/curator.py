"""The curator: the only object that holds rows or exact sums, and the only way from rows to numbers.

A method asks questions and gets noisy answers. Before anything is read the curator checks that the method declared the
purpose and that its share still covers the cost, and records the spend; then it draws the noise, reads the rows, and
hands out the answer. So whatever a method does between questions, the recorded spends are what its release costs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from dpeigen.curator.purposes import Purpose
from dpeigen.privacy import (
    Budget,
    ConcentratedCost,
    Cost,
    GaussianCost,
    PureCost,
    Randomness,
    Relation,
    Spend,
    compose_delta,
)
from dpeigen.privacy.noise import draw_ahead
from dpeigen.questions.base import Question
from dpeigen.sources import PairedSource, Source
from dpeigen.sources.shuffled import ShuffledSource

Answer = TypeVar("Answer")
C = TypeVar("C", bound="Curator")
_SLACK = 1 + 1e-12  # of sums in floating point


class NotPaidForError(RuntimeError):
    """A method asked for something that it did not declare, or for more than its share. Nothing was measured."""


class Curator(ABC):
    """Answers questions against declared shares of a budget.

    Parameters
    ----------
    relation : what neighbouring tables are.
    shares : what each purpose may cost, as the method declares it.
    budget : what all of it may cost together; shares that are worth more are refused.
    """

    def __init__(self, relation: Relation, shares: Mapping[Purpose, Cost], budget: Budget) -> None:
        self.relation, self.budget, self.shares = relation, budget, dict(shares)
        self._left: dict[Purpose, Cost | None] = dict(shares)
        self._prefix = ""
        self._spent: list[Spend] = []  # shared with the parts
        self._number, self._latest = 0, [0]  # of this part, and of the last that was made; the latter is shared
        self._check_budget(shares)

    def measure(self, question: Question[Answer], *, purpose: Purpose, cost: Cost) -> Answer:
        """The noisy answer to a question.

        Raises
        ------
        NotPaidForError
            If the purpose is not among the declared shares, or what is left of its share does not cover the cost, or
            a part was made since.
        """
        self._pay(purpose, cost)
        self._spent.append(Spend(self._prefix + purpose.value, question.mechanism(cost), cost))
        return self._answered(question, cost)

    def part(self: C, shares: Mapping[Purpose, Cost], prefix: str = "") -> C:
        """The same curator with other shares, for a method inside a method.

        Everything spent so far and the new shares must compose to no more than the budget. What other curators of the
        same rows had left counts no more: from now on only the new part may spend. ``prefix`` goes before the purposes
        in the record.
        """
        self._check_budget(shares)
        other = copy(self)
        other.shares, other._left, other._prefix = dict(shares), dict(shares), prefix
        self._latest[0] += 1
        other._number = self._latest[0]
        return other

    @property
    def split(self) -> tuple[Spend, ...]:
        """What was spent, by purpose, in the order of the first measurement for each."""
        totals: dict[tuple[str, str], Cost] = {}
        for spend in self._spent:
            key = (spend.purpose, spend.mechanism)
            totals[key] = spend.cost if key not in totals else _sum(totals[key], spend.cost)
        return tuple(Spend(purpose, mechanism, cost) for (purpose, mechanism), cost in totals.items())

    @abstractmethod
    def _answered(self, question: Question[Answer], cost: Cost) -> Answer:
        """The answer to a question that is paid for."""

    def _check_budget(self, shares: Mapping[Purpose, Cost]) -> None:
        planned = [Spend(purpose.value, "", cost) for purpose, cost in shares.items()]
        if compose_delta([*self._spent, *planned], self.budget.epsilon) > self.budget.delta:
            raise NotPaidForError("What was spent and what is to follow are more than the budget together.")

    def _pay(self, purpose: Purpose, cost: Cost) -> None:
        if self._number != self._latest[0]:
            raise NotPaidForError("A part of this curator was made since: only the last part may spend.")
        if purpose not in self._left:
            raise NotPaidForError(f"{purpose!s} is not among the shares that the method declared.")
        left = self._left[purpose]
        if left is None or not _covers(left, cost):
            rest = "nothing" if left is None else str(left)
            raise NotPaidForError(f"{cost} for {purpose!s} is more than what is left of its share ({rest}).")
        self._left[purpose] = _rest(left, cost)


@dataclass
class _Kept:
    """The exact statistic of the last pass; questions that read the same are answered from it."""

    reads: tuple[Any, ...] = ()
    found: Any = None


class DataCurator(Curator):
    """A curator over the rows of a source. ``hands_out_rows``: whether a method may have them; see `unprotected`."""

    def __init__(
        self,
        source: Source,
        relation: Relation,
        shares: Mapping[Purpose, Cost],
        budget: Budget,
        rng: Randomness,
        *,
        hands_out_rows: bool = False,
    ) -> None:
        super().__init__(relation, shares, budget)
        self.__source, self.__rng, self.__kept = source, rng, _Kept()
        self.__hands_out_rows = hands_out_rows

    def _answered(self, question: Question[Answer], cost: Cost) -> Answer:
        rng, relation = self.__rng, self.relation
        drawn = draw_ahead(lambda: question.draw(cost, relation, rng), rng)
        found = self.__read(question)
        return question.answer(found, drawn(), cost, relation, rng)

    def __read(self, question: Question[Any]) -> Any:
        """The exact statistic. It stays here."""
        if self.__kept.found is None or self.__kept.reads != question.reads:
            self.__kept = _Kept()  # one statistic at a time is held in memory
            source = self.__source
            if question.view.rows_per_term == 2:
                source = PairedSource(source, self.__rng)
            elif question.shuffled:
                source = ShuffledSource(source, self.__rng)
            reduce = source.reduce_in_sequence if question.gathers else source.reduce
            self.__kept = _Kept(question.reads, reduce(question.statistic()))
        return self.__kept.found

    def unprotected(self) -> tuple[Source, Randomness]:
        """The rows themselves: for baselines that are not private, and for streams, which hold one batch of rows."""
        if not self.__hands_out_rows:
            raise NotPaidForError("The method did not declare that it holds rows.")
        return self.__source, self.__rng


def _covers(left: Cost, cost: Cost) -> bool:
    """Whether a share is enough for a cost of the same kind."""
    if isinstance(left, GaussianCost) and isinstance(cost, GaussianCost):
        return cost.mu <= left.mu * _SLACK
    if isinstance(left, PureCost) and isinstance(cost, PureCost):
        return cost.epsilon <= left.epsilon * _SLACK
    if isinstance(left, ConcentratedCost) and isinstance(cost, ConcentratedCost):
        return cost.rho <= left.rho * _SLACK
    return left == cost


def _rest(left: Cost, cost: Cost) -> Cost | None:
    """What is left of a share, None for nothing; Gaussian shares compose in squares."""
    if isinstance(left, GaussianCost) and isinstance(cost, GaussianCost):
        rest = left.mu**2 - cost.mu**2
        return GaussianCost(math.sqrt(rest)) if rest > left.mu**2 * 1e-15 else None
    if isinstance(left, PureCost) and isinstance(cost, PureCost):
        rest = left.epsilon - cost.epsilon
        return PureCost(rest) if rest > left.epsilon * 1e-15 else None
    if isinstance(left, ConcentratedCost) and isinstance(cost, ConcentratedCost):
        rest = left.rho - cost.rho
        return ConcentratedCost(rest) if rest > left.rho * 1e-15 else None
    return None


def _sum(first: Cost, second: Cost) -> Cost:
    """What two measurements for one purpose cost together."""
    if isinstance(first, GaussianCost) and isinstance(second, GaussianCost):
        return GaussianCost(math.hypot(first.mu, second.mu))
    if isinstance(first, PureCost) and isinstance(second, PureCost):
        return PureCost(first.epsilon + second.epsilon)
    if isinstance(first, ConcentratedCost) and isinstance(second, ConcentratedCost):
        return ConcentratedCost(first.rho + second.rho)
    raise AssertionError("one purpose is paid for in one kind of cost")
