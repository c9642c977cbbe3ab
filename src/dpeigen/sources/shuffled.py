"""All rows of a source in a uniformly random order, and random disjoint pairs of rows.

Guarantee: the order is drawn independently of the rows, and every order is equally likely, however the rows are stored.
So the distribution of anything computed from the shuffled rows depends on the set of rows and not on their positions. A
table that is sorted by a private column, in which one changed value moves other rows, is thus treated like any other.
Tables that differ in one row are compared under orders in which that row has the same position.

Rows in memory are indexed in the new order. Other rows are written to unnamed temporary files, one for each part of the
new order, and each file is sorted when it is read back: two sequential passes, whatever the number of rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.privacy import Randomness
from dpeigen.sources.base import Source, some_of

__all__ = ["PairedSource", "ShuffledSource", "shuffled"]

_BLOCK_ROWS = 8192  # an even number, so that no pair is split
_MEMORY = 2**28  # bytes of rows that are sorted at a time
_MOST_FILES = 512


def shuffled(source: Source, rng: Randomness) -> Iterator[NDArray[Any]]:
    """The rows in random order, in blocks of `_BLOCK_ROWS` (the last may be shorter)."""
    rows = source.in_memory()
    if rows is not None:
        order = rng.permutation(source.check_rows(len(rows)))
        for at in range(0, len(rows), _BLOCK_ROWS):
            yield some_of(rows, order[at : at + _BLOCK_ROWS])
        return
    for stretch in _stretches(source, rng):
        for at in range(0, len(stretch), _BLOCK_ROWS):
            yield stretch[at : at + _BLOCK_ROWS]


def _stretches(source: Source, rng: Randomness) -> Iterator[NDArray[np.float64]]:
    """The rows in random order, in parts of `_MEMORY` bytes."""
    n, d = source.count_rows(), source.n_features
    places = np.empty(n, dtype=np.intp)
    places[rng.permutation(n)] = np.arange(n)  # the new position of each row: the same order as for rows in memory
    size = -(-max(_MEMORY // (8 * d), n // _MOST_FILES, 1) // _BLOCK_ROWS) * _BLOCK_ROWS  # whole blocks
    stretches = places // size
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(-(-n // size))]
        at = 0
        for block in source.blocks():
            if at + len(block) <= n:
                rows, which = np.asarray(block, dtype=np.float64), stretches[at : at + len(block)]
                for number in np.unique(which):
                    files[number].write(rows[which == number].tobytes())
            at += len(block)
        source.check_rows(at)
        for number, file in enumerate(files):
            inside = places[stretches == number] - number * size
            file.seek(0)
            ordered = np.empty((len(inside), d))
            ordered[inside] = np.frombuffer(file.read()).reshape(len(inside), d)
            file.close()
            yield ordered


class ShuffledSource(Source):
    """Rows in a secret random order; each pass draws a new order."""

    in_random_order = True

    def __init__(self, source: Source, rng: Randomness) -> None:
        self._source, self._rng = source, rng
        self.n_features, self.feature_names = source.n_features, source.feature_names
        self.n_rows = source.n_rows

    def blocks(self) -> Iterator[Any]:
        return shuffled(self._source, self._rng)

    def finished(self) -> None:
        self._source.finished()


class PairedSource(ShuffledSource):
    """Rows in a secret random order, so that consecutive rows are random disjoint pairs.

    In sorted data (by class, by date) similar rows would otherwise be paired. Every pairing is equally likely, so one
    changed row changes one pair, and the distribution of the others stays the same.

    Parameters
    ----------
    source : Source
        The rows.
    rng : Randomness
        The generator of the order.
    check : function of a block
        It is also called with a row without partner, so that a bad row is refused by the first pass, before any noise
        is drawn.
    """

    def __init__(self, source: Source, rng: Randomness, check: Callable[[Any], Any] = len) -> None:
        super().__init__(source, rng)
        self._check = check

    def blocks(self) -> Iterator[Any]:
        for block in super().blocks():
            if len(block) % 2:
                self._check(block[-1:])
            yield block[: len(block) // 2 * 2]  # if the number of rows is odd, one is left out

    def check_rows(self, count: int) -> int:
        return count  # one may be left out; the original source checks its own number
