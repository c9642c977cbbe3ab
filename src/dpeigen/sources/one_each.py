"""One row of each person, for questions in which a weight cannot be shared among rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.base import Source
from dpeigen.sources.memory import block_rows
from dpeigen.stats import Statistic
from dpeigen.stats.units import UnitBlock

if TYPE_CHECKING:
    from dpeigen.sources.units import UnitSource

__all__ = ["OneEach"]

S = TypeVar("S", bound=Statistic)


class OneEach(Source):
    """The rows that represent their people."""

    def __init__(self, units: UnitSource) -> None:
        self._units = units
        self.n_features, self.feature_names, self.row_note = units.n_features, units.feature_names, units.row_note
        self.n_rows, self.fixed_order = units.n_rows, units.fixed_order
        self._table: NDArray[Any] | None = None

    def in_memory(self) -> NDArray[Any] | None:
        if self._table is None:
            found = self._found()
            self._table = None if found is None else found[0][found[1]]
        return self._table

    def _found(self) -> tuple[NDArray[Any], NDArray[np.intp]] | None:
        """The table and the indices of heads; if rows are not in memory, None, and the heads are drawn now."""
        return self._units.heads_in_memory()

    def some_in_memory(self, draw: Callable[[int], NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]] | None:
        found = self._found()
        if found is None:
            return None
        taken = draw(self.check_rows(len(found[1])))
        return taken, found[0][found[1][taken]]

    def count_rows(self) -> int:
        return self._count() if self._units.thinned else self._units.count_rows()

    def blocks(self) -> Iterator[Any]:
        rows = self.in_memory()
        if rows is None:
            for block in self._units.blocks():
                if block.people:
                    yield block.first()
            return
        step = block_rows(self.n_features)
        for start in range(0, len(rows), step):
            yield rows[start : start + step]

    def reduce(self, statistic: S) -> S:
        if self.in_memory() is not None:
            return super().reduce(statistic)
        return self._units.reduce(_Heads(statistic.fresh())).statistic

    def finished(self) -> None:
        self._units.finished()


class _Heads(Statistic):
    """A statistic of the rows that represent their people; it runs on the machine that has the rows."""

    takes_units = True

    def __init__(self, statistic: Any) -> None:
        self.statistic = statistic

    def fresh(self) -> _Heads:
        return _Heads(self.statistic.fresh())

    def update(self, block: UnitBlock) -> _Heads:
        if block.people:
            self.statistic.update(block.first())
        return self

    def merge(self, other: _Heads) -> _Heads:
        self.statistic.merge(other.statistic)
        return self
