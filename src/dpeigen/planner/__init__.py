"""Plans before anything is spent: predicted errors, the ε or the rows that reach a target, and splits of a budget.

Everything here is computed from public facts, assumptions and public tables; no private data are read and nothing is
spent.
"""

from dpeigen.planner.assumptions import Rows, from_covariance, power_law, spiked
from dpeigen.planner.inverse import OutOfReachError, needed_epsilon, needed_rows
from dpeigen.planner.local import LocalPlan, needed_local_epsilon, needed_local_rows, plan_local
from dpeigen.planner.planning import adversary_success, plan
from dpeigen.planner.plans import Plan, Prediction
from dpeigen.planner.splits import best_split

__all__ = [
    "LocalPlan",
    "OutOfReachError",
    "Plan",
    "Prediction",
    "Rows",
    "adversary_success",
    "best_split",
    "from_covariance",
    "needed_epsilon",
    "needed_local_epsilon",
    "needed_local_rows",
    "needed_rows",
    "plan",
    "plan_local",
    "power_law",
    "spiked",
]
