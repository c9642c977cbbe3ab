"""Edits show: any change of what is stored is found, and a noted head shows what a rewritten chain hides."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from dpeigen import Ledger, PrivatePCA
from dpeigen.methods import AnalyzeGaussPrinted
from dpeigen.privacy import Budget, PureCost, Spend
from dpeigen.privacy.ledger import DamagedLedgerError, chain
from dpeigen.privacy.ledger.rules import filters_of, to_list
from dpeigen.privacy.randomness import NotPrivateWarning

CAP = Budget(1.0, 1e-6)


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


def append(events, kind, body):
    """One more event, with totals and a hash that follow."""
    number, at = len(events) + 1, "2026-01-01T00:00:00.000000+00:00"
    previous = events[-1].hash if events else chain.START
    bodies = {event.values.get("id"): event.values for event in events if event.kind == "reserve"}
    state = chain.State()
    for event in [*events, chain.LedgerEvent(number, at, kind, chain.canonical(body), "")]:
        state = state.after(event.kind, event.values, bodies.get(event.values.get("id")))
    text = chain.canonical({**body, "totals": chain.digest(state.to_text())})
    events.append(chain.LedgerEvent(number, at, kind, text, chain.seal(previous, number, at, kind, text)))


def rewrite(ledger, keep):
    """What someone does who can write the file and knows how hashes are made: a shorter record, sealed anew."""
    events = [event for event in ledger.events() if keep(event)]
    sealed = []
    for event in events:
        append(sealed, event.kind, event.values)
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
    events = ledger.events()
    append(events, "reserve", body)
    *_, problems, _ = chain.replay(events)
    assert problems == [f"event {len(events)} (reserve): 'e' goes beyond the budget"]


RESERVED = {"id": "e", "what": "x", "epsilon": 0.1, "delta": 0.0, "relation": "replace", "split": None, "about": {}}
FORGED = {
    "caps": ("decide", {"accounting": "sum", "filters": [{"kind": "sum", "epsilon": 1e6, "delta": 0.5, "rho": 0.0}]}),
    "no caps": ("decide", {"accounting": "sum", "filters": []}),
    "an accounting": ("decide", {"accounting": "gaussian", "filters": to_list(filters_of("gaussian", CAP))}),
    "no shares": ("reserve", {**RESERVED, "epsilon": 500.0, "delta": 0.5, "split": []}),
    "small shares": (
        "reserve",
        {**RESERVED, "split": [Spend("a", "", PureCost(0.2)).to_dict()]},
    ),
    "a relation": ("reserve", {**RESERVED, "relation": "add_remove"}),
    "a cost": ("reserve", {**RESERVED, "epsilon": "0.1"}),
    "an id": ("reserve", {**RESERVED, "id": "a"}),
    "a second decision": ("decide", {"accounting": "mixed", "filters": to_list(filters_of("mixed", CAP))}),
    "a second beginning": (
        "create",
        {"epsilon": 1.0, "delta": 1e-6, "accounting": "mixed", "filters": to_list(filters_of("mixed", CAP))},
    ),
    "a settlement of nothing": ("commit", {"id": "z"}),
    "a start of nothing": ("start", {"id": "z"}),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_no_ledger_writes_is_found_even_when_sealed(path, what):
    kind, body = FORGED[what]
    accounting = "auto" if what in ("caps", "no caps", "an accounting") else "mixed"
    ledger = Ledger.create(path, epsilon=CAP.epsilon, delta=CAP.delta, accounting=accounting)
    if kind == "reserve":
        ledger.reserve(Budget(0.1), "honest", id="a")
    events = ledger.events()
    before = chain.replay(events)[0]
    append(events, kind, body) if what != "a cost" else events.append(reseal(events[-1], body))
    after, _, problems, _ = chain.replay(events)
    assert len(problems) == 1
    assert after == before  # and counts for nothing


def test_a_first_event_with_other_caps_is_found(path):
    (first,) = Ledger.create(path, epsilon=1.0).events()
    events = []
    append(events, "create", {**first.values, "filters": to_list(filters_of("sum", Budget(5.0)))})
    *_, problems, _ = chain.replay(events)
    assert problems == ["event 1 (create): the caps are not those of the accounting"]


def test_other_totals_are_found_even_when_sealed(ledger):
    events = ledger.events()
    *_, problems, _ = chain.replay([*events, reseal(events[-1], {**RESERVED, "totals": events[-1].values["totals"]})])
    assert problems == ["event 10 (reserve): its totals do not follow"]


def reseal(last, body):
    number, text = last.number + 1, chain.canonical(body)
    return chain.LedgerEvent(number, last.at, "reserve", text, chain.seal(last.hash, number, last.at, "reserve", text))


@pytest.mark.parametrize("column", ["at", "kind", "body", "hash"])
@pytest.mark.parametrize("number", [3, 9])
def test_bytes_for_text_are_found(ledger, column, number):
    assert ledger.events()[-1].number == 9
    change(ledger, f"UPDATE event SET {column} = CAST({column} AS BLOB) WHERE number = ?", number)
    assert any("is not text" in problem for problem in ledger.verify().problems)


def test_a_body_that_is_too_deep_is_found(ledger):
    change(ledger, "UPDATE event SET body = ? WHERE number = 3", '{"a":' + "[" * 200_000)
    assert any("makes no sense" in problem for problem in ledger.verify().problems)
    with pytest.raises(DamagedLedgerError, match="cannot be read"):
        ledger.history()


def test_another_version_is_found(ledger):
    change(ledger, "UPDATE budget SET version = 3")
    assert not ledger.verify().ok


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER quiet AFTER UPDATE ON budget BEGIN DELETE FROM event WHERE 0; END",
        "CREATE VIEW more AS SELECT 1",
        "CREATE TABLE more (a)",
        "CREATE UNIQUE INDEX more ON event (kind)",
        "ALTER TABLE event ADD COLUMN more TEXT",
    ],
)
def test_what_is_not_a_ledgers_is_found_and_stops_grants(path, statement):
    """A trigger could forget every release, and the record would still be in order."""
    ledger = Ledger.create(path, epsilon=1.0)
    change(ledger, statement)
    assert any("what a ledger does not hold" in problem for problem in ledger.verify().problems)
    with pytest.raises(DamagedLedgerError, match="it holds what a ledger does not"):
        ledger.reserve(Budget(0.1), "x")


def test_changed_totals_grant_nothing(path):
    ledger = Ledger.create(path, epsilon=1.0)
    with sqlite3.connect(path) as db:
        (fresh,) = db.execute("SELECT state FROM budget").fetchone()
    db.close()
    ledger.commit(ledger.reserve(Budget(1.0), "x"))
    change(ledger, "UPDATE budget SET state = ?", fresh)
    with pytest.raises(DamagedLedgerError, match="not those after its last event"):
        ledger.reserve(Budget(1.0), "y")


def test_a_cut_record_grants_nothing(ledger):
    change(ledger, "DELETE FROM event WHERE number = (SELECT MAX(number) FROM event)")
    with pytest.raises(DamagedLedgerError, match="not those after its last event"):
        ledger.reserve(Budget(0.1), "y")


def test_what_the_total_does_not_cover_is_said(path):
    X = np.random.default_rng(0).normal(size=(80, 3))
    ledger = Ledger.create(path, epsilon=9.0, delta=1e-5)
    PrivatePCA(1, epsilon=0.5, bound=4.0, ledger=ledger).fit(X)
    assert ledger.verify().cautions == ()
    PrivatePCA(1, epsilon=0.5, bound=4.0, ledger=ledger, random_state=0).fit(X)
    with pytest.warns(NotPrivateWarning):
        PrivatePCA(1, epsilon=0.5, delta=1e-6, ledger=ledger, method=AnalyzeGaussPrinted()).fit(X)
    ledger.cancel(ledger.reserve(Budget(0.1), "x", about={"seeded": True}))
    ledger.reserve(Budget(0.1), "x", about={"basis": "distributional"})
    assert ledger.verify().ok
    assert ledger.verify().cautions == (
        "1 entry drawn with a seed: not private",
        "1 entry not private (basis: none)",
        "1 entry private under assumptions only (basis: distributional)",
    )


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


def test_a_record_without_a_beginning_is_found(ledger):
    *_, problems, _ = chain.replay(ledger.events()[1:])
    assert problems[0] == "event 2 (decide): number 1 is missing"
    events = []
    append(events, "start", {"id": "a"})
    *_, problems, _ = chain.replay(events)
    assert problems == ["event 1 (start): a record begins with 'create', once"]


def test_a_reservation_whose_event_is_gone_is_not_settled(ledger):
    change(ledger, "DELETE FROM event WHERE number = (SELECT number FROM entry WHERE id = 'c')")
    for settle in (ledger.commit, ledger.cancel):
        with pytest.raises(DamagedLedgerError, match="an event is missing"):
            settle("c")


def test_an_earlier_version_that_is_damaged_too_says_so(path):
    with sqlite3.connect(path) as db:
        db.executescript("CREATE TABLE budget (only INTEGER PRIMARY KEY); INSERT INTO budget VALUES (1);")
    db.close()
    with pytest.raises(DamagedLedgerError, match=r"is damaged \(no such column: epsilon\)"):
        Ledger(path).reserve(Budget(0.1), "x")


def test_what_is_hashed_is_one_text_in_plain_letters(path):
    assert chain.canonical({"b": 1, "a": "ε"}) == chain.canonical({"a": "ε", "b": 1})
    ledger = Ledger.create(path, epsilon=1.0, by="Zoë")
    ledger.reserve(Budget(0.1), "Größe der Wohnungen, ε = 0.1", about={"b": 1, "a": 2})
    assert all(event.body.isascii() for event in ledger.events())
    assert ledger.history()[0]["what"] == "Größe der Wohnungen, ε = 0.1"
    assert ledger.verify().ok
    with pytest.raises(ValueError, match="JSON"):
        ledger.reserve(Budget(0.1), "x", about={"a": float("nan")})
    assert len(ledger.history()) == 1


def test_a_record_that_is_gone_has_no_head(ledger):
    change(ledger, "DELETE FROM event")
    verdict = ledger.verify()
    assert (verdict.events, verdict.head) == (0, f"0:{'0' * 64}")
    assert "there is no event" in verdict.problems
