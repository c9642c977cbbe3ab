"""What a fit would do, without reading a row: the method, its measurements, and how often it reads the data.

The method asks a curator without rows (`curator.rehearsal`), and its questions are recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpeigen import _html
from dpeigen.clipped import foreseen_clipping
from dpeigen.curator import Rehearsal
from dpeigen.methods import Estimate, Method, Task
from dpeigen.methods.base import estimand_of, run_method
from dpeigen.methods.capped import first_shares, with_rows_paid
from dpeigen.methods.columns import NO_CELLS, NOTHING_SEEN
from dpeigen.methods.holes import ASSUMPTION
from dpeigen.methods.wrapped import itself
from dpeigen.privacy import Budget, Guarantee, Spend
from dpeigen.privacy.randomness import made_up_randomness
from dpeigen.sources import ArraySource

__all__ = ["TRUNCATED", "FitPlan", "missing_notes", "promise", "rehearse", "unit_notes"]

TRUNCATED = (
    "Continuous noise is drawn in floating point. Gaussian noise is cut off at 9.155 standard deviations; δ does not "
    "include the probability beyond them, 5.4e-20 for each number drawn."
)
_NONE_BAD = (
    "Tables with missing or unreadable cells are refused, without noise, so this release reveals that there were none. "
    "With missing='correct' it would not."
)
_DROPPED = (
    "A row with a missing or unreadable cell was replaced by the centre. It counts as a row, so it pulls variances "
    "towards 0 and means towards that centre. missing='correct' avoids this."
)


_ROWS = 64  # made-up rows, for methods that hold rows


@dataclass(frozen=True)
class FitPlan:
    """The public steps of a fit."""

    method: str
    cost: Budget
    split: tuple[Spend, ...]
    passes: int
    counting: bool  # whether a fit reads the data once more, to count the rows
    guarantee: Guarantee  # of a fit
    only_noise: str | None = None  # a warning if the result would be only noise, and what would be enough
    weak: str | None = None  # a warning if the budget protects little
    clipped: float | None = None  # the share of rows that would be clipped, if it follows from public facts

    def _repr_html_(self) -> str:
        """For notebooks."""
        title, text = self._words()
        warned = "".join(_html.paragraph(words, loud=True) for words in self.warnings)
        clipping = _html.paragraph(self.clipping) if self.clipping else ""
        return _html.box(title, _html.paragraph(text), clipping, warned, self.guarantee._repr_html_())

    @property
    def warnings(self) -> list[str]:
        """What a user should know before paying."""
        return [words for words in (self.only_noise, self.weak) if words]

    @property
    def clipping(self) -> str | None:
        """What to know beforehand if many rows would be clipped."""
        return foreseen_clipping(self.clipped)

    def __str__(self) -> str:
        return "\n".join([*self._words(), *filter(None, [self.clipping]), *self.warnings, str(self.guarantee)])

    def _words(self) -> tuple[str, str]:
        reads = self.passes + self.counting
        return f"Plan of a fit by {self.method}", (
            f"It would cost (ε, δ) = ({self.cost.epsilon:g}, {self.cost.delta:g}) and read the data {reads} "
            f"time{'' if reads == 1 else 's'}. Nothing has been read or spent."
        )


def rehearse(method: Method, task: Task, *, counting: bool) -> FitPlan:
    """The plan of a fit by this method, which has accepted the task."""
    cost = method.price(task)
    if method.holds_rows:
        estimate, passes = _on_made_up_rows(method, task), 1
    else:
        curator = Rehearsal(task.relation, first_shares(method, task), cost, task.n_rows)
        estimate = method.estimate(*with_rows_paid(curator, method, task))
        # Notes about columns in which nothing was found are not known: no row was read.
        said = tuple(note for note in estimate.notes if not note.startswith((NOTHING_SEEN, NO_CELLS)))
        estimate, passes = replace(estimate, split=curator.split or estimate.split, notes=said), curator.passes
    made, clipped = promise(estimate, method, task, cost), None if method.holds_rows else _clipped(estimate, task)
    return FitPlan(method.name, cost, estimate.split, passes, counting, made, clipped=clipped)


def _clipped(estimate: Estimate, task: Task) -> float | None:
    """The share of rows that would be clipped to a private radius; None if the number of rows is not public."""
    if task.n_rows is None or estimate.measured is None:
        return None
    try:
        measured = estimate.measured()
    except (ArithmeticError, IndexError, ValueError):  # made-up answers may not fit together
        return None
    return None if measured.kind == "signs" else measured.clipped


def _on_made_up_rows(method: Method, task: Task) -> Estimate:
    """The estimate from a few made-up rows."""
    rows = _ROWS if task.n_rows is None else min(task.n_rows, _ROWS)
    table = np.zeros((rows, task.n_features))
    table[np.arange(rows), np.arange(rows) % task.n_features] = np.linspace(-1, 1, rows)
    return run_method(method, ArraySource(table), replace(task, n_rows=rows), made_up_randomness())


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
            *missing_notes(task.missing),
            *unit_notes(task.unit, task.max_rows, estimate.rows_that_count),
        ),
        estimand=estimand_of(itself(method), task),
        unit=task.unit,
    )


def unit_notes(unit: str, max_rows: int | None, counted: int | None = None) -> tuple[str, ...]:
    """Notes on the estimand and weights if rows belong to units; ``counted``: the cap that was paid for."""
    if unit == "row":
        return ()
    whose = f"Rows with the same {unit!r} are protected together; a row without one is a unit of its own. "
    if max_rows is None:
        return (f"{whose}Each {unit!r} has weight 1, divided among its rows: results are those of a random row of a "
                f"random {unit!r}.",)  # fmt: skip
    number = str(counted or "c")
    fewer = "" if counted == max_rows else (
        f"; {'this number' if counted else 'c'} is estimated from the budget or follows from public numbers, and is "
        f"smaller than {max_rows} if the noise would be much larger than with one row each"
    )  # fmt: skip
    one = (
        f". So each {unit!r} has weight 1 here: results are those of a random row of a random one"
        if counted == 1
        else ""
    )
    rows = f"{number} row{'s' * (counted != 1)}"
    counts = f"Each row has the same weight, but one {unit!r} counts as at most {rows}{fewer}{one}"
    return (f"{whose}At most {max_rows} rows of one {unit!r}, drawn at random, are used. {counts}. Its rows are "
            "clipped together: if their joint norm, the root of the sum of their squared norms divided by "
            f"{number} (or by their number, if that is larger), exceeds the radius, all of them are shortened by "
            f"the same factor. Measurements of single columns and pairs use one row of each {unit!r}. A released "
            f"number of units is the number of rows that count divided by {number}.",)  # fmt: skip


def missing_notes(missing: str) -> tuple[str, ...]:
    """Notes on what is assumed about missing cells, or revealed about them by the existence of a release."""
    return ({"refuse": _NONE_BAD, "drop": _DROPPED, "correct": ASSUMPTION}[missing],)
