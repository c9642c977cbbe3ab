"""Opening of everything that users may have as a source of rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpeigen._validate import complain
from dpeigen.sources.base import Source
from dpeigen.sources.columns import Categories, Columns, Types, Wanted, as_wanted, check_unit, refuse_repeated
from dpeigen.sources.frames import plain_frame
from dpeigen.sources.ids import encoded, joined
from dpeigen.sources.layout import PLAIN, Layout
from dpeigen.sources.memory import ArraySource, BlockSource, FrameSource
from dpeigen.sources.objects import is_real, table_of
from dpeigen.sources.schemas import of_pandas, of_polars
from dpeigen.sources.units import UnitsByPlace, UnitSource
from dpeigen.sources.wide_integers import narrowed

__all__ = ["as_table", "name_of_ids", "open_if_known", "open_source", "open_units", "taken_out"]

_SEMICOLONS = (
    "Files with semicolons often have decimal commas. Without decimal=',' cells such as 1,5 are not read as numbers. "
    "With missing='correct' they would be missing cells. Declare decimal=',' or decimal='.'."
)


def open_source(
    data: Any,
    *,
    columns: Wanted = None,
    categories: Categories | None = None,
    types: Types | None = None,
    unit: Any = None,
    skip: Sequence[str] | None = None,
    **reading: Any,
) -> Source:
    """Open a table, a file, a folder, blocks, a Dask collection or a Spark frame, with columns declared.

    Parameters
    ----------
    data : array, table, path, collection, frame or blocks
        An array or memory map; a pandas, Polars or PyArrow table; the path of a Parquet, Feather, ORC, CSV, TSV, Excel
        (.xlsx), JSON lines or NumPy file or of a folder of them; a Dask array or frame; a Spark frame; an iterator of
        blocks, or a function that makes one. Text files may be compressed (.csv.gz, .csv.bz2, .csv.zst).
    columns : list, dict or "schema", default=None
        Names of the columns to use, in this order; None: all. Or a dictionary of them with what is declared about each,
        which is public: None (a number, or a truth value), a type, or a dictionary with some of ``type`` ("number",
        "bool", "date", "timestamp", "category", "ordinal"), ``categories`` (the list of a category), ``levels`` (of an
        ordinal scale, in their order), ``transform`` ("log", "log1p", "asinh", "signed-sqrt", or "rank" with
        ``quantiles``), ``lower``, ``upper``, ``outside`` ("clip", or "missing" for numbers beyond them),
        ``missing_codes`` (numbers or dates that stand for a missing cell, such as ``[-99, 9999]``) and
        ``unit_of_measure`` ("cm"). ``...: None`` in it means all other columns, as numbers, and
        ``...: {"missing_codes": [-99]}`` all others with these codes. "category" and "ordinal"
        without a list take the list of the column's own type. "schema": all columns by their own types. With both of
        these you state that the table's types, and the lists of categories in them, are public and were not made from
        the values.
    categories : dict of name to list, default=None
        For a column, the public list of its categories. It becomes one column of 0 and 1 for each category. A value
        that is not on the list is a missing cell: NaN in all of these columns.
    types : dict of name to str, default=None
        For a column, "number", "bool", "date" (days since 1970-01-01) or "timestamp" (seconds since then), if its own
        type does not say it.
    unit : str or array of ids, default=None
        The name of the column of ids, which is then not used as a feature; or one id for each row. A fit then protects
        people (or whatever the unit is), however many rows they have.
    skip : list of str, default=None
        Names of columns to leave out, instead of ``columns``.
    **reading : how to read a file
        ``separator``: the character between the fields of a line; by default "," or, for .tsv, a tab.

        ``decimal``: the decimal mark, "." or ",". Text with the other one is not read as a number.

        ``thousands``: the character between groups of three digits; none by default. " " means all kinds of blanks.

        ``encoding``: "utf-8" by default; "latin-1", "cp1252", "utf-16" and others.

        ``quote``: the quotation mark around fields, or "none".

        ``date_format``: the format of dates and times, such as "%d.%m.%Y", or a list of formats: the first that fits a
        cell is used. The default is ISO. With %y, 69 to 99 are in the 1900s.

        ``header``: the number of the line (or of the row of a sheet) with the names; lines before it are skipped.
        0: there is none, and ``names`` gives the names of all columns of the file.

        ``comment``: lines above the header that begin with this text are skipped and not counted. Every line below the
        header is a row.

        ``sheet``: of a workbook, the name or the number of the sheet; the first by default.

    Returns
    -------
    Source
        What estimators read; no row is read yet.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"age": [30.0, 41.0], "sex": ["f", "m"]})
    >>> open_source(table, categories={"sex": ["f", "m"]}).feature_names
    ['age', 'sex=f', 'sex=m']
    """
    layout = Layout.of(reading)
    if reading.get("separator") == ";" and "decimal" not in reading:
        warnings.warn(_SEMICOLONS, UserWarning, stacklevel=2)
    declared = (as_wanted(columns, skip), categories, types)
    if layout is not None:
        _check_path(data)
    if unit is not None:

        def rows(rest: Any) -> Source:
            kept = reading if isinstance(rest, (str, Path)) else {}
            return open_source(rest, columns=columns, categories=categories, types=types, skip=skip, **kept)

        return open_units(data, unit, rows, *declared, layout=layout or PLAIN)
    if layout is not None:
        from dpeigen.sources.arrow import open_files

        return open_files(data, *declared, layout=layout)
    source = open_if_known(data, *declared)
    if source is None:
        array = _array(data)
        if array.ndim != 2 or not is_real(array):
            raise ValueError(
                f"The data must be a table of real numbers. Got {type(data).__name__} of {array.ndim} dimensions."
            )
        source = ArraySource(array, typed=isinstance(data, np.ndarray))
    if not source.feature_names and any(part is not None for part in declared):
        raise ValueError("These data have no column names, so columns cannot be chosen or declared by name.")
    return source


def _check_path(data: Any) -> None:
    if not isinstance(data, (str, Path)):
        raise ValueError(
            f"How a file is written can be declared for paths of files only. Got a {type(data).__name__}. Leave out "
            "separator, decimal, encoding and the like."
        )


def open_if_known(
    data: Any,
    columns: Wanted = None,
    categories: Categories | None = None,
    types: Types | None = None,
) -> Source | None:
    """`open_source`, or None if ``data`` is to be read as an array."""
    if isinstance(data, Source):
        if (columns, categories, types) != (None, None, None):
            raise ValueError("Declare columns where the source is made: these data are a source already.")
        return data
    if isinstance(data, (str, Path)):
        from dpeigen.sources.arrow import open_files

        return open_files(data, columns, categories, types)
    opener = _OPENERS.get(type(data).__module__.split(".")[0])
    if opener is not None:
        return opener(data, columns, categories, types)
    if isinstance(data, Iterator) or (callable(data) and not hasattr(data, "__array__")):
        return BlockSource(data)
    return None


def open_units(
    data: Any,
    unit: Any,
    open_rows: Callable[[Any], Source],
    *declared: Any,
    layout: Layout = PLAIN,
    name: str | None = None,
) -> UnitSource:
    """A source of rows that belong to people, by the name of a column of ids, or by ids in the order of the rows.

    ``open_rows`` opens a table in memory without its column of ids. ``declared``: columns, categories and types.
    ``name``: the name of the unit if ids are given, or None.
    """
    if not isinstance(unit, str):
        rows = open_rows(data)
        if isinstance(rows, UnitSource) or not rows.fixed_order:
            must = "the name of a column of X, whose rows have no fixed order to match ids to"
            raise ValueError(complain("unit", "fit", must, f"a {type(unit).__name__}"))
        codes, name = encoded(unit), name or name_of_ids(unit)
        if name in (rows.feature_names or ()):
            must = f"the name {name!r}, since X has that column: an id column is not used as a feature"
            raise ValueError(complain("unit", "fit", must, f"a {type(unit).__name__}"))
        return UnitsByPlace(rows, lambda: codes, name)
    if isinstance(data, Source):
        raise ValueError(complain("unit", "fit", "named where the source is made: open_source(…, unit=…)", unit))
    if isinstance(data, (str, Path)):
        return _units_of_files(data, unit, layout, *declared)
    kind = type(data).__module__.split(".")[0]
    if kind in ("dask", "dask_expr", "pyspark") or (kind == "polars" and hasattr(data, "sink_parquet")):
        return _ENGINES[kind](data, unit, *declared)
    ids, rest = taken_out(data, unit)
    codes = encoded(ids)
    return UnitsByPlace(open_rows(rest), lambda: codes, unit)


def name_of_ids(ids: Any) -> str:
    """The name of units whose ids are given separately: that of the column, if it has one."""
    name = getattr(ids, "name", None)
    return name if isinstance(name, str) and name.strip() else "unit"


def taken_out(data: Any, unit: str) -> tuple[Any, Any]:
    """The column of ids of a table in memory, and the table without it."""
    kind = type(data).__module__.split(".")[0]
    named = kind in ("pandas", "polars", "pyarrow") and getattr(data, "ndim", 2) == 2
    if kind == "pyarrow" and hasattr(data, "to_table"):
        data = data.to_table()  # a data set
    names = list(data.column_names if kind == "pyarrow" else data.columns) if named else []
    if not names:
        must = "one id for each row, where X has no names of columns"
        raise ValueError(complain("unit", "fit", must, unit, "Give them to fit: fit(X, unit=ids)."))
    check_unit(unit, [], names)
    if kind == "pyarrow":
        return data.column(unit), data.select([name for name in names if name != unit])
    return data[unit], data[[name for name in names if name != unit]]


def _units_of_files(path: str | Path, unit: str, layout: Layout, *declared: Any) -> UnitSource:
    from dpeigen.sources.arrow import open_files

    columns, categories, types = declared or (None, None, None)
    rows: Any = open_files(path, columns, categories, types, unit, layout)
    if not hasattr(rows, "cells"):
        must = "one id for each row, where a file holds an array without names of columns"
        raise ValueError(complain("unit", "fit", must, unit, "Give them to fit: fit(X, unit=ids)."))
    return UnitsByPlace(rows, lambda: joined(rows.cells(unit)), unit)


def as_table(X: Any, width: int | None = None) -> tuple[Any, bool]:
    """Lists, arrays and frames of objects as tables of numbers, anything else unchanged.

    Also returns whether some cell of theirs was neither a number nor missing. ``width``: the number of columns, if
    known. The types of other arrays and frames are public.
    """
    if type(X).__module__.split(".")[0] == "pandas":
        return (plain_frame(X) if getattr(X, "ndim", 0) == 2 else X), False
    objects = getattr(getattr(X, "dtype", None), "kind", "") == "O" and getattr(X, "ndim", 0) == 2
    found = table_of(X, width) if objects or isinstance(X, (list, tuple)) else None
    return (X, False) if found is None else found


def _array(data: Any) -> Any:
    try:
        return np.asarray(as_table(data)[0])
    except (ValueError, TypeError):  # its message may contain an entry
        return np.empty(0)


def _pyarrow(data: Any, *declared: Any) -> Source:
    from dpeigen.sources.arrow import open_dataset

    return open_dataset(data, *declared)


def _pandas(data: Any, columns: Any, categories: Any, types: Any) -> Source | None:
    names = list(getattr(data, "columns", []))
    if getattr(data, "ndim", 0) != 2 or not names or not all(isinstance(name, str) for name in names):
        return None
    refuse_repeated(names)
    undeclared = columns is None and not categories and not types
    kinds = {str(dtype) for dtype in data.dtypes}  # not a set of types: the hash of categories depends on their values
    if undeclared and len(kinds) == 1 and data.dtypes.iloc[0].kind != "O":
        return None  # already one array of one type
    return FrameSource(data, Columns(names, columns, categories, types, own=partial(of_pandas, data)))


def _polars(data: Any, *declared: Any) -> Source | None:
    from dpeigen.sources.arrow import ArrowSource

    if hasattr(data, "collect_schema") and hasattr(data, "sink_parquet"):  # lazy
        from dpeigen.sources.lazy import LazySource, schema_of

        return LazySource(data, Columns(data.collect_schema().names(), *declared, own=partial(schema_of, data)))
    if not (hasattr(data, "to_arrow") and hasattr(data, "columns")):
        return None
    return ArrowSource(narrowed(data).to_arrow(), *declared, own=partial(of_polars, data.schema))


def _dask(data: Any, *declared: Any) -> Source:
    from dpeigen.sources.dask import DaskSource

    return DaskSource(data, *declared)


def _spark(data: Any, *declared: Any) -> Source:
    from dpeigen.sources.spark import SparkSource

    return SparkSource(data, *declared)


def _dask_units(data: Any, unit: str, *declared: Any) -> UnitSource:
    from dpeigen.sources.dask import DaskUnits

    return DaskUnits(data, unit, *declared)


def _spark_units(data: Any, unit: str, *declared: Any) -> UnitSource:
    from dpeigen.sources.spark import SparkUnits

    return SparkUnits(data, unit, *declared)


def _lazy_units(data: Any, unit: str, *declared: Any) -> UnitSource:
    from dpeigen.sources.lazy import LazyUnits

    return LazyUnits(data, unit, *declared)


_ENGINES: dict[str, Callable[..., UnitSource]] = {
    "dask": _dask_units,
    "dask_expr": _dask_units,
    "pyspark": _spark_units,
    "polars": _lazy_units,
}


def _scipy(data: Any, *declared: Any) -> Source | None:
    from dpeigen.sources.sparse import SparseSource, is_sparse

    if not is_sparse(data):
        return None
    if any(given is not None for given in declared):
        raise ValueError("A sparse matrix has no column names, so columns cannot be chosen or declared by name.")
    return SparseSource(data)


_OPENERS: dict[str, Callable[..., Source | None]] = {
    "scipy": _scipy,
    "pyarrow": _pyarrow,
    "pandas": _pandas,
    "polars": _polars,
    "dask": _dask,
    "dask_expr": _dask,
    "pyspark": _spark,
}
