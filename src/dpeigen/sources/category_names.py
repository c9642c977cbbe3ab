"""Whether a cell is written as the name of a category: one rule for all readers whose cells have types of their own.

The type of a column may follow from its cells (a missing one makes whole numbers floating in pandas), and must not
change what a cell is. So a text is itself; a truth value is "true" or "false", however these are written; a number is
what it is written as, whole ones without a point: 1 and 1.0 are "1", and never "1.0" or "01". Whole numbers of 2^53 and
more are no names: doubles, which some readers hold them as, do not tell them apart.

>>> [is_written(cell, "1") for cell in ("1", 1, 1.0, "1.0", True, None)]
[True, True, True, False, False, False]
>>> is_written(True, "TRUE"), is_written(False, "false"), is_written("True", "true")
(True, True, False)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["is_written", "number_written", "truth_written", "written"]

_TRUTH = {"true": 1.0, "false": 0.0}
_EXACT = 2**53  # whole numbers below are doubles


def is_written(cell: Any, text: str) -> bool:
    """Whether a cell is written as this text."""
    if isinstance(cell, str):
        return cell == text
    if isinstance(cell, (bool, np.bool_)):
        return float(cell) == truth_written(text)
    if not isinstance(cell, (int, float, np.integer, np.floating)):
        return False
    try:
        return float(cell) == number_written(text)
    except OverflowError:
        return False


def truth_written(text: str) -> float:
    """1 or 0 for the truth value that is written as this text; NaN if there is none."""
    return _TRUTH.get(text.lower(), math.nan)


def number_written(text: str) -> float:
    """The number that is written as this text; NaN if there is none."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if text == written(number) else math.nan


def written(number: float) -> str:
    """A number as the name of a category."""
    return f"{number:.0f}" if abs(number) < _EXACT and number == int(number) else repr(float(number))
