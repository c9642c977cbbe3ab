"""The other way round: the ε, or the rows, that reach a target error in most runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import complain
from dpeigen.methods import Method
from dpeigen.methods.auto import explain
from dpeigen.planner.planning import Problem, Simulator, modelled_method

_DEVIATIONS, _QUANTILE = 1.7, 0.95  # above the mean, and of the runs: 95% of runs are below both
_CAUTION = 0.97  # of the target is aimed at: predictions may be off by a little
_RUNS = 60, 30, 15  # of up to 20 and 60 columns, and of more
_FEW_RUNS = 8  # far from the target
_NEAR = 1.5  # a factor: nearer than this to the target, all runs are made
Floats = NDArray[np.float64]
_LEAST_EPSILON, _MOST_EPSILON = 1e-3, 64.0
_LEAST_ROWS, _MOST_ROWS = 10, 10**8
_FINE = 1.03  # a search ends when its interval, or what is left to the target, is this ratio
_LOST = 0.9  # above this an error says nothing about how far off the target is
_STEPS = 24


class OutOfReachError(ValueError):
    """No ε, or no number of rows, reaches the target under the assumptions."""


def needed_epsilon(
    target: float,
    n_rows: int,
    n_features: int,
    n_components: int | None,
    *,
    method: str | Method = "auto",
    **facts: Any,
) -> float:
    """The smallest ε (within 3%) at which 95% of runs have an error of at most ``target``.

    ``method`` is a name, an instance, or "auto": what `auto` would choose at each ε. Other facts are those of `plan`,
    without ε. Raises `OutOfReachError` where no ε up to 64 is enough, because the rows themselves are too few.
    """
    problem = Problem.of(n_rows, n_features, n_components, epsilon=_MOST_EPSILON, **facts)
    return epsilon_for(target, problem, method)


def needed_rows(
    target: float, n_features: int, n_components: int | None, *, method: str | Method = "auto", **facts: Any
) -> int:
    """The smallest number of rows (within 3%) at which 95% of runs have an error of at most ``target``.

    Facts are those of `plan`, without the rows. Raises `OutOfReachError` where 100 million are not enough.
    """
    return rows_for(target, Problem.of(_MOST_ROWS, n_features, n_components, **facts), method)


def epsilon_for(target: float, problem: Problem, method: str | Method = "auto") -> float:
    """`needed_epsilon` for a checked problem, whose own ε does not matter."""
    simulator = Simulator(problem)

    def error(epsilon: float) -> float:
        return _high_error(problem.at(epsilon), simulator, method, target)

    return _search(error, _LEAST_EPSILON, _MOST_EPSILON, "ε", target)


def rows_for(target: float, problem: Problem, method: str | Method = "auto") -> int:
    """`needed_rows` for a checked problem, whose own rows do not matter."""

    def error(n: float) -> float:
        resized = problem.with_rows(math.ceil(n))
        return _high_error(resized, Simulator(resized), method, target)

    return math.ceil(_search(error, _LEAST_ROWS, _MOST_ROWS, "number of rows", target))


def _high_error(problem: Problem, simulator: Simulator, method: str | Method, target: float) -> float:
    """What about 95% of runs stay below; from a few runs where that is far from the target. Infinite: refused."""
    chosen = explain(problem.task).method if method == "auto" else modelled_method(method)
    try:
        chosen.check(problem.task)
    except ValueError:
        return math.inf
    few = _quantile(simulator.errors(chosen, problem.task, _FEW_RUNS))
    if abs(math.log(max(few, 1e-12) / target)) > math.log(_NEAR):
        return few
    d = problem.task.n_features
    most = _RUNS[(d > 20) + (d > 60)]
    runs = max(_FEW_RUNS, most * problem.runs(chosen) // problem.repetitions)
    return _quantile(simulator.errors(chosen, problem.task, runs))


def _quantile(errors: Floats) -> float:
    spread = float(errors.mean() + _DEVIATIONS * errors.std(ddof=1))
    return max(spread, float(np.quantile(errors, _QUANTILE)))


def _search(error: Callable[[float], float], low: float, high: float, name: str, target: float) -> float:
    """The least value of a logarithmic scale at which the error is at most the target, where it falls along the scale.

    Between two values the error is nearly a power: the next one to try is where that meets the target, a little below.
    """
    if not 0 < target < 1:
        raise ValueError(complain("target", "planner", "in (0, 1)", target))
    above, below = math.inf, error(high)
    if below > target:
        raise OutOfReachError(f"No {name} up to {high:g} reaches a target of {target:g} under these assumptions.")
    goal = _CAUTION * target
    for _ in range(_STEPS):
        if high / low <= _FINE or goal * (2 - _FINE) <= below <= goal:
            break
        part = 0.5
        if above < _LOST and below < above:
            part = math.log(above / (0.99 * goal)) / math.log(above / below)
        middle = low * (high / low) ** min(max(part, 0.1), 0.9)
        found = error(middle)
        if found <= goal:
            high, below = middle, found
        else:
            low, above = middle, found
    return high
