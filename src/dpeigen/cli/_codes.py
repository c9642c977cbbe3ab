"""Codes for missing cells, such as -99, from ``--missing-codes`` and the setting `missing_codes`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpeigen.sources.declared import Declared
from dpeigen.sources.missing_codes import fitting_codes

if TYPE_CHECKING:
    from dpeigen.cli._config import Study

__all__ = ["codes_for_all", "codes_of_columns", "with_codes"]

_OPTION = "missing_codes"


def codes_for_all(given: Mapping[str, Any], study: Study) -> list[Any]:
    """The codes that are declared for all columns; options override the settings file."""
    from_options = [part for text in given.get(_OPTION) or [] if "=" not in text for part in _parts(text)]
    found = from_options or study.settings.get(_OPTION) or []
    return found if isinstance(found, list) else [found]


def codes_of_columns(given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The codes that options declare for single columns."""
    found: dict[str, list[Any]] = {}
    for text in given.get(_OPTION) or []:
        name, between, values = text.partition("=")
        if between:
            found.setdefault(name, []).extend(_parts(values))
    return found


def with_codes(known: Mapping[str, Declared], codes: list[Any]) -> dict[str, Declared]:
    """The declarations with the codes of all columns; a column with codes of its own keeps those."""
    found = {}
    for name, said in known.items():
        fitting = fitting_codes(codes, said.type)
        found[name] = replace(said, missing_codes=tuple(fitting)) if fitting and said.missing_codes is None else said
    return found


def _parts(text: str) -> list[Any]:
    """Numbers where they can be read as such, and otherwise texts: dates, or words."""
    if "," in text:
        raise ValueError(
            f"--missing-codes must be values separated by |, and numbers with a decimal point, such as '-99|9999' or "
            f"'name=-99|9999'. Got {text!r} instead."
        )
    return [_value(part.strip()) for part in text.split("|") if part.strip()]


def _value(text: str) -> Any:
    try:
        return float(text) if any(c.isdigit() for c in text) else text
    except ValueError:
        return text
