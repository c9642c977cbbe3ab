"""``gaussian``: the second moment with isotropic Gaussian noise (Analyze Gauss, with tight constants).

Guarantee: (ε, δ)-DP for every data set, δ > 0. The statistic is an integer matrix of Frobenius sensitivity √2·R²
(replace) or R² (add/remove), R² including the centre's weight. The noise is isotropic in the isometric coordinates of
symmetric matrices, N(0, σ²) on the diagonal and N(0, σ²/2) off it, σ from the exact Gaussian privacy profile, drawn
as exact discrete Gaussians on the grid; the difference to the continuous profile is bounded and paid for
(`privacy.calibration`).

Reference: Dwork, Talwar, Thakurta, Zhang 2014; calibration Balle, Wang 2018; discrete noise Canonne, Kamath, Steinke
2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeigen.methods.base import Task
from dpeigen.methods.moment import MomentMethod, Noise
from dpeigen.privacy import Budget, Cost, GaussianCost, Randomness, Relation, gaussian_epsilon, gaussian_mu
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.noise import symmetric_gaussian
from dpeigen.stats.base import SymmetricSum
from dpeigen.stats.spectrum import RTransform, gaussian_r_transform


@dataclass(frozen=True)
class Gaussian(MomentMethod):
    """Gaussian noise on the second moment."""

    name = "gaussian"
    reference = "Dwork et al. 2014; Balle and Wang 2018"
    needs_delta = True

    def published_cost(self, task: Task) -> Cost:
        # σ = √(2 ln(1.25/δ))/ε, the same on every entry of the upper triangle, calibrated to a sensitivity of 1. The
        # real one is √2: Σ_{i≤j} Δᵢⱼ² = (‖Δ‖²_F + Σ Δᵢᵢ²)/2 ≤ ‖Δ‖²_F, with equality for two unit vectors of the basis.
        sigma = math.sqrt(2 * math.log(1.25 / task.budget.delta)) / task.budget.epsilon
        return GaussianCost((math.sqrt(2) if task.n_features > 1 else 1.0) / sigma)

    def price(self, task: Task) -> Budget:
        if self.constants == "sharp":
            return self.budget(task)
        mu = gaussian_share(self.published_cost(task))
        return Budget(max(gaussian_epsilon(task.budget.delta, mu) * (1 + 1e-9), 1e-9), task.budget.delta)

    def noise_scale(self, moment: SymmetricSum, cost: Cost, relation: Relation) -> float:
        return moment.frobenius_sensitivity(relation) / gaussian_share(cost)

    def noise(self, moment: SymmetricSum, cost: Cost, relation: Relation, rng: Randomness) -> Noise:
        sigma = self.noise_scale(moment, cost, relation)
        if self.constants == "published":
            return Noise(symmetric_gaussian(moment.dimension, sigma, rng, isometric=False), sigma)
        matrix = symmetric_gaussian(moment.dimension, sigma, rng)
        return Noise(matrix, sigma / math.sqrt(2))

    def noise_norm(self, d: int, deviation: float, failure: float) -> float:
        # E‖N‖ ≤ 2τ√d (Gordon), and ‖N‖ is √2τ-Lipschitz in standard Gaussians.
        return 2 * deviation * (math.sqrt(d) + math.sqrt(math.log(1 / failure)))

    def r_transform(self, d: int, deviation: float) -> RTransform:
        return gaussian_r_transform(d, deviation)

    def deviation(self, d: int, budget: Budget, relation: Relation) -> float:
        sigma = 1 / gaussian_mu(budget.epsilon, budget.delta)
        if d == 1:
            return sigma  # there is no entry off the diagonal
        return sigma if relation is Relation.REPLACE else sigma / math.sqrt(2)
