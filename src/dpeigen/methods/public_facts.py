"""Checks of the public facts that a caller gives: a bound, a centre, and standard deviations of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_positive, check_vector, complain, nearest
from dpeigen.methods.task import Box
from dpeigen.stats.frame import LARGEST_FACT

__all__ = ["LEAST_DELTA", "check_bound", "check_center", "check_scale_of_columns"]

# Gaussians drawn in floating point end at 9.155 deviations (`privacy.randomness`). A true Gaussian exceeds that with
# probability 5.4e-20, so a δ below the following would not cover the few draws of a release.
LEAST_DELTA = 1e-18


def check_scale_of_columns(value: Any, n_features: int, owner: str) -> Floats | str | None:
    """Check a scale: None, "private", or public standard deviations of the columns."""
    if value is None:
        return None
    must = f"'private', None, or numbers: public standard deviations of the {n_features} columns, or one for all"
    if isinstance(value, str):
        if value != "private":
            raise ValueError(complain("scale", owner, must, value, nearest(value.lower(), ["private"])))
        return value
    scale = check_vector("scale", value, n_features, owner, must)
    if not (scale > 0).all():
        column = int(np.argmin(scale > 0))
        remedy = "A column that is known to be constant is best left out."
        raise ValueError(
            complain(
                "scale", owner, "'private', or positive deviations", f"{scale[column]:g} in column {column}", remedy
            )
        )
    _refuse_huge("scale", np.concatenate([scale, 1 / scale]), owner)
    return scale


def check_bound(value: Any, n_features: int, owner: str) -> float | Box | str | None:
    """Check a bound: a radius, a box of public column bounds, "private", or None."""
    if value is None or isinstance(value, str):
        if value is not None:
            check_choice("bound", value, ["private"], owner)
        return value
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError(complain("bound", owner, "a radius, a pair (lower, upper), 'private' or None", value))
        lower = check_vector("bound", value[0], n_features, owner)
        upper = check_vector("bound", value[1], n_features, owner)
        if not (lower < upper).all():
            column = int(np.argmin(lower < upper))
            got = f"lower={lower[column]:g}, upper={upper[column]:g} in column {column}"
            raise ValueError(complain("bound", owner, "(lower, upper) with lower < upper in every column", got))
        _refuse_huge("bound", np.concatenate([lower, upper]), owner)
        if not (upper - lower).max() >= 1 / LARGEST_FACT:  # rows would have no length
            must = f"(lower, upper) that differ by {1 / LARGEST_FACT:g} or more in at least one column"
            raise ValueError(complain("bound", owner, must, f"at most {(upper - lower).max():g}"))
        return lower, upper
    radius = check_positive("bound", value, owner)
    _refuse_huge("bound", np.array([radius, 1 / radius]), owner)
    return radius


def check_center(value: Any, n_features: int, owner: str) -> Floats | str | None:
    """Check a centre: None or 0, a public vector, "private" or "pairs"."""
    if isinstance(value, str):
        return check_choice("center", value, ["private", "pairs"], owner)
    if value is None:
        return None
    center = check_vector("center", value, n_features, owner)
    _refuse_huge("center", center, owner)
    return center if center.any() else None


def _refuse_huge(name: str, values: Floats, owner: str) -> None:
    if (np.abs(values) > LARGEST_FACT).any():
        raise ValueError(complain(name, owner, f"between {1 / LARGEST_FACT:g} and {LARGEST_FACT:g} in size", "more"))
