"""``laplace``: the second moment with independent Laplace noise on every entry of the upper triangle.

Guarantee: ε-DP for every data set. The noise is exact discrete Laplace of scale Δ₁/ε on integers, Δ₁ the ℓ1
sensitivity of the upper triangle: (d+1)/2·R² for add/remove and √(d(d+3)/2)·R² for replace (`stats.moments` has the
proof), where the literature uses 2d·R². Its error grows as d², against d^1.5 for ``matrix-laplace``; it is the better
one only for one column.

Reference: Dwork, McSherry, Nissim, Smith 2006.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeigen.methods.base import Task
from dpeigen.methods.moment import MomentMethod, Noise
from dpeigen.privacy import Budget, Cost, PureCost, Randomness, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.noise import symmetric_laplace
from dpeigen.stats import Frame, Lattice, SecondMoment
from dpeigen.stats.spectrum import RTransform, gaussian_r_transform


@dataclass(frozen=True)
class Laplace(MomentMethod):
    """Laplace noise on every entry of the second moment."""

    name = "laplace"
    reference = "Dwork et al. 2006"
    uses_delta = False

    def published_cost(self, task: Task) -> Cost:
        # Scale 2d/ε on every entry; the ℓ1 sensitivity of the upper triangle is smaller.
        moment = SecondMoment(Lattice(Frame(task.n_features), 1.0))
        reach = moment.upper_sensitivity(task.relation) / moment.squared_radius
        return PureCost(task.budget.epsilon * reach / (2 * task.n_features))

    def price(self, task: Task) -> Budget:
        published = self.constants == "published"
        return Budget(pure_epsilon(self.published_cost(task))) if published else self.budget(task)

    def noise_scale(self, moment: SecondMoment, cost: Cost, relation: Relation) -> float:
        return moment.upper_sensitivity(relation) / pure_epsilon(cost)

    def noise(self, moment: SecondMoment, cost: Cost, relation: Relation, rng: Randomness) -> Noise:
        scale = self.noise_scale(moment, cost, relation)
        matrix = symmetric_laplace(moment.dimension, scale, rng)
        return Noise(matrix, scale * math.sqrt(2))

    def noise_norm(self, d: int, deviation: float, failure: float) -> float:
        # ‖N‖⁴ ≤ tr N⁴, whose expectation is at most (2d³ + 6d²)τ⁴ for independent entries of kurtosis 6; Markov.
        return deviation * ((2 * d**3 + 6 * d**2) / failure) ** 0.25

    def r_transform(self, d: int, deviation: float) -> RTransform:
        return gaussian_r_transform(d, deviation)  # independent entries: the semicircle is universal

    def deviation(self, d: int, budget: Budget, relation: Relation) -> float:
        moment = SecondMoment(Lattice(Frame(d), 1.0))
        return math.sqrt(2) * moment.upper_sensitivity(relation) / moment.squared_radius / budget.epsilon
