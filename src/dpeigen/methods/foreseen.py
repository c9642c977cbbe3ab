"""A warning before anything is spent, if the result will be only noise, and what would be enough instead.

A function of public facts alone, by the quick error model (`methods.prediction`). There is no warning if the number of
rows is private, if as many components as columns are asked for, or for methods without an error model.

If "auto" could not find even the only direction of a table whose rows all lie along it, a fit is refused: its first
component would be a random direction, whatever the rows are. Methods that are named, and a private number of components
(which would be 0), are not refused.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from dpeigen._validate import complain
from dpeigen.methods.auto import resolve
from dpeigen.methods.base import Method, Task
from dpeigen.methods.enough import more_epsilon, more_rows, three_remedies
from dpeigen.methods.prediction import World, expected_error
from dpeigen.methods.wrapped import itself

__all__ = ["OnlyNoiseWarning", "only_noise", "refuse_random_directions", "warn_of_noise"]

_LEVEL = 16.0  # one variance relative to the others; standardised tables rarely have a larger one
_USUAL = World(_LEVEL, heavy=False)
_ALONG_A_LINE = World(1e6, heavy=False, reach=1.0)  # no table is easier
_RANDOM = 0.9987  # its sinΘ: noise 20 times the signal. Squared cosines are then at most about 1.25 times as large as
# those of random directions (measured in 40 settings of 2 to 200 columns; test_foreseen.py repeats two of them).
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
    error = _error(method, task)
    if error is None or error <= _ONLY_NOISE:
        return None
    epsilon, n = task.budget.epsilon, task.n_rows or 0
    rows, larger = _enough(task, asked)
    told = [text for text in (rows and f"{rows:,} rows", larger and f"epsilon={larger:g}") if text]
    remedy = f"{' or '.join(told)} would be enough; fewer columns may be, too." if told else (
        "Fewer columns, many more rows or a larger epsilon would help.")  # fmt: skip
    facts = f"{n:,} rows, {task.n_features} columns, epsilon={epsilon:g} and delta={task.budget.delta:g}"
    hope = f"even a component with {_LEVEL:g} times the variance of the others is unlikely to show"
    return f"{facts} leave only noise: {hope}. {remedy}"


def refuse_random_directions(method: Method, task: Task, asked: str | Method) -> None:
    """Refuse a fit by "auto" whose first component would be a random direction, whatever the rows are."""
    if asked != "auto" or task.private_rank:
        return
    error = _error(method, task, _ALONG_A_LINE, center=False)
    if error is None or error < _RANDOM:
        return
    must = f"larger for {task.n_features} columns and {task.n_rows:,} rows: the components would be random directions"
    remedies = three_remedies("fewer columns", *_enough(task, asked))
    raise ValueError(complain("epsilon", task.owner, must, task.budget.epsilon, remedies))


def _enough(task: Task, asked: str | Method) -> tuple[int | None, float | None]:
    """The number of rows and the ε from which a component may show; None if there is none."""

    def would_do(trial: Task) -> bool:
        try:
            error = _error(resolve(asked, trial), trial)
        except (ArithmeticError, ValueError):
            return False
        return error is None or error < _WOULD_DO

    budget = task.budget
    rows = more_rows(task.n_rows or 0, lambda more: would_do(replace(task, n_rows=more)))
    larger = more_epsilon(budget.epsilon, lambda more: would_do(replace(task, budget=replace(budget, epsilon=more))))
    return rows, larger


def _error(method: Method, task: Task, world: World = _USUAL, *, center: bool = True) -> float | None:
    """The approximate sinΘ of one component with a large variance; None if it cannot be predicted.

    ``center``: whether the noise of the centre counts. Its effect is overestimated where it is large.
    """
    if task.n_rows is None or task.n_components is None or task.n_components >= task.n_features:
        return None
    inner = itself(method)
    try:
        outline = inner.outline(task, task.n_rows)
        if outline is None:
            return None
        return expected_error(outline if center else replace(outline, center=0.0), task.n_features, 1, world)
    except (ArithmeticError, TypeError, ValueError):
        return None
