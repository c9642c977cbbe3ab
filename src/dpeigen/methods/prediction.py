"""The quick error model: how far off the directions of a method are likely to be, from public facts and assumptions.

Everything here is a function of public facts; it reads no data and spends nothing. A method is outlined by a `Course`:
what its moment is made of (rows, their signs, or signs of differences), how many terms it averages, and the noise on an
entry of that average, which follows from the method's own split of the budget. A `World` is an assumption about the
rows: k variances ``level`` times as large as the d − k others, normal or heavy tails.

It stands beside the simulated curator (`planner.simulated`), which runs the methods themselves and is more exact, for
two reasons. The choice of "auto" is made before every fit, over up to six methods in twelve worlds and three numbers of
rows: formulas take about a tenth of a second for all of it, simulations as long for one run of one method in one world.
And the planner asks methods, so methods cannot ask the planner. `benchmarks/planner.py` judges the choice.

To first order the noise τ turns a direction by τ/gap in each of the d − k directions that it may turn to, and so do the
rows themselves, by their sampling error; a centre that is off by e adds e·eᵀ to the moment. The gap of signs is that of
`stats.signs`; stretched signs follow `stats.refinement`. The error is sinΘ: with noise on k × (d − k) entries about
(√k + √(d − k)) times that of an entry, put together with its limit of 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import chdtri

from dpeigen.curator import Purpose
from dpeigen.methods.base import Method, Task
from dpeigen.methods.signs.kendall import Kendall
from dpeigen.methods.signs.refined import Refined
from dpeigen.methods.signs.spatial_sign import SpatialSign
from dpeigen.privacy import Cost, GaussianCost, Relation
from dpeigen.privacy.budget import gaussian_share, pure_epsilon
from dpeigen.questions import law_for
from dpeigen.stats.next_look import predicted_variance
from dpeigen.stats.signs import sign_gap, stretches

_PAID_REACH = 1.6  # the squared radius that holds 95% of rows, relative to their mean square


@dataclass(frozen=True)
class World:
    """An assumption about the rows."""

    level: float  # of the variances along the wanted directions, relative to the others
    heavy: bool  # t with three degrees of freedom, else normal
    reach: float = 16.0  # the square of a public bound, relative to the mean square of a row


@dataclass(frozen=True)
class Course:
    """What a method does with rows, as far as the error of its directions depends on it."""

    kind: str  # "moment", "signs", "differences" or "stretched"
    terms: int
    noise: float  # deviation of an entry of the mean, in squared radii for moments
    center: float  # expected length of the centre's noise in radii; 0: nothing is paid for
    paid_radius: bool
    paid_center_radius: bool
    looks: int = 1  # releases of stretched signs


def outline(method: Method, task: Task, rows: int | None = None) -> Course:
    """The course of a method that has been checked against the task; ``rows`` where their number is private."""
    rows = task.n_rows or rows or 0
    costs = method.shares(task)
    differences = method.read_as(task).pairs
    n = rows // 2 if differences else rows
    d, relation = task.n_features, task.relation
    center, measured = 0.0, Purpose.CENTER_RADIUS in costs
    if Purpose.CENTER in costs and not isinstance(method, Kendall) and not differences:
        center = _center_noise(costs[Purpose.CENTER], d, relation) / n
    paid = Purpose.RADIUS in costs
    if isinstance(method, SpatialSign):
        noise = _entry_noise(costs[Purpose.DIRECTIONS], d, relation) / n
        return Course("signs", n, noise, center, paid, measured)
    if isinstance(method, Kendall):
        noise = 2 * _entry_noise(costs[Purpose.TAU], d, relation) / rows
        return Course("differences", rows, noise, 0.0, paid, measured)
    if isinstance(method, Refined):
        parts = [gaussian_share(cost) ** 2 for purpose, cost in costs.items() if purpose.is_look]
        whole = GaussianCost(math.sqrt(math.fsum(parts)))
        noise = _entry_noise(whole, d, relation) / n
        return Course("stretched", n, noise, center, paid, measured, len(parts))
    raise TypeError(f"There is no error model for {method.name!r}.")


def expected_error(course: Course, d: int, k: int, world: World) -> float:
    """sinΘ of the k leading directions, about."""
    m = d - k
    trace = k * world.level + m
    gap, spread = sign_gap(world.level, k, m)
    plain = world.level / (world.level - 1) ** 2 * (_kurtosis(course, world))
    bias = 0.0
    if course.center:
        reach = _PAID_REACH if course.paid_center_radius else world.reach
        bias = course.center**2 * reach * (3.0 if world.heavy else 1.0) / gap
    if course.kind == "moment":
        reach = _paid_reach(k, m, world) if course.paid_radius else world.reach
        noise = course.noise * reach * trace / (world.level - 1)
        sampled = plain / course.terms
    elif course.kind == "stretched":
        noise = math.sqrt(_stretched(course.looks, round(20 * math.log(course.noise)), round(world.level, 3), d, k))
        sampled = min(spread, _stretched_spread(world.level, k, m)) / course.terms
    else:
        noise = course.noise / gap
        share = 1.0 if course.kind == "signs" else 0.5 if world.heavy else 0.15
        sampled = (share * spread + (1 - share) * world.level / (world.level - 1) ** 2) / course.terms
    first_order = (math.sqrt(k) + math.sqrt(m)) * math.hypot(noise, math.sqrt(sampled))
    first_order = math.hypot(first_order, bias * math.sqrt(k * m) / d + bias**4)
    return first_order / math.hypot(1.0, first_order)


@lru_cache(maxsize=4096)
def _stretched(looks: int, log_noise: int, level: float, d: int, k: int) -> float:
    return predicted_variance(looks, math.exp(log_noise / 20), level, d, k)


def _stretched_spread(level: float, k: int, m: int) -> float:
    """n times the variance of the angle by which n rows turn a direction, after the stretch that suits the level."""
    factor = float(stretches(np.full(k, level), m)[0])
    alpha = max(level * factor**2, 1.001)
    return sign_gap(alpha, k, m)[1] * ((alpha - 1) / (factor * (level - 1))) ** 2


def _kurtosis(course: Course, world: World) -> float:
    """What heavy tails do to the sampling error of a moment of clipped rows."""
    if not world.heavy:
        return 1.0
    return 2.0 if course.paid_radius else 1.0 + math.sqrt(world.reach)


def _paid_reach(k: int, m: int, world: World) -> float:
    """The squared radius that holds 95% of rows, relative to their mean square: by the rows' effective dimension."""
    trace, squares = k * world.level + m, k * world.level**2 + m
    effective = trace**2 / squares
    reach = float(chdtri(effective, 0.05)) / effective
    return reach * (3.0 if world.heavy else 1.0)


def _entry_noise(cost: Cost, d: int, relation: Relation) -> float:
    """Of an off-diagonal entry of the noise on a sum of signs."""
    return law_for(cost).deviation(d, cost, relation)


def _center_noise(cost: Cost, d: int, relation: Relation) -> float:
    """The expected length of the noise on a sum of rows in the unit ball."""
    reach = 2.0 if relation is Relation.REPLACE else 1.0
    if isinstance(cost, GaussianCost):
        return reach * math.sqrt(d) / cost.mu
    return math.sqrt(2) * reach * d / pure_epsilon(cost)
