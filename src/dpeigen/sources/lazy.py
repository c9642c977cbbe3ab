"""A Polars query that is run again for every pass, in Polars' streaming engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, TypeVar

from dpeigen._validate import complain
from dpeigen.privacy import Randomness
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.choosing import placed
from dpeigen.sources.columns import Columns, check_unit, refuse_names_in_use
from dpeigen.sources.declared import Declared
from dpeigen.sources.ids import BLANKS
from dpeigen.sources.joint import WholePeople
from dpeigen.sources.schemas import of_polars
from dpeigen.sources.units import RowMap, UnitSource
from dpeigen.sources.wide_integers import narrowed

__all__ = ["LazySource", "LazyUnits", "T", "schema_of"]

T = TypeVar("T")


class LazySource(Source):
    """A Polars LazyFrame. Its rows have no fixed order: a query may sort or join by values."""

    fixed_order = False

    def __init__(self, frame: Any, columns: Columns) -> None:
        self._frame, self._columns = narrowed(frame.select(columns.names)), columns
        columns.check_arrow(_empty(self._frame).schema)
        self.n_features, self.feature_names = len(columns.features), columns.features
        self.schema = columns.schema

    def _block(self, batch: Any) -> Any:
        return self._columns.from_arrow(batch)

    def _query(self) -> Any:
        return self._frame

    def blocks(self) -> Iterator[Any]:
        batches: Iterator[Any] | None = None
        while True:
            try:
                if batches is None:
                    batches = self._batches()
                batch = next(batches, None)
                if batch is None:
                    return
                block = self._block(batch)
            except Exception as error:  # Polars' messages may contain values
                kind = type(error).__name__
                break
            if len(block):
                yield block
        raise UnreadableRowsError(f"The query could not be run: Polars raised {kind}. Nothing was spent.")

    def _batches(self) -> Iterator[Any]:
        query = self._query()
        if hasattr(query, "collect_batches"):
            return (batch.to_arrow() for batch in query.collect_batches(maintain_order=True))
        return iter([query.collect().to_arrow()])


def _quietly(call: Callable[[], T]) -> T:
    """The result of the call. Polars' messages may contain values, so only the type of an error is passed on."""
    try:
        return call()
    except Exception as error:
        kind = type(error).__name__
    raise UnreadableRowsError(f"The query could not be run: Polars raised {kind}. Nothing was spent.")


class LazyUnits(LazySource, UnitSource):
    """A Polars LazyFrame whose rows belong to people: Polars counts the rows of each, in every pass."""

    def __init__(self, data: Any, unit: str, *declared: Any) -> None:
        names = data.collect_schema().names()
        check_unit(unit, [], names)
        chosen = Columns([name for name in names if name != unit], *declared, own=partial(schema_of, data))
        refuse_names_in_use(names, unit, _IN_USE)
        super().__init__(data, chosen)
        self.name, self._data = unit, narrowed(data, unit)
        self._function: RowMap | None = None

    def choose(self, rng: Randomness) -> None:
        import polars as pl

        seed = int.from_bytes(rng.token()[:8], "little")
        coins = int.from_bytes(rng.token()[:8], "little")
        order = pl.int_range(pl.len()).shuffle(seed=seed)  # a random order of all rows, then positions inside a person
        numbered = self._data.with_columns(**{_WHOSE: _whose(self._data, self.name), _ORDER: order})
        self._numbered = numbered.select(
            *self._columns.names,
            pl.len().over(_WHOSE).alias(_SIZE),
            pl.col(_ORDER).rank("ordinal").over(_WHOSE).alias(_PLACE),
            (pl.int_range(pl.len(), dtype=pl.UInt64).hash(coins) / 2.0**64).alias(_COIN),  # one per row
            pl.col(_ORDER).min().over(_WHOSE).alias(_NUMBER),
        )
        if self.max_rows is not None:
            self._numbered = self._numbered.sort(_NUMBER)  # all rows of a person are consecutive
        self.n_rows = None if self.thinned else self.n_rows

    def _count(self) -> int:
        import polars as pl

        frame = self._data.select(_whose(self._data, self.name).alias(_WHOSE))
        return int(_quietly(lambda: frame.select(pl.col(_WHOSE).n_unique()).collect().item()))

    def mapped(self, function: RowMap, feature_names: list[str]) -> LazyUnits:
        other = copy(self)
        before = self._function
        other._function = function if before is None else (lambda rows: function(before(rows)))
        other.n_features, other.feature_names = len(feature_names), feature_names
        return other

    def _block(self, batch: Any) -> Any:
        rows = self._columns.from_arrow(batch.select(self._columns.names))
        rows = rows if self._function is None else self._function(rows)
        return placed(rows, self.limits, *(batch.column(name).to_numpy() for name in (_NUMBER, _SIZE, _PLACE, _COIN)))

    def blocks(self) -> Iterator[Any]:
        people = WholePeople()
        for block in super().blocks():
            found = people(block)
            if len(found):
                yield found
        people.check()

    def _query(self) -> Any:
        return self._numbered


_WHOSE, _ORDER, _SIZE, _PLACE, _COIN = "__whose__", "__order__", "__size__", "__place__", "__coin__"
_NUMBER = "__number__"  # of a person
_IN_USE = _WHOSE, _ORDER, _SIZE, _PLACE, _COIN, _NUMBER


def _whose(frame: Any, unit: str) -> Any:
    """A value that identifies the person: the id, or a separate number for each row without one."""
    import polars as pl

    kind, cell = frame.collect_schema()[unit], pl.col(unit)
    if kind == pl.String or kind == pl.Categorical or isinstance(kind, pl.Enum):
        text = cell.cast(pl.String).str.strip_chars(BLANKS)
        cell = pl.when(text.str.len_bytes() > 0).then(text)
    elif kind == pl.Binary:  # any bytes, so blanks are searched as pairs of hexadecimal digits
        blank = "|".join(f"{ord(letter):02x}" for letter in BLANKS)
        text = cell.bin.encode("hex").str.replace(f"^(?:{blank})+", "").str.extract(f"^((?:..)*?)(?:{blank})*$")
        cell = pl.when(text.str.len_bytes() > 0).then(text)
    elif kind.is_float():
        cell = pl.when(cell.is_not_nan()).then(cell + 0.0)
    elif kind.is_nested():
        raise ValueError(complain("unit", "fit", "a column of numbers, text or dates", unit))
    own = pl.when(cell.is_null()).then(pl.int_range(pl.len())).otherwise(-1)
    return pl.struct(cell.alias("id"), own.alias("own"))


def schema_of(frame: Any) -> dict[str, Declared]:
    """Declarations from the types of a query's columns."""
    return of_polars(frame.collect_schema())


def _empty(frame: Any) -> Any:
    """An Arrow table with the query's types and no rows."""
    import polars as pl

    return pl.DataFrame(schema=frame.collect_schema()).to_arrow()
