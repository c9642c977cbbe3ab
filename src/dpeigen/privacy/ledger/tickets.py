"""What may be done with a release's id: reserve, start, commit or cancel it. Noise is drawn at most once for an id.

An entry is a row of the ledger: (number of the event that reserved it, state, whether it was started, settled by).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from dpeigen._validate import complain
from dpeigen.privacy.ledger import chain
from dpeigen.privacy.ledger.errors import RepeatedReleaseError
from dpeigen.privacy.ledger.page import Page

__all__ = ["is_reserved", "may_settle", "started_here"]

_COMPARED = ("what", "epsilon", "delta", "relation", "split", "about")


def is_reserved(page: Page, body: Mapping[str, Any], ledger: str) -> bool:
    """Whether this id has exactly this reservation, unused; refuses if it was used. ``ledger``: the ledger's name."""
    found = page.entry(body["id"])
    if found is None or found[1] == "cancelled":
        return False
    earlier, (_, state, started, _) = page.reservation(found), found
    if any(chain.canonical(earlier[name]) != chain.canonical(body[name]) for name in _COMPARED):
        raise RepeatedReleaseError(
            f"The release id {body['id']!r} belongs to another release or another cost in {ledger}. A "
            "new release needs a new id. Nothing was spent."
        )
    if state == "committed":
        raise RepeatedReleaseError(
            f"The release {body['id']!r} was made already ({ledger}). Use the saved release. To make "
            "another one, which costs budget again, choose a new id. Nothing was spent."
        )
    if started:
        raise RepeatedReleaseError(
            f"The release {body['id']!r} was started by {earlier['by']} on {earlier['host']} and not finished; "
            "what was drawn may have been seen. It counts as spent until resolved by hand: dpeigen ledger resolve. "
            "Nothing more was spent."
        )
    return True


def started_here(entry: tuple[Any, ...]) -> tuple[int, int]:
    """Identifies a reservation started by this object: this process, and the number of the reserving event."""
    return os.getpid(), entry[0]


def may_settle(
    page: Page, ticket: str, kind: str, ledger: str, *, mine: tuple[int, int] | None, reason_given: bool
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The entry and its reservation, if it may be started, committed, cancelled or resolved now.

    ``mine``: the result of `started_here` when this object started it; None if it did not.
    """
    entry = page.entry(ticket)
    if entry is None or entry[1] != "reserved":
        raise KeyError(f"No open reservation {ticket!r} in {ledger}.")
    started = bool(entry[2])
    if kind == "start" and started:
        raise RepeatedReleaseError(f"The release {ticket!r} was started already. A second draw needs a new id.")
    if kind == "cancel" and started and mine != started_here(entry):
        raise RepeatedReleaseError(
            f"The release {ticket!r} was started by someone else; what was drawn may have been seen. If you "
            "know that nothing was drawn, use Ledger.resolve(…, reason=…) or dpeigen ledger resolve."
        )
    reserved = page.reservation(entry)
    if kind == "cancel" and started and not reason_given:
        must = f"a text that says why {ticket!r} is cancelled after its start, when data may have been read"
        raise ValueError(complain("reason", "Ledger.cancel", must, None))
    return entry, reserved
