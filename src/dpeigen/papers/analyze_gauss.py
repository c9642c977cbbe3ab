"""Analyze Gauss as printed in Kim and Jung 2025 (Algorithm 1): a baseline for that paper, and NOT private.

Guarantee: none. The rows are centred by their own mean and divided by the length R of the longest, and the noise is
calibrated as if R were the same for both neighbours. It is not: replacing the longest row changes R, and with it every
term. (Take many rows of length 1 and one of length 10⁶: without it the noisy matrix is of order 1, with it of order
10⁻¹².) So this method is not in the list of names; it is used as an instance, warns, and its guarantee says why.
`Gaussian` is the private method of that name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task, unprotected
from dpeigen.methods.framing import frame_rows
from dpeigen.privacy import Cost
from dpeigen.privacy.noise import symmetric_gaussian
from dpeigen.privacy.randomness import check_scale
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = ["AnalyzeGaussPrinted"]

_GRID = 2.0**40


@dataclass(frozen=True)
class AnalyzeGaussPrinted(Method):
    """Noise of √(2·ln(1.25/δ))·6/(nε) on the covariance of rows divided by the longest of them."""

    name = "analyze-gauss-printed"
    reference = "Kim and Jung 2025, Algorithm 1"
    needs_bound = False
    needs_delta = True
    basis = "none"
    holds_rows = True

    def assumptions(self, task: Task) -> tuple[str, ...]:  # noqa: ARG002
        return (
            "the rows are scaled by the longest of them, which the noise does not cover: one row can change the whole "
            "release",
        )

    def check(self, task: Task) -> None:
        super().check(task)
        check_scale(_factor(task) / (task.n_rows or 2) * _GRID)

    def shares(self, task: Task) -> dict[Purpose, Cost]:  # noqa: ARG002
        return {}

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        source, rng = unprotected(curator)
        frame, _ = frame_rows(task, weighted=False)
        rows = np.concatenate([np.asarray(frame.image(block)) for block in source.blocks()])
        source.finished()
        mean = rows.mean(axis=0)
        rows = rows - mean
        longest = max(float(np.linalg.norm(rows, axis=1).max()), np.finfo(float).tiny)
        rows = rows / longest
        n, d = rows.shape
        covariance = rows.T @ rows / (n - 1)
        noise = symmetric_gaussian(d, _factor(task) / n * _GRID, rng) / _GRID
        values, vectors = symmetric_eigh(covariance + noise)
        k = d if task.n_components is None else task.n_components
        values = np.maximum(values, 0.0) * longest**2
        return Estimate(
            components=vectors[:k],
            eigenvalues=values[:k],
            noise_variance=float(values[k:].mean()) if k < d else 0.0,
            covariance=(vectors.T * values) @ vectors,
            mean=mean if frame.center is None else mean + frame.center,
            n_rows=float(n),
            radius=longest,
            radius_released=True,  # read from the rows
            numerics="exact",
        )


def _factor(task: Task) -> float:
    """The noise on the covariance, times n."""
    return 6 * math.sqrt(2 * math.log(1.25 / task.budget.delta)) / task.budget.epsilon
