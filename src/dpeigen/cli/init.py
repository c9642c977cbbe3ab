"""``dpeigen init FILE``: a commented settings file for a table, from the names and types of its columns.

No value is read: names and types come from the schema. A CSV file states no types, so only its header line is read.
That line also shows the separator of fields, and whether it is in UTF-8. Other facts about the file (a decimal comma),
bounds and categories must be filled in by a person, from what is public about the study.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from dpeigen._text import clean
from dpeigen.cli._config import Study
from dpeigen.cli._errors import UnreadableError, one_line_errors
from dpeigen.cli._reading import reading_of, reads_files

__all__ = ["declared_type", "init", "look_at_header", "quoted", "render", "whose_row"]

_HEAD = """\
# Settings for: dpeigen pca|covariance|ridge FILE --config THIS --out FOLDER
# Made from the names{types} of the columns. No value was read, and none may be used to fill this in:
# bounds and categories come from what is public (a questionnaire, an instrument, a protocol), never from the table.

# --- for the card: public texts -----------------------------------------------------------------------------------
# title = "…"
# author = "…"             # several are separated by semicolons
# contact = "…"
# description = "…"        # what the data are and how they were collected
# population = "…"         # the population that the rows represent

# --- the guarantee ---------------------------------------------------------------------------------------------
# epsilon = 1.0            # privacy loss; there is no default. Below 1 is strong, above 4 is weak.
delta = 1e-6               # a tiny chance that the guarantee is weaker; well below 1 / number of people. 0 is pure
                           # privacy, which needs far more rows
relation = "replace"       # neighbours differ in the values of one row; "add_remove": one has one row more
# ledger = "study.ledger"  # keeps the budget of this data set; a path relative to this file, or a postgresql:// URL
# require_ledger = true    # refuse to release without a ledger

# --- what is released --------------------------------------------------------------------------------------------
components = 2             # for pca: how many, or "private" to estimate the number from the budget
# target = "…"             # for ridge: the name of the column to predict
alpha = "auto"             # for ridge: the penalty; "auto" is chosen from the release, at no cost
center = "private"         # "private" estimates a centre; "pairs" needs none; "none" if the columns have mean 0
scale = "private"          # divide columns by private estimates of their standard deviations: components of the
                           # correlation matrix; "none": of the covariance matrix, in the columns' own units
# robust = true            # components of the spatial signs of the rows, which resist outliers
# units = "same"           # all columns are measured in the same unit
{unit}                           # together, and the column is not used as a feature
# max_rows = 10            # with unit: equal weight for each row, at most this many per unit; default: for each unit
method = "auto"
missing = "refuse"         # missing or unreadable cells: stop; "correct": accept them and correct the results for
                           # them; "drop": replace a row that has such a cell by the centre
# missing_codes = [-99, 9999]  # numbers or dates that stand for a missing cell in all columns, by the codebook; with
                           # missing = "correct". Without this line -99 is a number like any other

# --- the size of a row -------------------------------------------------------------------------------------------
# Optional. Public bounds reduce the noise: lower and upper for every column used, below, or the norm of a row:
# bound = 10.0             # "private" estimates one from the budget, for methods that need it
# rescale = true           # rescale every column to [0, 1] by its bounds, so that units do not matter

{file}# --- columns -----------------------------------------------------------------------------------------------
# Columns are read in this order. One that is not listed, or has use = false, is not read. You can declare:
#   type = "number", "bool", "date" or "timestamp"; bool is true or false, 0 or 1: for other words use levels
#   categories = ["f", "m"]             categories, without a type; a value that is not listed is a missing cell
#   levels = ["none", "mild", "severe"] an ordinal scale, lowest level first, without a type
#   lower = 100, upper = 230            the possible values of this column: others are clipped to them,
#   outside = "missing"                 or are missing cells. If all columns have both, they are bounds of the rows
#   missing_codes = [-99, 9999]         numbers or dates that stand for a missing cell, by the codebook
#   transform = "log"                   for skewed amounts; "log1p" for counts; "asinh", "signed-sqrt"; "rank" with
#                                       public quantiles = [0, 10, 25, 80]
#   unit_of_measure = "cm"              for tables and pictures
"""
_ROW_NUMBERS = ("rownames", "row.names", "row_names", "unnamed: 0", "index")
_CATEGORIES = '# categories = ["…", "…"]\n'


_FILE = {
    "separator": (";", 'between fields; "," by default'),
    "decimal": (",", "the decimal mark, if numbers are written 1,5"),
    "thousands": (".", "between groups of three digits, if they are written 1.000"),
    "encoding": ("cp1252", 'or "latin-1", "utf-16"; "utf-8" by default'),
    "quote": ("'", 'the quotation mark around fields, or "none"'),
    "date_format": ("%d.%m.%Y", "the format of dates and times; 2020-12-31 by default"),
    "header": (1, "the line that has the names; 0: none, give names = [...]"),
    "comment": ("#", "skip lines above the header that begin with this"),
    "sheet": ("Sheet1", "the sheet, or its number; the first by default"),
}
_WRITTEN = {"xlsx": ("sheet", "header", "decimal", "date_format"), "jsonl": ("decimal", "date_format")}
_OF_CSV = tuple(name for name in _FILE if name != "sheet")


@reads_files("skip")
def init(
    file: Annotated[Path, typer.Argument(help="A CSV, TSV, Excel, Parquet, Feather or ORC file, or a folder.")],
    out: Annotated[Path, typer.Option(help="The file to write; must not exist.")] = Path("study.toml"),
    *,
    reading: dict[str, Any],
) -> None:
    """Write a commented settings file for a table, from its schema and never from its values."""
    with one_line_errors():
        from dpeigen.sources.files import columns_of, look
        from dpeigen.sources.layout import PLAIN, Layout

        if not file.exists():
            raise UnreadableError(f"No such file or folder: {file}. Give the path of the table.")
        given = reading_of(reading, Study({}, None))
        kind, said = "", []
        if file.suffix.lower() != ".npy":
            files, kind, _, _ = look(file, Layout.of(given) or PLAIN)
            said = look_at_header(files[0], given) if kind in ("csv", "tsv") else []
        columns = columns_of(file, Layout.of(given) or PLAIN)
        text = render(columns, _file(_OF_CSV if kind in ("csv", "tsv") else _WRITTEN.get(kind, ()), given))
        try:
            with out.open("x", encoding="utf-8") as target:
                target.write(text)
        except FileExistsError:
            raise ValueError(f"{out} exists already and is not overwritten. Choose another name with --out.") from None
        one = len(columns) == 1
        typer.echo(f"Wrote {out}: {len(columns)} column{'' if one else 's'}, no value read.")
        if one and kind in ("csv", "tsv", "xlsx"):
            typer.echo("If the names of the columns are further down in the file, give their line: --header 3.")
        for line in said:
            typer.echo(line)
        if (whose := whose_row(columns)) is not None:
            typer.echo(
                f"Column {clean(whose)!r} looks like the id of a person or other unit, so unit = "
                f"{clean(quoted(whose))} is declared: all rows with the same id are protected together. Delete that "
                "line if the column is something else."
            )
        typer.echo(
            f"Fill in epsilon, and bounds where they are public. Then try: dpeigen pca {file} --config {out} --dry-run"
        )


def look_at_header(file: Path, given: dict[str, Any]) -> list[str]:
    """Add what the header line shows about the format of the file; returns messages about it."""
    from dpeigen.sources.csv_rows import header_text, likely_encoding, likely_separator, names_in
    from dpeigen.sources.layout import PLAIN, Layout

    said = []
    if "encoding" not in given and header_text(file, Layout.of(given) or PLAIN) is None:
        given["encoding"] = likely_encoding(file)
        said.append(
            f'The header line is not in UTF-8, so encoding = "{given["encoding"]}" is declared. Check the column '
            "names; if they are wrong, give --encoding."
        )
    layout = Layout.of(given) or PLAIN
    if file.name.lower().rpartition(".csv")[1]:
        line = header_text(file, layout) or ""
        mark = likely_separator(line, layout) if "separator" not in given and len(names_in(line, layout)) == 1 else None
        if mark is not None:
            given["separator"] = mark
            said.append(f"The header line is separated by {mark!r}, so separator = {_toml(mark)} is declared.")
            if mark == ";" and "decimal" not in given:
                said.append('Such files often have decimal commas. If this one does, declare decimal = "," in it.')
    return said


def _file(names: tuple[str, ...], given: dict[str, Any]) -> str:
    """The settings about the file: those that are given, and others as comments."""
    if not names:
        return ""
    head = (
        "# --- how the file is written ".ljust(115, "-")
        + "\n# Look at the file's documentation, or at its header line.\n"
    )
    lines = []
    for name in names:
        line = f"{name} = {_toml(given.get(name, _FILE[name][0]))}"
        line = line if name in given else f"# {line}"
        lines.append(f"{line:<26} # {_FILE[name][1]}\n")
    if "names" in given:
        lines.append(f"names = {_toml(given['names'])}\n")
    return head + "".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml(part) for part in value) + "]"
    return str(value) if isinstance(value, int) else quoted(value)


def render(columns: dict[str, Any], file: str = "") -> str:
    """The text of the file; a type of None is that of a CSV column."""
    typed = any(kind is not None for kind in columns.values())
    whose = whose_row(columns)
    line = f"unit = {quoted(whose)}" if whose is not None else '# unit = "patient_id"'
    unit = f"{line:<26} # the id column, if a person may have several rows: all rows of a person are protected\n"
    tables = [f"\n[columns.{quoted(name)}]\n{_body(name, kind, whose)}" for name, kind in columns.items()]
    return _HEAD.format(types=" and types" if typed else "", unit=unit, file=file) + "".join(tables)


def whose_row(columns: Iterable[str]) -> str | None:
    """The first column whose name looks like the id of a person or other unit; None if there is none."""
    from dpeigen.sources.ids import looks_like_id

    return next((name for name in columns if looks_like_id(name)), None)


def _body(name: str, kind: Any, whose: str | None = None) -> str:
    if name == whose:
        return "use = false  # looks like the id of a person: see unit, above; delete that line if it is not\n"
    if not name.strip() or name.startswith("__index_level_") or name.strip().lower() in _ROW_NUMBERS:
        return "use = false  # looks like row numbers\n"
    declared, text = declared_type(kind)
    if text:
        return f"use = false  # {text}: list its categories and delete this line, or do not use it\n{_CATEGORIES}"
    lines = f'type = "{declared}"'
    if kind is None:
        lines += '  # or "bool", "date", "timestamp"; for categories, delete this line and use the last one'
    if declared == "bool":
        return lines + "\n"
    examples = {"date": ("1990-01-31", "2020-12-31"), "timestamp": ("1990-01-31T00:00:00", "2020-12-31T00:00:00")}
    low, high = examples.get(declared, ("0", "1"))
    lines += f"\n# lower = {low}\n# upper = {high}\n"
    return lines + (_CATEGORIES if kind is None else "")


def declared_type(kind: Any) -> tuple[str, str]:
    """The type to declare, and for a column that is not a number, what it is."""
    if kind is None:
        return "number", ""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(kind) or kinds.is_string(kind) or kinds.is_large_string(kind):
        return "", "text"
    for name, fits in (("bool", kinds.is_boolean), ("date", kinds.is_date), ("timestamp", kinds.is_timestamp)):
        if fits(kind):
            return name, ""
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
        return "number", ""
    return "", f"{kind}"


def quoted(name: str) -> str:
    """A TOML string: JSON's escapes are among TOML's."""
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
