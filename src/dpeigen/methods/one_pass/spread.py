"""The cost of the scale of unbounded rows, and the number of rows it needs; `private_top_eigenvalue`.

Guarantee: (ε, δ)-DP for every data set under replacement; the question and its proof are in `questions.scale`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen._validate import check_delta, check_epsilon, complain
from dpeigen.curator import Curator, DataCurator, Purpose
from dpeigen.privacy import Budget, Cost, PureCost, Randomness, Relation, randomness
from dpeigen.privacy.histogram import failure_of, noise_scale, tail_spend, threshold
from dpeigen.questions import EigenvalueRatios, TopEigenvalue
from dpeigen.sources import ArraySource, Source
from dpeigen.stats import Frame
from dpeigen.stats.frame import RowView

__all__ = [
    "ask_ratios",
    "ask_top_eigenvalue",
    "check_budget",
    "check_rows",
    "check_size",
    "groups_needed",
    "histogram_share",
    "private_top_eigenvalue",
    "scale_shares",
    "top_eigenvalue",
]


def histogram_share(budget: Budget) -> tuple[PureCost, float]:
    """The whole budget for one histogram: ε for the counts, δ for the threshold (as a probability of failure)."""
    # Slightly below ε and δ, so that rounding in the sums of an accountant cannot exceed the budget.
    return PureCost(budget.epsilon * (1 - 2**-40)), failure_of(budget.delta * (1 - 2**-40), budget.epsilon)


def groups_needed(budget: Budget) -> int:
    """The labels for which one of two equally frequent bins reaches the threshold, except with probability e^−4."""
    cost, failure = histogram_share(budget)
    return math.ceil(2.2 * (threshold(cost, 1, failure, Relation.REPLACE) + 4 * noise_scale(cost, 1, Relation.REPLACE)))


def scale_shares(budget: Budget) -> dict[Purpose, Cost]:
    """The same as shares of a curator."""
    cost, failure = histogram_share(budget)
    return {
        Purpose.SCALE: cost,
        Purpose.SCALE_THRESHOLD: tail_spend(Purpose.SCALE_THRESHOLD.value, failure, budget.epsilon).cost,
    }


def ask_top_eigenvalue(curator: Curator, view: RowView, terms: int) -> float | None:
    """The top eigenvalue of the covariance of ``terms`` rows, for the curator's whole budget."""
    cost, failure = histogram_share(curator.budget)
    question = TopEigenvalue(view, terms, groups_needed(curator.budget), failure)
    return curator.measure(question, purpose=Purpose.SCALE, cost=cost)


def ask_ratios(curator: Curator, view: RowView, terms: int, k: int) -> list[float | None]:
    """λ_{j+1}/λ_j of the second moment of ``terms`` rows for j ≤ k, for the curator's whole budget."""
    cost, failure = histogram_share(curator.budget)
    question = EigenvalueRatios(view, terms, groups_needed(curator.budget), failure, k)
    return curator.measure(question, purpose=Purpose.SCALE, cost=cost)


def top_eigenvalue(source: Source, budget: Budget, rng: Randomness) -> float | None:
    """The top eigenvalue of the covariance, within a bin; 0 for constant rows, None if no bin stands out.

    Spends ``budget``.
    """
    curator = DataCurator(source, Relation.REPLACE, scale_shares(budget), budget, rng)
    return ask_top_eigenvalue(curator, Frame(source.n_features), source.count_rows())


@own_error_state
def private_top_eigenvalue(X: ArrayLike, *, epsilon: float, delta: float, random_state: Any = None) -> float | None:
    """The top eigenvalue of the covariance of the rows of X, within a factor of 2 or better. No bound is needed.

    (ε, δ)-differentially private, one row replaced, δ > 0. Returns 0.0 for constant rows, and None if the groups of
    rows do not agree well enough. Fewer rows than the noise requires are refused before anything is read.
    """
    owner = "private_top_eigenvalue"
    budget = check_budget(epsilon, delta, owner)
    rows = check_rows(X, owner)
    check_size(len(rows), 2 * 2 * groups_needed(budget), owner)
    return top_eigenvalue(ArraySource(rows), budget, randomness(random_state))


def check_budget(epsilon: Any, delta: Any, owner: str) -> Budget:
    """A budget with δ > 0, which histograms over infinitely many bins need."""
    budget = Budget(check_epsilon(epsilon, owner), check_delta(delta, owner))
    if budget.is_pure:
        raise ValueError(complain("delta", owner, "> 0", delta, "Give a delta well below 1/n such as 1e-6."))
    return budget


def check_rows(X: Any, owner: str) -> Floats:
    """Rows × columns of numbers; a frame checks later that they are finite."""
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.shape[1] == 0 or rows.dtype.kind not in "fiub":
        raise ValueError(f"X of {owner} must be a table of real numbers, rows × columns.")
    return rows.astype(np.float64, copy=False)


def check_size(rows: int, needed: int, owner: str) -> None:
    """Refuse fewer rows than the noise requires."""
    if rows < needed:
        remedy = (
            f"It needs at least {needed} rows at this budget: give more rows or a larger epsilon. Nothing was spent."
        )
        raise ValueError(complain("X", owner, "long enough for the noise", f"{rows} rows", remedy))
