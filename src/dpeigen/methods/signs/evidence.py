"""What moments of signs say about the covariance before it is made simple: the ground of intervals for sign methods.

Post-processing of releases. The model of `stats.refinement` (a few directions that stand out, a flat rest) is an
estimate; one step from it, without the model's restrictions, gives every entry of the covariance in the model's axes,
up to a factor, with a noise whose deviation is known. Variances that were paid for replace those along the directions
and set the factor. For elliptical rows this is the covariance; sampling error is about that of Tyler's estimator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy.randomness import made_up_generator
from dpeigen.questions import NoisyMoment
from dpeigen.stats.clipping import clipping
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.measured import Measured
from dpeigen.stats.refinement import SignModel, SignRelease, fit_model, unrestricted
from dpeigen.stats.stretch import Stretched

__all__ = ["HELD", "Paid", "center_deviation", "measured_signs", "sign_release"]

_DRAWS = 100
_DOUBT = 1.0  # of what is added for clipping, which rests on a model of the tails
_ANYHOW = 0.08  # of a variance of clipped scores: so much is in doubt whatever the model says
_ALONE = 2.6  # noise of variances that are read from signs alone, relative to its first-order deviation
_UNSURE = 0.3  # of the share of rows that are longer than a radius for variances
HELD = 0.05  # of the rows are longer than a radius that was paid for
_LEAST_WEIGHT = 0.1  # of a row, on average: half of the rows count whole


@dataclass(frozen=True)
class Paid:
    """Mean squares of clipped scores along directions, one more for what these leave over unless they are all."""

    directions: Floats
    squares: Floats  # of framed rows
    noise: Floats  # its deviation
    radius: float  # of framed rows
    share: float  # of the rows that are longer
    units: Floats | float  # squares in the data's own units, relative to these

    @property
    def plain(self) -> Floats:
        """The squares in the data's own units."""
        return self.squares * self.units

    def whole(self) -> tuple[Floats, Floats]:
        """The same as if nothing had been clipped, and the deviation of their noise."""
        k, d = self.directions.shape
        spread = np.append(self.squares[:k], np.full(d - k, self.squares[-1] / max(d - k, 1)))
        cut = clipping(
            np.maximum(spread, 1e-300), self.radius, (self.share, _UNSURE * self.share), _DRAWS, made_up_generator(d)
        )
        gains = cut.gains[: len(self.squares)]
        doubt = (_DOUBT * (gains - 1) + _ANYHOW) * self.plain
        return self.plain * gains, np.hypot(self.noise * self.units * gains, doubt)


def measured_signs(
    looks: Sequence[SignRelease],
    terms: float,
    *,
    model: SignModel | None = None,
    paid: Paid | None = None,
    center_deviation: float | None = None,
) -> Measured:
    """From looks at signs, and variances that were paid for. Without these the covariance has a trace of 1."""
    d = len(looks[0].matrix)
    model = fit_model(looks, None, max(1, d - 1)) if model is None else model
    matrix, axes, deviations = unrestricted(looks, model)
    if paid is None:
        unit = 1 / float(np.trace(matrix))
        matrix, deviations = matrix * unit, deviations * (unit * _ALONE)
    else:
        axes, matrix, deviations = _with_variances(matrix, axes, deviations, paid, terms)
    return Measured(
        matrix, axes.T, "gaussian", 0.0, terms, 1.0, kind="signs", deviations=deviations,
        center_deviation=center_deviation,
    )  # fmt: skip


def _with_variances(
    matrix: Floats, axes: Floats, deviations: Floats, paid: Paid, terms: float
) -> tuple[Floats, Floats, Floats]:
    """The same in axes that start with the directions, in the units of the variances along them."""
    k, d = paid.directions.shape
    turned = np.vstack([paid.directions, np.linalg.svd(paid.directions)[2][k:]])
    between = turned @ axes.T
    matrix = between @ matrix @ between.T
    deviations = np.sqrt(between**2 @ deviations**2 @ (between**2).T)
    squares, noise = paid.whole()
    left = np.arange(k, d) if k < d else np.arange(d)  # where the factor between both is measured
    total = float(squares[-1]) if k < d else float(squares.sum())
    unit = max(total, 1e-9 * float(np.abs(squares).max())) / max(float(np.diag(matrix)[left].sum()), 1e-3 * len(left))
    matrix, deviations = matrix * unit, deviations * unit
    for j in range(k):
        others = np.arange(d) != j
        reach = math.sqrt(
            float((deviations[j, others] ** 2).sum() + np.abs(matrix[j, j]) * others.sum() * unit / terms)
        )
        usual = float(np.diag(matrix)[others].mean()) if others.any() else 0.0
        gap = max(float(squares[j]) - usual, 0.0)
        # A direction that is off holds less variance than the true one. Noise on a moment would make it look like more:
        # errors are computed as if it had, so both are added.
        matrix[j, j] = squares[j] + math.sqrt(gap**2 + 4 * reach**2) - gap
        deviations[j, j] = noise[j] / math.sqrt(2)  # entries on the diagonal vary √2 times as much
    return turned, matrix, deviations


def sign_release(found: NoisyMoment, view: Stretched | None = None, *, weighted: bool = False) -> SignRelease:
    """A noisy mean of the signs of rows, stretched or as they are.

    ``weighted``: rows may add less than 1 to the trace (redescending signs); the mean is one by weight then.
    """
    noisy, deviation = found.total / LEVELS**2, found.deviation / LEVELS**2
    count = found.count
    if weighted:
        spread = math.sqrt(2 * len(noisy)) * deviation  # of the noise on the trace
        count = max(float(np.trace(noisy)), 3 * spread, 1.0 if count is None else _LEAST_WEIGHT * count)
    elif count is None:
        count = max(1.0, float(np.trace(noisy)))  # every row but a zero row adds 1 to the trace
    none = np.zeros((0, len(noisy))), np.zeros(0)
    basis, factors = none if view is None else (view.directions, view.factors)
    return SignRelease(noisy / count, deviation / count, basis, factors)


def center_deviation(error: float | None, d: int, unit: float) -> float | None:
    """Of an entry of a centre whose noise has this length in framed units."""
    return None if error is None else error / math.sqrt(d) * unit
