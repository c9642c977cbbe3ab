"""Rows that come block by block and are cut into batches by position. Each batch has its own curator.

Guarantee: if every batch is (ε, δ)-DP for every history, all released numbers of the stream together are (ε, δ)-DP
under replacement of one row (parallel composition; McSherry 2009).

Proof. Rows are assigned to batches by position alone: a batch takes the next rows, and its size depends on public facts
and released numbers. Take neighbours that differ in one row. All batches before the one with that row are the same.
That batch is (ε, δ)-DP for every history. All rows after it are the same, and what is done with them depends on it only
through its release. Positions must not move, so the relation is replacement: adding or removing a row would shift all
later batches.

A table is read in a random order over all rows (`sources.shuffled`), so its guarantee does not depend on the order in
which rows are stored. In a sorted table one changed value can move many rows; such neighbours are compared under orders
in which only one position differs. A caller who feeds a stream block by block chooses the order, and the release says
that a row is replaced at its position. At most one unfinished batch of rows is held.
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
    """Asks questions batch after batch. It holds public or released numbers, and no rows."""

    rows_used: int  # rows in finished batches

    @property
    def frame(self) -> Frame:
        """The frame of the rows: how many columns there are, and what is done with bad rows."""

    @property
    def ready(self) -> bool:
        """Whether every part of a release has been measured at least once."""

    @property
    def mechanism(self) -> str:
        """The names of its mechanisms, for the record."""

    def wanted(self) -> int:
        """The number of rows of the next batch; public. 0 means that the stream is complete."""

    def use(self, batch: Any) -> None:
        """Ask questions to the curator of one batch."""


class Feed:
    """Takes blocks of any size. Whenever a batch is full, the stream asks its curator, ``batch(rows)``."""

    def __init__(self, stream: BatchStream, batch: Callable[[Floats], Any]) -> None:
        self.stream, self._batch = stream, batch
        self.spent = False  # whether anything was measured yet
        self.broken = False  # whether a batch failed after its budget was spent
        self.copied = False
        self.before_spending: Callable[[], None] | None = None  # called once, before the first measurement
        self._plain = Frame(stream.frame.n_features)
        self._buffer: Floats = np.empty((0, stream.frame.n_features))
        self._filled = 0

    @property
    def pending(self) -> int:
        """The number of rows in the unfinished batch."""
        return self._filled

    @own_error_state
    def take(self, block: Any) -> None:
        """Add rows. A bad row is refused before any row of its block is used."""
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
        self.stream.rows_used += len(rows)  # their budget is spent even if the batch fails
        try:
            self.stream.use(self._batch(rows))
        finally:
            rows.fill(0.0)  # rows are not kept longer than they are needed
        self.broken = False

    def check(self) -> None:
        """Refuse to continue a copy of a stream, or a stream in which a batch failed."""
        if self.copied:
            raise RuntimeError(
                "This is a copy of a stream, which cannot be continued: rows fed to both would spend the budget twice. "
                "Use save_stream and resume_stream."
            )
        if self.broken:
            raise RuntimeError(
                f"The stream failed inside a batch, whose budget is spent. It has used {self.stream.rows_used} rows "
                "and cannot be continued. Start a new one, with rows that come after these."
            )

    def _checked(self, block: Any) -> Floats:
        if self.stream.frame.missing != "refuse":
            rows = self._plain.quick_image(block)  # bad rows are handled when they are framed
            return self._buffer[:0] if rows is None else rows
        try:
            return self._plain.image(block)
        except BadRowsError:
            if not self.spent:
                raise
        raise ValueError(
            "A block holds NaN or infinite entries; none of its rows were used. What the stream released before is "
            "paid for. Clean the rows and continue, or set missing='drop'."
        )

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles have no rows and no generator, and cannot continue.
        return {**self.__dict__, "_batch": None, "_buffer": self._buffer[:0].copy(), "_filled": 0, "copied": True}
