"""Budgets so large that single rows matter: how methods change then, from public facts only.

At ε = 50 the noise on a second moment is a few times what one row adds to it. If the variance of a column lies in a few
rows, clipping those rows is then the larger error, and it does not fall as ε grows unless nothing is clipped in the
end. From the ε below on,

- the reach of every column is measured (`questions.reaches`), instead of cells that exceed the noise, and no unit is
  smaller than half of it;
- radii are drawn by `RadiusNear`, which leaves no row outside if its noise is small;
- δ is left unused if noise at the cost of ε alone is smaller: the deviation of Gaussian noise falls like 1/√ε for large
  ε, that of `matrix-laplace` like 1/ε.

`benchmarks/tables.py --epsilon 10 50 200 1000` shows the effect; for smaller ε it costs more than it gives.
"""

from __future__ import annotations

from dataclasses import replace

from dpeigen.methods.base import LEAST_DELTA
from dpeigen.methods.task import Task
from dpeigen.privacy import Budget, GaussianCost, PureCost, gaussian_mu
from dpeigen.questions import GaussianLaw, WishartLaw

__all__ = ["REACHES_SHARE", "as_spent", "last_radius_share", "leading", "single_rows_count"]

_LEADING, _WHOLE = 25.0, 80.0  # ε above which single rows matter: for a few directions, and for all correlations
_PURE_BETTER = 0.7  # times the noise at (ε, δ): the limit for the noise at ε alone, whose shares add up faster
REACHES_SHARE = 0.1  # of ε
_LAST_RADIUS_SHARE, _LAST_RADIUS = 0.1, 20.0  # of ε; and the ε that is enough for the last radii


def leading(task: Task) -> bool:
    """Whether only a few directions are asked for, in raw units."""
    return task.n_components is not None and task.n_components < task.n_features and task.scale is None


def single_rows_count(task: Task) -> bool:
    """Whether ε is so large that clipping a few rows is worse than the noise needed to keep them."""
    return task.budget.epsilon >= (_LEADING if leading(task) else _WHOLE)


def last_radius_share(task: Task) -> float:
    """The share of ε, beside a usual share, for radii that leave no row outside; 0 if single rows do not matter."""
    return min(_LAST_RADIUS_SHARE, _LAST_RADIUS / task.budget.epsilon) if single_rows_count(task) else 0.0


def as_spent(task: Task) -> Task:
    """The same task, without δ if noise at the cost of ε alone is smaller."""
    budget, d = task.budget, task.n_features
    if budget.is_pure or budget.delta < LEAST_DELTA or not single_rows_count(task):
        return task
    pure = WishartLaw().deviation(d, PureCost(budget.epsilon), task.relation)
    other = GaussianLaw().deviation(d, GaussianCost(gaussian_mu(budget.epsilon, budget.delta)), task.relation)
    return replace(task, budget=Budget(budget.epsilon)) if pure < _PURE_BETTER * other else task
