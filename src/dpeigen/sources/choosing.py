"""Which rows of a person are used, and which one stands for the person: drawn without looking at a value.

Draws for different people have nothing to do with each other, so another person with other rows changes no law of what
is drawn of the rest.
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
_DRAWN, _DRAWS = 2**20, 16  # rows that are drawn from at a time, at least; and draws, at most
_ENOUGH_ROWS = 50_000  # of people, in a sample: more would tell little that is new beside its noise


def enough_rows(people: float) -> int:
    """How many rows of a person are enough where a first look is taken at so many people, a public number.

    How many rows people have is private, so it decides nothing here.
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
        """Rows of one person that are used."""
        return MOST_SHARED if self.max_rows is None else self.max_rows

    def shared(self, used: NDArray[np.int64]) -> NDArray[np.int64]:
        """Among how many rows a weight of one is divided, where so many rows of a person are used."""
        return used if self.max_rows is None else np.maximum(used, self.counts_as)

    @property
    def counts_as(self) -> int:
        """The rows as which a person counts, at most, where each row counts alike."""
        return self.most if self.counted is None else self.counted


@dataclass(frozen=True)
class Chooser:
    """Makes blocks of rows that come with all rows of their people, on whatever machine; the same ones every time."""

    limits: UnitLimits
    token: bytes  # secret: the draws follow from it

    def block(self, rows: Any, whose: NDArray[Any]) -> UnitBlock:
        """``whose``: something for each row that tells people apart."""
        names, codes = np.unique(whose, return_inverse=True)
        people = int(codes.max(initial=-1)) + 1
        # Draws of blocks have nothing to do with each other: no two blocks have the same people.
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
    """A block of rows of which an engine has told the size of their people, and their places there from 1 on.

    ``whose``: a number for each row that tells people apart. ``coins``: for each row a number from 0 to 1, used for
    those in the first place.
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
    """By person: among how many rows the weight is shared. By row: who stands for their person; who is kept, or all."""
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
    """Places of rows, some people at a time with all their rows: a draw for all at once would take much memory."""
    rows = max(_DRAWN, len(codes) // _DRAWS)
    part = np.cumsum(sizes) // rows
    for number in np.unique(part):
        low, high = np.searchsorted(part, [number, number + 1])
        whole = low == 0 and high == len(sizes)
        yield np.arange(len(codes)) if whole else np.flatnonzero((codes >= low) & (codes < high))


def first_of_each(codes: Codes, order: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """One row of each person: the first in an order, or in that of the table."""
    people = int(codes.max(initial=-1)) + 1
    if order is None and len(codes):  # numbers that grow as people first come up tell it by themselves
        largest = np.maximum.accumulate(codes)
        heads = np.diff(largest, prepend=largest.dtype.type(-1)) > 0
        if np.count_nonzero(heads) == people:
            return heads
    first = np.full(people, -1, dtype=np.int64)
    if order is None:
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # of several the last counts
    else:
        first[codes[order]] = order
    heads = np.zeros(len(codes), dtype=bool)
    heads[first[first >= 0]] = True
    return heads


def ranks(codes: Codes, rng: Randomness) -> NDArray[np.int64]:
    """The place of each row among those of its person, from 0 on, in a random order."""
    # Sorted by person, and there by random numbers. What ties do has nothing to do with values.
    keys = (rng.uniform(len(codes)) * 2.0**_COIN_BITS).astype(np.int64)
    keys += codes.astype(np.int64) << _COIN_BITS  # people are fewer than 2^31: their rows were counted in memory
    order = np.argsort(keys)
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    numbers = np.arange(len(codes))
    numbers -= np.repeat(starts, np.diff(starts, append=len(codes)))
    found = np.empty(len(codes), dtype=np.int64)
    found[order] = numbers
    return found
