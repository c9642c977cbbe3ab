"""The stream of ``oja``; its guarantee and proof are in `one_pass.oja` and `questions.steps`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Task
from dpeigen.methods.framing import ask_frame, frame_rows
from dpeigen.methods.one_pass.oja import CLEAR, VARIANCE_SHARE, Oja
from dpeigen.methods.one_pass.schedule import gain
from dpeigen.methods.one_pass.streaming import Stream, components_of
from dpeigen.privacy import ApproximateCost, Cost, GaussianCost, allocate, gaussian_epsilon
from dpeigen.questions import GaussianLaw, Matrix, MeanSquares, Moment, OjaSteps
from dpeigen.stats import Lattice, ScoreFrame
from dpeigen.stats.spectrum import orthonormal, symmetric_eigh

__all__ = ["LARGEST_START", "OjaStream"]

LARGEST_START = 0.25  # squared error below which the effect of a random start is considered to have vanished


class OjaStream(Stream):
    """The stream of ``oja``."""

    saved = (
        "first",
        "block",
        "step",
        "tops",
        "gaps",
        "errors",
        "held",
        "noise",
        "steps",
        "radius",
        "calibration",
    )

    def __init__(self, method: Oja, task: Task, start: Floats) -> None:
        frame, radius = frame_rows(task, weighted=False)
        super().__init__(task, frame, radius, start)
        self.method = method
        self.first: list[Any] = [[role, rows] for role, rows in method.first_rows(task).items()]
        self.block = method.block_rows(task)
        self.step = method.step_rows(task, self.block)
        k = components_of(task)
        self.tops = [0.0] * k
        self.gaps = [method.gap or 0.0] * k
        self.errors = [LARGEST_START] * k
        self.held = [
            -1.0 if method.gap else 0.0
        ] * k  # steps until the effect of a random start has vanished; < 0 if not known yet
        self.noise = [0.0] * k  # variance of a step divided by the squared gap
        self.steps = [0] * k
        self.calibration: dict[str, Any] = {}

    def wanted(self) -> int:
        return int(self.first[0][1]) if self.first else self.block

    def use(self, batch: Curator) -> None:
        role = self.first[0][0] if self.first else "block"
        if role == "frame":
            costs = self.method.framing(self.task)
            task = replace(self.task, n_rows=self.wanted())
            self.frame, self.radius, _ = ask_frame(batch.part(costs), task, costs, weighted=False)
        elif role == "spectrum":
            self._ask_spectrum(batch)
        else:
            self._ask_block(batch, self.wanted() // self.frame.rows_per_term)
        if self.first:
            self.first.pop(0)

    def _reach(self) -> float:
        if self.radius is None:
            raise AssertionError("`check` has refused a task without a bound")
        return self.radius

    def _ask_spectrum(self, batch: Curator) -> None:
        """Eigenvalues and a start from a noisy second moment."""
        k, d = self.directions.shape
        lattice, purpose = Lattice(self.frame, self._reach()), Purpose.MOMENT
        costs: dict[Purpose, Cost] = allocate(self.task.budget, main={purpose: 1.0}, coordinates=d * (d + 1) // 2)
        found = batch.part(costs).measure(Moment(lattice, GaussianLaw()), purpose=purpose, cost=costs[purpose])
        terms = found.count or 1.0
        unit = lattice.step**2 / terms
        values, vectors = symmetric_eigh(found.total * unit)
        noise = found.deviation * unit
        self.directions = orthonormal(vectors[:k])
        padded = np.append(values, values[-1])
        for j in range(k):
            self.tops[j] = max(float(padded[j]), noise)
            self.gaps[j] = max(float(padded[j] - padded[j + 1]), noise)
            gap = self.gaps[j]
            sample = (self.tops[j] / gap) * (self._reach() ** 2 / gap) / terms  # ratios: squares may overflow
            self.errors[j] = min(LARGEST_START, d * (noise / gap) ** 2 + sample)

    def _ask_block(self, batch: Curator, terms: int) -> None:
        budget, per_term = self.method.price(self.task), self.frame.rows_per_term
        k, d = self.directions.shape
        apart = math.ceil(VARIANCE_SHARE * terms)
        mu, name = self.method.local(budget, terms - apart, self.step)
        if self.method.published:
            mu = 1 / self.method.alpha(self.task)
            name = "plain" if gaussian_epsilon(budget.delta, mu) <= budget.epsilon * (1 + 1e-9) else "shuffled"
        self.calibration = {"name": name, "mu": mu, "rows": terms - apart}
        cost = GaussianCost(mu) if name == "plain" else ApproximateCost(budget.epsilon, budget.delta)
        costs: dict[Purpose, Cost] = allocate(budget, main={Purpose.VARIANCES: 1.0}, coordinates=k + 1)
        others, rows = batch.apart(
            (per_term * apart, costs), (per_term * (terms - apart), {Purpose.STEPS: cost}), shuffled=True
        )
        weights = self._weights((terms - apart) // self.step, mu)
        steps = OjaSteps(
            self.frame, self._reach(), Matrix(self.directions), Matrix(weights), self.step, self._ball(), mu
        )
        self.directions = rows.measure(steps, purpose=Purpose.STEPS, cost=cost)
        squares = MeanSquares(Lattice(ScoreFrame(self.frame, self.directions, residual=k < d), self._reach()))
        found = others.measure(squares, purpose=Purpose.VARIANCES, cost=costs[Purpose.VARIANCES])
        self.variances = np.maximum(found.squares, 0.0)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _ball(self) -> tuple[float, float]:
        """(radius, offset): gradients are in the ball of this radius about offset·w."""
        half = math.inf if self.method.published else self._reach() ** 2 / 2
        clip = self.method.clip
        return (half, half) if clip is None or clip >= half else (clip, 0.0)

    def _prepare(self, mu: float, step: int) -> None:
        """Set the variance of a step (noise and sampling) in squared gaps, and the time that a random start takes."""
        d = self.task.n_features
        reach, _ = self._ball()
        for j, gap in enumerate(self.gaps):
            top = self.tops[j] or gap
            variance = d * (2 * reach / (mu * step)) ** 2 + top * self._reach() ** 2 / step
            self.noise[j] = variance / gap**2
            if self.held[j] < 0:
                self.held[j] = math.log(d) / 2 * (1 + self.noise[j] / LARGEST_START)

    def _weights(self, count: int, mu: float) -> Floats:
        """(a, b) of the next ``count`` steps a·w + b·gradient, with directions in turn: count × 2."""
        self._prepare(mu, self.step)
        if self.method.published:
            t = self.steps[0] + np.arange(1.0, count + 1)
            self.steps[0] += count
            return np.column_stack([np.ones(count), self.method.h / (self.gaps[0] * (self.method.xi + t))])
        k, weights = len(self.directions), np.empty((count, 2))
        for j in range(k):
            gap = self.gaps[j]
            top = max(self.tops[j], gap)
            sizes = np.minimum(self.method.h * self._course(j, len(weights[j::k]), gap / top) / gap, 1 / top)
            weights[j::k] = np.column_stack([1 - sizes * top, sizes])
        return weights

    def _course(self, j: int, count: int, most: float) -> Floats:
        """The fractions of the way to the gradient that the next steps of direction j go; updates its expected error.

        These are the fractions of `gain`. Its squared error P after t steps has 1/P = 1/P₀ + t/noise once the fraction
        is below its maximum.
        """
        noise, shares = self.noise[j], np.empty(count)
        at = min(count, math.ceil(self.held[j]))
        shares[:at] = gain(self.errors[j], noise, most)[0]
        self.held[j] -= at
        while at < count and self.errors[j] > most * (self.errors[j] + noise):
            shares[at], self.errors[j] = gain(self.errors[j], noise, most)
            at += 1
        expected = 1 / (1 / self.errors[j] + np.arange(count - at + 1) / noise)
        shares[at:] = expected[:-1] / (expected[:-1] + noise)
        self.errors[j] = float(expected[-1])
        self.steps[j] += count
        return shares

    # --- what comes out -----------------------------------------------------------------------------------------------

    @property
    def rows_to_release(self) -> int:
        return sum(self.method.first_rows(self.task).values()) + self.block

    @property
    def mechanism(self) -> str:
        return f"Gaussian steps, {self.calibration.get('name', 'none yet')}; discrete Gaussian"

    def estimate(self) -> Estimate:
        clear = all(steps > CLEAR * noise for steps, noise in zip(self.steps, self.noise, strict=True))
        notes = () if clear else ("The noise of all steps is about as large as the gaps: directions may mean little.",)
        return self._estimate("idealised" if self.step == 1 else "exact", notes, self._details())

    def _details(self) -> dict[str, Any]:
        return {
            "batch": self.step,
            "block": self.block,
            "calibration": dict(self.calibration),
            "steps": self.steps,
            "top_eigenvalues": self.tops,
            "gaps": self.gaps,
            "expected_errors": [math.sqrt(min(1.0, error)) for error in self.errors],
        }
