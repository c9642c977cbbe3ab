"""``laplace``: the second moment with independent Laplace noise on every entry of the upper triangle.

Guarantee: ε-DP for every data set. The noise is exact discrete Laplace of scale Δ₁/ε on integers, where Δ₁ is the ℓ1
sensitivity of the upper triangle: (d+1)/2·R² for add/remove and √(d(d+3)/2)·R² for replace (proof in `stats.moments`);
the literature uses 2d·R². The error grows as d², compared with d^1.5 for ``matrix-laplace``; this method is better only
for one column.

Reference: Dwork, McSherry, Nissim, Smith 2006.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpeigen.methods.base import Task
from dpeigen.methods.moment.base import MomentMethod
from dpeigen.privacy import Budget, Cost, PureCost
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.questions import LaplaceLaw
from dpeigen.stats import Frame, Lattice, SecondMoment

__all__ = ["Laplace"]


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

    @property
    def law(self) -> LaplaceLaw:
        return LaplaceLaw()
