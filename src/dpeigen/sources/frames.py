"""Columns of pandas frames as numbers, each cell by itself: how a column is read depends on its type, never on values.

A column of objects has no type of its own, and pandas makes a column text where one cell is no number. Their cells are
read one by one (`sources.objects`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources import cells
from dpeigen.sources.objects import is_real, numbers_of


def column_numbers(column: Any, kind: str | None = None) -> NDArray[np.float64]:
    """A column as doubles, by its declared type; NaN where a cell is missing or does not fit."""
    plain = isinstance(column.dtype, np.dtype)
    if plain and column.dtype.kind == "c":
        values = column.to_numpy()
        return np.where(values.imag == 0, values.real, np.nan)
    own = is_real(column) or (_is_number_type(column.dtype) and not _is_arrow(column.dtype))
    if own and kind in (None, "number", "bool"):
        with np.errstate(over="ignore"):
            found = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return cells.truth(found) if kind == "bool" else found
    if column.dtype != np.dtype("O"):
        import pyarrow as pa

        try:
            held = pa.array(column)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):  # half a character, or mixed categories
            held = None
        if held is not None:
            return cells.numbers(held, kind).astype(np.float64)
    return numbers_of(column.astype(object).tolist(), kind)


def column_is(column: Any, value: Any) -> NDArray[np.bool_]:
    """Whether each cell is a category; what cannot be compared is not."""
    if is_real(column):
        # A number is compared in the column's own precision, as Arrow does.
        return np.asarray((column == column.dtype.type(value)).to_numpy(bool))
    try:
        return np.asarray(column.isin([value]).to_numpy(bool))
    except (TypeError, ValueError):  # of cells that have no hash
        known = [cell if _has_hash(cell) else None for cell in column.tolist()]
    return np.asarray(type(column)(known, dtype=object).isin([value]).to_numpy(bool))


def plain_frame(frame: Any) -> Any:
    """The frame with its columns of objects, of text, and of numbers that may be missing, as doubles."""
    given = frame
    for at, kind in enumerate(given.dtypes):
        if kind == np.dtype("O") or is_text_type(kind) or _is_number_type(kind):
            frame = frame.copy(deep=False) if frame is given else frame
            frame.isetitem(at, column_numbers(given.iloc[:, at]))
    return frame


def is_text_type(kind: Any) -> bool:
    """Whether a type is one of text. pandas gives it to a whole column if one cell is no number."""
    import pandas as pd

    if isinstance(kind, pd.ArrowDtype):
        return str(kind.pyarrow_dtype) in ("string", "large_string", "string_view")
    return isinstance(kind, pd.StringDtype)


def _is_number_type(kind: Any) -> bool:
    """Whether a type is one of numbers or truth values with missing ones among them."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    extended = not isinstance(kind, np.dtype) and not is_complex_dtype(kind)
    return extended and bool(is_numeric_dtype(kind) or is_bool_dtype(kind))


def _is_arrow(kind: Any) -> bool:
    import pandas as pd

    return isinstance(kind, pd.ArrowDtype)


def _has_hash(cell: Any) -> bool:
    if not isinstance(cell, Hashable):
        return False
    try:
        hash(cell)
    except TypeError:
        return False
    return True
