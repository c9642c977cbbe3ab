"""Columns of pandas frames as numbers, cell by cell: how a column is read depends on its type, never on values.

A column of objects has no type, and pandas makes a column text if one cell is not a number. Their cells are read one by
one (`sources.objects`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources import cells
from dpeigen.sources.category_names import is_written, number_written, truth_written
from dpeigen.sources.objects import is_real, numbers_of

__all__ = ["column_is", "column_numbers", "is_text_type", "plain_frame"]


def column_numbers(column: Any, kind: str | None = None) -> NDArray[np.float64]:
    """A column as doubles, by its declared type; NaN if a cell is missing or does not fit."""
    column = _real(column)
    own = is_real(column) or (_is_number_type(column.dtype) and not _is_arrow(column.dtype))
    if own and kind in (None, "number", "bool"):
        with np.errstate(over="ignore"):
            found = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return cells.truth(found) if kind == "bool" else found
    if column.dtype != np.dtype("O"):
        import pyarrow as pa

        try:
            held = pa.array(column)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):  # invalid characters, or mixed categories
            held = None
        if held is not None:
            return cells.numbers(held, kind).astype(np.float64)
    return numbers_of(column.astype(object).tolist(), kind)


def column_is(column: Any, value: Any) -> NDArray[np.bool_]:
    """Whether each cell is a listed category or level; False if it cannot be compared.

    One cell can change the type that pandas gives to a column: a missing cell turns integers into floats, a word turns
    numbers into text. So cells are compared in the same way for all types: with a number as a number, with a text by
    the rule of `sources.category_names`.
    """
    column = _real(column)
    kind = column.dtype
    if not isinstance(value, str):
        if isinstance(kind, np.dtype) and kind.kind == "f":
            value = kind.type(value)  # rounded to single precision, as the column is
        return np.asarray(column_numbers(column) == float(value))
    import pandas as pd

    if isinstance(kind, pd.CategoricalDtype):
        same = [is_written(cell, value) for cell in kind.categories.astype(object).tolist()]
        return np.append(np.array(same, dtype=bool), False)[column.cat.codes.to_numpy()]  # -1 is a missing cell
    if is_text_type(kind) or (kind == np.dtype("O") and pd.api.types.infer_dtype(column) == "string"):
        return np.asarray(column.isin([value]).to_numpy(bool))
    if is_real(column) or _is_number_type(kind):
        truth = kind == np.dtype("bool") or str(kind).startswith("bool")
        return np.asarray(column_numbers(column) == (truth_written(value) if truth else number_written(value)))
    return np.array([is_written(cell, value) for cell in column.astype(object).tolist()], dtype=bool)


def plain_frame(frame: Any) -> Any:
    """The frame with columns of objects, of text, and of nullable or complex numbers converted to doubles.

    pandas gives these types to a whole column because of one cell.
    """
    given = frame
    for at, kind in enumerate(given.dtypes):
        if kind == np.dtype("O") or _is_complex(kind) or is_text_type(kind) or _is_number_type(kind):
            frame = frame.copy(deep=False) if frame is given else frame
            frame.isetitem(at, column_numbers(given.iloc[:, at]))
    return frame


def _real(column: Any) -> Any:
    """A complex column as one of real numbers, NaN for cells that are not real; other columns as they are.

    So a cell means the same whether or not another one is complex.
    """
    if not _is_complex(column.dtype):
        return column
    import pandas as pd

    values = column.to_numpy()
    return pd.Series(np.where(values.imag == 0, values.real, np.nan))


def _is_complex(kind: Any) -> bool:
    return isinstance(kind, np.dtype) and kind.kind == "c"


def is_text_type(kind: Any) -> bool:
    """Whether a type is text. pandas gives it to a whole column if one cell is not a number."""
    import pandas as pd

    if isinstance(kind, pd.ArrowDtype):
        return str(kind.pyarrow_dtype) in ("string", "large_string", "string_view")
    return isinstance(kind, pd.StringDtype)


def _is_number_type(kind: Any) -> bool:
    """Whether a type is one of nullable numbers or truth values."""
    from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

    extended = not isinstance(kind, np.dtype) and not is_complex_dtype(kind)
    return extended and bool(is_numeric_dtype(kind) or is_bool_dtype(kind))


def _is_arrow(kind: Any) -> bool:
    import pandas as pd

    return isinstance(kind, pd.ArrowDtype)
