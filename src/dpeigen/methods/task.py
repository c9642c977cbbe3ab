"""The public facts of a fit that methods get: what is estimated, from which rows and columns, with which budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from dpeigen._types import Floats
from dpeigen.privacy import Budget, Relation
from dpeigen.stats.frame import Missing, RowView

__all__ = ["Box", "Task", "once_a_task"]

Box = tuple[Floats, Floats]


@dataclass(frozen=True)
class Task:
    """The public facts of a fit."""

    owner: str
    n_features: int
    n_components: int | None  # None: the whole covariance
    budget: Budget
    relation: Relation
    bound: float | Box | str | None  # radius, (lower, upper), "private", or None
    center: Floats | str | None  # None, a public centre, "private" or "pairs"
    n_rows: int | None  # None if private
    missing: Missing = "refuse"
    shrink: bool = True
    scale: Floats | str | None = None  # None: the data's own units; public deviations; "private"
    robust: bool = False  # whether directions of signs are asked for instead of those of the covariance
    regression: bool = False  # the last column is regressed on the others
    same_units: bool = False  # a public statement that all columns are measured in one unit
    unit: str = "row"  # whom the guarantee protects; n_rows is the number of units
    max_rows: int | None = None  # the most rows of a unit, if rows have equal weight; None: units have equal weight
    indicators: tuple[tuple[int, float], ...] = ()  # indicator columns of categories, and the value that stands for 1
    spans: tuple[tuple[int, float], ...] = ()  # columns with declared levels, and the difference of the outermost two
    private_rank: bool = False  # whether the number of components is paid for; n_components is 1 until it is known
    set_aside: float = (
        0.0  # ε beside the budget, for rows far outside the radius and ranges of columns (`methods.large`)
    )
    people: float | None = None  # number of units, if rows have equal weight and n_rows is rows divided by max_rows

    @property
    def units_per_term(self) -> float:
        """The most units per term of the sums: more than 1 if every row has equal weight."""
        known = self.people is not None and self.n_rows is not None
        return max(1.0, self.people / self.n_rows) if known else float(self.max_rows or 1)  # type: ignore[operator]

    def row_radius(self, radius: float, view: RowView) -> float:
        """The average norm of rows that corresponds to a radius; larger if the rows of a unit are clipped together."""
        return radius * math.sqrt(self.units_per_term) if view.rows_per_term == 1 else radius

    @property
    def pairs(self) -> bool:
        return isinstance(self.center, str) and self.center == "pairs"

    @property
    def private_center(self) -> bool:
        return isinstance(self.center, str) and self.center == "private"

    @property
    def private_bound(self) -> bool:
        return isinstance(self.bound, str)

    @property
    def wanted(self) -> int:
        """The number of directions wanted: all of them for a whole covariance."""
        return self.n_features if self.n_components is None else self.n_components

    @property
    def n_terms(self) -> int | None:
        """The number of terms of the sums: rows, or pairs of rows; None if it is private."""
        return None if self.n_rows is None else self.n_rows // 2 if self.pairs else self.n_rows


def once_a_task(shares: Callable[[Any, Task], dict[Any, Any]]) -> Callable[[Any, Task], dict[Any, Any]]:
    """Cache the shares of a method for each task: they depend on public facts only and are asked for often."""

    @wraps(shares)
    def known(method: Any, task: Task) -> dict[Any, Any]:
        kept: list[tuple[Any, dict[Any, Any]]] = vars(task).setdefault("_shares", [])
        found = next((found for other, found in kept if type(other) is type(method) and other == method), None)
        if found is None:
            kept.append((method, found := shares(method, task)))
        return dict(found)

    return known
