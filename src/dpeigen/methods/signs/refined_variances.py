"""The variances along refined directions: mean squares of scores that are clipped to one released radius.

Scores are first multiplied by factors that make all of them, and the remainder, about equally long, so that one radius
fits them all. The radius is a paid one times a public factor, which is larger where there is less noise: clipping
costs accuracy, and so does the noise, which grows with the radius.
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
from dpeigen.methods.signs.evidence import FarWeight, Paid, left_outside
from dpeigen.privacy import Cost
from dpeigen.privacy.budget import gaussian_share
from dpeigen.questions import MeanSquares, RadiusHolding
from dpeigen.stats import Frame, Lattice, ScoreFrame
from dpeigen.stats.generalised import SignFrame
from dpeigen.stats.stretch import Stretched
from dpeigen.stats.transform import winsorized_redescending

__all__ = ["USUAL_ROWS", "ask_variances", "relative_variances"]

USUAL_ROWS = 10_000  # assumed for public choices if the number of rows is private
_TAILS = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def ask_variances(
    curator: Curator,
    frame: Frame,
    basis: Floats,
    levels: Floats,
    costs: Mapping[Purpose, Cost],
    task: Task,
    longest: float | None,
    *,
    half: bool,
    far: FarWeight | None = None,
) -> tuple[Paid, float]:
    """Mean squares along the directions and of the remainder, and the number of terms.

    ``levels``: relative variances of all directions by the signs, those of the basis first. ``longest``: a public bound
    on the norm of framed rows. ``half``: whether the paid radius contains half of the rows instead of 95%, and rows
    beyond the radius have decreasing weight: for outliers. ``far``: if the weight of far rows was measured.
    """
    wanted, d = basis.shape
    others = levels[wanted:]
    factors = np.sqrt((float(others.sum()) or 1.0) / levels[:wanted])
    evened = Stretched(frame, basis, factors)
    radius_cost, cost = costs[Purpose.SCORES_RADIUS], costs[Purpose.VARIANCES]
    share = _tail(task, gaussian_share(cost))
    paid_for = curator.measure(RadiusHolding(evened, half=half), purpose=Purpose.SCORES_RADIUS, cost=radius_cost)
    radius = paid_for * _further(wanted, others, share, 0.5 if half else 0.05)
    if longest is not None:
        radius = min(radius, longest * max(1.0, float(factors.max(initial=0.0))))
    scores = ScoreFrame(evened, basis, residual=wanted < d)
    if half:
        question = MeanSquares(SignFrame(scores, winsorized_redescending(radius)).lattice)
        found = curator.measure(question, purpose=Purpose.VARIANCES, cost=cost)
        found = replace(found, squares=found.squares * radius**2, deviation=found.deviation * radius**2)
    else:
        found = curator.measure(MeanSquares(Lattice(scores, radius)), purpose=Purpose.VARIANCES, cost=cost)
    units = np.append(factors**-2.0, 1.0)[: len(found.squares)] * float(frame.unit[0]) ** 2
    noise, reach = np.full(len(found.squares), found.deviation), task.row_radius(radius, scores)
    outside = (share, 0.3 * share) if half else left_outside(radius_cost, task.relation, found.count, radius / paid_for)
    return Paid(basis, found.squares, noise, reach, outside, units, half, far), found.count


def _tail(task: Task, mu: float) -> float:
    """The share of rows to clip for the variances, from public numbers: less if there is less noise.

    Clipping a share of Gaussian rows costs the variances about a third of it; noise costs √2·R²/(n·μ) of R²/(k + 1).
    """
    n = USUAL_ROWS if task.n_terms is None else task.n_terms
    costs = {tail: tail / 3 + math.sqrt(2) * float(chdtri(task.wanted + 1, tail)) / (n * mu) for tail in _TAILS}
    return min(costs, key=lambda tail: costs[tail])


def _further(wanted: int, others: Floats, tail: float, holding: float) -> float:
    """The ratio of the radius that a share ``tail`` of the rows exceeds to the one that a share ``holding`` exceeds.

    Each score has the mean square of all ``others`` together, whose sum of squares is about that of fewer equal ones.
    """
    total, squared = float(others.sum()), float((others**2).sum())

    def square(share: float) -> float:
        inside = (total or 1.0) * float(chdtri(wanted, share)) if wanted else 0.0
        return inside + (squared / total * float(chdtri(total**2 / squared, share)) if total else 0.0)

    return math.sqrt(square(tail) / square(holding))


def relative_variances(levels: Floats, wanted: int) -> Floats:
    """Shares of the total variance: of the wanted directions, and of the remainder, if no variances are paid for."""
    squares, left = levels[:wanted], float(levels[wanted:].sum())
    return np.append(squares, left)[: wanted + (left > 0)] / float(levels.sum())
