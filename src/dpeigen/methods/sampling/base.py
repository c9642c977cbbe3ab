"""The base of methods that draw directions: the split of the budget, the actual cost of published constants, rounding.

Guarantee: a draw of u from exp(c·uᵀMu), rows in the unit ball, is 2c-bounded-range under replacement, where uᵀMu moves
by at most 1 either way. It is c-bounded-range when a row is added or removed, where uᵀMu moves by 0 to 1. So with c =
ε/2 or ε the draw is ε-DP, and ε²/8-zCDP (Cesar and Rogers 2021), by which draws compose when δ > 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import ask_frame, framing_shares, location
from dpeigen.methods.radius import check_radii
from dpeigen.methods.sampling.evidence import DrawnDirections
from dpeigen.privacy import Budget, ConcentratedCost, Cost, PureCost, Relation, allocate
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.noise import noise_scale
from dpeigen.privacy.randomness import check_scale
from dpeigen.questions import Count, Eigenvalues
from dpeigen.questions.radius import holding_left
from dpeigen.questions.spectrum import VALUE_GRID
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.spectrum import with_remainder

__all__ = ["SamplingMethod", "any_lattice", "draw_epsilon", "rounding_allowance"]

_MOST_ROWS = 2**32  # assumed for rounding if the number of rows is private


@dataclass(frozen=True)
class SamplingMethod(Method):
    """A method that asks for values and for directions drawn from a second moment."""

    constants: str = "sharp"
    emphasis: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    continuous_noise: ClassVar[bool] = True
    # Purposes for which published constants use half of the stated cost: c = εᵢ/4, not εᵢ/2; noise 2/εᵢ, not 1/εᵢ.
    halved: ClassVar[tuple[Purpose, ...]] = (Purpose.EIGENVECTORS,)

    @abstractmethod
    def ask(
        self, curator: Curator, lattice: Lattice, count: float, costs: Mapping[Purpose, Cost], task: Task
    ) -> tuple[Floats, Floats, float, float | None, DrawnDirections | None]:
        """Orthonormal rows by decreasing value, their values, and the mean of the other values; in squared radii.

        Then a bound on ‖Ĉ − C‖ that holds with probability 95%; None if there is none. Last, what intervals need; None
        if the law of the answers is not known.
        """

    @abstractmethod
    def value_scale(self, cost: Cost, task: Task) -> float:
        """The scale of the noise on released values, in grid steps; public."""

    def draws(self, task: Task) -> int:
        """The number of directions that are paid for."""
        return task.wanted

    def budget(self, task: Task) -> Budget:
        """The budget; without δ if it would not make the draws more accurate: one or two compose better by addition."""
        pure = Budget(task.budget.epsilon)
        if self.constants == "published" or task.budget.is_pure:
            return pure
        with_delta, without = (self._split(budget, task)[Purpose.EIGENVECTORS] for budget in (task.budget, pure))
        n = self.draws(task)
        return task.budget if draw_epsilon(with_delta, n) > draw_epsilon(without, n) else pure

    def price(self, task: Task) -> Budget:
        if self.constants == "sharp":
            return self.budget(task)
        return Budget(math.fsum(pure_epsilon(cost) for cost in self.shares(task).values()))

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget by purpose: half for the values, half for the draws; the actual costs."""
        costs = self._split(self.budget(task), task)
        if self.constants == "sharp":
            return costs
        return {p: PureCost(pure_epsilon(c) / 2) if p in self.halved else c for p, c in costs.items()}

    def _split(self, budget: Budget, task: Task) -> dict[Purpose, Cost]:
        task = replace(task, budget=budget)
        pure, main = framing_shares(task, paid_radius=task.private_bound, center=task.private_center)
        main[Purpose.EIGENVALUES] = 0.5
        if task.relation is Relation.ADD_REMOVE:
            main[Purpose.ROWS] = 0.02
        main, sampled = self.emphasised(main), self.emphasised({Purpose.EIGENVECTORS: 0.5})
        return allocate(budget, pure=self.emphasised(pure), main=main, sampled=sampled)

    def allowance(self, task: Task) -> float:
        """The most that rounding adds to the sensitivity of uᵀMu."""
        return rounding_allowance(task)

    def concentration(self, task: Task) -> float:
        """c per unit of ε, reduced for the rounding in the sensitivity."""
        return (0.5 if task.relation is Relation.REPLACE else 1.0) / (1 + self.allowance(task)) * (1 - 2**-40)

    def check(self, task: Task) -> None:
        super().check(task)
        check_choice("constants", self.constants, ["sharp", "published"], type(self).__name__)
        if self.constants == "published" and task.relation is Relation.ADD_REMOVE:
            raise ValueError(complain("relation", task.owner, "'replace' for the published constants", "add_remove"))
        costs = self.shares(task)
        self.check_emphasis(costs)
        check_radii(task, costs)
        check_scale(self.value_scale(costs[Purpose.EIGENVALUES], task))
        if Purpose.ROWS in costs:
            check_scale(noise_scale(costs[Purpose.ROWS], l2=VALUE_GRID, l1=VALUE_GRID))

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs = self.shares(task)
        frame, radius, _ = ask_frame(curator, task, costs, weighted=False)
        lattice = Lattice(frame, radius)
        count = float(task.n_terms or 1)
        if Purpose.ROWS in costs:
            rows = Count(Eigenvalues(lattice, self.allowance(task)))
            count = curator.measure(rows, purpose=Purpose.ROWS, cost=costs[Purpose.ROWS])
        components, values, left, error, drawn = self.ask(curator, lattice, count, costs, task)
        unit = (lattice.step * LEVELS * float(frame.unit[0])) ** 2 / count
        eigenvalues, left = values * unit, left * unit
        covariance = with_remainder(components, eigenvalues, left)
        outside = holding_left(costs[Purpose.RADIUS], task.relation, count) if task.private_bound else None
        reach = task.row_radius(radius, frame) * float(frame.unit[0])
        return Estimate(
            components=components,
            eigenvalues=eigenvalues,
            noise_variance=left,
            covariance=(covariance + covariance.T) / 2,
            mean=location(frame, None, task),
            n_rows=count * frame.rows_per_term,
            radius=radius * float(frame.unit[0]),
            numerics="idealised",
            radius_released=task.private_bound,
            notes=("The time of the rejection sampler depends on the data.",),
            covariance_error=None if error is None else error * unit,
            measured=None if drawn is None else partial(drawn.measured, unit, count, reach, outside),
        )


def any_lattice(task: Task) -> Lattice:
    """A lattice of the task's rows with some radius, which is enough to compute the noise of a question."""
    return Lattice(Frame(task.n_features), 1.0)


def draw_epsilon(cost: Cost, draws: int) -> float:
    """The ε of each of ``draws`` equal draws: pure costs add up, concentrated draws cost ε²/8 each."""
    return math.sqrt(8 * cost.rho / draws) if isinstance(cost, ConcentratedCost) else pure_epsilon(cost) / draws


def rounding_allowance(task: Task) -> float:
    """A bound on what double precision adds to sensitivities: from M in doubles, its decompositions, its deflation.

    Each is backward stable with an error of at most 8d·2^−52·‖M‖, and ‖M‖ ≤ n, the number of rows or people, for both
    neighbours.
    """
    n = _MOST_ROWS if task.n_terms is None else math.ceil(task.n_terms * task.units_per_term) + 1
    return 32 * task.n_features * n * 2.0**-52
