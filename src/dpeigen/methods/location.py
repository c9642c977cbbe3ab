"""A private centre: first a rough location of the rows, wherever they are, then their mean about it.

Guarantee: the composition of its spends, for every data set. If no bound is public, four things are measured: one scale
for all columns, from differences of rows; the location of every column, by noisy counts in units of that scale
(`methods.places`); a radius about that location (`questions.radius`); and the mean of the rows clipped to it
(`questions.mean`). The error of the first two does not depend on where the rows are. For methods of signs, columns
that are narrow beside the scale get a location of their own (`methods.narrow`). If there are too few rows to find
locations, a first radius and mean about the origin replace them (after Biswas, Dong, Kamath, Ullman 2020); the error
then grows with the distance from the origin. With a public bound the mean alone may be enough.

Robust version: the scale is the median of differences, and the radius holds half of the rows. Beyond 1.25 times that
radius, rows have decreasing weight in the mean (`winsorized_redescending`), so a minority of far outliers does not
affect the centre. A row adds at most 1 to that sum in units of the cutoff (`stats.generalised`), so the sensitivity is
that of a mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.costs import part_of, rest_of
from dpeigen.methods.base import Task
from dpeigen.methods.column_scales import ask_one_scale
from dpeigen.methods.columns import finds_places, places_share
from dpeigen.methods.holes import Holes
from dpeigen.methods.narrow import NarrowPlaces, ask_narrow_places, narrow_columns, narrow_integers
from dpeigen.methods.places import Places, ask_places, place_integers
from dpeigen.methods.radius import radius_share, rows_needed
from dpeigen.privacy import Cost, PureCost, gaussian_mu
from dpeigen.questions import ClippedMean, RadiusHolding
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.frame import LARGEST_FACT
from dpeigen.stats.generalised import WeighedSigns
from dpeigen.stats.transform import winsorized_redescending

__all__ = ["REUSED", "Center", "Weights", "ask_center", "center_integers", "center_shares", "cutoff_factor", "within"]

Weights = dict[Purpose, float]
_ROUNDS = (
    (Purpose.FIRST_CENTER_RADIUS, Purpose.FIRST_CENTER),
    (Purpose.CENTER_RADIUS, Purpose.CENTER),
)
_RADIUS_SHARE, _MOST_SHARE = 0.04, 0.08  # of ε for a radius: usually, and with few rows
_CUTOFF = 1.4  # least cutoff, as a multiple of the median norm; rows beyond it have less weight
_BEYOND = 0.03  # the largest fraction of isotropic normal rows beyond the cutoff
_CENTER_CUTOFF = 1.25  # smaller for a centre: a centre pulled towards a cluster makes the cluster look nearer
_PARTS_OF_NARROW = 4  # one of so many parts of the share of a centre goes to columns that may be narrow
_PLACE_ERROR = 0.25  # of a location, in scales
_LEAST_WEIGHT = 0.5  # of a row on average: half of the rows, inside the median norm, have weight 1
# Factor on a median norm that is used again for a cutoff: where it is too long, the centre was drawn to a cluster too.
# With 1, 8 of 90 tables with a near cluster (`papers/kim-jung-2025`, 20%, 25 columns) have a wrong direction, with 0.96
# 3, as many as with a median of its own; with 0.93 none.
REUSED = 0.94


class Center(NamedTuple):
    """A paid centre in the data's own units, and what was found out on the way, in the frame's units."""

    place: Floats
    error: float  # the expected norm of its error
    deviations: Floats  # of the error of each column, in the data's own units
    median: float | None = None  # the median norm of rows about it, if a robust centre paid for one
    holding: float | None = None  # the radius about a rough location that contains about 95% of the rows, if paid for


def cutoff_factor(d: int) -> float:
    """The cutoff as a multiple of the median norm; public. It is larger for few columns, whose norms vary more."""
    return max(_CUTOFF, math.sqrt(float(chdtri(d, _BEYOND) / chdtri(d, 0.5))))


def center_shares(task: Task, *, measured: bool = False, alone: bool = False) -> tuple[Weights, Weights]:
    """(pure, main) shares for `ask_center`, to be joined with a method's own shares for `allocate`.

    Without a public bound, locations (or a first mean) and a radius are paid for. With ``measured`` they are paid for
    inside a public bound too if there are enough rows: a bound is usually far larger than the spread of the rows, and
    the noise of a centre is proportional to it. ``alone``: no direction depends on this centre.
    """
    share, part = _center_share(task), 3 if alone else 1
    if isinstance(task.bound, (float, tuple)):
        needed = rows_needed(PureCost(_MOST_SHARE * task.budget.epsilon))
        if not measured or task.n_terms is None or task.n_terms < 1.2 * needed:
            return {}, {Purpose.CENTER: max(share, 0.2) / part}
    radii = {Purpose.CENTER_RADIUS: radius_share(task, _RADIUS_SHARE, most=_MOST_SHARE, plenty=4)}
    if not finds_places(task):
        radii[Purpose.FIRST_CENTER_RADIUS] = radii[Purpose.CENTER_RADIUS]
        return radii, {Purpose.FIRST_CENTER: max(0.04, share / 2) / part, Purpose.CENTER: share / part}
    paired = replace(task, center="pairs")
    radii[Purpose.SCALES] = radius_share(paired, _RADIUS_SHARE, most=_MOST_SHARE, plenty=4)
    return radii, {Purpose.PLACES: places_share(task), Purpose.CENTER: share / part}


def center_integers(d: int) -> int:
    """The most noisy integers that `ask_center` draws: locations, and two means with counts and weights."""
    return place_integers(d) + narrow_integers(d) + 2 * (d + 2)


def _center_share(task: Task) -> float:
    """The weight of a centre beside a main share of 1: less if there are many rows.

    An error e of the centre adds e·eᵀ to a moment. Relative to the trace that is about 6d/(n·μ)² (Gaussian) or
    12·d²/(n·ε)² (pure), divided by the share, for normal rows, and several times that for heavy tails. It should be a
    fraction of the norm of the moment's own noise, 2√d/(n·μ) or 3d/(n·ε).
    """
    d, budget = task.n_features, task.budget
    if task.n_terms is None:
        return 0.2
    if budget.is_pure:
        return min(0.3, max(0.05, math.sqrt(25 * d / (task.n_terms * budget.epsilon))))
    return min(0.2, max(0.03, 30 * math.sqrt(d) / (task.n_terms * gaussian_mu(budget.epsilon, budget.delta))))


def ask_center(
    curator: Curator,
    frame: Frame,
    radius: float | None,
    costs: Mapping[Purpose, Cost],
    task: Task,
    holes: Holes | None = None,
    *,
    robust: bool = False,
    narrow_too: bool = False,
) -> Center:
    """A centre of the rows.

    Asks the questions that `center_shares` pay for. ``radius`` is public, or None. ``robust``: with little influence of
    outliers. ``narrow_too``: narrow columns get a location of their own: for centres that nothing corrects later.
    """
    error, median, holding, narrow = 0.0, None, None, None
    if Purpose.PLACES in costs:
        scale = ask_one_scale(curator, frame, costs[Purpose.SCALES], task.n_rows or 0, task, robust=robust)
        places = ask_places(curator, scale, costs[Purpose.PLACES], task)
        if narrow_too and not task.same_units:
            narrow, costs = _ask_narrow(curator, places, costs, task)
        frame = _about(frame, places.place if narrow is None else narrow.place)
        error = _PLACE_ERROR * float(np.linalg.norm(scale / frame.unit))
    for reach_of, purpose in _ROUNDS:
        if purpose not in costs:
            continue
        if robust and purpose is Purpose.CENTER and reach_of in costs:
            mean, noise, median = _ask_descending_mean(curator, frame, costs)
            reach = _CENTER_CUTOFF * median
        else:
            if reach_of in costs:
                holding = curator.measure(RadiusHolding(frame), purpose=reach_of, cost=costs[reach_of])
                reach = within(holding, radius)
            elif radius is not None:
                reach = radius
            else:
                raise AssertionError("a radius is public or paid for")
            found = curator.measure(ClippedMean(Lattice(frame, reach)), purpose=purpose, cost=costs[purpose])
            mean, noise = found.mean if holes is None else holes.mean(found.mean), found.error
        error = max(noise, error - reach)  # a mean of clipped rows is at most ``reach`` away
        frame = _about(frame, (0.0 if frame.center is None else frame.center) + mean * frame.unit)
    if frame.center is None:
        raise AssertionError("at least one round sets a centre")
    place, deviations = frame.center, error / math.sqrt(frame.n_features) * frame.unit
    if narrow is not None:
        place, deviations = narrow.instead_of(place, deviations)
    return Center(_inside(frame, place), error, deviations, median, holding)


def _ask_narrow(
    curator: Curator, places: Places, costs: Mapping[Purpose, Cost], task: Task
) -> tuple[NarrowPlaces | None, Mapping[Purpose, Cost]]:
    """Places of columns that may be narrow, if there are any, and the costs that are left."""
    rows = float(task.n_rows or (places.below + places.inside + places.above).max())
    columns = narrow_columns(places, rows)
    if task.n_features == 1 or not columns.any():
        return None, costs
    whole = costs[Purpose.CENTER]
    found = ask_narrow_places(curator, places, columns, rows, part_of(whole, _PARTS_OF_NARROW), task)
    left = whole if found is None else rest_of(whole, found.spent)
    if left is None:
        raise AssertionError("a part of the share was spent")
    return found, {**costs, Purpose.CENTER: left}


def _ask_descending_mean(curator: Curator, frame: Frame, costs: Mapping[Purpose, Cost]) -> tuple[Floats, float, float]:
    """The mean of rows whose weight decreases beyond a cutoff, the expected norm of its noise, and a median norm.

    The median is measured about the origin of the frame. About the mean, squared norms are smaller by the squared
    distance of both, on average.
    """
    question = RadiusHolding(frame, half=True)
    cost = costs[Purpose.CENTER_RADIUS]
    median = curator.measure(question, purpose=Purpose.CENTER_RADIUS, cost=cost)
    cutoff = _CENTER_CUTOFF * median
    rows = WeighedSigns(frame, winsorized_redescending(cutoff))
    found = curator.measure(ClippedMean(rows.lattice), purpose=Purpose.CENTER, cost=costs[Purpose.CENTER])
    # Rows far out have less weight, so the mean is divided by the mean weight: an origin far from the middle of a
    # column would otherwise stay in the result.
    weight = min(max(float(found.mean[-1]) / rows.kappa, _LEAST_WEIGHT), 1.0)
    unit = cutoff / (weight * math.sqrt(1 - rows.kappa**2))
    mean, error = found.mean[:-1] * unit, found.error * unit * math.sqrt(1 - 1 / rows.n_columns)
    unsure = found.error / math.sqrt(rows.n_columns) / (rows.kappa * weight)
    error = math.hypot(error, unsure * float(np.linalg.norm(mean)))
    moved = max(float(mean @ mean) - error**2, 0.0)
    return mean, error, REUSED * math.sqrt(max(median**2 - moved, median**2 / 4))


def _about(frame: Frame, center: Floats) -> Frame:
    """The frame about a centre inside its box."""
    return replace(frame, center=_inside(frame, center))


def _inside(frame: Frame, center: Floats) -> Floats:
    """The centre inside the box of a frame; noise can move it outside."""
    low, high = (-LARGEST_FACT, LARGEST_FACT) if frame.box is None else frame.box
    return np.clip(center, low, high)


def within(radius: float, cap: float | None) -> float:
    """A paid radius, capped at the norm of the longest row within public bounds."""
    return radius if cap is None else min(radius, cap)
