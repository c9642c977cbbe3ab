"""One cell at a time: what an Arrow column holds as numbers, with NaN wherever a cell does not fit.

A cell that cannot be read as what its column is declared to be makes a bad row, as a missing one does, and is never an
error: an error would be an answer about that cell which no noise protects. A whole column is converted at once. Only
where that fails are the cells looked for that made it fail, and the others come out as if those had been missing.

A number in a text is what Arrow's reader of CSV files takes for one, in every reader: decimal digits, a point, an
exponent, with blanks and tabs around it. "1_000", "0x10" and digits of other scripts are no numbers.
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
# Every text that Arrow reads as the type, and hardly another one: what these leave out need not be looked for.
_LIKELY = {
    "number": r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$",  # those that are not finite are bad anyway
    "bool": r"^(?i:true|false|0|1)$",
    "date": rf"^{_DAY}$",
    "timestamp": rf"^{_DAY}([ T]([01][0-9]|2[0-3])(:?[0-5][0-9]){{0,2}})?$",
}


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is text, or bytes that stand for it."""
    return str(kind) in ("string", "large_string", "string_view", "binary", "large_binary")


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a declared type."""
    import pyarrow as pa

    return {"bool": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("s")}.get(kind, pa.float64())


def from_text(column: Any, kind: str) -> Any:
    """A column of text, or of bytes, as the declared type; null where a cell is none."""
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
    """A column of text, or of bytes that may be none, as text without blanks around it."""
    import pyarrow.compute as pc

    return pc.ascii_trim(_text(column), _BLANKS)


def _text(column: Any) -> Any:
    import pyarrow as pa

    return _whole(column).cast(pa.large_binary()).cast(pa.large_string(), safe=False)  # cells may be no UTF-8


def fitting(column: Any, cast: Callable[[Any], Any]) -> Any:
    """The column, cast; null where a cell by itself cannot be."""
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
    """An Arrow column as doubles (as single precision if it is that); NaN where a cell is missing or does not fit."""
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
    """0 and 1 as they are; of other numbers it is not known whether they mean true."""
    return np.where((values == 0) | (values == 1), values, np.nan)


def _whole(column: Any) -> Any:
    """One array of the chunks of a column."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def without(column: Any, kept: Any) -> Any:
    """The column with null where a cell is not kept."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(kept, column, pa.scalar(None, type=column.type))
