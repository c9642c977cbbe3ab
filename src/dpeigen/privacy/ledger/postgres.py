"""A ledger in PostgreSQL, for teams: ``postgresql://user@host/database?ledger=study``.

Each ledger is a schema ``dpeigen_<name>`` of the database with the same tables as a file. A writer locks the one row of
the budget (``SELECT … FOR UPDATE``) before it reads the totals, whatever host it runs on. It asks the server to confirm
only after the commit is on disk (``synchronous_commit``, which some servers switch off). Every table is named with its
schema, and the catalog is searched first for the server's own tables. Otherwise, in a pooled session that others used
before, a temporary table of the same name could be found instead.

Secrets: a password in the URL is used to connect and appears in no message, entry or ``repr``. It is better to have
none in the URL: libpq takes it from ~/.pgpass, PGPASSFILE or PGPASSWORD.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from dpeigen._validate import complain
from dpeigen.privacy.ledger.errors import UnverifiedServerWarning, no_ledger
from dpeigen.privacy.ledger.store import SCHEMA, Store, Transaction

__all__ = ["PostgresStore"]

_NO_URL = (
    "PostgreSQL does not understand the ledger's URL (postgresql://user@host:port/database). In a password / is %2F, "
    "@ is %40, : is %3A, ? is %3F and # is %23."
)
_SHOWN = ("user", "host", "port", "dbname", "sslmode", "sslrootcert")
_DEFAULTS = {"connect_timeout": "15", "application_name": "dpeigen"}
_PATH = "SET LOCAL search_path TO pg_catalog, pg_temp"  # pg_temp is searched first unless it is named
_SETTINGS = (
    "SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '60s';"
    " SET LOCAL idle_in_transaction_session_timeout = '60s'"
)


_HERE = "c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = '{schema}')"
_ODD = {
    "trigger": f"SELECT tgname FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid WHERE {_HERE} AND NOT tgisinternal",
    "rule": f"SELECT rulename FROM pg_rewrite JOIN pg_class c ON c.oid = ev_class WHERE {_HERE}",
    "policy": f"SELECT polname FROM pg_policy JOIN pg_class c ON c.oid = polrelid WHERE {_HERE}",
    "default": f"SELECT c.relname FROM pg_attrdef JOIN pg_class c ON c.oid = adrelid WHERE {_HERE}",
    "constraint": f"SELECT conname FROM pg_constraint JOIN pg_class c ON c.oid = conrelid WHERE {_HERE}"
    " AND contype = 'c' AND conname <> 'budget_one_check'",
    "index": f"SELECT c.relname FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE {_HERE}"
    " AND (indexprs IS NOT NULL OR indpred IS NOT NULL)",
    "heir": f"SELECT c.relname FROM pg_inherits JOIN pg_class c ON c.oid = inhparent WHERE {_HERE}",
    "relation": f"SELECT c.relname FROM pg_class c WHERE {_HERE} AND c.relkind <> 'i'"
    " AND NOT (c.relkind = 'r' AND c.relname IN ('budget', 'event', 'entry'))",
}


class _PostgresTransaction(Transaction):
    lock = " FOR UPDATE"

    def __init__(self, db: Any, schema: str) -> None:
        self._db, self.schema, self._schema = db, f"{schema}.", schema

    def run(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        cursor = self._db.execute(sql.replace("?", "%s"), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def oddities(self) -> list[str]:
        queries = {kind: query.format(schema=self._schema) for kind, query in _ODD.items()}
        parts = (f"SELECT '{kind} ' || o.name FROM ({query}) AS o(name)" for kind, query in queries.items())
        return [name for (name,) in self.run(" UNION ALL ".join(parts))]


class PostgresStore(Store):
    """One schema of a database."""

    def __init__(self, url: str) -> None:
        psycopg = _psycopg()
        try:
            parts = urlsplit(url)
        except ValueError:  # its message may contain the URL, and so a password
            parts = urlsplit("")
        # Parts of a password with an unescaped / @ ? or # would be read as host, port or database, which are shown.
        if not parts.scheme or parts.netloc.count("@") > 1 or "@" in parts.path + parts.query or parts.fragment:
            raise ValueError(_NO_URL)
        query = dict(parse_qsl(parts.query))
        self.name = query.pop("ledger", "default")
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", self.name):
            must = "lower-case letters, digits and _, beginning with a letter, at most 40"
            raise ValueError(complain("ledger", "the URL", must, self.name))
        # Not by urlunsplit, which drops the slashes of an empty host.
        self._url = f"{parts.scheme}://{parts.netloc}{parts.path}?{urlencode(query, quote_via=quote)}"
        try:
            facts = psycopg.conninfo.conninfo_to_dict(self._url)
        except psycopg.Error:  # its message may contain the URL too
            facts = None
        shown = {name: str((facts or {}).get(name, "")) for name in _SHOWN}
        misplaced = re.search("[@=]", shown["host"] + shown["dbname"]) or shown["port"].strip(",0123456789")
        if facts is None or misplaced:
            raise ValueError(_NO_URL)
        self._options = {name: value for name, value in _DEFAULTS.items() if name not in facts}
        given = {name: value for name, value in shown.items() if value and name != "dbname"}
        self.place = f"postgresql:///{quote(shown['dbname'])}?" + urlencode({**given, "ledger": self.name}, safe="/,:")
        self._schema = f"dpeigen_{self.name}"
        if host := _unverified(facts):
            warnings.warn(
                f"The ledger on {host} is asked over a network without sslmode=verify-full, so another machine could "
                "answer in its place, read the password, and grant more than the budget. Add sslmode=verify-full to "
                "the URL or set PGSSLMODE=verify-full.",
                UnverifiedServerWarning,
                stacklevel=4,
            )

    def check(self) -> None:
        """Does nothing: without a connection nothing is known, and the first use checks."""

    @contextmanager
    def create(self) -> Iterator[Transaction]:
        psycopg = _psycopg()
        exists = f"{self.place} exists already, and may hold what was spent."
        with self._transaction(_PATH) as db:
            try:
                db.execute(f"CREATE SCHEMA {self._schema}")
            except (psycopg.errors.DuplicateSchema, psycopg.errors.UniqueViolation):
                raise FileExistsError(exists) from None
            for statement in SCHEMA:
                db.execute(statement.replace("CREATE TABLE ", f"CREATE TABLE {self._schema}."))
            yield _PostgresTransaction(db, self._schema)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        # Set explicitly: a writer that waited for the lock must see what was committed in the meantime.
        begin = f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {_PATH}"
        with self._transaction(begin) as db:
            yield _PostgresTransaction(db, self._schema)

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        begin = f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; {_PATH}"
        with self._transaction(begin) as db:
            yield _PostgresTransaction(db, self._schema)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Any]:
        psycopg, refusal = _psycopg(), None  # type: Any, Exception | None
        try:
            with psycopg.connect(self._url, **self._options) as db:  # commits at the end, or rolls back
                db.execute(begin)
                if "READ ONLY" not in begin:
                    db.execute(_SETTINGS)
                yield db
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            refusal = FileNotFoundError(no_ledger(self.place, "url"))
        except psycopg.errors.UndefinedColumn as error:
            refusal = self.damaged(self._clean(error))
        except psycopg.Error as error:
            refusal = self.unavailable(self._clean(error))
        if refusal is not None:
            raise refusal  # outside the handlers, so that the driver's error is not attached as context

    def _clean(self, error: Exception) -> str:
        """The first line of the server's message, without secrets."""
        facts = _psycopg().conninfo.conninfo_to_dict(self._url)
        text = (str(error).splitlines() or [type(error).__name__])[0].strip().rstrip(".")
        for secret in ("password", "sslpassword", "passfile"):
            if facts.get(secret):
                text = text.replace(str(facts[secret]), "•••")
        return text


def _unverified(facts: dict[str, Any]) -> str:
    """The first remote host whose certificate would not be checked, or "". Considers environment variables too."""
    defaults = _psycopg().pq.Conninfo.get_defaults()
    known = {option.keyword.decode(): (option.val or b"").decode() for option in defaults} | facts
    if known.get("sslmode") == "verify-full":
        return ""
    hosts = str(known.get("hostaddr") or known.get("host") or "").split(",")
    here = ("", "localhost", "::1")  # a name with a slash is the folder of a socket
    return next((h for h in hosts if not (h in here or h.startswith(("/", "@", "127.")))), "")


def _psycopg() -> Any:
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError as error:
        raise ImportError("A ledger in PostgreSQL needs psycopg: pip install 'dpeigen[postgres]'") from error
    return psycopg
