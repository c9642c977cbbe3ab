"""How much ε, or how many rows, the message of a refusal names as enough.

A function of public facts. Acceptance need not be monotone in ε, because the shares of the budget depend on ε too. So
every value is tried exactly as it will be printed, and so are somewhat larger values.

>>> more_epsilon(1.0, lambda epsilon: epsilon > 3.21)
3.4
>>> more_rows(500, lambda rows: rows > 1234)
1400
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["more_epsilon", "more_rows", "rounded_up", "three_remedies"]

_STEP, _STRIDE = 1.1, 1.25  # factors up to twice the given value, and beyond
_MOST = 1e3  # times the given value: more is not a useful remedy
_BEYOND = (1.0, 1.1, 1.25, 1.6)  # multiples of a value that must be accepted too


def more_epsilon(given: float, accepted: Callable[[float], bool]) -> float | None:
    """The smallest ε of two digits that is accepted, like the values somewhat above it; None if there is none."""
    return _least(given, accepted)


def more_rows(given: int, accepted: Callable[[int], bool]) -> int | None:
    """The same as `more_epsilon` for a number of rows."""
    found = _least(float(given), lambda rows: accepted(math.ceil(rows)))
    return None if found is None else math.ceil(found)


def three_remedies(public: str, rows: int | None, epsilon: float | None) -> str:
    """Name the remedies of a refusal: a public fact, the number of rows, or the ε that would be enough."""
    more = "many more" if rows is None else f"{rows:,}"
    larger = "a larger epsilon" if epsilon is None else f"epsilon={epsilon:g}"
    return f"Three remedies: {public}; {more} rows; or {larger}. Nothing was spent."


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
    """The value rounded up to two digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step - 1e-9) * step:.2g}")
