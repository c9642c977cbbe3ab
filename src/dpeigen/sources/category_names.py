"""Whether a cell equals the name of a category: one rule for all readers whose cells have their own types.

The type of a column may depend on its cells (in pandas, a missing cell turns integers into floats), and must not change
the meaning of a cell. So a text is itself. A truth value is "true" or "false" in any case of letters. A number is its
usual text, integers without a point: 1 and 1.0 are "1", never "1.0" or "01". Integers of 2^53 and more are not names,
because doubles, in which some readers store them, do not distinguish them.

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
_EXACT = 2**53  # integers below this are exact in doubles


def is_written(cell: Any, text: str) -> bool:
    """Whether a cell equals this text."""
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
    """The truth value of this text, 1 or 0; NaN if it is none."""
    return _TRUTH.get(text.lower(), math.nan)


def number_written(text: str) -> float:
    """The number of this text; NaN if it is none."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if text == written(number) else math.nan


def written(number: float) -> str:
    """A number as the name of a category."""
    return f"{number:.0f}" if abs(number) < _EXACT and number == int(number) else repr(float(number))
