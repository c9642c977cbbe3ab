"""Centres of columns and what columns were divided by, each with its 95% interval, for cards and terminals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpeigen.release import Release
from dpeigen.report.blocks import Cell
from dpeigen.report.columns import interval, unscaled_columns
from dpeigen.report.matrices import UNKNOWN, center_cell, deviation_intervals, divided_by_estimates

__all__ = ["scale_cells"]


def scale_cells(release: Release, most: int) -> Iterator[tuple[Cell, Cell]]:
    """For each of the first columns: its centre, and what it was divided by."""
    scale = np.ones(release.n_features) if release.scale is None else release.scale
    public = release.estimand == "covariance of columns in public units"
    unknown = set() if public else unscaled_columns(release)
    found = release.usual_intervals
    means = None if found is None else found.mean
    spread, estimated = (None if public else deviation_intervals(release)), divided_by_estimates(release)
    for j, divisor in enumerate(scale[:most]):
        divided: Cell = UNKNOWN if j in unknown else f"{divisor:.4g}"
        if spread is not None and estimated[j] and j not in unknown:
            divided = (f"{divisor:.4g}", interval(spread[0][j], spread[1][j]))
        yield (UNKNOWN if j in unknown else center_cell(release, j, means)), divided
