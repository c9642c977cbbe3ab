"""What a fit would do, without looking at a row: the method, what it pays for, and how often it reads the data.

The method is run on a few made-up rows of the right width with made-up noise, and its reads are counted. What a method
does next depends on public facts and on the steps of its plan, never on values, so the real fit reads as often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpeigen.methods import Estimate, Method, Task
from dpeigen.privacy import Budget, Guarantee, Spend
from dpeigen.privacy.randomness import made_up_randomness
from dpeigen.sources import Source

_ROWS = 64
TRUNCATED = (
    "Noise that is continuous is drawn in floating point. A Gaussian ends at 9.155 standard deviations: beyond them "
    "lies a probability of 5.4e-20 for each number drawn, which δ does not include."
)
_NONE_BAD = (
    "Tables with missing or unreadable cells are refused, without noise: this release tells that there were none. "
    "on_bad_row='drop-to-zero' does not."
)


@dataclass(frozen=True)
class Plan:
    """The public course of a fit."""

    method: str
    cost: Budget
    split: tuple[Spend, ...]
    passes: int
    counting: bool  # whether a fit reads once more, to count the rows
    guarantee: Guarantee  # what a fit would promise


class _Stand(Source):
    """Rows that are nobody's, lying as the source's do, and a count of how often they were read."""

    def __init__(self, source: Source, rows: int) -> None:
        self.n_features, self.n_rows, self.reads = source.n_features, rows, 0
        self.fixed_order = source.fixed_order
        self._rows = np.zeros((rows, self.n_features))
        self._rows[np.arange(rows), np.arange(rows) % self.n_features] = np.linspace(-1, 1, rows)

    def blocks(self) -> Iterator[Any]:
        self.reads += 1
        yield self._rows


def rehearse(method: Method, task: Task, source: Source, *, counting: bool) -> Plan:
    """The plan of a fit by this method, which has been checked against the task."""
    rows, played = _ROWS, task
    needed = method.rehearsal_rows(task)
    if needed is not None:
        rows = needed if task.n_rows is None else min(task.n_rows, needed)
        played = replace(task, n_rows=rows)
    stand = _Stand(source, rows)
    estimate = method.estimate(stand, played, made_up_randomness())
    cost = method.price(task)
    return Plan(method.name, cost, estimate.split, stand.reads, counting, promise(estimate, method, task, cost))


def promise(estimate: Estimate, method: Method, task: Task, cost: Budget) -> Guarantee:
    """The guarantee of an estimate by this method, drawn with the operating system's randomness."""
    continuous = method.continuous_noise or task.budget.is_pure
    return Guarantee(
        epsilon=cost.epsilon,
        delta=cost.delta,
        relation=task.relation,
        mechanism=method.name,
        split=estimate.split,
        numerics=estimate.numerics,
        basis=method.basis,
        assumptions=method.assumptions(task),
        reference=method.reference,
        notes=(
            *estimate.notes,
            *((TRUNCATED,) if continuous and estimate.numerics == "idealised" else ()),
            *refusal_notes(task.on_bad_row),
        ),
    )


def refusal_notes(on_bad_row: str) -> tuple[str, ...]:
    """What it tells that there is a release, where bad rows are refused."""
    return (_NONE_BAD,) if on_bad_row == "refuse" else ()
