"""Public bounds of common columns, each with its source; and the user's own, from ``bounds.toml`` in the folder.

They are offered if the name of a column matches, and never filled in automatically: a person must decide whether the
column has that unit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpeigen.studio.errors import RefusedError

__all__ = ["OWN", "BoundsTemplate", "BoundsTemplates"]

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OWN = "bounds.toml"
_KEYS = {"words", "lower", "upper", "unit", "source", "transform"}


@dataclass(frozen=True)
class BoundsTemplate:
    """Bounds of a quantity, in a unit, from a source."""

    name: str
    words: tuple[str, ...]  # to find in names of columns, in lower case; all words of an entry are needed
    lower: float
    upper: float
    unit: str
    source: str
    transform: str = "none"
    own: bool = False


@dataclass(frozen=True)
class BoundsTemplates:
    """The templates of the folder, then those of the studio."""

    found: tuple[BoundsTemplate, ...]
    problem: str = ""

    @classmethod
    def of(cls, folder: Path) -> BoundsTemplates:
        given = _read(Path(__file__).with_name(OWN), own=False)
        path = folder / OWN
        if not path.is_file():
            return cls(given)
        try:
            return cls((*_read(path, own=True), *given))
        except RefusedError as refused:
            return cls(given, str(refused))

    def for_name(self, column: str) -> list[BoundsTemplate]:
        """The templates whose words are in the name of a column."""
        spaced = re.sub(r"(?<=[a-zß-ÿ])(?=[A-Z])", " ", column).lower()
        words = set(re.findall(r"[^\W\d_]+[0-9]*[^\W\d_]*", spaced))
        return [t for t in self.found if any(set(option.split()) <= words for option in t.words)]


def _read(path: Path, *, own: bool) -> tuple[BoundsTemplate, ...]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RefusedError(f"{path.name} cannot be read: {error}. Mend it, or take it out of the folder.") from None
    return tuple(_template(name, table, path.name, own=own) for name, table in content.items())


def _template(name: str, table: Any, where: str, *, own: bool) -> BoundsTemplate:
    must = f'[{name}] of {where} must have words = ["…"], lower, upper, unit and source, and perhaps transform'
    if not isinstance(table, Mapping) or not {"words", "lower", "upper", "unit", "source"} <= set(table) <= _KEYS:
        raise RefusedError(f"{must}.")
    low, high, words = table["lower"], table["upper"], table["words"]
    numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (low, high))
    texts = [table["unit"], table["source"], *(words if isinstance(words, list) else [None])]
    if not numbers or not low < high or not all(isinstance(text, str) for text in texts):
        raise RefusedError(f"{must}: lower < upper are numbers, the others are texts.")
    found = tuple(word.lower() for word in words)
    return BoundsTemplate(name, found, low, high, table["unit"], table["source"], table.get("transform", "none"), own)
