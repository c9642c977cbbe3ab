"""Columns and their numbers in words: "sex = f", "height (cm)", "171 cm", "2019-03-04". Public facts only.

>>> said = Declared(type="date")
>>> value_text(said, 17959.2), spread_text(said, 412.0)
('2019-03-04', '412 days')
>>> income = Declared(transform="log", unit_of_measure="EUR")
>>> label("income", income), value_text(income, 10.0), spread_text(income, 0.7)
(['income (log EUR)'], '2.203e+04 EUR', 'a factor of 2.01')
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta

from dpeigen._text import number_text
from dpeigen.sources.declared import Declared

__all__ = ["codes_text", "label", "limits_text", "not_asked_for", "spread_text", "value_text"]

_START = datetime(1970, 1, 1)
_DAY = 86_400.0


def label(name: str, said: Declared) -> list[str]:
    """The readable names of the columns of numbers that a column becomes; a unit in the name is not repeated.

    >>> label("weight (kg)", Declared(unit_of_measure="kg")), label("weight", Declared(unit_of_measure="kg"))
    (['weight (kg)'], ['weight (kg)'])
    """
    if said.categories is not None:
        return [f"{name} = {value}" for value in said.categories]
    if said.transform is None and _ends_with_unit(name, said.unit_of_measure):
        return [name]
    words = " ".join(word for word in (said.transform, said.unit_of_measure) if word)
    return [f"{name} ({words})" if words else name]


def _ends_with_unit(name: str, unit: str) -> bool:
    """Whether a name ends with its unit as a word: "weight (kg)", "weight [kg]", "weight_kg", "weight kg"."""
    bare = name.rstrip(" )]")
    before = bare.removesuffix(unit)
    return bool(unit) and before != bare and not before[-1:].isalnum()


def value_text(said: Declared, value: float, digits: int = 4, ends: tuple[float, float] | None = None) -> str:
    """A centre in the unit of the column: a share for an indicator or a truth value, a date for dates.

    ``ends`` of its interval decide how many digits a number has; without them it has ``digits``.
    """
    if said.categories is not None or said.type == "bool":
        return f"{100 * value:.1f}%"
    if said.type in ("date", "timestamp"):
        return _moment(value * (_DAY if said.type == "date" else 1.0), said.type == "date")
    if said.levels is not None:
        return f"{f'{value:.2f}' if ends is None else number_text(value, ends)} levels above {said.levels[0]!s}"
    own = None if ends is None else (said.inverse(ends[0]), said.inverse(ends[1]))
    return _with_unit(said.inverse(value), said, digits, own)


def spread_text(said: Declared, deviation: float, ends: tuple[float, float] | None = None) -> str:
    """A standard deviation, in the unit of the column; ``ends`` of its interval decide how many digits it has."""
    if said.type in ("date", "timestamp"):
        day = 1.0 if said.type == "date" else _DAY
        return f"{number_text(deviation / day, None if ends is None else (ends[0] / day, ends[1] / day))} days"
    if said.levels is not None:
        return f"{f'{deviation:.3g}' if ends is None else number_text(deviation, ends)} levels"
    if said.transform == "log":
        factor = _factor(deviation)
        own = None if ends is None else (_factor(ends[0]), _factor(ends[1]))
        return f"a factor of {f'{factor:.3g}' if own is None else number_text(factor, own)}"
    if said.transform is not None:
        return f"{number_text(deviation, ends)} after {said.transform}"
    return _with_unit(deviation, said, ends=ends)


def _factor(deviation: float) -> float:
    return math.exp(min(deviation, 700.0))


def not_asked_for(columns: Mapping[str, Declared] | None, names: list[str]) -> list[str]:
    """Columns of numbers or dates in which a code would be read as a value: no codes, and no limits against them."""
    said = columns or {}
    return [
        name
        for name in (said or names)
        if (one := said.get(name, Declared())).listed is None
        and one.type != "bool"
        and one.missing_codes is None
        and one.outside != "missing"
    ]


def codes_text(said: Declared) -> str:
    """The declared codes for missing cells: "-99, 9999", "1900-01-01"; empty if there are none."""
    return ", ".join(code if isinstance(code, str) else f"{code:.15g}" for code in said.missing_codes or ())


def limits_text(said: Declared) -> str:
    """The declared limits and what becomes of values outside: "100 to 180 (clipped)"; empty if there are none.

    >>> limits_text(Declared(type="date", lower="2019-01-01", outside="missing"))
    '2019-01-01 or more (else missing)'
    """
    low, high = (None if end is None else _end_text(said, end) for end in (said.lower, said.upper))
    if low is None and high is None:
        return ""
    ends = f"{low} to {high}" if low and high else f"{low} or more" if low else f"{high} or less"
    return f"{ends} ({'clipped' if said.outside == 'clip' else 'else missing'})"


def _end_text(said: Declared, end: float) -> str:
    """A limit in the unit of the cells, before a transform."""
    if said.type in ("date", "timestamp"):
        return _moment(end * (_DAY if said.type == "date" else 1.0), said.type == "date")
    return f"{end:.15g}"


def _with_unit(value: float, said: Declared, digits: int = 4, ends: tuple[float, float] | None = None) -> str:
    text = f"{value:.{digits}g}" if ends is None else number_text(value, ends)
    return f"{text} {said.unit_of_measure}" if said.unit_of_measure else text


def _moment(seconds: float, day: bool) -> str:
    try:
        moment = _START + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return f"{seconds / _DAY:.4g} days after 1970-01-01"
    return f"{moment:%Y-%m-%d}" if day else f"{moment:%Y-%m-%d %H:%M}"
