"""Budgets so large that single rows matter: how methods change then, from public facts only.

At ε = 50 the noise on a second moment is a few times what one row adds to it. If the variance of a column lies in a few
rows, clipping those rows is then the larger error, and it does not fall as ε grows unless nothing is clipped in the
end. From the ε below on,

- the reach of every column is measured (`questions.reaches`), instead of cells that exceed the noise, and no unit is
  smaller than half of it;
- radii are drawn by `RadiusNear`, which leaves no row outside if its noise is small;
- δ is left unused if noise at the cost of ε alone is smaller: the deviation of Gaussian noise falls like 1/√ε for large
  ε, that of `matrix-laplace` like 1/ε.

For leading components of 5 to 40 columns, with ε from about 45 to 450, there is a better way. A part of ε that makes
counts exact (29 to 37) pays for counts of the rows far outside the radius, in cells (`questions.far_rows`). The rest of
ε is spent as if it were all, so rows are clipped as usual, and the far rows are added to the covariance
(`methods.moment.far_rows`).

`benchmarks/tables.py --epsilon 10 50 200 1000` shows the effect; for smaller ε it costs more than it gives.
"""

from __future__ import annotations

from dataclasses import replace

from dpeigen.methods.found_columns import finds_most_columns
from dpeigen.methods.public_facts import LEAST_DELTA
from dpeigen.methods.task import Task
from dpeigen.privacy import Budget, GaussianCost, PureCost, gaussian_mu
from dpeigen.questions import GaussianLaw, WishartLaw, cost_of_far_rows

__all__ = ["REACHES_SHARE", "ROUGH_REACHES_EPSILON", "as_spent", "last_radius_share", "leading", "single_rows_count"]

_LEADING, _WHOLE = 25.0, 80.0  # ε above which single rows matter: for a few directions, and for all correlations
# Times the noise at (ε, δ): the limit for the noise at ε alone, whose shares add up faster. Without reaches of columns
# scales need more of it.
_PURE_BETTER, _PURE_BETTER_BESIDE_CELLS = 0.7, 0.55
REACHES_SHARE = 0.1  # of ε
_LAST_RADIUS_SHARE, _LAST_RADIUS = 0.1, 20.0  # of ε; and the ε that is enough for the last radii
# Counts of far rows: the probability that noise shows a row that does not exist, the least and the largest ε relative
# to their cost, and the numbers of columns: with fewer, all rows can be kept at little cost. Chosen by
# `benchmarks/tables.py --only pca --epsilon 50 100 200 1000`.
_FALSE_ROW, _LEAST_TIMES, _MOST_TIMES, _COLUMNS = 0.003, 1.5, 14.0, range(5, 41)
ROUGH_REACHES_EPSILON = 1.0  # for ranges of columns, if far rows are counted


def leading(task: Task) -> bool:
    """Whether only a few directions are asked for, in raw units."""
    return task.n_components is not None and task.n_components < task.n_features and task.scale is None


def single_rows_count(task: Task) -> bool:
    """Whether ε is so large that clipping a few rows is worse than the noise needed to keep them."""
    return not task.set_aside and task.budget.epsilon >= (_LEADING if leading(task) else _WHOLE)


def last_radius_share(task: Task) -> float:
    """The share of ε, beside a usual share, for radii that leave no row outside; 0 if single rows do not matter."""
    return min(_LAST_RADIUS_SHARE, _LAST_RADIUS / task.budget.epsilon) if single_rows_count(task) else 0.0


def _for_far_rows(task: Task) -> float:
    """The part of ε for counts of rows far outside the radius and for ranges of columns; 0 if none are counted."""
    plain = task.bound is None and not task.pairs and task.missing != "correct" and task.max_rows is None
    if not plain or task.private_rank or not single_rows_count(task) or task.n_features not in _COLUMNS:
        return 0.0
    cost = cost_of_far_rows(task.n_features, task.relation, _FALSE_ROW).epsilon + ROUGH_REACHES_EPSILON
    return cost if leading(task) and _LEAST_TIMES * cost <= task.budget.epsilon <= _MOST_TIMES * cost else 0.0


def as_spent(task: Task) -> Task:
    """The same task with ε for far rows set aside, and without δ if noise at the cost of ε alone is smaller."""
    if task.set_aside:
        return task
    if aside := _for_far_rows(task):
        budget = Budget(task.budget.epsilon - aside, task.budget.delta)
        return _pure_if_better(replace(task, budget=budget, set_aside=aside), _PURE_BETTER_BESIDE_CELLS)
    return _pure_if_better(task, _PURE_BETTER) if single_rows_count(task) else task


def _pure_if_better(task: Task, limit: float) -> Task:
    """Without δ, if noise at the cost of ε alone is below ``limit`` times that at (ε, δ).

    Not with few rows: counts of differences, which show the scales of columns, then have more noise than with δ.
    """
    budget, d = task.budget, task.n_features
    if budget.is_pure or budget.delta < LEAST_DELTA:
        return task
    pure = WishartLaw().deviation(d, PureCost(budget.epsilon), task.relation)
    other = GaussianLaw().deviation(d, GaussianCost(gaussian_mu(budget.epsilon, budget.delta)), task.relation)
    spent = replace(task, budget=Budget(budget.epsilon))
    return spent if pure < limit * other and finds_most_columns(spent) else task
