"""Errors of a ledger. Whenever one is raised, nothing was granted."""

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
    """The release id was used: its release was, or may have been, made. Drawing again would be a second release."""


class DamagedLedgerError(RuntimeError):
    """The file is not a ledger, or is damaged; no data was read."""


class LedgerUnavailableError(RuntimeError):
    """The storage does not answer or cannot be written: locked, read-only, full, or unreachable."""


class LedgerRequiredError(ValueError):
    """A ledger is mandatory here and none was given; no data was read."""


class UnverifiedServerWarning(UserWarning):
    """A ledger is used over a network without verifying the server's identity."""


def no_ledger(place: object, name: str) -> str:
    """The message if there is no ledger, for users of the command line and of Python."""
    return (
        f"No ledger at {place}. Make one with 'dpeigen ledger init {place} --epsilon …', or in Python with "
        f"Ledger.create({name}, epsilon=…)."
    )
