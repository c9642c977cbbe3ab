"""The storage for a path or URL of a ledger. No message shows the URL, because it may contain a password."""

from __future__ import annotations

import re
from pathlib import Path

from dpeigen._validate import complain
from dpeigen.privacy.ledger.store import SqliteStore, Store

__all__ = ["is_url", "store_at"]

_URL = ("postgresql:", "postgres:")


def is_url(place: str | Path) -> bool:
    """Whether a place is a PostgreSQL URL rather than the path of a file."""
    return str(place).startswith(_URL)


def store_at(place: str | Path) -> Store:
    """The storage at a path or a ``postgresql://`` URL."""
    text = str(place)
    if is_url(text):
        from dpeigen.privacy.ledger.postgres import PostgresStore

        scheme, rest = text.split(":", 1)
        if not rest.startswith("//"):  # a Path merges two or three slashes into one
            if "/" not in rest.split("?")[0].strip("/"):
                raise ValueError("The ledger's URL went through a Path, which drops slashes. Give it as text.")
            rest = f"/{rest}"
        return PostgresStore(f"{scheme}:{rest}")
    if other := re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text):
        raise ValueError(complain("ledger", "Ledger", "a path or a postgresql:// URL", f"{other[1]}://…"))
    if re.search(r"postgres(ql)?:/|[A-Za-z0-9]{2}:/+[^/]*@", text, re.IGNORECASE):
        must = "a path, or a URL that begins with postgresql://"
        remedy = "Give the URL as it is, with nothing before it."
        raise ValueError(complain("ledger", "Ledger", must, "a URL inside another text", remedy))
    if "password=" in text.replace(" ", "").lower():
        raise ValueError("A ledger in PostgreSQL is named by a URL, postgresql://user@host/database, not by key=value.")
    return SqliteStore(place)
