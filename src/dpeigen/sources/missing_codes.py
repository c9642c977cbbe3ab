"""Numbers and dates that stand for a missing cell, such as -99 or 1900-01-01: declared, never looked for.

A code is public: it comes from the codebook. Whether a cell is missing depends on the codes and on that cell alone.

>>> without_codes(np.array([-99.0, 1.5, 9999.0]), (-99.0, 9999.0)).tolist()
[nan, 1.5, nan]
>>> fitting_codes([-99, "1900-01-01", "n/a"], "date")
['1900-01-01']
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen._validate import complain

__all__ = ["checked_codes", "fitting_codes", "without_codes"]

_NUMBERS = "a list of numbers such as [-99, 9999] for a column of numbers"
_DATES = "a list of dates such as '1900-01-01' for a column of dates"
_EITHER = "a list of numbers such as -99, or of dates such as '1900-01-01'"
_WORDS = "Texts need no code: in a column of numbers or dates they are missing cells anyway."


def checked_codes(values: Any, kind: str | None, owner: str) -> tuple[float | str, ...]:
    """Numbers, or dates and times in ISO format, as the type of the column needs them. Words are left out."""
    listed = [value for value in _listed(values, owner) if not _is_word(value)]
    times = kind in ("date", "timestamp")
    if not all(map(_is_date if times else _is_number, listed)):
        must = _DATES if times else _NUMBERS
        raise ValueError(complain("missing_codes", owner, must, values, _WORDS))
    found = [value if isinstance(value, str) else value.isoformat() if times else float(value) for value in listed]
    return tuple(dict.fromkeys(found))


def fitting_codes(values: Any, kind: str | None) -> list[Any]:
    """Of codes that are declared for all columns, those that a column of this type can have."""
    listed = _listed(values, "all columns")
    bad = [value for value in listed if not (_is_number(value) or _is_date(value) or _is_word(value))]
    if bad:
        raise ValueError(complain("missing_codes", "all columns", _EITHER, bad, _WORDS))
    fits = {"number": _is_number, "date": _is_date, "timestamp": _is_date}.get(kind or "number")
    return [] if fits is None else [value for value in listed if fits(value)]


def without_codes(values: NDArray[Any], codes: Sequence[float]) -> Floats:
    """The numbers, with NaN for every code; a code in single precision counts too."""
    if not codes:
        return values
    with np.errstate(over="ignore"):
        known = np.unique(np.array([*codes, *np.array(codes, dtype=np.float32).astype(np.float64)]))
    return np.where(np.isin(values, known), np.nan, values)


def _listed(values: Any, owner: str) -> list[Any]:
    if isinstance(values, (str, int, float, date, np.generic)):
        return [values]
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, bytes):
        raise ValueError(complain("missing_codes", owner, _EITHER, values, _WORDS))
    return list(values)


def _is_number(value: Any) -> bool:
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return bool(real and np.isfinite(value))


def _is_date(value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, date)
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _is_word(value: Any) -> bool:
    """Whether it is a text that no number and no date is written as."""
    return isinstance(value, str) and not any(c.isdigit() for c in value)
