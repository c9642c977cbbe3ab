"""Whether there are enough rows to find the scales of columns: from public facts only.

Counts of differences between rows (`methods.column_scales`) must exceed their noise. The best fit of a normal column
holds three tenths of the pairs.
"""

from __future__ import annotations

import math

from dpeigen.methods.task import Task
from dpeigen.privacy import Budget, gaussian_mu

__all__ = [
    "SCALES_SHARES",
    "counts_over_noise",
    "finds_most_columns",
    "noise_of_counts",
    "precision_of",
    "shows_columns",
]

SCALES_SHARES = 0.12, 0.25  # least and most, beside a main share of 1
_FILLED = 0.3  # the fraction of the pairs in the best fit of a column
_CLEARLY, _CLEARLY_PURE = 4.0, 10.0  # by how many noise scales it must exceed the noise, to be found nearly always
# The same for δ > 0: for components, which may be those of few columns; and for a whole covariance, of which most
# columns must be found (`benchmarks/tables.py --only found`). For δ = 0 few skewed columns are found with less.
_BARELY, _MOSTLY = 2.0, 3.2


def shows_columns(task: Task) -> bool:
    """Whether there are enough rows to find the scale of a normal column nearly always."""
    return _fills_cells(task, _CLEARLY_PURE if task.budget.is_pure else _CLEARLY)


def finds_most_columns(task: Task) -> bool:
    """Whether there are enough rows to find the scales of most columns; for components, of some normal columns."""
    if task.budget.is_pure:
        return _fills_cells(task, _CLEARLY_PURE)
    whole = task.n_components is None or task.n_components >= task.n_features
    return _fills_cells(task, _MOSTLY if whole else _BARELY)


def _fills_cells(task: Task, times: float) -> bool:
    """Whether the best fit of a normal column exceeds the noise so many times; or no scale is needed."""
    if task.same_units or task.n_rows is None:
        return True
    return counts_over_noise(task.n_rows, task.n_features, task.budget) >= times


def counts_over_noise(n: int, d: int, budget: Budget) -> float:
    """How many times the best fit of a normal column exceeds the noise on its counts, with the largest share."""
    return _FILLED * n / 2 * precision_of(budget, SCALES_SHARES[1]) / noise_of_counts(d, budget)


def noise_of_counts(d: int, budget: Budget) -> float:
    """The noise on counts of all columns, if they had the whole budget."""
    return 2 * d / budget.epsilon if budget.is_pure else math.sqrt(2 * d) / gaussian_mu(budget.epsilon, budget.delta)


def precision_of(budget: Budget, share: float) -> float:
    """The precision of a share, beside a main share of 1, relative to that of the whole budget."""
    fraction = share / (1.5 + share)
    return fraction if budget.is_pure else math.sqrt(fraction)
