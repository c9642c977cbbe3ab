"""``matrix-laplace``: the second moment plus the difference of two Wishart matrices.

Guarantee: ε-DP for every data set, with error O(d^1.5/n). Released is M + W₁ − W₂ with W = s·GGᵀ, G a d×(d+1)
standard Gaussian matrix, s = R²/ε (replace) or R²/2ε (add/remove, and a single column, where it is the Laplace
mechanism). Proof in `privacy.noise`. The noise is continuous and drawn in floating point, and the sum is rounded to a
grid of about s/256, far above the noise's last bits: "idealised" numerics. (One-sided Wishart noise, as printed in the
literature, is not private: its support moves with the data.)

Reference: this project; noise of the same order by another sampler in d'Orsi and Novikov 2025.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpeigen.methods.moment import MomentMethod, Noise
from dpeigen.privacy import Budget, Cost, Randomness, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.noise import continuous_grid, matrix_laplace
from dpeigen.stats.base import SymmetricSum
from dpeigen.stats.spectrum import RTransform, wishart_difference_r_transform


@dataclass(frozen=True)
class MatrixLaplace(MomentMethod):
    """Two-sided Wishart noise on the second moment."""

    name = "matrix-laplace"
    reference = "dpeigen; cf. d'Orsi and Novikov 2025"
    uses_delta = False
    continuous_noise = True
    numerics: ClassVar[Numerics] = "idealised"

    def noise_scale(self, moment: SymmetricSum, cost: Cost, relation: Relation) -> float:
        return moment.trace_sensitivity(relation) / (2 * pure_epsilon(cost))

    def noise(self, moment: SymmetricSum, cost: Cost, relation: Relation, rng: Randomness) -> Noise:
        d, scale = moment.dimension, self.noise_scale(moment, cost, relation)
        matrix = np.rint(matrix_laplace(d, scale, rng)).astype(np.int64)
        return Noise(matrix, scale * math.sqrt(2 * (d + 1)), continuous_grid(scale))

    def noise_norm(self, d: int, deviation: float, failure: float) -> float:
        # ‖W₁ − W₂‖ ≤ max ‖Wᵢ‖, and ‖G‖ ≤ √d + √(d+1) + t but for e^{−t²/2} (Davidson and Szarek 2001).
        t = math.sqrt(2 * math.log(2 / failure))
        return deviation / math.sqrt(2 * (d + 1)) * (math.sqrt(d) + math.sqrt(d + 1) + t) ** 2

    def r_transform(self, d: int, deviation: float) -> RTransform:
        return wishart_difference_r_transform(d, deviation / math.sqrt(2 * (d + 1)))

    def deviation(self, d: int, budget: Budget, relation: Relation) -> float:
        if d == 1:
            return math.sqrt(2) / budget.epsilon  # Laplace noise; there is no entry off the diagonal
        return math.sqrt(2 * (d + 1)) / budget.epsilon * (1.0 if relation is Relation.REPLACE else 0.5)
