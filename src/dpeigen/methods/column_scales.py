"""Scales of columns that do not depend on their locations, from noisy counts of differences of rows.

Guarantee: only answers that are paid for are used (`questions.columns`, `questions.radius`).

The sizes of differences of random pairs of rows are counted by half octaves, for all columns at once. A matched filter
finds the standard deviation of the normal column that fits the counts best. The scale is twice that deviation or, if
larger, the upper edge of the highest cell above it that exceeds the noise. So the scale is near the largest deviations
of the column. A column that is 0 for most rows has a scale. A column whose counts do not exceed the noise has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from dpeigen._types import Bools, Floats, Integers
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.costs import part_of
from dpeigen.methods.base import Task
from dpeigen.privacy import Cost, GaussianCost
from dpeigen.questions import ColumnCounts, NoisyCounts, RadiusLeaving
from dpeigen.stats import Frame
from dpeigen.stats.columns import REACH, Sizes
from dpeigen.stats.standing_out import FALSE_END, FALSE_FAR_END, filtered_stands_out, stands_out

__all__ = [
    "NORMAL_SCALE",
    "alike",
    "ask_one_scale",
    "ask_scales",
    "ask_sizes",
    "looks_at_scales",
    "scale_integers",
    "scales",
    "share_unit",
]

_SEEN, _SPIKE = 3.2, 4.0  # noise deviations by which a normal column, or a single cell, must exceed 0
_USUAL, _UNUSUAL = 48, 0.4  # half octaves from 1, beyond which they must exceed it by this much more
_NEAR, _LESS = 6, 0.5  # half octaves from the typical scale, and the factor by which less is enough there
_WINDOWS = (1, 2, 4)  # cells
_SURE = 1.2  # a factor on the threshold: above it a column is found clearly
# Ratios of the largest to the smallest scale of clear columns: below the first, all columns get one scale; below the
# second, columns without a scale get the largest. Chosen by `benchmarks/tables.py`, raw and standardised rows.
_ALIKE, _RELATED = 4.5, 9.0
_LEAST_SCALE = 2.0 ** (-REACH / 2)  # the smallest cell: bounds may be narrower, and 1/scale must be finite
_ABOVE = 14  # half octaves above the deviation that are searched for the far end of a column
_NEAR_ABOVE = 5  # of these, the ones in which a false end costs little accuracy
# The fraction of pairs that exceed one scale for all columns: usually, and at most if noise is large. And noise scales:
# the noise on a threshold exceeds so many with probability 6e-5; five, the least of `RadiusLeaving`, with 0.3%.
_FAR_PAIRS, _MOST_FAR_PAIRS, _SAFE = 0.05, 0.15, 9.0
_MEDIAN_TO_FAR = 1.4  # few differences of normal rows are longer than this factor times their median norm
_EDGES = np.arange(-8.0, 3.5, 0.5)  # of half octaves, for differences of normal rows, in log2 of their deviation
_NORMAL = 2 * np.diff(ndtr(np.exp2(np.append(_EDGES, 3.5)) * math.sqrt(2)))  # of half differences, deviation √½
_FILTER = _NORMAL / np.linalg.norm(_NORMAL)
_FAR = 1.0  # log2 of the far end of a normal column in deviations of its rows
NORMAL_SCALE = 2.0**_FAR  # deviations of a normal column in its scale


def scale_integers(d: int) -> int:
    """The most noisy integers that `ask_scales` draws."""
    return 2 * d * Sizes.n_cells


def looks_at_scales(pure: bool) -> int:
    """The number of measurements. One for pure budgets, because with half the budget each has twice the noise."""
    return 1 if pure else 2


def ask_scales(curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> tuple[Floats, Bools]:
    """The scale of every column, and whether it is known."""
    scale, known, _, _ = _look_at_sizes(curator, task, costs, shared=False)
    return scale, known


def ask_sizes(curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> tuple[Floats, Bools, NoisyCounts, Floats]:
    """`ask_scales`, where columns of one unit get one scale (`alike`); the counts; and the largest sizes found.

    For a column in which nothing was found, that size is the scale that it is given. In a whole covariance, columns
    with public bounds or declared levels have a scale in any case. Components do without them: correlations of a rare
    level are so uncertain that they would hide clear components of the other columns.
    """
    own, found, sure, counts = _look_at_sizes(curator, task, costs, shared=True)
    scale, known = alike(own, found, sure)
    for column, span in _spans(task).items() if task.n_components is None else ():
        if not known[column]:  # that of the largest deviation in its range; without variance it is reported as unknown
            scale[column], known[column] = max(NORMAL_SCALE * span / 2, _LEAST_SCALE), True
    return scale, known, counts, np.where(found, own, scale)


def _spans(task: Task) -> dict[int, float]:
    """The widths of columns with public bounds, or of declared levels."""
    bounds = enumerate((task.bound[1] - task.bound[0]).tolist()) if isinstance(task.bound, tuple) else ()
    return {**dict(bounds), **dict(task.spans)}


def _look_at_sizes(
    curator: Curator, task: Task, costs: Mapping[Purpose, Cost], *, shared: bool
) -> tuple[Floats, Bools, Bools, NoisyCounts]:
    """Scales, whether they are known, whether they are clear, and the counts of all measurements.

    A second measurement is for columns in which nothing was found at first. It has fewer columns and so less noise.
    ``shared``: skip it if columns will get one scale.
    """
    apart = Frame(task.n_features, pairs=True, missing=task.missing)
    looks = looks_at_scales(task.budget.is_pure)
    cost = part_of(costs[Purpose.SCALES], looks)
    gaussian, everything = isinstance(cost, GaussianCost), tuple(range(task.n_features))
    first = curator.measure(ColumnCounts(apart, "sizes", everything), purpose=Purpose.SCALES, cost=cost)
    ends = Purpose.REACHES not in costs
    scale, known, sure = scales(first, gaussian, ends=ends)
    missing = np.flatnonzero(~known)
    if looks > 1 and len(missing) and not (shared and share_unit(scale, sure, _RELATED)):
        question = ColumnCounts(apart, "sizes", tuple(map(int, missing)))
        second = curator.measure(question, purpose=Purpose.SCALES, cost=cost)
        both = second.joined(first.counts[missing], first.deviation)
        scale[missing], known[missing], sure[missing] = scales(both, gaussian, ends=ends)
        counts = first.counts.copy()
        counts[missing] = both.counts  # these have less noise than ``deviation`` says
        first = replace(first, counts=counts)
    return np.minimum(scale, np.maximum(_widest(task), _LEAST_SCALE)), known, sure, first


def _widest(task: Task) -> Floats | float:
    """The largest difference of two entries of a column inside the public bounds."""
    if isinstance(task.bound, tuple):
        return np.asarray(task.bound[1] - task.bound[0], dtype=np.float64)
    return 2 * task.bound if isinstance(task.bound, float) else math.inf


def ask_one_scale(
    curator: Curator, view: Frame, cost: Cost, count: float, task: Task, *, robust: bool = False
) -> Floats:
    """One scale for all framed columns, in their own units: about 2.5 times their root mean square deviation.

    ``robust``: from the median of differences, which outliers change little as long as most pairs have none. Only if
    the number of rows is public (``count`` is not 0).
    """
    apart = replace(view, center=None, pairs=True)
    far, factor = (0.5, _MEDIAN_TO_FAR) if robust and count else (_FAR_PAIRS, 1.0)
    question = RadiusLeaving(apart, far * count / 2)
    if count:  # so many pairs outside that noise on the threshold rarely gives a far too large radius
        enough = min(_SAFE * question.scale(cost, task.relation), _MOST_FAR_PAIRS * count / 2)
        question = replace(question, outside=max(question.outside, enough))
    radius = curator.measure(question, purpose=Purpose.SCALES, cost=cost)
    scale = factor * 2 * radius / math.sqrt(view.n_features) * apart.unit
    return np.asarray(np.minimum(scale, np.maximum(_widest(task), _LEAST_SCALE)))


def share_unit(scale: Floats, sure: Bools, apart: float) -> bool:
    """Whether at least half of the columns are clear, and their scales differ by less than the factor ``apart``."""
    found = scale[sure]
    return 2 * len(found) >= len(scale) and bool(found.max() < apart * found.min())


def alike(scale: Floats, known: Bools, sure: Bools) -> tuple[Floats, Bools]:
    """Scales, and which columns have one, with clear columns used for the others.

    If the scales of clear columns differ little, all columns get at least the largest: the differences are within the
    resolution of noise and cells. If they differ somewhat more, columns in which nothing was found get the largest.
    Such a column, for instance an indicator of something rare, probably has the unit of the others. If it is constant,
    its variance will not exceed the noise of the final moment, and is then reported as unknown.
    """
    if share_unit(scale, sure, _ALIKE):
        return np.where(known, np.maximum(scale, scale[sure].max()), scale[sure].max()), np.ones(len(scale), dtype=bool)
    if share_unit(scale, sure, _RELATED):
        return np.where(known, scale, scale[sure].max()), np.ones(len(scale), dtype=bool)
    return scale, known


def scales(sizes: NoisyCounts, gaussian: bool, *, ends: bool = True) -> tuple[Floats, Bools, Bools]:
    """The scale of every column (1 if none is found), whether it is found, and whether it is clear.

    From noisy counts of half differences. Without ``ends`` far ends are not searched, because noise alone may exceed
    the threshold there.
    """
    counts, noise = sizes.counts, sizes.deviation
    filtered = np.stack([np.correlate(row, _FILTER, mode="valid") for row in counts])
    cells = np.arange(filtered.shape[1]) - round(2 * _EDGES[0])  # of the deviation of normal rows
    # A column of few values fills one cell only; its differences are then about three deviations.
    single = counts[:, np.minimum(cells + 1, counts.shape[1] - 1)] / _SPIKE
    clear = np.maximum(filtered / _SEEN, single) / noise - np.where(np.abs(cells - REACH) > _USUAL, _UNUSUAL, 0.0)
    certain = max(1.0, filtered_stands_out(len(counts), gaussian) / _SEEN)
    sure = clear.max(axis=1) > max(_SURE, certain)
    middle, known = cells[np.argmax(clear, axis=1)], clear.max(axis=1) > certain
    if not gaussian and known.any():  # noise far from the typical scale may exceed the signal near it
        off = np.abs(cells - np.median(middle[known]))
        near = np.where(off <= _NEAR, clear, -math.inf)
        best = np.argmax(near, axis=1)
        nearer = near.max(axis=1) > np.maximum(certain, _LESS * clear.max(axis=1))
        middle = np.where(
            nearer & (off[best] < _NEAR), cells[best], middle
        )  # a maximum at the edge belongs to a larger one beyond it
    normal = np.exp2((middle - REACH) / 2 + _FAR)
    above = middle[:, None] + np.arange(1, _ABOVE)  # cells that may hold the far end
    ends_of = above.size * len(_WINDOWS)
    nearby, distant = (stands_out(ends_of, gaussian, false) for false in (FALSE_END, FALSE_FAR_END))
    limit = np.where(np.arange(1, _ABOVE) <= _NEAR_ABOVE, nearby, distant) * noise
    highest = np.full(len(counts), -1)
    first = max(_WINDOWS)
    sums = np.zeros((len(counts), first + counts.shape[1] + _ABOVE))
    sums[:, first:-_ABOVE] = counts
    sums = np.cumsum(sums, axis=1)
    for window in _WINDOWS:  # tails that are spread over many cells exceed the noise only in windows
        tails = np.take_along_axis(sums[:, first:] - sums[:, first - window : -window], above, axis=1)
        seen = (above < counts.shape[1]) & (tails > limit * math.sqrt(window))
        highest = np.maximum(highest, np.where(seen, above - (window - 1), -1).max(axis=1))
    edge = np.where((highest >= 0) & ends, _upper_edge(highest), 0.0)
    return np.where(known, np.maximum(normal, edge), 1.0), known, sure


def _upper_edge(cell: Integers) -> Floats:
    """The upper edge of a cell for differences: twice that for half differences."""
    return np.exp2((cell + 1 - REACH) / 2) * 2
