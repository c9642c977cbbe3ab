"""A release of columns that were multiplied by public factors, in the data's own units again. Costs nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpeigen._types import Floats
from dpeigen.release import Release
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = ["in_data_units"]


def in_data_units(release: Release, factors: Floats, units: Floats) -> Release:
    """The release with columns in their own units again; states the units in which its noise is isotropic."""
    mean = None if release.mean is None else release.mean / factors
    own, facts = units / factors, dict(release.facts)
    facts["units"], facts["radius"] = own.tolist(), None  # no one length in columns of different units
    for size in ("covariance_error", "noise_deviation"):
        if facts.get(size) is not None:
            facts[size] = facts[size] * float((own.max() / units.max()) ** 2)
    if bounds := facts.get("bounds"):
        facts["bounds"] = {side: (np.array(ends) / factors).tolist() for side, ends in bounds.items()}
    measured = release.measured and release.measured.scaled(factors)
    if release.scale is not None:  # columns that were divided have no unit
        scale = release.scale / factors
        return replace(release, scale=scale, mean=mean, facts=facts, measured=measured)  # type: ignore[arg-type]
    covariance = release.covariance / np.outer(factors, factors)
    eigenvalues, components = symmetric_eigh(covariance)
    return replace(
        release,
        components=components,
        eigenvalues=np.maximum(eigenvalues, 0.0),
        covariance=covariance,
        mean=mean,
        facts=facts,  # type: ignore[arg-type]
        measured=measured,
    )
