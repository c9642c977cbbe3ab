"""Whether a ledger is mandatory for a release: one check for all estimators and commands.

``DPEIGEN_REQUIRE_LEDGER=1`` in the environment makes a ledger mandatory for every fit, stream and score map of the
process. It protects against forgetting the ledger, not against people who unset the variable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from dpeigen._validate import complain
from dpeigen.privacy.ledger.book import Ledger
from dpeigen.privacy.ledger.errors import LedgerRequiredError

__all__ = ["VARIABLE", "ledger_for", "made_up_rows", "why_required"]

VARIABLE = "DPEIGEN_REQUIRE_LEDGER"
_NO = ("", "0", "false", "no", "off")
_made_up: ContextVar[bool] = ContextVar("rows are made up", default=False)


def why_required() -> str:
    """What makes a ledger mandatory here, or "". Any value of the variable except a plain "no" does."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    return "" if value in _NO or _made_up.get() else f"{VARIABLE} is set in the environment"


def ledger_for(ledger: Ledger | str | Path | None, owner: str, because: str = "") -> Ledger | None:
    """Return the ledger of a release, or None. Called before any row is read.

    Parameters
    ----------
    ledger : Ledger, path, str or None
        What the caller gave.
    owner : str
        The object whose parameter it is, for the message.
    because : str, default=""
        A further reason why a ledger is mandatory, such as a setting.

    Returns
    -------
    Ledger or None
        The ledger.

    Raises
    ------
    LedgerRequiredError
        A ledger is mandatory and none is given.
    """
    if ledger is not None:
        return Ledger.at(ledger)
    if reason := because or why_required():
        if owner.startswith("dpeigen "):  # a command
            raise LedgerRequiredError(
                f"{owner} needs a ledger, because {reason}. Make one with 'dpeigen ledger init PATH --epsilon …' or "
                "use the data set's ledger, and name it with --ledger PATH or as 'ledger' in the file of --config. "
                "Nothing was read or spent."
            )
        remedy = (
            "Make one with 'dpeigen ledger init PATH --epsilon …' or use the data set's ledger, and name it: "
            "ledger=PATH in Python, --ledger PATH or 'ledger' in the file of settings. Nothing was read or spent."
        )
        raise LedgerRequiredError(complain("ledger", owner, f"a ledger, because {reason}", None, remedy))
    return None


@contextmanager
def made_up_rows() -> Iterator[None]:
    """For audits, whose rows are made up: no ledger is required inside."""
    token = _made_up.set(True)
    try:
        yield
    finally:
        _made_up.reset(token)
