"""The options that `pca`, `covariance` and `ridge` share, each written down once.

None means: not given here. Then the file of ``--config`` decides, and after it the default that the help names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "FITTING",
    "Author",
    "Bound",
    "Category",
    "Center",
    "ColumnType",
    "Columns",
    "Config",
    "Contact",
    "Delta",
    "Description",
    "DryRun",
    "Epsilon",
    "File",
    "Json",
    "LedgerFile",
    "Limits",
    "Lower",
    "MaxRows",
    "Measure",
    "Method",
    "Missing",
    "OnBadRow",
    "Ordinal",
    "Out",
    "Outside",
    "Population",
    "Relation",
    "Rescale",
    "Robust",
    "Rows",
    "Scale",
    "Title",
    "Transform",
    "Unit",
    "Units",
    "Upper",
]

_BUDGET, _DATA, _OUTPUT, _CARD = "Privacy", "Data", "Output", "Card"


def _methods(incomplete: str) -> list[str]:
    """For the shell's completion."""
    from dpeigen.methods import METHODS

    return [name for name in ("auto", *METHODS) if name.startswith(incomplete)]


def _one_of(*words: str) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


File = Annotated[Path, typer.Argument(help="A CSV, TSV, Excel, Parquet, Feather, ORC or JSON lines file, or a folder.")]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder for the release and its card; must not hold one already. Needed unless --dry-run.",
        rich_help_panel=_OUTPUT,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        help="A TOML file with settings, columns, categories and bounds; `dpeigen init FILE` writes one to fill in. "
        "Options given here come first.",
        rich_help_panel=_DATA,
    ),
]
Epsilon = Annotated[
    float | None, typer.Option(help="Privacy loss ε > 0. There is no default.", rich_help_panel=_BUDGET)
]
Delta = Annotated[
    float | None, typer.Option(help="δ in [0, 1); 0, the default, asks for pure privacy.", rich_help_panel=_BUDGET)
]
Bound = Annotated[
    str | None,
    typer.Option(
        help="Public bound on the length of a row (its distance from 0), or 'private' to pay for one.",
        rich_help_panel=_BUDGET,
    ),
]
Lower = Annotated[
    str | None,
    typer.Option(help="Public lower bounds of the columns: a number or a,b,c.", rich_help_panel=_BUDGET),
]
Upper = Annotated[
    str | None,
    typer.Option(help="Public upper bounds of the columns: a number or a,b,c.", rich_help_panel=_BUDGET),
]
Rescale = Annotated[
    bool | None,
    typer.Option(
        "--rescale/--no-rescale",
        help="Bring every column to [0, 1] by its public bounds first, so that its unit does not matter.",
        rich_help_panel=_DATA,
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(
        help="What columns are divided by: private pays for their deviations, which gives the components of the "
        "correlation matrix; public deviations as a,b,c; none (the default): the columns' own units.",
        autocompletion=_one_of("private", "none"),
        rich_help_panel=_DATA,
    ),
]
Robust = Annotated[
    bool | None,
    typer.Option(
        "--robust/--no-robust",
        help="Directions of signs of rows, which no outlier turns, instead of those of the covariance.",
        rich_help_panel=_DATA,
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        help="same: all columns are measured in one unit, so one paid scale does for all of them.",
        autocompletion=_one_of("same"),
        rich_help_panel=_DATA,
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help="The column that says whose row it is, such as patient_id: the guarantee is then for all rows of one of "
        "them together, and the column is no feature. 'none' (the default): for one row.",
        rich_help_panel=_BUDGET,
    ),
]
MaxRows = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="With --unit: each row counts alike, and at most so many rows of one unit are used. By default every unit "
        "counts one, and its rows share that.",
        rich_help_panel=_BUDGET,
    ),
]
Center = Annotated[
    str | None,
    typer.Option(
        help="none (centred already), private (the default) or pairs.",
        autocompletion=_one_of("none", "private", "pairs"),
        rich_help_panel=_BUDGET,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(help="auto (the default), or the name of a method.", autocompletion=_methods, rich_help_panel=_BUDGET),
]
Relation = Annotated[
    str | None,
    typer.Option(
        help="Neighbouring data sets: replace (the default) or add_remove.",
        autocompletion=_one_of("replace", "add_remove"),
        rich_help_panel=_BUDGET,
    ),
]
Columns = Annotated[str | None, typer.Option(help="Columns to use, as a,b,c; all by default.", rich_help_panel=_DATA)]
Category = Annotated[
    list[str] | None,
    typer.Option(
        help="A column of categories and the public list of them, as name=a|b|c; may be repeated.",
        rich_help_panel=_DATA,
    ),
]
ColumnType = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        help="A column's declared type, as name=number|bool|date|timestamp; may be repeated.",
        rich_help_panel=_DATA,
    ),
]
Ordinal = Annotated[
    list[str] | None,
    typer.Option(
        help="A column of an ordinal scale and the public list of its levels, from the lowest on, as name=a|b|c; "
        "may be repeated.",
        rich_help_panel=_DATA,
    ),
]
Transform = Annotated[
    list[str] | None,
    typer.Option(
        help="A public transform of a column of numbers, as name=log|log1p|asinh|signed-sqrt, or name=rank:0|10|50 "
        "with public quantiles at even steps; may be repeated.",
        rich_help_panel=_DATA,
    ),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        help="The values that a column can have, as name=low..high, from what is public; may be repeated.",
        rich_help_panel=_DATA,
    ),
]
Outside = Annotated[
    str | None,
    typer.Option(
        help="Values beyond --limits: clip (the default), or missing (they are missing cells).",
        autocompletion=_one_of("clip", "missing"),
        rich_help_panel=_DATA,
    ),
]
Measure = Annotated[
    list[str] | None,
    typer.Option(
        help="The unit of measure of a column, for reports, as name=cm; may be repeated.", rich_help_panel=_DATA
    ),
]
LedgerFile = Annotated[
    str | None,  # no path: a URL would lose its slashes
    typer.Option(
        "--ledger",
        metavar="PATH",
        help="Ledger that keeps the budget of this data set: its file, or its postgresql:// URL.",
        rich_help_panel=_BUDGET,
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="Cells that are missing or unreadable: refuse (the default); correct (such cells may be missing, and "
        "results are corrected for them); or drop (a row with such a cell counts as a row at the centre).",
        autocompletion=_one_of("refuse", "correct", "drop"),
        rich_help_panel=_DATA,
    ),
]
OnBadRow = Annotated[
    str | None,
    typer.Option(help="The older name of --missing: refuse or drop-to-zero.", hidden=True, rich_help_panel=_DATA),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        "--explain",
        help="Say what would be computed, what it would cost and guarantee, and in how many passes. Reads no row, "
        "spends nothing.",
        rich_help_panel=_OUTPUT,
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        min=2,
        help="For --dry-run: the number of rows, where it is public and the file (a CSV) does not tell it. With "
        "--unit: the number of different units, such as people.",
        rich_help_panel=_OUTPUT,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print JSON, and nothing else, on standard output.", rich_help_panel=_OUTPUT),
]


def _text(help: str) -> typer.models.OptionInfo:
    return typer.Option(help=help, rich_help_panel=_CARD)


# Texts for the card: public, written by a person, kept with the release.
Title = Annotated[str | None, _text("Title of the card.")]
Author = Annotated[str | None, _text("Who makes the release; several are separated by semicolons.")]
Contact = Annotated[str | None, _text("Where questions about the release go.")]
Description = Annotated[str | None, _text("What the data are and how they were collected.")]
Population = Annotated[str | None, _text("Whom the rows stand for.")]

# What `pca`, `covariance` and `ridge` share, in the order of their help.
FITTING: dict[str, Any] = {
    "epsilon": Epsilon,
    "delta": Delta,
    "bound": Bound,
    "lower": Lower,
    "upper": Upper,
    "center": Center,
    "method": Method,
    "relation": Relation,
    "ledger": LedgerFile,
    "config": Config,
    "columns": Columns,
    "category": Category,
    "column_type": ColumnType,
    "ordinal": Ordinal,
    "transform": Transform,
    "limits": Limits,
    "outside": Outside,
    "measure": Measure,
    "scale": Scale,
    "robust": Robust,
    "units": Units,
    "unit": Unit,
    "max_rows": MaxRows,
    "rescale": Rescale,
    "missing": Missing,
    "on_bad_row": OnBadRow,
    "title": Title,
    "author": Author,
    "contact": Contact,
    "description": Description,
    "population": Population,
    "out": Out,
    "dry_run": DryRun,
    "rows": Rows,
    "as_json": Json,
}
