"""End-to-end audits of every mechanism of the library, for ``dpeigen audit``.

`targets` are the mechanisms, each a function from rows to released numbers with its claim. `pairs` has bad neighbours
and a search for worse ones. `claims` turns counts into a lower bound on ε. `exact` computes losses from known
densities. `faults` are broken mechanisms that an audit must detect. `runner` runs the audits within a time limit.
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
