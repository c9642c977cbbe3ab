"""The record of a ledger: an append-only hash chain of events.

An event is (number, time, kind, body); its hash is SHA-256 over the previous hash and all of these. Changing, removing
or reordering events breaks every later hash. Someone who can write to the storage can still rewrite the whole chain or
cut off its end; a head hash kept elsewhere reveals that (`Ledger.verify(head=…)`).

Everything else that is stored (totals, states of entries) follows from the events by `State.after`. The ledger uses it
to continue, and `replay` uses it to check. An event also holds the digest of the totals after it, so that changed
totals are detected before anything is granted from them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpeigen.privacy.budget import Budget, Relation, Spend
from dpeigen.privacy.ledger import rules
from dpeigen.privacy.ledger.rules import Charge, Filter, admits, charge_of, to_list

__all__ = [
    "SETTLING",
    "START",
    "VERSION",
    "Entry",
    "LedgerEvent",
    "State",
    "Verdict",
    "body_charge",
    "canonical",
    "digest",
    "neighbours_of",
    "replay",
    "seal",
    "settled_state",
    "spends_of",
]

VERSION = 2
START = "0" * 64
_SLACK = 1e-6  # tolerance for recorded caps and shares: other versions of numerical libraries may differ
SETTLING = ("commit", "cancel", "resolve")


def canonical(value: Any) -> str:
    """The canonical text of a value: equal values give equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def seal(previous: str, number: int, at: str, kind: str, body: str) -> str:
    """The hash of an event."""
    return hashlib.sha256("\n".join([previous, str(number), at, kind, body]).encode()).hexdigest()


def digest(totals: str) -> str:
    """The hash of stored totals."""
    return hashlib.sha256(totals.encode()).hexdigest()


@dataclass(frozen=True)
class LedgerEvent:
    """One event of the record."""

    number: int
    at: str
    kind: str
    body: str
    hash: str

    @property
    def values(self) -> dict[str, Any]:
        return json.loads(self.body)


@dataclass
class Entry:
    """A reservation and its state."""

    number: int  # of the event that made it
    state: str = "reserved"  # reserved, committed, cancelled
    started: bool = False
    settled: int | None = None  # number of the event that settled it

    def row(self) -> tuple[int, str, int, int | None]:
        return self.number, self.state, int(self.started), self.settled


def spends_of(body: Mapping[str, Any]) -> tuple[Spend, ...] | None:
    """The split that a reservation recorded."""
    return None if body["split"] is None else tuple(Spend.from_dict(s) for s in body["split"])


def body_charge(body: Mapping[str, Any]) -> Charge:
    """What a reservation costs."""
    return charge_of(Budget(body["epsilon"], body["delta"]), spends_of(body))


def neighbours_of(body: Mapping[str, Any]) -> str:
    """The neighbouring relation of a reservation, and the unit if it is not a row."""
    relation, about = Relation(body["relation"]).value, body.get("about")
    unit = about.get("unit", "row") if isinstance(about, Mapping) else "row"
    return relation if unit == "row" else f"{relation} of all rows of one {unit}"


@dataclass(frozen=True)
class State:
    """The state that follows from the events so far."""

    epsilon: float = 0.0
    delta: float = 0.0
    accounting: str = ""
    filters: tuple[Filter, ...] = ()
    total: Charge = field(default_factory=Charge)
    relations: dict[str, int] = field(default_factory=dict)  # entries that count, by relation (and unit)

    @property
    def cap(self) -> Budget:
        return Budget(self.epsilon, self.delta)

    def after(self, kind: str, body: Mapping[str, Any], reserved: Mapping[str, Any] | None) -> State:
        """The state after one more event; ``reserved`` is the body of the reservation it settles."""
        if kind == "create":
            fresh = State(body["epsilon"], body["delta"], body["accounting"])
            return replace(fresh, filters=tuple(Filter(**f) for f in body["filters"]))
        if kind == "decide":
            found = tuple(Filter(**f) for f in body["filters"])
            return replace(self, accounting=body["accounting"], filters=found)
        if kind == "reserve":
            kind = neighbours_of(body)
            counted = {**self.relations, kind: self.relations.get(kind, 0) + 1}
            return replace(self, total=self.total.plus(body_charge(body)), relations=counted)
        if reserved is not None and (kind == "cancel" or (kind == "resolve" and body["as"] == "cancelled")):
            kind = neighbours_of(reserved)
            counted = {**self.relations, kind: self.relations[kind] - 1}
            return replace(self, total=self.total.plus(body_charge(reserved), -1), relations=counted)
        return self

    def to_text(self) -> str:
        return canonical(
            {
                "epsilon": self.epsilon,
                "delta": self.delta,
                "accounting": self.accounting,
                "filters": to_list(self.filters),
                "total": self.total.to_dict(),
                "relations": {name: count for name, count in self.relations.items() if count},
            }
        )

    @classmethod
    def from_text(cls, text: str) -> State:
        data = json.loads(text)
        data["filters"] = tuple(Filter(**f) for f in data["filters"])
        data["total"] = Charge.from_dict(data["total"])
        return cls(**data)


def settled_state(kind: str, body: Mapping[str, Any]) -> str:
    """The state of an entry after it was settled."""
    if kind == "resolve":
        return "cancelled" if body["as"] == "cancelled" else "committed"
    return "committed" if kind == "commit" else "cancelled"


@dataclass(frozen=True)
class Verdict:
    """What `Ledger.verify` found.

    Attributes
    ----------
    problems : tuple of str
        What is wrong with the record; empty if nothing is.
    events : int
        The number of events.
    head : str
        The last event with its hash. Keep it elsewhere, and pass it to `Ledger.verify` later.
    cautions : tuple of str
        What the total does not cover.
    compared : bool
        Whether an earlier head was given.
    """

    problems: tuple[str, ...]
    events: int
    head: str
    cautions: tuple[str, ...] = ()
    compared: bool = False

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    @property
    def words(self) -> str:
        """The verdict in words."""
        if self.problems:
            more = f" (and {len(self.problems) - 3} more)" if len(self.problems) > 3 else ""
            found = "; ".join(self.problems[:3])
            return (
                f"not in order: the record was changed: {found}{more}. Its totals cannot be relied on; "
                "restore a backup and verify it against the last head that was noted."
            )
        text = "in order. The record is consistent from its beginning, and every grant was within the budget."
        if self.compared:
            text += " The head given is in it, so nothing before that head was changed or removed."
        else:
            text += " Without a head noted earlier, a record that was cut off or rewritten as a whole looks the same."
        if count := len(self.cautions):
            what = "that the caution names" if count == 1 else f"that the {count} cautions name"
            text += f" The budget does not cover what was drawn in the entries {what}."
        return text


class _BrokenError(Exception):
    """An event that cannot follow the earlier events."""


def replay(events: Iterable[LedgerEvent]) -> tuple[State, dict[str, Entry], list[str], str]:
    """The state and entries that follow from the events, the problems of the chain, and its last hash."""
    state, entries, problems = State(), {}, []  # type: tuple[State, dict[str, Entry], list[str]]
    bodies: dict[str, dict[str, Any]] = {}
    previous, number = START, 0
    for event in events:
        number += 1
        where = f"event {event.number} ({event.kind})"
        if event.number != number:
            problems.append(f"{where}: number {number} is missing")
            number = event.number
        if not all(isinstance(text, str) for text in (event.at, event.kind, event.body, event.hash)):
            problems.append(f"{where}: it is not text")
            previous = ""
            continue
        if seal(previous, event.number, event.at, event.kind, event.body) != event.hash:
            problems.append(f"{where}: its hash does not follow from its content and the event before")
        previous = event.hash
        try:
            state = _follow(state, entries, bodies, event)
            if event.values["totals"] != digest(state.to_text()):
                raise _BrokenError("its totals do not follow")
        except _BrokenError as error:
            problems.append(f"{where}: {error}")
        except Exception:  # a forged body can be anything
            problems.append(f"{where}: its content makes no sense")
    if number == 0:
        problems.append("there is no event")
    return state, entries, problems, previous


def _follow(state: State, entries: dict[str, Entry], bodies: dict[str, dict[str, Any]], event: LedgerEvent) -> State:
    body, kind = event.values, event.kind
    if (kind == "create") != (event.number == 1):
        raise _BrokenError("a record begins with 'create', once")
    name, reserved = body.get("id", ""), None
    if kind == "reserve":
        if name in entries and entries[name].state != "cancelled":
            raise _BrokenError(f"{name!r} was reserved before")
        if not admits(state.filters, state.total.plus(body_charge(body))):
            raise _BrokenError(f"{name!r} goes beyond the budget")
        rules.check_split(Budget(body["epsilon"], body["delta"]), spends_of(body), slack=_SLACK)
        kind_of_neighbours = neighbours_of(body)
        if any(count for other, count in state.relations.items() if other != kind_of_neighbours):
            raise _BrokenError(f"{name!r} is about another relation")
        entries[name], bodies[name] = Entry(event.number), body
    elif kind in (*SETTLING, "start"):
        entry = entries.get(name)
        if entry is None or entry.state != "reserved" or (kind == "start" and entry.started):
            raise _BrokenError(f"{name!r} was not open")
        if kind == "start":
            entry.started = True
        else:
            entry.state, entry.settled, reserved = settled_state(kind, body), event.number, bodies[name]
    elif kind not in ("create", "decide", "refuse"):
        raise _BrokenError("this kind of event is unknown")
    elif kind == "decide" and state.accounting != "auto":
        raise _BrokenError("the accounting was decided before")
    after = state.after(kind, body, reserved)
    if kind in ("create", "decide"):
        _check_rule(after, ("sum", "mixed") if kind == "decide" else rules.ACCOUNTINGS)
    return after


def _check_rule(state: State, known: tuple[str, ...]) -> None:
    """Check that the caps are those of the accounting: a forged event may contain others."""
    due = () if state.accounting == "auto" else rules.filters_of(state.accounting, state.cap)
    same = len(due) == len(state.filters) and all(
        f.is_close(g, _SLACK) for f, g in zip(due, state.filters, strict=True)
    )
    if state.accounting not in known or not same:
        raise _BrokenError("the caps are not those of the accounting")
