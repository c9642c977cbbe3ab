"""``partial_fit``: a release from rows that come block by block and are used once.

The ledger reserves the whole budget at the first block and commits it after the first batch. Later batches have other
rows, so they cost nothing more. A saved state contains no rows, only released and public numbers. If two streams resume
one saved state and get the same rows, the budget is spent on those rows twice.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from dpeigen import io
from dpeigen._arithmetic import own_error_state
from dpeigen._validate import check_count, complain
from dpeigen._version import __version__
from dpeigen.curator import DataCurator, Feed, Purpose
from dpeigen.estimators.base import check_robust
from dpeigen.estimators.course import LEDGER_FAILS, PaidError, withdrawal
from dpeigen.estimators.describe import describe
from dpeigen.estimators.people import Roll, rows_of
from dpeigen.estimators.record import about, per_unit
from dpeigen.methods import METHODS, OnePassMethod, Stream, Task, resolve
from dpeigen.privacy import randomness
from dpeigen.privacy.ledger import Ledger, ledger_for
from dpeigen.privacy.randomness import made_up_randomness
from dpeigen.sources import ArraySource, Source
from dpeigen.sources.opening import name_of_ids, taken_out
from dpeigen.stats import BadRowsError, Frame

__all__ = ["Running", "StreamMixin"]

_ORDER = (
    "Batches contain the rows in the order in which the caller gave them: a replaced row keeps its position. If that "
    "order depends on private values (a table sorted by one of them), shuffle the rows first."
)
_PUBLIC = ("lower", "upper", "point")  # arrays of a task: column bounds and a public centre


@dataclass
class Running:
    """A stream, with everything that is needed to describe its release."""

    stream: Stream
    feed: Feed
    method: OnePassMethod
    task: Task
    names: list[str] | None
    ledger: Ledger | None
    ticket: str
    seeded: bool
    people: Roll | None = None  # the people so far, if rows belong to units

    def settle(self) -> None:
        """Commit the reservation after something was drawn. The release is already on the estimator."""
        if self.ledger is None or not self.ticket or not self.feed.spent:
            return
        try:
            self.ledger.commit(self.ticket)
        except LEDGER_FAILS as error:
            text = (
                f"The rows were taken in, but the ledger could not record that: {error} The reservation "
                f"{self.ticket!r} counts as spent. The next partial_fit or save_stream tries to record it again."
            )
        else:
            self.ticket = ""
            return
        raise PaidError(text)


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
        whose = None if people is None else people.newcomers(ids, source)
        running = self._start_stream(source, unit=name) if started is None else started
        running.people = people
        self._stream, taken, stopped = running, 0, False
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
                    running.ledger.cancel(running.ticket, withdrawal(error))
                raise
            if isinstance(error, KeyboardInterrupt):
                raise
            stopped = True
        finally:
            if "_stream" in self.__dict__:
                self.n_samples_seen_ = running.stream.rows_used
                self._keep_up(running, source)
        if stopped:  # outside the handler: the first error may say that nothing was spent
            raise ValueError(_after_bad_rows(running, taken))
        return self

    def _keep_up(self, running: Running, source: Source) -> None:
        """Store what was released so far on the estimator, then commit it."""
        if running.stream.ready and running.feed.spent and not running.feed.broken:
            self._publish(_released(running, source))  # type: ignore[attr-defined]
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
            ticket = ledger.reserve(method.price(task), what, task.relation, about=facts)
            ledger.start(ticket)
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
        if not overwrite and any((Path(path) / name).exists() for name in (io.ARRAYS, io.DESCRIPTION)):
            raise FileExistsError(f"{path} holds something already. Choose another folder, or overwrite=True.")
        if METHODS.get(running.method.name) is not type(running.method):
            known = [name for name, kind in METHODS.items() if issubclass(kind, OnePassMethod)]
            remedy = "A saved stream names its method, and resume_stream could not find this one."
            raise ValueError(complain("method", "save_stream", f"one of {known}", running.method.name, remedy))
        running.feed.check()
        arrays, facts = running.stream.state()
        running.settle()
        task = running.task
        public: dict[str, Any] = {}
        if isinstance(task.bound, tuple):
            public |= dict(zip(_PUBLIC, task.bound, strict=False))
        if isinstance(task.center, np.ndarray):
            public["point"] = task.center
        description = {
            "kind": "stream",
            "method": running.method.name,
            "options": asdict(running.method),  # type: ignore[call-overload]
            "task": {
                "n_features": task.n_features,
                "n_components": task.n_components,
                "epsilon": task.budget.epsilon,
                "delta": task.budget.delta,
                "bound": None if isinstance(task.bound, tuple) else task.bound,
                "center": None if isinstance(task.center, np.ndarray) else task.center,
                "missing": task.missing,
            },
            "facts": facts,
            "feature_names": running.names,
            "seeded": running.seeded,
            "dpeigen": __version__,
        }
        return io.write_folder(path, {**arrays, **{f"task.{name}": a for name, a in public.items()}}, description)

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
        arrays, description = io.read_folder(path)
        marker = Path(path) / "resumed"
        if marker.exists() and not again:
            raise ValueError(
                f"{path} was resumed before. Rows fed to two streams are paid for twice: use again=True only if the "
                "first resumption was not fed."
            )
        try:
            if description["kind"] != "stream":
                raise ValueError(complain("path", "resume_stream", "the folder of a saved stream", str(path)))
            task = description["task"]
            public = {name: arrays.pop(f"task.{name}", None) for name in _PUBLIC}
            method = METHODS[description["method"]](**description["options"])
            estimator: Any = cls(  # type: ignore[call-arg]
                task["n_components"],
                epsilon=task["epsilon"],
                delta=task["delta"],
                method=method,
                bound=task["bound"] if public["lower"] is None else (public["lower"], public["upper"]),
                center=task["center"] if public["point"] is None else public["point"],
                random_state=random_state,
                missing="drop" if task.get("on_bad_row") == "drop-to-zero" else task.get("missing", "refuse"),
            )
            estimator.n_features_in_ = int(task["n_features"])
            names = description["feature_names"]
            if names is not None:
                estimator.feature_names_in_ = np.array(names, dtype=object)
            source = ArraySource(np.empty((0, estimator.n_features_in_)), names)
            running = estimator._start_stream(source, paid=True)
            running.stream.restore(arrays, description["facts"])
            running.feed.spent = running.stream.rows_used > 0
            running.seeded |= bool(description["seeded"])
        except (KeyError, TypeError, IndexError) as error:
            raise io.DamagedReleaseError(f"{path} does not hold a saved stream: {error}") from None
        marker.touch()
        estimator.ledger = ledger
        estimator._stream = running
        estimator.n_samples_seen_ = running.stream.rows_used
        if running.stream.ready:
            estimator._publish(_released(running, source))
        return estimator


def _after_bad_rows(running: Running, taken: int) -> str:
    """The message if some rows of a call are bad and the stream has used rows before."""
    if not taken:
        return (
            "X has rows that are not finite numbers. None of its rows were used, and what was released before stays "
            "spent. Clean X and give all of it again, or set missing='drop'."
        )
    return (
        f"X has rows that are not finite numbers. Its first {taken} rows were used (of the whole stream, "
        f"{running.stream.rows_used} are used and {running.feed.pending} wait for their batch), and what was released "
        f"stays spent. Clean the rest and give only what follows the first {taken} rows of X, or set missing='drop'."
    )


def _released(running: Running, source: Source) -> Any:
    method, task = running.method, running.task
    cost = method.price(task)
    release = describe(running.stream.estimate(), method, task, cost, "pca", source, seeded=running.seeded)
    return replace(release, guarantee=release.guarantee.with_notes(_ORDER))
