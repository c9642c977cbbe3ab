"""The target of a regression: its numbers, public bounds, and the factors of the columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from dpeigen._types import Floats
from dpeigen._validate import check_vector, complain
from dpeigen.methods import check_bound
from dpeigen.methods.base import Box
from dpeigen.methods.joint_lengths import quiet_length
from dpeigen.sources.declared import Declared
from dpeigen.sources.frames import column_numbers
from dpeigen.sources.objects import numbers_of
from dpeigen.sources.wide_integers import is_wide
from dpeigen.stats.frame import LARGEST_FACT

__all__ = ["column_factors", "joint_box", "refuse_category", "refuse_level", "target_numbers"]


def column_factors(features: Floats, target: float, *, weighted: bool = True) -> Floats:
    """The factors of features and target, from half-widths of public bounds (`estimators.ridge`).

    For a method that weights columns, all half-widths become 1, and the method scales the target
    (`methods.joint_lengths`).
    """
    length = 1.0 if weighted else quiet_length(len(features)) ** 0.5
    return np.append(1 / features, length / target)


def joint_box(bound: Any, target_bounds: Any, d: int, owner: str) -> Box:
    box = check_bound(tuple(bound), d - 1, owner)
    must = "(lower, upper), public bounds of y, with column bounds in 'bound'"
    if not isinstance(target_bounds, (tuple, list)) or len(target_bounds) != 2:
        remedy = "A radius as 'bound' needs none: it bounds (x, y) together."
        raise ValueError(complain("target_bounds", owner, must, target_bounds, remedy))
    low, high = (check_vector("target_bounds", value, 1, owner) for value in target_bounds)
    if not low < high or max(*np.abs([low, high]), 1 / (high - low)) > LARGEST_FACT:
        must = f"(lower, upper) with lower < upper, of size and width between {1 / LARGEST_FACT:g} and {LARGEST_FACT:g}"
        raise ValueError(complain("target_bounds", owner, must, target_bounds))
    if not isinstance(box, tuple):
        raise AssertionError("a pair is checked as a box")
    return np.append(box[0], low), np.append(box[1], high)


def target_numbers(y: Any) -> Floats:
    """y as one column of numbers, NaN for entries that are not numbers; errors contain no entry."""
    if isinstance(y, (list, tuple)):  # NumPy would derive a type from the entries
        return numbers_of([_item(entry) for entry in y])
    y = _of_frame(y)
    try:
        column = column_or_1d(y, warn=True)
        shape = ""
    except (TypeError, ValueError) as error:
        shape = str(error)
    if shape:
        shape = shape if shape.startswith("y should be a 1d array") else "y must be one column of real numbers."
        raise ValueError(shape)
    if column.dtype == object:
        return numbers_of(column.tolist())
    if column.dtype.kind not in "fiub":
        raise ValueError("y must hold real numbers.")
    with np.errstate(over="ignore"):  # a longer type than double may become infinite, so a bad row
        return np.asarray(column, dtype=np.float64)


def _of_frame(y: Any) -> Any:
    """A column of pandas or Polars whose type may be that of one cell, in doubles; anything else as it is.

    A frame of one column stays two-dimensional, so that it gives the same warning as others.
    """
    kind = type(y).__module__.split(".")[0]
    if kind not in ("pandas", "polars"):
        return y
    shape: tuple[int, ...] = getattr(y, "shape", ())
    one = len(shape) == 2 and shape[1] == 1
    column = y if not one else y.iloc[:, 0] if kind == "pandas" else y.to_series()
    if kind == "pandas" and getattr(getattr(column, "dtype", None), "kind", "") == "c":
        found = column_numbers(column)
    elif kind == "polars" and is_wide(getattr(column, "dtype", None)):
        found = column.cast(float).to_numpy()
    else:
        return y
    return found[:, None] if one else found


def refuse_category(target: str, columns: Mapping[str, Declared] | None) -> None:
    """Refuse a category: it is several columns of 0 and 1, and none of its levels can be a target either."""
    said = (columns or {}).get(target)
    if said is None or said.categories is None:
        return
    two = len(said.categories) == 2
    levels = f"levels = {list(said.categories)} (--ordinal '{target}={'|'.join(map(str, said.categories))}')"
    remedy = (
        f"Declare it by its two values as a scale of 0 and 1: {levels}."
        if two
        else "Only a category of two values can be one, if it is declared as an ordinal scale (levels, --ordinal)."
    )
    raise ValueError(f"The target must be a column of numbers. Got the category {target!r} instead. {remedy}")


def refuse_level(target: str, columns: Mapping[str, Declared] | None) -> None:
    """Refuse a level of a category: it follows from the other levels, which would be features (R² would be 1)."""
    for name, said in (columns or {}).items():
        if said.categories is not None and len(said.categories) > 1 and target in said.features(name):
            raise ValueError(
                f"The target {target!r} is a level of the category {name!r} and follows from its other levels, which "
                f"would be features. If there are two, declare {name!r} as an ordinal scale (levels, --ordinal). Or "
                f"release a covariance: release.ridge({target!r}) then leaves the other levels out. Nothing was spent."
            )


def _item(entry: Any) -> Any:
    """An entry of y; for a container of one entry, that entry."""
    one = isinstance(entry, (list, tuple)) or (isinstance(entry, np.ndarray) and entry.ndim == 1)
    return entry[0] if one and len(entry) == 1 else entry
