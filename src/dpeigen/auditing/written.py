"""The report of an audit: what was run, when, with which version, and the results; as JSON and as Markdown."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import scipy

from dpeigen._version import __version__
from dpeigen.auditing.exact import ExactLoss
from dpeigen.auditing.results import Result

__all__ = ["AuditReport"]


@dataclass(frozen=True)
class AuditReport:
    """All results of one call of ``dpeigen audit``.

    Attributes
    ----------
    results : sequence of Result
        Audits, one for each mechanism and ε.
    losses : sequence of ExactLoss
        Exact losses, from known densities.
    missing : sequence of str
        Audits without a first reading when the time was up.
    minutes : float
        The time it took, in minutes.
    workers : int
        Processes that worked on it.
    seed : int or None
        The seed of the draws; None: the operating system's generator.
    date : datetime
        When it ended, in UTC.
    """

    results: Sequence[Result]
    losses: Sequence[ExactLoss]
    missing: Sequence[str]
    minutes: float
    workers: int
    seed: int | None
    date: datetime

    @staticmethod
    def now() -> datetime:
        """Return the present time in UTC, to the minute.

        Returns
        -------
        datetime
            For `date`.
        """
        return datetime.now(timezone.utc).replace(second=0, microsecond=0)

    @property
    def false_alarm(self) -> float:
        """The largest probability that any correct mechanism is refuted: a sum over all claims."""
        return min(1.0, math.fsum(1 - r.confidence for r in self.results))

    @property
    def refuted(self) -> list[str]:
        """The names of all refuted mechanisms."""
        return [f"{r.name}, ε = {r.epsilon:g}" for r in self.results if r.refuted] + [
            f"{x.name}, ε = {x.stated:g} (exact)" for x in self.losses if x.refuted
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            The date, the versions, and all results.
        """
        return {
            "date": self.date.isoformat(),
            "dpeigen": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "system": f"{platform.system()} {platform.machine()}",
            "minutes": round(self.minutes, 1),
            "workers": self.workers,
            "seed": self.seed,
            "audits": [r.to_dict() for r in self.results],
            "false_alarm_anywhere": self.false_alarm,
            "exact": [vars(loss) | {"refuted": loss.refuted} for loss in self.losses],
            "not_reached_in_time": list(self.missing),
        }

    def to_markdown(self) -> str:
        """Return the report as a page.

        Returns
        -------
        str
            Markdown: a summary, then a table of all audits and one of the exact losses.
        """
        facts = self.to_dict()
        counted = 2 * sum(r.trials for r in self.results)
        verdict = "**Refuted: " + "; ".join(self.refuted) + ".**" if self.refuted else "**Nothing was refuted.**"
        drawn = "the operating system's generator" if self.seed is None else f"seed {self.seed}"
        lines = [
            "# Audit",
            "",
            f"{self.date:%Y-%m-%d %H:%M} UTC, dpeigen {__version__}, Python {facts['python']}, NumPy {facts['numpy']}, "
            f"SciPy {facts['scipy']}, {facts['system']}; {self.minutes:.0f} minutes with {self.workers} processes; "
            f"draws of {drawn}.",
            "",
            f"{verdict} {len(self.results)} audits with {counted:,} counted releases, and {len(self.losses)} exact "
            f"losses. The probability that any of these bounds is wrong is at most {100 * self.false_alarm:.2g}%. "
            "An audit can prove a mechanism wrong, never right.",
            "",
            f"Without a first reading when the time was up: {'; '.join(self.missing) or 'none'}.",
            "",
            "| mechanism | stated ε | δ | lower bound on ε | hits on the two tables | counted of planned | verdict |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {r.name} | {r.epsilon:g} | {r.delta:g} | {r.lower:.3f} | {r.hits[0]} : {r.hits[1]} "
            f"| {r.trials} of {r.planned} | {_verdict(r)} |"
            for r in self.results
        ]
        if self.losses:
            lines += ["", "| exact loss of the worst known neighbours | stated ε | δ | exact | verdict |"]
            lines += ["|---|---|---|---|---|"]
        lines += [f"| {x.name} | {x.stated:g} | {x.delta:g} | {x.loss:.6g} | {_verdict(x)} |" for x in self.losses]
        return "\n".join(lines) + "\n"


def _verdict(found: Result | ExactLoss) -> str:
    return "REFUTED" if found.refuted else "not refuted"
