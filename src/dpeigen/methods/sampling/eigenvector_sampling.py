"""``eigenvector-sampling``: private eigenvalues, then eigenvectors drawn one after the other (Amin et al. 2019).

Guarantee: ε-DP for every data set; with δ > 0, (ε, δ)-DP with more accurate draws at the same ε, or ε-DP if there are
too few draws for that. "Idealised" numerics.

- Eigenvalues of M = Σxxᵀ, rows in the unit ball, have ℓ1 sensitivity 2 (replace) or 1 (add/remove) and ℓ2 √2 or 1
  (Lidskii; Hoffman–Wielandt): discrete Laplace or Gaussian noise on a fine grid.
- Direction i is drawn from exp(cᵢ·uᵀMu) on the sphere orthogonal to those before, cᵢ = εᵢ/2 (replace) or εᵢ
  (add/remove): `methods.sampling`. The printed cᵢ = εᵢ/4 wastes half. The last of d directions is determined and costs
  nothing.
- The number of proposals of the rejection sampler, and so its time, depends on the data.

The released covariance has an error bound that holds with probability 95% (`stats.sampled`).

Reference: Amin, Dick, Kulesza, Muñoz Medina, Vassilvitskii 2019, Algorithm 1 and Corollary 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_fraction
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Task
from dpeigen.methods.outline import Planned
from dpeigen.methods.sampling.base import SamplingMethod, any_lattice
from dpeigen.methods.sampling.evidence import DrawnDirections
from dpeigen.privacy import ConcentratedCost, Cost, GaussianCost, PureCost
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.questions import Directions, Eigenvalues
from dpeigen.questions.spectrum import VALUE_GRID
from dpeigen.stats import Lattice, project_eigenvalues
from dpeigen.stats.sampled import sampled_error
from dpeigen.stats.spectrum import expected_rayleigh, fix_signs, isotonic_decreasing

__all__ = ["EigenvectorSampling"]

_FAILURE = 0.05  # probability that the error bound fails


@dataclass(frozen=True)
class EigenvectorSampling(SamplingMethod):
    """Iterative eigenvector sampling.

    Parameters
    ----------
    constants : "sharp", or "published" as printed (pure privacy, c = εᵢ/4, a share for the last direction too, though
        it is determined); the guarantee then states what they give.
    split : "adaptive" gives more of the budget to directions with larger private eigenvalues (Corollary 1),
        "uniform" the same to all.
    beta : β of Corollary 1: the larger, the more the split depends on the private eigenvalues. reconstruction : how the
    covariance is computed from the draws, at no cost. "expected": with the expected variance of
        a drawn direction, given the private eigenvalues and the law of the draw; "projected": with the eigenvalues made
        decreasing and projected on {≥ 0, sum ≤ n}; "printed": with each clipped to [0, n].
    """

    split: str = "adaptive"
    reconstruction: str = "expected"
    beta: float = 0.05

    name = "eigenvector-sampling"
    planned = Planned(slow=4)
    reference = "Amin et al. 2019"

    def check(self, task: Task) -> None:
        check_choice("split", self.split, ["adaptive", "uniform"], "EigenvectorSampling")
        check_choice("reconstruction", self.reconstruction, ["expected", "projected", "printed"], "EigenvectorSampling")
        check_fraction("beta", self.beta, "EigenvectorSampling")
        super().check(task)

    def draws(self, task: Task) -> int:
        return max(1, min(task.wanted, task.n_features - 1))  # the last of all d is determined

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The shares. As printed, a uniform split has a share for the last of all d directions too, which is unused."""
        costs = super().shares(task)
        if self.constants == "published" and self.split == "uniform":
            printed = pure_epsilon(costs[Purpose.EIGENVECTORS])
            costs[Purpose.EIGENVECTORS] = PureCost(printed * self.draws(task) / task.wanted)
        return costs

    def value_scale(self, cost: Cost, task: Task) -> float:
        return Eigenvalues(any_lattice(task), self.allowance(task)).scale(cost, task.relation)

    def ask(
        self, curator: Curator, lattice: Lattice, count: float, costs: Mapping[Purpose, Cost], task: Task
    ) -> tuple[Floats, Floats, float, float | None, DrawnDirections | None]:
        allowance, cost = self.allowance(task), costs[Purpose.EIGENVALUES]
        noisy = curator.measure(Eigenvalues(lattice, allowance), purpose=Purpose.EIGENVALUES, cost=cost).values
        paid, cost = cost, costs[Purpose.EIGENVECTORS]
        scale = self.value_scale(paid, task) / VALUE_GRID
        concentrations = self.concentrations(noisy, scale, cost, task)
        question = Directions(lattice, allowance, tuple(concentrations))
        directions = curator.measure(question, purpose=Purpose.EIGENVECTORS, cost=cost)
        values = self._values(noisy, concentrations, count * task.units_per_term)
        k = len(directions)
        error = None
        if task.n_rows is not None and not task.private_center:
            off = _tail(paid, scale, len(noisy), _FAILURE / 2)
            rebuilt = np.append(values[:k], np.full(len(values) - k, values[k:].mean() if k < len(values) else 0.0))
            error = sampled_error(noisy, off, rebuilt, concentrations, count * task.units_per_term, _FAILURE / 2)
        order = np.argsort(-values[:k], kind="stable")
        left = float(values[k:].mean()) if k < len(values) else 0.0
        law, deviation = ("gaussian", scale) if isinstance(paid, GaussianCost) else ("laplace", math.sqrt(2) * scale)
        most = count * task.units_per_term
        drawn = DrawnDirections(noisy, deviation, law, directions, concentrations[: self.draws(task)], most)
        return fix_signs(directions[order]), values[:k][order], left, error, drawn

    def concentrations(self, noisy: Floats, scale: float, cost: Cost, task: Task) -> Floats:
        """The cᵢ of the draws, from private eigenvalues and public facts."""
        k, paid = task.wanted, self.draws(task)
        tau = scale * math.log(2 * task.n_features / self.beta)
        weights = np.maximum(noisy[:paid], 0.0) + tau if self.split == "adaptive" else np.ones(paid)
        if self.constants == "published" and self.split == "adaptive":  # the determined direction has a share too
            weights = np.maximum(noisy[:k], 0.0) + tau
        if isinstance(cost, ConcentratedCost):
            share = np.cbrt(weights)  # Σ λᵢ/εᵢ is least for a fixed Σ εᵢ² when εᵢ ∝ λᵢ^{1/3}
            epsilons = share * math.sqrt(8 * cost.rho / float(share @ share))
        else:
            share = np.sqrt(weights)  # … and for a fixed Σ εᵢ when εᵢ ∝ λᵢ^{1/2}
            epsilons = share * (pure_epsilon(cost) / share.sum())
        return np.append(epsilons[:paid] * self.concentration(task), np.zeros(k - paid))

    def _values(self, noisy: Floats, concentrations: Floats, most: float) -> Floats:
        """One value for each direction, also those left out, in squared radii."""
        if self.reconstruction == "printed":
            return np.clip(noisy, 0.0, most)
        decreasing = project_eigenvalues(isotonic_decreasing(noisy), trace=most)
        return decreasing if self.reconstruction == "projected" else expected_rayleigh(decreasing, concentrations)


def _tail(cost: Cost, scale: float, d: int, failure: float) -> float:
    """A bound on the noise of all d values that fails with this probability, plus a grid step."""
    tail = float(-ndtri(failure / (2 * d))) if isinstance(cost, GaussianCost) else math.log(d / failure)
    return scale * tail * (1 + 1e-6) + 1 / VALUE_GRID
