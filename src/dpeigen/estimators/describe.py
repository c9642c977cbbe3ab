"""How an estimate becomes a release: its guarantee, its facts, and the moment that intervals are computed from.

Guarantee: only estimates, which methods have paid for, and public facts enter. Nothing is read or spent here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from dpeigen._arithmetic import own_error_state
from dpeigen.estimators.mixed import columns_fact
from dpeigen.estimators.possible import within_limits
from dpeigen.estimators.rehearsal import promise
from dpeigen.facts import made_now
from dpeigen.methods import Estimate, Method, Task
from dpeigen.methods.auto import Choice
from dpeigen.privacy import Budget, Relation
from dpeigen.release import Release
from dpeigen.sources import Source
from dpeigen.stats.measured import Measured

__all__ = ["describe", "row_notes"]


@own_error_state
def _measured(make: Callable[[], Measured]) -> Measured | None:
    """The moment for intervals, or None if it cannot be computed: a release that was paid for must not be lost."""
    try:
        return make()
    except (ArithmeticError, IndexError, ValueError):
        return None


def _bounds_fact(task: Task) -> dict[str, Any]:
    """The public bounds of the columns, if there are any, in the units of the rows that a method sees."""
    if not isinstance(task.bound, tuple):
        return {}
    return {"bounds": {side: ends.tolist() for side, ends in zip(("lower", "upper"), task.bound, strict=True)}}


def row_notes(source: Source, task: Task) -> tuple[str, ...]:
    """A note on what counts as a row, for fits that accept rows without readable cells."""
    return (source.row_note,) if source.row_note and task.missing != "refuse" else ()


def describe(
    estimate: Estimate,
    method: Method,
    task: Task,
    cost: Budget,
    kind: str,
    source: Source,
    *,
    seeded: bool,
    choice: Choice | None = None,
    ticket: Mapping[str, str] = MappingProxyType({}),
) -> Release:
    guarantee = promise(estimate, method, task, cost).with_notes(*row_notes(source, task))
    if seeded:
        guarantee = replace(guarantee, numerics="seeded")
    public_bound = isinstance(task.bound, (float, tuple))
    paid = not public_bound if estimate.radius_released is None else estimate.radius_released
    facts = {
        "method": method.name,
        "n_rows": estimate.n_rows if task.n_rows is None else task.n_rows,
        "n_rows_is": "public" if task.relation is Relation.REPLACE else "released",
        "noise_deviation": estimate.noise_deviation,
        "covariance_error": estimate.covariance_error,
        "radius": estimate.radius,
        "radius_is": "released" if paid else "public",
        "center": task.center if isinstance(task.center, str) else "public",
        "feature_names": source.feature_names,
        **columns_fact(source),
        **_bounds_fact(task),
        "details": dict(estimate.details),
        "estimand": guarantee.estimand,
        **({} if task.max_rows is None else {"max_rows": task.max_rows, "rows_that_count": estimate.rows_that_count}),
        **({} if task.missing == "refuse" else {"missing": task.missing}),
        **({} if estimate.holes is None else {"missing_shares": estimate.holes.tolist()}),
        "choice": choice and choice.to_dict(),
        **made_now(),
        **ticket,
    }
    release = Release(
        kind=kind,
        components=estimate.components,
        eigenvalues=estimate.eigenvalues,
        covariance=estimate.covariance,
        mean=estimate.mean,
        noise_variance=estimate.noise_variance,
        guarantee=guarantee,
        facts=facts,  # type: ignore[arg-type]
        scale=estimate.scale,
        measured=estimate.measured and partial(_measured, estimate.measured),  # deferred: slower than many fits
    )
    in_other_units = kind == "ridge" and isinstance(task.bound, tuple)  # until `PrivateRidge` has converted it
    return within_limits(release) if method.whole and not in_other_units else release
