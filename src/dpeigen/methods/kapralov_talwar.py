"""``kapralov-talwar``: rank-one approximations, drawn and subtracted one after the other (Kapralov and Talwar 2013).

Guarantee: ε-DP for every data set; with δ > 0, (ε, δ)-DP. "Idealised" numerics. Step i draws u from exp(c·uᵀMᵢu) on
the whole sphere, releases λ = uᵀMᵢu with noise, and goes on with Mᵢ − λuuᵀ. What is subtracted is released, so uᵀMᵢu
moves as uᵀMu does, by at most 1, and draws and values compose as `methods.sampling` says. It is a baseline: an error
in λ is paid for twice, in the value and in the directions that follow, and every one of the k values is paid for apart.

Reference: Kapralov and Talwar 2013, in the form that Amin et al. 2019 compare with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods.base import Task
from dpeigen.methods.sampling import GRID, VALUES, VECTORS, SamplingMethod, draw_epsilon, rounding_allowance, steps_of
from dpeigen.privacy import Cost, GaussianCost, PureCost, Randomness
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.noise import noise_scale, perturb
from dpeigen.privacy.sphere import sample_bingham
from dpeigen.stats import project_eigenvalues
from dpeigen.stats.spectrum import fix_signs

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class KapralovTalwar(SamplingMethod):
    """Rank-one deflation.

    Parameters
    ----------
    constants : "sharp", or "published" (pure privacy, c = εᵢ/4 and value noise of scale 2/εᵢ); the guarantee then
        states what they give.
    """

    name = "kapralov-talwar"
    reference = "Kapralov and Talwar 2013"
    halved = (VALUES, VECTORS)

    def value_scale(self, cost: Cost, task: Task) -> float:
        reach = self._reach(task)
        return noise_scale(_one_step(cost, steps_of(task)), l2=reach, l1=reach)

    def _reach(self, task: Task) -> float:
        """The sensitivity of one rounded value, in grid steps."""
        return (2.0 if self.constants == "published" else 1.0) * (GRID * (1 + self.allowance(task)) + 1)

    def allowance(self, task: Task) -> float:
        return rounding_allowance(task) * (1 + steps_of(task))  # values are clipped to n, so ‖Mᵢ‖ ≤ (1 + i)·n

    def sample(
        self, matrix: Floats, count: float, costs: dict[str, Cost], task: Task, rng: Randomness
    ) -> tuple[Floats, Floats, float]:
        steps = steps_of(task)
        vectors, values = costs[VECTORS], costs[VALUES]
        epsilon = draw_epsilon(vectors, steps)
        step, reach = _one_step(values, steps), self._reach(task)
        rebuilt = np.zeros_like(matrix)
        for _ in range(steps):
            left = matrix - rebuilt
            u = sample_bingham(epsilon * self.concentration(task) * (left + left.T) / 2, random_state=rng)[0]
            value = np.array([round(float(u @ left @ u) * GRID)], dtype=object)
            noisy = float(perturb(value, step, l2=reach, l1=reach, rng=rng)[0]) / GRID
            rebuilt = rebuilt + np.clip(noisy, -count, count) * np.outer(u, u)
        eigenvalues, eigenvectors = np.linalg.eigh(rebuilt)
        eigenvalues = project_eigenvalues(eigenvalues, trace=count)[::-1]
        return fix_signs(eigenvectors.T[::-1][:steps]), eigenvalues[:steps], 0.0


def _one_step(cost: Cost, steps: int) -> Cost:
    """What each of the values may cost; together never more than the share."""
    down = 1 - 2**-40
    if isinstance(cost, GaussianCost):
        return GaussianCost(cost.mu / math.sqrt(steps) * down)
    return PureCost(pure_epsilon(cost) / steps * down)
