"""The frame and the radius of the rows, from public facts or paid measurements.

The measurements here (a rough centre, a radius) are paid by the shares of `framing_shares`. Everything else is a
function of public facts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Task
from dpeigen.methods.holes import Holes
from dpeigen.methods.joint_lengths import joint_lengths
from dpeigen.methods.location import Center, Weights, ask_center, center_shares, within
from dpeigen.methods.radius import radius_share
from dpeigen.privacy import Cost
from dpeigen.questions import RadiusHolding, RadiusLeaving
from dpeigen.stats import Frame
from dpeigen.stats.frame import LARGEST_FACT

__all__ = [
    "BARE",
    "NO_CENTER",
    "PAIRED",
    "RADIUS_SHARE",
    "RELATIVE",
    "ask_centered_frame",
    "ask_frame",
    "frame_rows",
    "framing_shares",
    "location",
    "radius_leaving",
]

RADIUS_SHARE = 0.1  # the largest share of ε for a private radius
_USUAL = 4.0  # times a radius that contains 95% of the rows; beyond it, noise alone rarely carries the last radius
PAIRED, BARE = 1.1, 1.3  # `reluctance` of methods that use differences, and of those that release directions alone
# Notes of releases that pay for directions alone.
RELATIVE = "Variances are relative: together they are 1."
NO_CENTER = "No centre was estimated: differences need none, and scores are measured from the origin."


def framing_shares(task: Task, *, paid_radius: bool, center: bool) -> tuple[Weights, Weights]:
    """(pure, main) shares for the questions of `ask_frame`."""
    pure: Weights = {Purpose.RADIUS: radius_share(task, RADIUS_SHARE)} if paid_radius else {}
    main: Weights = {}
    if center:
        center_pure, main = center_shares(task, measured=paid_radius)
        pure |= center_pure
    return pure, main


def ask_frame(
    curator: Curator,
    task: Task,
    costs: Mapping[Purpose, Cost],
    *,
    weighted: bool = True,
    outside: float | None = None,
    holes: Holes | None = None,
) -> tuple[Frame, float, Center | None]:
    """The frame, the radius, and a paid centre (else None).

    ``outside``: how many rows a paid radius leaves outside. By default it balances clipping and noise, or is 5%.
    """
    frame, radius, center = ask_centered_frame(curator, task, costs, weighted=weighted, holes=holes)
    if Purpose.RADIUS in costs:
        cost = costs[Purpose.RADIUS]
        question = RadiusHolding(frame) if outside is None else radius_leaving(frame, outside, center)
        radius = within(curator.measure(question, purpose=Purpose.RADIUS, cost=cost), radius)
    if radius is None:
        raise AssertionError("`check` has refused a task without a bound")
    return frame, radius, center


def radius_leaving(frame: Frame, outside: float, center: Center | None) -> RadiusLeaving:
    """The question for a radius that leaves so many rows outside, without going far beyond that of a paid centre."""
    holding = None if center is None else center.holding
    return RadiusLeaving(frame, outside, usual=math.inf if holding is None else _USUAL * holding)


def ask_centered_frame(
    curator: Curator,
    task: Task,
    costs: Mapping[Purpose, Cost],
    *,
    weighted: bool = False,
    holes: Holes | None = None,
    robust: bool = False,
    narrow_too: bool = False,
) -> tuple[Frame, float | None, Center | None]:
    """`ask_frame` without paying for a radius: the radius is public, or None."""
    frame, radius = frame_rows(task, weighted=weighted)
    if Purpose.CENTER not in costs:
        return frame, radius, None
    center = ask_center(curator, frame, radius, costs, task, holes, robust=robust, narrow_too=narrow_too)
    return replace(frame, center=center.place), radius, center


def frame_rows(task: Task, *, weighted: bool = True) -> tuple[Frame, float | None]:
    """The public frame, and the radius of framed rows (None if it must be paid for or is not needed).

    With column bounds and ``weighted``, columns of half-width h have weights. Components in the columns' own units:
    weight h^{−1/2}, which among all diagonal weights minimises the total noise Σᵢⱼ (noise of entry ij)² in these units.
    It is (Σ 1/wᵢ²)²·(Σ wᵢ²hᵢ²)² up to constants (Cauchy–Schwarz). A whole covariance, or correlations: weight 1/h, so
    that the error of each column is relative to its own unit. Otherwise a column in large units would hide all others.
    Equal widths give equal weights. Those of a regression are in `methods.joint_lengths`.
    """
    center = task.center if isinstance(task.center, np.ndarray) else None
    if not isinstance(task.bound, tuple):
        frame = Frame(task.n_features, center, pairs=task.pairs, missing=task.missing)
        if task.bound is None or isinstance(task.bound, str):
            return frame, None
        return frame, task.bound / (math.sqrt(2.0) if task.pairs else 1.0)
    lower, upper = task.bound
    if isinstance(task.center, str):
        center = lower / 2 + upper / 2  # a public reference point; differences do not need one
    origin = np.zeros(task.n_features) if center is None else center
    half = np.maximum(np.abs(lower - origin), np.abs(upper - origin))
    widths = np.maximum(half, 1 / LARGEST_FACT)  # so that weights are finite
    weights = widths ** -_column_power(task) if weighted and np.ptp(half) > 0 else None
    if weighted and task.regression:
        weights = np.append(1 / widths[:-1], joint_lengths(task)[0] / widths[-1])
    frame = Frame(task.n_features, center, weights, task.bound, task.pairs, task.missing)
    return frame, float(np.linalg.norm(half if weights is None else half * weights))


def _column_power(task: Task) -> float:
    """The power of the half-width of a column's bounds by which the column is divided."""
    return 1.0 if task.n_components is None or task.scale is not None else 0.5


def location(frame: Frame, mean: Floats | None, task: Task) -> Floats | None:
    """The centre in the data's own units, public or paid for; None for pairs, which have none.

    Rows lie inside public bounds, and so does their mean; noise can move it outside.
    """
    if task.pairs:
        return None
    origin = np.zeros(frame.n_features) if frame.center is None else frame.center.copy()
    if mean is None:
        return origin
    found = origin + mean * frame.unit
    return np.clip(found, *task.bound) if isinstance(task.bound, tuple) else found
