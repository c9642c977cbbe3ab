"""Where rows come from. A source yields blocks; `reduce` feeds them to a statistic on all cores.

Statistics are exact and merge in any order, so the threads here, and any other engine, give the same integers.
Workers see a statistic and its public parameters, never the random generator or the ledger.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import wraps
from typing import Any, TypeVar

from numpy.typing import NDArray

from dpeigen._arithmetic import own_error_state
from dpeigen.sources.declared import Declared
from dpeigen.sources.progress import meter
from dpeigen.stats import BadRowsError, Statistic
from dpeigen.stats.threads import single_blas, workers
from dpeigen.stats.units import terms_of

__all__ = ["S", "Source", "UnreadableRowsError"]

S = TypeVar("S", bound=Statistic)
_SMALL = 2**17  # below this many numbers a second thread costs more than it saves


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

    ``fixed_order`` says that every pass meets the rows in the same order, so that numbers given apart can be matched to
    them. It is False where rows lie by their values (partitions of a cluster, folders named after a column). No
    guarantee rests on it: whatever depends on the order of rows reads them through `sources.shuffled`.
    ``passes`` grows whenever a statistic of all rows is handed out: its noisy version may have been seen since, so
    only a failure of the first pass costs nothing. `reduce` counts by itself, in subclasses too.
    """

    n_features: int
    feature_names: list[str] | None = None
    schema: dict[str, Declared] | None = None  # what columns were declared to be, where not all are plain numbers
    n_rows: int | None = None  # None when only a full read would tell
    fixed_order: bool = True
    in_random_order: bool = False  # whether rows come in a secret random order, drawn without looking at them
    width_declared: bool = True  # False where only the rows have told the number of columns
    row_note: str = ""  # what a row is, for guarantees that bad rows were counted in, where that may surprise
    read_once: bool = False  # whether a second pass is refused
    passes: int = 0
    _rows_read: int | None = None  # by the first pass

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "reduce" in vars(cls):
            cls.reduce = _counting(vars(cls)["reduce"])  # type: ignore[method-assign]

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

    def blocks_for(self, statistic: Statistic) -> Iterator[Any]:  # noqa: ARG002
        """Read blocks with what a statistic must know of them beforehand.

        Parameters
        ----------
        statistic : Statistic
            What will be computed.

        Returns
        -------
        iterator of blocks
            Blocks of rows.
        """
        return self.blocks()

    def count_rows(self) -> int:
        """Return the number of rows: known, or counted by reading. Only for when it is public.

        Returns
        -------
        int
            The number of rows.
        """
        known = self._rows_read if self.n_rows is None else self.n_rows
        return self.check_rows(self._count()) if known is None else known

    def _count(self) -> int:
        return sum(len(block) for block in self.blocks())

    def check_rows(self, count: int) -> int:
        """Refuse a pass whose rows are not as many as known, or as an earlier pass found.

        Parameters
        ----------
        count : int
            The rows that the pass has read.

        Returns
        -------
        int
            The same number.
        """
        known = self._rows_read if self.n_rows is None else self.n_rows
        if known is not None and count != known:
            raise UnreadableRowsError(
                "The number of rows is not the one that was declared, or changed between two reads. Nothing was spent."
            )
        self._rows_read = count
        return count

    def in_memory(self) -> NDArray[Any] | None:
        """All rows as one array where they are in memory already; None where they are to be read block by block."""
        return None

    def some_in_memory(self, draw: Callable[[int], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Some of the rows as one array where they are in memory already, as `in_memory`.

        Parameters
        ----------
        draw : callable
            Gives, for the number of rows, whether each of them is taken. Not called where rows are not in memory.

        Returns
        -------
        (array of bool, array) or None
            What was drawn, and the rows that are taken.
        """
        rows = self.in_memory()
        if rows is None:
            return None
        taken = draw(self.check_rows(len(rows)))
        return taken, rows[taken]

    @_counting
    def reduce(self, statistic: S) -> S:
        """Compute a statistic of all rows.

        Parameters
        ----------
        statistic : Statistic
            An empty one.

        Returns
        -------
        Statistic
            The same kind, with all rows in it.
        """
        source, lock = self._counted(self.blocks_for(statistic)), threading.Lock()
        with closing(source), meter(self.n_rows) as advance:

            @own_error_state
            def work() -> S:
                part = statistic.fresh()
                while True:
                    with lock:
                        block = next(source, None)
                    if block is None:
                        return part
                    part.update(block)
                    advance(terms_of(block))

            small = self.n_rows is not None and self.n_rows * self.n_features < _SMALL
            threads = 1 if small else workers()
            if threads == 1:
                return work()
            with single_blas(), ThreadPoolExecutor(threads) as pool:
                first, *others = [future.result() for future in [pool.submit(work) for _ in range(threads)]]
            for other in others:
                first.merge(other)
            return first

    @_counting
    def reduce_in_sequence(self, statistic: S) -> S:
        """Compute a statistic one block after the other in this thread, for those that keep the order of rows.

        Parameters
        ----------
        statistic : Statistic
            An empty one.

        Returns
        -------
        Statistic
            The same kind, with all rows in it.
        """
        part = statistic.fresh()
        with closing(self._counted(self.blocks())) as source, meter(self.n_rows) as advance:
            for block in source:
                part.update(block)
                advance(terms_of(block))
        return part

    def _counted(self, blocks: Iterator[Any]) -> Generator[Any, None, None]:
        count = 0
        for block in blocks:
            count += terms_of(block)
            yield block
        self.check_rows(count)
