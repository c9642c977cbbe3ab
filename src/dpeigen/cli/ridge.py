"""``dpeigen ridge FILE --target COLUMN``: a private ridge regression of a table in a file, written as a release.

What is released is one covariance of all columns used, so the release answers regressions on other columns too.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dpeigen.cli import _options as option
from dpeigen.cli._reading import reads_files
from dpeigen.cli._run import run


@reads_files()
def ridge(
    file: option.File,
    target: Annotated[str | None, typer.Option("--target", "-y", help="The column to explain by the others.")] = None,
    alpha: Annotated[
        str | None,
        typer.Option(help="Penalty ≥ 0 as in scikit-learn; auto (the default) chooses it, for free, from the release."),
    ] = None,
    epsilon: option.Epsilon = None,
    delta: option.Delta = None,
    bound: option.Bound = None,
    lower: option.Lower = None,
    upper: option.Upper = None,
    center: option.Center = None,
    method: option.Method = None,
    relation: option.Relation = None,
    ledger: option.LedgerFile = None,
    config: option.Config = None,
    columns: option.Columns = None,
    category: option.Category = None,
    column_type: option.ColumnType = None,
    ordinal: option.Ordinal = None,
    transform: option.Transform = None,
    limits: option.Limits = None,
    outside: option.Outside = None,
    measure: option.Measure = None,
    scale: option.Scale = None,
    robust: option.Robust = None,
    units: option.Units = None,
    unit: option.Unit = None,
    max_rows: option.MaxRows = None,
    rescale: option.Rescale = None,
    missing: option.Missing = None,
    on_bad_row: option.OnBadRow = None,
    out: option.Out = None,
    dry_run: option.DryRun = False,
    rows: option.Rows = None,
    as_json: option.Json = False,
    *,
    reading: dict[str, Any],
) -> None:
    """Release a ridge regression of one column on the others with differential privacy."""
    run("ridge", locals())
