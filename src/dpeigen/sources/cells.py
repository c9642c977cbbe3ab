"""Arrow columns as numbers, cell by cell, with NaN for every cell that does not fit.

A cell that does not have the declared type of its column makes a bad row, like a missing cell. It is never an error: an
error would reveal something about that cell without noise. A whole column is converted at once. Only if that fails, the
cells that caused it are searched, and the others are read as if those were missing.

In every reader, a text is a number if Arrow's CSV reader accepts it: decimal digits, a point, an exponent, with blanks
and tabs around it. "1_000", "0x10" and digits of other scripts are not numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_type", "as_text", "fitting", "from_text", "is_text", "numbers", "truth", "without"]

_BLANKS = " \t"
_DAY = r"[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|[12][0-9]))"
# These match every text that Arrow reads as the type, and few others: texts that do not match need not be tried.
_LIKELY = {
    "number": r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$",  # texts for infinity or NaN are bad cells anyway
    "bool": r"^(?i:true|false|0|1)$",
    "date": rf"^{_DAY}$",
    "timestamp": rf"^{_DAY}([ T]([01][0-9]|2[0-3])(:?[0-5][0-9]){{0,2}})?$",
}


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is text, or bytes that are read as text."""
    return str(kind) in ("string", "large_string", "string_view", "binary", "large_binary")


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a declared type."""
    import pyarrow as pa

    return {"bool": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("s")}.get(kind, pa.float64())


def from_text(column: Any, kind: str) -> Any:
    """A column of text, or of bytes, as the declared type; null if a cell does not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = arrow_type(kind)
    column = _text(column)
    try:
        return column.cast(wanted, safe=False)
    except pa.ArrowException:
        pass
    column = pc.ascii_trim(column, _BLANKS)
    likely = pc.match_substring_regex(column, _LIKELY[kind])
    return fitting(without(column, likely), lambda cells: cells.cast(wanted, safe=False))


def as_text(column: Any) -> Any:
    """A column of text, or of bytes that may not be valid text, as text without surrounding blanks."""
    import pyarrow.compute as pc

    return pc.ascii_trim(_text(column), _BLANKS)


def _text(column: Any) -> Any:
    import pyarrow as pa

    return _whole(column).cast(pa.large_binary()).cast(pa.large_string(), safe=False)  # cells may not be UTF-8


def fitting(column: Any, cast: Callable[[Any], Any]) -> Any:
    """The column, cast; null for each cell that cannot be cast."""
    import pyarrow as pa

    column = _whole(column)
    fits = np.ones(len(column), dtype=bool)
    rest = [(0, len(column))]
    while rest:
        start, stop = rest.pop()
        try:
            found = cast(column.slice(start, stop - start))
        except pa.ArrowException:
            if stop - start == 1:
                fits[start] = False
            else:
                middle = (start + stop) // 2
                rest += [(start, middle), (middle, stop)]
            continue
        if stop - start == len(column):
            return found
    return cast(without(column, pa.array(fits)))


def numbers(column: Any, kind: str | None = None) -> NDArray[Any]:
    """An Arrow column as doubles (or in its own single precision); NaN if a cell is missing or does not fit."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_text(column.type):
        column = from_text(column, kind or "number")
    own, moment = column.type, kind in ("date", "timestamp")
    number = types.is_integer(own) or types.is_floating(own) or types.is_boolean(own) or types.is_decimal(own)
    if not (types.is_date(own) or types.is_timestamp(own) if moment else number):
        return np.full(len(column), np.nan)
    if moment:
        unit, whole = (pa.date32(), "int32") if kind == "date" else (pa.timestamp("s"), "int64")
        column = fitting(column, lambda cells: cells.cast(unit, safe=False).cast(whole))
    if column.type not in (pa.float32(), pa.float64()):
        column = fitting(column, lambda cells: cells.cast("float64", safe=False))
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return truth(found) if kind == "bool" else found


def truth(values: NDArray[Any]) -> Floats:
    """0 and 1 unchanged; other numbers have no truth value and become NaN."""
    return np.where((values == 0) | (values == 1), values, np.nan)


def _whole(column: Any) -> Any:
    """The chunks of a column as one array."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def without(column: Any, kept: Any) -> Any:
    """The column with null for cells that are not kept."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(kept, column, pa.scalar(None, type=column.type))
