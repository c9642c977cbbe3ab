"""``n_components="private"`` with a whole covariance: the components that are distinguishable from noise, at least one.

Post-processing of the release, by the rule of `Release.resolved`, so that tables, plots and the number agree.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpeigen.methods.base import Method
from dpeigen.methods.rank import FREE, NOTHING, PrivateRank
from dpeigen.release import Release
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = ["counted"]


def counted(release: Release, method: Method) -> Release:
    """The release with as many components as are resolved, if they are counted in a released covariance."""
    free = isinstance(method, PrivateRank) and method.inner.whole and method.rule == "edge"
    if not free or release.measured is None:
        return release
    values, components = symmetric_eigh((release.covariance + release.covariance.T) / 2)
    values = np.maximum(values, 0.0)
    whole = replace(release, components=components, eigenvalues=values, noise_variance=0.0)
    clear = whole.resolved
    if clear is None:
        return release
    k = min(max(1, clear), max(1, release.n_features - 1))
    notes = tuple(note for note in release.guarantee.notes if note not in (FREE, NOTHING))
    details = {**release.facts["details"], "private_rank": k, "components_that_stand_out": min(clear, k)}
    return replace(
        release,
        components=components[:k],
        eigenvalues=values[:k],
        noise_variance=float(values[k:].mean()) if k < len(values) else 0.0,
        guarantee=replace(release.guarantee, notes=(*notes, FREE if clear else NOTHING)),
        facts={**release.facts, "details": details},  # type: ignore[arg-type]
    )
