"""Edits show: any change of what is stored is found, and a noted head shows what a rewritten chain hides."""

from __future__ import annotations

import json
import sqlite3

import pytest

from dpeigen import Ledger
from dpeigen.privacy import Budget
from dpeigen.privacy.ledger import DamagedLedgerError, chain


@pytest.fixture
def ledger(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-6)
    ledger.commit(ledger.reserve(Budget(0.3, 1e-8), "one", id="a"))
    ledger.cancel(ledger.reserve(Budget(0.2), "two", id="b"))
    ledger.start(ledger.reserve(Budget(0.1), "three", id="c"))
    ledger.reserve(Budget(0.05), "four", id="d")
    return ledger


def change(ledger, sql, *parameters):
    with sqlite3.connect(ledger.path) as db:
        db.execute(sql, parameters)
    db.close()


def test_an_honest_record_is_right(place):
    ledger = Ledger.create(place, epsilon=1.0, delta=1e-6)
    before = ledger.verify()
    assert before.ok
    for i in range(4):
        ledger.commit(ledger.reserve(Budget(0.1, 1e-8), f"release {i}"))
    after = ledger.verify(before.head)
    assert after.ok
    assert after.events == 1 + 1 + 8
    assert after.head != before.head
    assert ledger.verify(after.head).ok
    assert not ledger.verify(f"3:{'0' * 64}").ok


EDITS = {
    "a cost": "UPDATE event SET body = replace(body, '\"epsilon\":0.3', '\"epsilon\":0.1') WHERE number = 3",
    "a name": 'UPDATE event SET body = replace(body, \'"what":"one"\', \'"what":"two"\') WHERE number = 3',
    "a time": "UPDATE event SET at = '2020-01-01T00:00:00.000000+00:00' WHERE number = 3",
    "the cap": "UPDATE event SET body = replace(body, '\"epsilon\":1.0', '\"epsilon\":9.0') WHERE number = 1",
    "no commit": "DELETE FROM event WHERE number = 4",
    "no end": "DELETE FROM event WHERE number = (SELECT MAX(number) FROM event)",
    "nothing": "DELETE FROM event",
    "totals": "UPDATE budget SET state = replace(state, '\"epsilon\":1.0', '\"epsilon\":2.0')",
    "a state": "UPDATE entry SET state = 'cancelled' WHERE id = 'a'",
    "an entry": "DELETE FROM entry WHERE id = 'd'",
    "a start": "UPDATE entry SET started = 0 WHERE id = 'c'",
    "no sense": "UPDATE event SET body = '[' WHERE number = 3",
    "a kind": "UPDATE event SET kind = 'gift' WHERE number = 4",
}


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_is_found(ledger, edit):
    assert ledger.verify().ok
    change(ledger, EDITS[edit])
    verdict = ledger.verify()
    assert not verdict.ok
    assert verdict.problems


def test_swapped_events_are_found(ledger):
    change(ledger, "UPDATE event SET number = -number WHERE number IN (5, 7)")
    change(ledger, "UPDATE event SET number = 12 + number WHERE number < 0")
    assert not ledger.verify().ok


def rewrite(ledger, keep):
    """What someone does who can write the file and knows how hashes are made: a shorter record, sealed anew."""
    events = [event for event in ledger.events() if keep(event)]
    previous, sealed = chain.START, []
    for number, event in enumerate(events, 1):
        previous = chain.seal(previous, number, event.at, event.kind, event.body)
        sealed.append(chain.Event(number, event.at, event.kind, event.body, previous))
    state, entries, problems, head = chain.replay(sealed)
    assert not problems
    with sqlite3.connect(ledger.path) as db:
        db.execute("DELETE FROM event")
        db.execute("DELETE FROM entry")
        db.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?)", [tuple(vars(e).values()) for e in sealed])
        db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", [(n, *e.row()) for n, e in entries.items()])
        db.execute("UPDATE budget SET number = ?, head = ?, state = ?", (len(sealed), head, state.to_text()))
    db.close()


def test_a_rewritten_record_needs_a_noted_head(ledger):
    noted = ledger.verify().head
    rewrite(ledger, lambda event: event.values.get("id") != "a")
    assert ledger.verify().ok  # a chain alone cannot tell
    verdict = ledger.verify(noted)
    assert not verdict.ok
    assert "head given is not in the record" in verdict.problems[0]


def test_an_overdrawn_record_is_found_even_when_sealed(ledger):
    body = {"id": "e", "what": "x", "epsilon": 0.9, "delta": 0.0, "relation": "replace", "split": None, "about": {}}
    text, last = json.dumps(body | {"by": "m", "host": "h"}), ledger.events()[-1]
    n = last.number + 1
    sealed = chain.Event(n, last.at, "reserve", text, chain.seal(last.hash, n, last.at, "reserve", text))
    *_, problems, _ = chain.replay([*ledger.events(), sealed])
    assert problems == [f"event {n} (reserve): 'e' goes beyond the budget"]


def test_a_file_of_an_earlier_version_says_what_is_left(path):
    with sqlite3.connect(path) as db:
        db.executescript(
            "CREATE TABLE budget (only INTEGER PRIMARY KEY, epsilon REAL, delta REAL);"
            "CREATE TABLE entry (id TEXT, at TEXT, what TEXT, epsilon REAL, delta REAL, relation TEXT, state TEXT);"
            "INSERT INTO budget VALUES (1, 1.0, 1e-6); INSERT INTO entry VALUES ('a','','',0.25,0,'','committed');"
        )
    db.close()
    with pytest.raises(DamagedLedgerError, match=r"earlier version.*\(0\.75, 1e-06\) is left"):
        Ledger(path).reserve(Budget(0.1), "x")


def test_a_later_version_is_not_touched(ledger):
    change(ledger, "UPDATE budget SET version = 99")
    with pytest.raises(DamagedLedgerError, match="its version is 99"):
        ledger.reserve(Budget(0.1), "x")
