"""Rows of a source with one column of 0 and 1 for each public label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.base import Source

__all__ = ["Labelled"]


class Labelled(Source):
    """Rows of a source in memory with one column of 0 and 1 for each label.

    Each entry is compared with the labels separately. An array made from a list would take its type from all entries,
    so one person's entry could change everybody's class.
    """

    def __init__(self, source: Source, y: Any, labels: list[Any]) -> None:
        n = source.n_rows
        typed = isinstance(getattr(y, "dtype", None), np.dtype) and y.dtype.kind in "fiubUS"
        values = np.asarray(y) if typed else y
        if getattr(values, "ndim", 1) != 1 or isinstance(y, str) or n is None or not _has_length(values, n):
            raise ValueError(
                "y must hold one label for each row of a table in memory. For files name the 'label' column."
            )
        if not source.fixed_order:
            raise ValueError("Name the 'label' column: the rows of X have no fixed order to match the labels of y to.")
        self._source, self._labels = source, labels
        self._values = values if typed else list(values)
        self.n_rows, self.n_features = n, source.n_features + len(labels)

    def blocks(self) -> Iterator[NDArray[Any]]:
        at = 0
        for block in self._source.blocks():
            values = self._values[at : at + len(block)]
            flags = [np.array([_is(value, label) for value in values], dtype=np.float64) for label in self._labels]
            at += len(block)
            yield np.column_stack([np.asarray(block), *flags])


def _has_length(values: Any, n: int) -> bool:
    return hasattr(values, "__len__") and hasattr(values, "__iter__") and len(values) == n


def _is(value: Any, label: Any) -> bool:
    """Whether an entry is the label; False if they cannot be compared."""
    try:
        same = value == label
        return isinstance(same, (bool, np.bool_)) and bool(same)
    except Exception:
        return False
