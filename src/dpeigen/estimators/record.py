"""What a ledger is told of a fit before anything is spent: its shares, public facts, and whom it protects.

Guarantee: all of it follows from public facts. Nothing is read or spent here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpeigen.estimators.rehearsal import rehearse
from dpeigen.methods import Method, Task
from dpeigen.privacy import PureCost, Spend
from dpeigen.sources import Source
from dpeigen.sources.units import UnitSource

__all__ = ["about", "per_unit", "planned_split", "unit_fact", "unit_of"]


def planned_split(method: Method, task: Task) -> tuple[Spend, ...] | None:
    """The most that a fit will pay for each share; None if only the total is known beforehand, which is enough.

    How much of a share is used, and how much is moved to another one, may depend on earlier releases of the fit. The
    total cost of Gaussian shares does not depend on how they are divided; pure shares cost less if divided more evenly.
    Whether shares are pure is seen from them: a method may leave the δ of its task unused.
    """
    if method.basis != "worst-case" or task.max_rows is not None or not method.split_is_known(task):
        return None
    asked = rehearse(method, task, counting=False).split
    most = method.declared(task)
    planned = tuple(replace(spend, cost=most.get(spend.purpose, spend.cost)) for spend in asked)
    moves = planned != asked and all(isinstance(spend.cost, PureCost) for spend in planned)
    return None if moves else planned


def about(method: Method, task: Task, kind: str, seeded: bool) -> dict[str, Any]:
    """Public facts for the ledger's record."""
    return {"kind": kind, "method": method.name, "basis": method.basis, "seeded": seeded, "columns": task.n_features,
            "components": task.n_components, "rows": task.n_rows, **unit_fact(task.unit)}  # fmt: skip


def unit_of(source: Source) -> str:
    """Whom a guarantee for these rows protects; a column of ids may be called "row" too."""
    name = source.name if isinstance(source, UnitSource) else "row"
    return "row id" if isinstance(source, UnitSource) and name == "row" else name


def unit_fact(unit: str) -> dict[str, str]:
    """The unit for the ledger's record, if it is not a row."""
    return {} if unit == "row" else {"unit": unit}


def per_unit(unit: str) -> str:
    """The same in words."""
    return "" if unit == "row" else f", neighbours differ in all rows of one {unit!r}"
