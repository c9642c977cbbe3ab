"""Short text as pairs of whole numbers, which are told apart several times as quickly as text.

Sixteen bytes are two 64-bit numbers, so nothing is hashed and no two ids are taken for one. Only text without blanks
and control characters is read so: other ids are compared without the blanks around them (`sources.ids`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WIDTH", "numbered", "text_of", "words"]

WIDTH = 16  # bytes
_BLANK = 32  # the last of the bytes that may be blanks, or are no characters


def words(column: Any) -> NDArray[np.int64] | None:
    """Two whole numbers for each cell of an Arrow array of text; None where a cell is long, missing or has blanks."""
    import pyarrow.types as types

    long = types.is_large_string(column.type) or types.is_large_binary(column.type)
    if not (long or types.is_string(column.type) or types.is_binary(column.type)) or column.null_count:
        return None
    if not len(column):
        return np.empty((0, 2), dtype=np.int64)
    kind = np.int64 if long else np.int32
    ends = np.frombuffer(column.buffers()[1], dtype=kind)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(ends)
    least, most = int(lengths.min()), int(lengths.max())
    if least == 0 or most > WIDTH:
        return None
    cells = np.frombuffer(column.buffers()[2], dtype=np.uint8)[int(ends[0]) : int(ends[-1])]
    if int(cells.min()) <= _BLANK:
        return None
    found = np.zeros((len(column), WIDTH), dtype=np.uint8)
    if least == most:
        found[:, :most] = cells.reshape(-1, most)
    else:
        found[np.arange(WIDTH) < lengths[:, None]] = cells
    return found.view(np.int64)


def text_of(pairs: NDArray[np.int64], kind: Any) -> Any:
    """The Arrow array, of this type, that `words` has read."""
    import pyarrow as pa
    import pyarrow.types as types

    long = types.is_large_string(kind) or types.is_large_binary(kind)
    cells = pairs.view(np.uint8)
    there = cells != 0
    ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))]).astype(np.int64 if long else np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(cells[there])]
    return pa.Array.from_buffers(kind, len(pairs), buffers)


def numbered(parts: list[NDArray[np.int64]]) -> tuple[NDArray[Any], int]:
    """The number of each pair of words, in the order in which pairs first come up, and how many there are."""
    first, many = _numbers([part[:, 0] for part in parts])
    if many == 1:  # a prefix that all ids share
        return _numbers([part[:, 1] for part in parts])
    second, others = _numbers([part[:, 1] for part in parts])
    if others == 1:
        return first, many
    return _numbers([first.astype(np.int64) * others + second])  # below 2^62; NumPy 1 would multiply in 32 bits


def _numbers(parts: list[NDArray[np.int64]]) -> tuple[NDArray[Any], int]:
    import pyarrow as pa

    coded = pa.chunked_array([pa.array(np.ascontiguousarray(part)) for part in parts]).dictionary_encode()
    known = len(coded.chunk(coded.num_chunks - 1).dictionary)
    return np.concatenate([chunk.indices.to_numpy() for chunk in coded.chunks]), known
