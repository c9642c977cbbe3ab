"""The steps of a paid release: reserve, start, measure, keep, commit.

A release is kept before it is committed in the ledger. To keep it means that it is stored on the estimator, and that
the caller of `kept_by` (the command line) has saved it. If a process dies in between, there is a reservation that
counts as spent, and perhaps a saved release. A release that was paid for is never lost because the ledger cannot be
reached. A reservation is returned only if nothing was drawn for these rows, that is, before a pass over them was
finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from dpeigen.privacy.ledger import DamagedLedgerError, Ledger, LedgerUnavailableError, RepeatedReleaseError
from dpeigen.sources import Source, UnreadableRowsError
from dpeigen.stats import BadRowsError

__all__ = [
    "LEDGER_FAILS",
    "D",
    "Keeper",
    "PaidCourse",
    "PaidError",
    "T",
    "kept_by",
    "refusal",
    "to_its_end",
    "withdrawal",
]

D = TypeVar("D")
T = TypeVar("T")
LEDGER_FAILS = (LedgerUnavailableError, DamagedLedgerError, RepeatedReleaseError, OSError, KeyError)


class PaidError(ValueError):
    """Something failed after the budget counted as spent.

    Parameters
    ----------
    message : str
        What failed, without values of the data.
    release : Release, ScoreMap or None
        The result, if there is one: it is paid for, and may be used.
    """

    def __init__(self, message: str, release: Any = None) -> None:
        super().__init__(message)
        self.release = release


class Keeper:
    """Keeps releases before they are committed, and can query their state."""

    course: PaidCourse | None = None

    def keep(self, release: Any) -> None:
        """Save a release; must not raise errors that can be handled otherwise."""


_keeper: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


@contextmanager
def kept_by(keeper: Keeper) -> Iterator[None]:
    """Give releases of estimators fitted in this context to the keeper before they are committed."""
    token = _keeper.set(keeper)
    try:
        yield
    finally:
        _keeper.reset(token)


class PaidCourse:
    """The steps of one release."""

    def __init__(self, source: Source, ledger: Ledger | None) -> None:
        self._source, self._ledger, self._before = source, ledger, source.passes
        self.ticket = ""
        self.over = False  # whether it is kept, and committed if there is a ledger that can be reached
        self._state = "none"  # of the reservation: none, asked for, open, returned, stuck, committed
        self._keeper = _keeper.get()
        if self._keeper is not None:
            self._keeper.course = self

    @property
    def drawn(self) -> bool:
        """Whether anything may have been drawn for these rows."""
        return self._source.passes > self._before

    def reserve(self, *arguments: Any, **options: Any) -> None:
        """Reserve the cost, and record that noise is about to be drawn: a second attempt is a second release."""
        ledger = self._ledger
        if ledger is None:
            return
        self._state = "asked for"

        def begin() -> None:
            self.ticket = ledger.reserve(*arguments, **options)
            self._state = "open"
            ledger.start(self.ticket)

        try:
            to_its_end(begin)
        except KeyboardInterrupt as stop:
            if self._state == "open":
                self._give_back(stop)
            raise

    def release(self, draw: Callable[[], D], describe: Callable[[D], T], finish: Callable[[T], T]) -> T:
        """Draw, describe, finish, keep, commit.

        ``draw`` reads rows and draws noise. ``describe`` makes a release of the draws and has no other effect, so it is
        called again if it was interrupted. If a release cannot be described or finished, its latest form is kept.
        """
        drawn = self._measured(draw)
        done: Any = drawn
        failed = ""
        try:
            done = describe(drawn)
            done = finish(done)
        except BaseException as error:  # Ctrl-C too: what was paid for must not be lost
            failed = f"The release was made, but could not be finished ({type(error).__name__})."
            if done is drawn:
                with suppress(Exception):
                    done = describe(drawn)
        return self.deliver(done, failed)

    def _measured(self, draw: Callable[[], D]) -> D:
        """The result of ``draw``. Returns the reservation if it fails before anything was drawn."""
        try:
            return draw()
        except KeyboardInterrupt as stop:
            if not self.drawn:
                self._give_back(stop)
            raise
        except ValueError as error:
            if self.drawn:
                text = str(error).replace("Nothing was spent.", "").strip()
                text += " The rows had already been read, and what was drawn from them stays spent."
            else:
                if isinstance(error, BadRowsError):
                    self._give_back(error)
                if self._state != "stuck":
                    raise _with_row_note(error, self._source) from None
                text = "The rows could not be read."
        # Another type than errors that cost nothing, and without them as context.
        raise PaidError(text if self._ledger is None else f"{text} {self.words}")

    def deliver(self, done: Any, failed: str) -> Any:
        """Keep the result, and commit; ``failed``: what went wrong before."""
        if self._keeper is not None:
            self._keeper.keep(done)
        try:
            if self._ledger is not None:
                self._ledger.commit(self.ticket)
                self._state = "committed"
        except LEDGER_FAILS as error:
            failed += f" The release was made, but the ledger could not record it: {_sentence(error)} {self.words}"
        self.over = True
        if failed:
            raise PaidError(f"{failed.strip()} This error holds it as its attribute 'release'.", done)
        return done

    def _give_back(self, why: BaseException) -> None:
        ledger = self._ledger
        if ledger is None:
            return

        def cancel() -> None:
            ledger.cancel(self.ticket, withdrawal(why))
            self._state = "returned"

        try:
            to_its_end(cancel)
        except LEDGER_FAILS:
            self._state = "stuck"

    @property
    def words(self) -> str:
        """The state of the reservation, as a sentence for the caller."""
        if self._ledger is None or self._state == "none":
            return "The budget is spent." if self.drawn else "Nothing was spent."
        place, name = self._ledger.place, f"The reservation {self.ticket!r}"
        if self._state == "asked for":
            return f"Whether a reservation was made is not known. See: dpeigen ledger show {place}"
        if self._state == "returned":
            return f"{name} was cancelled: nothing was spent."
        if self._state == "committed":
            return "The ledger has recorded the release."
        if self.drawn:
            return f"{name} counts as spent (see: dpeigen ledger resolve {place} {self.ticket} --as spent --reason …)."
        return (
            f"Nothing was drawn, but {name[0].lower()}{name[1:]} is still open and counts as spent until someone "
            f"closes it: dpeigen ledger resolve {place} {self.ticket} --as cancelled --reason …"
        )


def _with_row_note(error: ValueError, source: Source) -> ValueError:
    """The refusal of rows of a file, with what counts as a row there; other refusals as they are."""
    if type(error) is not BadRowsError or not source.row_note:
        return error
    return BadRowsError(f"{error} {source.row_note}")


def to_its_end(call: Callable[[], T]) -> T:
    """The result of the call, which Ctrl-C does not stop in the middle: it runs in another thread.

    After an interrupted write, this process would not know whether its reservation, or its start, is in the ledger.
    """
    pool = ThreadPoolExecutor(1)
    done = pool.submit(call)
    try:
        wait([done])
    finally:
        pool.shutdown()  # waits again after Ctrl-C
    return done.result()  # of a call that has ended: tracebacks do not depend on how long it took


def withdrawal(why: BaseException) -> str:
    """Why a reservation is returned, for the ledger's record: the kind of refusal, without values."""
    return "interrupted before anything was drawn" if isinstance(why, KeyboardInterrupt) else refusal(why)


def refusal(error: BaseException) -> str:
    """The kind of a refusal after rows were read."""
    kind = "rows that could not be read" if isinstance(error, UnreadableRowsError) else "bad rows"
    return f"refused after data were read: {kind}"


def _sentence(error: Exception) -> str:
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
    return text if text.endswith(".") else f"{text}."
