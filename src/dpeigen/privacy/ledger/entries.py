"""The history of all reservations, from the events alone: no reservation is ever left out.

A cancelled id may be reserved again. The table of entries then holds the later reservation only; the record and the
history hold both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dpeigen.privacy.ledger.chain import SETTLING, LedgerEvent, settled_state

__all__ = ["cautions", "history_of", "withdrawn"]

_TAKEN = ("id", "what", "epsilon", "delta", "relation", "by", "host", "split", "about")


def history_of(events: Iterable[LedgerEvent]) -> list[dict[str, Any]]:
    """All reservations, oldest first, including cancelled and manually closed ones; and refusals without reservation.

    Raises KeyError, TypeError, ValueError or RecursionError if the record is damaged.
    """
    found: list[dict[str, Any]] = []
    latest: dict[str, dict[str, Any]] = {}
    for event in events:
        body = event.values
        if event.kind == "reserve":
            entry = {"id": body["id"], "at": event.at, **{name: body[name] for name in _TAKEN[1:]}}
            entry |= {"state": "reserved", "started": False, "settled_at": None, "settled_by": None}
            entry |= {"reason": None, "by_hand": False}
            latest[body["id"]] = entry
            found.append(entry)
        elif event.kind == "refuse":
            free: dict[str, Any] = {
                "epsilon": 0.0,
                "delta": 0.0,
                "relation": None,
                "split": None,
                "about": {},
                "state": "refused",
            }
            said = {"reason": body["reason"], "by_hand": False, "settled_at": event.at, "settled_by": body["by"]}
            named = {name: body[name] for name in ("id", "what", "by", "host")}
            found.append({"at": event.at, **named, **free, "started": False, **said})
        elif event.kind == "start":
            latest[body["id"]]["started"] = True
        elif event.kind in SETTLING:
            latest[body["id"]] |= {
                "state": settled_state(event.kind, body),
                "settled_at": event.at,
                "settled_by": body.get("by"),
                "reason": body.get("reason"),
                "by_hand": event.kind == "resolve",
            }
    return found


def withdrawn(history: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Entries that cost nothing although rows may have been read, and entries that were closed manually."""
    return [e for e in history if e["by_hand"] or e["state"] == "refused" or (e["state"], e["started"]) == _FREE]


def cautions(history: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Counts of the entries that the total does not cover, or covers only because a person said so."""
    counts: Counter[str] = Counter()
    entries = list(history)
    for entry in entries:
        about = entry.get("about")
        if isinstance(about, dict) and (entry["state"] != "cancelled" or entry["started"]):
            basis = about.get("basis", "worst-case")
            counts["drawn with a seed: not private"] += bool(about.get("seeded"))
            counts[f"private under assumptions only (basis: {basis})"] += basis == "distributional"
            counts[f"not private (basis: {basis})"] += basis not in ("worst-case", "distributional")
    for entry in withdrawn(entries):
        how = f"closed by hand as {_CLOSED[entry['state']]}" if entry["by_hand"] else _UNPAID[entry["state"]]
        counts[f"{how} ({entry['reason'] or 'no reason was recorded'})"] += 1
    return tuple(f"{count} {'entry' if count == 1 else 'entries'} {what}" for what, count in counts.items() if count)


_FREE = ("cancelled", True)
_UNPAID = {"cancelled": "given back after the start", "refused": "refused before a reservation"}
_CLOSED = {"committed": "spent", "cancelled": "cancelled, and given back"}
