"""A running stream, and what its release needs: the one pass over rows, its account, and its description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpeigen.curator import Feed
from dpeigen.estimators.course import LEDGER_FAILS, PaidError, to_its_end, withdrawal
from dpeigen.estimators.describe import describe
from dpeigen.estimators.people import Roll
from dpeigen.methods import OnePassMethod, Stream, Task
from dpeigen.privacy.ledger import Ledger
from dpeigen.sources import Source

__all__ = ["Running", "begun", "give_back"]

_ORDER = (
    "Batches contain the rows in the order in which the caller gave them: a replaced row keeps its position. If that "
    "order depends on private values (a table sorted by one of them), shuffle the rows first."
)


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

    def released(self, source: Source) -> Any:
        """The release of what was paid for so far."""
        method, task = self.method, self.task
        cost = method.price(task)
        release = describe(self.stream.estimate(), method, task, cost, "pca", source, seeded=self.seeded)
        return replace(release, guarantee=release.guarantee.with_notes(_ORDER))

    def after_bad_rows(self, taken: int) -> str:
        """The message if some rows of a call are bad and the stream has used rows before."""
        if not taken:
            return (
                "X has rows that are not finite numbers. None of its rows were used, and what was released before "
                "stays spent. Clean X and give all of it again, or set missing='drop'."
            )
        return (
            f"X has rows that are not finite numbers. Its first {taken} rows were used (of the whole stream, "
            f"{self.stream.rows_used} are used and {self.feed.pending} wait for their batch), and what was released "
            f"stays spent. Clean the rest and give only what follows the first {taken} rows of X, or set "
            "missing='drop'."
        )


def begun(ledger: Ledger, reserve: Callable[[], str]) -> str:
    """A reservation that was started; none if Ctrl-C comes in between."""
    tickets: list[str] = []

    def begin() -> None:
        tickets.append(reserve())
        ledger.start(tickets[0])

    try:
        to_its_end(begin)
    except KeyboardInterrupt as stop:
        if tickets:
            give_back(ledger, tickets[0], stop)
        raise
    return tickets[0]


def give_back(ledger: Ledger, ticket: str, why: BaseException) -> None:
    """Cancel a reservation of which nothing was spent, whatever interrupts."""
    to_its_end(lambda: ledger.cancel(ticket, withdrawal(why)))
