"""What `whitened` asks about lengths of rows, what that costs, and what is known of columns whose rows are clipped.

Guarantee: nothing is read or spent here; questions are made of public or released numbers.
"""

from __future__ import annotations

import math

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator.costs import part_of
from dpeigen.methods.base import Task
from dpeigen.methods.columns import ColumnFrame
from dpeigen.methods.holes import Holes
from dpeigen.methods.large import last_radius_share, single_rows_count
from dpeigen.methods.moment.reach import cells_from
from dpeigen.privacy import Cost, PureCost
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.questions import RadiusLeaving, RadiusNear
from dpeigen.stats import Frame
from dpeigen.stats.tails import least_variances, lost_tails
from dpeigen.stats.whitening import quadratic_forms

__all__ = ["LEFT", "far_in", "first_radius", "least_of", "lost_by", "radius_costs"]

LEFT = 0.25  # of the variance that a column has at least: less was left by clipping
_RESOLVED = 0.5  # entries: with less noise than that, reaches of columns show single rows
_SHORTEST = 1 / 32  # scales, of an entry: rows that are shorter are not clipped in the first round


def first_radius(frame: Frame, outside: float, single: bool) -> RadiusLeaving:
    """The question for the first radius."""
    if not single:
        return RadiusLeaving(frame, outside)
    return RadiusNear(frame, outside, within=cells_from(_SHORTEST * math.sqrt(frame.n_features)))


def radius_costs(cost: Cost, maps: int, task: Task, *, sampled: bool) -> tuple[Cost, Cost]:
    """Of the radius of each map, and of the last one where that is another.

    Where single rows count, a map is judged by the very radius that rows are clipped to; also none at all.
    """
    last = last_radius_share(task) * task.budget.epsilon
    if not (last and sampled):
        each = part_of(cost, maps + (sampled or single_rows_count(task)))
        return each, each
    return part_of(PureCost(pure_epsilon(cost) - last), maps), part_of(PureCost(last), 1)


def least_of(columns: ColumnFrame, holes: Holes | None, reaches: Cost | None, count: float) -> Floats:
    """Variances that columns have at least, with missing cells at 0, by the counts that scales were found with.

    Where ``reaches`` were paid for: or that a few rows may have that were not seen. A map that stretched such a column
    would make them the longest by far.
    """
    if columns.sizes is None or columns.reach is None:
        return np.zeros(len(columns.known))
    found = least_variances(columns.sizes, columns.reach)
    if reaches is not None:
        unseen = len(columns.known) / pure_epsilon(reaches)
        found = np.maximum(found, unseen * columns.reach**2 / count / LEFT)
    return found if holes is None else found * (1 - holes.shares)


def far_in(columns: ColumnFrame, reaches: Cost | None, *, sampled: bool) -> Floats | None:
    """How far columns reach, in their units, where maps are judged by that too.

    A radius that leaves one long row outside makes a map look good that is bad for this row. Reaches tell of it, if
    their noise is small. If it is not, they are often too long, and lengths of rows say more, unless they are those of
    a part of the rows.
    """
    if columns.far is None or reaches is None:
        return None
    noise = len(columns.far) / pure_epsilon(reaches)
    return columns.far if sampled or noise < _RESOLVED else None


def lost_by(columns: ColumnFrame, back: Floats, white: Floats, reach: float, outside: float) -> Floats | None:
    """What clipping took from columns with long tails, by the counts that their scales were found with."""
    if columns.sizes is None or columns.reach is None:
        return None
    variances = quadratic_forms(back, white)
    steps = np.linalg.norm(white @ back.T, axis=0)
    spread, lengths = np.sqrt(variances), np.divide(steps, variances, out=np.zeros_like(steps), where=variances > 0)
    return lost_tails(columns.sizes, columns.reach, spread, lengths, float(np.trace(white)), reach, outside)
