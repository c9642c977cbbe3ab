"""Rows of Arrow tables and of Parquet, Feather and ORC files or folders, in batches; opening of files of all kinds.

The schema is public, values are not: how a column is read depends on its own type and the declared one, and a cell that
does not fit is NaN. Arrow reads ahead in its own threads while statistics are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources import cells
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import AllBut, Categories, Columns, Types, Wanted, as_wanted, check_unit
from dpeigen.sources.csv_lines import PACKED
from dpeigen.sources.csv_rows import CsvSource, csv_header
from dpeigen.sources.declared import Declared
from dpeigen.sources.folders import files_in, partition_keys, partition_of
from dpeigen.sources.layout import PLAIN, Layout
from dpeigen.sources.memory import ArraySource
from dpeigen.sources.records import RecordSource, sheet_header
from dpeigen.sources.schemas import of_arrow

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowSource", "T", "columns_of", "look", "open_dataset", "open_files"]

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".orc": "orc",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".xlsx": "xlsx",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_TEXT = ("csv", "tsv", "jsonl")  # may be compressed
_BATCH_ROWS = 2**16
_BATCH_NUMBERS = 2**20
_PAGE_BYTES = 2**18
_AHEAD = 2  # batches and files read ahead: enough to overlap reading with computing, with little memory
T = TypeVar("T")


class ArrowSource(Source):
    """A PyArrow table or data set."""

    def __init__(
        self,
        data: Any,
        columns: Wanted = None,
        categories: Categories | None = None,
        types: Types | None = None,
        *,
        own: Callable[[], Mapping[str, Declared]] | None = None,
        fixed_order: bool = False,
        parquet: Sequence[Path] = (),
        keys: Sequence[str] = (),
    ) -> None:
        import pyarrow.dataset as ds

        self._dataset = data if isinstance(data, ds.Dataset) else ds.dataset(data)
        schema = self._dataset.schema
        self._columns = Columns(schema.names, columns, categories, types, own=own or partial(of_arrow, schema))
        self._keys = keys  # columns of text, to be read like those of a CSV file
        for name in self._keys:
            schema = schema.set(
                schema.get_field_index(name), schema.field(name).with_type(self._columns.csv_type(name))
            )
        self._columns.check_arrow(schema)
        self.feature_names, self.n_features = self._columns.features, len(self._columns.features)
        self.schema = self._columns.schema
        self._in_memory = isinstance(self._dataset, ds.InMemoryDataset)
        self.fixed_order = fixed_order or self._in_memory
        self._parquet = parquet  # the files, if all columns are in them
        self.n_rows = _rows_by_metadata(self._dataset)

    def blocks(self) -> Iterator[NDArray[Any]]:
        size = min(_BATCH_ROWS, max(2**10, _BATCH_NUMBERS // self.n_features))
        names, files = self._columns.names, self._parquet
        read = (lambda: _parquet_batches(files, names, size)) if files else lambda: _batches(self._dataset, names, size)
        batches = _discreetly(read)
        while (block := _discreetly(lambda: self._block(next(batches, None)))) is not None:
            if len(block):
                yield block

    def _block(self, batch: Any) -> NDArray[Any] | None:
        if batch is None:
            return None
        for name in self._keys:
            place, kind = batch.schema.get_field_index(name), self._columns.csv_kind(name)
            if kind is not None:
                batch = batch.set_column(place, name, cells.from_text(batch.column(place), kind))
        return self._columns.from_arrow(batch)

    def in_memory(self) -> NDArray[Any] | None:
        return np.concatenate([np.empty((0, self.n_features)), *self.blocks()]) if self._in_memory else None

    def cells(self, name: str) -> Iterator[Any]:
        """A column that is not a feature, unchanged, in the order of the rows."""
        files = self._parquet
        read = (lambda: _parquet_batches(files, [name], _BATCH_ROWS)) if files else (
            lambda: _batches(self._dataset, [name], _BATCH_ROWS)
        )  # fmt: skip
        batches = _discreetly(read)
        while (batch := _discreetly(lambda: next(batches, None))) is not None:
            yield batch.column(0)


def _batches(dataset: Any, names: list[str], size: int) -> Iterator[Any]:
    batches: Iterator[Any] = dataset.to_batches(
        columns=names, batch_size=size, batch_readahead=_AHEAD, fragment_readahead=_AHEAD
    )
    return batches


def _parquet_batches(files: Sequence[Path], names: list[str], size: int) -> Iterator[Any]:
    """Batches of Parquet files on a local disk.

    The scanner of a data set holds several decoded row groups at a time, which in common files are hundreds of
    megabytes. The reader of a single file goes through them page by page.
    """
    import pyarrow.parquet as pq

    for path in files:
        with pq.ParquetFile(path, buffer_size=_PAGE_BYTES, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=size, columns=names):
                yield batch.select(names)


def _discreetly(call: Callable[[], T]) -> T:
    """The result of the call. Arrow's messages may contain a value or a whole line of the data, so they are dropped."""
    import pyarrow as pa

    try:
        return call()
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        pass
    raise UnreadableRowsError(  # outside the handler, so that Arrow's error is not attached as context
        "The data could not be read: a file is damaged or gone. Nothing was spent. Write it anew."
    )


def _rows_by_metadata(dataset: Any) -> int | None:
    """The number of rows according to a table or a file's footer; None for CSV, which would have to be read in full."""
    import pyarrow.dataset as ds

    counted = ("parquet", "arrow", "feather", "orc")
    name = getattr(getattr(dataset, "format", None), "default_extname", None)
    if not isinstance(dataset, ds.InMemoryDataset) and name not in counted:
        return None
    return _discreetly(lambda: int(dataset.count_rows()))


# --- files ----------------------------------------------------------------------------------------------------------


def open_files(
    path: str | Path,
    columns: Wanted = None,
    categories: Categories | None = None,
    types: Types | None = None,
    unit: str | None = None,
    layout: Layout = PLAIN,
) -> Source:
    """Open Parquet, Feather, ORC, CSV, Excel, JSON lines or NumPy files by their endings, or a folder of one kind.

    ``unit`` names a column that is not a feature: it is left out of "all columns".

    Files of a folder, including those in its subfolders, are read in the order of their names. Names that begin with
    "." or "_" are skipped. Folders named key=value (partitioned data sets) define a column each, which is read if it is
    named in ``columns``.
    """
    path, columns = _there(path), as_wanted(columns)
    if path.suffix.lower() == ".npy":
        layout.check_kind("npy", path.name)
        return _open_array(path, columns, categories, types)
    files, kind, keys, layout = look(path, layout)
    all_of_them = columns is None or isinstance(columns, (AllBut, str))
    listed = None if all_of_them else [*columns, *([] if unit is None else [unit])]
    header, schema = _names(files[0], kind, layout, listed)
    names = [name for name in header if name not in keys]
    features = [name for name in names if name != unit]
    wanted = columns.of(features) if isinstance(columns, AllBut) else features if columns is None else columns
    own = None if schema is None else partial(of_arrow, schema)
    if isinstance(wanted, str):  # "schema"
        wanted = Columns(features, wanted, own=own).declared
    chosen = Columns([*names, *keys], wanted, categories, types, own=own)
    read = [*chosen.names, *([] if unit is None else [check_unit(unit, chosen.names, [*names, *keys])])]
    _check_alike(files, kind, layout, (header, schema), [name for name in read if name not in keys])
    if kind in ("csv", "tsv"):
        return CsvSource(files, header, chosen, [partition_of(path, file) for file in files], layout)
    if schema is None:
        return RecordSource(kind, files, names, chosen, layout)
    if kind == "orc":
        _refuse_orc_times(schema, chosen.names)
    dataset = _discreetly(lambda: _dataset(files, kind, names, keys, schema))
    used = [key for key in keys if key in chosen.names]
    if unit in keys:
        return ArrowSource(dataset, chosen.declared, fixed_order=False, keys=used)
    plain = files if kind == "parquet" and not used else ()
    return ArrowSource(dataset, chosen.declared, fixed_order=not keys, parquet=plain, keys=used)


def open_dataset(data: Any, *declared: Any) -> Source:
    """Open a PyArrow table, batch or data set. Rows of a data set in files have no fixed order."""
    import pyarrow.dataset as ds

    source = ArrowSource(data, *declared)
    if not isinstance(data, ds.Dataset) or source._in_memory:
        return source
    keys = getattr(getattr(data, "partitioning", None), "schema", None)
    try:
        fragments = _discreetly(lambda: list(data.get_fragments()))
    except ValueError:  # raised by Arrow for these types
        raise ValueError("A filtered PyArrow data set cannot be checked: give its to_table(), or no filter.") from None
    for fragment in fragments:
        if not isinstance(fragment.format, (ds.ParquetFileFormat, ds.IpcFileFormat)):
            raise ValueError(
                "Of PyArrow's data sets, those in memory and in Parquet or Feather files are read: others guess types "
                "from values. Give the path of the files, or a table."
            )
        held = _discreetly(lambda fragment=fragment: fragment.physical_schema)  # type: ignore[misc]
        for name in source._columns.names:
            type_ = data.schema.field(name).type
            known = name in held.names and held.field(name).type == type_
            if not known and not (keys is not None and name in keys.names and name not in held.names):
                raise UnreadableRowsError(
                    f"The data could not be read: a file of the data set lacks column {name!r}, or holds it as another "
                    "type. Nothing was spent."
                )
    return source


def columns_of(path: str | Path, layout: Layout = PLAIN) -> dict[str, Any]:
    """Column names of a file or folder and their Arrow types by its schema; a type is None if there is no schema."""
    path = _there(path)
    if path.suffix.lower() == ".npy":
        raise ValueError(f"{path.name!r} holds an array, whose columns have no names to declare.")
    files, kind, keys, layout = look(path, layout)
    header, schema = _names(files[0], kind, layout, None)
    twice = list(dict.fromkeys(name for name in header if header.count(name) > 1))
    if twice:
        raise ValueError(
            f"Column names must differ from each other. Got {twice} more than once. Rename columns in the file."
        )
    names = [*header, *(key for key in keys if key not in header)]
    return {name: schema.field(name).type if schema is not None and name in header else None for name in names}


def _there(path: str | Path) -> Path:
    if not Path(path).exists():
        raise FileNotFoundError(f"No such file or folder: {path}")
    return Path(path)


def look(path: Path, layout: Layout) -> tuple[list[Path], str, list[str], Layout]:
    """The files, their kind, the columns given by folder names, and the layout of files of this kind."""
    files = files_in(path) if path.is_dir() else [path]
    kind, keys = _kind(path, files), partition_keys(path, files)
    layout.check_kind(kind, path.name)
    if keys and kind in ("xlsx", "jsonl"):
        raise ValueError(f"The folders in {path.name!r} are partitioned, which is read for other kinds of files only.")
    return files, kind, keys, layout.separated_by("\t") if kind == "tsv" else layout


def _names(file: Path, kind: str, layout: Layout, columns: list[str] | None) -> tuple[list[str], pa.Schema | None]:
    """The names of the columns of a file, and its schema if it has one."""
    if kind in ("csv", "tsv"):
        return csv_header(file, layout), None
    if kind == "xlsx":
        return sheet_header(file, layout), None
    if kind == "jsonl":
        if not columns:
            raise ValueError(
                f"The columns of {file.name!r} must be named: lines of JSON tell names beside values only. Give "
                "columns=[…] (--columns a,b,c), or a table for each in the file of settings."
            )
        return columns, None
    schema = _schema(file)
    return list(schema.names), schema


def _open_array(path: Path, *declared: Any) -> Source:
    """A NumPy file, mapped into memory."""
    if any(part is not None for part in declared):
        raise ValueError(f"{path.name!r} holds an array, whose columns have no names to choose or declare.")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        array = None
    if array is None or array.ndim != 2 or array.dtype.kind not in "fiub":
        raise UnreadableRowsError(f"{path.name!r} does not hold a two-dimensional array of real numbers.")
    return ArraySource(array)


def _kind(path: Path, files: list[Path]) -> str:
    kinds = {_kind_of(file) for file in files}
    kind = kinds.pop()
    if kinds:
        raise ValueError(f"The files in {path.name!r} are of more than one kind. Supported: {', '.join(_FORMATS)}.")
    if kind is None:
        packed = f"{', '.join(_FORMATS)}, .npy; of text also with {', '.join(PACKED)} behind"
        rename = " Rename a text file with columns so that it ends in .csv or .tsv."
        raise ValueError(f"Cannot tell the format of {path.name!r}. Supported endings: {packed}.{rename}")
    return kind


def _kind_of(file: Path) -> str | None:
    packed = file.suffix.lower() in PACKED
    kind = _FORMATS.get((file.with_suffix("") if packed else file).suffix.lower())
    return None if packed and kind not in _TEXT else kind


def _schema(file: Path) -> pa.Schema:
    import pyarrow.dataset as ds

    kind = _FORMATS[file.suffix.lower()]

    def read() -> pa.Schema:
        schema: pa.Schema = ds.dataset(str(file), format=kind).schema
        list(schema.names)  # decoded here: in a damaged file a name may not be text
        return schema

    try:
        return _discreetly(read)
    except UnreadableRowsError:
        pass
    raise UnreadableRowsError(f"The data could not be read: file {file.name!r} is damaged. Nothing was spent.")


def _check_alike(
    files: list[Path], kind: str, layout: Layout, first: tuple[list[str], pa.Schema | None], names: list[str]
) -> None:
    """Refuse a folder whose files have different schemas: Arrow would fill missing columns with null."""
    header, schema = first
    for number, file in enumerate(files[1:], 2):
        held, other = _names(file, kind, layout, header)
        if schema is None or other is None:
            alike = held == header
        else:
            alike = all(other.names.count(n) == 1 and other.field(n).type == schema.field(n).type for n in names)
        if not alike:
            raise UnreadableRowsError(
                f"The data could not be read: file {number} of {len(files)}, {file.name!r}, has other columns, or "
                f"other types of them, than the first, {files[0].name!r}. Nothing was spent."
            )


def _refuse_orc_times(schema: pa.Schema, names: list[str]) -> None:
    import pyarrow as pa

    times = [name for name in names if name in schema.names and pa.types.is_timestamp(schema.field(name).type)]
    if times:
        raise ValueError(
            f"Columns {times} hold times in an ORC file. Arrow fails at one before 1677 or after 2262, and an "
            "error would tell of that value. Leave them out, or write dates, numbers or a Parquet file."
        )


def _dataset(files: list[Path], kind: str, names: list[str], keys: list[str], schema: pa.Schema) -> Any:
    """A data set. Columns given by folder names are read as text, so that a value of a wrong type is not an error."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    used = pa.schema([pa.field(key, pa.string()) for key in keys])
    partitioning = ds.partitioning(used, flavor="hive") if keys else None
    fields = pa.schema([*(schema.field(name) for name in names), *used])
    return ds.dataset([str(file) for file in files], format=kind, schema=fields, partitioning=partitioning)
