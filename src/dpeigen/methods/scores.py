"""What the variances along released directions may cost; they are asked for by `questions.squares`."""

from __future__ import annotations

from dpeigen.methods.base import Task
from dpeigen.privacy import gaussian_mu

__all__ = ["variance_share"]


def variance_share(task: Task) -> float:
    """The weight of the variances beside one of 1 for everything: less where rows are plenty; public.

    Noise moves a variance by √2·r²/(n·μ) or 2√2·r²/(n·ε) over the share, r² some fifteen times a variance; that is to
    stay below a tenth of it. A whole covariance needs its variances as much as its directions.
    """
    if task.n_components is None or task.n_terms is None:
        return 0.3
    if task.budget.is_pure:
        return min(0.15, max(0.05, 425 / (task.n_terms * task.budget.epsilon)))
    return min(0.15, max(0.05, (210 / (task.n_terms * gaussian_mu(task.budget.epsilon, task.budget.delta))) ** 2))
