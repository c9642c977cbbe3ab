"""Which rows of a person are used, and which row represents the person: drawn independently of all values.

Draws for different people are independent, so changing one person's rows does not change the distribution of the draws
for the others.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.privacy import Randomness
from dpeigen.privacy.randomness import choosing
from dpeigen.sources.ids import Codes
from dpeigen.stats.units import MOST_SHARED, UnitBlock

__all__ = ["Chooser", "UnitLimits", "chosen", "enough_rows", "first_of_each", "placed", "ranks"]

_COIN_BITS = 32
_DRAWN, _DRAWS = 2**20, 16  # least rows per draw, and most draws
_ENOUGH_ROWS = 50_000  # rows of people in a sample: more would add little information beside the noise


def enough_rows(people: float) -> int:
    """The number of rows per person that is enough for a first measurement of this public number of people.

    It does not depend on how many rows people have, because that is private.
    """
    return math.ceil(_ENOUGH_ROWS / people)


@dataclass(frozen=True)
class UnitLimits:
    """``max_rows``, ``thinned`` and ``counted`` of a `UnitSource`."""

    max_rows: int | None
    thinned: bool
    counted: int | None = None

    @property
    def most(self) -> int:
        """The most rows of one person that are used."""
        return MOST_SHARED if self.max_rows is None else self.max_rows

    def shared(self, used: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of rows among which a weight of 1 is divided, if ``used`` rows of a person are used."""
        return used if self.max_rows is None else np.maximum(used, self.counts_as)

    @property
    def counts_as(self) -> int:
        """The most rows of a person that count, if every row has equal weight."""
        return self.most if self.counted is None else self.counted


@dataclass(frozen=True)
class Chooser:
    """Makes unit blocks from blocks with all rows of their people, on any machine, with the same draws every time."""

    limits: UnitLimits
    token: bytes  # secret; it determines the draws

    def block(self, rows: Any, whose: NDArray[Any]) -> UnitBlock:
        """A unit block; ``whose``: a value for each row that identifies its person."""
        names, codes = np.unique(whose, return_inverse=True)
        people = int(codes.max(initial=-1)) + 1
        # Draws of blocks are independent: no two blocks have the same people.
        token = hashlib.blake2b(names.tobytes(), key=self.token[:64], digest_size=16).digest()
        codes = codes.reshape(-1)
        sizes, heads, kept = chosen(codes, people, self.limits, choosing(token))
        found = UnitBlock(rows, sizes[codes], heads, self.limits.max_rows is not None, codes)
        return found if kept is None else found[kept]


def placed(
    rows: Any,
    limits: UnitLimits,
    whose: NDArray[Any],
    sizes: NDArray[Any],
    places: NDArray[Any],
    coins: NDArray[Any],
) -> UnitBlock:
    """A unit block of rows for which an engine gives their person's number of rows, and their position in it from 1.

    ``whose``: a number for each row that identifies its person. ``coins``: for each row a number from 0 to 1, used for
    rows in position 1.
    """
    used = np.minimum(sizes.astype(np.int64), limits.most)
    heads = places == 1
    if limits.thinned:
        heads = heads & (coins * limits.counts_as < used)
    capped = limits.max_rows is not None
    found = UnitBlock(rows, limits.shared(used), heads, capped, np.column_stack([whose, used]) if capped else None)
    kept = places <= limits.most
    return found if kept.all() else found[kept]


def chosen(
    codes: Codes, people: int, limits: UnitLimits, rng: Randomness
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_] | None]:
    """For each person the number of rows that share its weight; for each row whether it is the head, and is kept.

    The last is None if all rows are kept.
    """
    sizes = np.bincount(codes, minlength=people)
    used = np.minimum(sizes, limits.most)
    heads = np.zeros(len(codes), dtype=bool)
    kept = np.ones(len(codes), dtype=bool) if bool((sizes > limits.most).any()) else None
    for places in _by_people(codes, sizes):
        whose = codes[places]
        if kept is None:
            heads[places] = first_of_each(whose - whose.min(initial=0), rng.permutation(len(places)))
        else:
            found = ranks(whose, rng)
            heads[places], kept[places] = found == 0, found < limits.most
    if limits.thinned:
        heads &= (rng.uniform(people) * limits.counts_as < used)[codes]
    return limits.shared(used), heads, kept


def _by_people(codes: Codes, sizes: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    """Indices of rows, some people at a time with all their rows: one draw for everyone would need much memory."""
    rows = max(_DRAWN, len(codes) // _DRAWS)
    part = np.cumsum(sizes) // rows
    for number in np.unique(part):
        low, high = np.searchsorted(part, [number, number + 1])
        whole = low == 0 and high == len(sizes)
        yield np.arange(len(codes)) if whole else np.flatnonzero((codes >= low) & (codes < high))


def first_of_each(codes: Codes, order: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """One row of each person: the first in the given order, or in that of the table."""
    people = int(codes.max(initial=-1)) + 1
    if order is None and len(codes):  # fast if people are numbered in the order in which they first appear
        largest = np.maximum.accumulate(codes)
        heads = np.diff(largest, prepend=largest.dtype.type(-1)) > 0
        if np.count_nonzero(heads) == people:
            return heads
    first = np.full(people, -1, dtype=np.int64)
    if order is None:
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of several, the last is used
    else:
        first[codes[order]] = order
    heads = np.zeros(len(codes), dtype=bool)
    heads[first[first >= 0]] = True
    return heads


def ranks(codes: Codes, rng: Randomness) -> NDArray[np.int64]:
    """The position of each row among those of its person, from 0, in a random order."""
    # Sorted by person, then by random numbers. Ties are resolved independently of values.
    keys = (rng.uniform(len(codes)) * 2.0**_COIN_BITS).astype(np.int64)
    keys += codes.astype(np.int64) << _COIN_BITS  # there are fewer than 2^31 people: their rows were counted in memory
    order = np.argsort(keys)
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    numbers = np.arange(len(codes))
    numbers -= np.repeat(starts, np.diff(starts, append=len(codes)))
    found = np.empty(len(codes), dtype=np.int64)
    found[order] = numbers
    return found
