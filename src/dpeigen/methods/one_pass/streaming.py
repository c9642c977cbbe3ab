"""What the one-pass methods share: rows are looked at once, in batches that hold disjoint rows.

Guarantee: rows are told apart by their positions in the stream alone. A batch takes the next rows, as many as public
facts and numbers already released say, and its mechanism gets the whole budget. For neighbours that differ in one
row, all batches before its own are the same; its own is (ε, δ)-DP for every history; all rows after it are the same,
and what is done to them depends on that batch only through its release. So the whole stream of released numbers is (ε,
δ)-DP (parallel composition; McSherry 2009). It needs positions that do not move, so neighbours are data sets with one
row replaced: one row more or less would shift all batches after it. `estimate` reads a table in a random order over all
rows (`sources.shuffled`), so there the guarantee does not depend on how the rows lie: the neighbours of a sorted table,
in which one changed value moves many rows, are compared under orders in which only one position differs. A caller who
feeds a stream block by block chooses the order, and the release says that one row replaced means in its place.

A `Stream` holds at most one unfinished batch of rows; what it saves holds none, only numbers that are public or
released, and may itself be published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dpeigen._arithmetic import own_error_state
from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task, unprotected
from dpeigen.methods.framing import location
from dpeigen.privacy import ApproximateCost, Cost, Randomness, Relation, Spend
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.randomness import made_up_randomness
from dpeigen.sources.shuffled import shuffled
from dpeigen.stats import BadRowsError, Frame
from dpeigen.stats.frame import LARGEST_FLOAT, exact_bits, row_norms
from dpeigen.stats.products import exact_product
from dpeigen.stats.spectrum import fix_signs

LARGEST_BATCH = 2**22  # numbers in a batch, so that memory does not grow with the number of rows


class Stream(ABC):
    """A one-pass release in the making. Feed it blocks of rows of any size; it uses them batch by batch."""

    saved: ClassVar[tuple[str, ...]]  # names of what `state` holds besides arrays: JSON values, public or released

    def __init__(self, task: Task, rng: Randomness, frame: Frame, radius: float | None) -> None:
        self.task, self.rng, self.frame, self.radius = task, rng, frame, radius
        self.directions = orthonormal(rng.normal((components_of(task), task.n_features)))
        self.variances: Floats | None = None  # mean squares along the directions, and of what is left over
        self.rows_used = 0  # rows in finished batches: where to go on after a resumption
        self.spent = False  # whether anything was drawn from rows yet
        self.broken = False  # whether a batch failed after its rows were spent
        self.copied = False
        self.before_spending: Callable[[], None] | None = None  # called once, before anything is drawn from rows
        self._buffer: Floats = np.empty((0, task.n_features))
        self._filled = 0

    @abstractmethod
    def wanted(self) -> int:
        """Rows of the next batch; public. 0: the stream is complete and uses no more."""

    @abstractmethod
    def use(self, rows: Floats) -> None:
        """Spend on one batch."""

    @property
    def ready(self) -> bool:
        """Whether there is something of everything that a release holds."""
        return self.variances is not None

    @property
    @abstractmethod
    def rows_to_release(self) -> int:
        """Rows after which the first release is ready; public."""

    @abstractmethod
    def estimate(self) -> Estimate:
        """The release of what was paid for so far; only when `ready`."""

    def state(self) -> tuple[dict[str, Floats], dict[str, Any]]:
        """Arrays and JSON values that `restore` needs: public or released, no rows."""
        self._refuse_broken()
        arrays = {"directions": self.directions, "center": self.frame.center, "variances": self.variances}
        facts = {name: getattr(self, name) for name in ("rows_used", *self.saved)}
        return {name: array for name, array in arrays.items() if array is not None}, facts

    def restore(self, arrays: Mapping[str, Floats], facts: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.directions = arrays["directions"].copy()
        self.variances = arrays.get("variances")
        self.frame = replace(self.frame, center=arrays.get("center"))
        for name in ("rows_used", *self.saved):
            setattr(self, name, facts[name])
        self.spent = self.rows_used > 0

    def _estimate(
        self, mechanisms: str, numerics: Numerics, notes: tuple[str, ...], details: dict[str, Any]
    ) -> Estimate:
        k, d = self.directions.shape
        unit = float(self.frame.unit[0])
        variances = (np.zeros(k + 1) if self.variances is None else self.variances) * unit**2
        order = np.argsort(-variances[:k], kind="stable")
        components, eigenvalues = fix_signs(orthonormal(self.directions)[order]), variances[:k][order]
        left = float(variances[k] / (d - k)) if k < d else 0.0
        covariance = (components.T * (eigenvalues - left)) @ components + left * np.eye(d)
        budget = self.task.budget
        paid = Spend(Purpose.BATCHES.value, mechanisms, ApproximateCost(budget.epsilon, budget.delta))
        return Estimate(
            components=components,
            eigenvalues=eigenvalues,
            noise_variance=left,
            covariance=(covariance + covariance.T) / 2,
            mean=location(self.frame, None, self.task),
            n_rows=float(self.rows_used),
            radius=None if self.radius is None else self.radius * unit,
            split=(paid,),
            numerics=numerics,
            radius_released=self.task.private_bound,
            notes=(
                "Each row was used in one batch only and pays the whole budget there (parallel composition): this "
                "holds if no row is fed twice, by another pass or after a resumption.",
                *notes,
            ),
            details={"rows_used": self.rows_used, **details},
        )

    @property
    def pending(self) -> int:
        """Rows that wait for their batch to fill."""
        return self._filled

    @own_error_state
    def feed(self, block: Any) -> None:
        """Take in rows. A bad row is refused before any of the block is used."""
        self._refuse_broken()
        rows = self._checked(np.asarray(block))
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
        if not self.spent and self.before_spending is not None:
            self.before_spending()
        self.spent = self.broken = True
        self.rows_used += len(batch)  # whatever happens next, these rows are spent
        try:
            self.use(batch)
        finally:
            batch.fill(0.0)  # rows are not kept longer than they are needed
        self.broken = False

    def _refuse_broken(self) -> None:
        if self.copied:
            raise RuntimeError(
                "This is a copy of a stream, and only the stream itself goes on: rows fed to both would be released "
                "twice on one budget. Use save_stream and resume_stream."
            )
        if self.broken:
            raise RuntimeError(
                f"The stream broke in a batch whose rows are spent: {self.rows_used} rows in all. It cannot go on. "
                "Start a new one, with rows that come after these."
            )

    def _checked(self, block: Any) -> Floats:
        plain = Frame(self.task.n_features)
        if self.task.on_bad_row != "refuse":
            rows = plain.quick_image(block)  # bad rows are dealt with when they are framed
            return np.empty((0, self.task.n_features)) if rows is None else rows
        try:
            return plain.image(block)
        except BadRowsError:
            if not self.spent:
                raise
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
        # Copies and pickles hold no rows, and cannot go on.
        return {**self.__dict__, "_buffer": np.empty((0, self.task.n_features)), "_filled": 0, "copied": True}


class OnePassMethod(Method):
    """A method whose estimate is a stream's."""

    needs_delta = True
    holds_rows = True

    @abstractmethod
    def start(self, task: Task, rng: Randomness) -> Stream:
        """A stream that has seen nothing; the task is checked."""

    def check(self, task: Task) -> None:
        super().check(task)
        if task.relation is Relation.ADD_REMOVE:
            remedy = "Use relation='replace': one row more or less would move every batch after it."
            raise ValueError(
                complain("relation", task.owner, f"'replace' for method={self.name!r}", "add_remove", remedy)
            )
        if task.n_components is None:
            remedy = "Use PrivatePCA, or method='gaussian' for a whole covariance."
            must = f"other than {self.name!r}, which follows a few directions only"
            raise ValueError(complain("method", task.owner, must, self.name, remedy))

    def rehearsal_rows(self, task: Task) -> int:
        # Each row pays for itself, so the split is the same for any number of them.
        return 2 * self.start(task, made_up_randomness()).rows_to_release

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """Every row pays the whole budget in its own batch."""
        return {Purpose.BATCHES: ApproximateCost(task.budget.epsilon, task.budget.delta)}

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        source, rng = unprotected(curator)
        stream = self.start(task, rng)
        stream.before_spending = source.finished  # from here on a failure costs
        try:
            for block in shuffled(source, rng):
                stream.feed(block)
        except BadRowsError as error:
            if not stream.spent:
                raise
            text = f"Reading stopped after {stream.rows_used} rows, which stay paid for: {error}"
        else:
            return stream.estimate()
        raise ValueError(text)  # of another kind: what was spent is not given back


def components_of(task: Task) -> int:
    """How many directions are asked for."""
    if task.n_components is None:
        raise AssertionError("`check` has refused a whole covariance")
    return task.n_components


def refuse_few_rows(task: Task, needed: int, name: str, more: str = "") -> None:
    """Refuse, where n is public, fewer rows than the method can make anything of; nothing is spent."""
    if task.n_rows is not None and task.n_rows < needed:
        remedy = f"It needs at least {needed} rows here. Raise epsilon, ask for fewer components, or use {more}"
        remedy += "method='gaussian' or 'spatial-sign', which need far fewer. Nothing was spent."
        raise ValueError(complain("X", task.owner, f"long enough for method={name!r}", f"{task.n_rows} rows", remedy))


def exact_scores(rows: Floats, directions: Floats) -> Floats:
    """Scores along unit directions (k × d), rows × k. A row's scores depend on that row alone.

    Rows and directions are rounded to integers whose products BLAS sums exactly, whatever the block they stand in.
    """
    bits = exact_bits(rows.shape[1])
    _, exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    exponents = np.maximum(exponents.astype(np.int64), -900)  # so that 2^(bits − exponent) is a number
    scaled = rows * np.ldexp(1.0, bits - exponents)[:, None]
    np.rint(scaled, out=scaled)
    dots = exact_product(scaled, np.rint(directions * 2.0**bits).T)
    with np.errstate(over="ignore"):
        return np.clip(np.ldexp(dots, (exponents - 2 * bits)[:, None]), -LARGEST_FLOAT, LARGEST_FLOAT)


def finite(values: Floats) -> Floats:
    """The same numbers, those that overflowed set to the largest there is (in place)."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # then each of them is
            return values
    return np.clip(values, -LARGEST_FLOAT, LARGEST_FLOAT, out=values)


def deflated(rows: Floats, scores: Floats, directions: Floats) -> Floats:
    """Rows less their parts along unit directions, one direction at a time: a fixed order of operations."""
    if not len(directions):
        return rows
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
