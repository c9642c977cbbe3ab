"""Checks of the texts that a ledger records: who, what and why."""

from __future__ import annotations

import getpass
import os
from typing import Any

from dpeigen._validate import complain

__all__ = ["checked_reason", "checked_text", "user_name"]

_LONGEST = 500  # characters of a text


def user_name() -> str:
    """The name of the operating system's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user id without a name, as in containers
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def checked_text(name: str, value: Any) -> str:
    """The value of a parameter that must be a short printable text."""
    if not isinstance(value, str) or not value or len(value) > _LONGEST or not value.isprintable():
        raise ValueError(complain(name, "Ledger", f"printable text of 1 to {_LONGEST} characters", value))
    return value


def checked_reason(reason: Any, owner: str) -> str:
    """`checked_text` for a reason, which must not be empty."""
    if not isinstance(reason, str) or not reason.strip():
        raise ValueError(complain("reason", owner, "a text that says how this is known", reason))
    return checked_text("reason", reason)
