"""What a release of drawn directions keeps for intervals: noisy eigenvalues, directions and how they were drawn.

All of it is released or public. `stats.drawn` draws directions of the same law anew, from which intervals follow. To
distinguish components from noise, the moment is also kept as if it had been measured with Gaussian noise of the spread
that directions have near the mode of their law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.measured import Measured
from dpeigen.stats.spectrum import isotonic_decreasing, project_eigenvalues

__all__ = ["DrawnDirections"]

_INFLATED = 1.25  # factor on the spread of directions: their law is Gaussian only near its mode


@dataclass(frozen=True, eq=False)
class DrawnDirections:
    """Eigenvalues and directions of a second moment, in squared radii."""

    noisy: Floats  # all d eigenvalues, with noise
    deviation: float  # of that noise
    law: str  # of that noise: "gaussian" or "laplace"
    directions: Floats  # k × d, in the order in which they were drawn
    concentrations: Floats  # of those that were drawn: the last of all d is determined
    most: float  # a bound on the sum of the eigenvalues

    def measured(
        self, unit: float, count: float, radius: float, outside: tuple[float, float] | None = None
    ) -> Measured:
        """The moment in axes that start with the directions; ``unit``: of a squared radius, in the released units.

        Noise spreads eigenvalues further apart than they are: the effect of the assumed noise on them is added.
        """
        k, d = self.directions.shape
        axes = np.vstack([self.directions, np.linalg.svd(self.directions)[2][k:]])
        levels = project_eigenvalues(isotonic_decreasing(self.noisy), trace=self.most)
        levels[k:] = levels[k:].mean() if k < d else 0.0
        spread = _INFLATED * self._spread(levels)
        apart = np.array([_moved(levels[j] - np.delete(levels, j), np.delete(spread[j], j)) for j in range(k)])
        least = levels[k:] - apart.sum() / max(d - k, 1)  # the sum stays; it may be negative, as that of a noisy moment
        rows, scale = (None, 0.0) if outside is None else outside
        return Measured(
            np.diag(np.append(levels[:k] + apart, least)) * unit, axes.T, self.law, 0.0, count, radius, outside=rows,
            outside_scale=scale, deviations=spread * unit, drawn_values=self.noisy * unit,
            drawn_deviation=self.deviation * unit, concentrations=self.concentrations / unit,
        )  # fmt: skip

    def _spread(self, levels: Floats) -> Floats:
        """The angle of a draw from exp(c·uᵀMu) has variance 1/2c(λᵢ − λⱼ), which is (λᵢ − λⱼ)/2c on an entry."""
        d, drawn = len(levels), self.concentrations
        sharpness = np.append(drawn, np.full(d - len(drawn), math.inf))
        sharper = np.minimum(sharpness[:, None], sharpness)  # that of the direction that was drawn first
        sharper = np.where(np.isinf(sharper), float(drawn.min()), sharper)
        found = np.sqrt(np.maximum(np.abs(levels[:, None] - levels), self.deviation) / (2 * sharper))
        np.fill_diagonal(found, self.deviation / math.sqrt(2))
        return np.asarray(found)


def _moved(gaps: Floats, spread: Floats) -> float:
    """By how much noise with these deviations moves an eigenvalue, up by smaller ones and down by larger ones."""
    lower, higher = gaps >= 0, gaps < 0
    gap = float(gaps[lower].mean()) if lower.any() else 0.0
    up = math.sqrt(gap**2 + 4 * float((spread[lower] ** 2).sum())) - gap
    return (up - float((np.sqrt(gaps[higher] ** 2 + 4 * spread[higher] ** 2) + gaps[higher]).sum())) / 2
