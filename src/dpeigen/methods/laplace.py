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

from dpeigen.methods.moment import MomentMethod, Noise
from dpeigen.privacy import Budget, Cost, Randomness, Relation
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

    def noise_scale(self, moment: SecondMoment, cost: Cost, relation: Relation) -> float:
        return moment.upper_sensitivity(relation) / pure_epsilon(cost)

    def noise(self, moment: SecondMoment, cost: Cost, relation: Relation, rng: Randomness) -> Noise:
        scale = self.noise_scale(moment, cost, relation)
        matrix = symmetric_laplace(moment.dimension, scale, rng)
        return Noise(matrix, scale * math.sqrt(2))

    def r_transform(self, d: int, deviation: float) -> RTransform:
        return gaussian_r_transform(d, deviation)  # independent entries: the semicircle is universal

    def deviation(self, d: int, budget: Budget, relation: Relation) -> float:
        moment = SecondMoment(Lattice(Frame(d), 1.0))
        return math.sqrt(2) * moment.upper_sensitivity(relation) / moment.squared_radius / budget.epsilon
