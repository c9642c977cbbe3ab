"""The interface of every statistic: it is updated with blocks of rows, and merges with others of its kind.

A statistic is made from public parameters only and knows its own sensitivity. Because merging is exact and order does
not matter, a batch, a stream and a cluster give the same integers. Statistics are not private: they never leave the
library, only releases do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, TypeVar

from dpeigen.privacy.budget import Relation

__all__ = ["S", "Statistic", "SymmetricSum"]

S = TypeVar("S", bound="Statistic")


class Statistic(ABC):
    """``update`` with blocks, ``merge`` with others, ``fresh`` for an empty one with the same public parameters.

    ``takes_units``: whether it accepts the blocks of `stats.units`; otherwise it gets one row of each person.
    ``takes_capped``: the same if every row has equal weight. ``joint_views``: the views in which it then clips or
    measures all rows of a person together (`stats.together`). ``reads_heads``: whether it uses the values of the one
    row per person, rather than only counting them.
    """

    takes_units: ClassVar[bool] = False
    takes_capped: ClassVar[bool] = False
    reads_heads: ClassVar[bool] = False

    @property
    def joint_views(self) -> tuple[Any, ...]:
        return ()

    @abstractmethod
    def fresh(self: S) -> S:
        """An empty statistic with the same public parameters."""

    @abstractmethod
    def update(self: S, block: Any) -> S:
        """Add a block of rows (which is not changed) and return self."""

    @abstractmethod
    def merge(self: S, other: S) -> S:
        """Add another statistic of the same kind and return self."""


class SymmetricSum(Protocol):
    """What the noise for a symmetric matrix needs to know about its statistic."""

    @property
    def dimension(self) -> int:
        """The number of rows of the matrix."""

    def frobenius_sensitivity(self, relation: Relation) -> float:
        """The largest change in Frobenius norm, in grid steps."""

    def trace_sensitivity(self, relation: Relation) -> float:
        """The largest tr P + tr Q if neighbours differ by P − Q with P, Q positive semi-definite, in grid steps."""
