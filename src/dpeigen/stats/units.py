"""Rows that belong to people (or other units): blocks that know the number of rows of each row's person.

A person with m rows has weight 1, which the rows share: each has weight 1/m. On the lattice (`stats.lattice`) a row is
divided by √m before it is rounded, and its squared norm is checked to be at most (L² − s)/m on the integers themselves,
with a slack s = 2^10·(√d + 1). So Σ|z|² ≤ L² − s over all rows of one person, however many there are, and everything
that is proven for one row with |z| ≤ L holds for one person (docs/sensitivity.md).

Sums of rows need the weight 1/m, but z has 1/√m. The other 1/√m is an integer w = ⌊W/√m⌋ with m·w² ≤ W², and
|Σwz| ≤ √(Σw²)·√(Σ|z|²) ≤ W·L (Cauchy and Schwarz).

Statistics that do not accept such blocks get one row of each person: the ``heads`` of a block, drawn at random. If
every row has equal weight, the rows of a person are clipped together instead of separately: `stats.together`.
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

MOST_SHARED = 4096  # the most rows of one person that are used; if there are more, this many are drawn at random
ROOT_LEVELS = 2**20  # W
_SLACK = 2**10  # times √d: covers the rounding of sums when they are divided by W


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
        """The largest squared norms of rows on a lattice, integers; those of a person sum to ≤ the squared radius."""
        whole = float(squared_radius - slack_of(n_columns))
        # Six roundings with relative errors of at most 2^-53 are less than the 2^-50 that is subtracted.
        return np.floor(self.parts * (whole / np.maximum(self.sums, 1.0)) * (1 - 2.0**-50))


@dataclass(frozen=True, eq=False)
class UnitBlock:
    """Rows; for each row the number of rows that share its person's weight; and which row represents each person.

    It is deliberately not an array, so that code which does not know about people cannot use it as rows. ``capped``:
    each row has weight 1/m for a public m, the most rows of a person, so a person may have a weight below 1. Such rows
    are clipped together. For that, a block has all rows of its people, identified by ``whose``, or comes with the
    necessary facts about them: ``together``, for each view of a statistic (`Statistic.joint_views`). ``start``: the
    number of rows in earlier blocks, if rows have an order.
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
        """The same rows, with facts about all rows of their people."""
        return replace(self, together=tuple(together))

    @property
    def people(self) -> int:
        """The number of people whose head is in the block."""
        return int(np.count_nonzero(self.heads))

    def first(self) -> Any:
        """The rows that represent their people."""
        return self.rows[self.heads]


def terms_of(block: Any) -> int:
    """The number of terms of a block: rows, or people if rows belong to people."""
    return block.people if isinstance(block, UnitBlock) else len(block)


def slack_of(n_columns: int) -> int:
    """By how much squared norms stay below the squared radius, to allow for the rounding of sums."""
    return _SLACK * (math.isqrt(n_columns) + 1)


def squared_limits(sizes: NDArray[np.int64], squared_radius: int, n_columns: int) -> Floats:
    """The largest squared norms of rows on a lattice, integers: m of them sum to at most the squared radius."""
    return _by_size(sizes, _limits, squared_radius - slack_of(n_columns))


def root_weights(sizes: NDArray[np.int64], whole: int) -> Floats:
    """Integers w with m·w² ≤ whole²; checked, because sensitivities depend on it."""
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
    """The function of every size, computed once for each distinct size, since there are few sizes and many rows."""
    if int(sizes.max(initial=1)) > MOST_SHARED:
        return function(sizes.astype(np.int64), number)
    return _table(function, number)[sizes]


@lru_cache(maxsize=32)
def _table(function: _OfSizes, number: Any) -> Floats:
    """The values for sizes from 1 to the largest; nobody has size 0."""
    return np.concatenate([[0.0], function(np.arange(1, MOST_SHARED + 1), number)])
