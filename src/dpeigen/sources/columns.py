"""Which columns are read, and how each becomes numbers: by declarations and the schema, never by values.

Numbers, decimals and truth values need no declaration. Numbers in text, dates and times need a declared type.
Categories and ordinal scales need a declared list (`sources.declared`), so that no list is ever made from the data. If
a cell does not have the declared form, or is not on the list, all columns that it becomes are NaN. That makes a bad
row, or with missing="correct" a missing cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import check_choice, complain, nearest
from dpeigen.sources import cells, frames
from dpeigen.sources.declared import LISTED, TYPES, Declared, declared

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "NO_COLUMNS",
    "AllBut",
    "Categories",
    "Columns",
    "Types",
    "Wanted",
    "as_wanted",
    "by_schema",
    "check_unit",
    "refuse_names_in_use",
    "refuse_repeated",
]

Categories = Mapping[str, Sequence[Any]]
Types = Mapping[str, str]
NO_COLUMNS = "The data have no columns. A table needs at least one, and 'columns' and 'skip' must leave one."
_DOWN = (
    "If the names of the columns are further down in the file, give the number of their line, such as header=3 "
    "(--header 3)."
)
Wanted = Any  # names, AllBut, "schema", or a declaration for each name


class AllBut:
    """All columns except some, with declarations of some of them, and one of all others."""

    def __init__(self, names: Sequence[str], said: Mapping[str, Any] | None = None, others: Any = None) -> None:
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise ValueError(complain("skip", "open_source", "a list of names of columns", names))
        self._names, self._said, self._others = list(names), dict(said or {}), others

    def of(self, available: Sequence[str]) -> dict[str, Any]:
        """The remaining columns, with their declarations."""
        for parameter, names in (("skip", self._names), ("columns", list(self._said))):
            missing = [name for name in names if name not in available]
            if missing:
                must = f"names of some of the {len(available)} columns of the data"
                raise ValueError(complain(parameter, "open_source", must, missing, nearest(missing[0], available)))
        return {name: self._said.get(name, self._others) for name in available if name not in self._names}


def as_wanted(columns: Wanted, skip: Sequence[str] | None = None) -> Wanted:
    """The wanted columns in the form that `Columns` takes. In a dictionary, ``...`` means all other columns."""
    everything = isinstance(columns, Mapping) and ... in columns
    if skip is not None and columns is not None and not everything:
        raise ValueError("Give either columns or skip, not both.")
    if everything:
        return AllBut(skip or (), {name: said for name, said in columns.items() if name is not ...}, columns[...])
    return columns if skip is None else AllBut(skip)


class Columns:
    """The columns to use, and the features they become."""

    def __init__(
        self,
        available: Sequence[str],
        wanted: Wanted = None,
        categories: Categories | None = None,
        types: Types | None = None,
        *,
        own: Callable[[], Mapping[str, Declared]] | None = None,
    ) -> None:
        if isinstance(wanted, str):
            check_choice("columns", wanted, ["schema"], "open_source")
            wanted = {name: by_schema(name, Declared(), own) for name in available}
        wanted = as_wanted(wanted)
        wanted = wanted.of(available) if isinstance(wanted, AllBut) else wanted
        names = list(available) if wanted is None else list(wanted)
        _check_names(names, available)
        self.names = names
        found = {name: declared(name, wanted[name]) for name in names} if isinstance(wanted, Mapping) else {}
        found = {name: by_schema(name, said, own) if said.by_schema else said for name, said in found.items()}
        found |= _listed_apart(names, categories or {}, types or {}, found)
        self.declared = {name: found.get(name, Declared()) for name in names}
        self.features = [feature for name in names for feature in self.declared[name].features(name)]
        if len(set(self.features)) < len(self.features):
            twice = [name for name, times in Counter(self.features).items() if times > 1]
            raise ValueError(
                "Names of columns and of categories must differ from each other: the category 'x' of a column 'a' "
                f"becomes the column 'a=x'. Got {twice} more than once. Rename the column, or leave it out."
            )

    @property
    def schema(self) -> dict[str, Declared] | None:
        """The declarations of all columns; None if they are all plain numbers."""
        return None if all(said.plain for said in self.declared.values()) else dict(self.declared)

    # --- Arrow -----------------------------------------------------------------------------------------------------

    def check_arrow(self, schema: pa.Schema) -> None:
        """Refuse, by the schema, columns that cannot become numbers."""
        bad = [name for name in self.names if not self._fits(name, schema.field(name))]
        self._refuse_quoted([name for name in bad if self.declared[name].listed is not None], schema)
        _refuse([f"{name} ({schema.field(name).type})" for name in bad])

    def _refuse_quoted(self, names: list[str], schema: pa.Schema) -> None:
        """Explain that quotes are the cause if a column of numbers or truth values has a list of texts."""
        import pyarrow.types as types

        for name in names:
            kind, said = schema.field(name).type, self.declared[name]
            if not any(isinstance(value, str) for value in said.listed or ()):
                continue
            key = "categories" if said.categories is not None else "levels"
            which = f"Column {name!r} holds {{}} ({kind}), and its {key} are texts, in quotes. "
            if types.is_boolean(kind):
                raise ValueError(which.format("truth values") + "Declare type='bool' in place of the list.")
            if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
                raise ValueError(which.format("numbers") + f"Write them without quotes, as in {key} = [1, 2, 3].")

    def _fits(self, name: str, field: pa.Field) -> bool:
        import pyarrow as pa
        import pyarrow.types as types

        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        listed, declared_type = self.declared[name].listed, self.declared[name].number_type
        if listed is not None:
            try:
                return all(_arrow_scalar(value, kind) is not None for value in listed)
            except (pa.ArrowException, TypeError, ValueError):
                return False
        text = str(kind) in ("string", "large_string", "string_view")
        numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        if declared_type is not None:
            times = types.is_date(kind) or types.is_timestamp(kind)
            return text or (times if declared_type in ("date", "timestamp") else numeric)
        return numeric and not types.is_dictionary(field.type)

    def csv_type(self, name: str) -> pa.DataType:
        """The Arrow type as which a column of a CSV file is read."""
        import pyarrow as pa

        return pa.string() if self.csv_kind(name) is None else cells.arrow_type(self.csv_kind(name) or "number")

    def csv_kind(self, name: str) -> str | None:
        """The declared type of a column of text; None for categories."""
        listed = self.declared[name].listed
        if listed is not None:
            return "number" if all(isinstance(value, (int, float)) for value in listed) else None
        return self.declared[name].number_type or "number"

    def from_arrow(self, batch: pa.RecordBatch | pa.Table) -> NDArray[Any]:
        """The rows of a batch with these columns in order; in single precision if all columns are."""
        import pyarrow as pa

        undeclared = all(said.type is None and said.plain for said in self.declared.values())
        single = undeclared and all(t == pa.float32() for t in batch.schema.types)
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

        said = self.declared[name]
        if said.listed is None:
            return [said.from_numbers(cells.numbers(column, said.number_type))]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        found = [pc.equal(column, _arrow_scalar(value, column.type)) for value in said.listed]
        return list(said.from_matches([pc.fill_null(equal, False).to_numpy(zero_copy_only=False) for equal in found]))

    # --- pandas ----------------------------------------------------------------------------------------------------

    def check_pandas(self, frame: Any) -> None:
        """Refuse, by the types of a frame, columns that cannot become numbers; objects are read cell by cell."""
        from pandas.api.types import is_bool_dtype, is_numeric_dtype

        def fits(name: str, kind: Any) -> bool:
            typed = self.declared[name].listed is not None or self.declared[name].number_type is not None
            by_cell = kind == np.dtype("O") or frames.is_text_type(kind)
            return typed or by_cell or is_numeric_dtype(kind) or is_bool_dtype(kind)

        _refuse([f"{name} ({frame[name].dtype})" for name in self.names if not fits(name, frame[name].dtype)])

    def from_pandas(self, frame: Any) -> NDArray[np.float64]:
        """The rows of a pandas frame that holds the columns."""
        rows = np.empty((len(self.features), len(frame)))
        at = 0
        for name in self.names:
            column, said = frame[name], self.declared[name]
            if said.listed is None:
                found = [said.from_numbers(frames.column_numbers(column, said.number_type))]
            else:
                found = said.from_matches([frames.column_is(column, value) for value in said.listed])
            for values in found:
                rows[at] = values
                at += 1
        return rows.T


def check_unit(unit: str, features: Sequence[str], available: Sequence[str]) -> str:
    """Check the name of the column of ids: it must exist and must not be a feature."""
    if list(available).count(unit) != 1:
        must = f"the name of one of the {len(available)} columns of the data, or one id for each row"
        raise ValueError(complain("unit", "fit", must, unit, nearest(unit, available)))
    if unit in features:
        remedy = "Leave it out of the columns: an id column is not used as a feature."
        raise ValueError(complain("unit", "fit", "a column that is not used otherwise", unit, remedy))
    return unit


def refuse_names_in_use(names: Iterable[str], unit: str, in_use: Collection[str]) -> None:
    """Refuse columns whose names are those of columns that are added while the rows of a person are brought together.

    Their values would be replaced, for example by positions of rows, which depend on all rows.
    """
    if taken := [name for name in names if name in in_use]:
        must = f"of a table without a column named {taken[0]!r}, a name that is needed to bring rows together"
        raise ValueError(complain("unit", "fit", must, unit, "Rename that column."))


def _refuse(bad: list[str]) -> None:
    if bad:
        raise ValueError(
            f"Columns must be numeric. Leave out or encode: {', '.join(bad)}. Only real numbers are read as they are: "
            "`columns=` of the estimators and of `dpeigen.sources.open_source` encodes categories by a declared list, "
            "dates and text by a declared type. columns='schema' says that the table's own types are public."
        )


def refuse_repeated(names: Sequence[str], header: Sequence[str] | None = None) -> None:
    """Refuse names that the header, or else the list itself, has more than once."""
    times = Counter(names if header is None else header)
    twice = [name for name in dict.fromkeys(names) if times[name] > 1]
    if not twice:
        return
    remedy = "Rename these columns."
    if not all(name.strip() for name in twice):  # as in a line with a title and separators after it
        remedy = f"{_DOWN} Otherwise give every column a name."
    raise ValueError(f"Column names must differ from each other in X. Got {twice} more than once. {remedy}")


def _check_names(names: list[str], available: Sequence[str]) -> None:
    if not names:
        raise ValueError(NO_COLUMNS)
    refuse_repeated(names)
    missing = [name for name in names if name not in available]
    if missing:
        hint = nearest(missing[0], available)
        text = f"Columns {missing} are not among the {len(available)} columns of the data."
        if len(available) == 1:  # perhaps a title above the table
            text, hint = f"Columns {missing} are not in the data, whose only column is {available[0]!r}.", hint or _DOWN
        raise ValueError(f"{text} {hint}" if hint else text)
    index = [name for name in names if not name.strip() or name.startswith("__index_level_")]
    if index:
        raise ValueError(
            f"Columns {index} look like row numbers of a data frame. Leave them out: name the columns to use, "
            "with columns=[...] or on the command line with --columns a,b,c."
        )


def _arrow_scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A listed value in the type of a column; a value that the type cannot have, such as 0.5, equals no cell."""
    import pyarrow as pa

    found = pa.scalar(value, type=kind)
    whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    return pa.scalar(None, type=kind) if whole and not isinstance(value, str) and found.as_py() != value else found


def _listed_apart(
    names: list[str], categories: Categories, types: Types, found: Mapping[str, Declared]
) -> dict[str, Declared]:
    """The declarations from ``categories`` and ``types``."""
    unused = [name for name in (*categories, *types) if name not in names]
    both = [name for name in categories if name in types]
    twice = [name for name in (*categories, *types) if not found.get(name, Declared()).plain]
    if unused or both or twice:
        why = f"are not among the columns used: {unused}" if unused else f"have a type too: {both}"
        why = why if unused or both else f"are declared in 'columns' too: {twice}"
        raise ValueError(f"Columns with declared categories or types {why}.")
    more = {name: {"categories": values} for name, values in categories.items()}
    more |= {name: {"type": check_choice("types", kind, TYPES, "columns")} for name, kind in types.items()}
    return {name: declared(name, said) for name, said in more.items()}


def by_schema(name: str, said: Declared, own: Callable[[], Mapping[str, Declared]] | None) -> Declared:
    """The declaration completed by the list of the column's own type, or taken from that type entirely."""
    if own is None:
        what = "columns='schema'" if said.type is None else f"type={said.type!r} without a list for {name!r}"
        raise ValueError(f"{what} needs a table whose columns have types of their own. Declare types and categories.")
    found = own().get(name, Declared())
    if said.type is None:
        return found
    if found.listed is None:
        must = f"given with type={said.type!r} for {name!r}, whose own type holds no list of categories"
        raise ValueError(complain(LISTED[said.type], "columns", must, None))
    return declared(name, {LISTED[said.type]: found.listed, "unit_of_measure": said.unit_of_measure})
