"""Where rows come from. A source yields blocks; `reduce` feeds them to a statistic on all cores.

Statistics are exact and merge in any order, so the threads here, and any other engine, give the same integers.
Workers see a statistic and its public parameters, never the random generator or the ledger.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from dpeigen.privacy import Randomness
from dpeigen.stats import BadRowsError, Statistic
from dpeigen.stats.threads import single_blas, workers

S = TypeVar("S", bound=Statistic)
_SMALL = 2**17  # below this many numbers a second thread costs more than it saves


class UnreadableRowsError(BadRowsError):
    """Rows that a source could not read as numbers. The message holds no value of the data."""


class Source(ABC):
    """Rows × features, readable more than once."""

    n_features: int
    feature_names: list[str] | None = None
    n_rows: int | None = None  # None when only a full read would tell

    @abstractmethod
    def blocks(self) -> Iterator[Any]:
        """Blocks of rows, in order; each can be indexed by a slice and turned into an array."""

    def count_rows(self) -> int:
        """The number of rows: known, or counted by reading. Only for when it is public."""
        return self.n_rows if self.n_rows is not None else sum(len(block) for block in self.blocks())

    def whole_blocks(self) -> Iterator[Any]:
        """Large blocks whose borders depend on row numbers only: what pairs are drawn within."""
        return self.blocks()

    def reduce(self, statistic: S) -> S:
        """The statistic of all rows."""
        source, lock = self.blocks(), threading.Lock()

        def work() -> S:
            part = statistic.fresh()
            while True:
                with lock:
                    block = next(source, None)
                if block is None:
                    return part
                part.update(block)

        small = self.n_rows is not None and self.n_rows * self.n_features < _SMALL
        threads = 1 if small else workers()
        if threads == 1:
            return work()
        with single_blas(), ThreadPoolExecutor(threads) as pool:
            first, *others = [future.result() for future in [pool.submit(work) for _ in range(threads)]]
        for other in others:
            first.merge(other)
        return first


class PairedSource(Source):
    """Rows in a secret random order within each block, so that consecutive rows make random disjoint pairs.

    Sorted data (by class, by date) would otherwise pair like with like. The order does not depend on the data.
    """

    def __init__(self, source: Source, rng: Randomness) -> None:
        self._source, self._rng = source, rng
        self.n_features, self.feature_names = source.n_features, source.feature_names
        self.n_rows = source.n_rows

    def blocks(self) -> Iterator[Any]:
        for block in self._source.whole_blocks():
            rows = np.asarray(block)
            order = self._rng.permutation(len(rows))[: len(rows) // 2 * 2]  # of an odd number, one sits out
            for start in range(0, len(order), 8192):
                yield rows[order[start : start + 8192]]
