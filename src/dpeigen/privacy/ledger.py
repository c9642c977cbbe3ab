"""A privacy ledger in a file: one budget for one data set, shared by every process that uses it.

A release first reserves its (ε, δ); the reservation is refused, before any data is read, if it would take the total
above the budget. Then it commits. A reservation that was neither committed nor cancelled counts as spent. SQLite
serialises writers, so parallel and cloned estimators cannot overdraw; nothing is kept in memory.

Totals are sums (basic composition): safe for every mix of mechanisms.

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "study.ledger"
>>> ledger = Ledger.create(path, epsilon=1.0, delta=1e-6)
>>> ticket = ledger.reserve(Budget(0.4, 1e-7), "pca of the first wave")
>>> ledger.commit(ticket)
>>> round(ledger.remaining().epsilon, 3)
0.6
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dpeigen.privacy.budget import Budget, Relation

_SCHEMA = """
CREATE TABLE budget (only INTEGER PRIMARY KEY CHECK (only = 1), epsilon REAL NOT NULL, delta REAL NOT NULL);
CREATE TABLE entry (id TEXT PRIMARY KEY, at TEXT NOT NULL, what TEXT NOT NULL, epsilon REAL NOT NULL,
                    delta REAL NOT NULL, relation TEXT NOT NULL,
                    state TEXT NOT NULL CHECK (state IN ('reserved', 'committed', 'cancelled')));
"""
_ROUNDING = 1 + 1e-12  # ten shares of a tenth are one whole


_FIELDS = ("id", "at", "what", "epsilon", "delta", "relation", "state")


class BudgetExceededError(RuntimeError):
    """The ledger has no room for a release; no data was read."""


class DamagedLedgerError(RuntimeError):
    """The file is not a ledger, or is one no longer; no data was read."""


class Ledger:
    """The ledger at a path. Make the file once with `Ledger.create`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"No ledger at {self.path}. Make one with Ledger.create(path, epsilon=…).")

    @classmethod
    def create(cls, path: str | Path, *, epsilon: float, delta: float = 0.0) -> Ledger:
        """A new ledger with a total budget; refuses to overwrite."""
        total, path = Budget(epsilon, delta), Path(path)
        with path.open("xb"):
            pass
        with _open(path) as db:
            db.executescript(_SCHEMA)
            db.execute("INSERT INTO budget VALUES (1, ?, ?)", (total.epsilon, total.delta))
        return cls(path)

    @classmethod
    def at(cls, ledger: Ledger | str | Path) -> Ledger:
        """A ledger from itself or its path."""
        return ledger if isinstance(ledger, Ledger) else cls(ledger)

    def reserve(self, cost: Budget, what: str, relation: Relation = Relation.REPLACE) -> str:
        """Set the cost aside and return a ticket, or raise `BudgetExceededError`.

        All releases of a data set are about the same neighbouring relation: costs under different ones do not add up.
        """
        with _open(self.path) as db:
            db.execute("BEGIN IMMEDIATE")  # one writer at a time: check and insert are one step
            self._check_room(db, cost)
            self._check_relation(db, relation)
            ticket = uuid.uuid4().hex
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            db.execute(
                "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, 'reserved')",
                (ticket, now, what, cost.epsilon, cost.delta, relation.value),
            )
        return ticket

    def require(self, cost: Budget) -> None:
        """Raise `BudgetExceededError` if there is no room now; reserves nothing."""
        with _open(self.path) as db:
            self._check_room(db, cost)

    def commit(self, ticket: str) -> None:
        """The release was made."""
        self._settle(ticket, "committed")

    def cancel(self, ticket: str) -> None:
        """Nothing was drawn from the data: give the reservation back."""
        self._settle(ticket, "cancelled")

    def remaining(self) -> Budget | None:
        """What is left, or None when ε is used up."""
        with _open(self.path) as db:
            epsilon, delta = self._left(db)
        return Budget(epsilon, max(delta, 0.0)) if epsilon > 1e-15 else None

    def history(self) -> list[dict[str, Any]]:
        """All entries, oldest first."""
        with _open(self.path) as db:
            rows = db.execute(f"SELECT {', '.join(_FIELDS)} FROM entry ORDER BY rowid").fetchall()
        return [dict(zip(_FIELDS, row, strict=True)) for row in rows]

    def _settle(self, ticket: str, state: str) -> None:
        with _open(self.path) as db:
            done = db.execute("UPDATE entry SET state = ? WHERE id = ? AND state = 'reserved'", (state, ticket))
            if done.rowcount != 1:
                raise KeyError(f"No open reservation {ticket!r} in {self.path.name}.")

    def _check_room(self, db: sqlite3.Connection, cost: Budget) -> None:
        epsilon, delta = self._left(db)
        if cost.epsilon > epsilon * _ROUNDING + 1e-15 or cost.delta > max(delta, 0.0) * _ROUNDING:
            raise BudgetExceededError(
                f"The ledger {self.path.name} has (ε, δ) = ({epsilon:g}, {delta:g}) left; this release needs "
                f"({cost.epsilon:g}, {cost.delta:g}). Nothing was spent."
            )

    def _check_relation(self, db: sqlite3.Connection, relation: Relation) -> None:
        other = db.execute(
            "SELECT relation FROM entry WHERE state != 'cancelled' AND relation != ? LIMIT 1", (relation.value,)
        ).fetchone()
        if other is not None:
            raise ValueError(
                f"The ledger {self.path.name} accounts for relation='{other[0]}'; this release is about '{relation}', "
                f"and the two do not add up. Use relation='{other[0]}'. Nothing was spent."
            )

    @staticmethod
    def _left(db: sqlite3.Connection) -> tuple[float, float]:
        total = db.execute("SELECT epsilon, delta FROM budget").fetchone()
        if total is None:
            raise sqlite3.DatabaseError("it holds no budget")
        epsilon, delta = total
        spent = "SELECT COALESCE(SUM(epsilon), 0), COALESCE(SUM(delta), 0) FROM entry WHERE state != 'cancelled'"
        used_epsilon, used_delta = db.execute(spent).fetchone()
        return epsilon - used_epsilon, delta - used_delta


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    try:
        with db:
            db.execute("PRAGMA synchronous = FULL")
            yield db
    except sqlite3.DatabaseError as error:
        # "No such table" is an operational error, like a lock or a full disk, but is about the file's content.
        if isinstance(error, sqlite3.OperationalError) and "no such" not in str(error):
            raise
        raise DamagedLedgerError(
            f"{path} is not a dpeigen ledger, or is damaged ({error}). Nothing was read or spent. Restore it from a "
            "backup; a new one forgets what was spent before."
        ) from error
    finally:
        db.close()
