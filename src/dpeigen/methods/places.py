"""Places of columns, in units of their scales: noisy counts of entries, by octaves and then by finer cells.

Guarantee: nothing is read here but answers that are paid for (`questions.columns`).

Entries are counted by octaves of the scale on either side of 0, then the fullest octave is divided until its cells are
as wide as the scale. Columns far away need more steps, which share what the first one leaves.
"""

from __future__ import annotations

import math

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

__all__ = ["ask_places", "place_integers", "settled"]

_LOOKS = 9  # for a place, at most
_NEAR_ZERO = 0.75  # scales
_FINE = 1.0  # scales: the width of the cells that a place is looked for in


def place_integers(d: int) -> int:
    """How many integers with noise `ask_places` draws at most."""
    return d * (Octaves.n_cells + (_LOOKS - 1) * CELLS)


def ask_places(curator: Curator, scale: Floats, cost: Cost, task: Task) -> tuple[Floats, Bools]:
    """Where every column lies, to about a quarter of its scale; and whether its place stood out (else about 0)."""
    gaussian, everything, third = isinstance(cost, GaussianCost), tuple(range(len(scale))), part_of(cost, 3)
    view = Frame(len(scale), None, 1 / scale, missing=task.missing)
    counts = curator.measure(ColumnCounts(view, "octaves", everything), purpose=Purpose.PLACES, cost=third)
    fullest, found = _fullest(counts, gaussian)
    away = np.where(found, fullest - OCTAVES, 0)
    width = np.where(away == 0, 2.0, np.exp2(np.abs(away) - 1.0)) * scale
    low = np.where(away > 0, width, np.where(away < 0, -2 * width, -width / 2))
    looks = max(1, math.ceil(math.log(float((width / scale).max()) / _FINE, CELLS) - 1e-9))
    for _ in range(looks):
        cells = np.clip(np.ceil(width / (scale * _FINE) * (1 - 1e-9)), 1, CELLS)
        view = Frame(len(scale), low, cells / width, missing=task.missing)
        each = part_of(sum_of(third, third), looks)
        most = min(CELLS, int(cells.max()) + 1)  # the best cell and its neighbours are looked at
        asked = ColumnCounts(view, "stretch", everything, most)
        counts = curator.measure(asked, purpose=Purpose.PLACES, cost=each)
        width = width / cells
        best = _fullest(counts, gaussian, cells)[0]
        low = low + best * width
    return low + _middle(counts.counts, best) * width, found


def _fullest(counts: NoisyCounts, gaussian: bool, cells: Floats | float = math.inf) -> tuple[Integers, Bools]:
    """The fullest of the first ``cells`` cells of every column, and whether it stands out."""
    real = np.arange(counts.counts.shape[1]) < np.reshape(cells, (-1, 1))
    inside = np.where(real, counts.counts, -math.inf)
    return np.argmax(inside, axis=1), inside.max(axis=1) > stands_out(inside.size, gaussian) * counts.deviation


def _middle(counts: Floats, best: Integers) -> Floats:
    """The mean place of what the best cell and its neighbours hold, in cells from the lower end of the best."""
    near = np.pad(np.maximum(counts, 0.0), ((0, 0), (1, 1)))
    below, inside, above = (np.take_along_axis(near, best[:, None] + step, axis=1)[:, 0] for step in range(3))
    return 0.5 + (above - below) / np.maximum(below + inside + above, 1.0)


def settled(center: Floats, scale: Floats, known: Bools) -> Floats:
    """The places of columns, 0 for those of which nothing else is known and in whose cell, or beside it, 0 lies.

    A column in which nothing stands out has one value in nearly all rows, which is anywhere in its cell. Mostly it is
    a rare indicator or count, so that value is 0.
    """
    return np.where(~known & (np.abs(center) <= _NEAR_ZERO * scale), 0.0, center)
