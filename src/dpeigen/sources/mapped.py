"""Rows of another source, each transformed by a public function of that row alone, on the machine that has the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from dpeigen._types import Floats
from dpeigen.sources.base import Source
from dpeigen.sources.units import RowMap, UnitSource
from dpeigen.stats import Statistic
from dpeigen.stats.exact_norms import LARGEST_FLOAT

__all__ = ["MappedSource", "S", "divided", "mapped"]

S = TypeVar("S", bound=Statistic)


def mapped(source: Source, function: RowMap, feature_names: list[str]) -> Source:
    """The same source, with each row transformed by a public function of that row alone."""
    if isinstance(source, UnitSource):
        return source.mapped(function, feature_names)
    return MappedSource(source, function, feature_names)


def divided(by: Floats, block: Any) -> Floats:
    """Rows whose columns are divided by public or released numbers."""
    # Finite entries must stay finite: an overflow must not make a row bad.
    rows: Floats = np.asarray(block, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.clip(rows / by, -LARGEST_FLOAT, LARGEST_FLOAT)
    return np.where(np.isfinite(rows), found, rows)


class MappedSource(Source):
    """``function`` maps a block of rows to the block of their images, row by row."""

    def __init__(self, source: Source, function: RowMap, feature_names: list[str]) -> None:
        self._source, self._function = source, function
        self.n_features, self.feature_names, self.n_rows = len(feature_names), feature_names, source.n_rows
        self.fixed_order, self.row_note, self.schema = source.fixed_order, source.row_note, source.schema

    def count_rows(self) -> int:
        return self._source.count_rows()

    def blocks(self) -> Iterator[Any]:
        return map(self._function, self._source.blocks())

    def in_memory(self) -> Any:
        rows = self._source.in_memory()
        return None if rows is None else self._function(rows)

    def finished(self) -> None:
        self._source.finished()
        super().finished()

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
