"""Before anything is spent: whether the public facts leave only noise, and what would do instead.

A function of public facts alone, by the quick error model (`methods.prediction`). Nothing is said where the number of
rows is private, where no number of components below that of the columns is asked for, or of methods without a model.
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

_LEVEL = 16.0  # of one variance beside the others: standardised tables rarely have a larger one
_ONLY_NOISE, _WOULD_DO = 0.8, 0.5  # sinΘ of its direction


class OnlyNoiseWarning(UserWarning):
    """What is about to be released will hold little but noise."""


def warn_of_noise(method: Method, task: Task, asked: str | Method) -> None:
    """Say it, on behalf of an estimator that is about to spend."""
    if text := only_noise(method, task, asked):
        warnings.warn(f"{text} Nothing has been spent yet.", OnlyNoiseWarning, stacklevel=5)


def only_noise(method: Method, task: Task, asked: str | Method) -> str | None:
    """What to say before spending; None where there is hope, or no model.

    ``asked`` is what the method was chosen by: with more rows or ε, "auto" may choose another one.
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
    """sinΘ of one component that stands out, about; None without a model."""
    inner = itself(method)
    try:
        outline = inner.outline(task, task.n_rows or 1)
        if outline is None:
            return None
        return expected_error(outline, task.n_features, 1, World(_LEVEL, heavy=False))
    except (ArithmeticError, TypeError, ValueError):
        return None
