"""Errors of a covariance estimated from signs of rows, in addition to noise on the signs and sampling error.

Post-processing. The covariance estimated from signs (`methods.signs.evidence`) is that of elliptical rows. Two errors
come from this model.

- *Rows that are not elliptical.* If the rows are built from independent sources with other distributions, directions
  x/|x| have another covariance than the sources. The more directions contribute to |x|, the less |x| depends on any one
  of them: off the diagonal the error falls like one over their effective number (Σλ)²/Σλ². Differences of rows are
  symmetric, which removes most of it. The size of the error was measured on populations without noise
  (``docs/intervals.md``).
- *Variances that are hidden by noise.* The model assumes that the remaining variances are equal, with a level at least
  as large as the noise on it.
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.intervals import CLEAR, DECOMPOSED, Spectrum, gaussian_errors

__all__ = ["inflation", "model_errors"]

_ACROSS, _ACROSS_PAIRS = 0.1, 0.04  # relative error of an off-diagonal entry if one direction has all the variance
_ALONG, _ALONG_PAIRS = 0.1, 0.13  # the same for a variance
_ABOUT_ZERO = 0.2  # of all entries if no centre was subtracted: such rows are not elliptical about 0
_STANDS_IN = 0.12  # of all entries if signs replace the covariance of rows that nobody declared elliptical
_LEVEL = 0.6  # of the level of the remaining variances, if it is hidden by noise
_NOISE, _LOST = 0.5, 1.0  # the most, relative to the noise on it; and if signs replace the covariance
_INFLATED, _ALONE = 1.3, 2.0  # factors on noise if signs replace it: beyond first order; without paid variances


def inflation(ground: str, *, alone: bool) -> float:
    """The factor on the noise of signs; ``alone``: no variances were paid for."""
    return 1.0 if ground != "any" else _ALONE if alone else _INFLATED


def model_errors(second: Floats, values: Floats, vectors: Floats, noise: Floats, ground: str, rng: Generator) -> Floats:
    """Draws of both errors, as many as there are of the noise.

    ``values``: eigenvalues in increasing order that sum to the trace; ``vectors``: their eigenvectors. ``ground``: what
    is known about the rows: "rows" about a centre, "pairs" (differences), "zero" (no centre), or "any" (signs replace
    the covariance).
    """
    index = np.arange(len(values))
    across, along = _sizes(values, ground)
    roots = np.sqrt(np.maximum(values, 0.0))
    errors = gaussian_errors(len(values), len(noise), across, rng)
    errors[:, index, index] *= along / (math.sqrt(2) * across)
    errors *= np.outer(roots, roots)
    return np.asarray(vectors @ errors @ vectors.T) + _rest_errors(
        second, noise, _LOST if ground == "any" else _NOISE, rng
    )


def _sizes(values: Floats, ground: str) -> tuple[float, float]:
    """Relative errors off the diagonal and on it, for rows that are not elliptical."""
    equal = float(values.sum() ** 2 / max(float((values**2).sum()), 1e-300))
    if ground in ("zero", "any"):
        size = _ABOUT_ZERO if ground == "zero" else _STANDS_IN
        return size, size
    if ground == "pairs":
        return _ACROSS_PAIRS / equal, _ALONG_PAIRS / math.sqrt(equal)
    return _ACROSS / equal, _ALONG / math.sqrt(equal)


def _rest_errors(second: Floats, noise: Floats, most: float, rng: Generator) -> Floats:
    """Errors of variances that signs cannot distinguish from noise: the model assumes that they are equal."""
    spectrum, draws = Spectrum.of(second, noise[:DECOMPOSED]), len(noise)
    told = min(spectrum.resolved(CLEAR, len(second)), len(second) - 1)
    level = max(float(np.abs(spectrum.values[told:]).mean()), 0.0)
    rest, own = spectrum.vectors[:, told:], float(spectrum.errors[:, told:, told:].std())
    errors = gaussian_errors(rest.shape[1], draws, min(_LEVEL * level, most * own), rng)
    return np.asarray(rest @ errors @ rest.T)
