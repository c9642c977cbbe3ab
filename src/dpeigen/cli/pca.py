"""``dpeigen pca FILE``: a private PCA of a table in a file, written as a release with its card."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dpeigen.cli import _options as option
from dpeigen.cli._reading import reads_files
from dpeigen.cli._run import run


@reads_files()
def pca(
    file: option.File,
    components: Annotated[
        str | None, typer.Option("--components", "-k", help="Number of components, or 'private' to pay for it.")
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
    """Release the principal components of a table with differential privacy."""
    run("pca", locals())
