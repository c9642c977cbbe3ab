"""The inverse problem: the ε, or the number of rows, that reaches a target error in most runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.methods import Method
from dpeigen.methods.auto import explain
from dpeigen.planner.planning import modelled_method
from dpeigen.planner.problem import Problem, Simulator, planned
from dpeigen.planner.simulation import by_columns

__all__ = [
    "Error",
    "OutOfReachError",
    "check_target",
    "epsilon_for",
    "high_quantile",
    "needed_epsilon",
    "needed_rows",
    "rows_for",
    "search",
]

_DEVIATIONS, _QUANTILE = 1.7, 0.95  # deviations above the mean, and quantile of many runs: 95% of runs are below both
_MANY = 40
_CAUTION = 0.95  # this fraction of the target is aimed at, because predictions have small errors
_RUNS = 60, 30, 15  # by columns
_FEW_RUNS = 5  # far above the target
_NEAR = 1.5  # times the target: below it, all runs are made
_LEAST_EPSILON, _MOST_EPSILON = 1e-3, 64.0
_LEAST_ROWS, _MOST_ROWS = 10, 10**8
_FINE = 1.05  # a search ends when the ratio of its interval, or of error and target, is below this
_FAR = 10.0  # the largest step from the first value to one on the other side of the target
_LOST = 0.9  # above this, an error says nothing about the distance to the target
_STEPS = 40
_USUAL_EPSILON, _USUAL_ROWS = 1.0, 10_000  # the start of a search if none is given
Error = Callable[[float, bool], float]  # the error at a value; the flag says that it is known to be near the target


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
    """Find approximately the smallest ε at which 95% of runs reach a target error.

    Parameters
    ----------
    target : float
        The error, in the plan's metric. What is found meets a target that is 5 to 10% lower.
    n_rows : int
        The number of rows.
    n_features : int
        The number of columns.
    n_components : int or None
        The number of directions wanted; None: the whole covariance.
    method : str or Method, default="auto"
        A name, an instance, or "auto": what it would choose at each ε.
    **facts : public facts
        As for `plan`, without ε.

    Returns
    -------
    float
        ε.

    Raises
    ------
    OutOfReachError
        No ε up to 64 is enough, because the rows themselves are too few.
    """
    problem = Problem.of(n_rows, n_features, n_components, epsilon=_USUAL_EPSILON, **facts)
    return epsilon_for(target, problem, method)


def needed_rows(
    target: float, n_features: int, n_components: int | None, *, method: str | Method = "auto", **facts: Any
) -> int:
    """Find approximately the smallest number of rows at which 95% of runs reach a target error.

    Parameters
    ----------
    target : float
        The error, in the plan's metric. What is found meets a target that is 5 to 10% lower.
    n_features : int
        The number of columns.
    n_components : int or None
        The number of directions wanted; None: the whole covariance.
    method : str or Method, default="auto"
        A name, an instance, or "auto": what it would choose at each number of rows.
    **facts : public facts
        As for `plan`, without the rows.

    Returns
    -------
    int
        The number of rows.

    Raises
    ------
    OutOfReachError
        100 million rows are not enough.
    """
    return rows_for(target, Problem.of(_USUAL_ROWS, n_features, n_components, **facts), method)


def check_target(target: float) -> None:
    if not 0 < target < 1:
        raise ValueError(complain("target", "planner", "in (0, 1)", target))


def epsilon_for(target: float, problem: Problem, method: str | Method = "auto") -> float:
    """`needed_epsilon` for a checked problem; the search starts at its own ε."""
    check_target(target)
    simulator = Simulator(problem)

    def error(epsilon: float, near: bool) -> float:
        return _high_error(problem.at(epsilon), simulator, method, target, near)

    return search(error, problem.task.budget.epsilon, _LEAST_EPSILON, _MOST_EPSILON, "ε", target)


def rows_for(target: float, problem: Problem, method: str | Method = "auto") -> int:
    """`needed_rows` for a checked problem; the search starts at its own number of rows."""
    check_target(target)

    def error(n: float, near: bool) -> float:
        resized = problem.with_rows(math.ceil(n))
        return _high_error(resized, Simulator(resized), method, target, near)

    return math.ceil(search(error, problem.n, _LEAST_ROWS, _MOST_ROWS, "number of rows", target))


def _high_error(problem: Problem, simulator: Simulator, method: str | Method, target: float, near: bool) -> float:
    """About the 95% quantile of runs; from a few runs if it is far above the target. Infinite if refused."""
    chosen = explain(problem.task).method if method == "auto" else modelled_method(method)
    try:
        chosen.check(problem.task)
    except ValueError:
        return math.inf
    if not near:
        few = high_quantile(simulator.errors(chosen, problem.task, _FEW_RUNS))
        if few > _NEAR * target:  # a value is accepted only after all runs
            return few
    most = by_columns(_RUNS, problem.task.n_features)
    share = problem.runs(chosen) / problem.repetitions / planned(chosen).slow_search
    runs = max(_FEW_RUNS, round(most * share))
    return high_quantile(simulator.errors(chosen, problem.task, runs))


def high_quantile(errors: Floats) -> float:
    """About the 95% quantile of runs."""
    spread = float(errors.mean() + _DEVIATIONS * errors.std(ddof=1))
    return spread if len(errors) < _MANY else max(spread, float(np.quantile(errors, _QUANTILE)))


def search(error: Error, start: float, least: float, most: float, name: str, target: float) -> float:
    """The smallest value at which the error is at most the target; the error decreases with the value.

    Between two values the error is nearly a power law. The next value to try is where that reaches slightly below the
    target.
    """
    goal = _CAUTION * target
    low, above = 0.0, math.inf  # the largest value tried that is too small, and its error
    high, below = math.inf, 0.0  # the smallest that is enough
    middle, near = min(max(start, least), most), False
    for _ in range(_STEPS):
        found = error(middle, near)
        if found <= (target if middle == most else goal):
            high, below = middle, found
        elif middle == most:
            raise OutOfReachError(f"No {name} up to {most:g} reaches a target of {target:g} under these assumptions.")
        else:
            low, above = middle, found
        if high <= max(least, _FINE * low) or goal * (2 - _FINE) <= below:
            break
        between = low > 0 and high < math.inf
        near = between and above < _LOST
        if between:
            part = math.log(above / (0.99 * goal)) / math.log(above / max(below, 1e-12)) if near else 0.5
            middle = low * (high / low) ** min(max(part, 0.1), 0.9)
        elif low:
            middle = min(low * min(max(min(above / goal, _FAR) ** 1.5, 2.0), _FAR), most)
        else:
            middle = max(high * min(max(below / goal, 1 / _FAR), 0.7), least)
    if math.isinf(high):
        raise AssertionError("an upper end is found, or refused, in fewer steps")
    return high
