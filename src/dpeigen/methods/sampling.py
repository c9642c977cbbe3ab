"""What the methods that draw directions share: the split of the budget, what published constants really cost, rounding.

Guarantee: a draw of u from exp(c·uᵀMu), rows in the unit ball, is 2c-bounded-range under replacement, where uᵀMu
moves by at most 1 either way, and c-bounded-range when a row is added or removed, where it moves by 0 to 1. So with c
= ε/2 or ε the draw is ε-DP, and ε²/8-zCDP (Cesar and Rogers 2021), which is how draws compose when δ > 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import check_choice, complain
from dpeigen.methods.base import Estimate, Method, Task, public_count
from dpeigen.methods.framing import check_radii, frame_source, framing_shares, location, released_count, spends
from dpeigen.privacy import Budget, ConcentratedCost, Cost, PureCost, Randomness, Relation, Spend, allocate
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.noise import noise_scale
from dpeigen.privacy.randomness import check_scale
from dpeigen.sources import Source
from dpeigen.stats import Lattice, SecondMoment
from dpeigen.stats.lattice import LEVELS

Floats = NDArray[np.float64]
VALUES, VECTORS, COUNT = "eigenvalues", "eigenvectors", "number of rows"
GRID = int(LEAST_SENSITIVITY)  # grid steps of released values per squared radius
_MOST_ROWS = 2**32  # assumed for rounding where the number of rows is private


@dataclass(frozen=True)
class SamplingMethod(Method):
    """A method that releases values and draws directions from a second moment."""

    constants: str = "sharp"
    emphasis: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    continuous_noise: ClassVar[bool] = True
    halved: ClassVar[tuple[str, ...]] = (VECTORS,)  # of which published constants spend half of what they say

    @abstractmethod
    def sample(
        self, matrix: Floats, count: float, costs: dict[str, Cost], task: Task, rng: Randomness
    ) -> tuple[Floats, Floats, float]:
        """Orthonormal rows by decreasing value, their values, and the mean value of what is left; in squared radii."""

    @abstractmethod
    def value_scale(self, cost: Cost, task: Task) -> float:
        """The scale of the noise on released values, in grid steps; public."""

    def draws(self, task: Task) -> int:
        """How many directions are paid for."""
        return steps_of(task)

    def budget(self, task: Task) -> Budget:
        """Without δ where it would not make the draws sharper: one or two compose better by plain addition."""
        pure = Budget(task.budget.epsilon)
        if self.constants == "published" or task.budget.is_pure:
            return pure
        with_delta, without = (self._split(budget, task)[VECTORS] for budget in (task.budget, pure))
        n = self.draws(task)
        return task.budget if draw_epsilon(with_delta, n) > draw_epsilon(without, n) else pure

    def price(self, task: Task) -> Budget:
        if self.constants == "sharp":
            return self.budget(task)
        return Budget(math.fsum(pure_epsilon(spend.cost) for spend in self.spends(task)))

    def shares(self, task: Task) -> dict[str, Cost]:
        """The budget, split by purpose: half for the values, half for the draws."""
        return self._split(self.budget(task), task)

    def _split(self, budget: Budget, task: Task) -> dict[str, Cost]:
        task = replace(task, budget=budget)
        pure, main = framing_shares(task, paid_radius=task.private_bound, center=task.private_center)
        main[VALUES] = 0.5
        if task.relation is Relation.ADD_REMOVE:
            main[COUNT] = 0.02
        main, sampled = self.emphasised(main), self.emphasised({VECTORS: 0.5})
        return allocate(budget, pure=self.emphasised(pure), main=main, sampled=sampled)

    def spends(self, task: Task) -> tuple[Spend, ...]:
        """What is really spent."""
        costs = self.shares(task)
        if self.constants == "published":
            costs = {k: PureCost(pure_epsilon(c) / 2) if k in self.halved else c for k, c in costs.items()}
        return spends(costs, {VECTORS: "Bingham draws"})

    def allowance(self, task: Task) -> float:
        """What rounding may add to the sensitivity of uᵀMu."""
        return rounding_allowance(task)

    def concentration(self, task: Task) -> float:
        """c per unit of ε, less what rounding may add to the sensitivity."""
        sharp = 0.5 if task.relation is Relation.REPLACE else 1.0
        return (0.25 if self.constants == "published" else sharp) / (1 + self.allowance(task)) * (1 - 2**-40)

    def check(self, task: Task) -> None:
        super().check(task)
        check_choice("constants", self.constants, ["sharp", "published"], type(self).__name__)
        if self.constants == "published" and task.relation is Relation.ADD_REMOVE:
            raise ValueError(complain("relation", task.owner, "'replace' for the published constants", "add_remove"))
        costs = self.shares(task)
        self.check_emphasis(costs)
        check_radii(task, costs)
        check_scale(self.value_scale(costs[VALUES], task))
        if COUNT in costs:
            check_scale(noise_scale(costs[COUNT], l2=GRID, l1=GRID))

    def estimate(self, source: Source, task: Task, rng: Randomness) -> Estimate:
        costs = self.shares(task)
        source, frame, radius, _ = frame_source(source, task, costs, rng, weighted=False)
        moment = source.reduce(SecondMoment(Lattice(frame, radius)))
        if task.relation is Relation.ADD_REMOVE:
            count = released_count(moment.count, costs[COUNT], rng)
        else:
            count = public_count(moment.count, frame.rows_per_term)
        matrix = moment.gram.astype(np.float64) / LEVELS**2
        components, values, left = self.sample(matrix, count, costs, task, rng)
        unit = (moment.lattice.step * LEVELS * float(frame.unit[0])) ** 2 / count
        eigenvalues, left = values * unit, left * unit
        covariance = (components.T * (eigenvalues - left)) @ components + left * np.eye(task.n_features)
        return Estimate(
            components=components,
            eigenvalues=eigenvalues,
            noise_variance=left,
            covariance=(covariance + covariance.T) / 2,
            mean=location(frame, None, task),
            n_rows=count * frame.rows_per_term,
            radius=radius * float(frame.unit[0]),
            split=self.spends(task),
            numerics="idealised",
            radius_released=task.private_bound,
            notes=("The time of the rejection sampler depends on the data.",),
        )


def draw_epsilon(cost: Cost, draws: int) -> float:
    """ε of each of so many equal draws: pure ones add up, concentrated ones are worth ε²/8 each."""
    return math.sqrt(8 * cost.rho / draws) if isinstance(cost, ConcentratedCost) else pure_epsilon(cost) / draws


def steps_of(task: Task) -> int:
    """How many directions are asked for."""
    return task.n_features if task.n_components is None else task.n_components


def rounding_allowance(task: Task) -> float:
    """A bound on what double precision adds to sensitivities: M in doubles, its decompositions, its deflation.

    Each is backward stable with an error of at most 8d·2^−52·‖M‖, and ‖M‖ ≤ n; two neighbours share it.
    """
    n = _MOST_ROWS if task.n_terms is None else task.n_terms
    return 32 * task.n_features * n * 2.0**-52
