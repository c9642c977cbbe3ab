"""Text from elsewhere (releases, settings, names of columns) before a person sees it.

Such a text may hold characters that move a terminal's cursor, change its title or colours, or turn the direction of
what follows. None of them is ever printed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

__all__ = ["clean", "json_text", "number_text", "short", "short_apart", "table_text"]

_UNITS = 5  # half of an interval is at least this many units of the last decimal place shown
_DOUBLE = 15  # significant digits of a double
_PLAIN = (1e-4, 1e7)  # numbers between these are written without an exponent
_SHORT = 4  # decimals before an exponent; a number that needs more is written without one


def clean(text: object) -> str:
    """One line of visible characters: control characters and those that turn the direction of text are replaced.

    >>> clean("a\\x1b[31mb\\u202ec\\nd")
    'a�[31mb�c d'
    """
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def number_text(number: float, ends: tuple[float, float] | None = None, sign: str = "") -> str:
    """A number with as many digits as its interval supports, and the ends of the interval with the same.

    An end that is not 0 is not rounded to 0, if both have the same sign. Without an interval: four digits.

    >>> [number_text(x, (0.9473, 1.514)) for x in (1.206, 0.9473, 1.514)]
    ['1.21', '0.95', '1.51']
    >>> number_text(0.005071, (0.0002708, 0.01188), "+"), number_text(22031.4, (21210.0, 22904.0))
    ('+0.0051', '22000')
    """
    low, high = (math.nan, math.nan) if ends is None else ends
    half = (high - low) / 2
    if not (math.isfinite(number) and 0 < half / _UNITS < math.inf):
        return f"{number:{sign}.4g}"
    places = -math.floor(math.log10(half / _UNITS))
    nearest = min(abs(low), abs(high)) if low * high > 0 else 0.0
    if nearest:
        places = max(places, -math.floor(math.log10(nearest)))
    largest = max(abs(low), abs(high))
    places = min(places, _DOUBLE - 1 - math.floor(math.log10(largest)))
    shown = round(number, places) + 0.0  # no minus before 0
    long = places + math.floor(math.log10(largest)) > _SHORT and largest < 10.0**_DOUBLE
    if _PLAIN[0] <= largest and (largest < _PLAIN[1] or long):
        return f"{shown:{sign}.{max(places, 0)}f}"
    digits = places + math.floor(math.log10(abs(shown))) if shown else 0
    return f"{shown:{sign}.{max(digits, 0)}e}"


def table_text(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table for a terminal: the first column to the left, numbers to the right.

    >>> print(table_text(["method", "error"], [["whitened", "0.1"], ["kendall", "0.25"]]))
    method    error
    whitened    0.1
    kendall    0.25
    """
    lines = [[clean(cell) for cell in line] for line in [headings, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    padded = [[line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])] for line in lines]
    return "\n".join("  ".join(line) for line in padded)


def short(text: str, most: int = 26) -> str:
    """At most so many characters. The beginning and the end stay: names of columns often differ in one of them.

    >>> short("systolic blood pressure, visit 12", 20)
    'systolic blo…isit 12'
    """
    if len(text) <= most:
        return text
    return _cut(text, most, max(0, (most - 1) * 2 // 5))


def short_apart(texts: Sequence[str], most: int = 26) -> list[str]:
    """The same for several texts. Two that would look the same are cut elsewhere, or else numbered.

    >>> short_apart(["sex = weiblich", "sex = männlich", "age"], 10)
    ['sex = w…ch', 'sex = m…ch', 'age']
    >>> short_apart(["abcdefghijk1mnopqrst", "abcdefghijk2mnopqrst"], 10)
    ['abcdefgh…1', 'abcdefgh…2']
    """
    found = [short(text, most) for text in texts]
    usual = max(0, (most - 1) * 2 // 5)
    for one in [one for one, times in Counter(found).items() if times > 1]:
        alike = [at for at, other in enumerate(found) if other == one]
        if len({texts[at] for at in alike}) < len(alike):
            continue  # the same text twice
        others = {*found} - {one}
        for end in sorted(range(most - 1), key=lambda end: abs(end - usual)):
            cut = [texts[at] if len(texts[at]) <= most else _cut(texts[at], most, end) for at in alike]
            if len({*cut}) == len(alike) and others.isdisjoint(cut):
                break
        else:
            cut = [f"{texts[at][: most - 1 - len(str(number))]}…{number}" for number, at in enumerate(alike, 1)]
        for at, text in zip(alike, cut, strict=True):
            found[at] = text
    return found


def _cut(text: str, most: int, end: int) -> str:
    return f"{text[: most - 1 - end].rstrip()}…{text[len(text) - end :].lstrip()}"


def json_text(value: Any, indent: int | None = 2) -> str:
    """JSON for programs that is safe in a terminal too: what cannot be seen is escaped, which changes no value.

    >>> json_text(["é\\x9b2J"], None)
    '["é\\\\u009b2J"]'
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return re.sub(r"[^\n -~]", lambda match: match[0] if match[0].isprintable() else _escaped(match[0]), text)


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]
