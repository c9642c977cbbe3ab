"""Directions by noisy steps of Oja's algorithm. Rows are in random order, and each row is in one step.

Guarantee, for every data set under replacement. Step t releases y_t = Σ c(x; w) + noise over the rows x of that step.
Here w depends on y_1..y_{t−1} only, and c is an integer vector in a ball of radius L about 0. So the ℓ2 sensitivity is
2L, and each step is μ-Gaussian DP, whatever came before. The cost of all steps is checked before they are made:

- μ, for any number of rows in a step: a row is in one step only (parallel composition; the order does not matter);
- (ε, δ), for steps of one row: n Gaussian local randomisers in a secret random order (Feldman, McMillan, Talwar 2021,
  which allows each randomiser to depend on what was released before; `privacy.shuffling`).

The gradient x(xᵀw) of a row with |x| ≤ R lies in the ball of radius R²/2 about (R²/2)w: for unit x it is the projection
of w on a line, which is on the sphere with diameter w. So noise for a diameter of R² is enough. Steps of one row add
continuous noise ("idealised") to integers and round to a grid; steps of several rows have exact discrete noise.

In simulations, steps that together move a direction only a little are merged into one, with the mean of the moment and
with noise of their joint variance.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import ApproximateCost, Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.noise import continuous_grid, perturb
from dpeigen.privacy.randomness import Generator
from dpeigen.privacy.shuffling import shuffled_delta
from dpeigen.questions.base import People
from dpeigen.questions.gathered import OfAllRows
from dpeigen.questions.values import Matrix
from dpeigen.stats.frame import RowView
from dpeigen.stats.gradients import Clipped, deflated
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.score_frame import exact_scores
from dpeigen.stats.spectrum import orthonormal

__all__ = ["ROW_UNIT", "OjaSteps", "inside", "with_noise"]

ROW_UNIT = int(LEAST_SENSITIVITY) // LEVELS
_AT_A_TIME = 2**17  # noise variables drawn at once
_TOGETHER, _GROUPS = 0.15, 300  # distance covered by a group of simulated steps; most groups
_SAMPLE = 400  # rows from which simulated sampling errors of gradients are drawn


@dataclass(frozen=True)
class OjaSteps(OfAllRows[Floats]):
    """Unit directions (k × d) after steps a·w + b·(mean gradient), for one direction after the other in turn.

    ``weights``: steps × 2, a and b of each step. ``size``: rows per step. ``ball``: (r, s); gradients are clipped to
    the ball of radius r about s·w. ``mu``: the μ of each step for a row.
    """

    rows: RowView
    radius: float  # to which rows are clipped
    start: Matrix
    weights: Matrix
    size: int
    ball: tuple[float, float]
    mu: float

    shuffled: ClassVar[bool] = True

    @property
    def numerics(self) -> Numerics:  # type: ignore[override]
        return "idealised" if self.size == 1 else "exact"

    @property
    def view(self) -> RowView:
        return Clipped(self.rows, self.radius)

    def mechanism(self, cost: Cost) -> str:
        return f"Gaussian steps, {'plain' if isinstance(cost, GaussianCost) else 'shuffled'}"

    def _answered(self, rows: Floats, cost: Cost, relation: Relation, rng: Randomness) -> Floats:
        if relation is not Relation.REPLACE or len(rows) < self.size * len(self.weights.array):
            raise AssertionError("the proof is for a replaced row that is in one step")
        if not _within(self.mu, self.size, len(rows), cost):
            raise AssertionError("these steps are worth more than what pays for them")
        return self._single_steps(rows, rng) if self.size == 1 else self._summed_steps(rows, rng)

    @property
    def _unit(self) -> float:
        """The grid step of gradients, such that rounding them to integers does not leave the ball."""
        return self.ball[0] / (LEVELS - math.sqrt(self.start.array.shape[1]) / 2 - 1)

    def _single_steps(self, rows: Floats, rng: Randomness) -> Floats:
        k, d = self.start.array.shape
        offset, unit, sigma = self.ball[1], self._unit, 2 * LEVELS / self.mu
        grid = float(continuous_grid(sigma))
        w, middle, back = list(self.start.array), offset / unit, 1 / grid
        at_once, weights = max(1, _AT_A_TIME // d), self.weights.array.tolist()
        for start in range(0, len(weights), at_once):
            part = rows[start : start + at_once] * (1 / math.sqrt(unit))  # so that products are in grid steps
            noise = rng.normal(part.shape)
            noise *= sigma
            for i, (kept, taken) in enumerate(weights[start : start + at_once]):
                j, row = (start + i) % k, part[i]
                for other in w[:j]:
                    row = row - (row @ other) * other
                own = w[j]
                steps = (row @ own) * row
                steps -= middle * own
                np.rint(steps, out=steps)
                if not steps @ steps <= LEVELS**2:
                    steps = inside(steps)
                noisy = with_noise(steps, noise[i], back)
                noisy *= taken * grid * unit
                noisy += (kept + taken * offset) * own
                for other in w[:j]:
                    noisy -= (noisy @ other) * other
                noisy *= 1 / math.sqrt(noisy @ noisy)
                w[j] = noisy
        return orthonormal(np.array(w))

    def _summed_steps(self, rows: Floats, rng: Randomness) -> Floats:
        offset, unit, cost = self.ball[1], self._unit, GaussianCost(self.mu)
        directions = self.start.array.copy()
        for turn, (kept, taken) in enumerate(self.weights.array.tolist()):
            part, j = rows[turn * self.size : (turn + 1) * self.size], turn % len(directions)
            w = directions[j]
            scores = exact_scores(part, directions[: j + 1], residual=False)
            gradients = deflated(part, scores, directions[:j]) * scores[:, j, None]
            steps = np.rint((gradients - offset * w) / unit)
            for outside in np.flatnonzero(~(np.einsum("ij,ij->i", steps, steps) <= LEVELS**2)):
                steps[outside] = inside(steps[outside])
            total = steps.sum(axis=0).astype(np.int64).astype(object)  # integers below 2^53: exact in any order
            noisy = perturb(total * ROW_UNIT, cost, l2=2.0 * LEVELS * ROW_UNIT, l1=math.inf, rng=rng)
            mean = noisy.astype(np.float64) * (unit / ROW_UNIT / self.size)
            directions[j] = (kept + taken * offset) * w + taken * mean
            directions = orthonormal(directions)
        return directions

    # --- for assumed rows --------------------------------------------------------------------------------------------

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Floats:  # noqa: ARG002
        directions, moment = self.start.array.copy(), people.expected(self.rows, self.radius)
        rows = people.sample(self.rows, _SAMPLE)
        lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
        rows = rows * np.minimum(1.0, self.radius / lengths)[:, None]
        noise, k = 2 * self.ball[0] / (self.mu * self.size), len(directions)
        turns = len(self.weights.array) // k
        kept, taken = self.weights.array[: turns * k].reshape(turns, k, 2).transpose(2, 1, 0)
        for first, last in _groups(1 - kept):
            for j, w in enumerate(directions):
                own = taken[j, first:last]
                scores = rows @ w
                sampled = (rng.normal(size=len(rows)) * scores / math.sqrt(len(rows) * self.size)) @ rows
                moved = max(1 - float((1 - kept[j, first:last]).sum()), 0.0) * w + own.sum() * (moment @ w)
                moved += math.sqrt(own @ own) * (sampled + noise * rng.normal(size=len(w)))
                moved -= directions[:j].T @ (directions[:j] @ moved)
                directions[j] = moved / np.linalg.norm(moved)
        return orthonormal(directions)


@lru_cache(maxsize=256)
def _within(mu: float, size: int, rows: int, cost: Cost) -> bool:
    """Whether steps of ``size`` rows with this μ each cost no more than ``cost`` together."""
    if isinstance(cost, GaussianCost):
        return mu <= cost.mu
    if not isinstance(cost, ApproximateCost) or size > 1:
        return False
    return shuffled_delta(GaussianCost(mu), rows, cost.epsilon, hint=cost.delta) <= cost.delta


def with_noise(steps: Floats, noise: Floats, back: float) -> Floats:
    """The release: an integer vector in the ball plus noise, rounded (in place) to a grid that hides its last bits."""
    noise += steps
    noise *= back
    return np.rint(noise, out=noise)


def inside(steps: Floats) -> Floats:
    """An integer vector shortened until it is in the ball, which is checked on the integers themselves."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.abs(steps).max())
        shorter = np.nan_to_num(steps / largest, nan=0.0, posinf=0.0, neginf=0.0)
        shorter = np.trunc(shorter * ((LEVELS - 1) / max(float(np.linalg.norm(shorter)), 1.0)))
    while not shorter @ shorter <= LEVELS**2:
        shorter = np.trunc(shorter * (1 - 2.0**-12))
    return shorter


def _groups(gone: Floats) -> list[tuple[int, int]]:
    """Groups of steps to be merged, by the distance that each covers (directions × steps)."""
    if not gone.size:
        return []
    way = np.cumsum(gone.max(axis=0))
    together = max(_TOGETHER, float(way[-1]) / _GROUPS)
    ends = np.flatnonzero(np.diff(np.floor(way / together))) + 1
    return list(itertools.pairwise([0, *ends.tolist(), len(way)]))
