"""What error predictions need to know about a method. Each method states it in its own file.

An `Outline` is for the quick error model of "auto" (`methods.prediction`). It says what the error of directions depends
on, from public facts and the method's shares of the budget. `Planned` is for plans (`planner`), which run the method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpeigen.curator import Purpose
from dpeigen.privacy import Cost, GaussianCost, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.questions import law_for

__all__ = ["Outline", "Planned", "entry_noise", "outline_of_signs"]


@dataclass(frozen=True)
class Outline:
    """The kind of moment from which directions come, the number of terms it averages, and the noise on its entries."""

    kind: Literal["moment", "signs", "differences", "stretched"]  # of rows, signs, all pairs, stretched signs
    terms: int
    noise: float  # standard deviation on an entry of the mean; for moments in units of the squared radius
    center: float  # expected norm of the centre's noise in units of the radius; 0 if no centre is paid for
    paid_radius: bool
    paid_center_radius: bool
    looks: int = 1  # number of releases of stretched signs


@dataclass(frozen=True)
class Planned:
    """How plans run a method.

    ``drawn``: whether it runs on sampled tables, because some of its questions need actual rows.
    ``covariance``: whether it estimates the whole covariance, so that plans can predict that error.
    ``slow``, ``slow_search``: factors by which fewer runs are made; the latter also applies in searches for ε or rows.
    ``larger``: a factor on the rows of a sampled table, if the steps of a method depend on the number of rows.
    ``unseen``: shares whose effect a plan cannot predict, so it does not optimise them.
    """

    drawn: bool = False
    covariance: bool = True
    slow: int = 1
    slow_search: int = 1
    larger: int = 1
    unseen: frozenset[Purpose] = frozenset()


def outline_of_signs(
    kind: Literal["signs", "stretched"],
    costs: Mapping[Purpose, Cost],
    directions: Cost,
    terms: int,
    d: int,
    relation: Relation,
    *,
    centered: bool,
    looks: int = 1,
) -> Outline:
    """The outline for signs. ``directions``: the cost of all their releases; ``centered``: with a paid centre."""
    center = _center_noise(costs[Purpose.CENTER], d, relation) / terms if centered and Purpose.CENTER in costs else 0.0
    noise = entry_noise(directions, d, relation) / terms
    return Outline(kind, terms, noise, center, Purpose.RADIUS in costs, Purpose.CENTER_RADIUS in costs, looks)


def entry_noise(cost: Cost, d: int, relation: Relation) -> float:
    """The standard deviation of the noise on an off-diagonal entry of a sum of signs."""
    return law_for(cost).deviation(d, cost, relation)


def _center_noise(cost: Cost, d: int, relation: Relation) -> float:
    """The expected norm of the noise on a sum of rows in the unit ball."""
    reach = 2.0 if relation is Relation.REPLACE else 1.0
    if isinstance(cost, GaussianCost):
        return reach * math.sqrt(d) / cost.mu
    return math.sqrt(2) * reach * d / pure_epsilon(cost)
