"""Where each row counts alike (``max_rows``): as how many rows a person counts, and how many there are, is paid for.

A row has the weight 1/c, and no person more than one. So noise is that of c rows of every person, while most people may
have fewer: one row of each would have c·N/T of the noise, T the number of rows that count. c is at most ``max_rows``,
and as large as public facts say that noise can be afforded: where it is small beside the sampling error, c is
``max_rows``; where it is not, c is what most people have. With so few people that the noise of the question is larger
than anything that rows could say, c is 1 and costs nothing. c is ``max_rows`` as the budget or the number of people
grows, so that what is released converges to the table in which every row counts alike.
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
_COUNTED, _USED = 0.02, 0.01  # of ε: for what a person counts as, for the number of rows
_ROUNDED = 0.001  # of ε: left over for the rounding of what they compose to
_MORE = 0.1  # of the squared error of one row of each person
_LENGTH = 12.0  # squared length of the longest rows over the mean square of a column, over the number of columns


class _Shared(Protocol):
    holds_rows: ClassVar[bool]

    def shares(self, task: Task) -> dict[Purpose, Cost]: ...


def first_shares(method: _Shared, task: Task) -> dict[Purpose, Cost]:
    """What a curator may spend before it is known how many rows count, where that is to be paid for; else all of it."""
    if task.max_rows is None or method.holds_rows:
        return method.shares(task)
    return {Purpose.ROWS: PureCost((_COUNTED + _USED) * task.budget.epsilon)}


def with_rows_paid(curator: C, method: _Shared, task: Task) -> tuple[C, Task]:
    """Curator and task as they are; or, where each row counts alike, after it was paid for how many rows count.

    What sums are divided by is the number T of rows that count, divided by c. It is not public even where the number of
    people is. Once released it stands for the number of people. Where that is private as well, it is paid for first,
    and T/c is released along with the sums.
    """
    if task.max_rows is None or method.holds_rows:
        return curator, task
    counting, using = (PureCost(share * task.budget.epsilon) for share in (_COUNTED, _USED))
    question = RowsThatCount(Frame(task.n_features, missing=task.missing), task.max_rows)
    people = task.n_rows or curator.measure(Count(question), purpose=Purpose.ROWS, cost=using)
    question = replace(question, allowed=noise_allowed(task, people))
    # Where the answer would be 1 whatever the rows are, it costs nothing: this is decided by public numbers.
    asked = question.can_be_more_than_one(people, counting)
    counted = int(curator.measure(question, purpose=Purpose.ROWS, cost=counting)) if asked else 1
    paid = (_COUNTED if asked else 0.0) + (_USED if counted > 1 or task.n_rows is None else 0.0)
    kept = 1 - paid - (_ROUNDED if paid else 0.0)
    left = replace(task, budget=Budget(kept * task.budget.epsilon, task.budget.delta), max_rows=counted)
    if task.n_rows is None:
        return curator.counting(counted).part(method.shares(left)), left
    terms = float(people)  # one of each
    if counted > 1:
        used = curator.measure(RowsUsed(question.rows, counted), purpose=Purpose.ROWS, cost=using)
        terms = min(used / counted, terms)
    left = replace(left, n_rows=max(2, round(terms)), people=task.n_rows)
    part = curator.counting(counted).part(method.shares(left))
    part.known_terms = max(2.0, terms)
    return part, left


def noise_allowed(task: Task, people: float) -> float:
    """How many times the noise of one row of each person is affordable; from numbers that are public or released.

    Let q be the squared noise of one row each over the squared sampling error. At g times the noise the squared error
    is q·g² + 1 in place of q + 1, if sampling errors are the same. It may be a tenth more.
    """
    epsilon, delta, d = task.budget.epsilon, task.budget.delta, task.n_features
    strength = gaussian_mu(epsilon, delta) if delta > 0 else epsilon / (2 * math.sqrt(d))
    noise = _LENGTH * d**2 / (strength**2 * people)
    return math.sqrt(1 + _MORE + _MORE / noise)
