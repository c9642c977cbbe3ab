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

from dpeigen.methods.moment import MomentMethod, Noise
from dpeigen.privacy import Budget, Cost, Randomness, Relation, gaussian_mu
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.noise import symmetric_gaussian
from dpeigen.stats import SecondMoment
from dpeigen.stats.spectrum import RTransform, gaussian_r_transform


@dataclass(frozen=True)
class Gaussian(MomentMethod):
    """Gaussian noise on the second moment."""

    name = "gaussian"
    reference = "Dwork et al. 2014; Balle and Wang 2018"
    needs_delta = True

    def noise_scale(self, moment: SecondMoment, cost: Cost, relation: Relation) -> float:
        return moment.frobenius_sensitivity(relation) / gaussian_share(cost)

    def noise(self, moment: SecondMoment, cost: Cost, relation: Relation, rng: Randomness) -> Noise:
        sigma = self.noise_scale(moment, cost, relation)
        matrix = symmetric_gaussian(moment.dimension, sigma, rng)
        return Noise(matrix, sigma / math.sqrt(2))

    def r_transform(self, d: int, deviation: float) -> RTransform:
        return gaussian_r_transform(d, deviation)

    def deviation(self, d: int, budget: Budget, relation: Relation) -> float:
        sigma = 1 / gaussian_mu(budget.epsilon, budget.delta)
        if d == 1:
            return sigma  # there is no entry off the diagonal
        return sigma if relation is Relation.REPLACE else sigma / math.sqrt(2)
