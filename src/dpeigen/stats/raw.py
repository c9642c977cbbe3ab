"""Second moments of rows as they are: no bound, no lattice, plain floating point.

For methods whose guarantee depends on a model of the data instead of bounded rows. The sensitivity is unbounded: one
row can change the sum by any amount.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.stats.base import Statistic
from dpeigen.stats.exact_norms import row_norms
from dpeigen.stats.frame import RowView
from dpeigen.stats.moments import chunk_rows

__all__ = ["LARGEST_ENTRY", "RawMoment"]

LARGEST_ENTRY = 1e140  # squares of larger entries would overflow


class RawMoment(Statistic):
    """Σxxᵀ of framed rows, their number, and the norm of the longest."""

    def __init__(self, frame: RowView) -> None:
        self.frame = frame
        self.gram: NDArray[np.float64] = np.zeros((frame.n_columns, frame.n_columns))
        self.count = 0
        self.longest = 0.0

    def fresh(self) -> RawMoment:
        return RawMoment(self.frame)

    def update(self, block: Any) -> RawMoment:
        size = chunk_rows(self.frame.n_columns)
        for start in range(0, len(block), size):
            rows = np.clip(self.frame.image(block[start : start + size]), -LARGEST_ENTRY, LARGEST_ENTRY)
            self.gram += rows.T @ rows
            self.count += len(rows)
            self.longest = max(self.longest, float(row_norms(rows).max(initial=0.0)))
        return self

    def merge(self, other: RawMoment) -> RawMoment:
        self.gram += other.gram
        self.count += other.count
        self.longest = max(self.longest, other.longest)
        return self
