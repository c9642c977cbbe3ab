"""Variances and means that the declared limits of columns allow.

Post-processing: a function of the release and of public declarations. The variance of a column between two limits is at
most a quarter of their squared distance (Popoviciu), and its mean lies between them. Noise does not know that. A
covariance with a larger variance is rescaled in that column, which keeps all correlations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpeigen.release import Release
from dpeigen.stats.spectrum import leading_components

__all__ = ["within_limits"]


def within_limits(release: Release) -> Release:
    """The release with possible variances and means, for one whose components are those of its covariance.

    Moments about 0 or a public centre, divided columns and releases that state a bound on the error of their covariance
    stay as they are.
    """
    if release.scale is not None or release.facts.get("covariance_error") is not None:
        return release
    if release.facts.get("center") not in ("private", "pairs"):
        return release
    low, high = release.limits
    if release.mean is not None and ((release.mean < low) | (release.mean > high)).any():
        release = replace(release, mean=np.clip(release.mean, low, high))
    variances, most = np.diag(release.covariance), ((high - low) / 2) ** 2
    if not (variances > most).any():
        return release
    factors = np.sqrt(np.divide(most, variances, out=np.ones_like(most), where=variances > most))
    covariance = release.covariance * np.outer(factors, factors)
    components, values, rest = leading_components(covariance, len(release.components))
    return replace(release, components=components, eigenvalues=values, noise_variance=rest, covariance=covariance)
