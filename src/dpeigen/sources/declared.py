"""The declaration of a column: its type, its categories, its limits, a transform, its unit of measure.

A declaration is public: it comes from a questionnaire, an instrument or a protocol, never from the table. The numbers
that a cell becomes depend on the declaration and on that cell alone.

- A number, a truth value (0 and 1), a date (days since 1970-01-01) and a timestamp (seconds since then) are numbers.
- An ordinal scale becomes one number: 0 for its first level, 1 for the second, and so on.
- A category becomes one column of 0 and 1 (an indicator) for each name on the list.
- Numbers beyond ``lower`` and ``upper`` are clipped to them or, with ``outside="missing"``, are missing.
- Numbers and dates among ``missing_codes``, such as -99, are missing.
- A transform is applied last. A number for which it is not defined (the logarithm of 0) is missing.

If a cell does not fit, all columns that it becomes are NaN: a missing cell.

>>> Declared(levels=("none", "mild", "severe")).from_matches([np.array([b]) for b in (False, True, False)])
[array([1.])]
>>> Declared(transform="log", lower=1, upper=100).from_numbers(np.array([0.0, np.e, 1e9])).round(3).tolist()
[0.0, 1.0, 4.605]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import date, datetime, timezone
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.sources.missing_codes import checked_codes, without_codes

__all__ = ["LISTED", "TRANSFORMS", "TYPES", "Declared", "declared", "number_of"]

TYPES = ("number", "bool", "date", "timestamp")  # dates are days, times are seconds, since 1970-01-01
LISTED = {"category": "categories", "ordinal": "levels"}
_EPOCH = date(1970, 1, 1)
_OWNER = "columns"
_LARGEST = 1e300


def _each(function: Callable[[float], float]) -> Callable[[Floats], Floats]:
    """The function applied to each number separately: NumPy's last bits may depend on the position in a block."""

    def apply(values: Floats) -> Floats:
        return np.fromiter(map(function, values.tolist()), dtype=np.float64, count=len(values))

    return apply


def _signed_root(values: Floats) -> Floats:
    return np.copysign(np.sqrt(np.abs(values)), values)


# name: (function, its inverse, the lower end of its domain)
TRANSFORMS: dict[str, tuple[Callable[[Floats], Floats], Callable[[float], float], float]] = {
    "log": (_each(math.log), math.exp, 0.0),
    "log1p": (_each(math.log1p), math.expm1, -1.0),
    "asinh": (_each(math.asinh), math.sinh, -math.inf),
    "signed-sqrt": (_signed_root, lambda root: math.copysign(root * root, root), -math.inf),
}


@dataclass(frozen=True)
class Declared:
    """The declaration of a column. By default a column is a number."""

    type: str | None = None
    categories: tuple[Any, ...] | None = None
    levels: tuple[Any, ...] | None = None
    transform: str | None = None
    quantiles: tuple[float, ...] | None = None
    lower: float | None = None
    upper: float | None = None
    outside: str = "clip"
    unit_of_measure: str = ""
    missing_codes: tuple[float | str, ...] | None = None  # None: not declared

    def __post_init__(self) -> None:
        self._check_lists()
        self._check_limits()
        self._check_codes()
        self._check_transform()
        if (
            not isinstance(self.unit_of_measure, str)
            or len(self.unit_of_measure) > 40
            or not _is_name(self.unit_of_measure)
        ):
            raise ValueError(complain("unit_of_measure", _OWNER, "a short text such as 'cm'", self.unit_of_measure))

    def _check_lists(self) -> None:
        if self.type is not None:
            check_choice("types", self.type, [*TYPES, *LISTED], _OWNER)
        for name in ("categories", "levels"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _listed(name, getattr(self, name)))
        if self.categories is not None and self.levels is not None:
            must = "left out where 'levels' (an ordered scale) are given"
            raise ValueError(complain("categories", _OWNER, must, list(self.categories)))
        kind = "category" if self.categories is not None else "ordinal" if self.levels is not None else None
        if kind is not None and self.type not in (None, kind):
            must = f"left out or {kind!r} where {LISTED[kind]} are given"
            raise ValueError(complain("type", _OWNER, must, self.type))
        if kind is not None:
            object.__setattr__(self, "type", kind)

    def _check_limits(self) -> None:
        for name in ("lower", "upper"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, number_of(getattr(self, name), self.type, f"'{name}'"))
        if self.lower is not None and self.upper is not None and not self.lower < self.upper:
            got = f"lower={self.lower:g}, upper={self.upper:g}"
            raise ValueError(complain("lower", _OWNER, "lower < upper", got))
        check_choice("outside", self.outside, ["clip", "missing"], _OWNER)
        limits = self.lower is not None or self.upper is not None
        if limits and self.type in (*LISTED, "bool"):
            must = f"left out for a column of type {self.type!r}"
            raise ValueError(complain("lower", _OWNER, must, self.lower if self.lower is not None else self.upper))
        if self.outside == "missing" and not limits:
            raise ValueError(complain("outside", _OWNER, "left out without 'lower' or 'upper'", self.outside))

    def _check_codes(self) -> None:
        given = self.missing_codes
        if given is None:
            return
        if self.type in (*LISTED, "bool"):
            must = f"left out for a column of type {self.type!r}"
            remedy = "There, every value that is not declared is a missing cell."
            raise ValueError(complain("missing_codes", _OWNER, must, given, remedy))
        object.__setattr__(self, "missing_codes", checked_codes(given, self.type, _OWNER))
        self._codes()  # refuses texts that are not a date of this type

    def _check_transform(self) -> None:
        if self.quantiles is not None:
            object.__setattr__(self, "quantiles", _quantiles(self.quantiles))
        if (self.transform == "rank") != (self.quantiles is not None):
            must = "a list of increasing numbers, public quantiles at even steps, with transform='rank' and only then"
            raise ValueError(complain("quantiles", _OWNER, must, self.quantiles))
        if self.transform is None:
            return
        check_choice("transform", self.transform, [*TRANSFORMS, "rank"], _OWNER)
        if self.type not in (None, "number"):
            must = f"left out for a column of type {self.type!r}"
            raise ValueError(complain("transform", _OWNER, must, self.transform, "Transforms are for numbers."))
        start = TRANSFORMS[self.transform][2] if self.transform in TRANSFORMS else -math.inf
        if self.lower is not None and self.lower <= start:
            must = f"more than {start:g} with transform={self.transform!r}"
            raise ValueError(complain("lower", _OWNER, must, self.lower, "Or use transform='asinh'."))

    # --- what it says -----------------------------------------------------------------------------------------------

    @property
    def listed(self) -> tuple[Any, ...] | None:
        """The categories, or the levels of an ordinal scale; None for numbers."""
        return self.categories if self.categories is not None else self.levels

    @property
    def by_schema(self) -> bool:
        """Whether the list of categories or levels is taken from the column's own type."""
        return self.type in LISTED and self.listed is None

    @property
    def plain(self) -> bool:
        """Whether it says only that the column is a number."""
        return self in (_PLAIN, _NUMBER)

    @property
    def number_type(self) -> str | None:
        """The type as which cells are read if they are not categories."""
        return self.type if self.type in TYPES else None

    def features(self, name: str) -> list[str]:
        """The names of the columns of numbers that it becomes."""
        return [name] if self.categories is None else [f"{name}={value}" for value in self.categories]

    def bounds(self) -> list[tuple[float, float]] | None:
        """Public bounds of each column of numbers that it becomes; None if they are not declared."""
        if self.categories is not None:
            return [(0.0, 1.0)] * len(self.categories)
        if self.levels is not None:
            return [(0.0, float(max(1, len(self.levels) - 1)))]
        if self.type == "bool" or self.transform == "rank":
            return [(0.0, 1.0)]
        if self.lower is None or self.upper is None:
            return None
        low, high = self._shaped(np.array([self.lower, self.upper])).tolist()
        return [(low, high)]

    def to_dict(self) -> dict[str, Any]:
        """The values that differ from the defaults, for a file."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        kept = {name: value for name, value in found.items() if value != getattr(_PLAIN, name)}
        if self.listed is not None:
            kept.pop("type")
        return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}

    # --- what cells become ------------------------------------------------------------------------------------------

    def from_matches(self, found: Sequence[NDArray[np.bool_]]) -> list[Floats]:
        """Columns of numbers; ``found`` says for each name on the list which cells are equal to it."""
        known = np.logical_or.reduce(found)
        if self.categories is not None:
            return [np.where(known, match, np.nan) for match in found]
        return [np.where(known, np.argmax(found, axis=0), np.nan)]

    def from_numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """A column of numbers inside the limits, transformed; NaN for codes and numbers that are not allowed."""
        return self._shaped(without_codes(values, self._codes()))

    def _codes(self) -> list[float]:
        return [number_of(code, self.type, "'missing_codes'") for code in self.missing_codes or ()]

    def _shaped(self, values: NDArray[Any]) -> NDArray[Any]:
        if self.lower is None and self.upper is None and self.transform is None:
            return values
        low, high = self.lower, self.upper
        found = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
        with np.errstate(invalid="ignore"):
            if self.outside == "missing":
                beyond = (found < low if low is not None else False) | (found > high if high is not None else False)
                found = np.where(beyond, np.nan, found)
            else:
                found = np.clip(found, low, high)
        return found if self.transform is None else self._transformed(found)

    def _transformed(self, values: Floats) -> Floats:
        if self.quantiles is not None:
            ranks: Floats = np.interp(values, self.quantiles, np.linspace(0.0, 1.0, len(self.quantiles)))
            return ranks
        function, _, start = TRANSFORMS[str(self.transform)]
        with np.errstate(invalid="ignore"):
            legal = values > start
        found = np.full(len(values), np.nan)
        found[legal] = function(values[legal])
        return found

    def inverse(self, value: float) -> float:
        """The number in the column's own unit before the transform."""
        if self.quantiles is not None:
            return float(np.interp(value, np.linspace(0.0, 1.0, len(self.quantiles)), self.quantiles))
        if self.transform is None:
            return value
        try:
            return TRANSFORMS[self.transform][1](value)
        except OverflowError:
            return math.inf


def declared(name: str, given: Any) -> Declared:
    """A declaration from None, a type, or a mapping as in a settings file."""
    if isinstance(given, Declared):
        return given
    if given is None or isinstance(given, str):
        return Declared(type=given)
    known = [field.name for field in fields(Declared)]
    if not isinstance(given, Mapping):
        must = "None, a type, or a dictionary for each column"
        raise ValueError(complain("columns", "open_source", must, f"a {type(given).__name__} for {name!r}"))
    for key in given:
        if key not in known:
            near = get_close_matches(str(key), known, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"Column {name!r} has an unknown key {key!r}.{hint} Known: {', '.join(known)}.")
    try:
        return Declared(**given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Column {name!r}: {error}") from None


def number_of(value: Any, kind: str | None, what: str) -> float:
    """A limit; a date or a time as the number that the column is read as."""
    if isinstance(value, str) and kind in ("date", "timestamp"):
        with suppress(ValueError):
            value = datetime.fromisoformat(value) if kind == "timestamp" else date.fromisoformat(value)
    if isinstance(value, datetime) and kind == "timestamp":
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    if isinstance(value, date) and not isinstance(value, datetime) and kind in ("date", "timestamp"):
        return float((value - _EPOCH).days * (86_400 if kind == "timestamp" else 1))
    known = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if known and abs(value) < _LARGEST:
        return float(value)
    must = {"date": "a date such as 1990-01-31", "timestamp": "a time such as 1990-01-31T12:00:00"}
    raise ValueError(f"{what} must be {must.get(kind or '', 'a number')}. Got {value!r} instead.")


def _listed(name: str, values: Any) -> tuple[Any, ...]:
    must = "a list of names or numbers that differ from each other for each column"
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, np.ndarray)):
        raise ValueError(complain(name, _OWNER, must, values))
    found = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
    if not found or not all(map(_is_name, found)) or len(set(found)) < len(found):
        raise ValueError(complain(name, _OWNER, must, list(found)))
    if any(not isinstance(value, str) and float(value) != value for value in found):
        must = "a list of numbers that doubles hold exactly, up to 2^53; longer ones are written as text"
        raise ValueError(complain(name, _OWNER, must, list(found)))
    return found


def _is_name(value: Any) -> bool:
    """Whether it can be stored in a file: a text in UTF-8, or a finite number."""
    if isinstance(value, str):
        return value == value.encode("utf-8", "ignore").decode()
    return isinstance(value, (int, float)) and math.isfinite(value)


def _quantiles(values: Any) -> tuple[float, ...]:
    must = "a list of at least two increasing numbers"
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    sound = found.ndim == 1 and len(found) > 1 and bool(np.isfinite(found).all()) and bool((np.diff(found) > 0).all())
    if not sound:
        raise ValueError(complain("quantiles", _OWNER, must, values))
    return tuple(found.tolist())


_PLAIN, _NUMBER = Declared(), Declared(type="number")
