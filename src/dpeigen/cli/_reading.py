"""The options for the format of a file, for every command that reads a table; each defined once.

None: not given. Then the setting of the same name in the file of ``--config`` decides, and after it the default of
`dpeigen.sources.open_source`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

import typer

from dpeigen.cli._config import Study
from dpeigen.cli._options import FITTING

__all__ = ["READING", "fits_files", "reading_of", "reads_files", "without_skipped"]

_PANEL = "File"


def _option(kind: Any, text: str, **more: Any) -> Any:
    return Annotated[kind | None, typer.Option(help=text, rich_help_panel=_PANEL, **more)]


READING: dict[str, Any] = {
    "separator": _option(str, "The field separator of a CSV: ; or | or tab; a comma by default."),
    "decimal": _option(str, "The decimal mark: . (the default) or ,"),
    "thousands": _option(str, "The mark between groups of three digits, such as . or ' or a blank; none by default."),
    "encoding": _option(str, "The text encoding: utf-8 (the default), latin-1, cp1252, utf-16 and others."),
    "quote": _option(str, "The quotation mark around fields: \" (the default), ' or none."),
    "date_format": _option(
        list[str], "The format of dates and times, such as %d.%m.%Y; ISO 8601 by default; may be repeated."
    ),
    "header": _option(int, "The line that has the column names; 1 by default, 0 if there is none.", min=0),
    "names": _option(str, "With --header 0: the names of all columns of the file, as a,b,c."),
    "comment": _option(str, "Skip lines above the header that begin with this text, such as #."),
    "sheet": _option(str, "The name or number of the sheet of an Excel file; the first by default."),
    "skip": _option(str, "Columns to leave out, as a,b,c, instead of --columns."),
}


def reads_files(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options to a command, which gets them as one mapping ``reading``."""
    return _with_options("reading", {name: kind for name, kind in READING.items() if name not in without})


def fits_files(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options and all that the fitting commands share, as one mapping ``fitting``."""
    return reads_files()(_with_options("fitting", FITTING)(command))


def _with_options(group: str, options: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def add(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**given: Any) -> None:
            found = {name: given.pop(name) for name in options}
            command(**given, **{group: found})

        hints = get_type_hints(command, include_extras=True)
        own = [p.replace(annotation=hints[p.name]) for p in inspect.signature(command).parameters.values()]
        # None: not given. A flag is off unless it is given.
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(kind), annotation=kind)
            for name, kind in options.items()
        ]
        shown = [p for p in (*own, *more) if p.name != group]
        called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in shown}
        return called

    return add


def _default(kind: Any) -> Any:
    return False if get_args(kind)[0] is bool else None


def reading_of(given: Mapping[str, Any], study: Study) -> dict[str, Any]:
    """The declared format of the file, as keyword arguments of `open_source`."""
    found = {}
    for name in READING:
        value = given.get(name)
        value = study.settings.get(name) if value is None or value == [] else value
        if name in ("names", "skip") and isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        if name == "sheet" and isinstance(value, str) and value.isdecimal():
            value = int(value)
        if value is not None:
            found[name] = value
    return found


def without_skipped(skip: Any, columns: list[str] | None, declared: Mapping[str, Any]) -> list[str]:
    """The declared columns that are left."""
    if columns is not None:
        raise ValueError("Give either --columns or --skip, not both.")
    missing = [name for name in skip if name not in declared]
    if missing:
        raise ValueError(f"--skip names {missing}, which the --config file does not list. Remove them from --skip.")
    return [name for name in declared if name not in skip]
