"""Intervals for shares of variance from a noisy moment of signs alone, without first-order approximations.

Post-processing. Noise on the moment S of signs has a known distribution, whatever the variances are, so intervals for
the eigenvalues of E[zzᵀ], z = x/|x|, follow as for any noisy matrix. A variance share is a function of these
eigenvalues φ that is far from linear if one direction has most of the variance: a rest whose sign share is 0.2 ± 0.15
may have any variance share from nearly 0 to 0.3. So the ends are transformed, and not the error. For elliptical rows:

- φ₁ has the largest variance share p₁ if all other variances are equal. It has the smallest if there are as few others
  as possible: with one other, φ₁ : φ₂ = √p₁ : √p₂. If φ₁ < 1/2, several are as large as the first, and p₁ = φ₁.
- pⱼ/p₁ ≤ φⱼ/φ₁, with equality if |x| is constant; and pⱼ ≤ (1 − p₁)/(j − 1), since no share exceeds those before it.

There is no lower limit for the second and later shares: noise on a centre makes small variances look larger.

>>> low, high = variance_shares(np.array([0.7, 0.5]), np.array([0.8, 0.6]), 10)
>>> bool(low[0] < 0.9 < high[0]), bool(high[1] <= 0.5)
(True, True)
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.intervals import DECOMPOSED, Interval, Spectrum, gaussian_errors, sampling_errors
from dpeigen.stats.signs import solve_levels

__all__ = ["share_intervals", "variance_shares"]

_ROUNDING = 1e-9
_DOUBT = 0.25  # deviation of the logit of a share by this model, for rows that are not elliptical
# (`benchmarks/sign_populations.py --shares`: two groups of people exceed the limits by up to 0.5 in 95% of populations)


def share_intervals(
    values: Floats, deviation: float, terms: float | None, level: float, count: int, rng: Generator
) -> Interval:
    """Intervals for the first ``count`` shares of variance.

    ``values``: eigenvalues of the noisy moment of signs, decreasing; ``deviation``: of the noise on an entry.
    ``terms``: the number of rows, for sampling error; None: the table itself.
    """
    d = len(values)
    errors = gaussian_errors(d, DECOMPOSED, deviation, rng)
    if terms is not None:
        errors = errors + sampling_errors(np.diag(np.maximum(values, 0.0)), terms, 0.0, DECOMPOSED, rng)
    spectrum = Spectrum(values, np.eye(d), errors)
    low, high = spectrum.eigenvalue_intervals(spectrum.debiased(), level, count)
    return variance_shares(low, high, d, -float(ndtri((1 - level) / 2)) * _DOUBT)


def variance_shares(low: Floats, high: Floats, d: int, doubt: float = 0.0) -> Interval:
    """Limits for shares of variance in d directions, from limits for the eigenvalues of the moment of signs.

    ``doubt``: how far the logits of shares may be beyond the limits for elliptical rows.
    """
    if d == 1:
        return np.ones(1), np.ones(1)
    places = np.arange(1, len(low) + 1)
    high, least = np.clip(high, 1 / d, 1 / places), min(max(float(low[0]), 1 / d), 1.0)
    first = _moved(_with_few_others(least), -doubt), _moved(_with_equal_others(float(high[0]), d - 1), doubt)
    left = np.append(first[1], (1 - first[0]) / np.maximum(places[1:] - 1, 1))
    return np.where(places == 1, first[0], 0.0), np.minimum(
        np.minimum(first[1] * high / least * math.exp(doubt), left), 1.0
    )


def _moved(share: float, by: float) -> float:
    """The share with another logit."""
    return share / (share + (1 - share) * math.exp(-by))


def _with_few_others(share: float) -> float:
    """The least share of variance of a direction with this share of signs."""
    return share if share < 0.5 else share**2 / (share**2 + (1 - share) ** 2)


def _with_equal_others(share: float, others: int) -> float:
    """The largest share of variance of a direction with this share of signs: that beside equal others."""
    if share >= 1 - _ROUNDING:
        return 1.0
    found = float(solve_levels(np.array([max(share, 1 / (others + 1))]), others)[0])
    return found / (found + others)
