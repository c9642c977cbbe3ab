"""Rows of Arrow tables and of Parquet, Feather and ORC files or folders, in batches; opening of files of all kinds.

The schema is public, values are not: how a column is read depends on its own type and the declared one, and a cell that
does not fit is NaN. Arrow reads ahead in its own threads while statistics are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources import cells
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import AllBut, Categories, Columns, Types, Wanted, as_wanted, check_unit
from dpeigen.sources.csv_rows import CsvSource
from dpeigen.sources.declared import Declared
from dpeigen.sources.files import check_alike, discreetly, existing, look, names_of, open_array, refuse_orc_times
from dpeigen.sources.folders import partition_of
from dpeigen.sources.layout import PLAIN, Layout
from dpeigen.sources.records import RecordSource
from dpeigen.sources.schemas import of_arrow

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowSource", "open_dataset", "open_files"]

_BATCH_ROWS = 2**16
_BATCH_NUMBERS = 2**20
_PAGE_BYTES = 2**18
_AHEAD = 2  # batches and files read ahead: enough to overlap reading with computing, with little memory


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
        batches = discreetly(read)
        while (block := discreetly(lambda: self._block(next(batches, None)))) is not None:
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
        batches = discreetly(read)
        while (batch := discreetly(lambda: next(batches, None))) is not None:
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


def _rows_by_metadata(dataset: Any) -> int | None:
    """The number of rows according to a table or a file's footer; None for CSV, which would have to be read in full."""
    import pyarrow.dataset as ds

    counted = ("parquet", "arrow", "feather", "orc")
    name = getattr(getattr(dataset, "format", None), "default_extname", None)
    if not isinstance(dataset, ds.InMemoryDataset) and name not in counted:
        return None
    return discreetly(lambda: int(dataset.count_rows()))


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
    path, columns = existing(path), as_wanted(columns)
    if path.suffix.lower() == ".npy":
        layout.check_kind("npy", path.name)
        return open_array(path, columns, categories, types)
    files, kind, keys, layout = look(path, layout)
    all_of_them = columns is None or isinstance(columns, (AllBut, str))
    listed = None if all_of_them else [*columns, *([] if unit is None else [unit])]
    header, schema = names_of(files[0], kind, layout, listed)
    names = [name for name in header if name not in keys]
    features = [name for name in names if name != unit]
    wanted = columns.of(features) if isinstance(columns, AllBut) else features if columns is None else columns
    own = None if schema is None else partial(of_arrow, schema)
    if isinstance(wanted, str):  # "schema"
        wanted = Columns(features, wanted, own=own).declared
    chosen = Columns([*names, *keys], wanted, categories, types, own=own)
    read = [*chosen.names, *([] if unit is None else [check_unit(unit, chosen.names, [*names, *keys])])]
    check_alike(files, kind, layout, (header, schema), [name for name in read if name not in keys])
    if kind in ("csv", "tsv"):
        return CsvSource(files, header, chosen, [partition_of(path, file) for file in files], layout)
    if schema is None:
        return RecordSource(kind, files, names, chosen, layout)
    if kind == "orc":
        refuse_orc_times(schema, chosen.names)
    dataset = discreetly(lambda: _dataset(files, kind, names, keys, schema))
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
        fragments = discreetly(lambda: list(data.get_fragments()))
    except ValueError:  # raised by Arrow for these types
        raise ValueError("A filtered PyArrow data set cannot be checked: give its to_table(), or no filter.") from None
    for fragment in fragments:
        if not isinstance(fragment.format, (ds.ParquetFileFormat, ds.IpcFileFormat)):
            raise ValueError(
                "Of PyArrow's data sets, those in memory and in Parquet or Feather files are read: others guess types "
                "from values. Give the path of the files, or a table."
            )
        held = discreetly(lambda fragment=fragment: fragment.physical_schema)  # type: ignore[misc]
        for name in source._columns.names:
            type_ = data.schema.field(name).type
            known = name in held.names and held.field(name).type == type_
            if not known and not (keys is not None and name in keys.names and name not in held.names):
                raise UnreadableRowsError(
                    f"The data could not be read: a file of the data set lacks column {name!r}, or holds it as another "
                    "type. Nothing was spent."
                )
    return source


def _dataset(files: list[Path], kind: str, names: list[str], keys: list[str], schema: pa.Schema) -> Any:
    """A data set. Columns given by folder names are read as text, so that a value of a wrong type is not an error."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    used = pa.schema([pa.field(key, pa.string()) for key in keys])
    partitioning = ds.partitioning(used, flavor="hive") if keys else None
    fields = pa.schema([*(schema.field(name) for name in names), *used])
    return ds.dataset([str(file) for file in files], format=kind, schema=fields, partitioning=partitioning)
