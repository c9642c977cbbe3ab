"""Untrusted files of reports: Parquet and Arrow files, whose declared sizes are checked before they are unpacked.

A report is mostly noise, which does not compress. So a file of n reports is not much smaller than n reports, and a file
that declares more rows or bytes than fit its size is refused before any of it is unpacked. Parquet files are read if
they are uncompressed or compressed with Snappy, whose ratio is bounded, and in batches that stay small even if every
value is as long as the file. It is not checked that pages agree with the declared metadata: small batches and a limit
on the sum of all values bound the memory that a false declaration is known to cause. Arrays of Arrow files are checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpeigen.local.wire import RefusedReportError

__all__ = ["COLUMN", "FORMATS", "reports_in"]

COLUMN = "report"
FORMATS = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather", ".arrow": "feather"}
_BATCH = 4096  # rows
_MEMORY = 2**26  # bytes that a batch may take
_NOISE = 24  # bytes of any report that do not compress: its random bytes and its checksum
_RATIO, _SLACK = 4, 2**20  # an honest file holds at most _RATIO times its size, and _SLACK bytes
_SNAPPY = 32  # its largest ratio is below this
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "DELTA_LENGTH_BYTE_ARRAY"}


def reports_in(file: Path) -> Iterator[list[Any]]:
    """Batches of the column ``report`` of a file; `RefusedReportError` if the file is refused."""
    import pyarrow as pa

    read = _parquet if FORMATS[file.suffix.lower()] == "parquet" else _arrow
    try:
        left = _RATIO * file.stat().st_size + _SLACK
        for batch in read(file):
            batch.validate(full=True)
            left -= batch.nbytes
            _check(left >= 0)  # a few values that are repeated many times
            yield batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError):  # names of columns may be no text
        raise RefusedReportError("unreadable file") from None


def _check(good: bool) -> None:
    if not good:
        raise RefusedReportError("unreadable file")


def _check_column(schema: Any, size: int) -> None:
    """Require one column of reports of a plain type: other types can expand to much more than the file's size."""
    import pyarrow.types as kinds

    _check(schema.names.count(COLUMN) == 1)
    kind = schema.field(COLUMN).type
    fixed = kinds.is_fixed_size_binary(kind) and kind.byte_width <= size
    _check(fixed or kinds.is_binary(kind) or kinds.is_large_binary(kind))


def _parquet(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    size = path.stat().st_size
    with pq.ParquetFile(path, pre_buffer=False) as file:
        _check_column(file.schema_arrow, size)
        ratio = _check_declared(file.metadata, size)
        rows = max(1, min(_BATCH, _MEMORY // (ratio * size)))
        for batch in file.iter_batches(rows, columns=[COLUMN], use_threads=False):
            yield batch.column(0)


def _check_declared(said: Any, size: int) -> int:
    """Refuse metadata that no file of reports of this size has; returns the largest compression ratio."""
    unpacked, values, snappy = 0, 0, False
    for i in range(said.num_row_groups):
        group = said.row_group(i)
        for j in range(group.num_columns):
            column = group.column(j)
            if column.path_in_schema != COLUMN:
                continue
            _check(column.compression in ("UNCOMPRESSED", "SNAPPY") and set(column.encodings) <= _ENCODINGS)
            snappy = snappy or column.compression == "SNAPPY"
            _check(column.total_uncompressed_size >= 0 and column.num_values >= 0 and group.num_rows >= 0)
            unpacked += column.total_uncompressed_size
            values += max(column.num_values, group.num_rows)
    _check(max(values, said.num_rows) * _NOISE <= size and unpacked <= _RATIO * size + _SLACK)
    return _SNAPPY if snappy else 1


def _arrow(path: Path) -> Iterator[Any]:
    """The stream inside an Arrow file: its footer is not used, so the checked messages are those that are read."""
    import pyarrow as pa

    size = path.stat().st_size
    with pa.memory_map(str(path)) as source:
        content = source.read_buffer()
        _check(content.slice(0, 6).to_pybytes() == b"ARROW1")
        stream = content.slice(8)
        unpacked = 0
        for message in pa.MessageReader.open_stream(stream):
            _check(message.type in ("schema", "record batch"))
            if message.type == "record batch":
                rows, said = _declared(message.metadata.to_pybytes(), message.body)
                unpacked += said
                _check(0 <= rows * _NOISE <= size and unpacked <= _RATIO * size + _SLACK)
        schema = pa.ipc.open_stream(stream).schema
        _check_column(schema, size)
        options = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(COLUMN)], use_threads=False)
        for batch in pa.ipc.open_stream(stream, options=options):
            for start in range(0, batch.num_rows, _BATCH):
                yield batch.column(0).slice(start, _BATCH)


def _declared(metadata: bytes, body: Any) -> tuple[int, int]:
    """Declared rows of a record batch, and bytes of its buffers after decompression (Arrow's format).

    A message is a flatbuffer: its third field is the batch, whose fields are the number of rows, the nodes, the
    positions of the buffers in the body, and the compression. A compressed buffer begins with its size, or −1 if it is
    stored uncompressed.
    """
    table = struct.unpack_from("<I", metadata)[0]
    batch = _field(metadata, table, 2)
    batch += struct.unpack_from("<I", metadata, batch)[0]
    at = _field(metadata, batch, 0)
    rows = struct.unpack_from("<q", metadata, at)[0] if at else 0
    at = _field(metadata, batch, 2)
    if not at or not _field(metadata, batch, 3):
        return rows, 0  # not compressed: nothing is unpacked
    at += struct.unpack_from("<I", metadata, at)[0]
    total = 0
    for i in range(struct.unpack_from("<I", metadata, at)[0]):
        offset, length = struct.unpack_from("<qq", metadata, at + 4 + 16 * i)
        _check(offset >= 0 and length >= 0 and offset + length <= body.size)
        if length:
            total += max(length, struct.unpack("<q", body.slice(offset, 8).to_pybytes())[0])
    return rows, total


def _field(metadata: bytes, table: int, number: int) -> int:
    """The position of a field of a table; 0 if the field is absent."""
    vtable = table - struct.unpack_from("<i", metadata, table)[0]
    _check(vtable >= 0)
    if 4 + 2 * number >= struct.unpack_from("<H", metadata, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", metadata, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0
