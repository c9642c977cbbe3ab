"""The other way round: the ε, or the rows, that reach a target error in most runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpeigen._validate import complain
from dpeigen.methods import Method
from dpeigen.methods.auto import explain
from dpeigen.planner.planning import Problem, Simulator, modelled_method

CONFIDENCE = 0.95  # of runs that reach the target
_LEAST_EPSILON, _MOST_EPSILON = 1e-3, 64.0
_LEAST_ROWS, _MOST_ROWS = 10, 10**8
_FINE = 1.03  # a search ends when its interval is this ratio


class OutOfReachError(ValueError):
    """No ε, or no number of rows, reaches the target under the assumptions."""


def needed_epsilon(
    target: float, n_rows: int, n_features: int, n_components: int, *, method: str | Method = "auto", **facts: Any
) -> float:
    """The smallest ε (within 3%) at which 95% of runs have an error of at most ``target``.

    ``method`` is a name, an instance, or "auto": what `auto` would choose at each ε. Other facts are those of `plan`,
    without ε. Raises `OutOfReachError` where no ε up to 64 is enough, because the rows themselves are too few.
    """
    problem = Problem.of(n_rows, n_features, n_components, epsilon=_MOST_EPSILON, **facts)
    return epsilon_for(target, problem, method)


def needed_rows(
    target: float, n_features: int, n_components: int, *, method: str | Method = "auto", **facts: Any
) -> int:
    """The smallest number of rows (within 3%) at which 95% of runs have an error of at most ``target``.

    Facts are those of `plan`, without the rows. Raises `OutOfReachError` where 100 million are not enough.
    """
    return rows_for(target, Problem.of(_MOST_ROWS, n_features, n_components, **facts), method)


def epsilon_for(target: float, problem: Problem, method: str | Method = "auto") -> float:
    """`needed_epsilon` for a checked problem, whose own ε does not matter."""
    simulator = Simulator(problem)

    def enough(epsilon: float) -> bool:
        return _reaches(problem.at(epsilon), simulator, method, target)

    return _search(enough, _LEAST_EPSILON, _MOST_EPSILON, "ε", target)


def rows_for(target: float, problem: Problem, method: str | Method = "auto") -> int:
    """`needed_rows` for a checked problem, whose own rows do not matter."""

    def enough(n: float) -> bool:
        resized = problem.with_rows(math.ceil(n))
        return _reaches(resized, Simulator(resized), method, target)

    return math.ceil(_search(enough, _LEAST_ROWS, _MOST_ROWS, "number of rows", target))


def _reaches(problem: Problem, simulator: Simulator, method: str | Method, target: float) -> bool:
    chosen = explain(problem.task).method if method == "auto" else modelled_method(method)
    try:
        chosen.check(problem.task)
    except ValueError:
        return False
    errors = simulator.errors(chosen, problem.task, max(problem.repetitions, 16))
    return bool(np.quantile(errors, CONFIDENCE) <= target)


def _search(enough: Callable[[float], bool], low: float, high: float, name: str, target: float) -> float:
    """The least value of a logarithmic scale for which ``enough`` holds, if it holds from there on."""
    if not 0 < target < 1:
        raise ValueError(complain("target", "planner", "in (0, 1)", target))
    if not enough(high):
        raise OutOfReachError(f"No {name} up to {high:g} reaches a target of {target:g} under these assumptions.")
    while high / low > _FINE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
