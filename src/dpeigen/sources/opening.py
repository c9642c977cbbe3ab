"""Whatever a user has in hand, as a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dpeigen.sources.base import Source
from dpeigen.sources.columns import Categories, Columns, Types
from dpeigen.sources.frames import plain_frame
from dpeigen.sources.memory import ArraySource, BlockSource, FrameSource
from dpeigen.sources.objects import is_real, table_of


def open_source(
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    categories: Categories | None = None,
    types: Types | None = None,
) -> Source:
    """A source for a table, a file, a folder, blocks, a Dask collection or a Spark frame, with columns declared.

    Parameters
    ----------
    data : array or memory map; pandas, Polars or PyArrow table; path of a Parquet, Feather, CSV or NumPy file or of a
        folder of them; Dask array or frame; Spark frame; iterator of blocks, or a function that makes one.
    columns : names of the columns to use, in this order; all by default.
    categories : for a column, the public list of its categories. It becomes one column of 0 and 1 for each; a value
        that is not on the list gives 0 in all of them.
    types : for a column, "number", "bool", "date" (days since 1970-01-01) or "timestamp" (seconds since then), where
        its own type does not say it.

    >>> import pyarrow as pa
    >>> table = pa.table({"age": [30.0, 41.0], "sex": ["f", "m"]})
    >>> open_source(table, categories={"sex": ["f", "m"]}).feature_names
    ['age', 'sex=f', 'sex=m']
    """
    declared = (columns, categories, types)
    source = open_if_known(data, *declared)
    if source is None:
        array = _array(data)
        if array.ndim != 2 or not is_real(array):
            raise ValueError(
                f"The data must be a table of real numbers. Got {type(data).__name__} of {array.ndim} dimensions."
            )
        source = ArraySource(array)
    if not source.feature_names and any(part is not None for part in declared):
        raise ValueError("These data have no column names, so columns cannot be chosen or declared by name.")
    return source


def open_if_known(
    data: Any,
    columns: Sequence[str] | None = None,
    categories: Categories | None = None,
    types: Types | None = None,
) -> Source | None:
    """The same, or None for what is left to be read as an array."""
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


def as_table(X: Any, width: int | None = None) -> tuple[Any, bool]:
    """Lists, arrays and frames of objects as tables of numbers, anything else as it is.

    ``width`` is the number of columns where it is known. And whether a cell of theirs was neither a number nor missing.
    Types of other arrays and frames are public.
    """
    if type(X).__module__.split(".")[0] == "pandas":
        return (plain_frame(X) if getattr(X, "ndim", 0) == 2 else X), False
    objects = getattr(getattr(X, "dtype", None), "kind", "") == "O" and getattr(X, "ndim", 0) == 2
    found = table_of(X, width) if objects or isinstance(X, (list, tuple)) else None
    return (X, False) if found is None else found


def _array(data: Any) -> Any:
    import numpy as np

    try:
        return np.asarray(as_table(data)[0])
    except (ValueError, TypeError):  # its message may quote an entry
        return np.empty(0)


def _pyarrow(data: Any, *declared: Any) -> Source:
    from dpeigen.sources.arrow import open_dataset

    return open_dataset(data, *declared)


def _pandas(data: Any, columns: Any, categories: Any, types: Any) -> Source | None:
    names = list(getattr(data, "columns", []))
    if getattr(data, "ndim", 0) != 2 or not names or not all(isinstance(name, str) for name in names):
        return None
    undeclared = columns is None and not categories and not types
    if undeclared and len(set(data.dtypes)) == 1 and data.dtypes.iloc[0].kind != "O":
        return None  # one array already, of one type
    return FrameSource(data, Columns(names, columns, categories, types))


def _polars(data: Any, *declared: Any) -> Source | None:
    from dpeigen.sources.arrow import ArrowSource

    if hasattr(data, "collect_schema") and hasattr(data, "sink_parquet"):  # lazy
        from dpeigen.sources.lazy import LazySource

        return LazySource(data, Columns(data.collect_schema().names(), *declared))
    return ArrowSource(data.to_arrow(), *declared) if hasattr(data, "to_arrow") and hasattr(data, "columns") else None


def _dask(data: Any, *declared: Any) -> Source:
    from dpeigen.sources.dask import DaskSource

    return DaskSource(data, *declared)


def _spark(data: Any, *declared: Any) -> Source:
    from dpeigen.sources.spark import SparkSource

    return SparkSource(data, *declared)


_OPENERS: dict[str, Callable[..., Source | None]] = {
    "pyarrow": _pyarrow,
    "pandas": _pandas,
    "polars": _polars,
    "dask": _dask,
    "dask_expr": _dask,
    "pyspark": _spark,
}
