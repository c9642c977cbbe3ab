"""Whose row a row is: ids as numbers of people, 0, 1, 2 and so on. The ids themselves are not kept.

Cells are compared as they are read: numbers by value, text without the blanks around it. A column of Python objects is
compared cell by cell as text, whatever other cells hold; a whole number has no decimal point there: 7, 7.0 and "7" are
one person, "007" is another. A row without an id (nothing, NaN, or blanks) is a person of its own: nothing is refused,
so nothing is told.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.base import UnreadableRowsError

Codes = NDArray[Any]  # integers
_BLANKS = " \t\n\r\x0b\x0c"  # as Arrow trims them


class UnreadableIdsError(UnreadableRowsError):
    """What is given as ids of rows is none, by its type or shape. The message holds no id."""


_PEOPLE = {"patient", "person", "people", "user", "customer", "subject", "client", "member", "participant", "employee"}
_MARKS = {"id", "ids", "uid", "uuid", "guid", "identifier", "mrn", "ssn"}
_NUMBERS = {"no", "nr", "num", "number", "key", "code", "name", "hash", "ref"}


def looks_like_id(name: str) -> bool:
    """Whether the name of a column, which is public, says that it tells whose row it is.

    >>> [name for name in ("patient_id", "PatientNo", "patient age", "width") if looks_like_id(name)]
    ['patient_id', 'PatientNo']
    """
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name)).lower()))
    return bool(words & _MARKS) or bool(words & _PEOPLE and words <= _PEOPLE | _NUMBERS)


def encoded(ids: Any) -> tuple[Codes, int]:
    """The number of each row's person, and how many people there are."""
    return with_missing(*told_apart(ids))


def told_apart(ids: Any, *, named: bool = False) -> tuple[Codes, Any]:
    """The number of each row's person, −1 where there is no id; and the ids by their numbers, as text if ``named``."""
    import pyarrow as pa

    if isinstance(ids, (pa.Array, pa.ChunkedArray)):
        return _of_arrow(ids, named=named)
    if hasattr(ids, "to_arrow") and type(ids).__module__.startswith("polars"):
        return _of_arrow(ids.to_arrow(), named=named)
    if isinstance(ids, (str, bytes)) or not hasattr(ids, "__len__") or getattr(ids, "ndim", 1) != 1:
        raise UnreadableIdsError(_ONE_COLUMN)
    kind = getattr(getattr(ids, "dtype", None), "kind", "O")
    if kind == "c":
        raise UnreadableIdsError(_ONE_COLUMN)
    if kind in "iu" and isinstance(ids, np.ndarray) and not named and len(ids):
        low, high = int(ids.min()), int(ids.max())
        if _is_short(low, high, len(ids)):
            return _of_range(ids.astype(np.int64), low, high)
    if kind == "O":  # cell by cell: what one cell is must not change how others are compared
        return _of_cells(list(ids))
    try:
        column = pa.array(ids, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # of a type that it does not know
        return _of_cells(list(ids))
    return _of_arrow(column, named=named)


def joined(parts: Iterable[Any]) -> tuple[Codes, int]:
    """The same for a column that comes in Arrow arrays of one type."""
    import pyarrow as pa

    found = [chunk for part in parts for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])]
    if not found:
        return np.zeros(0, dtype=np.int64), 0
    return with_missing(*_of_arrow(pa.chunked_array(found), named=False))


_ONE_COLUMN = (
    "The 'unit' parameter must be the name of a column, or one id for each row: numbers, text or dates in one "
    "dimension. Nothing was spent."
)


def _of_arrow(column: Any, *, named: bool) -> tuple[Codes, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_nested(column.type):
        raise UnreadableIdsError(_ONE_COLUMN)
    if types.is_null(column.type):
        return np.full(len(column), -1), []
    if types.is_integer(column.type) and not column.null_count and len(column) and not named:
        numbers = column.to_numpy()
        low, high = int(numbers.min()), int(numbers.max())
        if _is_short(low, high, len(numbers)):
            return _of_range(numbers.astype(np.int64, copy=False), low, high)
    if types.is_float16(column.type):
        column = column.cast(pa.float32())
    if types.is_floating(column.type):
        column = pc.if_else(
            pc.is_nan(column), pa.scalar(None, column.type), pc.add(column, pa.scalar(0.0, column.type))
        )
    if str(column.type) in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view"):
        text = column.cast(pa.large_binary()).cast(pa.large_string(), safe=False)
        text = pc.ascii_trim_whitespace(text)
        column = pc.if_else(pc.equal(pc.binary_length(text), 0), pa.scalar(None, text.type), text)
    whole = column.combine_chunks()
    whole = whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    coded = whole.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, [str(as_text(cell)) for cell in coded.dictionary.to_pylist()] if named else coded.dictionary


def _of_range(numbers: Codes, low: int, high: int) -> tuple[Codes, range]:
    """The same for whole numbers from a short range, which need no table of hashes."""
    places = numbers - low
    there = np.zeros(high - low + 1, dtype=np.int32)
    there[places] = 1
    people = int(there.sum())
    np.cumsum(there, out=there)
    there -= 1
    return there[places], range(people)


def _is_short(low: int, high: int, rows: int) -> bool:
    return high - low <= 4 * rows < 2**30 and max(high, -low) < 2**62


def _of_cells(cells: list[Any]) -> tuple[Codes, list[str]]:
    known: dict[str, int] = {}
    keys = (as_text(cell) for cell in cells)
    codes = np.fromiter(
        (-1 if key is None else known.setdefault(key, len(known)) for key in keys), np.int64, len(cells)
    )
    return codes, list(known)


def with_missing(codes: Codes, known: Any) -> tuple[Codes, int]:
    """Rows without an id as people of their own; and how many people there are."""
    missing, people = codes < 0, len(known)
    count = int(np.count_nonzero(missing))
    if count:
        codes = codes.copy()
        codes[missing] = people + np.arange(count)
    return codes, people + count


def as_text(cell: Any) -> str | None:
    """A cell as text; None where it is missing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "surrogateescape")
    if isinstance(cell, str):
        return cell.strip(_BLANKS) or None
    try:
        if isinstance(cell, (numbers.Real, Decimal)) and not isinstance(cell, (bool, np.bool_)):
            number = float(cell)
            if math.isnan(number):
                return None
            whole = int(cell) if math.isfinite(number) else None  # type: ignore[arg-type]
            rest = str(cell.normalize()) if isinstance(cell, Decimal) else repr(number)
            return str(whole) if cell == whole else rest
        return str(cell).strip() or None
    except Exception:  # code of a cell's own type may raise anything
        return None
