"""The last view of `whitened`: which map, and which radius, the last moment is asked for.

Guarantee: nothing is read here but radii that are paid for (`questions.radius`). The map is chosen by them and by what
was released before.
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
from dpeigen.questions import RadiusLeaving, RadiusNear, radius_from
from dpeigen.stats import Frame
from dpeigen.stats.frame import RowView
from dpeigen.stats.norms import GRID
from dpeigen.stats.whitening import quadratic_forms

__all__ = ["LastView", "Looked", "ask_last_view"]

_LIGHT = 8.0  # the square of a radius over the mean square of rows, up to which tails are light
_USUAL_RADIUS = 3.0  # root mean squares of rows: few tables have many rows that are longer


@dataclass(frozen=True)
class Looked:
    """What is known before the last moment: all of it public or paid for."""

    columns: ColumnFrame
    holes: Holes | None
    frame: Frame  # that of the columns, about a better centre
    first: Floats  # covariances of framed rows, as the first round saw them
    latest: Floats  # and the last
    turn: Floats  # makes all directions about equally long
    radius: float  # of the first moment
    far: Floats | None  # sizes that next to no framed entry exceeds, where they were asked for
    count: float
    outside: float  # rows to clip at the end
    samples: tuple[float, float]  # shares for rounds, and of these for lengths
    part: float  # of the rows, for lengths
    several: bool  # whether several maps are tried
    angle: float  # that noise is likely to turn directions by


@dataclass(frozen=True)
class LastView:
    """How rows are seen for the last moment. ``back`` maps to framed rows; ``left`` is the number of rows outside the
    asked radius, and the scale of its noise."""

    view: RowView
    back: Floats
    reach: float
    start: float | None
    asked_radius: float
    left: tuple[float, float]


def ask_last_view(curator: Curator, looked: Looked, task: Task, costs: Mapping[Purpose, Cost]) -> LastView:
    """The map and the radius of the last moment: of a few maps, the one whose radius promises the least noise."""
    frame, latest, part, outside, count = looked.frame, looked.latest, looked.part, looked.outside, looked.count
    single = single_rows_count(task)
    share, enough = looked.samples
    few, _ = curator.sample(share, frame)[0].sample(enough, frame)
    turned = powers_of(turned_by(frame, looked.turn)[0], *POWERS)
    if not looked.several:  # each radius that is not asked for leaves more of its share to the others
        judged = judge(task, frame.unit, latest)
        turned = [min(turned, key=lambda each: judged(row_length(each[1], latest), each[1]))]
    together = tuple(view for view, _ in turned)
    each, final = radius_costs(costs[Purpose.WHITENED_RADIUS], len(turned), task, sampled=part < 1)
    candidates: list[tuple[float, RowView, Floats]] = []
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
    if single and part == 1:  # about the centre that the rounds have found
        asked = RadiusNear(frame, outside, within=cells_from(radius / 2))
        radius = in_box(curator.measure(asked, purpose=Purpose.WHITENED_RADIUS, cost=each), frame)
    candidates.insert(0, (radius, frame, np.eye(task.n_features)))
    # Rows many times as long as the last rounds say were clipped by them: then the first round is the better guide.
    furthest = task.row_radius(candidates[-1][0], frame)
    rough = latest if furthest**2 < _LIGHT * quadratic_forms(looked.turn, latest).sum() else looked.first
    expected = law_of(task).deviation(task.n_features, costs[Purpose.WHITENED_MOMENT], task.relation) / count
    judged = judge(task, frame.unit, rough, 1 / (math.sqrt(count) * expected))
    reach, shown, back = min(
        candidates, key=lambda found: judged(judged_length(found[0], found[2], looked.far), found[2])
    )
    start = reach if part < 1 else None
    if start is not None:  # of all rows fewer have to be clipped than of a part
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
