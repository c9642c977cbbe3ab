"""The stream of ``oja``; what it guarantees, and why, is in `methods.oja`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.curator import DataCurator
from dpeigen.methods.base import Estimate, Task
from dpeigen.methods.framing import ask_frame, frame_rows
from dpeigen.methods.one_pass.dp_pca import gain
from dpeigen.methods.one_pass.oja import CLEAR, ROW_UNIT, VARIANCE_SHARE, Oja
from dpeigen.methods.one_pass.streaming import Stream, components_of, deflated, exact_scores, orthonormal
from dpeigen.privacy import GaussianCost, Randomness, Relation, allocate
from dpeigen.privacy.noise import continuous_grid, perturb
from dpeigen.questions import GaussianLaw
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame, Lattice, ScoreFrame, SecondMoment, SquareSums
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.spectrum import symmetric_eigh

LARGEST_START = 0.25  # squared error from which on a random start is counted as forgotten
_AT_A_TIME = 2**17  # numbers of noise drawn at once


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
        "blocks",
        "radius",
        "calibration",
    )

    def __init__(self, method: Oja, task: Task, rng: Randomness) -> None:
        frame, radius = frame_rows(task, weighted=False)
        super().__init__(task, rng, frame, radius)
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
        ] * k  # steps until a random start counts as forgotten; < 0: not known yet
        self.noise = [0.0] * k  # variance of a step over the squared gap
        self.steps = [0] * k
        self.blocks = 0
        self.calibration: dict[str, Any] = {}

    def wanted(self) -> int:
        return int(self.first[0][1]) if self.first else self.block

    def use(self, rows: Floats) -> None:
        role = self.first[0][0] if self.first else "block"
        if role == "frame":
            self._use_for_frame(rows)
        elif role == "spectrum":
            self._use_for_spectrum(self.framed(rows))
        else:
            self._use_block(rows)
        if self.first:
            self.first.pop(0)

    def _use_for_frame(self, rows: Floats) -> None:
        costs = self.method.framing(self.task)
        batch = DataCurator(ArraySource(rows), self.task.relation, costs, self.task.budget, self.rng)
        self.frame, self.radius, _ = ask_frame(batch, self.task, costs, weighted=False)

    def _reach(self) -> float:
        if self.radius is None:
            raise AssertionError("`check` has refused a task without a bound")
        return self.radius

    def _use_for_spectrum(self, terms: Floats) -> None:
        """Eigenvalues and a start from a noisy second moment."""
        k, d = self.directions.shape
        (cost,) = allocate(self.task.budget, main={"moment": 1.0}, coordinates=d * (d + 1) // 2).values()
        moment = SecondMoment(Lattice(Frame(d), self._reach())).update(terms)
        drawn = GaussianLaw().draw(moment, cost, Relation.REPLACE, self.rng)
        noisy = drawn.added_to(moment.gram)
        unit = moment.lattice.step**2 / len(terms)
        values, vectors = symmetric_eigh(noisy * unit)
        noise = drawn.deviation * unit
        self.directions = orthonormal(vectors[:k])
        padded = np.append(values, values[-1])
        for j in range(k):
            self.tops[j] = max(float(padded[j]), noise)
            self.gaps[j] = max(float(padded[j] - padded[j + 1]), noise)
            gap = self.gaps[j]
            sample = (self.tops[j] / gap) * (self._reach() ** 2 / gap) / len(terms)  # ratios: squares may overflow
            self.errors[j] = min(LARGEST_START, d * (noise / gap) ** 2 + sample)

    def _use_block(self, rows: Floats) -> None:
        terms = self.framed(rows)
        order = self.rng.permutation(len(terms))
        apart = math.ceil(VARIANCE_SHARE * len(terms))
        mu, name = self.method.local(self.task.budget, len(terms) - apart, self.step)
        self.calibration = {"name": name, "mu": mu, "rows": len(terms) - apart}
        if self.step == 1:
            self._single_steps(terms, order[apart:], mu)
        else:
            self._summed_steps(terms, order[apart:], mu)
        self._use_for_variances(terms[order[:apart]])
        self.blocks += 1

    # --- steps --------------------------------------------------------------------------------------------------------

    def _ball(self) -> tuple[float, float]:
        """Gradients lie in the ball of this radius about offset·w."""
        half = self._reach() ** 2 / 2
        clip = self.method.clip
        return (half, half) if clip is None or clip >= half else (clip, 0.0)

    def _prepare(self, mu: float, step: int) -> None:
        """The variance of a step, noise and sample, in squared units of the gap; and the time of a random start."""
        d = self.task.n_features
        reach, _ = self._ball()
        for j, gap in enumerate(self.gaps):
            top = self.tops[j] or gap
            variance = d * (2 * reach / (mu * step)) ** 2 + top * self._reach() ** 2 / step
            self.noise[j] = variance / gap**2
            if self.held[j] < 0:
                self.held[j] = math.log(d) / 2 * (1 + self.noise[j] / LARGEST_START)

    def _weights(self, j: int) -> tuple[float, float]:
        """(a, b) of the next step a·w + b·gradient of direction j, and on to the one after."""
        gap = self.gaps[j]
        top = max(self.tops[j], gap)
        share, left = gain(self.errors[j], self.noise[j], gap / top)
        if self.held[j] > 0:
            self.held[j] -= 1
        else:
            self.errors[j] = left
        self.steps[j] += 1
        size = min(self.method.h * share / gap, 1 / top)
        return 1 - size * top, size

    def _single_steps(self, terms: Floats, order: NDArray[np.intp], mu: float) -> None:
        k, d = self.directions.shape
        reach, offset = self._ball()
        unit = reach / (LEVELS - math.sqrt(d) / 2 - 1)
        sigma = 2 * LEVELS / mu
        grid = float(continuous_grid(sigma))
        self._prepare(mu, 1)
        w, middle, back = list(self.directions), offset / unit, 1 / grid
        at_once = max(1, _AT_A_TIME // d)
        for start in range(0, len(order), at_once):
            part = terms[order[start : start + at_once]] * (1 / math.sqrt(unit))  # so that products are in grid steps
            noise = self.rng.normal(part.shape)
            noise *= sigma
            for i in range(len(part)):
                j, row, noisy = (start + i) % k, part[i], noise[i]
                for other in w[:j]:
                    row = row - (row @ other) * other
                own = w[j]
                steps = (row @ own) * row
                steps -= middle * own
                np.rint(steps, out=steps)
                if not steps @ steps <= LEVELS**2:
                    steps = _inside(steps)
                noisy = _with_noise(steps, noisy, back)
                kept, taken = self._weights(j)
                noisy *= taken * grid * unit
                noisy += (kept + taken * offset) * own
                for other in w[:j]:
                    noisy -= (noisy @ other) * other
                noisy *= 1 / math.sqrt(noisy @ noisy)
                w[j] = noisy
        self.directions = orthonormal(np.array(w))

    def _summed_steps(self, terms: Floats, order: NDArray[np.intp], mu: float) -> None:
        k, d = self.directions.shape
        reach, offset = self._ball()
        unit = reach / (LEVELS - math.sqrt(d) / 2 - 1)
        cost = GaussianCost(mu)
        self._prepare(mu, self.step)
        for turn, start in enumerate(range(0, len(order) - self.step + 1, self.step)):
            part, j = terms[order[start : start + self.step]], turn % k
            w = self.directions[j]
            scores = exact_scores(part, self.directions[: j + 1])
            gradients = deflated(part, scores, self.directions[:j]) * scores[:, j, None]
            steps = np.rint((gradients - offset * w) / unit)
            for outside in np.flatnonzero(~(np.einsum("ij,ij->i", steps, steps) <= LEVELS**2)):
                steps[outside] = _inside(steps[outside])
            total = steps.sum(axis=0).astype(np.int64).astype(object)  # integers below 2^53: exact in any order
            noisy = perturb(total * ROW_UNIT, cost, l2=2.0 * LEVELS * ROW_UNIT, l1=math.inf, rng=self.rng)
            mean = noisy.astype(np.float64) * (unit / ROW_UNIT / self.step)
            kept, taken = self._weights(j)
            self.directions[j] = (kept + taken * offset) * w + taken * mean
            self.directions = orthonormal(self.directions)

    def _use_for_variances(self, terms: Floats) -> None:
        k, d = self.directions.shape
        view = ScoreFrame(Frame(d), self.directions, residual=k < d)
        sums = SquareSums(Lattice(view, self._reach())).update(terms)
        (cost,) = allocate(self.task.budget, main={"variances": 1.0}, coordinates=k + 1).values()
        reach = math.sqrt(2) * LEVELS**2
        noisy = perturb(sums.squares, cost, l2=reach, l1=math.inf, rng=self.rng)
        self.variances = np.maximum(noisy.astype(np.float64), 0.0) * (sums.lattice.step**2 / len(terms))

    # --- what comes out -----------------------------------------------------------------------------------------------

    @property
    def rows_to_release(self) -> int:
        return sum(self.method.first_rows(self.task).values()) + self.block

    def estimate(self) -> Estimate:
        clear = all(steps > CLEAR * noise for steps, noise in zip(self.steps, self.noise, strict=True))
        notes = () if clear else ("The noise of all steps is about as large as the gaps: directions may mean little.",)
        mechanisms = f"Gaussian steps, {self.calibration.get('name', 'none yet')}; discrete Gaussian"
        return self._estimate(mechanisms, "idealised" if self.step == 1 else "exact", notes, self._details())

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


def _with_noise(steps: Floats, noise: Floats, back: float) -> Floats:
    """Released: an integer vector in the ball plus noise, on a grid far above the noise's last bits (in place)."""
    noise += steps
    noise *= back
    return np.rint(noise, out=noise)


def _inside(steps: Floats) -> Floats:
    """An integer vector shortened until it is in the ball, checked on the integers themselves."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.abs(steps).max())
        shorter = np.nan_to_num(steps / largest, nan=0.0, posinf=0.0, neginf=0.0)
        shorter = np.trunc(shorter * ((LEVELS - 1) / max(float(np.linalg.norm(shorter)), 1.0)))
    while not shorter @ shorter <= LEVELS**2:
        shorter = np.trunc(shorter * (1 - 2.0**-12))
    return shorter
