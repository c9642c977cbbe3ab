"""What a file or a folder of files is, found without reading a row: its kind, names of columns, and schema.

Schemas are public. Messages name files, columns and types, never a value.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import refuse_repeated
from dpeigen.sources.csv_lines import PACKED
from dpeigen.sources.csv_rows import csv_header
from dpeigen.sources.folders import files_in, partition_keys
from dpeigen.sources.layout import PLAIN, Layout
from dpeigen.sources.memory import ArraySource
from dpeigen.sources.records import sheet_header

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "T",
    "check_alike",
    "columns_of",
    "discreetly",
    "existing",
    "look",
    "names_of",
    "open_array",
    "refuse_orc_times",
]

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
T = TypeVar("T")


def discreetly(call: Callable[[], T]) -> T:
    """The result of the call. Arrow's messages may contain a value or a whole line of the data, so they are dropped."""
    import pyarrow as pa

    try:
        return call()
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        pass
    raise UnreadableRowsError(  # outside the handler, so that Arrow's error is not attached as context
        "The data could not be read: a file is damaged or gone. Nothing was spent. Restore it, or write it again."
    )


def columns_of(path: str | Path, layout: Layout = PLAIN) -> dict[str, Any]:
    """Column names of a file or folder and their Arrow types by its schema; a type is None if there is no schema."""
    path = existing(path)
    if path.suffix.lower() == ".npy":
        raise ValueError(f"{path.name!r} holds an array, whose columns have no names to declare.")
    files, kind, keys, layout = look(path, layout)
    header, schema = names_of(files[0], kind, layout, None)
    refuse_repeated(header)
    names = [*header, *(key for key in keys if key not in header)]
    return {name: schema.field(name).type if schema is not None and name in header else None for name in names}


def existing(path: str | Path) -> Path:
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


def names_of(file: Path, kind: str, layout: Layout, columns: list[str] | None) -> tuple[list[str], pa.Schema | None]:
    """The names of the columns of a file, and its schema if it has one."""
    if kind in ("csv", "tsv"):
        return csv_header(file, layout), None
    if kind == "xlsx":
        return sheet_header(file, layout), None
    if kind == "jsonl":
        if not columns:
            raise ValueError(
                f"The columns of {file.name!r} must be named: lines of JSON have names only beside values. Give "
                "columns=[…] (--columns a,b,c), or a table for each in the file of settings."
            )
        return columns, None
    schema = _schema(file)
    return list(schema.names), schema


def open_array(path: Path, *declared: Any) -> Source:
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
        return discreetly(read)
    except UnreadableRowsError:
        pass
    raise UnreadableRowsError(f"The data could not be read: file {file.name!r} is damaged. Nothing was spent.")


def check_alike(
    files: list[Path], kind: str, layout: Layout, first: tuple[list[str], pa.Schema | None], names: list[str]
) -> None:
    """Refuse a folder whose files have different schemas: Arrow would fill missing columns with null."""
    header, schema = first
    for number, file in enumerate(files[1:], 2):
        held, other = names_of(file, kind, layout, header)
        if schema is None or other is None:
            alike = held == header
        else:
            alike = all(other.names.count(n) == 1 and other.field(n).type == schema.field(n).type for n in names)
        if not alike:
            raise UnreadableRowsError(
                f"The data could not be read: file {number} of {len(files)}, {file.name!r}, has other columns, or "
                f"other types of them, than the first, {files[0].name!r}. Nothing was spent."
            )


def refuse_orc_times(schema: pa.Schema, names: list[str]) -> None:
    import pyarrow as pa

    times = [name for name in names if name in schema.names and pa.types.is_timestamp(schema.field(name).type)]
    if times:
        raise ValueError(
            f"Columns {times} hold times in an ORC file. Arrow fails at one before 1677 or after 2262, and an "
            "error would tell of that value. Leave them out, or write dates, numbers or a Parquet file."
        )
