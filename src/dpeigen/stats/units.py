"""Rows that belong to people (or other units): blocks that know how many rows each row's person has.

A person with m rows counts one, and the rows share that: each has the weight 1/m. On the lattice (`stats.lattice`) a
row is divided by √m before it is rounded, and its squared length is checked to be at most (L² − s)/m on the integers
themselves, s = 2^10·(√d + 1) a slack. So Σ|z|² ≤ L² − s over all rows of one person, whatever they are and however
many, and whatever is proven of one row with |z| ≤ L holds of one person (docs/sensitivity.md).

Sums of rows need the weight 1/m where z has 1/√m: the other 1/√m is an integer w = ⌊W/√m⌋ with m·w² ≤ W², and
|Σwz| ≤ √(Σw²)·√(Σ|z|²) ≤ W·L (Cauchy and Schwarz).

Statistics that take no such blocks are given one row of each person: the ``heads`` of a block, drawn at random. Where
each row counts alike, rows of a person are clipped together instead of one by one: `stats.together`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats

__all__ = [
    "MOST_SHARED",
    "ROOT_LEVELS",
    "Together",
    "UnitBlock",
    "root_shares",
    "root_weights",
    "slack_of",
    "squared_limits",
    "terms_of",
]

MOST_SHARED = 4096  # rows of one person that are used; of more, so many are drawn at random
ROOT_LEVELS = 2**20  # W
_SLACK = 2**10  # times √d: covers what sums are rounded by when W is taken out


@dataclass(frozen=True, eq=False)
class Together:
    """For each row: the integers a and S of its person (`stats.together`), and the person's joint length.

    ``firsts`` marks one row of each person.
    """

    parts: Floats
    sums: Floats
    lengths: Floats
    firsts: NDArray[np.bool_]

    def __getitem__(self, part: Any) -> Together:
        return Together(self.parts[part], self.sums[part], self.lengths[part], self.firsts[part])

    def squared_limits(self, squared_radius: int, n_columns: int) -> Floats:
        """The largest squared lengths of rows on a lattice, integers: those of one person are ≤ the radius squared."""
        whole = float(squared_radius - slack_of(n_columns))
        # Six roundings, each by a part of 2^-53 at most, make up for less than the 2^-50 that is taken off.
        return np.floor(self.parts * (whole / np.maximum(self.sums, 1.0)) * (1 - 2.0**-50))


@dataclass(frozen=True, eq=False)
class UnitBlock:
    """Rows, for each row the number of rows that share its person's weight, and which rows stand for their person.

    It is no array on purpose: what does not know of people cannot take it for rows. ``capped``: each row has the
    weight 1/m for a public m, of which no person has more rows, so a person may count less than one; such rows are
    clipped together. For that a block has all rows of its people, told apart by ``whose``, or comes with what must be
    known of them: ``together``, for each view of a statistic (`Statistic.joint_views`). ``start``: the number of rows
    in the blocks before, where rows have an order.
    """

    rows: Any
    sizes: NDArray[np.int64]
    heads: NDArray[np.bool_]
    capped: bool = False
    whose: NDArray[Any] | None = None
    together: tuple[Together, ...] = ()
    start: int = 0

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, part: Any) -> UnitBlock:
        whose = None if self.whose is None else self.whose[part]
        together = tuple(each[part] for each in self.together)
        return UnitBlock(self.rows[part], self.sizes[part], self.heads[part], self.capped, whose, together)

    def given(self, together: Sequence[Together]) -> UnitBlock:
        """The same rows, with what is known of all rows of their people."""
        return replace(self, together=tuple(together))

    @property
    def people(self) -> int:
        """Of how many people the block holds the head."""
        return int(np.count_nonzero(self.heads))

    def first(self) -> Any:
        """The rows that stand for their people."""
        return self.rows[self.heads]


def terms_of(block: Any) -> int:
    """What a block adds to a number of terms: rows, or people where rows belong to them."""
    return block.people if isinstance(block, UnitBlock) else len(block)


def slack_of(n_columns: int) -> int:
    """By how much squared lengths stay below the radius squared: room for the rounding of sums."""
    return _SLACK * (math.isqrt(n_columns) + 1)


def squared_limits(sizes: NDArray[np.int64], squared_radius: int, n_columns: int) -> Floats:
    """The largest squared lengths of rows on a lattice, integers: m of them are at most the radius squared."""
    return _by_size(sizes, _limits, squared_radius - slack_of(n_columns))


def root_weights(sizes: NDArray[np.int64], whole: int) -> Floats:
    """Integers w with m·w² ≤ whole²; checked, because sensitivities rest on it."""
    return _by_size(sizes, _weights, whole)


def root_shares(sizes: NDArray[np.int64]) -> Floats:
    """1/√m."""
    return _by_size(sizes, _shares, 1.0)


def _limits(m: NDArray[np.int64], whole: int) -> Floats:
    return (whole // m).astype(np.float64)


def _weights(m: NDArray[np.int64], whole: int) -> Floats:
    found = np.floor(np.sqrt((whole**2 // m).astype(np.float64))).astype(np.int64)
    return np.where(m * found**2 <= whole**2, found, found - 1).astype(np.float64)


def _shares(m: NDArray[np.int64], whole: float) -> Floats:
    return whole / np.sqrt(m)


_OfSizes = Callable[[NDArray[np.int64], Any], Floats]


def _by_size(sizes: NDArray[np.int64], function: _OfSizes, number: Any) -> Floats:
    """The function of every size: computed once for each, since sizes are mostly small and rows many."""
    if int(sizes.max(initial=1)) > MOST_SHARED:
        return function(sizes.astype(np.int64), number)
    return _table(function, number)[sizes]


@lru_cache(maxsize=32)
def _table(function: _OfSizes, number: Any) -> Floats:
    """For sizes from 1 to the most there are; nobody has none."""
    return np.concatenate([[0.0], function(np.arange(1, MOST_SHARED + 1), number)])
