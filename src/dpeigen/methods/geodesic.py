"""``geodesic``: least-absolute-deviations PCA by noisy geodesic gradient descent on signs of differences (NSGGD).

Guarantee: (ε, δ)-DP, δ > 0, for every data set under replacement of one row, "idealised" numerics. Rows enter as signs
z of differences of disjoint random pairs, so that one row is in one term. The start is the top of Σzzᵀ with Gaussian
noise (Frobenius sensitivity √2). Each step adds Gaussian noise to Σ (Qz/|Qz|)(Vᵀz)ᵀ, Q = I − VVᵀ, whose terms have norm
at most 1: sensitivity 2 and what rounding adds (see `_allowance`). Steps on all pairs compose exactly as Gaussians;
steps on random parts are priced by an accountant (`privacy.subsampling`), and the two halves then add up.

``constants="published"`` is Algorithm 3 of Kim and Jung 2025 with its noise formula, T = n² steps on one pair each and
rate 1/n²; `price` states what an accountant makes of it. (Its minus sign before the gradient as printed would climb.)

Reference: Maunu, Yu, Lerman 2022; Kim and Jung 2025, Appendix C.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import check_choice, check_count, check_positive, complain
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import frame_rows, location, spends
from dpeigen.methods.gaussian import Gaussian
from dpeigen.privacy import ApproximateCost, Budget, Cost, GaussianCost, Randomness, Relation, allocate
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.calibration import gaussian_epsilon, gaussian_mu
from dpeigen.privacy.noise import continuous_grid
from dpeigen.privacy.randomness import check_scale
from dpeigen.privacy.subsampling import subsampled_epsilon, subsampled_noise
from dpeigen.sources import PairedSource, Source
from dpeigen.stats import BadRowsError, SecondMoment, unit_lattice
from dpeigen.stats.elliptical import relative_variances
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.products import check_blas
from dpeigen.stats.spectrum import fix_signs, symmetric_eigh

Floats = NDArray[np.float64]
_START, _STEPS = "start", "steps"
_FLAT = 2.0**-10  # residuals shorter than this count as so long: the gradient is then continuous in the row
_UNIT = 2**32  # grid steps per unit of the gradient


@dataclass(frozen=True)
class Geodesic(Method):
    """Noisy geodesic gradient descent.

    Parameters
    ----------
    steps : number of steps, or None for 20 (published: n²).
    rate, decay : step t moves by rate·decay^t times the mean gradient (published: 1/n² and 1).
    batch : pairs a step looks at, drawn without replacement; None for all of them (published: 1). All is more accurate
        at equal privacy; parts are faster, and need the ``accounting`` extra.
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
    continuous_noise = True

    def check(self, task: Task) -> None:
        super().check(task)
        check_blas(self.name)
        owner = type(self).__name__
        if task.relation is not Relation.REPLACE:
            remedy = "Use relation='replace', or method='spatial-sign'."
            raise ValueError(complain("relation", task.owner, "'replace' for method='geodesic'", "add_remove", remedy))
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
        check_scale(2 * LEVELS**2 / gaussian_share(costs[_START]))

    def _plan(self, task: Task) -> tuple[int, int, int]:
        """Pairs, pairs in a step, steps."""
        pairs = max(1, (task.n_rows or 2) // 2)
        if self.constants == "published":
            steps = self.steps or pairs**2
            return pairs, max(1, math.floor(pairs * math.sqrt(task.budget.epsilon / (8 * steps)))), steps
        return pairs, min(self.batch or pairs, pairs), self.steps or 20

    def _noise(self, task: Task) -> tuple[dict[str, Cost], float]:
        """What start and steps cost, and the noise of a step on its sum of gradients."""
        pairs, size, steps = self._plan(task)
        budget, d, k = task.budget, task.n_features, task.n_components or 1
        half = Budget(budget.epsilon / 2, budget.delta / 2)
        reach = 2.0 + 2 * size * _allowance(d, k, size) + d * k / _UNIT
        if self.constants == "published":
            deviation = size**2 * math.sqrt(2 * steps * math.log(1 / half.delta) / (pairs**2 * half.epsilon))
            sigma = 6 * math.sqrt(2 * math.log(1.25 / half.delta)) / half.epsilon
            real = subsampled_epsilon(size, pairs, steps, deviation / reach, half.delta)
            return {_START: GaussianCost(math.sqrt(2) / sigma), _STEPS: ApproximateCost(real, half.delta)}, deviation
        costs = allocate(budget, main={_START: 0.5, _STEPS: 0.5}, coordinates=d * (d + 1) // 2 + steps * d * k)
        plain = reach * math.sqrt(steps) / gaussian_share(costs[_STEPS])
        if size == pairs:
            return costs, plain
        sampled = reach * subsampled_noise(size, pairs, steps, half.epsilon, half.delta)
        if plain <= sampled:  # as if every step might see every pair, which is true of any part
            return costs, plain
        start = GaussianCost(gaussian_mu(half.epsilon * (1 - 1e-9), half.delta * (1 - 1e-9)))
        return {_START: start, _STEPS: ApproximateCost(half.epsilon, half.delta)}, sampled

    def rehearsal_rows(self, task: Task) -> int:  # noqa: ARG002
        return 2**20

    def price(self, task: Task) -> Budget:
        if self.constants == "sharp":
            return task.budget
        costs, _ = self._noise(task)
        steps = costs[_STEPS]
        assert isinstance(steps, ApproximateCost)
        start = gaussian_epsilon(task.budget.delta / 2, gaussian_share(costs[_START]))
        return Budget(max(start + steps.epsilon, 1e-9) * (1 + 1e-9), task.budget.delta * (1 + 1e-9))

    def estimate(self, source: Source, task: Task, rng: Randomness) -> Estimate:
        costs, deviation = self._noise(task)
        pairs, size, steps = self._plan(task)
        frame, _ = frame_rows(task, weighted=False)
        lattice = unit_lattice(replace(frame, pairs=True))
        moment = SecondMoment(lattice)
        signs = np.concatenate([lattice.integers(block) for block in PairedSource(source, rng).blocks()])
        if len(signs) != pairs:
            raise BadRowsError(
                "The source yields blocks with odd numbers of rows, so pairs are lost. Nothing was spent."
            )
        source.finished()
        for at in range(0, len(signs), 2**12):
            moment._take(signs[at : at + 2**12])
        signs /= LEVELS
        noise = Gaussian().noise(moment, costs[_START], task.relation, rng)
        start = noise.added_to(moment.gram) / (LEVELS**2 * len(signs))
        k = task.n_components or 1
        v = symmetric_eigh(start)[1][:k].T
        published = self.constants == "published"
        grid = continuous_grid(deviation * _UNIT) / _UNIT
        for t in range(steps):
            part = signs if size >= len(signs) else signs[rng.permutation(len(signs))[:size]]
            step = _with_noise(_gradient(part, v), deviation, grid, rng) / len(part)
            rate = 1.0 / pairs**2 if published else self.rate * self.decay**t
            left, _, right = np.linalg.svd(v + rate * step, full_matrices=False)
            v = left @ right
        return self._assemble(v.T, start, costs, task)

    def _assemble(self, basis: Floats, start: Floats, costs: dict[str, Cost], task: Task) -> Estimate:
        """The subspace, turned to the axes of the noisy start inside it; relative variances at no cost."""
        d, k = task.n_features, len(basis)
        inside, turn = symmetric_eigh(basis @ start @ basis.T)
        components = fix_signs(turn @ basis)
        phi = np.maximum(inside, 0.0)
        rest = max(1.0 - float(phi.sum()), 0.0) / (d - k)
        variances = relative_variances(np.append(phi, np.full(d - k, rest)))
        values, left = np.sort(variances[:k])[::-1], float(variances[k:].mean())
        covariance = (components.T * (values - left)) @ components + left * np.eye(d)
        frame, _ = frame_rows(task, weighted=False)
        return Estimate(
            components=components,
            eigenvalues=values,
            noise_variance=left,
            covariance=(covariance + covariance.T) / 2,
            mean=None if task.private_center else location(frame, None, task),
            n_rows=None if task.n_rows is None else float(task.n_rows),
            radius=None,
            split=spends(costs, {_STEPS: "Gaussian steps"}),
            numerics="idealised",
            radius_released=False,
            notes=("Variances are relative: together they are 1.", "No centre was paid for: differences need none."),
            details={"variances": "relative"},
        )


def _allowance(d: int, k: int, size: int) -> float:
    """What rounding moves one term of the gradient by at most.

    z and V have norm 1 and columns orthonormal to 4d·2^−53; Qz is off by at most 8(d + k)·2^−53 and divided by at least
    `_FLAT`, and the sum over terms, of norm at most 1 each, goes through 2^12 additions in a chunk and one per chunk.
    """
    return 2.0**-53 * (16 * (d + k) / _FLAT + 2**13 + size / 2**11)


def _with_noise(gradient: Floats, deviation: float, grid: float, rng: Randomness) -> Floats:
    """The released sum of gradients, on a public grid."""
    noisy: Floats = gradient + deviation * rng.normal(gradient.shape)
    return np.rint(noisy / grid) * grid


def _gradient(signs: Floats, v: Floats) -> Floats:
    """Σ (Qz/max(|Qz|, flat))(Vᵀz)ᵀ; every term has norm at most 1."""
    total = np.zeros_like(v)
    for at in range(0, len(signs), 2**12):
        z = signs[at : at + 2**12]
        scores = z @ v
        residual = z - scores @ v.T
        length = np.sqrt(np.einsum("ij,ij->i", residual, residual))
        total += residual.T @ (scores / np.maximum(length, _FLAT)[:, None])
    return total
