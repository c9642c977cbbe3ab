"""Audits of every mechanism of the library, end to end: what ``dpeigen audit`` runs.

`targets` are the mechanisms, each a function from rows to released numbers with the claim it makes; `pairs` are bad
neighbours and a search for worse ones; `claims` turns counts into a lower bound on ε; `exact` computes losses where
the density is known; `faults` are broken mechanisms that an audit must catch; `runner` does the work, in time.
"""

from dpeigen.auditing.claims import Claim, Finding
from dpeigen.auditing.faults import FAULTS
from dpeigen.auditing.results import AuditPlan, Result
from dpeigen.auditing.runner import run_audits
from dpeigen.auditing.targets import TARGETS, Target, find_target

__all__ = [
    "FAULTS",
    "TARGETS",
    "AuditPlan",
    "Claim",
    "Finding",
    "Result",
    "Target",
    "find_target",
    "run_audits",
]
