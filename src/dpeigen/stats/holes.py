"""Exact counts of missing cells, in single columns and in pairs of columns.

A row adds at most one to each count. Rows that share a person's weight (`stats.units`) add ⌊W/m⌋ of W each, so all rows
of a person add at most one too. So replacing one row, or one person, changes each of c counts by at most 1: together by
√c in ℓ2 and by c in ℓ1. Adding or removing one changes no more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpeigen._types import Floats, Integers
from dpeigen.stats.base import Statistic
from dpeigen.stats.frame import Frame
from dpeigen.stats.moments import chunk_rows
from dpeigen.stats.products import exact_product
from dpeigen.stats.units import UnitBlock, terms_of

__all__ = ["WHOLE", "HoleCounts"]

WHOLE = 2**20  # W: what a row, or a person, adds to a count; sums of 2^40 rows fit 64 bits


class HoleCounts(Statistic):
    """``together`` (columns × columns, in steps of 1/W): rows in which both cells are missing; diagonal: one cell."""

    takes_units = True

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.together: Integers = np.zeros((frame.n_features, frame.n_features), dtype=np.int64)
        self.count = 0

    def fresh(self) -> HoleCounts:
        return HoleCounts(self.frame)

    def update(self, block: Any) -> HoleCounts:
        size = chunk_rows(self.frame.n_columns)
        for start in range(0, len(block), size):
            chunk = block[start : start + size]
            shared = isinstance(chunk, UnitBlock)
            rows, holes = self.frame.image_and_holes(chunk.rows if shared else chunk)
            if holes is not None:
                weights: Floats | float = (WHOLE // chunk.sizes)[:, None].astype(np.float64) if shared else float(WHOLE)
                missing = np.broadcast_to(holes, rows.shape).astype(np.float64)
                self.together += exact_product(missing.T, missing * weights).astype(np.int64)
            self.count += min(len(rows), terms_of(chunk))
        return self

    def merge(self, other: HoleCounts) -> HoleCounts:
        if other.frame != self.frame:
            raise ValueError("Counts of different frames cannot be merged.")
        self.together += other.together
        self.count += other.count
        return self
