"""Checks at the edge: every argument is looked at once, here, and nowhere else.

Each check is ours and cannot be switched off (scikit-learn's own parameter validation can). A message names the
parameter, says what it must be, shows the value received, and where there is one, the remedy. No check spends budget.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "check_choice",
    "check_count",
    "check_delta",
    "check_epsilon",
    "check_flag",
    "check_fraction",
    "check_positive",
    "check_vector",
    "complain",
    "nearest",
]


def complain(name: str, owner: str, must: str, got: Any, remedy: str = "") -> str:
    """The one form of every parameter error.

    >>> complain("epsilon", "PrivatePCA", "a finite number > 0", -1)
    "The 'epsilon' parameter of PrivatePCA must be a finite number > 0. Got -1 instead."
    """
    text = f"The '{name}' parameter of {owner} must be {must}. Got {got!r} instead."
    return f"{text} {remedy}" if remedy else text


def nearest(value: Any, choices: Iterable[str]) -> str:
    """A question for a word that is nearly one of the choices, else "".

    >>> nearest("gausian", ["gaussian", "laplace"])
    "Did you mean 'gaussian'?"
    """
    found = difflib.get_close_matches(value, list(choices), n=1) if isinstance(value, str) else []
    return f"Did you mean {found[0]!r}?" if found else ""


def _real(name: str, owner: str, value: Any, must: str, remedy: str = "") -> float:
    if type(value) is float:
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(complain(name, owner, must, value, remedy))
    return float(value)


def check_epsilon(value: Any, owner: str = "dpeigen") -> float:
    """A finite ε > 0."""
    must = "a finite number > 0"
    remedy = "There is no default: choose the privacy loss you can justify, for example epsilon=1.0."
    epsilon = _real("epsilon", owner, value, must, remedy)
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(complain("epsilon", owner, must, value, remedy))
    return epsilon


def check_delta(value: Any, owner: str = "dpeigen") -> float:
    """A δ in [0, 1)."""
    must = "a number in [0, 1)"
    delta = _real("delta", owner, value, must)
    if not 0 <= delta < 1:
        remedy = "Use 0 for pure privacy, or a value well below 1/n such as 1e-6."
        raise ValueError(complain("delta", owner, must, value, remedy))
    return delta


def check_positive(name: str, value: Any, owner: str) -> float:
    """A finite number > 0."""
    must = "a finite number > 0"
    number = _real(name, owner, value, must)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(complain(name, owner, must, value))
    return number


def check_fraction(name: str, value: Any, owner: str) -> float:
    """A number strictly between 0 and 1."""
    must = "a number strictly between 0 and 1"
    number = _real(name, owner, value, must)
    if not 0 < number < 1:
        raise ValueError(complain(name, owner, must, value))
    return number


def check_count(name: str, value: Any, owner: str, *, low: int = 1, high: int | None = None) -> int:
    """An integer in [low, high]."""
    must = f"an integer ≥ {low}" if high is None else f"an integer between {low} and {high}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(complain(name, owner, must, value))
    count = int(value)
    if count < low or (high is not None and count > high):
        raise ValueError(complain(name, owner, must, value))
    return count


def check_choice(name: str, value: Any, choices: Iterable[str], owner: str) -> str:
    """One of a few words."""
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    must = "one of " + ", ".join(repr(c) for c in choices)
    if not isinstance(value, str):
        raise TypeError(complain(name, owner, must, value))
    raise ValueError(complain(name, owner, must, value, nearest(value, choices)))


def check_flag(name: str, value: Any, owner: str) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(complain(name, owner, "True or False", value))
    return bool(value)


def check_vector(name: str, value: Any, length: int, owner: str, must: str = "") -> NDArray[np.float64]:
    """A finite real vector of the given length (a copy; a scalar is broadcast)."""
    must = must or f"a finite number or a vector of {length} finite numbers"
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise TypeError(complain(name, owner, must, value))
        if array.ndim and array.shape != (length,):  # only a plain number is for all columns
            raise ValueError(complain(name, owner, must, value))
        vector = np.broadcast_to(array.astype(np.float64), (length,)).copy()
    except (ValueError, TypeError) as error:
        raise type(error)(complain(name, owner, must, value)) from None
    if not np.isfinite(vector).all():
        raise ValueError(complain(name, owner, must, value))
    return vector
