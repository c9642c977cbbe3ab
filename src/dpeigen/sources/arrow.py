"""Rows in Arrow tables and in Parquet, Feather and CSV files or folders, read a batch at a time.

The schema is public, values are not: every column must be numeric by its declared type (CSV columns are read as
numbers), and a value that does not parse is reported without being shown.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.base import Source, UnreadableRowsError

if TYPE_CHECKING:
    import pyarrow as pa

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".csv": "csv",
}
_BATCH_ROWS = 2**16
T = TypeVar("T")


class ArrowSource(Source):
    """A PyArrow table or data set."""

    def __init__(self, data: Any, columns: list[str] | None = None) -> None:
        import pyarrow.dataset as ds

        self._dataset = data if isinstance(data, ds.Dataset) else ds.dataset(data)
        schema = self._dataset.schema
        names = list(schema.names) if columns is None else list(columns)
        if not names:
            raise ValueError("The data have no columns.")
        if len(set(names)) < len(names):
            raise ValueError(f"Column names must differ from each other. Got {names}.")
        missing = [name for name in names if name not in schema.names]
        if missing:
            raise ValueError(f"Columns {missing} are not among the {len(schema.names)} columns of the data.")
        index = [name for name in names if not name.strip() or name.startswith("__index_level_")]
        if index:
            raise ValueError(
                f"Columns {index} look like row numbers of a data frame. Leave them out: name the columns to use."
            )
        _refuse_text(schema, names)
        self.feature_names, self.n_features = names, len(names)
        self.n_rows = _rows_by_metadata(self._dataset)

    def blocks(self) -> Iterator[NDArray[np.float64]]:
        batches = _discreetly(lambda: self._dataset.to_batches(columns=self.feature_names, batch_size=_BATCH_ROWS))
        while (block := _discreetly(lambda: _as_array(next(batches, None)))) is not None:
            if len(block):
                yield block

    def whole_blocks(self) -> Iterator[NDArray[np.float64]]:
        # Readers cut batches by bytes, so their borders depend on the values; pairs must be drawn within blocks whose
        # borders depend on row numbers only, or one changed row could move every pair after it.
        kept: list[NDArray[np.float64]] = []
        rows = 0
        for block in self.blocks():
            kept.append(block)
            rows += len(block)
            while rows >= _BATCH_ROWS:
                joined = np.concatenate(kept)
                yield joined[:_BATCH_ROWS]
                kept, rows = [joined[_BATCH_ROWS:]], rows - _BATCH_ROWS
        if rows:
            yield np.concatenate(kept)


def _discreetly(call: Callable[[], T]) -> T:
    """What the call returns. Arrow's messages may quote a value or a whole line of the data, so they are dropped."""
    import pyarrow as pa

    try:
        return call()
    except (pa.ArrowException, OSError):
        pass
    raise UnreadableRowsError(  # outside the handler: the error does not carry Arrow's as its context
        "The data could not be read: a file is damaged, lines differ in length, or a column holds something that "
        "is not a number. Nothing was spent."
    )


def _rows_by_metadata(dataset: Any) -> int | None:
    """The number of rows where a table or a file's footer tells it; CSV would have to be read in full."""
    import pyarrow.dataset as ds

    counted = (ds.ParquetFileFormat, ds.IpcFileFormat)
    if not isinstance(dataset, ds.InMemoryDataset) and not isinstance(getattr(dataset, "format", None), counted):
        return None
    return _discreetly(lambda: int(dataset.count_rows()))


def _as_array(batch: pa.RecordBatch | None) -> NDArray[np.float64] | None:
    if batch is None:
        return None
    columns = [c.cast("float64", safe=False).to_numpy(zero_copy_only=False) for c in batch.columns]
    return np.column_stack(columns)


def _refuse_text(schema: pa.Schema, names: list[str]) -> None:
    import pyarrow.types as types

    bad = [
        f"{name} ({schema.field(name).type})"
        for name in names
        if not (types.is_integer(t := schema.field(name).type) or types.is_floating(t) or types.is_boolean(t))
    ]
    if bad:
        raise ValueError(f"Columns must be numeric. Leave out or encode: {', '.join(bad)}.")


def open_files(path: str | Path, columns: list[str] | None = None) -> ArrowSource:
    """Parquet, Feather or CSV by the file's ending; a folder is one data set of Parquet files."""
    import pyarrow.csv
    import pyarrow.dataset as ds

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"No such file or folder: {path}")
    kind = "parquet" if path.is_dir() else _FORMATS.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"Cannot tell the format of {path.name!r}. Supported endings: {', '.join(_FORMATS)}.")
    schema = _csv_schema(path) if kind == "csv" else None
    # A blank line is a row with nothing in it, not no row: the number of rows must not depend on values.
    blank_lines = pyarrow.csv.ParseOptions(ignore_empty_lines=False)
    reader = ds.CsvFileFormat(parse_options=blank_lines) if kind == "csv" else kind
    return ArrowSource(_discreetly(lambda: ds.dataset(path, format=reader, schema=schema)), columns)


def _csv_schema(path: Path) -> pa.Schema:
    """Every column of the header line, as a number: types are declared, never inferred from values."""
    import pyarrow as pa

    with path.open("rb") as lines:
        header = lines.readline()
    try:
        names = next(csv.reader([header.decode("utf-8-sig")], strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        names = []
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise UnreadableRowsError(f"The columns of {path.name!r} must be separated by commas.")
    if not names or any(_is_number(name) for name in names):
        raise UnreadableRowsError(
            f"The first line of {path.name!r} must hold column names in UTF-8 with commas between, not numbers: they "
            "are public, and a row must not become so."
        )
    return pa.schema([(name, pa.float64()) for name in names])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
