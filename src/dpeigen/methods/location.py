"""A private centre: where the rows lie, whatever their origin; then their mean about that place.

Guarantee: the composition of its spends, for every data set. Where no bound is public: one scale of all columns from
differences of rows, and the place of every column by noisy counts in units of it (`methods.places`), neither of which
depends on where the rows lie; a radius about that place (`questions.radius`), and the mean of the rows clipped to it
(`questions.mean`). Where rows are too few for places to stand out of the noise, a first radius and mean about the
origin take their part (after Biswas, Dong, Kamath, Ullman 2020): the error then grows with the distance from it. With a
public bound the mean alone may be enough.

Robust: the scale is the median of differences, the radius holds half of the rows, and beyond 1.25 times it rows count
ever less in the mean (`winsorized_redescending`), so that a minority of outliers has no part in the centre if it is far
away. A row adds at most 1 to that sum in units of the cutoff (`stats.generalised`): the sensitivity is that of a mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.special import chdtri

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Task
from dpeigen.methods.column_scales import ask_one_scale
from dpeigen.methods.columns import finds_places, places_share
from dpeigen.methods.holes import Holes
from dpeigen.methods.places import ask_places, place_integers
from dpeigen.methods.radius import radius_share, rows_needed
from dpeigen.privacy import Cost, PureCost, gaussian_mu
from dpeigen.questions import ClippedMean, RadiusHolding
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.frame import LARGEST_FACT
from dpeigen.stats.generalised import SignFrame
from dpeigen.stats.pairs import winsorized_redescending

__all__ = ["Weights", "ask_center", "center_integers", "center_shares", "cutoff_factor", "within"]

Weights = dict[Purpose, float]
_ROUNDS = (
    (Purpose.FIRST_CENTER_RADIUS, Purpose.FIRST_CENTER),
    (Purpose.CENTER_RADIUS, Purpose.CENTER),
)
_RADIUS_SHARE, _MOST_SHARE = 0.04, 0.08  # of ε, each: usually, and with few rows
_CUTOFF = 1.4  # times the length that half of the rows have, at least: rows count less beyond it
_BEYOND = 0.03  # of normal rows that are as long in all directions: the cutoff leaves no more of these outside
_CENTER_CUTOFF = 1.25  # the same for a centre: what draws it to a cluster also makes the cluster look nearer


def cutoff_factor(d: int) -> float:
    """How many times as long as half of the rows one must be to count less; public: lengths of few columns spread."""
    return max(_CUTOFF, math.sqrt(float(chdtri(d, _BEYOND) / chdtri(d, 0.5))))


def center_shares(task: Task, *, measured: bool = False, alone: bool = False) -> tuple[Weights, Weights]:
    """(pure, main) shares for `ask_center`, to be joined to a method's own for `allocate`.

    Places (or a first round) and a radius where there is no public bound, and, if ``measured``, also inside one where
    rows are enough: a bound is mostly far longer than the spread, and the noise of a centre follows it. ``alone``: no
    direction depends on this centre.
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
    """How many integers with noise `ask_center` draws at most: places, and means with counts."""
    return place_integers(d) + 2 * (d + 1)


def _center_share(task: Task) -> float:
    """The weight of a centre beside a main share of 1: less where rows are plenty.

    A centre that is off by e adds e·eᵀ to a moment. In units of the trace that is about 6d/(n·μ)² (Gaussian) or
    12·d²/(n·ε)² (pure) over the share for normal rows, several times that for heavy tails, and should stay a fraction
    of the norm of the moment's own noise, 2√d/(n·μ) or 3d/(n·ε).
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
) -> tuple[Floats, float]:
    """A centre in the data's own units, and the expected length of its noise in framed units.

    Asks what the `center_shares` pay for. ``radius`` is the public one, if there is one. ``robust``: outliers have
    little part in it.
    """
    if Purpose.PLACES in costs:
        scale = ask_one_scale(curator, frame, costs[Purpose.SCALES], task.n_rows or 0, robust=robust)
        frame = _about(frame, ask_places(curator, scale, costs[Purpose.PLACES], task)[0])
    error = 0.0
    for reach_of, purpose in _ROUNDS:
        if purpose not in costs:
            continue
        reach = radius
        if robust and purpose is Purpose.CENTER and reach_of in costs:
            mean, error = _ask_descending_mean(curator, frame, costs)
            frame = _about(frame, (0.0 if frame.center is None else frame.center) + mean * frame.unit)
            continue
        if reach_of in costs:
            reach = within(curator.measure(RadiusHolding(frame), purpose=reach_of, cost=costs[reach_of]), radius)
        if reach is None:
            raise AssertionError("a radius is public or paid for")
        found = curator.measure(ClippedMean(Lattice(frame, reach)), purpose=purpose, cost=costs[purpose])
        error, origin = found.error, 0.0 if frame.center is None else frame.center
        mean = found.mean if holes is None else holes.mean(found.mean)
        frame = _about(frame, origin + mean * frame.unit)
    if frame.center is None:
        raise AssertionError("at least one round sets a centre")
    return frame.center, error


def _ask_descending_mean(curator: Curator, frame: Frame, costs: Mapping[Purpose, Cost]) -> tuple[Floats, float]:
    """The mean of rows that count less the farther they are beyond a cutoff, and the expected length of its noise."""
    question = RadiusHolding(frame, half=True)
    cost = costs[Purpose.CENTER_RADIUS]
    cutoff = _CENTER_CUTOFF * curator.measure(question, purpose=Purpose.CENTER_RADIUS, cost=cost)
    rows = SignFrame(frame, winsorized_redescending(cutoff))
    found = curator.measure(ClippedMean(rows.lattice), purpose=Purpose.CENTER, cost=costs[Purpose.CENTER])
    return found.mean * cutoff, found.error * cutoff


def _about(frame: Frame, center: Floats) -> Frame:
    return replace(frame, center=np.clip(center, -LARGEST_FACT, LARGEST_FACT))


def within(radius: float, cap: float | None) -> float:
    """A paid radius, no longer than the longest row that public bounds allow."""
    return radius if cap is None else min(radius, cap)
