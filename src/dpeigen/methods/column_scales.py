"""Scales of columns, location-free: noisy counts of differences of rows, and what they tell of a column's far end.

Guarantee: nothing is read here but answers that are paid for (`questions.columns`, `questions.radius`).

Differences of random pairs of rows are counted by half octaves, all columns at once. The scale of a column is twice the
deviation of normal rows whose differences would fill the cells as they are filled (a matched filter), or, if that is
more, the upper edge of the highest cell above it that stands out of the noise. So the scale is near the far end of the
column. A column that is 0 for most rows has one. A column in which nothing stands out has none.
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
from dpeigen.stats.standing_out import FALSE_END, filtered_stands_out, stands_out

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

_SEEN, _SPIKE = 3.2, 4.0  # deviations that a normal column, or a single cell, must stand out by
_USUAL, _UNUSUAL = 48, 0.4  # half octaves from 1, beyond which they must stand out by so much more
_NEAR, _LESS = 6, 0.5  # half octaves from the typical scale, and how much less may stand out there to be believed
_WINDOWS = (1, 2, 4)  # cells
_SURE = 1.2  # times what a column must stand out by to be known: it is seen clearly
# Times the smallest scale: up to the first, columns seen clearly are given one scale; up to the second, columns in
# which nothing stands out are given theirs. Chosen by `benchmarks/tables.py`, raw and standardised rows.
_ALIKE, _RELATED = 4.5, 9.0
_ABOVE = 14  # half octaves above the deviation where the far end of a column is looked for
_FAR_PAIRS = 0.05  # of the pairs, beyond one scale for all columns
_MEDIAN_TO_FAR = 1.4  # times the median length of differences is what few normal ones are longer than
_EDGES = np.arange(-8.0, 3.5, 0.5)  # of half octaves, for differences of normal rows, in log2 of their deviation
_NORMAL = 2 * np.diff(ndtr(np.exp2(np.append(_EDGES, 3.5)) * math.sqrt(2)))  # of half differences, deviation √½
_FILTER = _NORMAL / np.linalg.norm(_NORMAL)
_FAR = 1.0  # log2 of the far end of a normal column in deviations of its rows
NORMAL_SCALE = 2.0**_FAR  # deviations of a normal column in its scale


def scale_integers(d: int) -> int:
    """How many of them `ask_scales` draws."""
    return 2 * d * Sizes.n_cells


def looks_at_scales(pure: bool) -> int:
    """Pure budgets are better spent on one look: two of half the budget have twice its noise each."""
    return 1 if pure else 2


def ask_scales(curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> tuple[Floats, Bools]:
    """The scale of every column; and whether it is known."""
    scale, known, _, _ = _look_at_sizes(curator, task, costs, shared=False)
    return scale, known


def ask_sizes(curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> tuple[Floats, Bools, NoisyCounts, Floats]:
    """The same, where columns of one unit get one scale (`alike`); the counts, and how far out anything stood out.

    A column in which nothing did may reach as far as the scale that it is given.
    """
    own, found, sure, counts = _look_at_sizes(curator, task, costs, shared=True)
    scale, known = alike(own, found, sure)
    return scale, known, counts, np.where(found, own, scale)


def _look_at_sizes(
    curator: Curator, task: Task, costs: Mapping[Purpose, Cost], *, shared: bool
) -> tuple[Floats, Bools, Bools, NoisyCounts]:
    """Scales, whether they are known, whether they are seen clearly, and the counts of all looks.

    A second look is for columns in which nothing stood out at first: of fewer columns, so it has less noise.
    ``shared``: there is none where columns will get one scale.
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
        counts[missing] = both.counts  # with less noise than is said then
        first = replace(first, counts=counts)
    return scale, known, sure, first


def ask_one_scale(curator: Curator, view: Frame, cost: Cost, count: float, *, robust: bool = False) -> Floats:
    """One scale for all framed columns, in their own units: about 2.5 times their root mean square deviation.

    ``robust``: from the median of differences, which outliers do not move far as long as most pairs are free of them;
    only where the number of rows is public (``count`` is not 0).
    """
    apart = replace(view, center=None, pairs=True)
    far, factor = (0.5, _MEDIAN_TO_FAR) if robust and count else (_FAR_PAIRS, 1.0)
    radius = curator.measure(RadiusLeaving(apart, far * count / 2), purpose=Purpose.SCALES, cost=cost)
    return factor * 2 * radius / math.sqrt(view.n_features) * apart.unit


def share_unit(scale: Floats, sure: Bools, apart: float) -> bool:
    """Whether at least half of the columns are seen clearly, and their scales differ by less than this factor."""
    found = scale[sure]
    return 2 * len(found) >= len(scale) and bool(found.max() < apart * found.min())


def alike(scale: Floats, known: Bools, sure: Bools) -> tuple[Floats, Bools]:
    """Scales, and which columns have one, where columns that are seen clearly tell about the others.

    If their scales differ little, all columns get the largest: what noise and cells make of such scales tells nothing.
    If they differ by a little more, columns in which nothing stood out get it. Such a column, an indicator of something
    rare for instance, is likely to have the unit of the others. If it is constant, its variance will not stand out of
    the noise of the last moment, and is given as unknown then.
    """
    if share_unit(scale, sure, _ALIKE):
        return np.where(known, np.maximum(scale, scale[sure].max()), scale[sure].max()), np.ones(len(scale), dtype=bool)
    if share_unit(scale, sure, _RELATED):
        return np.where(known, scale, scale[sure].max()), np.ones(len(scale), dtype=bool)
    return scale, known


def scales(sizes: NoisyCounts, gaussian: bool, *, ends: bool = True) -> tuple[Floats, Bools, Bools]:
    """The scale of every column (1 if nothing stands out), from noisy counts of half differences.

    And whether anything stands out, and whether it does so clearly. Without ``ends`` far ends are not looked for: noise
    alone may stand out there.
    """
    counts, noise = sizes.counts, sizes.deviation
    filtered = np.stack([np.correlate(row, _FILTER, mode="valid") for row in counts])
    cells = np.arange(filtered.shape[1]) - round(2 * _EDGES[0])  # of the deviation of normal rows
    # A column of few values fills one cell only; its differences are about three deviations then.
    single = counts[:, np.minimum(cells + 1, counts.shape[1] - 1)] / _SPIKE
    clear = np.maximum(filtered / _SEEN, single) / noise - np.where(np.abs(cells - REACH) > _USUAL, _UNUSUAL, 0.0)
    certain = max(1.0, filtered_stands_out(len(counts), gaussian) / _SEEN)
    sure = clear.max(axis=1) > max(_SURE, certain)
    middle, known = cells[np.argmax(clear, axis=1)], clear.max(axis=1) > certain
    if not gaussian and known.any():  # noise may stand out far from the others, more than what the column has near them
        off = np.abs(cells - np.median(middle[known]))
        near = np.where(off <= _NEAR, clear, -math.inf)
        best = np.argmax(near, axis=1)
        nearer = near.max(axis=1) > np.maximum(certain, _LESS * clear.max(axis=1))
        middle = np.where(
            nearer & (off[best] < _NEAR), cells[best], middle
        )  # at the end, it is a part of what is beyond
    normal = np.exp2((middle - REACH) / 2 + _FAR)
    above = middle[:, None] + np.arange(1, _ABOVE)  # cells that may hold the far end
    limit = stands_out(above.size * len(_WINDOWS), gaussian, FALSE_END) * noise
    highest = np.full(len(counts), -1)
    first = max(_WINDOWS)
    sums = np.zeros((len(counts), first + counts.shape[1] + _ABOVE))
    sums[:, first:-_ABOVE] = counts
    sums = np.cumsum(sums, axis=1)
    for window in _WINDOWS:  # of tails that are spread over many cells only windows stand out
        tails = np.take_along_axis(sums[:, first:] - sums[:, first - window : -window], above, axis=1)
        seen = (above < counts.shape[1]) & (tails > limit * math.sqrt(window))
        highest = np.maximum(highest, np.where(seen, above - (window - 1), -1).max(axis=1))
    edge = np.where((highest >= 0) & ends, _upper_edge(highest), 0.0)
    return np.where(known, np.maximum(normal, edge), 1.0), known, sure


def _upper_edge(cell: Integers) -> Floats:
    """Of differences, twice the halves that the cell holds."""
    return np.exp2((cell + 1 - REACH) / 2) * 2
