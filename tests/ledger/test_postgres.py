"""What only a server can show: rights, crashes, names, and that no connection is kept."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import threading

import postgres_server
import pytest

from dpeigen import Ledger
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import BudgetExceededError, LedgerUnavailableError


def execute(url, *statements):
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        rows = [db.execute(statement) for statement in statements]
        return rows[-1].fetchall() if rows[-1].description else []


def test_a_url_may_have_passed_through_a_path(database):
    from pathlib import Path

    url = f"{database}&ledger=path_like"
    Ledger.create(url, epsilon=1.0)
    assert Ledger(Path(url)).remaining() == Budget(1.0)


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
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.entry TO grace",
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
