"""How a ledger says no. Whatever it says, nothing was granted by it."""

from __future__ import annotations

__all__ = [
    "BudgetExceededError",
    "DamagedLedgerError",
    "LedgerRequiredError",
    "LedgerUnavailableError",
    "RepeatedReleaseError",
    "UnverifiedServerWarning",
    "no_ledger",
]


class BudgetExceededError(RuntimeError):
    """The ledger has no room for a release; no data was read."""


class RepeatedReleaseError(RuntimeError):
    """The release id was used: its release was made, or may have been made. A second draw would be a second release."""


class DamagedLedgerError(RuntimeError):
    """The file is not a ledger, or is one no longer; no data was read."""


class LedgerUnavailableError(RuntimeError):
    """The storage does not answer or cannot be written: locked, read-only, full, or out of reach."""


class LedgerRequiredError(ValueError):
    """A ledger is mandatory here and none was given; no data was read."""


class UnverifiedServerWarning(UserWarning):
    """A ledger is asked over a network without checking that the server is the right one."""


def no_ledger(place: object, name: str) -> str:
    """What to say where there is none, to users of the command line and of Python."""
    return (
        f"No ledger at {place}. Make one with 'dpeigen ledger init {place} --epsilon …', or in Python with "
        f"Ledger.create({name}, epsilon=…)."
    )
