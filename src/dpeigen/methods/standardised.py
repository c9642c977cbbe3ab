"""``scale=`` with a robust method: columns are divided by their deviations before the method sees the rows.

Guarantee: the composition of the deviations and the method. Deviations are public, or paid for by noisy counts of
differences of rows (`methods.column_scales`). Dividing the columns of a row by released numbers is a function of that
row alone, so the method's guarantee for rows holds for divided rows. The method gets the largest ε for which everything
composes to the budget; the split in the guarantee lists every share.

A covariance can be standardised after the fit. Directions of signs cannot: in other units they are different
directions, which do not follow from a few released ones. Paid deviations are rough: about those of a normal column with
the same far end. A column whose scale is not found is left out and named in a note.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Task, standardised
from dpeigen.methods.column_scales import NORMAL_SCALE, ask_scales, scale_integers
from dpeigen.methods.columns import scales_share, unknown_note
from dpeigen.methods.enough import more_epsilon, more_rows, three_remedies
from dpeigen.methods.found_columns import shows_columns
from dpeigen.methods.wrapped import Wrapped, left_for
from dpeigen.privacy import Budget, Cost, allocate
from dpeigen.stats.measured import Measured

__all__ = ["PREFIX", "Standardised"]

PREFIX = "units: "


@dataclass(frozen=True)
class Standardised(Wrapped):
    """A method on columns that are divided by public or paid deviations.

    Parameters
    ----------
    inner : the method, which sees the divided rows.
    """

    @property
    def label(self) -> str:
        return self.inner.label

    def assumptions(self, task: Task) -> tuple[str, ...]:
        return self.inner.assumptions(self._inner_task(task))

    def price(self, task: Task) -> Budget:
        return task.budget

    def split_is_known(self, task: Task) -> bool:
        return self.inner.split_is_known(self._inner_task(task))

    def declared(self, task: Task) -> dict[str, Cost]:
        own = {PREFIX + purpose.value: cost for purpose, cost in self.shares(task).items()}
        return own | self.inner.declared(self._inner_task(task))

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The cost of the deviations."""
        if isinstance(task.scale, np.ndarray):
            return {}
        main = {Purpose.SCALES: scales_share(task), Purpose.REST: 1.0}
        costs = allocate(task.budget, pure={}, main=main, coordinates=scale_integers(task.n_features))
        del costs[Purpose.REST]
        return costs

    def check(self, task: Task) -> None:
        super().check(task)
        if task.private_rank:
            must = "a number with scale= and robust directions"
            raise ValueError(complain("n_components", task.owner, must, "private"))
        if not isinstance(task.scale, np.ndarray) and not shows_columns(task):
            rows, d = f"{task.n_rows:,} rows are too few to estimate", task.n_features
            must = f"larger: at this value {rows} the standard deviation{'s' if d > 1 else ''} of {_columns(d)}"
            raise ValueError(complain("epsilon", task.owner, must, task.budget.epsilon, _remedies(task)))
        self.inner.check(self._inner_task(task))

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        d = task.n_features
        deviations, known = task.scale, np.ones(d, dtype=bool)
        if not isinstance(deviations, np.ndarray):
            costs = self.shares(task)
            scale, known = ask_scales(curator.part(costs, PREFIX), task, costs)
            deviations = np.where(known, scale / NORMAL_SCALE, 1.0)
        divisor, inner = deviations, self._inner_task(task, deviations)
        divided = curator.part(self.inner.shares(inner)).divided(np.where(known, deviations, np.inf))
        found = self.inner.estimate(divided, inner)
        missing = [int(column) for column in np.flatnonzero(~known)]
        if not isinstance(task.scale, np.ndarray) and found.details.get("variances") != "relative":
            found = standardised(found, replace(task, indicators=()))  # a small correction with better variances
            if found.scale is not None:
                deviations = deviations * np.where(known, found.scale, 1.0)
        return replace(
            found,
            mean=None if found.mean is None else found.mean * divisor,
            scale=deviations,
            measured=None if found.measured is None else partial(_in_own_units, found.measured, divisor),
            notes=(*found.notes, *unknown_note(missing)),
            details={**found.details, "columns_without_scale": missing},
        )

    def _inner_task(self, task: Task, deviations: Floats | None = None) -> Task:
        """The task for the inner method: without bounds, which were in other units, and with the rest of the budget."""
        bound = task.bound if isinstance(task.bound, str) else None
        fixed = replace(task, scale=None, bound=bound, indicators=())
        if isinstance(task.center, np.ndarray) and deviations is not None:
            fixed = replace(fixed, center=task.center / deviations)
        paid = self.shares(task)
        if not paid:
            return fixed
        return replace(
            fixed, budget=left_for(self.inner, fixed, paid, delta=task.budget.delta, asked="scale='private'")
        )


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _remedies(task: Task) -> str:
    """What would be enough to find the deviations, from public facts."""
    n, budget = task.n_rows or 0, task.budget
    epsilon = more_epsilon(
        budget.epsilon, lambda more: shows_columns(replace(task, budget=replace(budget, epsilon=more)))
    )
    rows = more_rows(n, lambda more: shows_columns(replace(task, n_rows=more))) if n else None
    return three_remedies("scale= public deviations", rows, epsilon)


def _in_own_units(measured: Callable[[], Measured], deviations: Floats) -> Measured:
    return measured().scaled(1 / deviations)
