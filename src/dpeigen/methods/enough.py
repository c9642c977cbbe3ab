"""How much more ε, or how many more rows, a refusal may promise to be enough: values that were tried as they are told.

A function of public facts. What is accepted need not grow evenly with ε: shares of the budget follow it, too. So every
value is tried in the form in which it is told, and somewhat more as well.

>>> more_epsilon(1.0, lambda epsilon: epsilon > 3.21)
3.4
>>> more_rows(500, lambda rows: rows > 1234)
1400
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["more_epsilon", "more_rows", "rounded_up"]

_STEP, _STRIDE = 1.1, 1.25  # up to twice what was given, and beyond
_MOST = 1e3  # times what was given: more is no remedy
_BEYOND = (1.0, 1.1, 1.25, 1.6)  # times a value: these are accepted, too


def more_epsilon(given: float, accepted: Callable[[float], bool]) -> float | None:
    """The least ε of two digits that is accepted, with what lies somewhat above it; None where none is."""
    return _least(given, accepted)


def more_rows(given: int, accepted: Callable[[int], bool]) -> int | None:
    """The same for a number of rows."""
    found = _least(float(given), lambda rows: accepted(math.ceil(rows)))
    return None if found is None else math.ceil(found)


def _least(given: float, accepted: Callable[[float], bool]) -> float | None:
    tried: dict[float, bool] = {}

    def holds(value: float) -> bool:
        if value not in tried:
            tried[value] = accepted(value)
        return tried[value]

    factor = _STEP
    while factor < _MOST:
        value = rounded_up(given * factor)
        if holds(value) and all(holds(value * more) for more in _BEYOND):
            return value
        factor *= _STEP if factor < 2 else _STRIDE
    return None


def rounded_up(value: float) -> float:
    """To two digits, upwards."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.2g}")
