"""Centres of columns and what columns were divided by, each with its 95% interval, for cards and terminals."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from dpeigen._text import number_text
from dpeigen.release import Release
from dpeigen.report.blocks import Cell
from dpeigen.report.columns import unscaled_columns
from dpeigen.report.matrices import UNKNOWN, center_cell, deviation_intervals, divided_by_estimates, ends_text

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
        found_ends = None
        if spread is not None and estimated[j] and j not in unknown:
            found_ends = float(spread[0][j]), float(spread[1][j])
        words = partial(release.spread_text, j) if _in_days(release, j) else number_text
        shown = partial(words, ends=found_ends)
        divided: Cell = UNKNOWN if j in unknown else shown(float(divisor))
        if found_ends is not None:
            divided = (shown(float(divisor)), ends_text(shown, *found_ends))
        yield (UNKNOWN if j in unknown else center_cell(release, j, means)), divided


def _in_days(release: Release, column: int) -> bool:
    """Whether it is a column of dates or times, whose deviation is shown in days; rescaled ones have no unit."""
    said = (release.columns or {}).get(release.feature_names[column])
    return said is not None and said.type in ("date", "timestamp") and release.facts.get("rescaled") is None
