"""Settings of a study in a TOML file: what is released, which columns are read, and public facts about them.

Everything in the file is public: it is written by a person (or by `dpeigen init` from the names and types of columns),
never from values. An unknown key is an error, because otherwise a misspelt bound would be ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dpeigen.sources.declared import Declared

__all__ = ["COLUMN_KEYS", "FILE_KEYS", "SETTINGS", "Study", "read_study"]

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_KEYS = (  # what `open_source` takes about files
    "separator",
    "decimal",
    "thousands",
    "encoding",
    "quote",
    "date_format",
    "header",
    "names",
    "comment",
    "sheet",
)
SETTINGS = (
    "epsilon",
    "map_epsilon",  # of a score map, which costs something of its own
    "delta",
    "components",
    "target",
    "alpha",
    "bound",
    "scale",
    "robust",
    "units",
    "unit",
    "max_rows",
    "rescale",
    "center",
    "method",
    "relation",
    "missing",
    "missing_codes",  # of all columns
    "on_bad_row",
    "ledger",
    "require_ledger",
    "title",  # from here on texts for the card
    "author",
    "contact",
    "description",
    "population",
    *FILE_KEYS,
    "skip",
)
COLUMN_KEYS = ("use", *(field.name for field in fields(Declared)))


@dataclass(frozen=True)
class Study:
    """The content of a file: settings by name, and the columns to use; None if the file declares none."""

    settings: Mapping[str, Any]
    columns: Mapping[str, Declared] | None


def read_study(path: Path | None) -> Study:
    """The checked content; empty if there is no file."""
    if path is None:
        return Study({}, None)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"No file {path}. Write one with: dpeigen init FILE --out {path}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text in UTF-8. Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(
            f"{path} is not valid TOML: {error}. Put text in quotes and lists in brackets; write numbers as they are."
        ) from None
    _refuse_unknown(content, (*SETTINGS, "columns"), f"{path}")
    settings = {key: value for key, value in content.items() if key != "columns"}
    if "ledger" in settings:
        settings["ledger"] = _ledger(settings["ledger"], path)
    for name in ("rescale", "robust", "require_ledger"):
        if not isinstance(settings.get(name, False), bool):
            raise ValueError(f"'{name}' in {path} must be true or false. Got {settings[name]!r} instead.")
    return Study(settings, _columns(content.get("columns"), path))


def _ledger(given: Any, path: Path) -> str:
    """A URL unchanged, or a path relative to the settings file, in whatever folder the command is run."""
    from dpeigen.privacy.ledger.places import is_url

    if not isinstance(given, str):
        raise ValueError(f"'ledger' in {path} must be the path of a file or a postgresql:// URL, in quotes.")
    return given if is_url(given) else str(path.parent / given)


def _columns(tables: Any, path: Path) -> dict[str, Declared] | None:
    if tables is None:
        return None
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ValueError(f"'columns' in {path} must have one table for each column: [columns.\"name\"].")
    columns = {}
    for name, table in tables.items():
        where = f'[columns."{name}"] of {path}'
        _refuse_unknown(table, COLUMN_KEYS, where)
        if not isinstance(table.get("use", True), bool):
            raise ValueError(f"'use' in {where} must be true or false. Got {table['use']!r} instead.")
        if table.get("use", True):
            columns[name] = _column(table, where)
    if not columns:
        raise ValueError(f"{path} uses no column. Delete 'use = false' for each column that you want to use.")
    return columns


def _column(table: dict[str, Any], where: str) -> Declared:
    if "categories" in table and len(table) > 1 + ("use" in table):
        raise ValueError(
            f"{where} has categories, so it must not have other keys, such as a type or bounds. Delete them."
        )
    for key in ("categories", "levels"):
        if not isinstance(table.get(key, []), list):
            raise ValueError(f'{key!r} in {where} must be a list such as ["yes", "no"]. Got {table[key]!r} instead.')
    try:
        return Declared(**{key: value for key, value in table.items() if key != "use"})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}: {error}") from None


def _refuse_unknown(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    known = list(known)
    for key in table:
        if key not in known:
            near = get_close_matches(key, known, 1)
            meant = f"Did you mean {near[0]!r}? " if near else ""
            if key in SETTINGS:
                meant = "Settings belong above the first [columns…] line. "
            raise ValueError(f"Unknown key {key!r} in {where}. {meant}Known: {', '.join(known)}.")
