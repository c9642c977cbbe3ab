"""Which columns are read, and how each becomes numbers: by declarations and the schema, never by looking at values.

A number, a decimal or a truth value is itself. Text that stands for a number, dates and times need a declared type. A
category becomes one column of 0 and 1 for each name on a declared list; a value that is not on it (or is missing) gives
0 in all of them, so that no list is ever made from the data and an unheard-of value is no answer about them. Any other
cell that is not what its column is declared to be gives NaN, which makes a bad row (`sources.cells`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import check_choice, complain
from dpeigen.sources import cells, frames

if TYPE_CHECKING:
    import pyarrow as pa

TYPES = ("number", "bool", "date", "timestamp")  # dates are days, times are seconds, since 1970-01-01
Categories = Mapping[str, Sequence[Any]]
Types = Mapping[str, str]


class AllBut:
    """All columns except some."""

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise ValueError(complain("skip", "open_source", "a list of names of columns", names))
        self._names = list(names)

    def of(self, available: Sequence[str]) -> list[str]:
        """Those that are left."""
        missing = [name for name in self._names if name not in available]
        if missing:
            must = f"names of some of the {len(available)} columns of the data"
            raise ValueError(complain("skip", "open_source", must, missing))
        return [name for name in available if name not in self._names]


class Columns:
    """The columns to use, and the features they become."""

    def __init__(
        self,
        available: Sequence[str],
        wanted: Sequence[str] | AllBut | None = None,
        categories: Categories | None = None,
        types: Types | None = None,
    ) -> None:
        wanted = wanted.of(available) if isinstance(wanted, AllBut) else wanted
        names = list(available) if wanted is None else list(wanted)
        if not names:
            raise ValueError("The data have no columns.")
        if len(set(names)) < len(names):
            raise ValueError(f"Column names must differ from each other. Got {names}.")
        missing = [name for name in names if name not in available]
        if missing:
            raise ValueError(f"Columns {missing} are not among the {len(available)} columns of the data.")
        index = [name for name in names if not name.strip() or name.startswith("__index_level_")]
        if index:
            raise ValueError(
                f"Columns {index} look like row numbers of a data frame. Leave them out: name the columns to use."
            )
        self.names = names
        self.categories = {name: _category_list(name, found) for name, found in (categories or {}).items()}
        self.types = {name: check_choice("types", kind, TYPES, "columns") for name, kind in (types or {}).items()}
        unused = [name for name in (*self.categories, *self.types) if name not in names]
        both = [name for name in self.categories if name in self.types]
        if unused or both:
            why = f"are not among the columns used: {unused}" if unused else f"have a type too: {both}"
            raise ValueError(f"Columns with declared categories or types {why}.")
        self.features = [feature for name in names for feature in self._features(name)]
        if len(set(self.features)) < len(self.features):
            raise ValueError("Names of columns and of categories must differ from each other.")

    def _features(self, name: str) -> list[str]:
        return [f"{name}={value}" for value in self.categories[name]] if name in self.categories else [name]

    # --- Arrow -----------------------------------------------------------------------------------------------------

    def check_arrow(self, schema: pa.Schema) -> None:
        """Refuse, by the schema, columns that nothing turns into numbers."""
        bad = [f"{name} ({schema.field(name).type})" for name in self.names if not self._fits(name, schema.field(name))]
        _refuse(bad)

    def _fits(self, name: str, field: pa.Field) -> bool:
        import pyarrow as pa
        import pyarrow.types as types

        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        if name in self.categories:
            try:
                return all(pa.scalar(value, type=kind) is not None for value in self.categories[name])
            except (pa.ArrowException, TypeError, ValueError):
                return False
        text = str(kind) in ("string", "large_string", "string_view")
        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        if name in self.types:
            times = types.is_date(kind) or types.is_timestamp(kind)
            return text or (times if self.types[name] in ("date", "timestamp") else numeric)
        return numeric and not types.is_dictionary(field.type)

    def csv_type(self, name: str) -> pa.DataType:
        """The type that a column of a CSV file is read as."""
        import pyarrow as pa

        return pa.string() if self.csv_kind(name) is None else cells.arrow_type(self.csv_kind(name) or "number")

    def csv_kind(self, name: str) -> str | None:
        """What the cells of a column of text stand for; None: for themselves, as categories."""
        if name in self.categories:
            return "number" if all(isinstance(value, (int, float)) for value in self.categories[name]) else None
        return self.types.get(name, "number")

    def from_arrow(self, batch: pa.RecordBatch | pa.Table) -> NDArray[Any]:
        """The rows of a batch that holds the columns in order; single precision where all columns are."""
        import pyarrow as pa

        single = not self.categories and not self.types and all(t == pa.float32() for t in batch.schema.types)
        rows = np.empty((len(self.features), batch.num_rows), dtype=np.float32 if single else np.float64)
        at = 0
        for name, column in zip(self.names, batch.columns, strict=True):
            for values in self._arrow_column(name, column):
                rows[at] = values
                at += 1
        return rows.T

    def _arrow_column(self, name: str, column: Any) -> list[NDArray[Any]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if name not in self.categories:
            return [cells.numbers(column, self.types.get(name))]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        found = [pc.equal(column, pa.scalar(value, type=column.type)) for value in self.categories[name]]
        return [pc.fill_null(equal, False).to_numpy(zero_copy_only=False) for equal in found]

    # --- pandas ----------------------------------------------------------------------------------------------------

    def check_pandas(self, frame: Any) -> None:
        """Refuse, by the types of a frame, columns that nothing turns into numbers; objects are read cell by cell."""
        from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype

        def fits(name: str, kind: Any) -> bool:
            if is_complex_dtype(kind):
                return False
            if name in self.categories and isinstance(kind, np.dtype) and kind.kind in "fiub":
                import pyarrow as pa

                return self._fits(name, pa.field(name, pa.from_numpy_dtype(kind)))
            declared = name in self.categories or name in self.types
            by_cell = kind == np.dtype("O") or frames.is_text_type(kind)
            return declared or by_cell or is_numeric_dtype(kind) or is_bool_dtype(kind)

        _refuse([f"{name} ({frame[name].dtype})" for name in self.names if not fits(name, frame[name].dtype)])

    def from_pandas(self, frame: Any) -> NDArray[np.float64]:
        """The rows of a pandas frame that holds the columns."""
        rows = np.empty((len(self.features), len(frame)))
        at = 0
        for name in self.names:
            column = frame[name]
            for value in self.categories.get(name, ()):
                rows[at] = frames.column_is(column, value)
                at += 1
            if name not in self.categories:
                rows[at] = frames.column_numbers(column, self.types.get(name))
                at += 1
        return rows.T


def check_unit(unit: str, features: Sequence[str], available: Sequence[str]) -> str:
    """The name of the column that says whose row it is: one of those there are, and no feature."""
    if list(available).count(unit) != 1:
        must = f"the name of one of the {len(available)} columns of the data, or one id for each row"
        raise ValueError(complain("unit", "fit", must, unit))
    if unit in features:
        remedy = "Leave it out of the columns: whose row it is, is no feature."
        raise ValueError(complain("unit", "fit", "a column that is not used otherwise", unit, remedy))
    return unit


def _refuse(bad: list[str]) -> None:
    if bad:
        raise ValueError(
            f"Columns must be numeric. Leave out or encode: {', '.join(bad)}. Only real numbers are read as they are: "
            "`dpeigen.sources.open_source` encodes categories by a declared list, dates and text by a declared type."
        )


def _category_list(name: str, values: Any) -> tuple[Any, ...]:
    must = "a list of names or numbers that differ from each other for each column"
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise ValueError(complain("categories", "columns", must, f"{values!r} for {name!r}"))
    found = tuple(values)
    if not found or len(set(found)) < len(found) or not all(isinstance(v, (str, int, float)) for v in found):
        raise ValueError(complain("categories", "columns", must, f"{list(found)} for {name!r}"))
    return found
