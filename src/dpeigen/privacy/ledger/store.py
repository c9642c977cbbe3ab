"""The storage of a ledger: three small tables, the same in SQLite and PostgreSQL, with exclusive transactions.

A writer holds the only lock from before it reads the totals until its changes are on disk. A writer that dies leaves no
partial changes. No connection outlives a call, so ledgers may be copied, pickled and used after a fork.

SQLite finds a file's log and locks by the file's name. A file with two names (a hard link, or a file that is mounted by
itself, as into a container) would have two logs, and writers would not see each other. For example, a log that a killed
process left under one name would not be seen under the other. So such a file is refused. SQLite's own locks are not
enough (see `sidecar`): connections are exclusive, and every grant is read back through a second connection.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from dpeigen.privacy.ledger import sidecar
from dpeigen.privacy.ledger.errors import DamagedLedgerError, LedgerUnavailableError, no_ledger

__all__ = ["SCHEMA", "SqliteStore", "Store", "Transaction"]

SCHEMA = (
    "CREATE TABLE budget (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL,"
    " number INTEGER NOT NULL, head TEXT NOT NULL, state TEXT NOT NULL)",
    "CREATE TABLE event (number INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,"
    " hash TEXT NOT NULL)",
    "CREATE TABLE entry (id TEXT PRIMARY KEY, number INTEGER NOT NULL, state TEXT NOT NULL,"
    " started INTEGER NOT NULL, settled INTEGER)",
)
_WAIT = 60.0  # seconds to wait for the lock
_UNCONFIRMED = "What was not confirmed is not granted; open reservations still count as spent."


class Transaction(ABC):
    """SQL with ``?`` for parameters, in one atomic transaction."""

    lock = ""  # suffix of a SELECT that keeps other writers out
    schema = ""  # prefix of every table name, so that no other table of that name is used instead

    @abstractmethod
    def run(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Rows of a query, or none."""

    @abstractmethod
    def oddities(self) -> list[str]:
        """Objects in the storage that are not the ledger's, e.g. triggers or rules that could undo writes."""


class Store(ABC):
    """The storage of one ledger."""

    name: str  # short, for messages
    place: str  # in full, without secrets

    @abstractmethod
    def check(self) -> None:
        """Raise FileNotFoundError if there is certainly no ledger."""

    @abstractmethod
    def create(self) -> AbstractContextManager[Transaction]:
        """A transaction with new tables; refuses if there is a ledger already."""

    @abstractmethod
    def write(self) -> AbstractContextManager[Transaction]:
        """A transaction of the only writer."""

    @abstractmethod
    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction that reads a consistent state."""

    def confirm(self, number: int, seal: str) -> None:  # noqa: B027
        """Raise `LedgerUnavailableError` if a written event is missing. A server's confirmation is trusted."""

    def damaged(self, why: object) -> DamagedLedgerError:
        return DamagedLedgerError(
            f"{self.place} is not a dpeigen ledger, or is damaged ({why}). Nothing was read or spent. Restore it from "
            "a backup; a new one forgets what was spent before."
        )

    def unavailable(self, why: object) -> LedgerUnavailableError:
        return LedgerUnavailableError(f"The ledger {self.place} cannot be used now: {why}. {_UNCONFIRMED}")


class _SqliteTransaction(Transaction):
    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def run(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, parameters).fetchall()

    def oddities(self) -> list[str]:
        due = {("table", statement.split()[2], statement) for statement in SCHEMA}
        found = {row for row in self.run("SELECT type, name, sql FROM sqlite_master") if not _own(*row[:2])}
        return sorted({f"{kind} {name}" for kind, name, _ in found ^ due})


def _own(kind: str, name: str) -> bool:
    """Whether it is one of SQLite's internal objects."""
    return kind in ("table", "index") and name.startswith("sqlite_")


class SqliteStore(Store):
    """A SQLite file, with a write-ahead log beside it while it is in use."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()  # does not change with the working directory
        self.name, self.place = self.path.name, str(self.path)

    def check(self) -> None:
        if not self.path.is_file():
            raise FileNotFoundError(no_ledger(self.path, "path"))

    @contextmanager
    def create(self) -> Iterator[Transaction]:
        if self.path.exists():
            raise FileExistsError(f"{self.path} exists already, and may hold what was spent.")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {self.path.parent} to make a ledger in.")
        # Created under another name and then linked: a ledger is never half written, and only one of two creators wins.
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=".ledger-") as folder:
            aside = Path(folder) / "new"
            with self._connected(aside) as db:
                db.execute("PRAGMA journal_mode = WAL")
                with self._transaction(db, "BEGIN IMMEDIATE") as transaction:
                    for statement in SCHEMA:
                        transaction.run(statement)
                    yield transaction
            with self._alone():
                self._put(aside)

    def _put(self, aside: Path) -> None:
        """Give a finished file its name."""
        try:
            os.link(aside, self.path)
            aside.unlink()
        except FileExistsError:
            raise FileExistsError(f"{self.path} exists already, and may hold what was spent.") from None
        except OSError:  # file systems without links
            with self.path.open("xb") as file:
                file.write(aside.read_bytes())
                file.flush()
                os.fsync(file.fileno())
        _sync(self.path.parent)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        self._check_name()
        with self._alone(), self._connected(self.path) as db, self._transaction(db, "BEGIN IMMEDIATE") as transaction:
            yield transaction

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        self._check_name()
        look = self._connected(self.path, reading=True)
        with self._alone(reading=True), look as db, self._transaction(db, "BEGIN") as transaction:
            yield transaction

    def confirm(self, number: int, seal: str) -> None:
        with self.read() as db:  # another connection, which reads from the disk again
            found = db.run("SELECT hash FROM event WHERE number = ?", (number,))
        if found != [(seal,)]:
            raise self.unavailable(
                "what was written is not there any more; another program changes, restores or replaces the file"
            )

    @contextmanager
    def _alone(self, *, reading: bool = False) -> Iterator[None]:
        """Exclude all other connections to the ledger's file, of all threads and processes."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(sidecar.alone(self.path, reading=reading, wait=_WAIT))
            except OSError as error:
                raise self.unavailable(error.strerror or error) from error
            yield

    @contextmanager
    def _transaction(self, db: sqlite3.Connection, begin: str) -> Iterator[Transaction]:
        db.execute(begin)
        try:
            yield _SqliteTransaction(db)
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")

    @contextmanager
    def _connected(self, path: Path, *, reading: bool = False) -> Iterator[sqlite3.Connection]:
        # To read a log, SQLite must write beside the file. If that is not allowed and there is no log, skip it.
        frozen = reading and not _writable(path.parent) and not Path(f"{path}-wal").exists()
        mode = "ro&immutable=1" if frozen else "rw" if path == self.path else "rwc"
        address = f"{path.as_uri()}?mode={mode}"
        db = None
        try:
            db = sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None)
            db.execute("PRAGMA synchronous = FULL")
            yield db
        except UnicodeDecodeError:  # SQLite repeats damaged names unchanged
            raise self.damaged("its text cannot be decoded") from None
        except sqlite3.DatabaseError as error:
            # "No such table" has the same error class as a lock or a full disk, but is about the file's content.
            about_content = any(words in str(error) for words in ("no such", "Could not decode"))
            if isinstance(error, sqlite3.OperationalError) and not about_content:
                raise self.unavailable(error) from error
            raise self._old(db) if "no such column: version" in str(error) else self.damaged(error) from error
        finally:
            if db is not None:
                db.close()

    def _check_name(self) -> None:
        """Refuse a file that can be reached by two names; see above."""
        try:
            for _ in range(10):
                if (links := self.path.stat().st_nlink) <= 1:
                    break
                time.sleep(0.02)  # a ledger has a second name for a moment while it is created
            mounted = _mounted(self.path)
        except OSError as error:
            raise self.unavailable(error) from error
        if links > 1 or mounted:
            how = f"{links} hard links; remove all but one" if links > 1 else "mounted by itself; mount its folder"
            raise self.unavailable(f"the file has more than one name ({how}), and their locks would not meet")

    def _old(self, db: sqlite3.Connection | None) -> DamagedLedgerError:
        """The refusal of a file of an early version without hash chain; it says what is left of its budget."""
        spent = "SELECT COALESCE(SUM(epsilon), 0), COALESCE(SUM(delta), 0) FROM entry WHERE state != 'cancelled'"
        try:
            (epsilon, delta), (used, used_delta) = (
                db.execute(sql).fetchone()  # type: ignore[union-attr]
                for sql in ("SELECT epsilon, delta FROM budget", spent)
            )
        except sqlite3.Error as error:
            return self.damaged(error)
        return DamagedLedgerError(
            f"{self.place} was made by an earlier version of dpeigen, without a chain of hashes, and can no longer be "
            f"written. (ε, δ) = ({max(epsilon - used, 0.0):g}, {max(delta - used_delta, 0.0):g}) is left in it: keep "
            "the file, and make a new ledger with that budget."
        )


def _mounted(path: Path) -> bool:
    """Whether the file itself, not its folder, is a mount point; only Linux allows that."""
    if sys.platform != "linux":
        return False
    name = os.fsencode(path.resolve())
    for byte in (b"\\", b" ", b"\t", b"\n"):  # escaped as the kernel does
        name = name.replace(byte, b"\\%03o" % byte[0])
    with Path("/proc/self/mountinfo").open("rb") as mounts:
        return any(line.split(b" ", 5)[4] == name for line in mounts)


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def _sync(folder: Path) -> None:
    """Write the directory entry of a new file to disk too, if the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
