"""Errors of a covariance estimated from signs of rows, in addition to noise on the signs and sampling error.

Post-processing. The covariance estimated from signs (`methods.signs.evidence`) is that of elliptical rows. Two errors
come from this model.

- *Rows that are not elliptical.* If the rows are built from independent sources with other distributions, directions
  x/|x| have another covariance than the sources. The more directions contribute to |x|, the less |x| depends on any one
  of them: off the diagonal the error falls like one over their effective number (Σλ)²/Σλ². Differences of rows are
  symmetric, which removes most of it. The size of the error was measured on populations without noise
  (``docs/intervals.md``).
- *A level that is hardly known.* Noise can hide how small the remaining variances are compared with those of the
  modelled directions. A wrong level changes all of them by the same factor, and entries beside the directions by its
  root, with their noise: far from linear, so the factor is drawn.
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.intervals import gaussian_errors

__all__ = ["level_errors", "model_errors"]

_ACROSS, _ACROSS_PAIRS = 0.1, 0.04  # relative error of an off-diagonal entry if one direction has all the variance
_ALONG, _ALONG_PAIRS = 0.1, 0.13  # the same for a variance
_ABOUT_ZERO = 0.2  # of all entries if no centre was subtracted: such rows are not elliptical about 0
# The same for columns with laws of their own, such as lognormal columns, counts and rare values, for any number of
# directions (`benchmarks/sign_populations.py --columns`), and the probability of such columns if signs replace the
# covariance of rows that nobody declared elliptical. 0.5 and 0.2 were compared
# (`benchmarks/intervals.py --quick`, seeds 721 and 8802, and 602, 711 and 992 with --columns): with 0.5 the worst
# settings of skewed columns are covered more often by 0.08 (loadings, covariance) and 0.2 (shares), and other rows have
# intervals up to 2.3 times as wide. 0.3 lies between them.
_ACROSS_SKEWED, _ALONG_SKEWED, _SKEWED = 0.25, 0.3, 0.3
_COLUMNS = 8  # with more, errors off the diagonal are smaller, so that all of them together have the same norm
_STANDS_IN = 2.0  # times as large if signs replace the covariance of rows that nobody declared elliptical


def level_errors(seen: Floats, noise: Floats, level: float, rest: int, rng: Generator) -> Floats:
    """Draws of the noise with that of an uncertain factor on the variances along the last ``rest`` axes.

    ``level``: its relative deviation. The factor has a lognormal distribution with the median 1.
    """
    if not level or not rest:
        return noise
    factors = np.ones((len(noise), len(seen)))
    spread = math.sqrt(math.log1p(level**2))
    factors[:, len(seen) - rest :] = np.exp(0.5 * spread * rng.normal(size=(len(noise), 1)))
    areas = factors[:, :, None] * factors[:, None, :]
    return np.asarray(areas * noise - (areas - 1) * seen)


def model_errors(values: Floats, vectors: Floats, draws: int, ground: str, rng: Generator) -> Floats:
    """Draws of the errors for rows that are not elliptical.

    ``values``: eigenvalues in increasing order that sum to the trace; ``vectors``: their eigenvectors. ``ground``: what
    is known about the rows: "rows" about a centre, "pairs" (differences), "zero" (no centre), or "any" (signs replace
    the covariance).
    """
    index = np.arange(len(values))
    across, along = (np.full((draws, 1), size) for size in _sizes(values, ground))
    if ground == "any":
        skewed, fewer = rng.random((draws, 1)) < _SKEWED, math.sqrt(min(1.0, _COLUMNS / len(values)))
        across = np.where(skewed, np.maximum(_ACROSS_SKEWED * fewer, across), across)
        along = np.where(skewed, np.maximum(_ALONG_SKEWED, along), along)
    roots = np.sqrt(np.maximum(values, 0.0))
    errors = gaussian_errors(len(values), draws, 1.0, rng) * across[:, :, None]
    errors[:, index, index] *= along / (math.sqrt(2) * across)
    errors *= np.outer(roots, roots)
    return np.asarray(vectors @ errors @ vectors.T)


def _sizes(values: Floats, ground: str) -> tuple[float, float]:
    """Relative errors off the diagonal and on it, for rows that are not elliptical."""
    equal = float(values.sum() ** 2 / max(float((values**2).sum()), 1e-300))
    if ground == "zero":
        return _ABOUT_ZERO, _ABOUT_ZERO
    if ground == "pairs":
        return _ACROSS_PAIRS / equal, _ALONG_PAIRS / math.sqrt(equal)
    times = _STANDS_IN if ground == "any" else 1.0
    return times * _ACROSS / equal, times * _ALONG / math.sqrt(equal)
