"""Lists and other containers of Python objects as numbers, cell by cell; NaN for cells that do not fit.

The type that NumPy or pandas would give such a container depends on its values, so one cell could change how, or
whether, all others are read. Here each cell is read separately: a real number is itself (but an integer too large for a
double is NaN), text is read as in files (`sources.cells`), and everything else is NaN. Warnings of a cell's own type,
such as NumPy's about masked cells, are dropped: they would show that there is such a cell.
"""

from __future__ import annotations

import datetime
import numbers
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.sources import cells

__all__ = ["is_real", "numbers_of", "table_of"]

_PLAIN = frozenset({bool, int, float, type(None), np.float64, np.float32, np.int64, np.int32, np.bool_})


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def is_real(array: Any) -> bool:
    """Whether the type of an array is one of real numbers."""
    return isinstance(array.dtype, np.dtype) and array.dtype.kind in "fiub"


def numbers_of(listed: list[Any], kind: str | None = None) -> Floats:
    """Objects as doubles, by the declared type."""
    if kind in (None, "number") and _PLAIN.issuperset(map(type, listed)):
        try:
            return np.array(listed, dtype=np.float64)
        except OverflowError:
            pass
    read = _moment(kind) if kind in ("date", "timestamp") else _number
    with _quiet():
        found = np.array([read(cell) for cell in listed], dtype=np.float64)
    if kind == "bool":
        found = cells.truth(found)
    texts = np.array([isinstance(cell, str) for cell in listed], dtype=bool)
    if texts.any():
        found[texts] = _from_texts([cell for cell in listed if isinstance(cell, str)], kind)
    return found


def table_of(given: Any, width: int | None = None) -> tuple[NDArray[Any], bool] | None:
    """Rows in lists, or an array of any type, as a table of real numbers; None if it is not a table.

    Also returns whether some cell was neither a number nor missing, or some row was not a row. ``width``: the number of
    columns, if known; otherwise the most frequent length of rows. A row of another length, or an item that is not a
    row, is a bad row.
    """
    try:
        with _quiet():
            array = np.asarray(given)
    except Exception:  # code of a cell's own type may raise anything
        array = None
    listed_rows = isinstance(given, (list, tuple))
    if (
        array is not None
        and array.ndim == 2
        and is_real(array)
        and (not listed_rows or width in (None, array.shape[1]))
    ):
        return array, False
    rows = [_cells(row) for row in given] if listed_rows else []
    lengths = [len(row) for row in rows if row is not None]
    if not listed_rows or not (lengths or width):
        return _from_array(array) if array is not None and array.ndim == 2 else None
    width = max(set(lengths), key=lambda length: (lengths.count(length), length)) if width is None else width
    missing: list[Any] = [None] * width
    listed = [cell for row in rows for cell in (missing if row is None or len(row) != width else row)]
    found, odd = _judged(listed)
    odd = odd or any(row is None or len(row) != width for row in rows)
    return found.reshape(len(rows), width), odd


def _from_array(array: NDArray[Any]) -> tuple[Floats, bool]:
    """Cells of an array whose type is not one of real numbers; a single cell may have determined that type."""
    if array.dtype.kind == "c":
        real = np.where(array.imag == 0, array.real, np.nan)
        return real.astype(np.float64), bool((array.imag != 0).any())
    if array.dtype.kind == "S":  # one cell of bytes makes NumPy write all others as bytes
        array = np.char.decode(array, "utf-8", "replace")
    found, odd = _judged(array.astype(object).ravel().tolist())
    return found.reshape(array.shape), odd


def _judged(listed: list[Any]) -> tuple[Floats, bool]:
    """Numbers, and whether some cell was neither a number nor missing."""
    found = numbers_of(listed)
    return found, any(not _is_missing(listed[at]) for at in np.flatnonzero(np.isnan(found)))


def _cells(row: Any) -> Sequence[Any] | None:
    """The cells of a row; None if it is not a row."""
    if isinstance(row, (list, tuple)):
        return row
    return list(row) if isinstance(row, np.ndarray) and row.ndim == 1 else None


def _number(cell: Any) -> float:
    """A real number as a double; text is not read here."""
    known = isinstance(cell, (numbers.Real, Decimal, np.bool_))
    if isinstance(cell, np.timedelta64) or not (known or (isinstance(cell, np.ndarray) and not cell.ndim)):
        return np.nan
    if isinstance(cell, np.ndarray) and not is_real(cell):
        return np.nan
    try:
        return float(cell)
    except Exception:  # code of the cell's own type may raise anything
        return np.nan


def _moment(kind: str) -> Callable[[Any], float]:
    """A function that converts a date or time object to days, or seconds, since 1970-01-01."""
    unit = "M8[D]" if kind == "date" else "M8[s]"

    def read(cell: Any) -> float:
        if not isinstance(cell, (datetime.date, np.datetime64)):
            return np.nan
        try:
            if isinstance(cell, datetime.datetime) and cell.tzinfo is not None:
                cell = cell.astimezone(datetime.timezone.utc).replace(tzinfo=None)
            moment = np.datetime64(cell).astype(unit)
        except Exception:  # code of the cell's own type may raise anything
            return np.nan
        return np.nan if np.isnat(moment) else float(moment.astype(np.int64))

    return read


def _from_texts(texts: list[str], kind: str | None) -> Floats:
    import pyarrow as pa

    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]  # lone surrogates are not valid UTF-8
    return cells.numbers(pa.array(encoded, pa.large_binary()), kind)


def _is_missing(cell: Any) -> bool:
    """Whether a cell is a missing or infinite number rather than something else."""
    return cell is None or isinstance(cell, numbers.Real) or type(cell).__name__ in ("NAType", "NaTType")
