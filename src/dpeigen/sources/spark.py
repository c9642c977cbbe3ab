"""Rows in a Spark frame: Spark's workers measure its partitions, fed with Arrow batches, and add them up.

Only the DataFrame API is used (mapInArrow), so Spark Connect works alike; there are no RDDs. Executors need dpeigen
installed. A task that Spark runs again, or twice, is pure (`sources.remote`); Spark takes one result of a partition,
and two would be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import Categories, Columns, Types
from dpeigen.sources.progress import meter
from dpeigen.sources.remote import combine, measure, quietly, result, size_of
from dpeigen.stats import Statistic

S = TypeVar("S", bound=Statistic)
_LARGE = 2**20  # bytes of a statistic from which on measurements are added up by executors before they come here,
_GROUPS = 8  # in so many partitions


class SparkSource(Source):
    """A Spark frame, classic or Connect. Its rows have no order."""

    fixed_order = False

    def __init__(
        self,
        data: Any,
        columns: Sequence[str] | None = None,
        categories: Categories | None = None,
        types: Types | None = None,
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        if type(data).__module__.startswith("pyspark.pandas"):
            data = data.to_spark()
        if not hasattr(type(data), "mapInArrow"):
            raise ValueError(f"Of Spark's objects, data frames are rows. Got {type(data).__name__}.")
        self._columns = Columns(list(data.columns), columns, categories, types)
        names = [f"`{name.replace('`', '``')}`" for name in self._columns.names]
        chosen = data.select(*names)
        self._columns.check_arrow(to_arrow_schema(chosen.schema))
        self._frame = chosen.toDF(*[f"c{j}" for j in range(len(names))])  # mapInArrow trips over dots and spaces
        self.n_features, self.feature_names = len(self._columns.features), self._columns.features

    def _count(self) -> int:
        return int(quietly("Spark", self._frame.count))

    def reduce(self, statistic: S) -> S:
        empty = statistic.fresh()
        with meter(None):
            measured = self._frame.mapInArrow(_Measure(empty, self._columns.from_arrow), _SCHEMA)
            if size_of(empty) > _LARGE:
                measured = measured.repartition(_GROUPS, "part").mapInArrow(_add, _SCHEMA)
            rows = quietly("Spark", measured.collect)
        return result(empty, combine(bytes(row["packed"]) for row in rows), self.check_rows)

    def blocks(self) -> Iterator[NDArray[np.float64]]:
        """Rows one partition after the other, brought here."""
        sent = self._frame.mapInArrow(_Send(self._columns.from_arrow), _SCHEMA)
        rows = quietly("Spark", lambda: sent.toLocalIterator(prefetchPartitions=True))
        while (row := quietly("Spark", lambda: next(rows, None))) is not None:
            if row["part"] < 0:
                raise UnreadableRowsError("A partition could not be read. Nothing was spent.")
            yield np.frombuffer(row["packed"]).reshape(-1, self.n_features)


_SCHEMA = "part int, packed binary"


def _packed(part: int, packed: bytes) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [pa.array([part], pa.int32()), pa.array([packed], pa.binary())], ["part", "packed"]
    )


class _Measure:
    """Runs on executors: a partition's batches in, one measurement out."""

    def __init__(self, empty: Statistic, convert: Callable[[Any], Any]) -> None:
        self._empty, self._convert = empty, convert

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context is not None else 0
        packed = measure(self._empty, part, batches, self._convert)
        for _ in batches:  # to the end, where a refusal stopped early
            pass
        yield _packed(part, packed)


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
                block = np.ascontiguousarray(self._convert(batch), dtype=np.float64)
            except Exception:  # its message may quote a value
                block = None
            if block is None:
                yield _packed(-1, b"")
            elif len(block):
                yield _packed(0, block.tobytes())
