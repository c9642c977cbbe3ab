"""The share of the budget for variances along released directions (`questions.squares`)."""

from __future__ import annotations

from dpeigen.methods.base import Task
from dpeigen.privacy import gaussian_mu

__all__ = ["variance_share"]


def variance_share(task: Task) -> float:
    """The weight of the variances beside 1 for everything else: less if there are many rows; public.

    Noise changes a variance by √2·r²/(n·μ) or 2√2·r²/(n·ε), divided by the share, where r² is about fifteen times a
    variance. The change should be below a tenth of the variance. A whole covariance needs variances as much as
    directions.
    """
    if task.n_components is None or task.n_terms is None:
        return 0.3
    if task.budget.is_pure:
        return min(0.15, max(0.05, 425 / (task.n_terms * task.budget.epsilon)))
    return min(0.15, max(0.05, (210 / (task.n_terms * gaussian_mu(task.budget.epsilon, task.budget.delta))) ** 2))
