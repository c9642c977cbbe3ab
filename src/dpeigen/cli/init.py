"""``dpeigen init FILE``: a commented file of settings for a table, from the names and types of its columns.

No value is read: names and types come from the schema, and of a CSV file, which states no types, only the header line.
Bounds and categories are left for a person to fill in, from what is public about the study.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from dpeigen.cli._errors import UnreadableError, one_line_errors

_HEAD = """\
# Settings for: dpeigen pca|covariance|ridge FILE --config THIS --out FOLDER
# Made from the names{types} of the columns. No value was read, and none may be used to fill this in:
# bounds and categories come from what is public (a questionnaire, an instrument, a protocol), never from the table.

# --- the promise -----------------------------------------------------------------------------------------------
# epsilon = 1.0            # privacy loss; there is no default. Below 1 is strong, above 4 is weak.
delta = 0.0                # 0: pure privacy. Else well below 1 / number of rows, such as 1e-6.
relation = "replace"       # neighbours differ in the values of one row; "add_remove": by one row more or less
# ledger = "study.ledger"  # keeps the budget of this data set; a path from this file, or a postgresql:// URL
# require_ledger = true    # refuse to release without a ledger

# --- what is released --------------------------------------------------------------------------------------------
components = 2             # for pca: how many, or "private" to pay for the number
# target = {example}  # for ridge: the column to explain
alpha = "auto"             # for ridge: the penalty; "auto" is chosen from the release, for free
center = "private"         # "private" pays for a centre; "pairs" needs none; "none" if the columns have mean 0
scale = "private"          # columns in units of their deviations, which are paid for: the components are those of the
                           # correlation matrix; "none": of the covariance, in the columns' own units
# robust = true            # directions of signs, which outliers do not turn, instead of those of the covariance
# units = "same"           # all columns are measured in one unit
method = "auto"
on_bad_row = "refuse"      # or "drop-to-zero": a row that is not all numbers counts as a row at the centre

# --- the size of a row -------------------------------------------------------------------------------------------
# None is needed. If one is public, it helps: lower and upper for every column used, below, or the length of a row:
# bound = 10.0             # "private" pays for a radius from the budget, for methods that need one
# rescale = true           # bring every column to [0, 1] by its bounds, so that units do not matter

# --- columns -----------------------------------------------------------------------------------------------------
# Columns are read in this order; one that is not listed, or has use = false, is not read.
"""
_CATEGORIES = '# categories = ["…", "…"]\n'


def init(
    file: Annotated[Path, typer.Argument(help="A CSV (with a header line), Parquet or Feather file, or a folder.")],
    out: Annotated[Path, typer.Option(help="The file to write; must not exist.")] = Path("study.toml"),
) -> None:
    """Write a commented file of settings for a table, from its schema and never from its values."""
    with one_line_errors():
        from dpeigen.sources.arrow import columns_of

        if not file.exists():
            raise UnreadableError(f"No such file or folder: {file}. Give the path of the table.")
        columns = columns_of(file)
        text = render(columns)
        try:
            with out.open("x", encoding="utf-8") as target:
                target.write(text)
        except FileExistsError:
            raise ValueError(f"{out} exists already and is not overwritten. Choose another name with --out.") from None
        typer.echo(f"Wrote {out}: {len(columns)} columns, no value read.")
        typer.echo(
            f"Fill in epsilon, and bounds where they are public. Then try: dpeigen pca {file} --config {out} --dry-run"
        )


def render(columns: dict[str, Any]) -> str:
    """The text of the file; a type of None is that of a CSV column."""
    typed = any(kind is not None for kind in columns.values())
    example = _quoted(next(reversed(columns), "name"))
    tables = [f"\n[columns.{_quoted(name)}]\n{_body(name, kind)}" for name, kind in columns.items()]
    return _HEAD.format(types=" and types" if typed else "", example=example) + "".join(tables)


def _body(name: str, kind: Any) -> str:
    if not name.strip() or name.startswith("__index_level_"):
        return "use = false  # looks like row numbers\n"
    declared, text = _declared(kind)
    if text:
        return f"use = false  # {text}: list its categories and delete this line, or leave it out\n{_CATEGORIES}"
    lines = f'type = "{declared}"'
    if kind is None:
        lines += '  # or "bool", "date", "timestamp"; for categories delete it and use the last line'
    if declared == "bool":
        return lines + "\n"
    examples = {"date": ("1990-01-31", "2020-12-31"), "timestamp": ("1990-01-31T00:00:00", "2020-12-31T00:00:00")}
    low, high = examples.get(declared, ("0", "1"))
    lines += f"\n# lower = {low}\n# upper = {high}\n"
    return lines + (_CATEGORIES if kind is None else "")


def _declared(kind: Any) -> tuple[str, str]:
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


def _quoted(name: str) -> str:
    """A TOML string: JSON's escapes are among TOML's."""
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
