"""Methods that wrap another one: something is paid for first, and the inner method gets the rest of the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from dpeigen._validate import complain
from dpeigen.curator import Purpose
from dpeigen.methods.base import Method, Task
from dpeigen.methods.outline import Planned
from dpeigen.privacy import Budget, Cost, Spend, compose_delta
from dpeigen.privacy.guarantee import Basis

__all__ = ["Wrapped", "itself", "left_for", "spends"]

_TIMES = 40  # steps of bisection


@dataclass(frozen=True)
class Wrapped(Method):
    """The properties that all wrappers take from the inner method."""

    inner: Method

    needs_bound: ClassVar[bool] = False
    planned: ClassVar[Planned | None] = None  # the number of components varies, so errors are not comparable

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.inner.name

    @property
    def reference(self) -> str:  # type: ignore[override]
        return self.inner.reference

    @property
    def continuous_noise(self) -> bool:  # type: ignore[override]
        return self.inner.continuous_noise

    @property
    def basis(self) -> Basis:  # type: ignore[override]
        return self.inner.basis


def itself(method: Method) -> Method:
    """The innermost method, which finds the directions; wrappers pay for their number or for units."""
    return itself(method.inner) if isinstance(method, Wrapped) else method


def spends(costs: Mapping[Purpose, Cost]) -> list[Spend]:
    """The costs as spends, for composition."""
    return [Spend(purpose.value, "", cost) for purpose, cost in costs.items()]


def left_for(method: Method, task: Task, paid: Mapping[Purpose, Cost], *, delta: float, asked: str) -> Budget:
    """The largest budget with this δ for which a method, and what is already paid, compose to the budget of the task.

    ``asked``: the option that is paid for first, for the message if nothing is left.
    """
    most, spent = task.budget.epsilon * (1 - 1e-9), spends(paid)

    def fits(epsilon: float) -> bool:
        costs = spends(method.shares(replace(task, budget=Budget(epsilon, delta))))
        return compose_delta([*spent, *costs], most) <= task.budget.delta * (1 - 1e-6)

    low, high = 0.0, task.budget.epsilon
    for _ in range(_TIMES):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0.0:  # found by `check`, before anything is read
        must = f"of a usual size with {asked}, so that it can be shared"
        raise ValueError(complain("delta", task.owner, must, task.budget.delta, "Use a value well below 1/n."))
    return Budget(low, delta)
