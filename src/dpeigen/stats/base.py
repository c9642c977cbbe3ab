"""The shape of every statistic: a small monoid over blocks of rows.

A statistic is made from public parameters only, is fed blocks of rows, merges with others of its kind, and knows its
own sensitivity. Because merging is exact and order does not matter, a batch, a stream and a cluster give the same
integers. Statistics are not private: they never leave the library, only releases do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol, TypeVar

from dpeigen.privacy.budget import Relation

__all__ = ["S", "Statistic", "SymmetricSum"]

S = TypeVar("S", bound="Statistic")


class Statistic(ABC):
    """``update`` with blocks, ``merge`` with others, ``fresh`` for an empty one with the same public parameters.

    ``takes_units``: whether blocks may be those of `stats.units`; else one row stands for all rows of a person.
    ``takes_capped``: the same where each row counts alike. ``joint_views``: the views in which it clips or measures all
    rows of a person together then (`stats.together`). ``reads_heads``: whether it looks at the rows that stand for
    their people, and does not only count them.
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
        """Take in a block of rows (never changed) and return self."""

    @abstractmethod
    def merge(self: S, other: S) -> S:
        """Take in what another one has seen and return self."""


class SymmetricSum(Protocol):
    """What noise for a symmetric matrix needs to know about the statistic it is for."""

    @property
    def dimension(self) -> int:
        """Rows of the matrix."""

    def frobenius_sensitivity(self, relation: Relation) -> float:
        """The largest change in Frobenius norm, in grid steps."""

    def trace_sensitivity(self, relation: Relation) -> float:
        """The largest tr P + tr Q when neighbours differ by P − Q with P, Q positive semi-definite, in grid steps."""
