"""Where rows come from. A source yields blocks; `reduce` feeds them to a statistic on all cores.

Statistics are exact and merge in any order, so the threads here, and any other engine, give the same integers.
Workers see a statistic and its public parameters, never the random generator or the ledger.
"""

from __future__ import annotations

import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen._arithmetic import own_error_state
from dpeigen.privacy import Randomness
from dpeigen.sources.progress import meter
from dpeigen.stats import BadRowsError, Statistic
from dpeigen.stats.threads import single_blas, workers

S = TypeVar("S", bound=Statistic)
Order = NDArray[np.intp]
_SMALL = 2**17  # below this many numbers a second thread costs more than it saves
_WHOLE_ROWS = 2**16  # rows of a block that pairs are drawn within
_PAIRED_ROWS = 8192  # rows of a block of pairs
_MEMORY = 2**28  # bytes of rows put in a new order in memory; more go through a file that has no name


class UnreadableRowsError(BadRowsError):
    """Rows that a source could not read as numbers. The message holds no value of the data."""


def _counting(reduce: Callable[..., S]) -> Callable[..., S]:
    """The method, which says when it has finished."""

    @wraps(reduce)
    def counted(source: Source, *arguments: Any, **options: Any) -> S:
        found = own_error_state(reduce)(source, *arguments, **options)
        source.finished()
        return found

    return counted


class Source(ABC):
    """Rows × features, readable more than once.

    ``fixed_order`` says that a row's place is its own: another value in one row moves no other row. It is False where
    rows lie by their values (partitions of a cluster, folders named after a column); pairs are then drawn over all.
    ``one_block`` says that `whole_blocks` gives all rows at once, so that pairs are drawn over all of them anyway.
    ``passes`` grows whenever a statistic of all rows is handed out: its noisy version may have been seen since, so
    only a failure of the first pass costs nothing. `reduce` counts by itself, in subclasses too.
    """

    n_features: int
    feature_names: list[str] | None = None
    n_rows: int | None = None  # None when only a full read would tell
    fixed_order: bool = True
    one_block: bool = False
    width_declared: bool = True  # False where only the rows have told the number of columns
    paired_in_place: bool = False  # set when pairs were drawn within blocks: their guarantee needs the fixed order
    passes: int = 0
    _rows_read: int | None = None  # by the first pass

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in ("reduce", "reduce_in_order"):
            if name in vars(cls):
                setattr(cls, name, _counting(vars(cls)[name]))

    def check_width(self) -> None:
        """Refuse a source whose number of columns is not known."""
        if not self.width_declared and self.n_features < 1:
            raise UnreadableRowsError("There are no blocks, so the number of columns is not known: give it.")

    def finished(self) -> None:
        """A pass is over; to be called by those that read all blocks themselves, before they use what they read."""
        self.passes += 1

    @abstractmethod
    def blocks(self) -> Iterator[Any]:
        """Blocks of rows, in order; each can be indexed by a slice and turned into an array."""

    def count_rows(self) -> int:
        """The number of rows: known, or counted by reading. Only for when it is public."""
        known = self._rows_read if self.n_rows is None else self.n_rows
        return self.check_rows(self._count()) if known is None else known

    def _count(self) -> int:
        return sum(len(block) for block in self.blocks())

    def check_rows(self, count: int) -> int:
        """The rows a pass has read: refused if they are not as many as known, or as an earlier pass found."""
        known = self._rows_read if self.n_rows is None else self.n_rows
        if known is not None and count != known:
            raise UnreadableRowsError(
                "The number of rows is not the one that was declared, or changed between two reads. Nothing was spent."
            )
        self._rows_read = count
        return count

    def whole_blocks(self) -> Iterator[Any]:
        """Large blocks whose borders depend on row numbers only: what pairs are drawn within."""
        return by_row_number(self.blocks(), _WHOLE_ROWS)

    def partition_rows(self) -> list[int] | None:
        """Rows of each partition, where they lie on workers and the borders depend on row numbers only."""
        return None

    def reduce_in_order(self, statistic: S, orders: Sequence[Order]) -> S:
        """The statistic of the rows of each partition in the order given; only where `partition_rows` tells them."""
        raise NotImplementedError

    @_counting
    def reduce(self, statistic: S) -> S:
        """The statistic of all rows."""
        source, lock = self._counted(self.blocks()), threading.Lock()
        with meter(self.n_rows) as advance:

            @own_error_state
            def work() -> S:
                part = statistic.fresh()
                while True:
                    with lock:
                        block = next(source, None)
                    if block is None:
                        return part
                    part.update(block)
                    advance(len(block))

            small = self.n_rows is not None and self.n_rows * self.n_features < _SMALL
            threads = 1 if small else workers()
            if threads == 1:
                return work()
            with single_blas(), ThreadPoolExecutor(threads) as pool:
                first, *others = [future.result() for future in [pool.submit(work) for _ in range(threads)]]
            for other in others:
                first.merge(other)
            return first

    def _counted(self, blocks: Iterator[Any]) -> Iterator[Any]:
        count = 0
        for block in blocks:
            count += len(block)
            yield block
        self.check_rows(count)


def by_row_number(blocks: Iterable[Any], size: int) -> Iterator[NDArray[Any]]:
    """The same rows in blocks of a fixed size.

    Readers cut batches by bytes, so their borders depend on the values; pairs must be drawn within blocks whose borders
    depend on row numbers only, or one changed row could move every pair after it.
    """
    kept: list[NDArray[Any]] = []
    rows = 0
    for block in blocks:
        kept.append(np.asarray(block))
        rows += len(block)
        while rows >= size:
            joined = np.concatenate(kept)
            yield joined[:size]
            kept, rows = [joined[size:]], rows - size
    if rows:
        yield np.concatenate(kept)


class PairedSource(Source):
    """Rows in a secret random order, so that consecutive rows make random disjoint pairs.

    Sorted data (by class, by date) would otherwise pair like with like. The order does not depend on the data: it is
    drawn within blocks cut by row numbers, or, for rows that have no fixed order, over all rows, which makes every
    way to pair them up equally likely however they lie. (Another value in one row then changes one pair, the others
    being drawn alike.) Where rows lie on workers the orders are drawn here and sent to them.
    """

    def __init__(self, source: Source, rng: Randomness) -> None:
        self._source, self._rng = source, rng
        self.n_features, self.feature_names = source.n_features, source.feature_names
        self.n_rows = source.n_rows

    def reduce(self, statistic: S) -> S:
        lengths = self._source.partition_rows()
        if lengths is None:
            return super().reduce(statistic)
        self._source.paired_in_place = True
        return self._source.reduce_in_order(statistic, [self._order(length) for length in lengths])

    def blocks(self) -> Iterator[Any]:
        source = self._source
        source.paired_in_place = source.fixed_order and not source.one_block
        whole = source._counted(source.whole_blocks()) if source.fixed_order else scattered(source, self._rng)
        for block in whole:
            rows = np.asarray(block)
            yield from paired_blocks(rows, self._order(len(rows)))

    def finished(self) -> None:
        self._source.finished()

    def check_rows(self, count: int) -> int:
        return count  # of an odd number one sits out; the source behind counts its own

    def _order(self, rows: int) -> Order:
        return self._rng.permutation(rows)[: rows // 2 * 2]  # of an odd number, one sits out


def scattered(source: Source, rng: Randomness) -> Iterator[Any]:
    """All rows in a random order, in blocks: each row is written to its random place in an array or a file."""
    n, d = source.count_rows(), source.n_features
    places = rng.permutation(n)
    with tempfile.TemporaryFile() as file:
        small = n * d * 8 <= _MEMORY
        rows = np.empty((n, d)) if small else np.memmap(file, dtype=np.float64, mode="w+", shape=(n, d))
        at = 0
        for block in source.blocks():
            if at + len(block) <= n:
                rows[places[at : at + len(block)]] = block
            at += len(block)
        source.check_rows(at)
        for start in range(0, n, _WHOLE_ROWS):
            yield rows[start : start + _WHOLE_ROWS]


def paired_blocks(rows: NDArray[Any], order: Order) -> Iterator[NDArray[Any]]:
    """The rows in that order, in blocks of an even number."""
    for start in range(0, len(order), _PAIRED_ROWS):
        yield rows[order[start : start + _PAIRED_ROWS]]
