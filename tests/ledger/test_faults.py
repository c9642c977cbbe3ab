"""What can break, breaks: nothing is lost or granted twice, and nothing is read when the ledger cannot write."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import chaos
import numpy as np
import pytest
from unread_rows import Forbidden

from dpeigen import Ledger, PrivatePCA
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import BudgetExceededError, LedgerUnavailableError, page, store

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kill -9, fork and file sizes are POSIX")


def fit_nothing(ledger):
    PrivatePCA(1, epsilon=0.01, bound=4.0, random_state=0, ledger=ledger).fit(Forbidden())


# --- kill -9 ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[("sqlite", 24), ("postgresql", 10)], ids=lambda p: p[0])
def killed(request, tmp_path):
    kind, points = request.param
    if kind == "sqlite":
        pattern = str(request.getfixturevalue("path").parent / "{}.ledger")
    else:
        pattern = f"{request.getfixturevalue('database')}&ledger=killed_{{}}"
    script = [sys.executable, str(Path(__file__).with_name("killer.py")), pattern, str(tmp_path), str(points)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(script, capture_output=True, text=True, check=True, env=environment)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == points
    return found


def test_killed_at_any_step_between_reserve_and_save(killed):
    assert all(case["killed"] for case in killed)
    for case in killed:
        assert case["problems"] == case["problems_after_retry"] == []
        assert case["spent"] in (0.0, 0.5)
        assert len(case["entries"]) <= 1
        if case["entries"]:
            assert case["spent"] == 0.5  # what is half done counts
        if case["files"]:
            assert case["entries"] == [["committed", True]]  # nothing is on disk that was not paid for
        drawn = bool(case["entries"]) and (case["entries"][0][1] or case["entries"][0][0] == "committed")
        assert case["retry"] == ("refused" if drawn else "released")  # no second draw on one charge
        assert case["spent_after_retry"] == 0.5
    seen = {tuple(entry) for case in killed for entry in case["entries"]}
    assert {("reserved", True), ("committed", True)} <= seen  # the kills did come at different steps
    assert {case["retry"] for case in killed} == {"refused", "released"}


def test_processes_on_two_hosts_are_killed_and_go_on(place, tmp_path):
    outcome = chaos.run(place, tmp_path, processes=5, wishes=24, room=50, kills=8, seed=1)
    assert outcome.kills == 8
    assert outcome.problems == ()
    assert len(outcome.granted) == len(outcome.committed) == outcome.entries == 50
    assert outcome.granted == outcome.committed
    assert len(outcome.refused) == 5 * 24 - 50
    assert {entry["host"] for entry in Ledger(place).history()} == {"host 0", "host 1"}


# --- storage ----------------------------------------------------------------------------------------------------------


def test_a_full_disk_grants_nothing(path):
    ledger, granted = Ledger.create(path, epsilon=100.0), []
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 60_000, hard))
    try:
        with pytest.raises(LedgerUnavailableError, match="cannot be used now"):
            granted.extend(ledger.reserve(Budget(0.01), "x", id=f"r{i}") for i in range(2000))
        with pytest.raises(LedgerUnavailableError):
            fit_nothing(ledger)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert granted
    assert [entry["id"] for entry in ledger.history()] == granted
    assert ledger.verify().ok
    ledger.reserve(Budget(0.01), "there is room again")


@contextmanager
def somebody():
    """Without the rights of root, who may write everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_file_is_shown_and_not_written(path):
    Ledger.create(path, epsilon=1.0).reserve(Budget(0.25), "x")
    if os.geteuid() == 0:
        os.chown(path.parent, 65534, -1)
        os.chown(path, 65534, -1)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with somebody():
            ledger = Ledger(path)
            assert ledger.remaining() == Budget(0.75)
            assert ledger.verify().ok
            with pytest.raises(LedgerUnavailableError, match="open reservations still count"):
                ledger.reserve(Budget(0.1), "y")
            with pytest.raises(LedgerUnavailableError):
                fit_nothing(ledger)
    finally:
        path.parent.chmod(0o755)
    assert len(Ledger(path).history()) == 1


def test_a_read_only_server_is_shown_and_not_written(database):
    url = f"{database}&ledger=frozen"
    Ledger.create(url, epsilon=1.0)
    ledger = Ledger(f"{url}&options=-c%20default_transaction_read_only%3Don")
    assert ledger.remaining() == Budget(1.0)
    with pytest.raises(LedgerUnavailableError, match="read-only"):
        fit_nothing(ledger)


def test_a_locked_file_is_waited_for_and_then_refused(path, monkeypatch):
    monkeypatch.setattr(store, "_WAIT", 0.05)
    ledger = Ledger.create(path, epsilon=1.0)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerUnavailableError, match="locked"):
            fit_nothing(ledger)
        assert ledger.remaining() == Budget(1.0)  # readers need not wait
        other.execute("ROLLBACK")
    other.close()
    ledger.reserve(Budget(0.1), "x")


SECRET = "hunter2%24x"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{SECRET}@127.0.0.1:1/study",
        f"postgresql://ada@127.0.0.1:1/study?password={SECRET}&ledger=a",
        f"postgresql://ada:{SECRET}@127.0.0.1:port/study",
        f"postgresql://ada:{SECRET}@127.0.0.1:1/study?nonsense=1",
        f"postgresql://ada:{SECRET}@127.0.0.1:1/study?ledger=no%20name",
        f"postgresql://ada:{SECRET}\u2100@127.0.0.1:1/study",
        f"postgresql://ada:{SECRET}@[127.0.0.1:1/study",
        f"mysql://ada:{SECRET}@127.0.0.1/study",
        "postgresql://ada:s3cr/hunter2@127.0.0.1/study",
        "postgresql://ada:12/hunter2@127.0.0.1/study",
        "postgresql://ada:s@hunter2@127.0.0.1/study",
        "postgresql://ada:12?hunter2@127.0.0.1/study",
        "postgresql://ada:12#hunter2@127.0.0.1/study",
        "postgresql://ada:hunter2/study",
        "postgresql:///host%3D127.0.0.1%20password%3Dhunter2",
        "postgresql://ada%40hunter2%40127.0.0.1/study",
        "host=127.0.0.1 password=hunter2 dbname=study",
        "host=127.0.0.1 PASSWORD = hunter2 dbname=study",
        Path(f"mysql://ada:{SECRET}@127.0.0.1/study"),
    ],
)
def test_no_server_no_data_and_no_password(url, capsys):
    pytest.importorskip("psycopg")
    with pytest.raises((LedgerUnavailableError, ValueError)) as caught:
        fit_nothing(url)
    error, texts = caught.value, []
    while error is not None:
        texts.append(repr(error) + str(error))
        error = error.__cause__ or error.__context__
    assert "hunter2" not in "".join(texts)
    try:
        ledger = Ledger(url)
    except ValueError:
        return
    assert "hunter2" not in repr(ledger) + ledger.place


# --- time -------------------------------------------------------------------------------------------------------------


def test_a_clock_that_goes_back_changes_no_grant(place, monkeypatch):
    now = datetime(2030, 1, 1, tzinfo=timezone.utc)

    class Backwards(datetime):
        @classmethod
        def now(cls, tz=None):
            nonlocal now
            now -= timedelta(days=400)
            return now

    ledger = Ledger.create(place, epsilon=1.0)
    monkeypatch.setattr(page, "datetime", Backwards)
    for _ in range(5):
        ledger.commit(ledger.reserve(Budget(0.2), "x"))
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Budget(0.2), "x")
    events = ledger.events()
    assert [event.kind for event in events] == ["create"] + ["reserve", "commit"] * 5
    assert events[1].at > events[-1].at  # what the clock said is on record
    assert ledger.verify().ok


def test_the_probe_would_see_a_read(path):
    Ledger.create(path, epsilon=1.0)
    with pytest.raises(AssertionError, match="a row was read"):
        fit_nothing(path)
    assert np.isclose(Ledger(path).remaining().epsilon, 0.99)
