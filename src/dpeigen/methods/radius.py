"""The cost of a private radius: its share of ε, and the number of rows it needs.

Guarantee: nothing is read or spent here. The radius itself, which is pure ε-DP, is measured by `questions.radius`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from dpeigen._validate import complain
from dpeigen.curator import Purpose
from dpeigen.methods.base import Task
from dpeigen.privacy import Cost, PureCost, Relation
from dpeigen.questions.radius import KEEP, OUT_OF, holding_scale, slack
from dpeigen.stats.norms import FINE_GRID, GRID

__all__ = ["CUTOFF_PLENTY", "PLENTY", "FewRowsError", "check_enough_rows", "check_radii", "radius_share", "rows_needed"]

PLENTY = 24  # multiple of the rows needed, above which the share shrinks; 1.2% of the rows are then its slack
CUTOFF_PLENTY = 2  # the same for the median length that a cutoff is a multiple of, which need not be exact
_SPARE, _SPARE_HALF = 1.5, 1.2  # multiple of the rows needed that a larger share provides for; for half of the rows


class FewRowsError(ValueError):
    """A private radius needs more rows, or a larger ``epsilon``, which the message names if it is known.

    Shares of the budget depend on ε too, so the ε that is enough follows from the whole method (`methods.auto`).
    """

    def __init__(self, needed: int, n_terms: int, owner: str, *, bounded: bool, epsilon: float | None = None) -> None:
        more = "a larger epsilon" if epsilon is None else f"epsilon={epsilon:g}"
        name, must, other = "bound", "public for so few rows", "give a bound"
        if bounded:
            name, must = "method", "one without a private radius for so few rows"
            other = "method='auto', which can use the bound"
        remedy = f"A private radius needs at least {needed} rows (or pairs) here: use {more}, or {other}."
        super().__init__(complain(name, owner, must, f"{n_terms} rows (or pairs)", remedy))
        self._facts = partial(FewRowsError, needed, n_terms, owner, bounded=bounded)

    def naming(self, epsilon: float | None) -> FewRowsError:
        """The same refusal with the ε that is enough."""
        return self._facts(epsilon=epsilon)


def rows_needed(cost: Cost, *, half: bool = False) -> int:
    """The number of rows (or pairs) from which the counts exceed the noise, under replacement.

    A radius that holds no row is then chosen with probability at most about e^−5.
    """
    scale = holding_scale(cost, Relation.REPLACE)
    return math.ceil(
        (scale * (math.log(len(FINE_GRID if half else GRID)) + 5) + slack(cost, Relation.REPLACE, half=half))
        * (2 if half else OUT_OF / KEEP)
    )


def radius_share(
    task: Task, usual: float, *, most: float | None = None, half: bool = False, plenty: int = PLENTY
) -> float:
    """The fraction of ε for a radius; public.

    It is ``usual``. It is less (down to an eighth) if there are more than ``plenty`` times the rows needed, and more
    (up to ``most``) if they are not enough. A smaller share gives a smaller radius, because its slack is a larger part
    of the rows.
    """
    if task.n_terms is None:
        return usual
    enough = rows_needed(PureCost(usual * task.budget.epsilon), half=half) / task.n_terms * usual
    spare = _SPARE_HALF if half else _SPARE
    if enough > usual / spare and most is not None:
        return min(most, spare * enough)
    return min(usual, max(usual / 8, plenty * enough))


def check_enough_rows(
    n_terms: int | None, cost: Cost, owner: str, *, half: bool = False, bounded: bool = False
) -> None:
    """If n is public, refuse if the noise would hide the counts; spends nothing. ``bounded``: a bound is given."""
    needed = rows_needed(cost, half=half)
    if n_terms is not None and n_terms < needed:
        raise FewRowsError(needed, n_terms, owner, bounded=bounded)


def check_radii(task: Task, costs: Mapping[Purpose, Cost], *, half: bool = False) -> None:
    """If the number of rows is public, refuse radii that need more. ``half``: radii that hold half of the rows."""
    for purpose, cost in costs.items():
        if purpose.is_radius:
            bounded = isinstance(task.bound, (float, tuple))
            check_enough_rows(task.n_terms, cost, task.owner, half=half, bounded=bounded)
