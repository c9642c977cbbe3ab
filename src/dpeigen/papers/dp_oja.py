"""``oja-printed``: Private Oja (Liu et al. 2022, Algorithm 2) as Cai, Xia and Zha 2024 run it: one pass, one direction.

Guarantee: (ε′, δ)-DP for every data set, δ > 0, one row replaced; ε′ is the ε of the noise, not the requested one.
The rows are shuffled. Step t is w ← w + η(clip_β(x(xᵀw)) + 2βα·z), z standard Gaussian, then divided by its length. A
row is in one step, whose sensitivity is 2β and whose noise is 2βα: it is 1/α-Gaussian DP by itself, and better in a
random order (`questions.steps` has the proof). The paper's constants are not given, so all of them are parameters:

    α = C′·ln(n/δ)/(ε√n),   β = C·λ₁·√d·(Kγ·lnᵃ(nd/ζ) + 1),   η = step/n.

With C = 0.2 and a step of 0.5/n this is the DP-Oja of Cai, Xia and Zha; they say that C = 2 would be a fair choice. The
proof of α is for ε of the order √(ln(n/δ)/n) and below; at ε = 1 the noise is too small, and the guarantee says so. It
is a baseline: λ and σ² must be given, and it releases only one direction. `Oja` is the method to use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpeigen._validate import check_positive, complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import frame_rows
from dpeigen.privacy import ApproximateCost, Budget, Cost, GaussianCost
from dpeigen.privacy.shuffling import shuffled_epsilon
from dpeigen.questions import Matrix, OjaSteps
from dpeigen.stats.spectrum import fix_signs, orthonormal

__all__ = ["OjaPrinted"]

_UP = 1 + 1e-6


@dataclass(frozen=True)
class OjaPrinted(Method):
    """DP-Oja with every constant a parameter.

    Parameters
    ----------
    signal, noise_variance : λ and σ²; λ₁ = λ + σ². Public.
    factor : C of the clipping threshold.
    step : the learning rate times the number of rows.
    noise_factor : C′ of the noise.
    tail, power, failure : Kγ, a and ζ of the clipping threshold.
    """

    signal: float
    noise_variance: float = 1.0
    factor: float = 0.2
    step: float = 0.5
    noise_factor: float = 1.0
    tail: float = 1.0
    power: float = 1.0
    failure: float = 0.01

    constants = "published"
    name = "oja-printed"
    reference = "Liu, Kong, Jain and Oh 2022, Algorithm 2, as run by Cai, Xia and Zha 2024, section 6.1"
    needs_bound = False
    needs_delta = True
    needs_replace = "Use relation='replace', or method='gaussian'."
    continuous_noise = True
    planned = None
    page = "mechanisms/one-pass"

    def alpha(self, task: Task) -> float:
        """α: the noise of a step over twice the threshold."""
        n, budget = _rows(task), task.budget
        return self.noise_factor * math.log(n / budget.delta) / (budget.epsilon * math.sqrt(n))

    def threshold(self, task: Task) -> float:
        """β: gradients are clipped to this length."""
        d, top = task.n_features, self.signal + self.noise_variance
        spread = self.tail * math.log(_rows(task) * d / self.failure) ** self.power + 1
        return self.factor * top * math.sqrt(d) * spread

    def check(self, task: Task) -> None:
        super().check(task)
        owner = type(self).__name__
        for name in ("signal", "noise_variance", "factor", "step", "noise_factor", "power", "failure"):
            check_positive(name, getattr(self, name), owner)
        if not self.tail >= 0:
            raise ValueError(complain("tail", owner, "≥ 0", self.tail))
        if task.n_components != 1:
            remedy = "The algorithm has one direction. Use method='oja' for more."
            raise ValueError(complain("n_components", task.owner, f"1 for {owner}", task.n_components, remedy))
        if task.bound is not None:
            remedy = "It clips gradients, not rows: leave the bound out."
            raise ValueError(complain("bound", task.owner, f"None for {owner}", "a bound", remedy))
        if task.private_center or task.pairs:
            remedy = "Give a public centre, or None."
            raise ValueError(complain("center", task.owner, f"public for {owner}", task.center, remedy))

    def price(self, task: Task) -> Budget:
        """The smaller of the cost of a step without a random order and with one."""
        delta = task.budget.delta
        return Budget(shuffled_epsilon(GaussianCost(1 / self.alpha(task)), _rows(task), delta) * _UP, delta)

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        price = self.price(task)
        return {Purpose.STEPS: ApproximateCost(price.epsilon, price.delta)}

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        frame, _ = frame_rows(task, weighted=False)
        n, d, cost = _rows(task), task.n_features, self.shares(task)[Purpose.STEPS]
        start = curator.random_start((1, d))
        weights = np.tile([1.0, self.step / n], (n, 1))
        ball = (self.threshold(task) / float(frame.unit[0]) ** 2, 0.0)
        steps = OjaSteps(frame, math.inf, Matrix(orthonormal(start)), Matrix(weights), 1, ball, 1 / self.alpha(task))
        component = fix_signs(curator.measure(steps, purpose=Purpose.STEPS, cost=cost))
        covariance = self.signal * np.outer(component[0], component[0]) + self.noise_variance * np.eye(d)
        return Estimate(
            components=component,
            eigenvalues=np.array([self.signal + self.noise_variance]),
            noise_variance=self.noise_variance,
            covariance=covariance,
            mean=frame.center,
            n_rows=float(n),
            radius=None,
            numerics="idealised",
            radius_released=False,
            notes=("Eigenvalues are the public λ and σ²; only the direction was released.",),
            details={"alpha": self.alpha(task), "threshold": self.threshold(task)},
        )


def _rows(task: Task) -> int:
    if task.n_rows is None:
        raise AssertionError("`check` has refused a task without a public number of rows")
    return task.n_rows
