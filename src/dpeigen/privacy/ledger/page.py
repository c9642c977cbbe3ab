"""Reading and appending to the record inside a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from dpeigen.privacy.ledger import chain
from dpeigen.privacy.ledger.chain import LedgerEvent, State
from dpeigen.privacy.ledger.store import Store, Transaction

__all__ = ["Page", "all_events"]


class Page:
    """The record. Refuses a store whose totals are not those of the last event, or with anything but its own tables."""

    def __init__(self, store: Store, db: Transaction, by: str, host: str, *, lock: bool = False) -> None:
        self._store, self._db, self._who = store, db, {"by": by, "host": host}
        rows = db.run(f"SELECT version, number, head, state FROM {db.schema}budget" + (db.lock if lock else ""))
        if len(rows) != 1:
            raise store.damaged("it holds no budget")
        version, self.number, self.head, text = rows[0]
        if version != chain.VERSION:
            raise store.damaged(f"its version is {version}, this dpeigen writes {chain.VERSION}")
        if odd := db.oddities():
            raise store.damaged(f"it holds what a ledger does not: {', '.join(odd)}")
        last = db.run(f"SELECT number, hash, body FROM {db.schema}event ORDER BY number DESC LIMIT 1") or [
            (0, chain.START, "")
        ]
        if last[0][:2] != (self.number, self.head):
            raise store.damaged("its totals are not those after its last event")
        try:
            self.state = State.from_text(text)
            if self.number and self.values(last[0][2])["totals"] != chain.digest(text):
                raise store.damaged("its totals are not those after its last event")
        except (ValueError, KeyError, TypeError) as error:
            raise store.damaged("its totals cannot be read") from error

    def values(self, text: str) -> dict[str, Any]:
        """The content of an event."""
        try:
            return LedgerEvent(0, "", "", text, "").values
        except (ValueError, TypeError, RecursionError) as error:
            raise self._store.damaged("an event cannot be read") from error

    def entry(self, ticket: str) -> tuple[Any, ...] | None:
        rows = self._db.run(
            f"SELECT number, state, started, settled FROM {self._db.schema}entry WHERE id = ?", (ticket,)
        )
        return rows[0] if rows else None

    def reservation(self, entry: tuple[Any, ...]) -> dict[str, Any]:
        rows = self._db.run(f"SELECT body FROM {self._db.schema}event WHERE number = ?", (entry[0],))
        if not rows:
            raise self._store.damaged("an event is missing")
        return self.values(rows[0][0])

    def add(self, kind: str, body: Mapping[str, Any], reserved: Mapping[str, Any] | None = None) -> None:
        """Append an event, and update everything that follows from it."""
        self.state = self.state.after(kind, body, reserved)
        totals = self.state.to_text()
        number, text = self.number + 1, chain.canonical({**body, **self._who, "totals": chain.digest(totals)})
        # Whole minutes: the duration of a fit may depend on the rows, and must not be readable from the record.
        at = datetime.now(timezone.utc).replace(second=0, microsecond=0).isoformat()
        head = chain.seal(self.head, number, at, kind, text)
        schema = self._db.schema
        self._db.run(f"INSERT INTO {schema}event VALUES (?, ?, ?, ?, ?)", (number, at, kind, text, head))
        if kind == "reserve" and self.entry(body["id"]) is not None:  # it was cancelled, so its id is free again
            again = f"UPDATE {schema}entry SET number = ?, state = 'reserved', started = 0, settled = NULL WHERE id = ?"
            self._db.run(again, (number, body["id"]))
        elif kind == "reserve":
            self._db.run(f"INSERT INTO {schema}entry VALUES (?, ?, 'reserved', 0, NULL)", (body["id"], number))
        elif kind == "start":
            self._db.run(f"UPDATE {schema}entry SET started = 1 WHERE id = ?", (body["id"],))
        elif kind in chain.SETTLING:
            settled = (chain.settled_state(kind, body), number, body["id"])
            self._db.run(f"UPDATE {schema}entry SET state = ?, settled = ? WHERE id = ?", settled)
        self.number, self.head = number, head
        self._db.run(f"UPDATE {schema}budget SET number = ?, head = ?, state = ?", (number, head, totals))


def all_events(db: Transaction) -> list[LedgerEvent]:
    """The record, oldest first."""
    return [
        LedgerEvent(*row)
        for row in db.run(f"SELECT number, at, kind, body, hash FROM {db.schema}event ORDER BY number")
    ]
