"""What `whitened` measures about norms of rows, at which cost, and what is known of columns whose rows are clipped.

Guarantee: nothing is read or spent here; questions are made from public or released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

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
from dpeigen.stats.column_laws import law_losses
from dpeigen.stats.tails import least_variances, lost_tails
from dpeigen.stats.whitening import quadratic_forms

__all__ = ["LEFT", "far_in", "first_radius", "least_of", "lost_by", "radius_costs"]

LEFT = 0.25  # of the least variance of a column: if less is measured, clipping removed the rest
_RESOLVED = 0.5  # entries: with less noise than this, reaches of columns show single rows
_SHORTEST = 1 / 32  # in scales of an entry: shorter rows are not clipped in the first round


def first_radius(frame: Frame, outside: float, single: bool) -> RadiusLeaving:
    """The question for the first radius."""
    if not single:
        return RadiusLeaving(frame, outside)
    return RadiusNear(frame, outside, within=cells_from(_SHORTEST * math.sqrt(frame.n_features)))


def radius_costs(cost: Cost, maps: int, task: Task, *, sampled: bool) -> tuple[Cost, Cost]:
    """The costs of the radius of each map, and of the last radius if it is measured separately.

    If single rows matter, a map is judged by the radius to which rows are clipped; so is the case of no map.
    """
    last = last_radius_share(task) * task.budget.epsilon
    if not (last and sampled):
        each = part_of(cost, maps + (sampled or single_rows_count(task)))
        return each, each
    return part_of(PureCost(pure_epsilon(cost) - last), maps), part_of(PureCost(last), 1)


def least_of(columns: ColumnFrame, holes: Holes | None, reaches: Cost | None, count: float) -> Floats:
    """The least variances that columns can have, with 0 for missing cells, by the counts that gave their scales.

    If ``reaches`` were paid for, these are at least the variance that a few undetected rows may have. A map that
    stretched such a column would make these rows by far the longest.
    """
    if columns.sizes is None or columns.reach is None:
        return np.zeros(len(columns.known))
    found = least_variances(columns.sizes, columns.reach)
    if reaches is not None:
        unseen = len(columns.known) / pure_epsilon(reaches)
        found = np.maximum(found, unseen * columns.reach**2 / count / LEFT)
    return found if holes is None else found * (1 - holes.shares)


def far_in(columns: ColumnFrame, reaches: Cost | None, *, sampled: bool) -> Floats | None:
    """The reaches of the columns, in their units, if maps are judged by these too.

    A radius that leaves one long row outside can favour a map that is bad for this row. The reaches show this, if
    their noise is small. Otherwise they are often too large, and norms of rows are more informative, unless these come
    from a sample of the rows.
    """
    if columns.far is None or reaches is None:
        return None
    noise = len(columns.far) / pure_epsilon(reaches)
    return columns.far if sampled or noise < _RESOLVED else None


def lost_by(
    columns: ColumnFrame,
    back: Floats,
    white: Floats,
    reach: float,
    counted: tuple[float, float],
    indicators: Mapping[int, float],
) -> Floats | None:
    """What clipping took from columns with long tails, by the counts that gave their scales.

    ``counted``: a radius, and the largest share of rows that may lie beyond it. ``indicators``: columns of two values,
    and the value that stands for 1.
    """
    if columns.sizes is None or columns.reach is None:
        return None
    variances = quadratic_forms(back, white)
    steps = np.linalg.norm(white @ back.T, axis=0)
    spread, lengths = np.sqrt(variances), np.divide(steps, variances, out=np.zeros_like(steps), where=variances > 0)
    rest = float(np.trace(white))
    seen = lost_tails(columns.sizes, columns.reach, spread, lengths, rest, reach, counted[1])
    return np.vstack([seen, law_losses(columns.sizes, spread, lengths, rest, reach, indicators, counted)])
