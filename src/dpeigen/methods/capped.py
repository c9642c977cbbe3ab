"""Rows with equal weight (``max_rows``): the cap c on a person's rows, and the number of rows used, are paid for.

A row has weight 1/c, and a person has at most weight 1. So noise is that of N people with c rows each, although most
may have fewer: it is c·N/T times the noise with one row per person, where T is the number of rows that count. c is
at most ``max_rows``, and as large as the noise allows according to public facts. If noise is small beside the sampling
error, c is ``max_rows``; otherwise c is the number of rows that most people have. If there are so few people that the
noise of the question would hide any answer, c is 1 and costs nothing. As the budget or the number of people grows, c
becomes ``max_rows``, so the release converges to that of the table in which every row has equal weight.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Protocol, TypeVar

from dpeigen.curator import Curator, Purpose
from dpeigen.methods.task import Task
from dpeigen.privacy import Budget, Cost, PureCost, gaussian_mu
from dpeigen.questions.count import Count
from dpeigen.questions.rows import RowsThatCount, RowsUsed
from dpeigen.stats import Frame

__all__ = ["first_shares", "noise_allowed", "with_rows_paid"]

C = TypeVar("C", bound=Curator)
_COUNTED, _USED = 0.02, 0.01  # of ε: for the cap, and for the number of rows
_ROUNDED = 0.001  # of ε: reserved for rounding in the composition
_MORE = 0.1  # allowed increase of the squared error, relative to one row per person
_LENGTH = 12.0  # squared norm of the longest rows, relative to the mean square of a column times the number of columns


class _Shared(Protocol):
    holds_rows: ClassVar[bool]

    def shares(self, task: Task) -> dict[Purpose, Cost]: ...


def first_shares(method: _Shared, task: Task) -> dict[Purpose, Cost]:
    """The shares before the number of rows is known, if that is paid for; otherwise all shares."""
    if task.max_rows is None or method.holds_rows:
        return method.shares(task)
    return {Purpose.ROWS: PureCost((_COUNTED + _USED) * task.budget.epsilon)}


def with_rows_paid(curator: C, method: _Shared, task: Task) -> tuple[C, Task]:
    """Curator and task; if rows have equal weight, after paying for the cap and the number of rows that count.

    Sums are divided by T/c, where T is the number of rows that count. T is private even if the number of people is
    public. Once released, T/c takes the place of the number of people. If that number is private too, it is paid for
    first, and T/c is released together with the sums.
    """
    if task.max_rows is None or method.holds_rows:
        return curator, task
    counting, using = (PureCost(share * task.budget.epsilon) for share in (_COUNTED, _USED))
    question = RowsThatCount(Frame(task.n_features, missing=task.missing), task.max_rows)
    people = task.n_rows or curator.measure(Count(question), purpose=Purpose.ROWS, cost=using)
    question = replace(question, allowed=noise_allowed(task, people))
    # If the answer would be 1 for any rows, it is not asked and costs nothing. Public numbers decide this.
    asked = question.can_be_more_than_one(people, counting)
    counted = int(curator.measure(question, purpose=Purpose.ROWS, cost=counting)) if asked else 1
    paid = (_COUNTED if asked else 0.0) + (_USED if counted > 1 or task.n_rows is None else 0.0)
    kept = 1 - paid - (_ROUNDED if paid else 0.0)
    left = replace(task, budget=Budget(kept * task.budget.epsilon, task.budget.delta), max_rows=counted)
    if task.n_rows is None:
        return curator.counting(counted).part(method.shares(left)), left
    terms = float(people)  # one row of each
    if counted > 1:
        used = curator.measure(RowsUsed(question.rows, counted), purpose=Purpose.ROWS, cost=using)
        terms = min(used / counted, terms)
    left = replace(left, n_rows=max(2, round(terms)), people=task.n_rows)
    part = curator.counting(counted).part(method.shares(left))
    part.known_terms = max(2.0, terms)
    return part, left


def noise_allowed(task: Task, people: float) -> float:
    """The affordable noise, as a multiple of that with one row per person; from public or released numbers.

    Let q be the squared noise with one row per person, divided by the squared sampling error. With g times the noise
    the squared error is q·g² + 1 instead of q + 1, if sampling errors are the same. It may grow by a tenth.
    """
    epsilon, delta, d = task.budget.epsilon, task.budget.delta, task.n_features
    strength = gaussian_mu(epsilon, delta) if delta > 0 else epsilon / (2 * math.sqrt(d))
    noise = _LENGTH * d**2 / (strength**2 * people)
    return math.sqrt(1 + _MORE + _MORE / noise)
