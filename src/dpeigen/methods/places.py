"""Locations ("places") of columns in units of their scales, from noisy counts by octaves and then by finer cells.

Guarantee: only answers that are paid for are used (`questions.columns`).

Entries are counted by octaves of the scale on either side of 0. Then the fullest octave is divided until its cells are
as wide as the scale. Columns far from 0 need more steps, which share the budget that the first step leaves. Each step
counts in a cell on either side too: the rows of a column whose location is known already are in the middle of three.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpeigen._types import Bools, Floats, Integers
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.costs import part_of, sum_of
from dpeigen.methods.base import Task
from dpeigen.privacy import Cost, GaussianCost
from dpeigen.questions import ColumnCounts, NoisyCounts
from dpeigen.stats import Frame
from dpeigen.stats.columns import CELLS, OCTAVES, Octaves
from dpeigen.stats.standing_out import stands_out

__all__ = ["Places", "ask_places", "place_integers", "settled"]

_LOOKS = 9  # the most measurements for a location
_NEAR_ZERO = 0.75  # in scales
_FINE = 1.0  # the final width of cells, in scales
_NEARBY = 4  # octaves from 0 in which a location is looked for, if no octave exceeds the noise


class Places(NamedTuple):
    """The location of every column; and the last cell it was found in, with noisy counts there and on either side."""

    place: Floats
    found: Bools  # whether it was found (else it is near 0)
    low: Floats
    width: Floats
    below: Floats
    inside: Floats
    above: Floats
    deviation: float  # of the noise on a count


def place_integers(d: int) -> int:
    """The most noisy integers that `ask_places` draws."""
    return d * (Octaves.n_cells + (_LOOKS - 1) * CELLS)


def ask_places(curator: Curator, scale: Floats, cost: Cost, task: Task) -> Places:
    """The location of every column, to about a quarter of its scale."""
    gaussian, everything, third = isinstance(cost, GaussianCost), tuple(range(len(scale))), part_of(cost, 3)
    view = Frame(len(scale), None, 1 / scale, missing=task.missing)
    counts = curator.measure(ColumnCounts(view, "octaves", everything), purpose=Purpose.PLACES, cost=third)
    fullest, found = _fullest(counts, gaussian)
    nearby = np.argmax(counts.counts[:, OCTAVES - _NEARBY : OCTAVES + _NEARBY + 1], axis=1) - _NEARBY
    furthest = _furthest(task, scale)
    away = np.clip(np.where(found, fullest - OCTAVES, nearby), -furthest, furthest)
    width = np.where(away == 0, 2.0, np.exp2(np.abs(away) - 1.0)) * scale
    low = np.where(away > 0, width, np.where(away < 0, -2 * width, -width / 2))
    most = CELLS - 2  # divided cells, and one on either side
    looks = max(1, math.ceil(math.log(float((width / scale).max()) / _FINE, most) - 1e-9))
    for _ in range(looks):
        cells = np.clip(np.ceil(width / (scale * _FINE) * (1 - 1e-9)), 1, most)
        width = width / cells
        low = low - width
        view = Frame(len(scale), low, 1 / width, missing=task.missing)
        each = part_of(sum_of(third, third), looks)
        asked = ColumnCounts(view, "stretch", everything, int(cells.max()) + 2)
        counts = curator.measure(asked, purpose=Purpose.PLACES, cost=each)
        best, seen = _fullest(counts, gaussian, cells + 2)
        low = low + best * width
    found |= seen  # half of the rows may lie in either of two octaves; their cell is then clear all the same
    near = _near(counts.counts, best)
    return Places(low + _middle(*near) * width, found, low, width, *near, counts.deviation)


def _furthest(task: Task, scale: Floats) -> Floats:
    """The octave of the largest entry inside public bounds, for every column; rows are clipped to them later."""
    if isinstance(task.bound, tuple):
        largest = np.maximum(np.abs(task.bound[0]), np.abs(task.bound[1])) / scale
    else:
        largest = np.full(len(scale), task.bound if isinstance(task.bound, float) else math.inf) / scale
    octaves = np.floor(np.log2(np.maximum(largest, 0.5))) + 1
    return np.asarray(np.minimum(octaves, OCTAVES))


def _fullest(counts: NoisyCounts, gaussian: bool, cells: Floats | float = math.inf) -> tuple[Integers, Bools]:
    """The fullest of the first ``cells`` cells of every column, and whether it exceeds the noise."""
    real = np.arange(counts.counts.shape[1]) < np.reshape(cells, (-1, 1))
    inside = np.where(real, counts.counts, -math.inf)
    return np.argmax(inside, axis=1), inside.max(axis=1) > stands_out(inside.size, gaussian) * counts.deviation


def _near(counts: Floats, best: Integers) -> tuple[Floats, Floats, Floats]:
    """Counts in the cell below the best one, in the best one, and in that above it."""
    near = np.pad(np.maximum(counts, 0.0), ((0, 0), (1, 1)))
    below, inside, above = (np.take_along_axis(near, best[:, None] + step, axis=1)[:, 0] for step in range(3))
    return below, inside, above


def _middle(below: Floats, inside: Floats, above: Floats) -> Floats:
    """The mean position of entries in the best cell and its neighbours, in cells from the lower end of the best."""
    return 0.5 + (above - below) / np.maximum(below + inside + above, 1.0)


def settled(center: Floats, scale: Floats, known: Bools) -> Floats:
    """The locations of columns, set to 0 for columns of unknown scale whose cell contains 0 or is next to it.

    A column without a scale has one value in nearly all rows, which may be anywhere in its cell. Usually it is a rare
    indicator or count, so that value is 0.
    """
    return np.where(~known & (np.abs(center) <= _NEAR_ZERO * scale), 0.0, center)
