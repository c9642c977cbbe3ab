"""Rows of a Spark frame: Spark's workers measure its partitions from Arrow batches, and add up the measurements.

Only the DataFrame API is used (mapInArrow), so Spark Connect works too; there are no RDDs. dpeigen must be installed on
the executors. Tasks are pure (`sources.remote`), so Spark may run them again. Spark uses one result of each partition,
and a second one would be detected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen.privacy import Randomness
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.choosing import UnitLimits, placed
from dpeigen.sources.columns import Categories, Columns, Types, Wanted, check_unit
from dpeigen.sources.ids import BLANKS
from dpeigen.sources.joint import WholePeople
from dpeigen.sources.progress import meter
from dpeigen.sources.remote import combine, measure, quietly, result, size_of
from dpeigen.sources.schemas import of_arrow
from dpeigen.sources.units import RowMap, UnitSource
from dpeigen.stats import Statistic
from dpeigen.stats.units import UnitBlock

__all__ = ["S", "SparkSource", "SparkUnits"]

S = TypeVar("S", bound=Statistic)
_LARGE = 2**20  # from this size of a statistic in bytes, executors add up measurements before they are collected,
_GROUPS = 8  # in this many partitions


class SparkSource(Source):
    """A Spark frame, classic or Connect. Its rows have no order."""

    fixed_order = False

    @property
    def _people_whole(self) -> bool:
        """Whether a statistic gets all rows of a person in one block."""
        return False

    def __init__(
        self,
        data: Any,
        columns: Wanted = None,
        categories: Categories | None = None,
        types: Types | None = None,
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        if type(data).__module__.startswith("pyspark.pandas"):
            data = data.to_spark()
        if not hasattr(type(data), "mapInArrow"):
            raise ValueError(f"Of Spark's objects, data frames are rows. Got {type(data).__name__}.")
        own = partial(of_arrow, to_arrow_schema(data.schema))
        self._columns = Columns(list(data.columns), columns, categories, types, own=own)
        names = [_quoted(name) for name in self._columns.names]
        chosen = data.select(*names)
        self._columns.check_arrow(to_arrow_schema(chosen.schema))
        self._frame = chosen.toDF(*[f"c{j}" for j in range(len(names))])  # mapInArrow fails on dots and spaces
        self.n_features, self.feature_names = len(self._columns.features), self._columns.features
        self.schema = self._columns.schema

    def _count(self) -> int:
        return int(quietly("Spark", self._frame.count))

    def reduce(self, statistic: S) -> S:
        empty = statistic.fresh()
        with meter(None):
            measured = self._frame.mapInArrow(_Measure(empty, self._converter(), self._people_whole), _SCHEMA)
            if size_of(empty) > _LARGE:
                measured = measured.repartition(_GROUPS, "part").mapInArrow(_add, _SCHEMA)
            rows = quietly("Spark", measured.collect)
        return result(empty, combine(bytes(row["packed"]) for row in rows), self.check_rows)

    def blocks(self) -> Iterator[NDArray[np.float64]]:
        """Rows, one partition after the other, loaded into this process."""
        sent = self._frame.mapInArrow(_Send(self._converter()), _SCHEMA)
        rows = quietly("Spark", lambda: sent.toLocalIterator(prefetchPartitions=True))
        while (row := quietly("Spark", lambda: next(rows, None))) is not None:
            if row["part"] < 0:
                raise UnreadableRowsError("A partition could not be read. Nothing was spent.")
            yield self._unpacked(np.frombuffer(row["packed"]))

    def _converter(self) -> Callable[[Any], Any]:
        """The function by which executors convert a batch."""
        return self._columns.from_arrow

    def _unpacked(self, numbers: NDArray[np.float64]) -> Any:
        return numbers.reshape(-1, self.n_features)


class SparkUnits(SparkSource, UnitSource):
    """A Spark frame whose rows belong to people: Spark counts the rows of each by a window over their id.

    Ids stay on the executors. All rows of a person are in one task. If they are clipped together, Spark sorts the rows
    of a task by person, and rows are kept there until their person is complete (`sources.joint`).
    """

    def __init__(self, data: Any, unit: str, *declared: Any) -> None:
        data = data.to_spark() if type(data).__module__.startswith("pyspark.pandas") else data
        check_unit(unit, [], list(data.columns))
        rest = data.select(*[_quoted(name) for name in data.columns if name != unit])
        super().__init__(rest, *declared)
        self.name, self._width = unit, len(self._columns.names)
        names = [*(_quoted(name) for name in self._columns.names), _quoted(unit)]
        self._data = data.select(*names).toDF(*[f"c{j}" for j in range(self._width)], "id")
        self._function: RowMap | None = None

    def choose(self, rng: Randomness) -> None:
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        # Spark adds the number of a partition to a seed, so the two seeds must be unrelated.
        seed, coins = (int.from_bytes(rng.token()[:7], "little") for _ in range(2))
        person = Window.partitionBy("whose")
        frame = self._keyed(seed, coins).select(
            *[f"c{j}" for j in range(self._width)],
            f.min("number").over(person).cast("long").alias("person"),
            f.count(f.lit(1)).over(person).cast("long").alias("size"),
            f.row_number().over(person.orderBy("draw")).cast("long").alias("place"),
            "coin",
        )
        self._frame = frame if self.max_rows is None else frame.sortWithinPartitions("person")
        self.n_rows = None if self.thinned else self.n_rows

    def _keyed(self, seed: int = 0, coins: int = 1) -> Any:
        """Rows with a value that identifies the person: the id as text, or a separate number for rows without one."""
        from pyspark.sql import functions as f

        text = f.expr(f"trim(BOTH '{BLANKS}' FROM cast(id AS string))")  # byte by byte: ids may not be valid text
        if dict(self._data.dtypes)["id"] in ("float", "double"):
            cell = f.col("id")
            text = f.when(~f.isnan(cell), cell + f.lit(0.0)).cast("string")
        known = f.when(f.length(text) > 0, f.concat(f.lit("i"), text))
        number = f.monotonically_increasing_id()
        whose = f.coalesce(known, f.concat(f.lit("n"), number.cast("string")))
        columns = [f"c{j}" for j in range(self._width)]
        return self._data.select(
            *columns,
            whose.alias("whose"),
            number.alias("number"),
            f.rand(seed).alias("draw"),
            f.rand(coins).alias("coin"),
        )

    def _count(self) -> int:
        return int(quietly("Spark", lambda: self._keyed().select("whose").distinct().count()))

    def mapped(self, function: RowMap, feature_names: list[str]) -> SparkUnits:
        other = copy(self)
        before = self._function
        other._function = function if before is None else (lambda rows: function(before(rows)))
        other.n_features, other.feature_names = len(feature_names), feature_names
        return other

    @property
    def _people_whole(self) -> bool:
        return self.max_rows is not None

    def _converter(self) -> Callable[[Any], Any]:
        return _BatchOfPeople(self._columns, self._function, self.limits)

    def _unpacked(self, numbers: NDArray[np.float64]) -> UnitBlock:
        table = numbers.reshape(-1, self.n_features + 2)
        sizes, heads = table[:, -2].astype(np.int64), table[:, -1] > 0
        return UnitBlock(table[:, :-2], sizes, heads, self.max_rows is not None)


@dataclass(frozen=True)
class _BatchOfPeople:
    """Runs on executors: a batch in, a block of rows and their people out."""

    columns: Columns
    function: RowMap | None
    limits: UnitLimits

    def __call__(self, batch: Any) -> Any:
        width = len(self.columns.names)
        rows = self.columns.from_arrow(batch.select(range(width)))
        rows = rows if self.function is None else self.function(rows)
        return placed(rows, self.limits, *(batch.column(width + j).to_numpy() for j in range(4)))


def _flat(block: Any) -> Any:
    """A block as one table; if rows belong to people, sizes and heads are its last columns."""
    if isinstance(block, UnitBlock):
        return np.column_stack([np.asarray(block.rows, dtype=np.float64), block.sizes, block.heads])
    return block


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


_SCHEMA = "part int, packed binary"


def _packed(part: int, packed: bytes) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [pa.array([part], pa.int32()), pa.array([packed], pa.binary())], ["part", "packed"]
    )


class _Measure:
    """Runs on executors: a partition's batches in, one measurement out.

    ``whole``: rows are kept until all rows of their person are there.
    """

    def __init__(self, empty: Statistic, convert: Callable[[Any], Any], whole: bool) -> None:
        self._empty, self._convert, self._whole = empty, convert, whole

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        convert = _WhenComplete(self._convert) if self._whole else self._convert
        packed = measure(self._empty, part, chain(batches, [None] if self._whole else []), convert)
        for _ in batches:  # read to the end even if a refusal stopped early
            pass
        yield _packed(part, packed)


class _WhenComplete:
    """Batches in, rows of complete people out; None marks the end."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert, self._people = convert, WholePeople()

    def __call__(self, batch: Any) -> Any:
        if batch is not None:
            return self._people(self._convert(batch))
        self._people.check()
        return None


def _add(batches: Iterator[Any]) -> Iterator[Any]:
    """Runs on executors: measurements in, one out."""
    packed = combine(found for batch in batches for found in batch.column(1).to_pylist())
    if packed:
        yield _packed(0, packed)


class _Send:
    """Runs on executors: batches in, their numbers out."""

    def __init__(self, convert: Callable[[Any], Any]) -> None:
        self._convert = convert

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            try:
                block = np.ascontiguousarray(_flat(self._convert(batch)), dtype=np.float64)
            except Exception:  # its message may contain a value
                block = None
            if block is None:
                yield _packed(-1, b"")
            elif len(block):
                yield _packed(0, block.tobytes())
