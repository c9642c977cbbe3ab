"""One budget, shared by all who use the file: nobody overdraws it, and nothing is read once it is used up."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from unread_rows import Forbidden

from dpeigen import Ledger, PrivateCovariance, PrivatePCA
from dpeigen.privacy import Budget, Relation
from dpeigen.privacy.ledger import BudgetExceededError, DamagedLedgerError

X = np.random.default_rng(0).normal(size=(80, 3))


def states(ledger) -> list[str]:
    return [entry["state"] for entry in ledger.history()]


def test_reserve_commit_cancel(place):
    ledger = Ledger.create(place, epsilon=1.0, delta=1e-6)
    assert ledger.remaining() == Budget(1.0, 1e-6)
    first = ledger.reserve(Budget(0.5, 1e-7), "one")
    second = ledger.reserve(Budget(0.25), "two")
    assert states(ledger) == ["reserved", "reserved"]
    assert ledger.remaining().epsilon == 0.25  # what is reserved counts as spent
    ledger.commit(first)
    ledger.cancel(second)
    assert states(ledger) == ["committed", "cancelled"]
    assert ledger.remaining().epsilon == 0.5
    assert [entry["what"] for entry in ledger.history()] == ["one", "two"]
    assert [entry["epsilon"] for entry in ledger.history()] == [0.5, 0.25]


def test_a_ticket_is_settled_once(place):
    ledger = Ledger.create(place, epsilon=1.0)
    ticket = ledger.reserve(Budget(0.5), "one")
    ledger.commit(ticket)
    for settle in (ledger.commit, ledger.cancel):  # a committed release cannot be taken back
        with pytest.raises(KeyError, match="No open reservation"):
            settle(ticket)
    with pytest.raises(KeyError, match="No open reservation"):
        ledger.cancel("nonsense")
    assert ledger.remaining().epsilon == 0.5


def test_what_does_not_fit_is_refused(place):
    ledger = Ledger.create(place, epsilon=1.0, delta=1e-6)
    for cost in (Budget(1.01), Budget(0.5, 2e-6), Budget(1.0 + 1e-9)):
        with pytest.raises(
            BudgetExceededError, match=r"has \(ε, δ\) = \(1, 1e-06\) left; this release needs"
        ) as caught:
            ledger.reserve(cost, "too much")
        assert "Nothing was spent" in str(caught.value)
    assert ledger.history() == []
    ledger.commit(ledger.reserve(Budget(1.0, 1e-6), "all of it"))
    assert ledger.remaining() is None
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Budget(1e-9), "a little more")


@pytest.mark.parametrize("shares", [3, 7, 10, 49])
def test_equal_shares_make_one_whole(place, shares):
    ledger = Ledger.create(place, epsilon=1.0, delta=1e-6)
    for _ in range(shares):
        ledger.commit(ledger.reserve(Budget(1.0 / shares, 1e-6 / shares), "share"))
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Budget(1.0 / shares), "one too many")


@pytest.mark.parametrize("shares", [3, 7, 10, 49])
def test_pure_releases_go_on_when_delta_is_used_up(place, shares):
    """Sums of shares may pass the whole by a rounding: that must not stop a release that needs no δ."""
    ledger = Ledger.create(place, epsilon=10.0, delta=1e-6)
    for _ in range(shares):
        ledger.commit(ledger.reserve(Budget(0.01, 1e-6 / shares), "share"))
    ledger.commit(ledger.reserve(Budget(1.0), "pure"))
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Budget(0.01, 1e-9), "approximate")


def test_a_new_ledger_overwrites_nothing(place):
    Ledger.create(place, epsilon=1.0).reserve(Budget(0.5), "kept")
    with pytest.raises(FileExistsError):
        Ledger.create(place, epsilon=5.0)
    assert Ledger(place).remaining().epsilon == 0.5


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (-1, 0), (float("nan"), 0), (float("inf"), 0), (1, 1), (1, -1)])
def test_totals_are_checked_before_a_file_is_made(place, epsilon, delta):
    with pytest.raises(ValueError, match=r"'(epsilon|delta)' parameter"):
        Ledger.create(place, epsilon=epsilon, delta=delta)
    with pytest.raises(FileNotFoundError, match="No ledger at"):
        Ledger(place).remaining()


# --- files that are no ledger ---------------------------------------------------------------------------------------


def test_no_file(path):
    with pytest.raises(
        FileNotFoundError, match=r"No ledger at .*study\.ledger\. Make one with .* in Python with Ledger\.create"
    ):
        Ledger(path)


def damage_text(path):
    path.write_bytes(b"this is not a database, and long enough to be read as one. " * 100)


def damage_empty(path):
    path.write_bytes(b"")


def damage_foreign(path):
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE other (a)")
    db.close()


def damage_middle(path):
    content = bytearray(path.read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    path.write_bytes(bytes(content))


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:50])


def damage_no_budget(path):
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM budget")
    db.close()


@pytest.mark.parametrize(
    "damage", [damage_text, damage_empty, damage_foreign, damage_middle, damage_truncate, damage_no_budget]
)
def test_a_damaged_ledger_says_so_before_data_is_read(path, damage):
    Ledger.create(path, epsilon=1.0)
    damage(path)
    for call in (lambda: Ledger(path).remaining(), lambda: Ledger(path).reserve(Budget(0.1), "x")):
        with pytest.raises(DamagedLedgerError, match=r"study\.ledger is not a dpeigen ledger, or is damaged.*backup"):
            call()
    with pytest.raises(DamagedLedgerError):
        PrivatePCA(1, epsilon=0.5, bound=1.0, ledger=path, random_state=0).fit(Forbidden())


# --- estimators -----------------------------------------------------------------------------------------------------


def estimator(ledger, **options):
    return PrivatePCA(1, **{"epsilon": 0.5, "bound": 4.0, "random_state": 0, "ledger": ledger, **options})


def no_score(estimator, X, y=None):
    return 0.0


def test_a_fit_is_charged_what_it_promises(place):
    ledger = Ledger.create(place, epsilon=2.0, delta=1e-5)
    fitted = estimator(ledger, delta=1e-6, method="gaussian").fit(X)
    entry = ledger.history()[-1]
    assert (entry["epsilon"], entry["delta"]) == (fitted.guarantee_.epsilon, fitted.guarantee_.delta) == (0.5, 1e-6)
    assert (entry["what"], entry["state"]) == ("pca by gaussian (seeded: not private)", "committed")
    estimator(ledger, delta=1e-6, method="laplace").fit(X)  # pure methods leave δ alone
    assert ledger.history()[-1]["delta"] == 0.0
    PrivateCovariance(epsilon=0.25, bound=4.0, ledger=str(place), random_state=0).fit(X)
    assert ledger.history()[-1]["what"] == "covariance by matrix-laplace (seeded: not private)"
    assert ledger.remaining().epsilon == 0.75


def test_a_release_that_does_not_fit_reads_nothing(place):
    ledger = Ledger.create(place, epsilon=0.7)
    estimator(place).fit(X)
    with pytest.raises(BudgetExceededError, match="Nothing was spent"):
        estimator(place).fit(Forbidden())
    with pytest.raises(AssertionError, match="a row was read"):  # the probe works
        estimator(place, epsilon=0.1).fit(Forbidden())
    assert states(ledger) == ["committed", "reserved"]


def test_clones_and_searches_are_all_charged(place):
    ledger = Ledger.create(place, epsilon=100.0)
    for _ in range(3):
        clone(estimator(ledger)).fit(X)
    assert states(ledger) == ["committed"] * 3
    search = GridSearchCV(estimator(place), {"n_components": [1, 2]}, cv=4, scoring=no_score)
    search.fit(X)
    assert len(ledger.history()) == 3 + 2 * 4 + 1  # every fold of every candidate, and the refit
    covariance = PrivateCovariance(epsilon=1.0, bound=4.0, ledger=ledger, random_state=0)
    with joblib.parallel_backend("threading", n_jobs=2):
        cross_val_score(covariance, X, cv=3, scoring=no_score)
    assert states(ledger) == ["committed"] * 15
    assert ledger.remaining().epsilon == pytest.approx(100 - 12 * 0.5 - 3 * 1.0)


def test_worker_processes_charge_the_same_ledger(place):
    ledger = Ledger.create(place, epsilon=100.0)
    search = GridSearchCV(estimator(ledger), {"n_components": [1, 2]}, cv=3, scoring=no_score, n_jobs=2)
    with joblib.parallel_backend("loky", n_jobs=2):
        search.fit(X)
        cross_val_score(estimator(str(place)), X, cv=3, scoring=no_score, n_jobs=2)
    assert states(ledger) == ["committed"] * (2 * 3 + 1 + 3)
    assert ledger.remaining().epsilon == pytest.approx(100 - 10 * 0.5)
    assert ledger.verify().ok


def test_a_search_stops_when_the_budget_is_gone(place):
    ledger = Ledger.create(place, epsilon=1.2)
    search = GridSearchCV(estimator(place), {"n_components": [1, 2]}, cv=4, scoring=no_score, error_score="raise")
    with pytest.raises(BudgetExceededError):
        search.fit(X)
    assert states(ledger) == ["committed"] * 2


WORKERS = """
import os, sys
from dpeigen import Ledger
from dpeigen.privacy import Budget, Relation
from dpeigen.privacy.ledger import BudgetExceededError

def work():
    ledger, granted, refused = Ledger(sys.argv[1]), 0, 0
    for i in range(20):
        try:
            ticket = ledger.reserve(Budget(0.01, 1e-8), "share")
        except BudgetExceededError:
            refused += 1
            continue
        granted += 1
        (ledger.commit if i % 2 else ledger.cancel if i % 4 == 0 else str)(ticket)
    os.write(1, f"{granted} {refused}\\n".encode())

children = []
for _ in range(8):  # one import for all; nothing of the ledger is open yet
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    children.append(child)
sys.exit(sum(os.waitpid(child, 0)[1] for child in children))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")
def test_processes_never_overdraw(place):
    ledger = Ledger.create(place, epsilon=0.6, delta=1e-5)  # room for 60 of 160
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WORKERS, str(place)], capture_output=True, text=True, check=True, env=environment
    )
    counts = np.array([[int(word) for word in line.split()] for line in done.stdout.splitlines()])
    assert counts.shape == (8, 2)  # nobody was locked out or failed otherwise
    assert (counts.sum(axis=1) == 20).all()
    history = ledger.history()
    assert len(history) == counts[:, 0].sum()
    assert len({entry["id"] for entry in history}) == len(history)
    assert len([entry for entry in history if entry["state"] != "cancelled"]) == 60


KILLED = """
import os, signal, sys
from dpeigen import Ledger
from dpeigen.privacy import Budget, Relation
Ledger(sys.argv[1]).reserve(Budget(0.5), "cut off")
print("reserved", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9 is POSIX")
def test_a_killed_process_leaves_its_reservation(place):
    ledger = Ledger.create(place, epsilon=1.0)
    done = subprocess.run([sys.executable, "-c", KILLED, str(place)], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert states(ledger) == ["reserved"]
    assert ledger.remaining().epsilon == 0.5


def test_a_ledger_keeps_to_one_relation(place):
    ledger = Ledger.create(place, epsilon=2.0)
    first = ledger.reserve(Budget(0.1), "a", Relation.ADD_REMOVE)
    with pytest.raises(ValueError, match="relation='add_remove'"):
        ledger.reserve(Budget(0.1), "b", Relation.REPLACE)
    with pytest.raises(ValueError, match="do not add up"):
        estimator(ledger, relation="replace").fit(X)
    ledger.cancel(first)
    ledger.reserve(Budget(0.1), "c", Relation.REPLACE)
    assert [entry["relation"] for entry in ledger.history()] == ["add_remove", "replace"]
