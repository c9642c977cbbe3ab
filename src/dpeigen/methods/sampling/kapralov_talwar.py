"""``kapralov-talwar``: rank-one approximations, drawn and subtracted one after the other (Kapralov and Talwar 2013).

Guarantee: ε-DP for every data set; with δ > 0, (ε, δ)-DP. "Idealised" numerics. Step i draws u from exp(c·uᵀMᵢu) on
the whole sphere, releases λ = uᵀMᵢu with noise, and continues with Mᵢ − λuuᵀ. What is subtracted is released, so uᵀMᵢu
changes like uᵀMu, by at most 1, and draws and values compose as in `methods.sampling`. It is a baseline: an error in λ
affects both the value and the following directions, and each of the k values is paid for separately.

Reference: Kapralov and Talwar 2013, in the form that Amin et al. 2019 compare with.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Task
from dpeigen.methods.outline import Planned
from dpeigen.methods.sampling.base import SamplingMethod, any_lattice, draw_epsilon, rounding_allowance
from dpeigen.methods.sampling.evidence import DrawnDirections
from dpeigen.privacy import ConcentratedCost, Cost, GaussianCost, PureCost
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.noise import noise_scale
from dpeigen.questions import Matrix, RankOne, Rayleigh
from dpeigen.stats import Lattice, project_eigenvalues
from dpeigen.stats.spectrum import fix_signs

__all__ = ["KapralovTalwar"]


@dataclass(frozen=True)
class KapralovTalwar(SamplingMethod):
    """Rank-one deflation.

    Parameters
    ----------
    constants : "sharp", or "published" (pure privacy, c = εᵢ/4 and value noise of scale 2/εᵢ); the guarantee then
        states what they give.
    reconstruction : "projected": the eigenvalues of the sum of rank-one matrices are projected on {≥ 0, sum ≤ n};
        "printed": each is rounded to [0, n], as in Amin et al. 2019.
    """

    reconstruction: str = "projected"

    name = "kapralov-talwar"
    planned = Planned(slow=4)
    reference = "Kapralov and Talwar 2013"
    halved = (Purpose.EIGENVALUES, Purpose.EIGENVECTORS)

    def check(self, task: Task) -> None:
        check_choice("reconstruction", self.reconstruction, ["projected", "printed"], "KapralovTalwar")
        super().check(task)

    def value_scale(self, cost: Cost, task: Task) -> float:
        anything = Matrix(np.zeros(0))
        reach = Rayleigh(any_lattice(task), self.allowance(task), anything, anything).reach
        return noise_scale(_one_step(cost, task.wanted), l2=reach, l1=reach)

    def allowance(self, task: Task) -> float:
        return rounding_allowance(task) * (1 + task.wanted)  # values are clipped to n, so ‖Mᵢ‖ ≤ (1 + i)·n

    def ask(
        self, curator: Curator, lattice: Lattice, count: float, costs: Mapping[Purpose, Cost], task: Task
    ) -> tuple[Floats, Floats, float, float | None, DrawnDirections | None]:
        steps, allowance, d = task.wanted, self.allowance(task), task.n_features
        draw, value = (_one_step(costs[p], steps) for p in (Purpose.EIGENVECTORS, Purpose.EIGENVALUES))
        concentration = draw_epsilon(draw, 1) * self.concentration(task)
        rebuilt, most = np.zeros((d, d)), count * task.units_per_term
        for _ in range(steps):
            question = RankOne(lattice, allowance, concentration, Matrix(rebuilt))
            u = curator.measure(question, purpose=Purpose.EIGENVECTORS, cost=draw)
            length = Rayleigh(lattice, allowance, Matrix(u), Matrix(rebuilt))
            noisy = curator.measure(length, purpose=Purpose.EIGENVALUES, cost=value)
            rebuilt = rebuilt + np.clip(noisy, -most, most) * np.outer(u, u)
        eigenvalues, eigenvectors = np.linalg.eigh(rebuilt)
        if self.reconstruction == "printed":
            eigenvalues = np.clip(eigenvalues, 0.0, most)[::-1]
        else:
            eigenvalues = project_eigenvalues(eigenvalues, trace=most)[::-1]
        # No bound: the error is that of the sum, and its size ‖C‖_F would have to be released.
        return fix_signs(eigenvectors.T[::-1][:steps]), eigenvalues[:steps], 0.0, None, None


def _one_step(cost: Cost, steps: int) -> Cost:
    """The cost of each of ``steps`` steps; together they never exceed the share."""
    down = 1 - 2**-40
    if isinstance(cost, GaussianCost):
        return GaussianCost(cost.mu / math.sqrt(steps) * down)
    if isinstance(cost, ConcentratedCost):
        return ConcentratedCost(cost.rho / steps * down)
    return PureCost(pure_epsilon(cost) / steps * down)
