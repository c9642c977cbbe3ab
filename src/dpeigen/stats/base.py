"""The shape of every statistic: a small monoid over blocks of rows.

A statistic is made from public parameters only, is fed blocks of rows, merges with others of its kind, and knows its
own sensitivity. Because merging is exact and order does not matter, a batch, a stream and a cluster give the same
integers. Statistics are not private: they never leave the library, only releases do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

S = TypeVar("S", bound="Statistic")


class Statistic(ABC):
    """``update`` with blocks, ``merge`` with others, ``fresh`` for an empty one with the same public parameters."""

    @abstractmethod
    def fresh(self: S) -> S:
        """An empty statistic with the same public parameters."""

    @abstractmethod
    def update(self: S, block: Any) -> S:
        """Take in a block of rows (never changed) and return self."""

    @abstractmethod
    def merge(self: S, other: S) -> S:
        """Take in what another one has seen and return self."""
