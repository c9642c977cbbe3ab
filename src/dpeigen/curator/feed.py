"""Rows that come block by block, cut into batches by their positions; each batch is a curator's.

Guarantee: rows are told apart by their positions in the stream alone. A batch takes the next rows, as many as public
facts and numbers already released say, and what is asked of it gets what was paid. For neighbours that differ in one
row, all batches before its own are the same; its own is (ε, δ)-DP for every history; all rows after it are the same,
and what is done to them depends on that batch only through its release. So the whole stream of released numbers is (ε,
δ)-DP (parallel composition; McSherry 2009). It needs positions that do not move, so neighbours are data sets with one
row replaced: one row more or less would shift all batches after it. A table is read in a random order over all rows
(`sources.shuffled`), so there the guarantee does not depend on how the rows lie: the neighbours of a sorted table, in
which one changed value moves many rows, are compared under orders in which only one position differs. A caller who
feeds a stream block by block chooses the order, and the release says that one row replaced means in its place.

At most one unfinished batch of rows is held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen.stats import BadRowsError, Frame

__all__ = ["BatchStream", "Feed"]


class BatchStream(Protocol):
    """What asks batch after batch. It holds numbers that are public or released, and no rows."""

    rows_used: int  # rows in finished batches

    @property
    def frame(self) -> Frame:
        """How rows are looked at; says how many columns there are and what is done with bad rows."""

    @property
    def ready(self) -> bool:
        """Whether there is something of everything that a release holds."""

    @property
    def mechanism(self) -> str:
        """The names of its mechanisms, for the record."""

    def wanted(self) -> int:
        """Rows of the next batch; public. 0: the stream is complete and uses no more."""

    def use(self, batch: Any) -> None:
        """Ask the curator of one batch."""


class Feed:
    """Takes in blocks of any size, and lets a stream ask ``batch(rows)``, a curator, whenever a batch is full."""

    def __init__(self, stream: BatchStream, batch: Callable[[Floats], Any]) -> None:
        self.stream, self._batch = stream, batch
        self.spent = False  # whether anything was drawn from rows yet
        self.broken = False  # whether a batch failed after its rows were spent
        self.copied = False
        self.before_spending: Callable[[], None] | None = None  # called once, before anything is drawn from rows
        self._plain = Frame(stream.frame.n_features)
        self._buffer: Floats = np.empty((0, stream.frame.n_features))
        self._filled = 0

    @property
    def pending(self) -> int:
        """Rows that wait for their batch to fill."""
        return self._filled

    @own_error_state
    def take(self, block: Any) -> None:
        """Take in rows. A bad row is refused before any of the block is used."""
        self.check()
        rows = self._checked(np.asarray(block))
        while len(rows):
            wanted = self.stream.wanted()
            if not wanted:
                return
            if len(self._buffer) != wanted:
                kept = self._buffer[: self._filled]
                self._buffer = np.empty((wanted, rows.shape[1]))
                self._buffer[: len(kept)] = kept
            taken = min(wanted - self._filled, len(rows))
            self._buffer[self._filled : self._filled + taken] = rows[:taken]
            self._filled += taken
            rows = rows[taken:]
            if self._filled == wanted:
                self._finish()

    def _finish(self) -> None:
        rows, self._filled = self._buffer, 0
        if not self.spent and self.before_spending is not None:
            self.before_spending()
        self.spent = self.broken = True
        self.stream.rows_used += len(rows)  # whatever happens next, these rows are spent
        try:
            self.stream.use(self._batch(rows))
        finally:
            rows.fill(0.0)  # rows are not kept longer than they are needed
        self.broken = False

    def check(self) -> None:
        """Refuse to go on with a copy, and after a batch that failed."""
        if self.copied:
            raise RuntimeError(
                "This is a copy of a stream, and only the stream itself goes on: rows fed to both would be released "
                "twice on one budget. Use save_stream and resume_stream."
            )
        if self.broken:
            raise RuntimeError(
                f"The stream broke in a batch whose rows are spent: {self.stream.rows_used} rows in all. It cannot go "
                "on. Start a new one, with rows that come after these."
            )

    def _checked(self, block: Any) -> Floats:
        if self.stream.frame.missing != "refuse":
            rows = self._plain.quick_image(block)  # bad rows are dealt with when they are framed
            return self._buffer[:0] if rows is None else rows
        try:
            return self._plain.image(block)
        except BadRowsError:
            if not self.spent:
                raise
        raise ValueError(
            "A block holds NaN or infinite entries; none of its rows were used. What the stream released before stays "
            "paid for. Clean the rows and go on, or set missing='drop'."
        )

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles hold no rows, no generator, and cannot go on.
        return {**self.__dict__, "_batch": None, "_buffer": self._buffer[:0].copy(), "_filled": 0, "copied": True}
