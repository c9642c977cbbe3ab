"""Rows of a Dask array or frame: one task measures each partition, and a tree of tasks adds up the measurements.

This runs on every Dask scheduler: threads, processes or a distributed cluster. If a worker is lost, Dask runs its tasks
again. Tasks are pure (`sources.remote`), so the result is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import complain
from dpeigen.privacy import Randomness
from dpeigen.privacy.randomness import SystemRandomness
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.choosing import Chooser
from dpeigen.sources.columns import Categories, Columns, Types, Wanted, check_unit, refuse_names_in_use
from dpeigen.sources.ids import told_apart
from dpeigen.sources.objects import table_of
from dpeigen.sources.progress import meter
from dpeigen.sources.remote import combine, measure, quietly, result
from dpeigen.sources.schemas import of_pandas
from dpeigen.sources.units import RowMap, UnitSource
from dpeigen.stats import Statistic
from dpeigen.stats.threads import single_blas

__all__ = ["DaskSource", "DaskUnits", "S"]

S = TypeVar("S", bound=Statistic)
_FAN = 16  # measurements added up by one task


class DaskSource(Source):
    """A Dask array (rows in a fixed order) or frame (whose partitions may depend on values)."""

    def __init__(
        self,
        data: Any,
        columns: Wanted = None,
        categories: Categories | None = None,
        types: Types | None = None,
    ) -> None:
        if hasattr(data, "chunks"):
            self._open_array(data)
        elif hasattr(data, "to_delayed") and getattr(data, "ndim", 0) == 2:
            self._open_frame(data, columns, categories, types)
        else:
            raise ValueError(f"Of Dask's collections, arrays and data frames are rows. Got {type(data).__name__}.")

    def _open_array(self, data: Any) -> None:
        if data.ndim != 2 or data.dtype.kind not in "fiub":
            raise ValueError(f"X must be two-dimensional real numbers. Got {data.ndim} dimensions of {data.dtype}.")
        if math.isnan(data.shape[1]):
            raise ValueError("The number of columns of a Dask array must be known.")
        data = data.rechunk({1: -1})
        self._convert: Callable[[Any], Any] = _numbers
        self._parts = list(data.to_delayed().ravel())
        self.n_features = int(data.shape[1])
        lengths = data.chunks[0]
        if not any(math.isnan(length) for length in lengths):
            self.n_rows = sum(int(length) for length in lengths)
        # If lengths are unknown or uneven, rows may have been selected or arranged by their values.
        self.fixed_order = self.n_rows is not None and len(set(lengths[:-1])) <= 1

    def _open_frame(self, data: Any, *declared: Any) -> None:
        names = list(data.columns)
        if not all(isinstance(name, str) for name in names):
            raise ValueError("Columns of a Dask frame must have names that are text.")
        chosen = Columns(names, *declared, own=partial(of_pandas, data._meta))
        chosen.check_pandas(data._meta)
        self._convert = self._plain = chosen.from_pandas
        self._frame = data[chosen.names]
        self._parts = list(self._frame.to_delayed())
        self.n_features, self.feature_names = len(chosen.features), chosen.features
        self.schema = chosen.schema
        self.fixed_order = False

    def _count(self) -> int:
        from dask.base import compute
        from dask.delayed import delayed

        lengths = [delayed(len)(part) for part in self._parts]
        return sum(quietly("Dask", lambda: compute(lengths)[0]))

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Partitions one after the other, loaded into this process."""
        from dask.base import compute

        for part in self._parts:
            block = quietly("Dask", lambda part=part: self._convert(compute(part)[0]))  # type: ignore[misc]
            if block.shape[1:] != (self.n_features,):
                raise UnreadableRowsError("A partition has other columns than declared. Nothing was spent.")
            if len(block):
                yield block

    def reduce(self, statistic: S) -> S:
        from dask.base import compute
        from dask.delayed import delayed

        empty = statistic.fresh()
        shared = delayed(empty, pure=False)
        step = delayed(_measured, pure=False)
        found = [step(shared, number, part, self._convert) for number, part in enumerate(self._parts)]
        add = delayed(combine, pure=False)
        while len(found) > 1:
            found = [add(found[at : at + _FAN]) for at in range(0, len(found), _FAN)]
        with meter(None), single_blas():
            packed = quietly("Dask", lambda: compute(*found)[0] if found else b"")
        return result(empty, packed, self.check_rows, len(self._parts))


class DaskUnits(DaskSource, UnitSource):
    """A Dask frame whose rows belong to people: Dask moves the rows of a person into one partition.

    It does so in every pass, by a 64-bit hash of the id with a random key; persist a frame that fits into memory. Two
    people with the same hash are treated as one, which protects them together.
    """

    def __init__(self, data: Any, unit: str, *declared: Any) -> None:
        if hasattr(data, "chunks") or not hasattr(data, "to_delayed") or getattr(data, "ndim", 0) != 2:
            must = "the name of a column of a Dask frame: arrays have none"
            raise ValueError(complain("unit", "fit", must, unit, "Give a Dask frame."))
        check_unit(unit, [], list(data.columns))
        rest = data[[name for name in data.columns if name != unit]]
        super().__init__(rest, *declared)
        self.name, self._function, self._used = unit, None, [*self._frame.columns]
        refuse_names_in_use(self._used, unit, (_WHOSE, _PLACE))
        self._data, self._key = data[[*self._used, unit]], SystemRandomness().token().hex()[:16]
        self._parts = []

    _function: RowMap | None = None

    def choose(self, rng: Randomness) -> None:
        self._together()
        convert = _PartitionOfPeople(self._plain, self._function, Chooser(self.limits, rng.token()))
        self._convert = convert
        self.n_rows = None if self.thinned else self.n_rows

    def _recount(self, rng: Randomness) -> None:  # noqa: ARG002
        if isinstance(self._convert, _PartitionOfPeople):  # the same draws with other weights
            chooser = replace(self._convert.chooser, limits=self.limits)
            self._convert = replace(self._convert, chooser=chooser)

    def _together(self) -> None:
        """Make partitions that have all rows of their people."""
        if self._parts:
            return
        none = np.zeros(0, dtype=np.uint64)
        meta = self._data._meta[self._used].assign(**{_WHOSE: none, _PLACE: none})
        keyed = self._data.map_partitions(_keyed, self._used, self.name, self._key, meta=meta)
        self._parts = list(quietly("Dask", lambda: keyed.shuffle(on=_WHOSE).to_delayed()))

    def _count(self) -> int:
        from dask.base import compute
        from dask.delayed import delayed

        self._together()
        people = [delayed(_people)(part) for part in self._parts]
        return sum(quietly("Dask", lambda: compute(people)[0]))

    def mapped(self, function: RowMap, feature_names: list[str]) -> DaskUnits:
        other = copy(self)
        other._function = function if self._function is None else _Both(self._function, function)
        other.n_features, other.feature_names = len(feature_names), feature_names
        if isinstance(self._convert, _PartitionOfPeople):  # heads were drawn already
            other._convert = replace(self._convert, function=other._function)
        return other

    def blocks(self) -> Iterator[Any]:
        from dask.base import compute

        for part in self._parts:
            block = quietly("Dask", lambda part=part: self._convert(compute(part)[0]))  # type: ignore[misc]
            if len(block):
                yield block


_WHOSE, _PLACE = "__whose__", "__place__"  # of a row: its person, and where it was before
_MOST_ROWS = 40  # bits for the rows of a partition


@dataclass(frozen=True)
class _PartitionOfPeople:
    """Runs on workers: a partition in, a block of rows and their people out.

    In every pass Dask may bring the rows together in another order. Rows are drawn by their positions, so they are put
    in the order of the frame first: otherwise each pass would use other rows of the same people.
    """

    convert: Callable[[Any], Any]
    function: RowMap | None
    chooser: Chooser

    def __call__(self, part: Any) -> Any:
        part = part.iloc[np.argsort(part[_PLACE].to_numpy())]
        rows = self.convert(part)
        rows = rows if self.function is None else self.function(rows)
        return self.chooser.block(rows, part[_WHOSE].to_numpy())


@dataclass(frozen=True)
class _Both:
    first: RowMap
    second: RowMap

    def __call__(self, rows: Any) -> Any:
        return self.second(self.first(rows))


def _people(part: Any) -> int:
    return int(part[_WHOSE].nunique())


def _keyed(part: Any, columns: list[str], unit: str, key: str, partition_info: Any = None) -> Any:
    """A partition with a number for each person instead of the ids; a row without an id gets its own number."""
    import pandas as pd

    codes, names = told_apart(part[unit], named=True)
    number = partition_info["number"] if partition_info else 0
    missing = np.flatnonzero(codes < 0)
    codes = codes.astype(np.int64)
    codes[missing] = len(names) + np.arange(len(missing))
    own = [f" {number}.{at}" for at in missing]  # no id begins with a blank
    texts = [text.encode("utf-8", "surrogatepass") for text in (*names, *own)]  # ids need not be text
    hashes = pd.util.hash_array(np.array([*texts, b""], dtype=object), hash_key=key, categorize=False)
    places = np.arange(len(part), dtype=np.uint64) + np.uint64(number << _MOST_ROWS)
    return part[columns].assign(**{_WHOSE: hashes[codes], _PLACE: places})


def _measured(empty: Statistic, number: int, part: Any, convert: Callable[[Any], Any]) -> bytes:
    return measure(empty, number, [part], convert)


def _numbers(part: Any) -> NDArray[Any]:
    """A partition as numbers; its type may depend on its values."""
    found = table_of(part)
    if found is None:
        raise TypeError("not a table")
    return found[0]
