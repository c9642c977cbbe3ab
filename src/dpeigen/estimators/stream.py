"""``partial_fit``: a release from rows that come block by block and are used once.

The ledger reserves the whole budget at the first block and commits it after the first batch. Later batches have other
rows, so they cost nothing more. A saved state contains no rows, only released and public numbers. If two streams resume
one saved state and get the same rows, the budget is spent on those rows twice.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from dpeigen import io
from dpeigen._arithmetic import own_error_state
from dpeigen._validate import check_count, complain
from dpeigen.curator import DataCurator, Purpose
from dpeigen.estimators.base import check_robust
from dpeigen.estimators.course import LEDGER_FAILS, refusal
from dpeigen.estimators.people import KnownPersonError, Roll, rows_of
from dpeigen.estimators.record import about, per_unit
from dpeigen.estimators.running import Running, begun, give_back
from dpeigen.estimators.saved_stream import parameters, read, restore, save
from dpeigen.methods import METHODS, OnePassMethod, resolve
from dpeigen.privacy import randomness
from dpeigen.privacy.ledger import Ledger, ledger_for
from dpeigen.privacy.randomness import made_up_randomness
from dpeigen.sources import ArraySource, Source
from dpeigen.sources.opening import name_of_ids, taken_out
from dpeigen.stats import BadRowsError, Frame

__all__ = ["StreamMixin"]


def _one_pass(estimator: Any) -> bool:
    method = estimator.method
    kind = METHODS.get(method) if isinstance(method, str) else type(method)
    if not (isinstance(kind, type) and issubclass(kind, OnePassMethod)):
        names = " or ".join(repr(name) for name, other in METHODS.items() if issubclass(other, OnePassMethod))
        raise AttributeError(
            f"partial_fit is for methods that see each row once: method={names}. Got method={method!r}."
        )
    return True


class StreamMixin:
    """``partial_fit``, ``save_stream`` and ``resume_stream``."""

    _stream: Running | None

    @available_if(_one_pass)  # type: ignore[untyped-decorator]
    @own_error_state
    def partial_fit(self, X: Any, y: Any = None, *, unit: Any = None) -> Any:  # noqa: ARG002
        """Add a block of rows, of any size, and update the release whenever a batch is complete.

        For method="dp-pca" and "oja". Rows are used once, in batches by their positions, in constant memory; only the
        rows of the unfinished batch are kept. ``release_`` and the fitted attributes exist after the first complete
        batch, and contain what was paid for so far: a stream may stop at any time. ``n_samples_seen_`` is the number of
        rows in finished batches.

        Parameters
        ----------
        X : array or table with any number of rows
            The next block.
        y : None
            Not used; it exists for scikit-learn's pipelines.
        unit : array of ids, str or None, default=None
            The id of each row's person, or the name of a column of X. One row of each person is used, drawn at random.
            All rows of a person must come in one call: if someone was in an earlier call, X is refused, and none of it
            is used.

        Returns
        -------
        PrivatePCA
            The estimator itself.
        """
        fresh = "_stream" not in self.__dict__
        if fresh:
            self._ledger()  # type: ignore[attr-defined]
        X, ids, name = self._ids_of(X, unit)
        source, started = self._block_source(X), None if fresh else self._stream
        if started is not None and started.task.unit != name:
            raise ValueError(complain("unit", "partial_fit", f"{started.task.unit!r} in every call of a stream", name))
        people = started.people if started is not None else None if ids is None else self._nobody()
        whose = None if people is None else self._newcomers(people, ids, source)
        running = self._start_stream(source, unit=name) if started is None else started
        running.people = people
        self._stream, taken, stopped = running, 0, ""
        try:
            if people is not None and source.read_once:
                # All rows are checked before one row of each person is drawn.
                source = ArraySource(rows_of(source), source.feature_names)
            if (people is not None or isinstance(source, ArraySource)) and running.task.missing == "refuse":
                for block in source.blocks():  # all rows, before any is used, whichever are drawn
                    Frame(running.task.n_features).image(block)
            if people is not None and whose is not None:
                source = people.one_each(source, whose)
                people.take_in()
            for block in source.blocks():
                running.feed.take(block)
                taken += len(block)
        except (BadRowsError, KeyboardInterrupt) as error:
            if fresh and not running.feed.spent:
                self._end_stream()
                if running.ledger is not None:
                    give_back(running.ledger, running.ticket, error)
                raise
            if isinstance(error, KeyboardInterrupt):
                raise
            stopped = refusal(error)
        finally:
            if "_stream" in self.__dict__:
                self.n_samples_seen_ = running.stream.rows_used
                self._keep_up(running, source)
        if stopped:  # outside the handler: the first error may say that nothing was spent
            raise ValueError(running.after_bad_rows(taken) + self._recorded(stopped))
        return self

    def _newcomers(self, people: Roll, ids: Any, source: Source) -> Any:
        try:
            return people.newcomers(ids, source)
        except KnownPersonError as error:
            text = str(error)
        raise ValueError(text + self._recorded("refused after data were read: someone of an earlier call"))

    def _recorded(self, why: str) -> str:
        """Put a refusal that returns no reservation on the ledger's record; a sentence if that fails."""
        running: Running | None = self.__dict__.get("_stream")
        ledger = None if running is None else running.ledger
        try:
            ledger = self._ledger() if ledger is None else ledger  # type: ignore[attr-defined]
            if ledger is not None:
                ledger.refused("a block of a stream", f"{why}, in a stream")
        except LEDGER_FAILS as error:
            return f" The ledger could not record this refusal: {error}"
        return ""

    def _keep_up(self, running: Running, source: Source) -> None:
        """Store what was released so far on the estimator, then commit it."""
        if running.stream.ready and running.feed.spent and not running.feed.broken:
            self._publish(running.released(source))  # type: ignore[attr-defined]
        running.settle()

    def _nobody(self) -> Roll:
        seeded = self.random_state is not None  # type: ignore[attr-defined]
        return Roll(made_up_randomness() if seeded else randomness(None))

    def _ids_of(self, X: Any, unit: Any) -> tuple[Any, Any, str]:
        """X without its column of ids, the ids, and the name of the unit."""
        me: Any = self
        unit = me.unit if unit is None else unit
        if me.columns is not None:
            remedy = "Give sources: dpeigen.sources.open_source(X, columns=…)."
            raise ValueError(complain("columns", type(self).__name__, "None for partial_fit", me.columns, remedy))
        if me.max_rows is not None:
            remedy = "A stream uses one row of each unit."
            raise ValueError(complain("max_rows", type(self).__name__, "None for partial_fit", me.max_rows, remedy))
        if unit is None:
            return X, None, "row"
        if not isinstance(unit, str):
            name = me._said() or name_of_ids(unit)
            return X, unit, "row id" if name == "row" else name
        ids, X = taken_out(X, unit)
        return X, ids, "row id" if unit == "row" else unit

    def _block_source(self, X: Any) -> Source:
        """A source for a block, checked against the columns of the first one; a single row is a block too."""
        running: Running | None = self.__dict__.get("_stream")
        if isinstance(X, (str, Path, Source)) or type(X).__module__.split(".")[0] == "pyarrow":
            known = {name: value for name, value in vars(self).items() if name.endswith("_in_")}
            source: Source = self._open_rows(X)  # type: ignore[attr-defined]
            if running is not None:  # the columns are known from the first block
                vars(self).pop("feature_names_in_", None)
                vars(self).update(known)
                names = running.names
                if source.n_features != running.task.n_features or (
                    names and source.feature_names not in (None, names)
                ):
                    raise ValueError(
                        f"X must have the {running.task.n_features} columns of the stream, in their order."
                    )
            return source
        found: Source = self._array_source(X, ensure_min_samples=0, reset=running is None)  # type: ignore[attr-defined]
        return found

    def _start_stream(self, source: Source, *, paid: bool = False, unit: str = "row") -> Running:
        """A new stream; ``paid``: whether its budget was reserved before it was saved."""
        me: Any = self
        owner = type(self).__name__
        k = check_count("n_components", me.n_components, owner, high=source.n_features)
        task = replace(me._task(source, k, shrink=True, count=False), unit=unit)
        method = resolve(me.method, task)
        check_robust(method, task)
        if task.scale is not None:
            remedy = "Give columns of one unit, or use fit."
            raise ValueError(complain("scale", owner, "None for partial_fit", me.scale, remedy))
        if not isinstance(method, OnePassMethod):
            raise AssertionError("`partial_fit` is there for one-pass methods only")
        rng = randomness(me.random_state)
        ledger = None if paid else me._ledger()
        what = f"pca by {method.name}, in a stream" + (" (seeded: not private)" if rng.seeded else "") + per_unit(unit)
        ticket = ""
        if ledger:
            facts = about(method, task, "pca", rng.seeded)
            ticket = begun(ledger, lambda: ledger.reserve(method.price(task), what, task.relation, about=facts))
        shares = method.shares(task)
        empty = ArraySource(np.empty((0, task.n_features)))
        curator = DataCurator(empty, task.relation, shares, method.price(task), rng)
        stream = method.begin(curator, task)
        feed = curator.feed(stream, purpose=Purpose.BATCHES, cost=shares[Purpose.BATCHES])
        return Running(stream, feed, method, task, source.feature_names, ledger, ticket, rng.seeded)

    def _end_stream(self) -> None:
        self.__dict__.pop("_stream", None)
        self.__dict__.pop("n_samples_seen_", None)

    def _check_fitted(self) -> None:
        running: Running | None = self.__dict__.get("_stream")
        if running is not None and not hasattr(self, "release_"):
            stream = running.stream
            raise NotFittedError(
                f"The stream has used {stream.rows_used} rows and {running.feed.pending} wait; the first release needs "
                f"{stream.rows_to_release}. Continue with partial_fit."
            )
        super()._check_fitted()  # type: ignore[misc]

    def save_stream(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Save a running stream into a folder: safetensors and JSON, only public and released numbers.

        Rows of the unfinished batch are not saved. After `resume_stream`, continue with the row after the first
        ``n_samples_seen_`` rows. A state can be resumed once. Rows that this stream gets after it was saved must not be
        given to the resumed one.

        Parameters
        ----------
        path : path
            The folder.
        overwrite : bool, default=False
            Whether to replace the contents of the folder.

        Returns
        -------
        Path
            The folder.
        """
        running: Running | None = self.__dict__.get("_stream")
        if running is None:
            raise NotFittedError("There is no stream: call partial_fit first.")
        if running.people is not None:
            must = "None for save_stream: whose rows were fed would have to be saved with it"
            raise ValueError(complain("unit", type(self).__name__, must, running.task.unit))
        return save(running, path, overwrite=overwrite)

    @classmethod
    def resume_stream(
        cls, path: str | Path, *, ledger: str | Ledger | None = None, again: bool = False, random_state: Any = None
    ) -> Any:
        """The estimator of a stream saved by `save_stream`, ready for the next block.

        The stream's budget was reserved when it began; ``ledger`` is for what the estimator does afterwards. A state
        can be resumed once: two streams that resume it and get the same rows spend the budget on them twice. With
        ``again=True`` you state that the first one never got any rows.
        """
        ledger_for(ledger, cls.__name__)
        arrays, description, marker = read(path, again=again)
        try:
            given = parameters(arrays, description, path) | {"random_state": random_state}
            estimator: Any = cls(**given)
            running, source = restore(estimator, arrays, description)
        except (KeyError, TypeError, IndexError) as error:
            raise io.DamagedReleaseError(f"{path} does not hold a saved stream: {error}") from None
        marker.touch()
        estimator.ledger = ledger
        estimator._stream = running
        estimator.n_samples_seen_ = running.stream.rows_used
        if running.stream.ready:
            estimator._publish(running.released(source))
        return estimator
