"""Arithmetic on rows, under an error state of its own.

NumPy can be told to raise or to warn when a number overflows or vanishes. Whether it does depends on the rows: with
``np.seterr(all="raise")`` one row of ordinary numbers would decide whether a fit fails, which no noise protects. So all
work on rows runs under this. The state is that of a thread, so each thread and each worker needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

__all__ = ["P", "T", "own_error_state"]

P = ParamSpec("P")
T = TypeVar("T")


def own_error_state(function: Callable[P, T]) -> Callable[P, T]:
    """The function, in which NumPy neither raises nor warns of floating-point errors, whatever the caller has set."""

    @wraps(function)
    def quiet(*arguments: P.args, **options: P.kwargs) -> T:
        with np.errstate(all="ignore"):
            return function(*arguments, **options)

    return quiet
