"""Rows of features joined with a target: the target becomes the last column.

The image of a row depends on that row alone: its entries are multiplied by public factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.sources.base import Source
from dpeigen.sources.mapped import mapped
from dpeigen.sources.units import UnitsByPlace
from dpeigen.stats import BadRowsError
from dpeigen.stats.exact_norms import LARGEST_FLOAT

__all__ = ["joined"]


def joined(rows: Source, target: Floats | int, names: list[str], factors: Floats) -> Source:
    """Rows with the target (numbers, or the index of its column) last, each column multiplied by a public factor."""
    if isinstance(target, int):
        return mapped(rows, partial(_target_last, target, factors), names)
    if isinstance(rows, UnitsByPlace):
        return rows.over(joined(rows.plain, target, names, factors))
    if not rows.fixed_order:
        raise ValueError("y must be the name of a column of X: the rows of X have no fixed order to match numbers to.")
    return _JoinedRows(rows, target, names, factors)


def _doubles(block: Any) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(block).astype(np.float64, copy=False)


def _scaled(rows: Floats, factors: Floats) -> Floats:
    # Finite entries must stay finite: an overflow must not make a row bad.
    with np.errstate(over="ignore"):
        scaled = np.clip(rows * factors, -LARGEST_FLOAT, LARGEST_FLOAT)
    return np.where(np.isfinite(rows), scaled, rows)


def _target_last(target: int, factors: Floats, block: Any) -> Floats:
    rows = _doubles(block)
    return _scaled(np.column_stack([np.delete(rows, target, axis=1), rows[:, target]]), factors)


class _JoinedRows(Source):
    """Rows with separately given numbers as the last column."""

    def __init__(self, rows: Source, target: Floats, names: list[str], factors: Floats) -> None:
        self._rows, self._target, self._factors = rows, target, factors
        self.n_features, self.feature_names, self.n_rows = len(names), names, rows.n_rows
        self.row_note, self.schema = rows.row_note, rows.schema
        if self.n_rows is not None:
            self.count_rows()

    def count_rows(self) -> int:
        count = self._rows.count_rows()
        if count != len(self._target):
            raise BadRowsError(_LENGTHS)
        return count

    def blocks(self) -> Iterator[Floats]:
        return self._joined(self._rows.blocks())

    def in_memory(self) -> Floats | None:
        rows = self._rows.in_memory()
        return None if rows is None else next(self._joined([rows]))

    def _joined(self, blocks: Iterable[Any]) -> Iterator[Floats]:
        start = 0
        for block in blocks:
            rows = _doubles(block)
            column = self._target[start : start + len(rows)]
            start += len(rows)
            if len(column) < len(rows):
                raise BadRowsError(_LENGTHS)
            yield _scaled(np.column_stack([rows, column]), self._factors)
        if start != len(self._target):
            raise BadRowsError(_LENGTHS)


_LENGTHS = "X and y must have the same number of rows. Nothing was spent."
