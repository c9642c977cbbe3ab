"""The quick error model: the likely error of the directions of a method, from public facts and assumptions.

Everything here is a function of public facts; it reads no data and spends nothing. Each method states its own `Outline`
(`Method.outline`), and no method is referred to by its name here. A `World` is an assumption about the rows: k
variances ``level`` times as large as the d − k others, with normal or heavy tails.

The simulated curator (`planner.simulated`) runs the methods themselves and is more accurate. There are two reasons for
this model besides it. "auto" chooses before every fit, among up to six methods in twelve worlds and three numbers of
rows: formulas take about a tenth of a second for all of it, a simulation as long for one run of one method in one
world. And the planner uses methods, so methods cannot use the planner. `benchmarks/planner.py` evaluates the choice.

To first order the noise τ rotates a direction by τ/gap towards each of the d − k others, and the sampling error of the
rows has the same effect. A centre that is off by e adds e·eᵀ to the moment. The gap of signs is that of `stats.signs`;
stretched signs follow `stats.refinement`. The error is sinΘ: for noise on k × (d − k) entries it is about
(√k + √(d − k)) times that of an entry, combined with its limit of 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import chdtri

from dpeigen.methods.outline import Outline
from dpeigen.stats.next_look import predicted_variance
from dpeigen.stats.signs import sign_gap, stretches

__all__ = ["World", "expected_error", "usual_error"]

_USUAL_LEVEL = 3.0  # of leading variances relative to the others, in standardised tables
_PAID_REACH = 1.6  # the squared radius that contains 95% of rows, relative to their mean square


@dataclass(frozen=True)
class World:
    """An assumption about the rows."""

    level: float  # of the variances along the wanted directions, relative to the others
    heavy: bool  # t with three degrees of freedom, else normal
    reach: float = 16.0  # the square of a public bound, relative to the mean square of a row


def expected_error(outline: Outline, d: int, k: int, world: World) -> float:
    """The approximate sinΘ of the k leading directions."""
    m = d - k
    trace = k * world.level + m
    gap, spread = sign_gap(world.level, k, m)
    plain = world.level / (world.level - 1) ** 2 * (_kurtosis(outline, world))
    bias = 0.0
    if outline.center:
        reach = _PAID_REACH if outline.paid_center_radius else world.reach
        bias = outline.center**2 * reach * (3.0 if world.heavy else 1.0) / gap
    if outline.kind == "moment":
        reach = _paid_reach(k, m, world) if outline.paid_radius else world.reach
        noise = outline.noise * reach * trace / (world.level - 1)
        sampled = plain / outline.terms
    elif outline.kind == "stretched":
        noise = math.sqrt(_stretched(outline.looks, round(20 * math.log(outline.noise)), round(world.level, 3), d, k))
        sampled = min(spread, _stretched_spread(world.level, k, m)) / outline.terms
    else:
        noise = outline.noise / gap
        share = 1.0 if outline.kind == "signs" else 0.5 if world.heavy else 0.15
        sampled = (share * spread + (1 - share) * world.level / (world.level - 1) ** 2) / outline.terms
    first_order = (math.sqrt(k) + math.sqrt(m)) * math.hypot(noise, math.sqrt(sampled))
    first_order = math.hypot(first_order, bias * math.sqrt(k * m) / d + bias**4)
    return first_order / math.hypot(1.0, first_order)


def usual_error(outline: Outline, d: int, k: int) -> float:
    """sinΘ for leading variances as in most standardised tables: the geometric mean over normal and heavy tails."""
    errors = [expected_error(outline, d, k, World(_USUAL_LEVEL, heavy)) for heavy in (False, True)]
    return math.sqrt(errors[0] * errors[1])


@lru_cache(maxsize=4096)
def _stretched(looks: int, log_noise: int, level: float, d: int, k: int) -> float:
    return predicted_variance(looks, math.exp(log_noise / 20), level, d, k)


def _stretched_spread(level: float, k: int, m: int) -> float:
    """n times the variance of the angle by which n rows rotate a direction, after the best stretch for the level."""
    factor = float(stretches(np.full(k, level), m)[0])
    alpha = max(level * factor**2, 1.001)
    return sign_gap(alpha, k, m)[1] * ((alpha - 1) / (factor * (level - 1))) ** 2


def _kurtosis(outline: Outline, world: World) -> float:
    """The factor of heavy tails on the sampling error of a moment of clipped rows."""
    if not world.heavy:
        return 1.0
    return 2.0 if outline.paid_radius else 1.0 + math.sqrt(world.reach)


def _paid_reach(k: int, m: int, world: World) -> float:
    """The squared radius that contains 95% of rows over their mean square, by the rows' effective dimension."""
    trace, squares = k * world.level + m, k * world.level**2 + m
    effective = trace**2 / squares
    reach = float(chdtri(effective, 0.05)) / effective
    return reach * (3.0 if world.heavy else 1.0)
