"""The last radius of `whitened`, adjusted by released and public numbers only.

A private radius leaves at least five noise scales of rows outside, however small the noise on the moment is. If the
noise does not justify that many, rows are clipped at a multiple of the radius: the distribution of noise is known,
whereas the effect of clipping on rows that are not elliptical is unknown.
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

_TAIL = 4.0  # of the rows outside, a share f^−4 has a squared norm above f times the squared radius
_CELLS = 41  # of the grid, four to an octave
_FURTHER = 1.5  # times the reach of a column
# Chosen by `benchmarks/planner.py --default`, seeds 2026 to 2028, and `benchmarks/tables.py --only pca`, ε = 0.3 to 3.
_CLIPPED, _MOST_CLIPPED = 5.0, 0.25  # share of rows to clip, relative to the squared angle; and at most
_SHORTEST = 0.25  # of the root mean square of rows: smaller radii are not considered


SHORTENED = (
    "Noise is large here, so more rows were clipped than otherwise, and variances corrected as for normal rows. For "
    "elliptical rows this does not change the components; for others they may differ."
)


def widened(radius: float, outside: float, noise: float, d: int) -> float:
    """The radius to clip at, if a share ``outside`` of the rows exceeds the measured one.

    Let f be the squared ratio of both and a the exponent of the tail. In units of the measured squared radius, clipping
    changes the whitened covariance by about outside·f^(1 − a)/((a − 1)·√d) in Frobenius norm, and noise of deviation
    ``noise`` on an entry by d·f·noise. The f with the least sum of squares is used, but at least 1.
    """
    if noise <= 0:
        return radius
    factor = (outside / (d**1.5 * noise)) ** (1 / _TAIL) * (_TAIL - 1) ** (-0.5 / _TAIL)
    return radius * max(1.0, factor) ** 0.5


def shortened(radius: float, outside: float, angle: float) -> float:
    """The radius to clip at, if rounds find almost nothing and noise is likely to rotate directions by ``angle``.

    Rows are then long in a few directions that no map has shortened, so the radius that a share ``outside`` exceeds is
    far above their typical norm. Clipping more rows rotates no direction of elliptical rows, and those of other rows by
    about the share that is clipped. That share grows with the square of the angle (sinΘ), so it vanishes faster than
    the noise. A radius that no row exceeds does not show how long the rows are, so it is kept.
    """
    share = min(_MOST_CLIPPED, _CLIPPED * angle**2)
    return radius if share <= outside or outside <= 0 else radius * length_ratio(outside, share)


def row_length(back: Floats, covariance: Floats) -> float:
    """The root mean square norm of rows z with covariance back·E[zzᵀ]·backᵀ."""
    forms = quadratic_forms(np.asarray(np.linalg.inv(back), dtype=np.float64), covariance)
    return math.sqrt(max(0.0, float(forms.sum())))


def grid_for(back: Floats, covariance: Floats) -> slice:
    """The part of the grid of radii that is not far too small for such rows."""
    first = int(np.searchsorted(GRID, _SHORTEST * row_length(back, covariance)))
    return slice(min(first, len(GRID) - 1), None)


def cells_from(shortest: float) -> slice:
    """Ten octaves of the grid, starting at this radius."""
    first = min(int(np.searchsorted(GRID, shortest)), len(GRID) - 1)
    return slice(first, first + _CELLS)


def in_box(radius: float, view: RowView) -> float:
    """A radius on the grid, or the first on it that no row in the box of the frame exceeds, if that is smaller.

    Rows may be rotated about the centre and shortened. The rows of a person count as one row that is at most as long as
    the longest of them.
    """
    frame, times = (view.frame, float(view.factors.max())) if isinstance(view, WhitenedRows) else (view, 1.0)
    if not isinstance(frame, Frame) or not math.isfinite(frame.reach):
        return radius
    corner = frame.reach * math.sqrt(frame.n_features) * times
    return min(radius, float(GRID[min(int(np.searchsorted(GRID, corner)), len(GRID) - 1)]))


def judged_length(radius: float, back: Floats, far: Floats | None) -> float:
    """The norm of rows by which a map is judged; a row may be further out than the measured reaches of columns."""
    if far is None:
        return radius
    steps = np.linalg.norm(np.linalg.inv(back), axis=0)
    return max(radius, _FURTHER * float((far * steps).max()))


def longest(found: Floats, basis: Floats, factors: Floats, noise: float) -> float:
    """A noisy moment's mean square of mapped rows, plus twice its noise: the trace is more precise than eigenvalues."""
    weights = factors**2
    spread = math.sqrt(2) * noise * float(np.linalg.norm(weights))
    return max(0.0, float(weights @ quadratic_forms(basis, found))) + 2 * spread
