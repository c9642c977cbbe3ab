"""Rows in a Dask array or frame: one task measures each partition, and a tree of tasks adds the measurements up.

Whatever runs Dask graphs runs these: threads, processes or a distributed cluster. A worker that is lost is replaced and
its tasks run again by Dask; tasks are pure (`sources.remote`), so that changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import Categories, Columns, Types
from dpeigen.sources.objects import table_of
from dpeigen.sources.progress import meter
from dpeigen.sources.remote import combine, measure, quietly, result
from dpeigen.stats import Statistic
from dpeigen.stats.threads import single_blas

S = TypeVar("S", bound=Statistic)
_FAN = 16  # measurements added up by one task


class DaskSource(Source):
    """A Dask array (rows in a fixed order) or frame (whose partitions may lie by values)."""

    def __init__(
        self,
        data: Any,
        columns: Sequence[str] | None = None,
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
        # Where lengths are not known beforehand, or uneven, rows may have been picked or placed by their values.
        self.fixed_order = self.n_rows is not None and len(set(lengths[:-1])) <= 1

    def _open_frame(self, data: Any, *declared: Any) -> None:
        names = list(data.columns)
        if not all(isinstance(name, str) for name in names):
            raise ValueError("Columns of a Dask frame must have names that are text.")
        chosen = Columns(names, *declared)
        chosen.check_pandas(data._meta)
        self._convert = chosen.from_pandas
        self._frame = data[chosen.names]
        self._parts = list(self._frame.to_delayed())
        self.n_features, self.feature_names = len(chosen.features), chosen.features
        self.fixed_order = False

    def _count(self) -> int:
        from dask.base import compute
        from dask.delayed import delayed

        lengths = [delayed(len)(part) for part in self._parts]
        return sum(quietly("Dask", lambda: compute(lengths)[0]))

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Partitions one after the other, brought here."""
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


def _measured(empty: Statistic, number: int, part: Any, convert: Callable[[Any], Any]) -> bytes:
    return measure(empty, number, [part], convert)


def _numbers(part: Any) -> NDArray[Any]:
    """A partition, whose own type may follow from the values in it."""
    found = table_of(part)
    if found is None:
        raise TypeError("not a table")
    return found[0]
