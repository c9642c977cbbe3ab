"""Positions of rows on a plane: exact counts of cells, and sums of clipped positions for each class.

The plane, its window and the list of classes are public. The scores of a row are computed from exact sums of integers
(`frame.exact_scores`), and its cell and its clipped position are elementwise functions of the scores. So the image of a
row depends on that row alone, and every source gives the same integers.

Sensitivities, for any rows:

- cells: a row is in one cell of one group, or in none. ℓ1: add/remove 1, replace 2.
- classes: a row adds (C, z) to one class, or nothing. z has two integers with |z₁| + |z₂| ≤ L, which is checked on the
  integers themselves. ℓ1: add/remove C + L, replace 2(C + L). L = 2^20, and C = L/2 is the weight of a row in the
  count.

>>> view = PlaneView(Frame(2), np.eye(2), np.array([[-1.0, 1.0], [-1.0, 1.0]]), np.ones(2), (0, 1))
>>> PlaneCells(view, cells=2).update(np.array([[-0.5, 0.5], [7.0, 0.1]])).counts.tolist()
[[[0, 1], [0, 1]]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats, Integers
from dpeigen.privacy.budget import Relation
from dpeigen.stats.base import Statistic
from dpeigen.stats.frame import Frame
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.moments import MOST_ROWS, chunk_rows
from dpeigen.stats.score_frame import exact_scores

__all__ = ["COUNT_WEIGHT", "PlaneCells", "PlaneView", "cell_sensitivity", "class_sensitivity"]

COUNT_WEIGHT = LEVELS // 2
_FAR = 1e100  # positions are limited to this many clip lengths, so that quotients cannot overflow


@dataclass(frozen=True, eq=False)
class PlaneView:
    """Public facts that determine the position of a row on a plane, and its class.

    ``features`` and ``classes`` are column indices. ``window`` is the displayed rectangle in scores. ``clip``: the
    half-axes of the rhombus about its middle to which positions are clipped before they are summed. A row belongs to
    the first class whose column is 1.
    """

    frame: Frame
    directions: Floats  # 2 × d
    window: Floats  # (low, high) of each axis
    clip: Floats  # 2
    features: tuple[int, ...]
    classes: tuple[int, ...] = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlaneView):
            return False
        names = ("directions", "window", "clip", "features", "classes")
        same = all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)
        return same and self.frame == other.frame

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    def scores(self, rows: NDArray[Any]) -> Floats:
        """Scores along both directions; those of a row depend on that row alone."""
        return exact_scores(self.frame.image(rows[:, self.features]), self.directions, residual=False)

    def class_of(self, rows: NDArray[Any]) -> Integers:
        """The class of each row, or ``n_classes`` for none."""
        flags = np.column_stack([rows[:, self.classes] == 1, np.ones(len(rows), dtype=bool)])
        return np.argmax(flags, axis=1)

    def cells(self, scores: Floats, cells: int) -> Integers:
        """The cell of each score, 0 to cells² − 1; scores outside the window are in the nearest cell at its edge."""
        low, high = self.window.T
        with np.errstate(over="ignore", invalid="ignore"):
            places = np.nan_to_num(np.floor((scores - low) * (cells / (high - low))), nan=0.0)  # defined for any window
            steps = np.clip(places, 0, cells - 1).astype(np.int64)
        return steps[:, 0] * cells + steps[:, 1]

    def positions(self, scores: Floats) -> Floats:
        """Integers z with |z₁| + |z₂| ≤ 2^20: the score minus the window's middle, in units of ``clip``/2^20."""
        with np.errstate(over="ignore"):
            place = np.clip((scores - self.window.mean(axis=1)) / self.clip, -_FAR, _FAR)
        length = np.maximum(np.abs(place[:, 0]) + np.abs(place[:, 1]), 1.0)
        lattice = np.trunc(place * (LEVELS / length)[:, None])
        inside = np.abs(lattice[:, 0]) + np.abs(lattice[:, 1]) <= LEVELS  # true by trunc, but the proof uses this check
        return np.where(inside[:, None], lattice, 0.0)


class PlaneCells(Statistic):
    """``counts`` (groups × cells × cells) and ``sums`` (classes × 3: weighted count, two positions), in integers.

    There is one group of all rows, or, ``by_class``, one for each class; then rows without a class are in no cell.
    """

    def __init__(self, view: PlaneView, cells: int, *, by_class: bool = False) -> None:
        self.view, self.cells, self.by_class = view, cells, by_class
        self.count = 0
        self.counts: Integers = np.zeros((view.n_classes if by_class else 1, cells, cells), dtype=np.int64)
        self.sums: Integers = np.zeros((view.n_classes, 3), dtype=np.int64)

    def fresh(self) -> PlaneCells:
        return PlaneCells(self.view, self.cells, by_class=self.by_class)

    def update(self, block: Any) -> PlaneCells:
        size = chunk_rows(len(self.view.features) + self.view.n_classes)
        for start in range(0, len(block), size):
            self._take(np.asarray(block[start : start + size]))
        return self

    def _take(self, rows: NDArray[Any]) -> None:
        self._check_room(len(rows))
        scores, classes = self.view.scores(rows), self.view.class_of(rows)
        cell = self.view.cells(scores, self.cells)
        if self.by_class:
            cell = (cell + classes * self.cells**2)[classes < self.view.n_classes]
        self.counts += np.bincount(cell, minlength=self.counts.size).reshape(self.counts.shape)
        if self.view.n_classes:
            weights = np.column_stack([np.full(len(rows), float(COUNT_WEIGHT)), self.view.positions(scores)])
            for column in range(3):  # integers below 2^53 in doubles: exact
                totals = np.bincount(classes, weights=weights[:, column], minlength=self.view.n_classes + 1)
                self.sums[:, column] += totals[:-1].astype(np.int64)
        self.count += len(rows)

    def merge(self, other: PlaneCells) -> PlaneCells:
        if (other.view, other.cells, other.by_class) != (self.view, self.cells, self.by_class):
            raise ValueError("Maps of different planes cannot be merged.")
        self._check_room(other.count)
        self.counts += other.counts
        self.sums += other.sums
        self.count += other.count
        return self

    def _check_room(self, more: int) -> None:
        if self.count + more > MOST_ROWS:
            raise ValueError(f"More than {MOST_ROWS} rows: sums would leave 64-bit integers. Split the data.")


def cell_sensitivity(relation: Relation) -> int:
    """The ℓ1 sensitivity of ``counts``, in rows."""
    return 2 if relation is Relation.REPLACE else 1


def class_sensitivity(relation: Relation) -> int:
    """The ℓ1 sensitivity of ``sums``, in grid steps."""
    return (COUNT_WEIGHT + LEVELS) * (2 if relation is Relation.REPLACE else 1)
