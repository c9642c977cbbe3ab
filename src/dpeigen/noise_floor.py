"""Noise floors of a release: one for each component, and the largest variance that privacy noise alone would show.

Post-processing: a function of the release, so it costs nothing.

- *Of each component* (`Release.noise_floors`): the value that its measured variance must exceed to be distinguished
  from noise. It is the rule of `Release.resolved` (`Spectrum.floors` in `stats.intervals`); here it is formatted for
  tables.
- *Of noise alone* (`Release.noise_floor`): if the release holds the measured moment, noise of the same distribution is
  drawn anew and converted to the units of the components; in 95% of the draws the largest eigenvalue of such noise is
  below the floor. Otherwise the floor is what the method states about its noise.
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

__all__ = ["FLOORS", "LAST_OF_ALL", "NoiseFloor", "compared", "floor_notes", "noise_floor"]

FLOORS = (
    "Noise floor: if all remaining variances were equal, the largest, as measured, would lie below this in 98% of "
    "releases. It is compared with the variance as measured, before shrinking."
)
LAST_OF_ALL = "The last of all components has no floor, because its direction follows from the others."
_DIGITS = range(3, 9)

_DRAWS = 60
_LEVEL = 0.95


@dataclass(frozen=True)
class NoiseFloor:
    """A variance, and the exact statement about it."""

    value: float
    words: str


def noise_floor(release: Release) -> NoiseFloor | None:
    """The floor, in the units of the release's eigenvalues; None if nothing is known about the noise.

    The largest eigenvalue of a symmetric d × d matrix of independent noise of deviation τ is about 2τ√d (Wigner).
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


def compared(release: Release, component: int) -> tuple[str, str] | None:
    """The noise floor of a component and its measured variance, in words; None if they are not known.

    Both have as many digits as are needed to see which is larger.
    """
    floors, measured = release.noise_floors, release.measured_variances
    if floors is None or measured is None:
        return None
    floor, value = float(floors[component]), float(measured[component])
    if not math.isfinite(value) or floor == math.inf:
        return "not known", ""
    if floor == -math.inf:
        return "none", f"measured {value:.3g}"
    texts = ((f"{floor:.{digits}g}", f"{value:.{digits}g}") for digits in _DIGITS)
    low, high = next((pair for pair in texts if pair[0] != pair[1]), (f"{floor}", f"{value}"))
    return low, f"measured {high}"


def floor_notes(release: Release, shown: int) -> list[str]:
    """Sentences about the floors of the first ``shown`` components; empty if there are no floors."""
    floors = release.noise_floors
    if floors is None or not np.isfinite(floors[:shown]).any():
        return []
    return [FLOORS, LAST_OF_ALL] if bool(np.isneginf(floors[:shown]).any()) else [FLOORS]


def _drawn(release: Release, measured: Measured) -> float | None:
    back = measured.back if release.scale is None else measured.back / release.scale[:, None]
    try:
        with np.errstate(all="ignore"):
            # The nonzero eigenvalues of B N Bᵀ are those of R N Rᵀ with R the triangular factor of B.
            factor = np.asarray(np.linalg.qr(back, mode="r"))
            largest = [_largest(factor @ noise @ factor.T) for noise in _noise(measured)]
    except (ArithmeticError, ValueError):  # a file that does not come from a measurement
        return None
    floor = float(np.quantile(largest, _LEVEL))
    return floor if math.isfinite(floor) else None


def _noise(measured: Measured) -> list[Floats]:
    """Noise of the same distribution, without the row and column of a constant."""
    rng, d = generator_of(measured), len(measured.moment)
    if measured.deviations is not None:
        halves = rng.normal(size=(_DRAWS, d, d)) / math.sqrt(2)
        return list((halves + np.swapaxes(halves, 1, 2)) * measured.deviations)
    law, first = law_named(measured.law), int(measured.weight > 0)
    return [law.made_up(d, measured.deviation, rng)[first:, first:] for _ in range(_DRAWS)]


def _largest(matrix: Floats) -> float:
    return max(float(np.linalg.eigvalsh(matrix)[-1]), 0.0)
