"""Rows of another source, each changed by a public function of that row alone; it runs wherever the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from dpeigen.sources.base import Source
from dpeigen.stats import Statistic

S = TypeVar("S", bound=Statistic)
RowMap = Callable[[Any], Any]


class MappedSource(Source):
    """``function`` takes a block of rows to the block of their images, row by row."""

    def __init__(self, source: Source, function: RowMap, feature_names: list[str]) -> None:
        self._source, self._function = source, function
        self.n_features, self.feature_names, self.n_rows = len(feature_names), feature_names, source.n_rows
        self.fixed_order, self.row_note = source.fixed_order, source.row_note

    def count_rows(self) -> int:
        return self._source.count_rows()

    def blocks(self) -> Iterator[Any]:
        return map(self._function, self._source.blocks())

    def in_memory(self) -> Any:
        rows = self._source.in_memory()
        return None if rows is None else self._function(rows)

    def reduce(self, statistic: S) -> S:
        return self._source.reduce(_Mapped(statistic.fresh(), self._function)).statistic


class _Mapped(Statistic):
    """A statistic of images of rows."""

    def __init__(self, statistic: Any, function: RowMap) -> None:
        self.statistic, self.function = statistic, function

    def fresh(self) -> _Mapped:
        return _Mapped(self.statistic.fresh(), self.function)

    def update(self, block: Any) -> _Mapped:
        self.statistic.update(self.function(block))
        return self

    def merge(self, other: _Mapped) -> _Mapped:
        self.statistic.merge(other.statistic)
        return self
