"""``matrix-laplace``: the second moment plus the difference of two Wishart matrices.

Guarantee: ε-DP for every data set, with error O(d^1.5/n). Released is M + W₁ − W₂ with W = s·GGᵀ, G a d×(d+1)
standard Gaussian matrix, s = R²/ε (replace) or R²/2ε (add/remove); for d = 1 this is the Laplace mechanism. Proof in
`privacy.noise`. The noise is continuous, drawn in floating point and rounded to the integer grid of the statistic:
"idealised" numerics. (One-sided Wishart noise, as printed in the literature, is not private: its support moves with
the data.)

Reference: this project; noise of the same order by another sampler in d'Orsi and Novikov 2026.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpeigen.methods.moment import MomentMethod, Noise
from dpeigen.privacy import Budget, Cost, PureCost, Randomness, Relation
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.noise import matrix_laplace, on_grid
from dpeigen.stats import SecondMoment
from dpeigen.stats.spectrum import RTransform, wishart_difference_r_transform


@dataclass(frozen=True)
class MatrixLaplace(MomentMethod):
    """Two-sided Wishart noise on the second moment."""

    name = "matrix-laplace"
    reference = "dpeigen; cf. d'Orsi and Novikov 2026"
    uses_delta = False
    numerics: ClassVar[Numerics] = "idealised"

    def noise(self, moment: SecondMoment, cost: Cost, relation: Relation, rng: Randomness) -> Noise:
        if not isinstance(cost, PureCost):
            raise TypeError("matrix Laplace noise needs a pure cost")
        d = moment.dimension
        scale = moment.trace_sensitivity(relation) / (2 * cost.epsilon)
        return Noise(on_grid(matrix_laplace(d, scale, rng)), scale * math.sqrt(2 * (d + 1)))

    def r_transform(self, d: int, deviation: float) -> RTransform:
        return wishart_difference_r_transform(d, deviation / math.sqrt(2 * (d + 1)))

    def deviation(self, d: int, budget: Budget, relation: Relation) -> float:
        return math.sqrt(2 * (d + 1)) / budget.epsilon * (1.0 if relation is Relation.REPLACE else 0.5)
