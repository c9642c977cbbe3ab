"""``matrix-laplace``: the second moment plus the difference of two Wishart matrices.

Guarantee: ε-DP for every data set, with error O(d^1.5/n). Released is M + W₁ − W₂ with W = s·GGᵀ, where G is a d×(d+1)
standard Gaussian matrix and s = R²/ε (replace) or R²/2ε (add/remove, and a single column, for which it is the Laplace
mechanism). Proof in `privacy.noise`. The noise is continuous and drawn in floating point, and the sum is rounded to a
grid of about s/256, far coarser than the last bits of the noise: "idealised" numerics. (One-sided Wishart noise, as
printed in the literature, is not private: its support depends on the data.)

Reference: this project; noise of the same order by another sampler in d'Orsi and Novikov 2025.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpeigen.methods.moment.base import MomentMethod
from dpeigen.privacy import Budget, PureCost, Relation
from dpeigen.questions import LaplaceLaw, WishartLaw

__all__ = ["MatrixLaplace"]


@dataclass(frozen=True)
class MatrixLaplace(MomentMethod):
    """Two-sided Wishart noise on the second moment."""

    name = "matrix-laplace"
    reference = "dpeigen; cf. d'Orsi and Novikov 2025"
    uses_delta = False
    continuous_noise = True

    @property
    def law(self) -> WishartLaw:
        return WishartLaw()

    def deviation(self, d: int, budget: Budget, relation: Relation) -> float:
        if d == 1:  # Laplace noise; there is no entry off the diagonal
            return LaplaceLaw().deviation(d, PureCost(budget.epsilon), relation)
        return super().deviation(d, budget, relation)
