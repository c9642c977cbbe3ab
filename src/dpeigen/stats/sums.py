"""Exact sums of a constant c times lattice rows, in which the rows of one person may have to share their weight.

For rows that share no person it is c·Σz. Rows of people are divided by √m (`stats.units`) and get integer weights
w = ⌊W/√m⌋ in place of 1; c times the sum is divided by W at the end and rounded down. Rounding moves an entry by less
than 1, for which `units.squared_limits` leaves room.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.stats.exact import ExactSum
from dpeigen.stats.products import exact_product
from dpeigen.stats.units import ROOT_LEVELS, UnitBlock, root_weights

__all__ = ["RowTotals"]


class RowTotals:
    """Σ c·z (`rows`) and Σ c² (`squares`), where every person counts c² unless their rows are capped."""

    def __init__(self, n_columns: int) -> None:
        self.total: NDArray[np.int64] = np.zeros(n_columns, dtype=np.int64)  # Σz of rows that share no person
        self._shared = ExactSum((n_columns,))
        self._terms = 0  # rows that share no person, and people
        self._capped = 0  # Σw² of capped rows

    def add(self, rows: NDArray[np.float64], block: Any) -> None:
        """Add the lattice rows of a block."""
        if not isinstance(block, UnitBlock):
            self.add_rows(exact_product(np.ones(len(rows)), rows), len(rows))
            return
        weights = root_weights(block.sizes, ROOT_LEVELS)
        self._shared.add(exact_product(weights, rows).astype(np.int64))  # each product is at most 2^40
        if block.capped:
            self._capped += int((weights.astype(np.int64) ** 2).sum())
        else:
            self._terms += block.people

    def add_rows(self, total: NDArray[np.float64], count: int) -> None:
        """Add the sum of ``count`` lattice rows that share no person."""
        self.total += total.astype(np.int64)
        self._terms += count

    def merge(self, other: RowTotals) -> None:
        self.total += other.total
        self._shared.merge(other._shared)
        self._terms += other._terms
        self._capped += other._capped

    def uncount(self) -> None:
        """Reset the count: rows added so far are counted elsewhere."""
        self._terms = self._capped = 0

    def rows(self, constant: int) -> NDArray[Any]:
        """Σ c·z, Python integers."""
        shared = constant * self._shared.value.astype(object) // ROOT_LEVELS
        found: NDArray[Any] = constant * self.total.astype(object) + shared
        return found

    def squares(self, constant: int) -> int:
        """Σ c²."""
        return constant**2 * self._terms + constant**2 * self._capped // ROOT_LEVELS**2
