"""How far the last radius of `whitened` reaches, from released and public numbers only.

A private radius leaves at least five noise scales of rows outside, however little noise the moment itself gets. Where
that is more than noise warrants, the rows are clipped at a multiple of the radius: noise has a known law, and what
clipping takes from rows that are not elliptical is not known at all.
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats import Frame
from dpeigen.stats.clipping import length_ratio
from dpeigen.stats.frame import RowView
from dpeigen.stats.norms import GRID
from dpeigen.stats.stretch import WhitenedRows
from dpeigen.stats.whitening import quadratic_forms

__all__ = [
    "SHORTENED",
    "cells_from",
    "grid_for",
    "in_box",
    "judged_length",
    "longest",
    "row_length",
    "shortened",
    "widened",
]

_TAIL = 4.0  # a row's square is longer than f times that of the radius in a share f^−4 of those outside
_CELLS = 41  # of the grid, four to an octave
_FURTHER = 1.5  # times the reach of a column
# Chosen by `benchmarks/planner.py --default`, seeds 2026 to 2028, and `benchmarks/tables.py --only pca`, ε = 0.3 to 3.
_CLIPPED, _MOST_CLIPPED = 5.0, 0.25  # share of rows to clip, relative to the square of the angle; and at most
_SHORTEST = 0.25  # of the root mean square of rows: no radius below that is looked at


SHORTENED = (
    "Noise is large here, so more rows were clipped than otherwise, and variances corrected as for normal rows. For "
    "elliptical rows this does not change the components; for others they may differ."
)


def widened(radius: float, outside: float, noise: float, d: int) -> float:
    """The radius to clip at, where a share ``outside`` of the rows is longer than the one that was found.

    With f the squared ratio of both, clipping costs the whitened covariance about outside·f^(1 − a)/((a − 1)·√d) in
    Frobenius norm, a the tail's exponent, and noise of deviation ``noise`` on an entry costs d·f·noise, both in units
    of the squared radius that was found. The f with the least sum of squares is taken, and no less than 1.
    """
    if noise <= 0:
        return radius
    factor = (outside / (d**1.5 * noise)) ** (1 / _TAIL) * (_TAIL - 1) ** (-0.5 / _TAIL)
    return radius * max(1.0, factor) ** 0.5


def shortened(radius: float, outside: float, angle: float) -> float:
    """The radius to clip at where rounds saw next to nothing and noise is likely to turn directions by this ``angle``.

    Rows are then long in a few directions that no map has made shorter, so the radius that a share ``outside`` exceeds
    is far above their typical length. Clipping more rows turns no direction of elliptical rows, and others by about the
    share that is clipped. That share grows with the square of the angle (sinΘ), so it vanishes sooner than the noise.
    A radius that no row exceeds does not tell how long the others are: it stays.
    """
    share = min(_MOST_CLIPPED, _CLIPPED * angle**2)
    return radius if share <= outside or outside <= 0 else radius * length_ratio(outside, share)


def row_length(back: Floats, covariance: Floats) -> float:
    """The root mean square length of rows z with covariance back·E[zzᵀ]·backᵀ."""
    forms = quadratic_forms(np.asarray(np.linalg.inv(back), dtype=np.float64), covariance)
    return math.sqrt(max(0.0, float(forms.sum())))


def grid_for(back: Floats, covariance: Floats) -> slice:
    """The part of the grid of radii that is not absurdly short for such rows."""
    first = int(np.searchsorted(GRID, _SHORTEST * row_length(back, covariance)))
    return slice(min(first, len(GRID) - 1), None)


def cells_from(shortest: float) -> slice:
    """Ten octaves of the grid from this radius on."""
    first = min(int(np.searchsorted(GRID, shortest)), len(GRID) - 1)
    return slice(first, first + _CELLS)


def in_box(radius: float, view: RowView) -> float:
    """A radius on the grid, or the first on it that no row in the box of the frame is longer than, if that is less.

    Rows are turned about the centre and shortened, or not; those of a person count as one that is no longer than the
    longest of them.
    """
    frame, times = (view.frame, float(view.factors.max())) if isinstance(view, WhitenedRows) else (view, 1.0)
    if not isinstance(frame, Frame) or not math.isfinite(frame.reach):
        return radius
    corner = frame.reach * math.sqrt(frame.n_features) * times
    return min(radius, float(GRID[min(int(np.searchsorted(GRID, corner)), len(GRID) - 1)]))


def judged_length(radius: float, back: Floats, far: Floats | None) -> float:
    """The length of rows that a map back is judged by: a row may lie further out than columns were seen to reach."""
    if far is None:
        return radius
    steps = np.linalg.norm(np.linalg.inv(back), axis=0)
    return max(radius, _FURTHER * float((far * steps).max()))


def longest(found: Floats, basis: Floats, factors: Floats, noise: float) -> float:
    """The mean square of turned rows, by a noisy moment, and twice its noise: the trace is known better than levels."""
    weights = factors**2
    spread = math.sqrt(2) * noise * float(np.linalg.norm(weights))
    return max(0.0, float(weights @ quadratic_forms(basis, found))) + 2 * spread
