"""Reading a ledger: totals, the remaining budget, the record, and its verification. Reading changes nothing."""

from __future__ import annotations

import socket
from typing import Any

from dpeigen.privacy.budget import Budget
from dpeigen.privacy.ledger import chain
from dpeigen.privacy.ledger.chain import LedgerEvent, State, Verdict
from dpeigen.privacy.ledger.entries import cautions, history_of
from dpeigen.privacy.ledger.page import Page, all_events
from dpeigen.privacy.ledger.room import as_asked, gaussian_room, left_in
from dpeigen.privacy.ledger.store import Store, Transaction
from dpeigen.privacy.ledger.texts import user_name

__all__ = ["Reading"]


class Reading:
    """The part of a `Ledger` that reads."""

    # Those of the ledger.
    _store: Store
    _by: str | None
    _host: str | None

    def state(self) -> State:
        """Read the total budget, the accounting and what is spent.

        Returns
        -------
        State
            Frozen; totals of everything reserved and committed.
        """
        with self._store.read() as db:
            return self._page(db).state

    def remaining(self) -> Budget | None:
        """Compute the largest cost, as a bare (ε, δ), that would be granted now.

        Returns
        -------
        Budget or None
            None when ε is used up.
        """
        return left_in(as_asked(self.state()))

    def room(self, delta: float) -> float:
        """Compute the largest ε of one more release by Gaussian noise alone that fits now.

        Parameters
        ----------
        delta : float
            The δ of that release.

        Returns
        -------
        float
            0 if nothing fits.
        """
        return gaussian_room(as_asked(self.state()), delta)

    def history(self) -> list[dict[str, Any]]:
        """List all entries, oldest first: who reserved what and when, at which cost, and the outcome.

        It is computed from the record, so it is always complete: it has cancelled entries, those closed by hand, and
        each use of an id that was cancelled and reserved again.

        Returns
        -------
        list of dict
            One for each reservation or refusal.
        """
        try:
            return history_of(self.events())
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._store.damaged("an event cannot be read") from error

    def events(self) -> list[LedgerEvent]:
        """Read the record itself, oldest first.

        Returns
        -------
        list of LedgerEvent
            Events, each with the hash of the one before.
        """
        with self._store.read() as db:
            self._page(db)
            return all_events(db)

    def verify(self, head: str | None = None) -> Verdict:
        """Recompute every hash, total and state from the record, and check that each grant was within the budget.

        Parameters
        ----------
        head : str, default=None
            The head of an earlier verdict, kept elsewhere: that event must still be in the chain.

        Returns
        -------
        Verdict
            Problems, cautions, the number of events and the head; prints as text.
        """
        with self._store.read() as db:
            events = all_events(db)
            rows = db.run(f"SELECT id, number, state, started, settled FROM {db.schema}entry")
            stored = db.run(f"SELECT version, number, head, state FROM {db.schema}budget")
            odd, entries = db.oddities(), {row[0]: tuple(row[1:]) for row in rows}
        state, expected, problems, last = chain.replay(events)
        number = events[-1].number if events else 0
        found = () if problems else cautions(history_of(events))  # a broken record allows no conclusions
        problems.extend(f"there is what a ledger does not hold: {name}" for name in odd)
        if stored != [(chain.VERSION, number, last, state.to_text())]:
            problems.append("the stored totals are not those of the record")
        if entries != {name: entry.row() for name, entry in expected.items()}:
            problems.append("the stored entries are not those of the record")
        if head is not None and head not in {f"{e.number}:{e.hash}" for e in events}:
            problems.append("the head given is not in the record: events were removed or rewritten since it was noted")
        return Verdict(tuple(problems), len(events), f"{number}:{last}", found, head is not None)

    def _page(self, db: Transaction, *, lock: bool = False) -> Page:
        return Page(self._store, db, self._by or user_name(), self._host or socket.gethostname(), lock=lock)
