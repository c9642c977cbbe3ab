"""``geodesic``: least-absolute-deviations PCA by noisy geodesic gradient descent on signs of differences (NSGGD).

Guarantee: (ε, δ)-DP, δ > 0, for every data set under replacement of one row, "idealised" numerics. Rows enter as signs
z of differences of disjoint random pairs, so that each row is in one term. The start is the leading eigenspace of Σzzᵀ
with Gaussian noise (Frobenius sensitivity √2). Each step adds Gaussian noise to Σ (Qz/|Qz|)(Vᵀz)ᵀ, Q = I − VVᵀ. Its
terms have norm at most 1, so the sensitivity is 2, plus what rounding adds (`questions.descent`). Steps on all pairs
compose exactly as Gaussians. Steps on random subsets are priced by an accountant (`privacy.subsampling`); the costs of
start and steps are then added.

``constants="published"`` is Algorithm 3 of Kim and Jung 2025 with its noise formula, T = n² steps on one pair each and
rate 1/n²; `price` states what an accountant makes of it. (As printed, the minus sign before the gradient would ascend.)

Reference: Maunu, Yu, Lerman 2022; Kim and Jung 2025, Appendix C.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_positive, complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import frame_rows, location
from dpeigen.methods.outline import Planned
from dpeigen.privacy import ApproximateCost, Budget, Cost, GaussianCost, allocate
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.calibration import gaussian_epsilon, gaussian_mu
from dpeigen.privacy.randomness import check_scale
from dpeigen.privacy.subsampling import subsampled_epsilon, subsampled_noise
from dpeigen.questions import Descent, GaussianLaw, Matrix, Moment, gradient_reach
from dpeigen.stats import unit_lattice
from dpeigen.stats.elliptical import relative_variances
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.products import check_blas
from dpeigen.stats.spectrum import fix_signs, symmetric_eigh, with_remainder

__all__ = ["Geodesic"]


@dataclass(frozen=True)
class Geodesic(Method):
    """Noisy geodesic gradient descent.

    Parameters
    ----------
    steps : number of steps, or None for 20 (published: n²).
    rate, decay : step t moves by rate·decay^t times the mean gradient (published: 1/n² and 1).
    batch : pairs used in a step, drawn without replacement; None for all of them (published: 1). All pairs are more
        accurate at equal privacy; subsets are faster, and need the ``accounting`` extra.
    constants : "sharp", or "published" as printed; the guarantee then states what they give.
    """

    steps: int | None = None
    rate: float = 0.5
    decay: float = 0.9
    batch: int | None = None
    constants: str = "sharp"

    name = "geodesic"
    reference = "Maunu et al. 2022; Kim and Jung 2025"
    needs_bound = False
    needs_delta = True
    needs_replace = "Use relation='replace', or method='spatial-sign'."
    continuous_noise = True
    planned = Planned(drawn=True, covariance=False, slow=6)  # every step uses all signs, which no moment summarises

    def check(self, task: Task) -> None:
        super().check(task)
        check_blas(self.name)
        owner = type(self).__name__
        if task.n_components is None or task.n_components >= task.n_features:
            must = "below the number of columns for method='geodesic', which finds a subspace"
            raise ValueError(complain("n_components", task.owner, must, task.n_components or "a whole covariance"))
        check_choice("constants", self.constants, ["sharp", "published"], owner)
        check_positive("rate", self.rate, owner)
        if not 0 < self.decay <= 1:
            raise ValueError(complain("decay", owner, "in (0, 1]", self.decay))
        for name, value in (("steps", self.steps), ("batch", self.batch)):
            if value is not None:
                check_count(name, value, owner)
        costs, _ = self._noise(task)
        check_scale(2 * LEVELS**2 / gaussian_share(costs[Purpose.START]))

    def _plan(self, task: Task) -> tuple[int, int, int]:
        """The number of pairs, of pairs in a step, and of steps."""
        pairs = max(1, (task.n_rows or 2) // 2)
        if self.constants == "published":
            steps = self.steps or pairs**2
            return pairs, max(1, math.floor(pairs * math.sqrt(task.budget.epsilon / (8 * steps)))), steps
        return pairs, min(self.batch or pairs, pairs), self.steps or 20

    def _noise(self, task: Task) -> tuple[dict[Purpose, Cost], float]:
        """The costs of start and steps, and the noise of a step on its sum of gradients."""
        pairs, size, steps = self._plan(task)
        budget, d, k = task.budget, task.n_features, task.n_components or 1
        half = Budget(budget.epsilon / 2, budget.delta / 2)
        reach = gradient_reach(d, k, size)
        if self.constants == "published":
            deviation = size**2 * math.sqrt(2 * steps * math.log(1 / half.delta) / (pairs**2 * half.epsilon))
            sigma = 6 * math.sqrt(2 * math.log(1.25 / half.delta)) / half.epsilon
            real = subsampled_epsilon(size, pairs, steps, deviation / reach, half.delta)
            return {
                Purpose.START: GaussianCost(math.sqrt(2) / sigma),
                Purpose.STEPS: ApproximateCost(real, half.delta),
            }, deviation
        costs = allocate(
            budget, main={Purpose.START: 0.5, Purpose.STEPS: 0.5}, coordinates=d * (d + 1) // 2 + steps * d * k
        )
        plain = reach * math.sqrt(steps) / gaussian_share(costs[Purpose.STEPS])
        if size == pairs:
            return costs, plain
        sampled = reach * subsampled_noise(size, pairs, steps, half.epsilon, half.delta)
        if plain <= sampled:  # as if every step used every pair, which is valid for any subset
            return costs, plain
        start = GaussianCost(gaussian_mu(half.epsilon * (1 - 1e-9), half.delta * (1 - 1e-9)))
        return {Purpose.START: start, Purpose.STEPS: ApproximateCost(half.epsilon, half.delta)}, sampled

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        return self._noise(task)[0]

    def price(self, task: Task) -> Budget:
        if self.constants == "sharp":
            return task.budget
        costs, _ = self._noise(task)
        steps = costs[Purpose.STEPS]
        assert isinstance(steps, ApproximateCost)
        start = gaussian_epsilon(task.budget.delta / 2, gaussian_share(costs[Purpose.START]))
        return Budget(max(start + steps.epsilon, 1e-9) * (1 + 1e-9), task.budget.delta * (1 + 1e-9))

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs, deviation = self._noise(task)
        pairs, size, steps = self._plan(task)
        frame, _ = frame_rows(task, weighted=False)
        lattice = unit_lattice(replace(frame, pairs=True))
        cost = costs[Purpose.START]
        found = curator.measure(Moment(lattice, GaussianLaw()), purpose=Purpose.START, cost=cost)
        start = found.total / (LEVELS**2 * pairs)
        v = symmetric_eigh(start)[1][: task.n_components].T
        published = self.constants == "published"
        rates = tuple(1.0 / pairs**2 if published else self.rate * self.decay**t for t in range(steps))
        question = Descent(lattice, Matrix(v), rates, size, pairs, deviation)
        v = curator.measure(question, purpose=Purpose.STEPS, cost=costs[Purpose.STEPS])
        return self._assemble(v.T, start, task)

    def _assemble(self, basis: Floats, start: Floats, task: Task) -> Estimate:
        """The subspace, rotated to the axes of the noisy start inside it; relative variances at no cost."""
        d, k = task.n_features, len(basis)
        inside, turn = symmetric_eigh(basis @ start @ basis.T)
        components = fix_signs(turn @ basis)
        phi = np.maximum(inside, 0.0)
        rest = max(1.0 - float(phi.sum()), 0.0) / (d - k)
        variances = relative_variances(np.append(phi, np.full(d - k, rest)))
        values, left = np.sort(variances[:k])[::-1], float(variances[k:].mean())
        covariance = with_remainder(components, values, left)
        frame, _ = frame_rows(task, weighted=False)
        return Estimate(
            components=components,
            eigenvalues=values,
            noise_variance=left,
            covariance=(covariance + covariance.T) / 2,
            mean=None if task.private_center else location(frame, None, task),
            n_rows=None if task.n_rows is None else float(task.n_rows),
            radius=None,
            numerics="idealised",
            radius_released=False,
            notes=("Variances are relative: together they are 1.", "No centre was paid for: differences need none."),
            details={"variances": "relative"},
        )
