"""What only a server can show: rights, crashes, names, and that no connection is kept."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import postgres_server
import pytest

from dpeigen import Ledger
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import BudgetExceededError, DamagedLedgerError, LedgerUnavailableError


def execute(url, *statements):
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        rows = [db.execute(statement) for statement in statements]
        return rows[-1].fetchall() if rows[-1].description else []


def test_a_url_may_have_passed_through_a_path(database):
    url = f"{database}&ledger=path_like"
    Ledger.create(url, epsilon=1.0)
    assert Ledger(Path(url)).remaining() == Budget(1.0)


def test_a_path_that_has_dropped_the_empty_host_is_refused(database):
    with pytest.raises(ValueError, match="Give it as text"):
        Ledger(Path("postgresql:///postgres?ledger=study"))


def test_a_socket_without_a_host_in_the_url(database, monkeypatch):
    """Three slashes: the host is libpq's to choose, not the name of the database."""
    folder = database.split("host=")[1]
    monkeypatch.setenv("PGHOST", folder)
    monkeypatch.setenv("PGUSER", "analyst")
    ledger = Ledger.create("postgresql:///postgres?ledger=socket", epsilon=1.0)
    ledger.reserve(Budget(0.25), "x")
    assert Ledger(f"{database}&ledger=socket").remaining() == Budget(0.75)


def test_the_place_leads_back(database):
    ledger = Ledger.create(f"{database}&ledger=back", epsilon=1.0)
    ledger.reserve(Budget(0.25), "x")
    assert Ledger(ledger.place).remaining() == Budget(0.75)
    assert Ledger(ledger.place).place == ledger.place
    place = Ledger("postgresql://ada:pw@[::1]:5433,db.example.org:5434/a%20b?ledger=x&sslmode=verify-full").place
    assert Ledger(place).place == place
    assert "pw" not in place


SCHEMA = "dpeigen_odd"
ODD = {
    "trigger": "CREATE TRIGGER odd AFTER UPDATE ON {0}.budget FOR EACH ROW EXECUTE FUNCTION {0}.odd()",
    "rule": "CREATE RULE odd AS ON INSERT TO {0}.event DO ALSO DELETE FROM {0}.entry",
    "policy": "CREATE POLICY odd ON {0}.event USING (number < 2)",
    "default": "ALTER TABLE {0}.event ADD COLUMN more INTEGER DEFAULT 1",
    "constraint": "ALTER TABLE {0}.entry ADD CONSTRAINT odd CHECK (number > 0)",
    "index": "CREATE INDEX odd ON {0}.event (lower(kind))",
    "heir": "CREATE TABLE public.heir_of_odd () INHERITS ({0}.event)",
    "relation": "CREATE VIEW {0}.odd AS SELECT 1 AS one",
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_not_a_ledgers_is_found_and_stops_grants(database, kind):
    ledger = Ledger.create(f"{database}&ledger=odd", epsilon=1.0)
    try:
        ledger.reserve(Budget(0.1), "x")
        assert ledger.verify().ok
        body = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
        execute(database, f"CREATE FUNCTION {SCHEMA}.odd() {body}", ODD[kind].format(SCHEMA))
        assert any(f"does not hold: {kind}" in problem for problem in ledger.verify().problems)
        with pytest.raises(DamagedLedgerError, match=f"what a ledger does not: .*{kind}"):
            ledger.reserve(Budget(0.1), "x")
    finally:
        execute(database, f"DROP SCHEMA {SCHEMA} CASCADE")


def test_ledgers_of_one_database_do_not_meet(database):
    first = Ledger.create(f"{database}&ledger=one", epsilon=1.0)
    second = Ledger.create(f"{database}&ledger=two", epsilon=2.0)
    first.reserve(Budget(1.0), "x", id="same")
    second.reserve(Budget(0.5), "x", id="same")
    assert (first.remaining(), second.remaining()) == (None, Budget(1.5))
    with pytest.raises(FileNotFoundError, match=r"No ledger at .*ledger=three"):
        Ledger(f"{database}&ledger=three").remaining()


@pytest.mark.parametrize("name", ["Study", "a b", "a;drop", "", "1st", "x" * 41])
def test_names_are_plain(database, name):
    with pytest.raises(ValueError, match="'ledger' parameter"):
        Ledger(f"{database}&ledger={name or '%20'}")


def test_the_documented_rights_are_enough_and_no_more_are_needed(database):
    ledger = Ledger.create(f"{database}&ledger=rights", epsilon=1.0)
    schema = "dpeigen_rights"
    execute(
        database,
        "CREATE ROLE grace LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO grace",
        f"GRANT SELECT, INSERT ON {schema}.event TO grace",
        f"GRANT SELECT, INSERT, UPDATE ON {schema}.entry TO grace",
        f"GRANT SELECT, UPDATE ON {schema}.budget TO grace",
    )
    url = database.replace("analyst@", "grace@")
    hers = Ledger(f"{url}&ledger=rights")
    hers.cancel(hers.reserve(Budget(0.1), "x", id="a"))
    hers.start(hers.reserve(Budget(0.1), "x", id="a"))
    hers.commit("a")
    assert hers.verify().ok
    execute(database, f"REVOKE INSERT ON {schema}.event FROM grace")
    with pytest.raises(LedgerUnavailableError, match="permission denied"):
        hers.reserve(Budget(0.1), "x")
    assert ledger.remaining().epsilon == pytest.approx(0.9)


def test_nothing_stays_connected_and_ledgers_travel(database):
    ledger = Ledger.create(f"{database}&ledger=travel", epsilon=1.0)
    copy = pickle.loads(pickle.dumps(ledger))
    copy.reserve(Budget(0.25), "x")
    assert ledger.remaining() == Budget(0.75)
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dpeigen'"
    for _ in range(200):  # a process of the server that was told to go needs a moment on a busy machine
        if execute(database, count) == [(0,)]:
            break
        time.sleep(0.05)
    assert execute(database, count) == [(0,)]


def test_waiting_writers_see_what_was_done_meanwhile(database):
    url = f"{database}&ledger=waiting&options=-c%20default_transaction_isolation%3Dserializable"
    ledger, granted = Ledger.create(url, epsilon=1.0), []

    def work(number):
        for i in range(10):
            with contextlib.suppress(BudgetExceededError):
                granted.append(ledger.reserve(Budget(0.125), "x", id=f"{number}-{i}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == len(set(granted)) == 8
    assert ledger.remaining() is None


def test_commits_are_durable_where_the_server_is_careless(database):
    """The server of these tests has synchronous_commit off; a writer switches it on for itself."""
    assert execute(database, "SHOW synchronous_commit") == [("off",)]
    ledger = Ledger.create(f"{database}&ledger=durable", epsilon=1.0)
    with ledger._store.write() as transaction:
        assert transaction.run("SHOW synchronous_commit") == [("on",)]


def test_a_crashed_server_has_kept_what_it_granted():
    if reason := postgres_server.why_not():
        pytest.skip(reason)
    with postgres_server.server(durable=True) as url:
        ledger = Ledger.create(url, epsilon=1.0)
        ledger.commit(ledger.reserve(Budget(0.25), "x", id="a"))
        ledger.reserve(Budget(0.25), "x", id="b")
        backends = execute(url, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
        os.kill(backends[0][0], signal.SIGKILL)  # the server throws everybody out and recovers from its log
        for _ in range(600):
            try:
                states = [(entry["id"], entry["state"]) for entry in ledger.history()]
                break
            except LedgerUnavailableError:
                subprocess.run(["sleep", "0.05"], check=True)
        assert states == [("a", "committed"), ("b", "reserved")]
        assert ledger.remaining() == Budget(0.5)
        assert ledger.verify().ok


def test_there_is_no_path(database):
    ledger = Ledger(f"{database}&ledger=pathless")
    with pytest.raises(AttributeError, match="has no path"):
        ledger.path  # noqa: B018


def test_tables_of_another_kind_are_damage(database):
    ledger = Ledger.create(f"{database}&ledger=renamed", epsilon=1.0)
    execute(database, "ALTER TABLE dpeigen_renamed.budget RENAME COLUMN version TO edition")
    with pytest.raises(DamagedLedgerError, match="version"):
        ledger.reserve(Budget(0.1), "x")


def test_the_driver_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"dpeigen\[postgres\]"):
        Ledger("postgresql://analyst@localhost/postgres")
