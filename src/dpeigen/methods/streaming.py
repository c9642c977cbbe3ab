"""What the one-pass methods share: rows are looked at once, in batches that hold disjoint rows.

Guarantee: rows are told apart by their positions in the stream alone, and every row falls into exactly one batch (or
none), whose mechanism gets the whole budget. Whatever later batches do depends on earlier rows only through numbers
already released. So for neighbours that differ in one row, all batches before its own are the same, its own is (ε, δ)-DP
for every history, and the rest is post-processing: the whole stream of released numbers is (ε, δ)-DP (parallel
composition; McSherry 2009). The order of the rows, however chosen, plays no part in this. It needs positions that do
not move, so neighbours are data sets with one row replaced: one row more or less would shift all batches after it.

A `Stream` holds at most one unfinished batch of rows; what it saves holds none, only numbers that are public or
released, and may itself be published.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import complain
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.privacy import Randomness, Relation
from dpeigen.sources import ArraySource, Source
from dpeigen.stats import BadRowsError, Frame
from dpeigen.stats.frame import LARGEST_FLOAT, exact_bits, row_norms

Floats = NDArray[np.float64]
_MIXED_ROWS = 8192  # rows per block of `mixed_blocks`
LARGEST_BATCH = 2**22  # numbers in a batch, so that memory does not grow with the number of rows


class Stream:
    """A one-pass release in the making. Feed it blocks of rows of any size; it uses them batch by batch."""

    def __init__(self, task: Task, rng: Randomness, frame: Frame, radius: float | None) -> None:
        self.task, self.rng, self.frame, self.radius = task, rng, frame, radius
        self.rows_used = 0  # rows in finished batches: where to go on after a resumption
        self.spent = False  # whether anything was drawn from rows yet
        self._buffer: Floats = np.empty((0, task.n_features))
        self._filled = 0

    @abstractmethod
    def wanted(self) -> int:
        """Rows of the next batch; public. 0: the stream is complete and uses no more."""

    @abstractmethod
    def use(self, rows: Floats) -> None:
        """Spend on one batch; rows are finite."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether there is something of everything that a release holds."""

    @abstractmethod
    def estimate(self) -> Estimate:
        """The release of what was paid for so far; only when `ready`."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Arrays and JSON values that `restore` needs: public or released, no rows."""

    @abstractmethod
    def restore(self, arrays: dict[str, Floats], facts: dict[str, Any]) -> None:
        """Go on from a saved state."""

    @property
    def pending(self) -> int:
        """Rows that wait for their batch to fill."""
        return self._filled

    def feed(self, block: Any) -> None:
        """Take in rows. A bad row is refused before any of the block is used."""
        rows = self._finite(np.asarray(block))
        while len(rows):
            wanted = self.wanted()
            if not wanted:
                return
            if len(self._buffer) != wanted:
                kept = self._buffer[: self._filled]
                self._buffer = np.empty((wanted, self.task.n_features))
                self._buffer[: len(kept)] = kept
            taken = min(wanted - self._filled, len(rows))
            self._buffer[self._filled : self._filled + taken] = rows[:taken]
            self._filled += taken
            rows = rows[taken:]
            if self._filled == wanted:
                self._finish()

    def _finish(self) -> None:
        batch, self._filled = self._buffer, 0
        self.spent = True
        self.use(batch)
        self.rows_used += len(batch)

    def _finite(self, rows: Any) -> Floats:
        plain = Frame(self.task.n_features, on_bad_row=self.task.on_bad_row)
        try:
            good = plain.image(rows)
        except BadRowsError:
            if not self.spent:
                raise
        else:
            if self.task.on_bad_row == "refuse" or good is rows:
                return good
            # Such a row counts as one at the centre, where its framed image is 0.
            center = self.frame.center
            bad = ~np.isfinite(plain._rows(rows)).all(axis=1)
            return np.where(bad[:, None], 0.0 if center is None else center, good) if bad.any() else good
        raise ValueError(
            "A block holds NaN or infinite entries; none of its rows were used. What the stream released before stays "
            "paid for. Clean the rows and go on, or set on_bad_row='drop-to-zero'."
        )

    def framed(self, rows: Floats) -> Floats:
        """Framed rows inside the public radius, if there is one; each depends on its own row (or pair) alone."""
        terms = self.frame.image(rows)
        if self.radius is None:
            return terms
        lengths = row_norms(terms)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            factors = np.where(lengths > self.radius, self.radius / lengths, 1.0)
        return terms * factors[:, None]

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles hold no rows either.
        return {**self.__dict__, "_buffer": np.empty((0, self.task.n_features)), "_filled": 0}


class OnePassMethod(Method):
    """A method whose estimate is a stream's."""

    needs_delta = True

    @abstractmethod
    def start(self, task: Task, rng: Randomness) -> Stream:
        """A stream that has seen nothing; the task is checked."""

    def check(self, task: Task) -> None:
        super().check(task)
        if task.relation is Relation.ADD_REMOVE:
            remedy = "Use relation='replace': one row more or less would move every batch after it."
            raise ValueError(complain("relation", task.owner, f"'replace' for method={self.name!r}", "add_remove", remedy))
        if task.n_components is None:
            remedy = "Use PrivatePCA, or method='gaussian' for a whole covariance."
            must = f"other than {self.name!r}, which follows a few directions only"
            raise ValueError(complain("method", task.owner, must, self.name, remedy))

    def estimate(self, source: Source, task: Task, rng: Randomness) -> Estimate:
        stream = self.start(task, rng)
        for block in mixed_blocks(source, rng):
            stream.feed(block)
        return stream.estimate()


def refuse_few_rows(task: Task, needed: int, name: str, more: str = "") -> None:
    """Refuse, where n is public, fewer rows than the method can make anything of; nothing is spent."""
    if task.n_rows is not None and task.n_rows < needed:
        remedy = f"It needs at least {needed} rows here. Raise epsilon, ask for fewer components, or use {more}"
        remedy += "method='gaussian' or 'spatial-sign', which need far fewer. Nothing was spent."
        raise ValueError(complain("X", task.owner, f"long enough for method={name!r}", f"{task.n_rows} rows", remedy))


def mixed_blocks(source: Source, rng: Randomness) -> Iterator[Floats]:
    """All rows once, in an order that does not depend on the data and breaks theirs, in constant memory.

    An array is read in strides, so that each block is spread over all of it, blocks and rows in random order; a file
    comes in blocks by row numbers, each in random order. Sorted rows would otherwise make batches that differ.
    """
    if isinstance(source, ArraySource):
        stride = -(-source.n_rows // _MIXED_ROWS) if source.n_rows else 1
        blocks = (source.rows(int(start), stride) for start in rng.permutation(stride))
    else:
        blocks = (np.asarray(block) for block in source.whole_blocks())
    for block in blocks:
        yield block[rng.permutation(len(block))]


def exact_scores(rows: Floats, directions: Floats) -> Floats:
    """Scores along unit directions (k × d), rows × k. A row's scores depend on that row alone.

    Rows and directions are rounded to integers whose products BLAS sums exactly, whatever the block they stand in.
    """
    bits = exact_bits(rows.shape[1])
    _, exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    exponents = np.maximum(exponents.astype(np.int64), -900)  # so that 2^(bits − exponent) is a number
    scaled = rows * np.ldexp(1.0, bits - exponents)[:, None]
    np.rint(scaled, out=scaled)
    dots = scaled @ np.rint(directions * 2.0**bits).T
    with np.errstate(over="ignore"):
        return np.clip(np.ldexp(dots, (exponents - 2 * bits)[:, None]), -LARGEST_FLOAT, LARGEST_FLOAT)


def deflated(rows: Floats, scores: Floats, directions: Floats) -> Floats:
    """Rows less their parts along unit directions, one direction at a time: a fixed order of operations."""
    with np.errstate(over="ignore", invalid="ignore"):
        for column, direction in enumerate(directions):
            rows = rows - scores[:, column, None] * direction
    return np.nan_to_num(np.clip(rows, -LARGEST_FLOAT, LARGEST_FLOAT), nan=0.0)


def orthonormal(directions: Floats) -> Floats:
    """Gram–Schmidt from the first row on, twice for full precision; all from released numbers."""
    done: list[Floats] = []
    for direction in directions:
        for _ in range(2):
            for other in done:
                direction = direction - (direction @ other) * other
            direction = direction / np.linalg.norm(direction)
        done.append(direction)
    return np.array(done)
