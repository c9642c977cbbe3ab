"""Choice of the shares of a budget for directions, variances, centre and radii, by the error model."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpeigen._validate import complain
from dpeigen.curator import Purpose
from dpeigen.methods import Method
from dpeigen.planner.planning import modelled_method
from dpeigen.planner.problem import Problem, Simulator, planned
from dpeigen.planner.simulation import Found

__all__ = ["best_split", "split_loss"]

_FACTORS = (0.25, 0.5, 2.0, 4.0)
_MAIN = Purpose.MOMENT, Purpose.DIRECTIONS, Purpose.TAU, Purpose.EIGENVECTORS
_WORTH = 0.97  # a new loss must be below this fraction: smaller differences are within the error of the runs
_RUNS = 24
_RANGE = 1 / 8, 8.0  # of the factors


def best_split(
    method: str | Method, n_rows: int, n_features: int, n_components: int, *, rounds: int = 2, **facts: Any
) -> Method:
    """Choose how a method should split its budget; the result can be given to an estimator.

    It minimises the mean square of three errors: of the directions, of the last of the wanted variances relative to
    itself, and of a paid centre relative to the root mean square norm of a row. It tries factors on one share after the
    other, relative to the shares of the directions. The result is kept only if it is also better on new rows and noise.

    Parameters
    ----------
    method : str or Method
        The method whose shares are chosen.
    n_rows : int
        The number of rows. Under relation="add_remove" it is private, but a release shows its shares: it is then
        rounded to the nearest power of 2, and should be a guess made without the data.
    n_features : int
        The number of columns.
    n_components : int
        The number of directions wanted.
    rounds : int, default=2
        How often each share is tried.
    **facts : public facts
        As for `plan`.

    Returns
    -------
    Method
        The method with the ``emphasis`` on its shares that has the smallest predicted error.
    """
    if facts.get("relation") == "add_remove":
        n_rows = 2 ** round(math.log2(max(2, n_rows)))
    problem = Problem.of(n_rows, n_features, n_components, **facts)
    default = modelled_method(method)
    default.check(problem.task)
    if "emphasis" not in getattr(default, "__dataclass_fields__", {}):
        raise ValueError(complain("method", "best_split", "one whose shares can be emphasised", default.name))
    simulator, best = Simulator(problem), default
    least = split_loss(best, problem, simulator)
    leave = {*_MAIN, *planned(default).unseen}
    names = [purpose.value for purpose in default.shares(problem.task) if not (purpose in leave or purpose.is_look)]
    for _ in range(rounds):
        before = best
        for name in names:
            base = float(best.emphasis.get(name, 1.0))
            for factor in _FACTORS:
                if not _RANGE[0] <= base * factor <= _RANGE[1]:
                    continue
                trial = replace(best, emphasis={**best.emphasis, name: base * factor})  # type: ignore[type-var]
                loss = split_loss(trial, problem, simulator)
                if loss < least * _WORTH:
                    best, least = trial, loss
        if best is before:
            break
    fresh = Simulator(problem, seed=1)
    better = split_loss(best, problem, fresh) < split_loss(default, problem, fresh)
    return best if better else default


def split_loss(method: Method, problem: Problem, simulator: Simulator) -> float:
    """The root mean square of the errors of directions, variances and centre together."""
    try:
        method.check(problem.task)
    except ValueError:
        return math.inf
    runs = simulator.found(method, problem.task, min(_RUNS, problem.repetitions))
    values = problem.rows.variances
    k, error = problem.task.n_components or problem.task.n_features, simulator.distance

    def squared(found: Found) -> float:
        total = error(found.directions) ** 2
        if found.variances is not None:
            total += (float(found.variances[k - 1]) / float(values[k - 1]) - 1) ** 2
        if found.center is not None:
            total += float(found.center @ found.center) / float(values.sum())
        return total

    return math.sqrt(float(np.mean([squared(found) for found in runs])))
