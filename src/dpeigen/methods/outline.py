"""What those who predict errors have to know of a method: stated by the method, in its own file.

An `Outline` is for the quick error model of "auto" (`methods.prediction`): what the error of directions depends on, by
public facts and the method's own split of the budget. `Planned` is for plans (`planner`), which run the method itself.
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
    """What the moment of directions is made of, how many terms it averages, and the noise on its entries."""

    kind: Literal["moment", "signs", "differences", "stretched"]  # of rows, their signs, of all pairs; stretched signs
    terms: int
    noise: float  # deviation of an entry of the mean, in squared radii for moments
    center: float  # expected length of the centre's noise in radii; 0: nothing is paid for
    paid_radius: bool
    paid_center_radius: bool
    looks: int = 1  # releases of stretched signs


@dataclass(frozen=True)
class Planned:
    """How plans run a method.

    ``drawn``: on drawn tables, for a method that asks for something that no population knows without rows.
    ``covariance``: whether its covariance is an estimate of the whole one, and so may be planned for.
    ``slow``, ``slow_search``: so many times fewer runs; the latter in searches for ε or rows, besides.
    ``larger``: so many times the usual rows of a drawn table, where a method's course depends on how many there are.
    ``unseen``: shares whose effect a plan does not see, so that it finds no better ones.
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
    """Of the mean of signs of rows; ``directions``: what all looks at them cost, ``centered``: about a paid centre."""
    center = _center_noise(costs[Purpose.CENTER], d, relation) / terms if centered and Purpose.CENTER in costs else 0.0
    noise = entry_noise(directions, d, relation) / terms
    return Outline(kind, terms, noise, center, Purpose.RADIUS in costs, Purpose.CENTER_RADIUS in costs, looks)


def entry_noise(cost: Cost, d: int, relation: Relation) -> float:
    """Of an off-diagonal entry of the noise on a sum of signs."""
    return law_for(cost).deviation(d, cost, relation)


def _center_noise(cost: Cost, d: int, relation: Relation) -> float:
    """The expected length of the noise on a sum of rows in the unit ball."""
    reach = 2.0 if relation is Relation.REPLACE else 1.0
    if isinstance(cost, GaussianCost):
        return reach * math.sqrt(d) / cost.mu
    return math.sqrt(2) * reach * d / pure_epsilon(cost)
