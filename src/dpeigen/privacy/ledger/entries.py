"""What became of every reservation, from the events alone: nothing that was ever reserved drops out of it.

An id that was cancelled may be reserved again. The table of entries then holds the later one; the record holds both,
and so does the history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dpeigen.privacy.ledger.chain import SETTLING, LedgerEvent, settled_state

__all__ = ["cautions", "history_of", "withdrawn"]

_TAKEN = ("id", "what", "epsilon", "delta", "relation", "by", "host", "split", "about")


def history_of(events: Iterable[LedgerEvent]) -> list[dict[str, Any]]:
    """All reservations, oldest first, those that were cancelled or closed by hand included; and refusals without one.

    Raises KeyError, TypeError, ValueError or RecursionError where the record is damaged.
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
    """Entries that cost nothing though rows may have been read, and those that were closed by hand."""
    return [e for e in history if e["by_hand"] or e["state"] == "refused" or (e["state"], e["started"]) == _FREE]


def cautions(history: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What the total does not cover, or covers on somebody's word only, counted."""
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
