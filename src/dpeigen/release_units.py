"""In which units the numbers of a release are: those of the data, of released deviations, or relative to their sum.

Post-processing: functions of the release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpeigen._types import Floats
from dpeigen.methods.standardised import PREFIX

if TYPE_CHECKING:
    from dpeigen.release import Release

__all__ = [
    "deviations_of",
    "has_relative_variances",
    "is_correlated",
    "relative_to_paid_units",
    "units_of_components",
]


def is_correlated(release: Release) -> bool:
    """Whether columns were divided by released deviations, so that variances are 1 by definition."""
    own = np.diag(release.covariance)
    return release.scale is not None and bool(np.allclose(own[own > 0], 1.0, rtol=1e-9))


def has_relative_variances(release: Release) -> bool:
    """Whether variances are only known up to a common factor."""
    return (release.facts.get("details") or {}).get("variances") == "relative"


def relative_to_paid_units(release: Release) -> bool:
    """Whether directions are those of columns in rough paid units, with variances up to a common factor.

    They approximate the components of the correlation matrix; the signs show how far off the units are.
    """
    paid = any(spend.purpose.startswith(PREFIX) for spend in release.guarantee.split)
    return paid and has_relative_variances(release)


def units_of_components(release: Release, covariance: Floats) -> Floats:
    """The units by which columns are divided before components are computed."""
    if release.scale is None:
        return np.ones(len(covariance))
    return deviations_of(covariance) if is_correlated(release) else np.where(release.scale > 0, release.scale, 1.0)


def deviations_of(covariance: Floats) -> Floats:
    """The deviations of the columns; 1 for columns without variance."""
    deviations = np.sqrt(np.diag(covariance))
    return np.where(deviations > 0, deviations, 1.0)
