"""Ids of rows converted to numbers of people, 0, 1, 2 and so on. The ids themselves are not kept.

Numbers are compared by value. Text is compared byte by byte, without surrounding (ASCII) blanks: upper and lower case,
or two Unicode forms of one letter, are different people. A column of Python objects is compared cell by cell as text,
whatever other cells contain; integers have no decimal point there: 7, 7.0 and "7" are one person, "007" is another. A
row without an id (nothing, NaN, or blanks) is a separate person: it is not refused, because a refusal would reveal it.
"""

from __future__ import annotations

import datetime
import math
import numbers
import re
import sys
from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources import id_columns
from dpeigen.sources.id_columns import ONE_COLUMN, UnreadableIdsError, chunks_of, in_turns, of_range
from dpeigen.sources.wide_integers import ids_in_arrow, is_object

__all__ = [
    "BLANKS",
    "Codes",
    "UnreadableIdsError",
    "as_text",
    "encoded",
    "joined",
    "looks_like_id",
    "told_apart",
    "with_missing",
]

Codes = NDArray[Any]  # integers
BLANKS = " \t\n\r\x0b\x0c"  # as Arrow trims them
_PRINTED = 4096  # bits of integers that Python converts to decimal digits under any settings


_PEOPLE = {"patient", "person", "people", "user", "customer", "subject", "client", "member", "participant", "employee",
           "student", "pupil", "respondent", "household", "account", "donor"}  # fmt: skip
_PAPERS = {"case", "record", "encounter", "admission", "insurance", "patienten", "versicherten", "fall", "akten",
           "pat", "pers", "subj", "cust", "emp", "acct", "hh", "p"}  # fmt: skip
_SHORT = _PEOPLE | _PAPERS  # the second only together with a word for "number"
_MARKS = {"id", "ids", "uid", "uuid", "guid", "identifier", "mrn", "ssn", "email", "passport"}
_NUMBERS = {"no", "nr", "num", "number", "nummer", "key", "code", "name", "hash", "ref"}
_ENDS = ("id", "no", "nr", "num", "number", "nummer")


def looks_like_id(name: object) -> bool:
    """Whether the (public) name of a column suggests that it contains ids of people.

    >>> [looks_like_id(name) for name in ("patient_id", "patientid", "PatNo", "Subject", "age", "paid")]
    [True, True, True, True, False, False]
    >>> [looks_like_id(name) for name in ("case no", "Fallnummer", "Patientennr", "fall", "case")]
    [True, True, True, False, False]
    """
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name)).lower()))
    joined = any(word.removesuffix(end) in _SHORT for word in words for end in _ENDS if word.endswith(end))
    numbered = words & _SHORT and words & _NUMBERS and words <= _SHORT | _NUMBERS
    return joined or bool(words & _MARKS or numbered or (words & _PEOPLE and words <= _PEOPLE))


def encoded(ids: Any) -> tuple[Codes, int]:
    """The number of each row's person, and the number of people."""
    return with_missing(*told_apart(ids))


def told_apart(ids: Any, *, named: bool = False) -> tuple[Codes, Any]:
    """The number of each row's person, −1 if there is no id; and the ids by their numbers, as text if ``named``."""
    import pyarrow as pa

    if isinstance(ids, (pa.Array, pa.ChunkedArray)):
        return _of_arrow(ids, named=named)
    if hasattr(ids, "to_arrow") and type(ids).__module__.startswith("polars"):
        if is_object(ids.dtype):  # UUIDs, for example: Arrow would get the addresses of cells, not the cells
            return _of_cells(ids.to_list())
        return _of_arrow(ids_in_arrow(ids), named=named)
    unordered = isinstance(ids, (str, bytes, Mapping, Set))  # e.g. the keys of a dict would be used as ids
    if unordered or not hasattr(ids, "__len__") or getattr(ids, "ndim", 1) != 1:
        raise UnreadableIdsError(ONE_COLUMN)
    if isinstance(ids, np.ma.MaskedArray):  # arithmetic does not change masked cells
        if not np.ma.is_masked(ids):
            return told_apart(ids.data, named=named)
        cells = ids.data.astype(object)
        cells[np.ma.getmaskarray(ids)] = None
        return _of_cells(cells.tolist())
    kind = getattr(getattr(ids, "dtype", None), "kind", "O")
    if kind == "c" and isinstance(ids, np.ndarray):  # of a column of pandas, one cell may have determined the type
        raise UnreadableIdsError(ONE_COLUMN)
    if kind in "iu" and isinstance(ids, np.ndarray) and not named and len(ids):
        found = of_range(np.split(ids, range(id_columns.AT_ONCE, len(ids), id_columns.AT_ONCE)))
        if found is not None:
            return found
    if kind in "SU" and isinstance(ids, np.ndarray) and ids.dtype.itemsize:
        return _of_fixed_width(ids, named=named)
    text = _all_text(ids) if kind == "O" else None
    if text is not None:
        return _of_arrow(text, named=named)
    if kind in "Oc":  # cell by cell: one cell must not change how others are compared
        return _of_cells(list(ids))
    try:
        column = pa.array(ids, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # a type that Arrow does not know
        return _of_cells(list(ids))
    return _of_arrow(column, named=named)


def _all_text(ids: Any) -> Any | None:
    """An Arrow array of a column in which every cell is text or missing; None for other columns."""
    import pyarrow as pa
    import pyarrow.types as types

    plain = getattr(ids, "dtype", np.dtype(object)) == np.dtype(object)
    try:  # as text, Arrow accepts text, bytes and missing cells, and refuses everything else
        column = pa.array(ids, pa.large_string() if plain else None, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    return column if types.is_string(kind) or types.is_large_string(kind) else None


def _of_fixed_width(ids: NDArray[Any], *, named: bool) -> tuple[Codes, Any]:
    """The same for an array of text of one width: rows are compared by their bytes, so that few cells are read."""
    import pyarrow as pa

    rows, width = np.ascontiguousarray(ids), ids.dtype.itemsize
    numbers, known = [], b""
    for start in range(0, len(rows), id_columns.AT_ONCE):
        part = known + rows[start : start + id_columns.AT_ONCE].tobytes()
        before, count = len(known) // width, len(part) // width
        coded = pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(part)]).dictionary_encode()
        numbers.append(coded.indices.to_numpy()[before:])
        found = coded.dictionary
        known = found.buffers()[1].to_pybytes()[found.offset * width : (found.offset + len(found)) * width]
    # PyArrow would end a text at its first NUL byte: ids that differ after it would be one person.
    cells = _fixed_cells(known, ids.dtype)
    try:
        places, names = _of_arrow(pa.array(cells), named=named)
    except (UnicodeError, pa.ArrowException):  # incomplete or invalid characters
        places, names = _of_cells(cells)
    return places[np.concatenate(numbers)] if numbers else places, names


def _fixed_cells(known: bytes, dtype: np.dtype[Any]) -> list[Any]:
    """Cells of an array of text of one width; as bytes if there are invalid characters, which NumPy cannot read."""
    cells = np.frombuffer(known, dtype=dtype)
    if dtype.kind == "S":
        return cells.tolist()
    points = np.frombuffer(known, dtype=np.dtype(np.uint32).newbyteorder(dtype.byteorder))
    odd = np.flatnonzero((points.reshape(len(cells), -1) > sys.maxunicode).any(axis=1))
    if not len(odd):
        return cells.tolist()
    width, strange = dtype.itemsize, set(odd.tolist())
    return [known[at * width : (at + 1) * width] if at in strange else cells[at].item() for at in range(len(cells))]


def joined(parts: Iterable[Any]) -> tuple[Codes, int]:
    """`encoded` for a column in several Arrow arrays of one type."""
    return with_missing(*in_turns(chunks_of(parts)))


def _of_arrow(column: Any, *, named: bool) -> tuple[Codes, Any]:
    import pyarrow as pa
    import pyarrow.types as types

    if not named:
        return in_turns(chunks_of([column]))
    codes, known = in_turns(chunks_of([column]), quick=False)
    if types.is_large_string(known.type):  # of any bytes: they may not be valid text
        known = known.cast(pa.large_binary())
    return codes, [str(_id_text(cell)) for cell in known.to_pylist()]


def _of_cells(cells: list[Any]) -> tuple[Codes, list[str]]:
    known: dict[str, int] = {}
    keys = (_id_text(cell) for cell in cells)
    codes = np.fromiter(
        (-1 if key is None else known.setdefault(key, len(known)) for key in keys), np.int64, len(cells)
    )
    return codes, list(known)


def with_missing(codes: Codes, known: Any) -> tuple[Codes, int]:
    """The numbers, with a new one for each row without an id; and the number of people."""
    missing, people = codes < 0, len(known)
    count = int(np.count_nonzero(missing))
    if count:
        codes = codes.copy()
        codes[missing] = people + np.arange(count)
    return codes, people + count


def _id_text(cell: Any) -> str | None:
    """`as_text`, with durations written alike: those of pandas and of Python are not.

    Of objects without a text of their own Python gives the address. Equal ones have different addresses, so all of one
    type are one id: that protects them together.
    """
    kind: Any = type(cell)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return f"<{kind.__qualname__}>"
    if not isinstance(cell, datetime.timedelta):
        return as_text(cell)
    return f"{cell.days} days {cell.seconds} s {1000 * cell.microseconds + getattr(cell, 'nanoseconds', 0)} ns"


def as_text(cell: Any) -> str | None:
    """A cell as text; None if it is missing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, (np.datetime64, np.timedelta64)) and np.isnat(cell):
        return None
    if isinstance(cell, (bytes, bytearray, memoryview)):
        cell = bytes(cell).decode("utf-8", "surrogateescape")
    if isinstance(cell, str):
        return cell.strip(BLANKS) or None
    try:
        if isinstance(cell, (bool, np.bool_)):
            return str(cell)
        if isinstance(cell, (complex, np.complexfloating)) and cell.imag == 0:
            cell = cell.real
        if isinstance(cell, numbers.Integral):  # of any size, also too large for a float
            whole = int(cell)
            return str(whole) if whole.bit_length() <= _PRINTED else hex(whole)
        if isinstance(cell, (numbers.Real, Decimal)):
            try:
                number = float(cell)
            except OverflowError:  # too large for a float, but a valid id
                return str(cell)
            if math.isnan(number):
                return None
            integer = int(cell) if math.isfinite(number) else None  # type: ignore[arg-type]
            rest = str(cell.normalize()) if isinstance(cell, Decimal) else repr(number)
            return str(integer) if cell == integer else rest
        return str(cell).strip() or None
    except Exception:  # the code of a cell's type may raise anything
        return None
