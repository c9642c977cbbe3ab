"""The options that `pca`, `covariance` and `ridge` share, each defined once.

None: not given. Then the file of ``--config`` decides, and after it the default that the help states.
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
    "MissingCodes",
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
    """Names of methods for the shell's completion."""
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
        help="Folder for the release and its card; must not contain a release yet. Required unless --dry-run.",
        rich_help_panel=_OUTPUT,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        help="A TOML file with settings, columns, categories and bounds; `dpeigen init FILE` writes one to fill in. "
        "Options on the command line override the file.",
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
        help="Public bound on the Euclidean norm of a row, or 'private' to estimate one with part of the budget.",
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
        help="First rescale every column to [0, 1] by its public bounds, so that its unit does not matter.",
        rich_help_panel=_DATA,
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(
        help="What columns are divided by. private: their standard deviations, estimated with part of the budget, "
        "which gives the components of the correlation matrix. a,b,c: public standard deviations. none (the "
        "default): nothing.",
        autocompletion=_one_of("private", "none"),
        rich_help_panel=_DATA,
    ),
]
Robust = Annotated[
    bool | None,
    typer.Option(
        "--robust/--no-robust",
        help="Components that resist outliers: those of the spatial signs of the rows instead of the covariance.",
        rich_help_panel=_DATA,
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        help="same: all columns are measured in the same unit, so one scale is estimated for all of them.",
        autocompletion=_one_of("same"),
        rich_help_panel=_DATA,
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help="The column that identifies the person or other unit of each row, such as patient_id. The guarantee then "
        "covers all rows of one unit together, and the column is not used as a feature. 'none' (the default): the "
        "guarantee covers one row.",
        rich_help_panel=_BUDGET,
    ),
]
MaxRows = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="With --unit: give each row the same weight and use at most this many rows of a unit. By default each "
        "unit has weight 1, divided among its rows.",
        rich_help_panel=_BUDGET,
    ),
]
Center = Annotated[
    str | None,
    typer.Option(
        help="private (the default): estimate the centre with part of the budget; pairs: use differences of pairs of "
        "rows, which need no centre; none: the columns have mean 0.",
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
        help="A categorical column and the public list of its categories, as name=a|b|c; may be repeated.",
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
        help="An ordinal column and the public list of its levels, lowest first, as name=a|b|c; may be repeated.",
        rich_help_panel=_DATA,
    ),
]
Transform = Annotated[
    list[str] | None,
    typer.Option(
        help="A public transform of a numeric column, as name=log|log1p|asinh|signed-sqrt, or name=rank:0|10|50 "
        "with public quantiles at evenly spaced probabilities; may be repeated.",
        rich_help_panel=_DATA,
    ),
]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        help="The public range of the values of one column, as name=low..high; may be repeated.",
        rich_help_panel=_DATA,
    ),
]
Outside = Annotated[
    str | None,
    typer.Option(
        help="Values outside --limits: clip (the default), or missing (treat them as missing cells).",
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
        help="The ledger that keeps the budget of this data set: a file or a postgresql:// URL.",
        rich_help_panel=_BUDGET,
    ),
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="Cells that are missing or unreadable. refuse (the default): stop. correct: accept them and correct the "
        "results for them. drop: replace a row that has such a cell by the centre.",
        autocompletion=_one_of("refuse", "correct", "drop"),
        rich_help_panel=_DATA,
    ),
]
MissingCodes = Annotated[
    list[str] | None,
    typer.Option(
        help="Numbers or dates that stand for a missing cell, as -99|9999 for all columns or name=-99|9999 for one; "
        "may be repeated. They come from the codebook, never from the table.",
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
        help="Print what would be computed, its cost, its guarantee and the number of passes over the data. Reads no "
        "row and spends nothing.",
        rich_help_panel=_OUTPUT,
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        min=2,
        help="For --dry-run: the number of rows, if it is public and the file (a CSV) does not state it. With "
        "--unit: the number of distinct units, such as people.",
        rich_help_panel=_OUTPUT,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print only JSON on standard output.", rich_help_panel=_OUTPUT),
]


def _text(help: str) -> typer.models.OptionInfo:
    return typer.Option(help=help, rich_help_panel=_CARD)


# Texts for the card: public, written by a person, kept with the release.
Title = Annotated[str | None, _text("Title of the card.")]
Author = Annotated[str | None, _text("Who makes the release; several are separated by semicolons.")]
Contact = Annotated[str | None, _text("Where to send questions about the release.")]
Description = Annotated[str | None, _text("What the data are and how they were collected.")]
Population = Annotated[str | None, _text("The population that the rows represent.")]

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
    "missing_codes": MissingCodes,
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
