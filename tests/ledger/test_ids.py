"""A retry is not charged twice, and never becomes a second release by accident."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest

from dpeigen import Ledger, PrivatePCA
from dpeigen.privacy import Budget, PureCost, Relation, Spend
from dpeigen.privacy.ledger import BudgetExceededError, RepeatedReleaseError

X = np.random.default_rng(0).normal(size=(80, 3))


@pytest.fixture
def ledger(place):
    return Ledger.create(place, epsilon=1.0)


def test_the_same_id_at_the_same_cost_is_one_reservation(ledger):
    tickets = {ledger.reserve(Budget(0.4), "wave 1", id="w1") for _ in range(3)}
    assert tickets == {"w1"}
    assert ledger.remaining().epsilon == pytest.approx(0.6)
    assert [entry["id"] for entry in ledger.history()] == ["w1"]


def test_a_retry_is_answered_when_the_budget_is_gone(ledger):
    ledger.reserve(Budget(1.0), "all", id="w1")
    assert ledger.reserve(Budget(1.0), "all", id="w1") == "w1"
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Budget(1.0), "all", id="w2")


@pytest.mark.parametrize(
    ("cost", "relation", "split"),
    [
        (Budget(0.3), Relation.REPLACE, None),
        (Budget(0.4, 1e-9), Relation.REPLACE, None),
        (Budget(0.4), Relation.ADD_REMOVE, None),
        (Budget(0.4), Relation.REPLACE, [Spend("a", "m", PureCost(0.4))]),
    ],
)
def test_the_same_id_at_another_cost_is_refused(ledger, cost, relation, split):
    ledger.reserve(Budget(0.4), "wave 1", id="w1")
    with pytest.raises(RepeatedReleaseError, match="another cost"):
        ledger.reserve(cost, "wave 1", relation, id="w1", split=split)
    assert ledger.remaining().epsilon == pytest.approx(0.6)


def test_the_same_id_for_something_else_is_refused(ledger):
    ledger.reserve(Budget(0.4), "wave 1", id="w1")
    with pytest.raises(RepeatedReleaseError, match="another release"):
        ledger.reserve(Budget(0.4), "wave 2", id="w1")


def test_what_was_released_is_not_released_again(ledger):
    ledger.commit(ledger.reserve(Budget(0.4), "wave 1", id="w1"))
    with pytest.raises(RepeatedReleaseError, match="made already"):
        ledger.reserve(Budget(0.4), "wave 1", id="w1")
    assert len(ledger.history()) == 1


def test_what_may_have_been_drawn_waits_for_a_person(ledger):
    ledger.start(ledger.reserve(Budget(0.4), "wave 1", id="w1"))
    with pytest.raises(RepeatedReleaseError, match=r"started by .* on .* and not finished"):
        ledger.reserve(Budget(0.4), "wave 1", id="w1")
    with pytest.raises(RepeatedReleaseError, match="started already"):  # two that got the same ticket: one draws
        ledger.start("w1")
    with pytest.raises(ValueError, match="'reason' parameter"):
        ledger.resolve("w1", spent=False, reason=" ")
    ledger.resolve("w1", spent=False, reason="the node died before the file was written")
    assert ledger.remaining().epsilon == 1.0
    assert ledger.history()[-1]["reason"] == "the node died before the file was written"
    assert ledger.reserve(Budget(0.4), "wave 1", id="w1") == "w1"  # and now it may run
    ledger.start("w1")
    ledger.resolve("w1", spent=True, reason="the file was sent")
    entry = ledger.history()[-1]
    assert (entry["state"], entry["by_hand"]) == ("committed", True)
    assert ledger.remaining().epsilon == pytest.approx(0.6)
    with pytest.raises(KeyError, match="No open reservation"):
        ledger.resolve("w1", spent=False, reason="changed my mind")
    assert ledger.verify().ok


def test_what_was_started_is_cancelled_by_the_one_who_started_it(ledger, place):
    others = [Ledger(place, by="mallory"), pickle.loads(pickle.dumps(ledger))]
    ledger.start(ledger.reserve(Budget(0.4), "wave 1", id="w1"))
    for other in (*others, copy.deepcopy(ledger)):
        with pytest.raises(RepeatedReleaseError, match="started by someone else"):
            other.cancel("w1")
    assert ledger.remaining().epsilon == pytest.approx(0.6)
    with pytest.raises(ValueError, match=r"'reason' parameter of Ledger\.cancel must be a text that says why 'w1'"):
        ledger.cancel("w1")
    ledger.named("any").cancel("w1", "the queue was closed")  # the same process, the same start
    ledger.start(ledger.reserve(Budget(0.4), "wave 1", id="w1"))
    ledger.resolve("w1", spent=False, reason="it never ran")
    others[0].start(others[0].reserve(Budget(0.4), "wave 1", id="w1"))
    with pytest.raises(RepeatedReleaseError, match="started by someone else"):  # another start of the same id
        ledger.cancel("w1")
    ledger.reserve(Budget(0.1), "wave 2", id="w2")
    others[0].cancel("w2")  # nothing was started
    assert ledger.verify().ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the other process is forked")
def test_a_forked_process_has_started_nothing(path):
    ledger = Ledger.create(path, epsilon=1.0)
    ledger.start(ledger.reserve(Budget(0.4), "wave 1", id="w1"))
    child = os.fork()
    if child == 0:
        try:
            ledger.cancel("w1")
        except RepeatedReleaseError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_cancelled_id_is_free_again_at_any_cost(ledger):
    ledger.cancel(ledger.reserve(Budget(0.4), "wave 1", id="w1"))
    assert ledger.reserve(Budget(0.7), "wave 1", id="w1") == "w1"
    assert ledger.remaining().epsilon == pytest.approx(0.3)
    assert ledger.verify().ok


def test_estimators_take_a_named_ledger(ledger):
    pca = PrivatePCA(1, epsilon=0.4, bound=4.0, random_state=0, ledger=ledger.named("wave-1")).fit(X)
    assert pca.release_.facts["release_id"] == "wave-1"
    with pytest.raises(RepeatedReleaseError, match="made already"):
        pca.fit(X)
    assert len(ledger.history()) == 1


def test_a_fit_with_bad_rows_gives_back_and_can_be_retried(ledger):
    bad = X.copy()
    bad[3, 1] = np.nan
    pca = PrivatePCA(1, epsilon=0.4, bound=4.0, random_state=0, ledger=ledger.named("wave-1"))
    with pytest.raises(ValueError, match="finite"):
        pca.fit(bad)
    assert ledger.remaining().epsilon == 1.0
    pca.fit(X)
    assert [entry["state"] for entry in ledger.history()] == ["cancelled", "committed"]
    assert ledger.history()[0]["reason"] == "refused after data were read: bad rows"


def test_nothing_is_remembered_of_what_is_settled(path):
    """A service that makes releases for years keeps none of them in memory."""
    ledger = Ledger.create(path, epsilon=1.0)
    before = len(pickle.dumps(vars(ledger)))
    ends = (ledger.commit, lambda t: ledger.cancel(t, "why"), lambda t: ledger.resolve(t, spent=True, reason="seen"))
    for settle in ends:
        ticket = ledger.reserve(Budget(0.1), "x")
        ledger.start(ticket)
        assert len(pickle.dumps(vars(ledger))) > before
        settle(ticket)
        assert len(pickle.dumps(vars(ledger))) == before


def test_long_ids_are_kept_whole(ledger):
    assert ledger.reserve(Budget(0.1), "x", id="x" * 500) == "x" * 500
    assert ledger.history()[0]["id"] == "x" * 500


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 501, 7])
def test_ids_are_printable(ledger, name):
    with pytest.raises(ValueError, match="'id' parameter"):
        ledger.reserve(Budget(0.1), "x", id=name)


def test_the_record_says_who_where_when_and_what(place):
    Ledger.create(place, epsilon=1.0, delta=1e-6, by="the board")
    ledger = Ledger(place, by="ada", host="lab-3")
    PrivatePCA(1, epsilon=0.4, delta=1e-8, bound=4.0, method="gaussian", random_state=0, ledger=ledger).fit(X)
    entry = ledger.history()[-1]
    assert (entry["by"], entry["host"], entry["settled_by"]) == ("ada", "lab-3", "ada")
    assert entry["at"] <= entry["settled_at"]
    assert entry["at"].endswith("+00:00")
    assert entry["about"]["method"] == "gaussian"
    assert [spend["kind"] for spend in entry["split"]] == ["gaussian"]
    assert [event.kind for event in ledger.events()] == ["create", "decide", "reserve", "start", "commit"]
    assert ledger.events()[0].values["by"] == "the board"


def test_the_same_id_with_other_facts_is_refused(ledger):
    """The record would say what is not true: two columns where three were released."""
    about = {"columns": 2, "names": ("a", "b")}
    assert ledger.reserve(Budget(0.4), "wave 1", id="w1", about=about) == "w1"
    assert ledger.reserve(Budget(0.4), "wave 1", id="w1", about=about) == "w1"
    with pytest.raises(RepeatedReleaseError, match="another release"):
        ledger.reserve(Budget(0.4), "wave 1", id="w1", about={**about, "columns": 3})
    assert ledger.remaining().epsilon == pytest.approx(0.6)
