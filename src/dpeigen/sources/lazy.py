"""A Polars query that is run anew for every pass, in Polars' streaming engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.columns import Columns


class LazySource(Source):
    """A Polars LazyFrame. Its rows are in no fixed order: a query may sort or join by values."""

    fixed_order = False

    def __init__(self, frame: Any, columns: Columns) -> None:
        self._frame, self._columns = frame.select(columns.names), columns
        columns.check_arrow(_empty(self._frame).schema)
        self.n_features, self.feature_names = len(columns.features), columns.features

    def blocks(self) -> Iterator[NDArray[Any]]:
        batches: Iterator[Any] | None = None
        while True:
            try:
                if batches is None:
                    batches = self._batches()
                batch = next(batches, None)
                if batch is None:
                    return
                block = self._columns.from_arrow(batch)
            except Exception as error:  # Polars' messages may quote values
                kind = type(error).__name__
                break
            if len(block):
                yield block
        raise UnreadableRowsError(f"The query could not be run: Polars raised {kind}. Nothing was spent.")

    def _batches(self) -> Iterator[Any]:
        if hasattr(self._frame, "collect_batches"):
            return (batch.to_arrow() for batch in self._frame.collect_batches(maintain_order=True))
        return iter([self._frame.collect().to_arrow()])


def _empty(frame: Any) -> Any:
    """An Arrow table with the query's types and no rows."""
    import polars as pl

    return pl.DataFrame(schema=frame.collect_schema()).to_arrow()
