"""A privacy ledger: one budget for one data set, shared by every process that uses it, in a file or in PostgreSQL.

A release first reserves its cost. The reservation is refused, before any data is read, if it would take the total
above the budget. Then the release commits. A reservation that was neither committed nor cancelled counts as spent.
Writers exclude each other, so parallel and cloned estimators cannot overspend. Nothing is kept in memory.

Modules: `rules` (how costs are added up, and why that is safe if analysts choose the next release after seeing the
last), `chain` (how edits of the record are detected), `entries` (the state of every reservation), `room` (what is left,
and whether a release fits), `tickets` (what may be done with a release's id), `store` and `postgres` (storage),
`requirement` (when a ledger is mandatory).

>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "study.ledger"
>>> ledger = Ledger.create(path, epsilon=1.0, delta=1e-6)
>>> ticket = ledger.reserve(Budget(0.4, 1e-7), "pca of the first wave")
>>> ledger.commit(ticket)
>>> round(ledger.remaining().epsilon, 3)
0.6
>>> ledger.verify().ok
True
"""

from dpeigen.privacy.budget import Budget  # noqa: F401 (for the example)
from dpeigen.privacy.ledger.book import Ledger
from dpeigen.privacy.ledger.chain import Verdict
from dpeigen.privacy.ledger.errors import (
    BudgetExceededError,
    DamagedLedgerError,
    LedgerRequiredError,
    LedgerUnavailableError,
    RepeatedReleaseError,
    UnverifiedServerWarning,
)
from dpeigen.privacy.ledger.requirement import ledger_for

__all__ = [
    "BudgetExceededError",
    "DamagedLedgerError",
    "Ledger",
    "LedgerRequiredError",
    "LedgerUnavailableError",
    "RepeatedReleaseError",
    "UnverifiedServerWarning",
    "Verdict",
    "ledger_for",
]
