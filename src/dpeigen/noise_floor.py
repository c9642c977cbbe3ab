"""The noise floor of a release: the largest variance that privacy noise alone would show.

Post-processing: a function of the release, so it costs nothing. Where the release holds what was measured, noise of
the same law is drawn anew and brought to the units of the components; the floor is what the largest eigenvalue of such
noise stays below in 95% of the draws. Else it is what the method states about its noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpeigen._types import Floats
from dpeigen.errors import generator_of
from dpeigen.questions.laws import law_named

if TYPE_CHECKING:
    from dpeigen.release import Release
    from dpeigen.stats.measured import Measured

__all__ = ["NoiseFloor", "noise_floor"]

_DRAWS = 60
_LEVEL = 0.95


@dataclass(frozen=True)
class NoiseFloor:
    """A variance, and what exactly is said about it."""

    value: float
    words: str


def noise_floor(release: Release) -> NoiseFloor | None:
    """The floor, in the units of the release's eigenvalues; None where nothing is known of the noise.

    A symmetric d × d matrix of independent noise of deviation τ has its largest eigenvalue at about 2τ√d (Wigner).
    """
    drawn = None if release.measured is None else _drawn(release, release.measured)
    if drawn is not None:
        return NoiseFloor(drawn, "privacy noise alone would show a variance below this in 95% of releases")
    deviation, error = release.facts.get("noise_deviation"), release.facts.get("covariance_error")
    if deviation is not None and math.isfinite(deviation):
        edge = 2 * math.sqrt(release.n_features) * float(deviation)
        return NoiseFloor(edge, "privacy noise alone would show variances up to about this much")
    if error is not None and math.isfinite(error):
        return NoiseFloor(
            float(error), "with probability 95%, privacy noise moved no variance along an axis by more than this"
        )
    return None


def _drawn(release: Release, measured: Measured) -> float | None:
    back = measured.back if release.scale is None else measured.back / release.scale[:, None]
    try:
        with np.errstate(all="ignore"):
            # The nonzero eigenvalues of B N Bᵀ are those of R N Rᵀ with R the triangular factor of B.
            factor = np.asarray(np.linalg.qr(back, mode="r"))
            largest = [_largest(factor @ noise @ factor.T) for noise in _noise(measured)]
    except (ArithmeticError, ValueError):  # of a file that nobody measured
        return None
    floor = float(np.quantile(largest, _LEVEL))
    return floor if math.isfinite(floor) else None


def _noise(measured: Measured) -> list[Floats]:
    """Noise of the law that was drawn, without the row and column of a constant."""
    rng, d = generator_of(measured), len(measured.moment)
    if measured.deviations is not None:
        halves = rng.normal(size=(_DRAWS, d, d)) / math.sqrt(2)
        return list((halves + np.swapaxes(halves, 1, 2)) * measured.deviations)
    law, first = law_named(measured.law), int(measured.weight > 0)
    return [law.made_up(d, measured.deviation, rng)[first:, first:] for _ in range(_DRAWS)]


def _largest(matrix: Floats) -> float:
    return max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)
