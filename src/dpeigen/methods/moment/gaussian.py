"""``gaussian``: the second moment with isotropic Gaussian noise (Analyze Gauss, with tight constants).

Guarantee: (ε, δ)-DP for every data set, δ > 0. The statistic is an integer matrix of Frobenius sensitivity √2·R²
(replace) or R² (add/remove), where R² includes the weight of the centre. The noise is isotropic in the isometric
coordinates of symmetric matrices: N(0, σ²) on the diagonal and N(0, σ²/2) off it, with σ from the exact Gaussian
privacy profile. It is drawn as exact discrete Gaussians on the grid; the difference from the continuous profile is
bounded and paid for (`privacy.calibration`).

Reference: Dwork, Talwar, Thakurta, Zhang 2014; calibration Balle, Wang 2018; discrete noise Canonne, Kamath, Steinke
2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeigen.methods.base import Task
from dpeigen.methods.moment.base import MomentMethod
from dpeigen.privacy import Budget, Cost, GaussianCost, Relation, gaussian_epsilon, gaussian_mu
from dpeigen.privacy.budget import gaussian_share
from dpeigen.questions import GaussianLaw

__all__ = ["Gaussian"]


@dataclass(frozen=True)
class Gaussian(MomentMethod):
    """Gaussian noise on the second moment."""

    name = "gaussian"
    reference = "Dwork et al. 2014; Balle and Wang 2018"
    needs_delta = True

    def published_cost(self, task: Task) -> Cost:
        # σ = √(2 ln(1.25/δ))/ε on every entry of the upper triangle, for a sensitivity of 1. The real one is √2:
        # Σ_{i≤j} Δᵢⱼ² = (‖Δ‖²_F + Σ Δᵢᵢ²)/2 ≤ ‖Δ‖²_F, with equality for two unit vectors of the basis.
        sigma = math.sqrt(2 * math.log(1.25 / task.budget.delta)) / task.budget.epsilon
        return GaussianCost((math.sqrt(2) if task.n_features > 1 else 1.0) / sigma)

    def price(self, task: Task) -> Budget:
        if self.constants == "sharp":
            return self.budget(task)
        mu = gaussian_share(self.published_cost(task))
        return Budget(max(gaussian_epsilon(task.budget.delta, mu) * (1 + 1e-9), 1e-9), task.budget.delta)

    @property
    def law(self) -> GaussianLaw:
        return GaussianLaw(isometric=self.constants == "sharp")

    def deviation(self, d: int, budget: Budget, relation: Relation) -> float:
        if d == 1:  # there is no entry off the diagonal
            return 1 / gaussian_mu(budget.epsilon, budget.delta)
        return super().deviation(d, budget, relation)
