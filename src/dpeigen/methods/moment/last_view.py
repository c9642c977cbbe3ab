"""The last view of `whitened`: the linear map and the radius with which the last moment is measured.

Guarantee: only radii that are paid for are used here (`questions.radius`). The map is chosen by these and by earlier
releases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Task
from dpeigen.methods.columns import ColumnFrame
from dpeigen.methods.holes import Holes
from dpeigen.methods.large import single_rows_count
from dpeigen.methods.moment.lengths import radius_costs
from dpeigen.methods.moment.reach import cells_from, grid_for, in_box, judged_length, row_length, shortened, widened
from dpeigen.methods.moment.rounds import POWERS, judge
from dpeigen.methods.moment.turned import law_of, powers_of, turned_by
from dpeigen.privacy import Cost
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.questions import RadiusLeaving, RadiusNear, radius_from
from dpeigen.stats import Frame
from dpeigen.stats.frame import RowView
from dpeigen.stats.norms import GRID
from dpeigen.stats.whitening import quadratic_forms

__all__ = ["LastView", "Looked", "ask_last_view"]

# Squared radius over the mean square of rows, up to which tails are light. It is larger than the square of
# _USUAL_RADIUS, up to which noise alone may carry a radius (`benchmarks/tables.py --only mahalanobis --seeds 16`).
_LIGHT = 10.0
_NO_ROW = 0.25  # noise scale, in rows, of a radius that leaves no row outside unless it is far beyond all others
_FAR_OUT = 8.0  # in deviations of a column: such an entry may be the only large one of its row
_USUAL_RADIUS = 3.0  # in root mean squares of rows: few tables have many longer rows


@dataclass(frozen=True)
class Looked:
    """What is known before the last moment; all of it is public or paid for."""

    columns: ColumnFrame
    holes: Holes | None
    frame: Frame  # the frame of the columns, about a better centre
    first: Floats  # covariances of framed rows as the first round measured them
    latest: Floats  # and as the last round did
    turn: Floats  # the map that gives all directions about the same variance
    radius: float  # of the first moment
    far: Floats | None  # sizes that almost no framed entry exceeds, if they were measured
    count: float
    outside: float  # rows to clip at the end
    samples: tuple[float, float]  # shares of rows for rounds, and of these for norms
    part: float  # the share of all rows that is used for norms
    several: bool  # whether several maps are tried
    angle: float  # by which noise is likely to rotate directions


@dataclass(frozen=True)
class LastView:
    """How rows enter the last moment. ``back`` maps to framed rows; ``left``: the number of rows outside the measured
    radius, and the scale of its noise."""

    view: RowView
    back: Floats
    reach: float
    start: float | None
    asked_radius: float
    left: tuple[float, float]


def ask_last_view(curator: Curator, looked: Looked, task: Task, costs: Mapping[Purpose, Cost]) -> LastView:
    """The map and the radius of the last moment: of a few maps, the one with the least predicted noise."""
    frame, latest, part, outside, count = looked.frame, looked.latest, looked.part, looked.outside, looked.count
    single = single_rows_count(task)
    share, enough = looked.samples
    few, _ = curator.sample(share, frame)[0].sample(enough, frame)
    turned = powers_of(turned_by(frame, looked.turn)[0], *POWERS)
    if not looked.several:  # each radius that is not measured leaves a larger share to the others
        judged = judge(task, frame.unit, latest)
        turned = [min(turned, key=lambda each: judged(row_length(each[1], latest), each[1]))]
    together = tuple(view for view, _ in turned)
    each, final = radius_costs(costs[Purpose.WHITENED_RADIUS], len(turned), task, sampled=part < 1)
    candidates: list[tuple[float, RowView, Floats]] = []
    # With noise far below one row, radii show how long rows are, unless one row is far beyond all others. Columns in
    # which no entry is far out have no such row, and maps are not judged for one.
    inside, far = single and part == 1 and outside < 1 and 1 / pure_epsilon(each) < _NO_ROW, looked.far
    if inside and far is not None:
        far = np.where(far > _FAR_OUT * np.sqrt(np.diag(latest)), far, 0.0)
    for view, back in turned:
        shortest = grid_for(back, latest)
        usual = _USUAL_RADIUS * row_length(back, latest)  # the scan does not go far beyond it
        asked = RadiusLeaving(view, outside * part, together=together, within=shortest, usual=usual)
        if single:
            within = cells_from(float(GRID[shortest][0]))
            asked = RadiusNear(view, outside * part, together=together, within=within)
        length = few.measure(asked, purpose=Purpose.WHITENED_RADIUS, cost=each)
        candidates.append((in_box(length, view), view, back))
    radius, cost = looked.radius, each
    if single and part == 1:  # about the centre found in the rounds
        asked = RadiusNear(frame, outside, within=cells_from(radius / 2))
        radius = in_box(curator.measure(asked, purpose=Purpose.WHITENED_RADIUS, cost=each), frame)
    candidates.insert(0, (radius, frame, np.eye(task.n_features)))
    # If rows are many times longer than the last rounds suggest, those rounds clipped them: use the first round then.
    furthest = task.row_radius(candidates[-1][0], frame)
    rough = latest if furthest**2 < _LIGHT * quadratic_forms(looked.turn, latest).sum() else looked.first
    expected = law_of(task).deviation(task.n_features, costs[Purpose.WHITENED_MOMENT], task.relation) / count
    judged = judge(task, frame.unit, rough, 1 / (math.sqrt(count) * expected))
    reach, shown, back = min(candidates, key=lambda found: judged(judged_length(found[0], found[2], far), found[2]))
    start = reach if part < 1 else None
    if start is not None:  # of all rows fewer must be clipped than of a sample
        cost, asked = final, radius_from(shown, outside, start, near=single)
        reach = curator.measure(asked, purpose=Purpose.WHITENED_RADIUS, cost=cost)
    usual = math.inf if start is not None or shown is frame else _USUAL_RADIUS * row_length(back, latest)
    leaving = RadiusNear(shown, outside) if single else RadiusLeaving(shown, outside, usual=usual)
    asked_radius = task.row_radius(reach, shown)
    left = leaving.allowed_at(reach, cost, task.relation), leaving.scale(cost, task.relation)
    if start is None:
        reach = widened(reach, left[0] / count, expected, task.n_features)
        reach = shortened(reach, left[0] / count, looked.angle)
    return LastView(shown, back, reach, start, asked_radius, left)
