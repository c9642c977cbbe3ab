"""The base class of sources of rows. A source yields blocks; `reduce` computes a statistic of them on all cores.

Statistics are exact and merge in any order, so threads and any other engine give the same integers. Workers see a
statistic and its public parameters, never the random generator or the ledger.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen._arithmetic import own_error_state
from dpeigen.sources.declared import Declared
from dpeigen.sources.progress import meter
from dpeigen.stats import BadRowsError, Statistic
from dpeigen.stats.threads import everywhere, workers
from dpeigen.stats.units import terms_of

__all__ = ["S", "Source", "UnreadableRowsError", "some_of"]

S = TypeVar("S", bound=Statistic)
_SMALL = 2**17  # with fewer numbers, a second thread costs more than it saves


def some_of(rows: NDArray[Any], which: NDArray[Any]) -> NDArray[Any]:
    """``rows[which]``, for indices or for one Boolean for each row; in half the time if rows are contiguous."""
    if not rows.flags.c_contiguous:
        return rows[which]
    return rows.take(np.flatnonzero(which) if which.dtype == np.bool_ else which, axis=0)


@contextmanager
def _closed(blocks: Generator[Any, None, None], lock: threading.Lock, failed: threading.Event) -> Iterator[None]:
    """Close the blocks at the end, when no other thread reads one: after a second Ctrl-C one still may."""
    try:
        yield
    finally:
        failed.set()
        with lock:
            blocks.close()


class UnreadableRowsError(BadRowsError):
    """Rows that a source could not read as numbers. The message contains no value of the data."""


def _counting(reduce: Callable[..., S]) -> Callable[..., S]:
    """The method, with a call of `finished` at its end."""

    @wraps(reduce)
    def counted(source: Source, *arguments: Any, **options: Any) -> S:
        found = own_error_state(reduce)(source, *arguments, **options)
        source.finished()
        return found

    return counted


class Source(ABC):
    """Rows × features, readable more than once.

    ``fixed_order``: whether every pass has the rows in the same order, so that separately given numbers can be matched
    to them. It is False if rows are arranged by their values (partitions of a cluster, folders named after a column).
    No guarantee depends on it: everything that depends on the order of rows reads them through `sources.shuffled`.
    ``passes`` is increased whenever a statistic of all rows is returned. Its noisy version may then be released, so
    only a failure during the first pass costs nothing. `reduce` counts passes itself, in subclasses too.
    """

    n_features: int
    feature_names: list[str] | None = None
    schema: dict[str, Declared] | None = None  # declarations of the columns, if not all are plain numbers
    n_rows: int | None = None  # None if it is known only after a full read
    fixed_order: bool = True
    in_random_order: bool = False  # whether rows are in a secret random order that does not depend on them
    width_declared: bool = True  # False if the number of columns is known from the rows only
    row_note: str = ""  # a note for guarantees on what counts as a row, if that may be unexpected
    read_once: bool = False  # whether a second pass is refused
    passes: int = 0
    _rows_read: int | None = None  # by the first pass

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "reduce" in vars(cls):
            cls.reduce = _counting(vars(cls)["reduce"])  # type: ignore[method-assign]

    def check_width(self) -> None:
        """Refuse a source with an unknown number of columns."""
        if not self.width_declared and self.n_features < 1:
            raise UnreadableRowsError(
                "There are no blocks, so the number of columns is not known. Give n_features, as in "
                "BlockSource(blocks, n_features=3)."
            )

    def finished(self) -> None:
        """Record the end of a pass. Code that reads all blocks itself calls this before it uses them."""
        self.passes += 1

    @abstractmethod
    def blocks(self) -> Iterator[Any]:
        """Blocks of rows, in order; each can be sliced and converted to an array."""

    def blocks_for(self, statistic: Statistic) -> Iterator[Any]:  # noqa: ARG002
        """Read blocks, together with the facts about them that a statistic needs beforehand.

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
        """Return the number of rows, known or counted by reading. Only for use if it is public.

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
        """Refuse a pass whose number of rows differs from the known one, or from that of an earlier pass.

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
        """All rows as one array if they are in memory; None if they are read block by block."""
        return None

    def some_in_memory(self, draw: Callable[[int], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Select some rows if they are in memory.

        Parameters
        ----------
        draw : function of a number of rows
            Decides for each row whether it is selected.

        Returns
        -------
        tuple of two arrays, or None
            The draws and the selected rows; None if rows are read block by block.
        """
        rows = self.in_memory()
        if rows is None:
            return None
        taken = draw(self.check_rows(len(rows)))
        return taken, some_of(rows, taken)

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
        source, lock, failed = self._counted(self.blocks_for(statistic)), threading.Lock(), threading.Event()
        with _closed(source, lock, failed), meter(self.n_rows) as advance:

            @own_error_state
            def work() -> S:
                part = statistic.fresh()
                try:
                    while not failed.is_set():
                        with lock:
                            block = next(source, None)
                        if block is None:
                            break
                        part.update(block)
                        advance(terms_of(block))
                except BaseException:  # Ctrl-C too: other threads need not read the rest
                    failed.set()
                    raise
                return part

            small = self.n_rows is not None and self.n_rows * self.n_features < _SMALL
            threads = 1 if small else workers()
            if threads == 1:
                return work()
            first, *others = everywhere(work, threads)
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
