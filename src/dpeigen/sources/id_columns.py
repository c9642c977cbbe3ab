"""Arrow columns of ids converted to numbers of people: by a short range, by words, or by Arrow's dictionaries.

All three distinguish the same ids (`sources.ids` says which are equal). They differ in speed and in what they can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.base import UnreadableRowsError
from dpeigen.sources.numbering import Ids, numbered, numbered_together, pieces, text_of, words_of_numbers, words_of_text

__all__ = ["AT_ONCE", "ONE_COLUMN", "Codes", "UnreadableIdsError", "chunks_of", "in_turns", "of_range"]

Codes = NDArray[Any]  # integers
_HELD = 2**27  # bytes of ids that are compared at a time
AT_ONCE = 2**20  # least rows whose ids are compared at a time
ONE_COLUMN = (
    "The 'unit' parameter must be the name of a column, or one id for each row: numbers, text or dates in one "
    "dimension. Nothing was spent."
)


class UnreadableIdsError(UnreadableRowsError):
    """The given ids have a wrong type or shape. The message contains no id."""


def chunks_of(parts: Iterable[Any]) -> Iterator[Any]:
    """Arrays of a limited length, because intermediate results are much larger than the numbers that are kept."""
    import pyarrow as pa

    for part in parts:
        for chunk in part.chunks if isinstance(part, pa.ChunkedArray) else [part]:
            for start in range(0, len(chunk), AT_ONCE):
                yield chunk.slice(start, AT_ONCE)


def in_turns(chunks: Iterator[Any], *, quick: bool = True) -> tuple[Codes, Any]:
    """The number of each row's person, −1 if it has no id; and the ids by their numbers, or a range.

    ``quick``: whether numbers and text of moderate length may be compared without an Arrow array of the ids.
    """
    import pyarrow as pa
    import pyarrow.types as types

    first = next(chunks, None)
    if first is None:
        return np.zeros(0, dtype=np.int64), pa.array([], pa.string())
    chunks = chain([first], chunks)
    if not quick:
        return _by_arrow(chunks, [], None)
    if types.is_integer(first.type):
        held = list(chunks)
        found = None if any(chunk.null_count for chunk in held) else of_range([chunk.to_numpy() for chunk in held])
        if found is not None:
            return found
        chunks = iter(held)
    return _by_words(chunks)


def _by_words(chunks: Iterator[Any]) -> tuple[Codes, Any]:
    """The same by words, as long as ids can be read as words; the rest, or all if necessary, by Arrow."""
    batches: list[tuple[Codes, NDArray[np.uint64]]] = []
    held: list[_Read] = []
    kind = None
    for chunk in chain(chunks, [None]):
        found = None if chunk is None else _read(chunk)
        kind = kind if chunk is None else chunk.type
        held += found or []
        size = sum(each.ids.words.nbytes for each in held)
        ends = found is None
        if held and (ends or size > _HELD):
            batch = _numbered(held)
            if batch is None:  # two ids with one hash
                rest = chain((_text_of(each, kind) for each in held), [] if chunk is None else [chunk] * ends, chunks)
                return _by_arrow(rest, *_so_far(batches, kind))
            batches.append(batch)
            held = []
        if ends and chunk is not None:
            return _by_arrow(chain([chunk], chunks), *_so_far(batches, kind))
    if len(batches) == 1:
        return batches[0][0], range(len(batches[0][1]))
    together = numbered_together([ids for _, ids in batches])
    if together is None:
        return _by_arrow(iter(()), *_so_far(batches, kind))
    codes = [np.append(own, np.int32(-1))[codes] for own, (codes, _) in zip(together[0], batches, strict=True)]
    return np.concatenate(codes), range(len(together[1]))


@dataclass(frozen=True, eq=False)
class _Read:
    """The ids of a part of a column as words, and which rows have one, if not all do."""

    ids: Ids
    there: NDArray[np.bool_] | None


def _read(chunk: Any) -> list[_Read] | None:
    """The ids as words; None if their type or length must be handled by Arrow."""
    import pyarrow.types as types

    kind, found = chunk.type, []
    number = types.is_integer(kind) or types.is_float64(kind) or types.is_float32(kind)
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    if not (number or text):
        return None
    for part in pieces(len(chunk)):
        column = chunk.slice(part.start, part.stop - part.start)
        read = words_of_text(column) if text else _words_of_numbers(column)
        if read is None:
            return None
        found.append(_Read(Ids.of(read[0]), read[1]))
    return found


def _words_of_numbers(column: Any) -> tuple[NDArray[np.uint64], NDArray[np.bool_] | None]:
    there = None
    if column.null_count:
        there = column.is_valid().to_numpy(zero_copy_only=False)
        column = column.drop_null()
    words, numbers = words_of_numbers(column.to_numpy(zero_copy_only=False))
    return words, numbers if there is None else there if numbers is None else _inside(there, numbers)


def _numbered(held: list[_Read]) -> tuple[Codes, NDArray[np.uint64]] | None:
    found = numbered([each.ids for each in held])
    if found is None or all(each.there is None for each in held):
        return found
    whole = [np.ones(len(each.ids.words), dtype=bool) if each.there is None else each.there for each in held]
    there = np.concatenate(whole)
    codes = np.full(len(there), -1, dtype=np.int32)
    codes[there] = found[0]
    return codes, found[1]


def _text_of(read: _Read, kind: Any) -> Any:
    """The ids as an Arrow array, in the type in which they are compared."""
    import pyarrow as pa

    ids = _ids_of(read.ids.words, kind)
    if read.there is None:
        return ids
    places = np.cumsum(read.there) - 1
    return ids.take(pa.array(places, mask=~read.there))


def _so_far(batches: list[tuple[Codes, NDArray[np.uint64]]], kind: Any) -> tuple[list[Codes], Any]:
    """Numbers of rows, and the ids as an Arrow array in the type in which they are compared; None if there are none."""
    import pyarrow as pa

    known, codes = None, []
    for own, words in batches:
        ids = _ids_of(words, kind)
        both = (ids if known is None else pa.concat_arrays([known, ids])).dictionary_encode()
        places = both.indices.to_numpy()[0 if known is None else len(known) :]
        known = both.dictionary
        codes.append(np.append(places, places.dtype.type(-1))[own])
    return codes, known


def _inside(outer: NDArray[np.bool_], inner: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows are in both; the second mask refers to the rows selected by the first."""
    both = outer.copy()
    both[outer] = inner
    return both


def _ids_of(words: NDArray[np.uint64], kind: Any) -> Any:
    import pyarrow as pa
    import pyarrow.types as types

    if not types.is_integer(kind) and not types.is_floating(kind):
        return text_of(words)
    wide = np.float64 if types.is_floating(kind) else np.int64 if types.is_signed_integer(kind) else np.uint64
    return pa.array(np.ascontiguousarray(words[:, 0]).view(wide)).cast(kind)


def _by_arrow(chunks: Iterator[Any], codes: list[Codes], known: Any) -> tuple[Codes, Any]:
    """The same for ids of any type, continuing the numbers of earlier ids."""
    import pyarrow as pa

    waiting: list[Any] = []
    for chunk in chain(chunks, [None]):
        # In one type: ids that were read as words before are returned as bytes.
        waiting += [] if chunk is None else [_plain(chunk)]
        # As many rows at a time as there are people, which limits how often the known ids are searched.
        wanted = AT_ONCE if known is None else max(AT_ONCE, len(known))
        if waiting and (chunk is None or sum(map(len, waiting)) >= wanted):
            coded = pa.concat_arrays(waiting).dictionary_encode()
            waiting = []
            numbers = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            if known is None:
                known = coded.dictionary
            else:
                both = pa.concat_arrays([known, coded.dictionary]).dictionary_encode()
                places = both.indices.to_numpy()[len(known) :]
                known, numbers = both.dictionary, np.append(places, places.dtype.type(-1))[numbers]
            codes.append(numbers)
    # Cells that differ only in form are one id. Distinct cells are compared, since they are fewer than rows.
    compared = _comparable(known)
    if compared is known:
        return np.concatenate(codes), known
    coded = compared.dictionary_encode()
    places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(places, places.dtype.type(-1))[np.concatenate(codes)], coded.dictionary


def _plain(column: Any) -> Any:
    """The cells of an array in a basic type, one for all kinds of text."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_nested(column.type):
        raise UnreadableIdsError(ONE_COLUMN)
    if types.is_null(column.type):
        column = column.cast(pa.string())
    if types.is_float16(column.type):
        column = column.cast(pa.float32())
    if str(column.type) in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view"):
        column = column.cast(pa.large_binary())
    return column


def _comparable(ids: Any) -> Any:
    """The distinct cells of such an array in the form in which they are compared; null if there is no id.

    The array itself if that changes nothing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if types.is_floating(ids.type):
        return pc.if_else(pc.is_nan(ids), pa.scalar(None, ids.type), pc.add(ids, pa.scalar(0.0, ids.type)))
    if types.is_large_binary(ids.type):
        text = ids.cast(pa.large_string(), safe=False)
        whole, text = text, pc.ascii_trim_whitespace(text)
        if not pc.any(pc.equal(pc.binary_length(text), 0)).as_py() and text.equals(whole):
            return ids
        return pc.if_else(pc.equal(pc.binary_length(text), 0), pa.scalar(None, text.type), text)
    return ids


def of_range(parts: list[Codes]) -> tuple[Codes, range] | None:
    """The same for integers from a short range, which need no hash table; None for others."""
    rows, low, high = (
        sum(map(len, parts)),
        min(int(part.min()) for part in parts),
        max(int(part.max()) for part in parts),
    )
    if not _is_short(low, high, rows):
        return None
    there = np.zeros(high - low + 1, dtype=np.int32)
    for part in parts:
        there[part.astype(np.int64, copy=False) - low] = 1
    people = int(there.sum())
    np.cumsum(there, out=there)
    there -= 1
    codes, at = np.empty(rows, dtype=np.int32), 0
    for part in parts:
        codes[at : at + len(part)] = there[part.astype(np.int64, copy=False) - low]
        at += len(part)
    return codes, range(people)


def _is_short(low: int, high: int, rows: int) -> bool:
    return high - low <= 4 * rows < 2**30 and max(high, -low) < 2**62
