"""A radius and then the second moment of rows clipped to it, from one pass over the rows.

Guarantee: each has its stated cost, for every data set. They are `RadiusLeaving` and `Moment`, with the same proofs.
One row changes the number of rows longer than a radius by at most 1, in the same direction for all radii. The rows of
the moment are no longer than the released radius (`stats.nested`). Both are answered from one exact statistic. That
changes nothing: the second is still a mechanism chosen by the answer of the first (adaptive composition).

The radius is one of a few on the grid, between a radius that was released before and four times it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.questions.laws import SymmetricLaw, SymmetricNoise
from dpeigen.questions.moment import Moment, NoisyMoment
from dpeigen.questions.radius import RadiusLeaving, RadiusNear
from dpeigen.stats import Lattice
from dpeigen.stats.frame import RowView
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.nested import NestedMoment, ShortenedMoment, levels_of
from dpeigen.stats.norms import GRID

__all__ = ["MomentWithin", "RadiusFrom", "RadiusNearFrom", "grid_from", "lattice_from", "moment_within", "radius_from"]

_CELLS = 8  # of the grid, above the first radius: a factor of 4


class _From(RadiusLeaving):
    """A radius from ``GRID[within]``, answered from the same statistic as the moment."""

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "nested", lattice_from(self.rows, self._first), self._first

    @property
    def _first(self) -> float:
        return float(GRID[self.within][0])

    def statistic(self) -> NestedMoment:
        return NestedMoment(lattice_from(self.rows, self._first), self._first)


@dataclass(frozen=True)
class RadiusFrom(_From):
    """The first radius of ``GRID[within]`` that about ``outside`` rows exceed."""


@dataclass(frozen=True)
class RadiusNearFrom(_From, RadiusNear):
    """The same as `RadiusFrom`, by `RadiusNear`."""


@dataclass(frozen=True)
class MomentWithin(Moment):
    """Σzzᵀ over rows clipped to a ``radius`` that is at least ``first``; see `lattice_from`."""

    first: float = 0.0
    radius: float = 0.0

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "nested", self.lattice, self.first

    @property
    def clipped_to(self) -> float:
        return self.radius

    def statistic(self) -> NestedMoment:
        return NestedMoment(self.lattice, self.first)

    def bounded(self) -> ShortenedMoment:
        return ShortenedMoment(self.lattice, self.radius, self.weight)

    def answer(self, found: Any, noise: SymmetricNoise, cost: Cost, relation: Relation, rng: Randomness) -> NoisyMoment:
        return super().answer(found.within(self.radius, self.weight), noise, cost, relation, rng)


def grid_from(first: float) -> slice:
    """The part of the grid from which a radius is chosen; it starts at ``first``."""
    at = int(np.searchsorted(GRID, first))
    return slice(at, at + _CELLS + 1)


def radius_from(view: RowView, outside: float, first: float, *, near: bool = False) -> RadiusLeaving:
    """The question for a radius of at least ``first``; ``near``: by `RadiusNear`."""
    return (RadiusNearFrom if near else RadiusFrom)(view, outside, within=grid_from(first))


def moment_within(view: RowView, radius: float, first: float, law: SymmetricLaw, weight: int) -> MomentWithin:
    """The question for the moment of rows clipped to a radius found by `radius_from`.

    ``weight`` is in units of 2^−20 of the radius.
    """
    lattice = lattice_from(view, first)
    weight = max(1, round(weight * levels_of(radius, lattice) / LEVELS)) if weight else 0
    return MomentWithin(lattice, law, weight, first, radius)


def lattice_from(view: RowView, first: float) -> Lattice:
    """The lattice for the largest radius that may be chosen."""
    return Lattice(view, float(GRID[grid_from(first)][-1]))
