"""Ids as numbers, many rows at a time, exactly.

Guarantee: two ids have the same number if and only if they are the same bytes. A hash only says where to look. Each
whole id is then compared with one that has its number. If two ids have the same hash, nothing is returned, and ids are
compared in another way (`sources.ids`).

An id is a few 64-bit words, the last padded with zeros. Text that begins or ends with a blank or a control character is
not read in this way: text is compared without surrounding blanks, and a padding zero cannot be a part of the text.

>>> rows, _ = words_of_numbers(np.array([7, 5, 7, 9]))
>>> numbers, ids = numbered([Ids.of(rows)])
>>> bool((ids[numbers] == rows).all()), len(ids)
(True, 3)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WIDTH", "Ids", "numbered", "numbered_together", "pieces", "text_of", "words_of_numbers", "words_of_text"]

Words = NDArray[np.uint64]
WIDTH = 64  # bytes of the longest text that is read as words
_BYTES = 8  # of a word
_BLANK = 32  # bytes up to this are blanks or control characters
_AT_ONCE = 2**16  # rows whose intermediate results fit into a processor's cache
_ROUNDS = 64  # most hashes with the same first bits before another search is used
# Odd numbers from the digits of π: any numbers unrelated to patterns in ids would do.
_FACTORS = np.array([
    0x243F6A8885A308D3, 0x13198A2E03707345, 0xA4093822299F31D1, 0x082EFA98EC4E6C89,
    0x452821E638D01377, 0xBE5466CF34E90C6D, 0xC0AC29B7C97C50DD, 0x3F84D5B5B5470917,
], dtype=np.uint64)  # fmt: skip
_MASKS = np.frombuffer(  # of the first bytes of a word
    b"".join(b"\xff" * count + b"\0" * (_BYTES - count) for count in range(_BYTES + 1)), dtype=np.uint64
)


@dataclass(frozen=True, eq=False)
class Ids:
    """Ids of some rows as words, and their hashes."""

    words: Words
    hashes: NDArray[np.uint64]

    @classmethod
    def of(cls, words: Words) -> Ids:
        hashes = words[:, 0] * _FACTORS[0]
        for place in range(1, words.shape[1]):
            hashes += words[:, place] * _FACTORS[place]
        return cls(words, hashes)


def numbered(parts: Sequence[Ids]) -> tuple[NDArray[np.int32], Words] | None:
    """The number of each row's id, and the ids by their numbers; None if two ids have the same hash.

    Ids with fewer words than others are padded with zeros.
    """
    parts = [part for part in parts if len(part.words)]
    if not parts:
        return np.zeros(0, dtype=np.int32), np.zeros((0, 1), dtype=np.uint64)
    numbers, hashes = _by_hash(np.concatenate([part.hashes for part in parts]))
    place = _one_that_varies(parts)
    if place is not None:
        return numbers, _undone(hashes, parts[0].words[0], place)
    ids = np.zeros((len(hashes), max(part.words.shape[1] for part in parts)), dtype=np.uint64)
    ends = np.cumsum([0, *(len(part.words) for part in parts)]).tolist()
    first = np.empty(len(hashes), dtype=np.int32)
    first[numbers] = np.arange(len(numbers), dtype=np.int32)
    stands = np.zeros(len(numbers), dtype=bool)
    stands[first] = True
    for part, start, end in zip(parts, ends[:-1], ends[1:], strict=True):
        rows = np.flatnonzero(stands[start:end])
        ids[numbers[start:end][rows], : part.words.shape[1]] = part.words[rows]
    for part, start, end in zip(parts, ends[:-1], ends[1:], strict=True):
        same, width = ids.take(numbers[start:end], axis=0), part.words.shape[1]
        if not np.array_equal(same[:, :width], part.words) or same[:, width:].any():
            return None
    return numbers, ids


def _one_that_varies(parts: Sequence[Ids]) -> int | None:
    """The index of the only word in which ids differ; None if they differ in several."""
    first = parts[0].words[0]
    varying = np.zeros(len(first), dtype=bool)
    for part in parts:
        if part.words.shape[1] != len(first):
            return None
        for place in np.flatnonzero(~varying):
            varying[place] = bool((part.words[:, place] != first[place]).any())
        if np.count_nonzero(varying) > 1:
            return None
    return int(np.argmax(varying))


def _undone(hashes: NDArray[np.uint64], first: NDArray[np.uint64], place: int) -> Words:
    """Ids from their hashes, if they differ in one word only: factors are odd, so the hash can be inverted."""
    ids = np.tile(first, (len(hashes), 1))
    one = ids[:1].copy()
    one[:, place] = 0
    rest = Ids.of(one).hashes
    ids[:, place] = (hashes - rest) * np.uint64(pow(int(_FACTORS[place]), -1, 2**64))
    return ids


def numbered_together(batches: Sequence[Words]) -> tuple[list[NDArray[np.int32]], Words] | None:
    """The same for batches that are already numbered; each is given as its ids by their numbers."""
    found = numbered([Ids.of(batch) for batch in batches])
    if found is None:
        return None
    ends = np.cumsum([len(batch) for batch in batches])[:-1]
    return np.split(found[0], ends), found[1]


def _by_hash(hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """Numbers of hashes, and the sorted hashes by their numbers; sorting many numbers is fast."""
    known = np.sort(hashes)
    known = known[np.append(True, known[1:] != known[:-1])[: len(known)]]
    bits = (2 * len(known)).bit_length()
    shift = np.uint64(64 - bits)
    counts = np.bincount((known >> shift).view(np.int64), minlength=2**bits)
    starts = (np.cumsum(counts) - counts).astype(np.int32)  # how many hashes have smaller first bits
    numbers = np.empty(len(hashes), dtype=np.int32)
    for part in pieces(len(hashes)):
        here = hashes[part]
        found = starts.take((here >> shift).view(np.int64))
        left = np.flatnonzero(known.take(found) != here)
        for _ in range(_ROUNDS):
            if not len(left):
                break
            found[left] += 1
            left = left[known.take(found[left]) != here[left]]
        if len(left):
            found[left] = np.searchsorted(known, here[left])
        numbers[part] = found
    return numbers, known


def pieces(length: int) -> Iterator[slice]:
    """Slices of a range of this length, some rows at a time."""
    for start in range(0, length, _AT_ONCE):
        yield slice(start, min(start + _AT_ONCE, length))


def words_of_numbers(numbers: NDArray[Any]) -> tuple[Words, NDArray[np.bool_] | None]:
    """One word for each number, and which rows have one, if some are NaN."""
    there = None
    if numbers.dtype.kind == "f":
        valid = ~np.isnan(numbers)
        if not valid.all():
            there, numbers = valid, numbers[valid]
        numbers = numbers.astype(np.float64) + 0.0  # −0 is 0
    elif numbers.dtype.kind == "i":
        numbers = numbers.astype(np.int64)
    else:
        numbers = numbers.astype(np.uint64)
    return numbers.view(np.uint64)[:, None], there


def words_of_text(column: Any) -> tuple[Words, NDArray[np.bool_] | None] | None:
    """The words of an Arrow array of text, and which rows have an id, if not all do.

    None if a text is longer than `WIDTH`. Missing or blank cells have no words.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    there = None
    if not _plain(column):
        if not types.is_large_string(column.type):
            column = column.cast(pa.large_binary())
        text = pc.ascii_trim_whitespace(column.cast(pa.large_string(), safe=False))
        there = pc.fill_null(pc.greater(pc.binary_length(text), 0), False).to_numpy(zero_copy_only=False)
        column = text.filter(pa.array(there))
        if not _plain(column):
            return None  # a text has a control character at an end
    ends, cells = _parts(column)
    lengths = np.diff(ends)
    shortest, longest = int(lengths.min(initial=WIDTH)), int(lengths.max(initial=1))
    if longest > WIDTH:
        return None
    width = -(-longest // _BYTES) * _BYTES
    if shortest == longest:
        found = np.zeros((len(lengths), width), dtype=np.uint8)
        found[:, :longest] = cells.reshape(-1, longest)
        return found.view(np.uint64), there
    padded = np.zeros(len(cells) + width, dtype=np.uint8)
    padded[: len(cells)] = cells
    rows = np.ndarray((len(cells) + 1,), dtype=f"V{width}", buffer=padded, strides=(1,))
    words = rows[ends[:-1] - ends[0]].view(np.uint64).reshape(len(lengths), width // _BYTES)
    _clear(words, lengths)
    return words, there


def text_of(words: Words) -> Any:
    """The texts from which these words were read, as an Arrow array of bytes."""
    import pyarrow as pa

    rows = np.ascontiguousarray(words).view(np.uint8)
    places = np.arange(1, rows.shape[1] + 1, dtype=np.uint8)
    lengths = np.where(rows != 0, places, 0).max(axis=1, initial=0)  # no text ends with a zero
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    there = places <= lengths[:, None]
    return pa.Array.from_buffers(
        pa.large_binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(rows[there].tobytes())]
    )


def _clear(words: Words, lengths: NDArray[Any]) -> None:
    """Set the bytes after each text to zero."""
    for place in range(words.shape[1]):
        words[:, place] &= _MASKS.take(np.clip(lengths - place * _BYTES, 0, _BYTES))


def _parts(column: Any) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """The offsets of the texts, and the bytes that belong to this array."""
    import pyarrow.types as types

    wide = types.is_large_string(column.type) or types.is_large_binary(column.type)
    buffers = column.buffers()
    if not len(column) or buffers[1] is None:
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    ends = np.frombuffer(buffers[1], dtype=np.int64 if wide else np.int32)
    ends = ends[column.offset : column.offset + len(column) + 1]
    cells = np.zeros(0, dtype=np.uint8) if buffers[2] is None else np.frombuffer(buffers[2], dtype=np.uint8)
    return ends, cells[int(ends[0]) : int(ends[-1])]


def _plain(column: Any) -> bool:
    """Whether every cell is text that neither begins nor ends with a blank or a control character."""
    if column.null_count:
        return False
    ends, cells = _parts(column)
    if len(ends) > 1 and int(np.diff(ends).min()) == 0:
        return False
    if not len(cells) or int(cells.min()) > _BLANK:
        return True
    starts = ends - ends[0]
    return int(cells[starts[:-1]].min()) > _BLANK and int(cells[starts[1:] - 1].min()) > _BLANK
