"""Rows in Arrow tables and in Parquet and Feather files or folders, read a batch at a time; files of all kinds by name.

The schema is public, values are not: what a column is read as depends on its type and the declared one, and a cell that
does not fit is NaN. Arrow reads ahead in threads of its own while statistics are computed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources import cells
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import Categories, Columns, Types
from dpeigen.sources.csv_rows import CsvSource, csv_header
from dpeigen.sources.memory import ArraySource

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
_BATCH_NUMBERS = 2**20
_PAGE_BYTES = 2**18
_AHEAD = 2  # batches read ahead, and files: enough to overlap reading with computing, few enough to stay small
_NOTHING = "__HIVE_DEFAULT_PARTITION__"  # the folder of rows that have no value
T = TypeVar("T")


class ArrowSource(Source):
    """A PyArrow table or data set."""

    def __init__(
        self,
        data: Any,
        columns: Sequence[str] | None = None,
        categories: Categories | None = None,
        types: Types | None = None,
        *,
        fixed_order: bool = False,
        parquet: Sequence[Path] = (),
        keys: Sequence[str] = (),
    ) -> None:
        import pyarrow.dataset as ds

        self._dataset = data if isinstance(data, ds.Dataset) else ds.dataset(data)
        schema = self._dataset.schema
        self._columns = Columns(schema.names, columns, categories, types)
        self._keys = keys  # columns of text, to be read as those of a CSV file are
        for name in self._keys:
            schema = schema.set(
                schema.get_field_index(name), schema.field(name).with_type(self._columns.csv_type(name))
            )
        self._columns.check_arrow(schema)
        self.feature_names, self.n_features = self._columns.features, len(self._columns.features)
        self._in_memory = isinstance(self._dataset, ds.InMemoryDataset)
        self.fixed_order = fixed_order or self._in_memory
        self._parquet = parquet  # the files, where their columns are all there is to read
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


def _batches(dataset: Any, names: list[str], size: int) -> Iterator[Any]:
    batches: Iterator[Any] = dataset.to_batches(
        columns=names, batch_size=size, batch_readahead=_AHEAD, fragment_readahead=_AHEAD
    )
    return batches


def _parquet_batches(files: Sequence[Path], names: list[str], size: int) -> Iterator[Any]:
    """Batches of Parquet files on a local disk.

    A data set's scanner holds whole row groups, decoded and several at a time, which in common files are hundreds of
    megabytes. A file's own reader goes through them page by page.
    """
    import pyarrow.parquet as pq

    for path in files:
        with pq.ParquetFile(path, buffer_size=_PAGE_BYTES, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=size, columns=names):
                yield batch.select(names)


def _discreetly(call: Callable[[], T]) -> T:
    """What the call returns. Arrow's messages may quote a value or a whole line of the data, so they are dropped."""
    import pyarrow as pa

    try:
        return call()
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        pass
    raise UnreadableRowsError(  # outside the handler: the error does not carry Arrow's as its context
        "The data could not be read: a file is damaged or gone. Nothing was spent. Write it anew."
    )


def _rows_by_metadata(dataset: Any) -> int | None:
    """The number of rows where a table or a file's footer tells it; CSV would have to be read in full."""
    import pyarrow.dataset as ds

    counted = (ds.ParquetFileFormat, ds.IpcFileFormat)
    if not isinstance(dataset, ds.InMemoryDataset) and not isinstance(getattr(dataset, "format", None), counted):
        return None
    return _discreetly(lambda: int(dataset.count_rows()))


# --- files ----------------------------------------------------------------------------------------------------------


def open_files(
    path: str | Path,
    columns: Sequence[str] | None = None,
    categories: Categories | None = None,
    types: Types | None = None,
) -> Source:
    """Parquet, Feather, CSV or NumPy by the file's ending; a folder is one data set of files of one kind.

    Files of a folder are read in the order of their names, those in folders inside it included; names that begin with
    "." or "_" are passed over. Folders named key=value (partitioned data sets) give a column each; it is read where
    it is named in ``columns``.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"No such file or folder: {path}")
    if path.suffix.lower() == ".npy":
        return _open_array(path, columns, categories, types)
    files = _files_in(path) if path.is_dir() else [path]
    kind = _kind(path, files)
    keys = _partition_keys(path, files)
    schema = None if kind == "csv" else _schema(files[0])
    header = csv_header(files[0]) if schema is None else list(schema.names)
    names = [name for name in header if name not in keys]
    chosen = Columns([*names, *keys], names if columns is None else columns, categories, types)
    _check_alike(files, header, schema, [name for name in chosen.names if name not in keys])
    if schema is None:
        return CsvSource(files, header, chosen, [_partition(path, file) for file in files])
    dataset = _discreetly(lambda: _dataset(files, kind, names, keys, schema))
    used = [key for key in keys if key in chosen.names]
    plain = files if kind == "parquet" and not used else ()
    return ArrowSource(dataset, chosen.names, categories, types, fixed_order=not keys, parquet=plain, keys=used)


def open_dataset(data: Any, *declared: Any) -> Source:
    """A PyArrow table, batch or data set. Rows of a data set in files have no order of their own."""
    import pyarrow.dataset as ds

    source = ArrowSource(data, *declared)
    if not isinstance(data, ds.Dataset) or source._in_memory:
        return source
    keys = getattr(getattr(data, "partitioning", None), "schema", None)
    try:
        fragments = _discreetly(lambda: list(data.get_fragments()))
    except ValueError:  # Arrow's own, for these
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


def columns_of(path: str | Path) -> dict[str, Any]:
    """The names of the columns of a file or folder and their Arrow types, from its schema; None: a CSV states none."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"No such file or folder: {path}")
    if path.suffix.lower() == ".npy":
        raise ValueError(f"{path.name!r} holds an array, whose columns have no names to declare.")
    files = _files_in(path) if path.is_dir() else [path]
    kind, keys = _kind(path, files), _partition_keys(path, files)
    schema = None if kind == "csv" else _schema(files[0])
    header = csv_header(files[0]) if schema is None else list(schema.names)
    if len(set(header)) < len(header):
        raise ValueError(f"Column names must differ from each other. Got {header}. Rename columns in the file.")
    names = [*header, *(key for key in keys if key not in header)]
    return {name: schema.field(name).type if schema is not None and name in header else None for name in names}


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


def _files_in(folder: Path) -> list[Path]:
    """Files in a folder and the folders inside it, by name; all of them or an error."""

    def unreadable(error: OSError) -> None:
        raise error

    files: list[Path] = []
    for at, inside, names in os.walk(folder, onerror=unreadable):
        inside[:] = [name for name in inside if not name.startswith((".", "_"))]
        found = [Path(at) / name for name in names if not name.startswith((".", "_"))]
        linked = [path for path in found if not path.is_file()]
        linked += [path for name in inside if (path := Path(at) / name).is_symlink()]
        if linked:
            raise FileNotFoundError(
                f"{linked[0]} is a link to a folder, a link to nothing, or not a file. Give the folder it stands for."
            )
        files += found
    files.sort()
    if not files:
        raise FileNotFoundError(f"There are no files in {folder}.")
    return files


def _kind(path: Path, files: list[Path]) -> str:
    kinds = {_FORMATS.get(file.suffix.lower()) for file in files}
    kind = kinds.pop()
    if kinds:
        raise ValueError(f"The files in {path.name!r} are of more than one kind. Supported: {', '.join(_FORMATS)}.")
    if kind is None:
        raise ValueError(f"Cannot tell the format of {path.name!r}. Supported endings: {', '.join(_FORMATS)}, .npy.")
    return kind


def _partition_keys(path: Path, files: list[Path]) -> list[str]:
    """The columns that a partitioned data set keeps in the names of its folders."""
    folders = [file.relative_to(path).parts[:-1] for file in files] if path.is_dir() else []
    keys = {tuple(part.partition("=")[0] for part in parts if "=" in part) for parts in folders}
    if len(keys) > 1:
        raise ValueError(f"The folders in {path.name!r} are not partitioned by the same columns everywhere.")
    return list(keys.pop()) if keys else []


def _schema(file: Path) -> pa.Schema:
    import pyarrow.dataset as ds

    kind = _FORMATS[file.suffix.lower()]

    def read() -> pa.Schema:
        schema = ds.dataset(str(file), format=kind).schema
        list(schema.names)  # decoded here: in a damaged file a name may be no text
        return schema

    try:
        return _discreetly(read)
    except UnreadableRowsError:
        pass
    raise UnreadableRowsError(f"The data could not be read: file {file.name!r} is damaged. Nothing was spent.")


def _check_alike(files: list[Path], header: list[str], schema: pa.Schema | None, names: list[str]) -> None:
    """Refuse a folder whose schema changes half-way: Arrow would fill columns that a file lacks with nothing."""
    for number, file in enumerate(files[1:], 2):
        if schema is None:
            alike = csv_header(file) == header
        else:
            other = _schema(file)
            alike = all(other.names.count(n) == 1 and other.field(n).type == schema.field(n).type for n in names)
        if not alike:
            raise UnreadableRowsError(
                f"The data could not be read: file {number} of {len(files)}, {file.name!r}, has other columns, or "
                f"other types of them, than the first, {files[0].name!r}. Nothing was spent."
            )


def _partition(path: Path, file: Path) -> dict[str, str | None]:
    """What the names of a file's folders say of the columns kept in them."""
    found = (
        part.partition("=") for part in (file.relative_to(path).parts[:-1] if path.is_dir() else ()) if "=" in part
    )
    return {key: None if value == _NOTHING else unquote(value) for key, _, value in found}


def _dataset(files: list[Path], kind: str, names: list[str], keys: list[str], schema: pa.Schema) -> Any:
    """Columns that are told by the names of folders are read as text: one of a wrong type must not be an error."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    used = pa.schema([pa.field(key, pa.string()) for key in keys])
    partitioning = ds.partitioning(used, flavor="hive") if keys else None
    fields = pa.schema([*(schema.field(name) for name in names), *used])
    return ds.dataset([str(file) for file in files], format=kind, schema=fields, partitioning=partitioning)
