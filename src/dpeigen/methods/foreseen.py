"""A warning before anything is spent, if the result will be only noise, and what would be enough instead.

A function of public facts alone, by the quick error model (`methods.prediction`). There is no warning if the number of
rows is private, if as many components as columns are asked for, or for methods without an error model.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from dpeigen.methods.auto import resolve
from dpeigen.methods.base import Method, Task
from dpeigen.methods.enough import more_epsilon, more_rows
from dpeigen.methods.prediction import World, expected_error
from dpeigen.methods.wrapped import itself

__all__ = ["OnlyNoiseWarning", "only_noise", "warn_of_noise"]

_LEVEL = 16.0  # one variance relative to the others; standardised tables rarely have a larger one
_ONLY_NOISE, _WOULD_DO = 0.8, 0.5  # sinΘ of its direction: above the first is only noise, below the second is enough


class OnlyNoiseWarning(UserWarning):
    """The release will be little more than noise."""


def warn_of_noise(method: Method, task: Task, asked: str | Method) -> None:
    """Warn on behalf of an estimator that is about to spend."""
    if text := only_noise(method, task, asked):
        warnings.warn(f"{text} Nothing has been spent yet.", OnlyNoiseWarning, stacklevel=5)


def only_noise(method: Method, task: Task, asked: str | Method) -> str | None:
    """The warning; None if the result may be useful, or if there is no error model.

    ``asked`` is the method as the caller gave it: with more rows or ε, "auto" may choose another one.
    """
    if task.n_rows is None or task.n_components is None or task.n_components >= task.n_features:
        return None
    error = _error(method, task)
    if error is None or error <= _ONLY_NOISE:
        return None
    epsilon, n = task.budget.epsilon, task.n_rows

    def would_do(trial: Task) -> bool:
        try:
            error = _error(resolve(asked, trial), trial)
        except (ArithmeticError, ValueError):
            return False
        return error is None or error < _WOULD_DO

    rows = more_rows(n, lambda more: would_do(replace(task, n_rows=more)))
    larger = more_epsilon(epsilon, lambda more: would_do(replace(task, budget=replace(task.budget, epsilon=more))))
    told = [text for text in (rows and f"{rows:,} rows", larger and f"epsilon={larger:g}") if text]
    remedy = f"{' or '.join(told)} would be enough; fewer columns may be, too." if told else (
        "Fewer columns, many more rows or a larger epsilon would help.")  # fmt: skip
    facts = f"{n:,} rows, {task.n_features} columns, epsilon={epsilon:g} and delta={task.budget.delta:g}"
    hope = f"even a component with {_LEVEL:g} times the variance of the others is unlikely to show"
    return f"{facts} leave only noise: {hope}. {remedy}"


def _error(method: Method, task: Task) -> float | None:
    """The approximate sinΘ of one component with a large variance; None without an error model."""
    inner = itself(method)
    try:
        outline = inner.outline(task, task.n_rows or 1)
        if outline is None:
            return None
        return expected_error(outline, task.n_features, 1, World(_LEVEL, heavy=False))
    except (ArithmeticError, TypeError, ValueError):
        return None
