"""Transforms ξ of norms by name, checked and converted to the units of framed rows, for all sign methods.

Guarantee: nothing is read here. A user's function is replaced by a table of its values at public points.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.stats.transform import REDESCENDING, Scale, Tabulated, Transform

__all__ = ["CUTOFF_LOSS", "PAID", "check_transform", "framed_transform"]

PAID = ("winsorized", *REDESCENDING)  # the transforms whose radius or cutoff may be private
# The factor by which a cutoff makes the gaps of a moment of elliptical rows smaller: 1.1 to 1.6, on average this, over
# the settings with δ = 0 of `benchmarks/planner.py --robust` (seeds 2026, 2027 and 2041, 400,000 entries).
CUTOFF_LOSS = 1.2


def check_transform(transform: str | Scale, radius: float | str | None, owner: str) -> None:
    """Refuse a transform that does not exist, or whose radius is missing or invalid."""
    if isinstance(radius, str):
        check_choice("radius", radius, ["private"], owner)
        if transform not in PAID:
            must = f"a number or None: 'private' is for transform={', '.join(map(repr, PAID))}"
            raise ValueError(complain("radius", owner, must, radius))
    framed_transform(transform, 1.0 if radius == "private" else radius, 1.0, owner)


def framed_transform(transform: str | Scale, radius: Any, unit: float, owner: str) -> Transform:
    """The transform for rows whose norms are measured in ``unit`` of the data's own units."""
    found = Transform.of(transform, radius, owner)
    if found.function is not None:
        if math.isinf(found.radius):
            raise ValueError(complain("radius", owner, "given, a bound on the values of your transform", None))
        function = found.function

        def framed(lengths: Floats) -> Floats:
            with np.errstate(over="ignore"):
                return np.asarray(function(np.minimum(lengths * unit, np.finfo(np.float64).max)), dtype=np.float64)

        return replace(found, function=Tabulated(function if unit == 1.0 else framed, found.radius))
    return found if unit == 1.0 or found.kind == "spherical" else Transform.of(transform, radius / unit, owner)
