"""From public facts, or paid-for ones, to the frame and radius that rows are looked at through.

Guarantee: what is paid for here (a rough centre, a radius) is ε-DP or Gaussian DP by `methods.location` and
`methods.radius`, under the names that `framing_shares` gives; everything else is a function of public facts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods.base import Task
from dpeigen.methods.location import center_shares, private_center
from dpeigen.methods.radius import check_enough_rows, private_radius, radius_share
from dpeigen.privacy import Cost, GaussianCost, Randomness, Spend
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.noise import perturb
from dpeigen.sources import PairedSource, Source
from dpeigen.stats import Frame

Floats = NDArray[np.float64]
RADIUS_SHARE = 0.1  # of ε, for a private radius, at most
_COUNT_UNIT = int(LEAST_SENSITIVITY)
# Notes of releases that pay for directions alone.
RELATIVE = "Variances are relative: together they are 1."
NO_CENTRE = "No centre was paid for: differences need none, and scores are measured from the origin."


def framing_shares(task: Task, *, paid_radius: bool, center: bool) -> tuple[dict[str, float], dict[str, float]]:
    """(pure, main) shares for what `frame_source` will pay for."""
    pure: dict[str, float] = {"radius": radius_share(task, RADIUS_SHARE)} if paid_radius else {}
    main: dict[str, float] = {}
    if center:
        center_pure, main = center_shares(task, measured=paid_radius)
        pure |= center_pure
    return pure, main


def check_radii(task: Task, costs: Mapping[str, Cost]) -> None:
    """Refuse radii that too few rows could pay for, where the number of rows is public."""
    for purpose, cost in costs.items():
        if purpose.startswith("radius"):
            check_enough_rows(task.n_terms, cost, task.owner)


def frame_source(
    source: Source, task: Task, costs: dict[str, Cost], rng: Randomness, *, weighted: bool = True
) -> tuple[Source, Frame, float, float | None]:
    """The source (paired where asked), the frame, the radius, and the expected error of a paid centre (else None)."""
    source, frame, radius, center_error = centre_source(source, task, costs, rng, weighted=weighted)
    if "radius" in costs:
        paid = private_radius(source, frame, costs["radius"], task.relation, rng)
        radius = paid if radius is None else min(paid, radius)
    if radius is None:
        raise AssertionError("`check` has refused a task without a bound")
    return source, frame, radius, center_error


def centre_source(
    source: Source, task: Task, costs: dict[str, Cost], rng: Randomness, *, weighted: bool = False
) -> tuple[Source, Frame, float | None, float | None]:
    """The same without paying for a radius of rows: the public one, or None."""
    if task.pairs:
        source = PairedSource(source, rng)
    frame, radius = frame_rows(task, weighted=weighted)
    if "centre" not in costs:
        return source, frame, radius, None
    center, error = private_center(source, frame, radius, costs, task.relation, rng)
    return source, replace(frame, center=center), radius, error


def frame_rows(task: Task, *, weighted: bool = True) -> tuple[Frame, float | None]:
    """The public frame, and the radius of framed rows (None: still to be paid for or not needed).

    With column bounds and ``weighted``, columns of half-width h get weight h^{−1/2}: among all diagonal weights this
    minimises the total noise Σᵢⱼ (noise of entry ij)² in the data's own units, which is (Σ 1/wᵢ²)²·(Σ wᵢ²hᵢ²)² up to
    constants (Cauchy–Schwarz). Equal widths give equal weights.
    """
    center = task.center if isinstance(task.center, np.ndarray) else None
    if not isinstance(task.bound, tuple):
        frame = Frame(task.n_features, center, pairs=task.pairs, on_bad_row=task.on_bad_row)
        if task.bound is None or isinstance(task.bound, str):
            return frame, None
        return frame, task.bound / (math.sqrt(2.0) if task.pairs else 1.0)
    lower, upper = task.bound
    if isinstance(task.center, str):
        center = lower / 2 + upper / 2  # a public point to measure from; differences do not need it
    origin = np.zeros(task.n_features) if center is None else center
    half = np.maximum(np.abs(lower - origin), np.abs(upper - origin))
    weights = 1 / np.sqrt(half) if weighted and np.ptp(half) > 0 else None
    frame = Frame(task.n_features, center, weights, task.bound, task.pairs, task.on_bad_row)
    return frame, float(np.linalg.norm(half if weights is None else half * weights))


def location(frame: Frame, mean: Floats | None, task: Task) -> Floats | None:
    """The centre in the data's own units: public or paid for; None for pairs, which pay for none."""
    if task.pairs:
        return None
    origin = np.zeros(frame.n_features) if frame.center is None else frame.center.copy()
    return origin if mean is None else origin + mean * frame.unit


def released_count(count: int, cost: Cost, rng: Randomness) -> float:
    """A private number of rows, at least 1: sensitivity 1 under addition and removal, in fine steps."""
    value = np.array([count * _COUNT_UNIT], dtype=object)
    return max(1.0, float(perturb(value, cost, l2=_COUNT_UNIT, l1=_COUNT_UNIT, rng=rng)[0]) / _COUNT_UNIT)


def spends(costs: Mapping[str, Cost], mechanisms: Mapping[str, str]) -> tuple[Spend, ...]:
    """The record of what was paid; ``mechanisms`` names those that are not plain noise or a radius."""

    def name(purpose: str, cost: Cost) -> str:
        if purpose.startswith("radius"):
            return "sparse vector, discrete Laplace"
        return mechanisms.get(purpose, "discrete Gaussian" if isinstance(cost, GaussianCost) else "discrete Laplace")

    return tuple(Spend(purpose, name(purpose, cost), cost) for purpose, cost in costs.items())
