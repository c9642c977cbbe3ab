"""What a private radius costs: its share of ε, and how many rows it needs.

Guarantee: nothing is read or spent here; the radius itself, pure ε-DP, is `questions.radius`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpeigen._validate import complain
from dpeigen.curator import Purpose
from dpeigen.methods.base import Task
from dpeigen.privacy import Cost, PureCost, Relation
from dpeigen.questions.radius import KEEP, OUT_OF, holding_scale, slack
from dpeigen.stats.norms import GRID

__all__ = ["PLENTY", "check_enough_rows", "check_radii", "radius_share", "rows_needed"]

PLENTY = 24  # times the rows that a radius needs: from there on its share shrinks, and 1.2% of rows are its slack


def rows_needed(cost: Cost, *, half: bool = False) -> int:
    """Rows (or pairs) from which on the counts stand out of the noise, under replacement.

    A radius that holds no row is taken with probability at most about e^−5.
    """
    scale = holding_scale(cost, Relation.REPLACE)
    return math.ceil(
        (scale * (math.log(len(GRID)) + 5) + slack(cost, Relation.REPLACE)) * (2 if half else OUT_OF / KEEP)
    )


def radius_share(
    task: Task, usual: float, *, most: float | None = None, half: bool = False, plenty: int = PLENTY
) -> float:
    """The fraction of ε for a radius; public.

    It is ``usual``, less (to an eighth) where there are more than ``plenty`` times the rows needed, and more (up to
    ``most``) where they would not do. A smaller share finds a smaller radius: its slack is a larger part of the rows.
    """
    if task.n_terms is None:
        return usual
    enough = rows_needed(PureCost(usual * task.budget.epsilon), half=half) / task.n_terms * usual
    if enough > usual / 1.5 and most is not None:
        return min(most, 1.5 * enough)
    return min(usual, max(usual / 8, plenty * enough))


def check_enough_rows(n_terms: int | None, cost: Cost, owner: str, *, half: bool = False) -> None:
    """Refuse, where n is public, when the noise would drown the counts; spends nothing."""
    needed = rows_needed(cost, half=half)
    if n_terms is not None and n_terms < needed:
        remedy = f"A private radius needs at least {needed} rows (or pairs) here: raise epsilon or give a bound."
        raise ValueError(complain("bound", owner, "public for so few rows", f"{n_terms} rows (or pairs)", remedy))


def check_radii(task: Task, costs: Mapping[Purpose, Cost], *, half: bool = False) -> None:
    """Refuse radii that too few rows could pay for, where the number of rows is public. ``half``: they hold half."""
    for purpose, cost in costs.items():
        if purpose.is_radius:
            check_enough_rows(task.n_terms, cost, task.owner, half=half)
