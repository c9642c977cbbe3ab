"""Joint clipping of all rows of one person, if every row has equal weight (``max_rows``).

A person with rows of norms n₁..n_j, each with weight 1/m, j ≤ m, counts as one row of norm √(Σn²/m), the *joint
length*. If that exceeds the radius, all rows of the person are multiplied by one factor that makes the joint length
equal to the radius.

On the lattice (`stats.lattice`) this is done in integers. Norms relative to the person's largest, squared and rounded
up to steps of 2^-40, are integers a with sum S, whatever the order of the rows. The squared norm of a row is limited to
⌊a·B/S⌋, where B = L² − s is the limit of their sum. So Σ|z|² ≤ B holds for the integers themselves, and everything that
is proven for one row with |z| ≤ L holds for one person (docs/sensitivity.md). All of this depends on the rows of that
person alone.

>>> whole = joint_lengths(np.array([3.0, 4.0, 1.0]), np.array([0, 0, 1]), 2, np.array([2, 2]))
>>> [round(float(length), 6) for length in whole.lengths]
[3.535534, 0.707107]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.exact_norms import LARGEST_FLOAT, row_norms
from dpeigen.stats.frame import RowView
from dpeigen.stats.stretch import WhitenedRows
from dpeigen.stats.units import Together, UnitBlock

__all__ = ["MOST_CAPPED", "JointLengths", "joint_lengths", "norms_of", "with_joint_lengths"]

_STEPS = 2.0**40
_ROWS = 2**16  # summed at a time
MOST_CAPPED = 2**20  # the most rows of one person: with more, a row would be shorter than 2^10 grid steps


@dataclass(frozen=True)
class JointLengths:
    """For each person: the largest norm of a row, the sum S of the integers a, and the joint length."""

    largest: Floats
    sums: NDArray[np.int64]
    lengths: Floats

    def of(self, norms: Floats, whose: NDArray[Any], firsts: NDArray[np.bool_]) -> Together:
        """For each of these rows, its part of the person's squared length."""
        parts = _parts(norms, self.largest[whose])
        return Together(parts.astype(np.float64), self.sums[whose].astype(np.float64), self.lengths[whose], firsts)


def joint_lengths(norms: Floats, whose: NDArray[Any], people: int, sizes: NDArray[np.int64]) -> JointLengths:
    """Joint lengths from the norms of all rows; ``whose``: the person of each row; ``sizes``: m of each person."""
    largest, sums = np.zeros(people), np.zeros(people, dtype=np.int64)
    np.maximum.at(largest, whose, norms)
    for start in range(0, len(norms), _ROWS):  # integers: the sum does not depend on the order
        part = slice(start, start + _ROWS)
        np.add.at(sums, whose[part], _parts(norms[part], largest[whose[part]]))
    with np.errstate(over="ignore"):
        return JointLengths(largest, sums, largest * np.sqrt(sums / (_STEPS * sizes)))


def _parts(norms: Floats, largest: Floats) -> NDArray[np.int64]:
    ratio = np.divide(norms, largest, out=np.zeros(len(norms)), where=largest > 0)
    return np.ceil(ratio * ratio * _STEPS).astype(np.int64)  # at most 2^40 each, and at most 2^20 of them


def norms_of(rows: Any, views: Sequence[RowView]) -> list[Floats]:
    """Finite norms of rows in each view; that of a row depends on that row alone."""
    found: list[list[Floats]] = [[np.empty(0)] for _ in views]
    shared = len(views) > 1 and all(isinstance(view, WhitenedRows) for view in views)  # then they share one basis
    size = max(512, 2**16 // max(1, *(view.n_columns for view in views)))  # small enough for the cache
    for start in range(0, len(rows), size):
        block = np.asarray(rows[start : start + size])
        scores = views[0].scores(block) if shared else None  # type: ignore[attr-defined]
        for view, norms in zip(views, found, strict=True):
            image = view.image(block) if scores is None else view.times_factors(*scores)  # type: ignore[attr-defined]
            norms.append(np.minimum(row_norms(image), LARGEST_FLOAT))
    return [np.concatenate(norms) for norms in found]


def with_joint_lengths(block: Any, views: Sequence[RowView]) -> Any:
    """The block; if its rows are capped, with the joint lengths of their people in each view."""
    if not isinstance(block, UnitBlock) or not block.capped or block.together:
        return block
    if block.whose is None:
        raise AssertionError("rows that are clipped together come with all rows of their people")
    _, firsts, codes = np.unique(block.whose, return_index=True, return_inverse=True)
    codes, marks, sizes = codes.reshape(-1), np.zeros(len(block), dtype=bool), block.sizes[firsts]
    marks[firsts] = True
    norms = norms_of(block.rows, views)
    return block.given([joint_lengths(each, codes, len(firsts), sizes).of(each, codes, marks) for each in norms])
