"""``DPPCA(constants="published")``: Algorithms 3, 4 and 5 of Liu, Kong, Jain, Oh 2022 as printed.

Guarantee: (ε, δ)-DP for every data set, δ > 0, one row replaced, exact numerics; each half of a batch has other rows.

- First half, Algorithm 4: one histogram, ε-DP in its counts, and δ for its threshold.
- Second half, Algorithm 5: d histograms of ε/(4√(2d·ln(4/δ))) and δ/(4d) each, and the mean of the gradients truncated
  to a box with Gaussian noise of 2Δ√(2·ln(2.5/δ))/ε. The paper adds them up by advanced composition, for ε ≤ 0.9; here
  they are composed as concentrated mechanisms, for every ε, and come to less than ε (`real_epsilon_of_mean`).

The paper does not specify: the learner of Lemma B.1 (here that of `privacy.histogram`), C₁ of Algorithm 4
(``groups_constant``), what to do if no bin is shown (here no step is taken), and K, a, ζ, which are parameters.
Algorithm 3 itself is not in the appendix: that each half of a batch has the whole budget follows from its Lemma B.2. A
separate batch pays for variances, which the paper does not release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.one_pass.mean import MeanRelease
from dpeigen.methods.one_pass.spread import histogram_share, scale_shares
from dpeigen.privacy import Budget, ConcentratedCost, Cost, GaussianCost, Spend, compose
from dpeigen.privacy.histogram import failure_of, tail_spend
from dpeigen.questions import BoxMean, PrintedRanges, PrintedTopEigenvalue
from dpeigen.stats import Frame
from dpeigen.stats.frame import LARGEST_FACT, RowView

if TYPE_CHECKING:
    from dpeigen.methods.one_pass.dp_pca import DPPCA

__all__ = ["PrintedShares", "ask_printed_mean", "printed_groups", "real_epsilon_of_mean"]

_BULK = 25  # of line 1 of Algorithm 5


@dataclass(frozen=True)
class PrintedShares:
    """The cost of the second half of a batch, as printed."""

    epsilon: float  # of each histogram
    failure: float  # of all thresholds
    costs: dict[Purpose, Cost]

    @classmethod
    def of(cls, budget: Budget, d: int) -> PrintedShares:
        each = budget.epsilon / (4 * math.sqrt(2 * d * math.log(4 / budget.delta)))
        # δ/(4d) for each histogram; less if ε is large, so that the total is paid for at ε.
        failure = d * min(failure_of(budget.delta / (4 * d), each), failure_of(budget.delta / (4 * d), budget.epsilon))
        costs: dict[Purpose, Cost] = {
            Purpose.RANGES: ConcentratedCost(d * each**2 / 2),
            Purpose.MEAN: GaussianCost(budget.epsilon / (2 * math.sqrt(2 * math.log(2.5 / budget.delta)))),
        }
        tail = tail_spend(Purpose.RANGES_THRESHOLD.value, failure, budget.epsilon)
        return cls(each, failure, {**costs, Purpose.RANGES_THRESHOLD: tail.cost})


def real_epsilon_of_mean(budget: Budget, d: int) -> float:
    """The actual ε of the second half of a batch at δ."""
    shares = PrintedShares.of(budget, d)
    return compose([Spend(purpose.value, "", cost) for purpose, cost in shares.costs.items()], budget.delta)


def printed_groups(method: DPPCA, budget: Budget) -> int:
    """k of Algorithm 4: C₁·ln(1/(δζ))/ε."""
    return math.ceil(method.groups_constant * math.log(1 / (budget.delta * method.zeta)) / budget.epsilon)


def ask_printed_mean(
    method: DPPCA, batch: Curator, view: RowView, terms: int, budget: Budget
) -> tuple[MeanRelease | None, float | None]:
    """Algorithms 4 and 5 on the two halves of a batch: the mean (None for ⊥), and Λ̂."""
    d, half = view.n_columns, terms // 2
    shares = PrintedShares.of(budget, d)
    first, second = batch.seen(view).apart((half, scale_shares(budget)), (terms - half, shares.costs))
    cost, failure = histogram_share(budget)
    question = PrintedTopEigenvalue(Frame(d), half, printed_groups(method, budget), failure)
    scale = first.measure(question, purpose=Purpose.SCALE, cost=cost)
    if not scale:
        return None, scale
    return _ask_mean(method, second, terms - half, d, scale, shares), scale


def _ask_mean(method: DPPCA, curator: Curator, n: int, d: int, scale: float, shares: PrintedShares) -> MeanRelease:
    root = method.K * math.sqrt(scale)
    width = 2**0.25 * root * math.log(_BULK) ** method.a
    question = PrintedRanges(Frame(d), width, shares.epsilon, shares.failure)
    found = curator.measure(question, purpose=Purpose.RANGES, cost=shares.costs[Purpose.RANGES])
    center: Floats = np.array([0.0 if low is None else low for low in found])
    center = np.clip(center, -LARGEST_FACT, LARGEST_FACT)
    half = 3 * root * math.log(n * d / method.zeta) ** method.a
    box = curator.measure(BoxMean(Frame(d, center), half), purpose=Purpose.MEAN, cost=shares.costs[Purpose.MEAN])
    return MeanRelease(center + box.mean, half, box.error / math.sqrt(d))
