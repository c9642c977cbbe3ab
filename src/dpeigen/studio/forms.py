"""From the fields of a form to settings: numbers, lists and tables, or a refusal that names the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpeigen.sources.declared import TRANSFORMS
from dpeigen.studio.errors import RefusedError
from dpeigen.studio.header import READING, TableHeader

__all__ = [
    "ABOUT",
    "KINDS",
    "MISSING",
    "Form",
    "choice",
    "codes",
    "columns_in",
    "names_listed",
    "number",
    "reading_in",
    "texts_in",
    "whole",
]

KINDS = {
    "number": "number",
    "bool": "true or false",
    "date": "date",
    "timestamp": "date and time",
    "category": "category",
    "ordinal": "ordered scale",
}
ABOUT = ("title", "author", "contact", "description", "population")
MISSING = ("correct", "refuse", "drop")
Form = Mapping[str, str]


def number(form: Form, field: str, words: str, *, low: float = -math.inf, high: float = math.inf) -> float | None:
    """A number in a field; None if it is empty."""
    text = form.get(field, "").strip()
    if not text:
        return None
    try:
        found = float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    except ValueError:
        found = math.nan
    if not low <= found <= high:
        limits = [f"at least {low:g}"] * (low > -math.inf) + [f"at most {high:g}"] * (high < math.inf)
        raise RefusedError(
            f"{words} must be a number{', ' + ' and '.join(limits) if limits else ''}. Got {text[:40]!r}."
        )
    return found


def whole(form: Form, field: str, words: str, *, low: int = 1, high: int = 2**40) -> int | None:
    """A whole number in a field; blanks and commas between thousands are skipped."""
    text = "".join(c for c in form.get(field, "") if not c.isspace() and c not in ",'")
    if not text:
        return None
    if not text.isdecimal() or not low <= int(text) <= high:
        raise RefusedError(f"{words} must be a whole number, at least {low:,}. Got {form[field][:40]!r}.")
    return int(text)


def codes(form: Form, field: str, words: str) -> list[Any]:
    """Codes for missing cells, separated by semicolons: numbers, or dates and words as texts."""
    found: list[Any] = []
    for part in filter(None, (part.strip() for part in form.get(field, "").replace("\n", ";").split(";"))):
        if "," in part:
            raise RefusedError(
                f"{words} must be separated by semicolons, with a decimal point: -99; 9999. Got {part[:40]!r}."
            )
        try:
            code = float(part)
        except ValueError:
            found.append(part)
        else:
            found.append(int(code) if code.is_integer() and abs(code) < 2**53 else code)
    return list(dict.fromkeys(found))


def choice(form: Form, field: str, options: Any, default: str) -> str:
    """One of the options."""
    found = form.get(field, "") or default
    if found not in options:
        raise RefusedError(f"{field} must be one of {', '.join(options)}. Got {found[:40]!r}.")
    return found


def reading_in(form: Form, header: TableHeader) -> dict[str, Any]:
    """How the file is written."""
    found: dict[str, Any] = {}
    for name in READING:
        text = form.get(f"reading_{name}", "")
        if name not in header.options or not text.strip(" "):
            continue
        if name == "header":
            found[name] = whole(form, "reading_header", "The line number of the column names", low=0)
        elif name == "names":
            found[name] = [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]
        elif name == "date_format":
            parts = [part.strip() for part in text.splitlines() if part.strip()]
            found[name] = parts[0] if len(parts) == 1 else parts
        elif name == "sheet":
            found[name] = int(text) if text.strip().isdecimal() else text.strip()
        else:
            found[name] = text if name == "thousands" else text.strip()
    return found


def columns_in(form: Form, header: TableHeader, unit: str | None) -> dict[str, dict[str, Any]]:
    """The table of each column, in the order of the file."""
    found = {}
    for at, column in enumerate(header.columns):
        used = form.get(f"use_{at}") == "yes" and column.name != unit
        table = _column(form, at, column.name) if used else {}
        found[column.name] = table if used else {"use": False}
    return found


def _column(form: Form, at: int, name: str) -> dict[str, Any]:
    kind = choice(form, f"kind_{at}", KINDS, "number")
    if kind in ("category", "ordinal"):
        listed = names_listed(form.get(f"list_{at}", ""))
        if not listed:
            raise RefusedError(
                f"Column {name!r} is a {KINDS[kind]}: list its possible values, one per line, from the questionnaire "
                "or the codebook. Or leave the column out."
            )
        return {"categories" if kind == "category" else "levels": listed}
    table: dict[str, Any] = {"type": kind}
    for side in ("lower", "upper") if kind != "bool" else ():
        words = f"The {'lowest' if side == 'lower' else 'highest'} value of {name!r}"
        if kind == "number":
            limit: Any = number(form, f"{side}_{at}", words)
        else:
            limit = form.get(f"{side}_{at}", "").strip() or None
        if limit is not None:
            table[side] = (
                int(limit) if isinstance(limit, float) and limit.is_integer() and abs(limit) < 2**53 else limit
            )
    if ("lower" in table or "upper" in table) and choice(
        form, f"outside_{at}", ("clip", "missing"), "missing"
    ) != "clip":
        table["outside"] = "missing"
    if kind != "bool" and (listed := codes(form, f"codes_{at}", f"The codes for missing cells of {name!r}")):
        table["missing_codes"] = listed
    transform = choice(form, f"transform_{at}", ("none", *TRANSFORMS), "none")
    if kind == "number" and transform != "none":
        table["transform"] = transform
    measure = form.get(f"measure_{at}", "").strip()
    if measure and kind == "number":
        table["unit_of_measure"] = measure
    return table


def names_listed(text: str) -> list[str]:
    """Names on separate lines, or separated by semicolons; each once."""
    parts = text.splitlines() if "\n" in text.strip() else text.split(";")
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def texts_in(form: Form) -> dict[str, str]:
    """Texts for the card."""
    return {name: " ".join(form[name].split()) for name in ABOUT if form.get(name, "").strip()}
