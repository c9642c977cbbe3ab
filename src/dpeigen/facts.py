"""Checks of the description of a release on disk: anyone can write one with a matching digest.

Facts that the library computes with or formats must have the type that it writes. Unknown facts are kept and shown as
text. `ValueError` names the wrong fact and shows only its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from dpeigen._validate import complain
from dpeigen._version import __version__
from dpeigen.sources.declared import Declared, declared

__all__ = [
    "ABOUT",
    "KINDS",
    "Check",
    "check_about",
    "check_description",
    "check_guarantee",
    "columns_in",
    "features_of",
    "made_now",
]

ABOUT = {"title": 200, "author": 400, "contact": 400, "description": 4000, "population": 1000}  # most characters
KINDS = ("pca", "covariance", "ridge")
_LARGEST = 1e100  # of a number: its square is a number too
_DEEPEST = 40  # levels of lists and objects in each other

Check = Callable[[Any, int], bool]


def _number(value: Any, _: int = 0) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _size(value: Any, _: int = 0) -> bool:
    return _number(value) and value >= 0


def _positive(value: Any, _: int = 0) -> bool:
    return _number(value) and value > 0


def _text(value: Any, _: int = 0) -> bool:
    return isinstance(value, str)


def _object(value: Any, _: int = 0) -> bool:
    return isinstance(value, Mapping)


def _names(value: Any, d: int) -> bool:
    return isinstance(value, list) and len(value) == d and all(isinstance(name, str) for name in value)


def _units(value: Any, d: int) -> bool:
    return (
        isinstance(value, list) and len(value) == d and all(_positive(unit) and unit >= 1 / _LARGEST for unit in value)
    )


def _shares(value: Any, d: int) -> bool:
    return isinstance(value, list) and len(value) == d and all(_size(share) and share <= 1 for share in value)


def _bounds(value: Any, d: int) -> bool:
    if not isinstance(value, Mapping) or not {"lower", "upper"} <= set(value):
        return False
    sides = value["lower"], value["upper"]
    if not all(isinstance(side, list) and len(side) == d and all(map(_number, side)) for side in sides):
        return False
    return all(low < high for low, high in zip(*sides, strict=True))


def _ridge(value: Any, d: int) -> bool:
    if not isinstance(value, Mapping) or (value.get("scales") is not None and not _units(value["scales"], d - 1)):
        return False
    return value.get("alpha") == "auto" or _size(value.get("alpha"))


def _about(value: Any, _: int) -> bool:
    return isinstance(value, Mapping) and set(value) <= set(ABOUT) and all(map(_text, value.values()))


def _date(value: Any, _: int) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None


def _columns(value: Any, d: int) -> bool:
    """Whether these are legal declarations of columns whose encoding gives the columns of the release."""
    if not isinstance(value, list) or not all(isinstance(each, Mapping) and _text(each.get("name")) for each in value):
        return False
    try:
        return len(features_of(columns_in(value))) == d
    except (TypeError, ValueError, OverflowError):
        return False


def columns_in(listed: list[Mapping[str, Any]]) -> dict[str, Declared]:
    """The declarations of the columns of a table, as a release keeps them."""
    said = {each["name"]: {key: value for key, value in each.items() if key != "name"} for each in listed}
    return {name: declared(name, given) for name, given in said.items()}


def features_of(columns: Mapping[str, Declared]) -> list[str]:
    """The names of the numeric columns that these columns are encoded as."""
    return [feature for name, said in columns.items() for feature in said.features(name)]


def _choice(value: Any, _: int) -> bool:
    return isinstance(value, (str, list, Mapping))


_FACTS: dict[str, Check] = {
    "method": _text, "n_rows": _number, "n_rows_is": _text, "noise_deviation": _size, "covariance_error": _size,
    "radius": _size, "radius_is": _text, "center": _text, "feature_names": _names, "details": _object,
    "choice": _choice, "dpeigen": _text, "units": _units, "rescaled": _bounds, "bounds": _bounds, "ridge": _ridge,
    "release_id": _text,
    "estimand": _text, "max_rows": _number, "rows_that_count": _number, "missing": _text, "missing_shares": _shares,
    "about": _about, "date": _date, "columns": _columns,
}  # fmt: skip
_TAU: dict[str, Check] = {"tau_bound": _positive, "tau_noise_norm": _size, "tau_share": _size}


def _deep(value: Any, left: int = _DEEPEST) -> bool:
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return left == 0 or any(_deep(part, left - 1) for part in parts)


def _wrong(name: str, value: Any) -> ValueError:
    return ValueError(f"its {name!r} is not what a release holds there ({type(value).__name__})")


def made_now() -> dict[str, str]:
    """The version of this software, and the date (UTC), for a release that is made now."""
    return {"dpeigen": __version__, "date": datetime.now(timezone.utc).date().isoformat()}


def check_about(given: Mapping[str, Any], owner: str) -> dict[str, str]:
    """Check texts that a person wrote about a release; those that are None are left out."""
    for name, value in given.items():
        if value is not None and (not isinstance(value, str) or not value.strip() or len(value) > ABOUT[name]):
            shown = f"{len(value)} characters" if isinstance(value, str) else type(value).__name__
            raise ValueError(complain(name, owner, f"a text of 1 to {ABOUT[name]} characters", shown))
    return {name: value.strip() for name, value in given.items() if value is not None}


def check_description(description: Any, d: int) -> None:
    """Refuse a description in which a known fact has a wrong type; ``d`` is the number of columns."""
    if not isinstance(description, Mapping) or _deep(description):
        raise _wrong("description", description)
    kind, facts = description["kind"], description["facts"]
    if kind not in KINDS or (kind == "ridge" and d < 2):
        raise _wrong("kind", kind)
    if not _number(description["noise_variance"]):
        raise _wrong("noise_variance", description["noise_variance"])
    if not isinstance(facts, Mapping):
        raise _wrong("facts", facts)
    for name, check in _FACTS.items():
        if facts.get(name) is not None and not check(facts[name], d):
            raise _wrong(name, facts[name])
    if facts.get("columns") is not None and set(facts.get("feature_names") or ()) != set(
        features_of(columns_in(facts["columns"]))
    ):
        raise _wrong("columns", facts["columns"])
    _check_details(facts.get("details") or {}, facts, d)
    check_guarantee(description["guarantee"])


def _check_details(details: Mapping[str, Any], facts: Mapping[str, Any], d: int) -> None:
    if not _text(details.get("variances", "")):
        raise _wrong("variances", details["variances"])
    missing = details.get("columns_without_scale", [])
    if not isinstance(missing, list) or not all(type(column) is int and 0 <= column < d for column in missing):
        raise _wrong("columns_without_scale", missing)
    if "tau_eigenvalues" in details:
        values = details["tau_eigenvalues"]
        if not isinstance(values, list) or len(values) != d or not all(map(_number, values)):
            raise _wrong("tau_eigenvalues", values)
        for name, check in _TAU.items():
            if not check(details.get(name), d):
                raise _wrong(name, details.get(name))
    n = facts.get("n_rows")
    if n is not None and n <= 0 and ("tau_eigenvalues" in details or facts.get("ridge")):
        raise _wrong("n_rows", n)


def check_guarantee(said: Any) -> None:
    """Check that the texts of a guarantee are strings; `Guarantee` checks its numbers."""
    if not isinstance(said, Mapping):
        raise _wrong("guarantee", said)
    for name in ("mechanism", "reference"):
        if not _text(said.get(name)):
            raise _wrong(name, said.get(name))
    for name in ("estimand", "unit"):
        if not _text(said.get(name, "")):
            raise _wrong(name, said[name])
    for name in ("assumptions", "notes"):
        if not isinstance(said.get(name), list) or not all(map(_text, said[name])):
            raise _wrong(name, said.get(name))
    split = said.get("split")
    if not isinstance(split, list) or not all(isinstance(spend, Mapping) for spend in split):
        raise _wrong("split", split)
    for spend in split:
        if not all(_text(spend.get(name)) for name in ("purpose", "mechanism", "kind")):
            raise _wrong("split", split)
