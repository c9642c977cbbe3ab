"""Before anything is spent: whether the public facts leave only noise, and what would do instead.

A function of public facts alone, by the quick error model (`methods.prediction`). Nothing is said where the number of
rows is private, where no number of components below that of the columns is asked for, or of methods without a model.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

from dpeigen.methods.base import Method, Task
from dpeigen.methods.prediction import World, expected_error
from dpeigen.methods.wrapped import itself
from dpeigen.privacy import Budget

_LEVEL = 16.0  # of one variance beside the others: standardised tables rarely have a larger one
_ONLY_NOISE, _WOULD_DO = 0.8, 0.5  # sinΘ of its direction
_FACTORS = tuple(1.1**step for step in range(1, 80))


class OnlyNoiseWarning(UserWarning):
    """What is about to be released will hold little but noise."""


def warn_of_noise(method: Method, task: Task) -> None:
    """Say it, on behalf of an estimator that is about to spend."""
    if text := only_noise(method, task):
        warnings.warn(f"{text} Nothing has been spent yet.", OnlyNoiseWarning, stacklevel=5)


def only_noise(method: Method, task: Task) -> str | None:
    """What to say before spending; None where there is hope, or no model."""
    if task.n_rows is None or task.n_components is None or task.n_components >= task.n_features:
        return None
    error = _error(method, task)
    if error is None or error <= _ONLY_NOISE:
        return None
    epsilon, rows = task.budget.epsilon, task.n_rows
    more = next((f for f in _FACTORS if (_error(method, _with(task, epsilon * f, rows)) or 1.0) < _WOULD_DO), None)
    remedy = "Fewer columns, or many more rows or a larger epsilon, would do."
    if more is not None:
        remedy = (
            f"About {math.ceil(rows * more):,} rows, or epsilon={epsilon * more:.2g}, would do; so may fewer columns."
        )
    facts = f"{rows:,} rows, {task.n_features} columns, epsilon={epsilon:g} and delta={task.budget.delta:g}"
    hope = f"even a component with {_LEVEL:g} times the variance of the others is unlikely to show"
    return f"{facts} leave only noise: {hope}. {remedy}"


def _with(task: Task, epsilon: float, rows: int) -> Task:
    return replace(task, budget=Budget(epsilon, task.budget.delta), n_rows=rows)


def _error(method: Method, task: Task) -> float | None:
    """sinΘ of one component that stands out, about; None without a model."""
    inner = itself(method)
    try:
        outline = inner.outline(task, task.n_rows or 1)
        if outline is None:
            return None
        return expected_error(outline, task.n_features, 1, World(_LEVEL, heavy=False))
    except (ArithmeticError, TypeError, ValueError):
        return None
