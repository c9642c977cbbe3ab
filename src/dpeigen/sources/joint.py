"""The facts about all rows of a person that are needed before one of them is clipped (`stats.together`).

Engines that collect the rows of a person return them in one block (`WholePeople`). If rows come in the order of a
table, an additional pass computes the norms of all rows (`Norms`). They are kept, one number per row, until norms in
another view are needed. None of this leaves the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.sources.base import UnreadableRowsError
from dpeigen.sources.ids import Codes
from dpeigen.stats import Statistic
from dpeigen.stats.together import JointLengths, joint_lengths, norms_of
from dpeigen.stats.units import UnitBlock

__all__ = ["NOTHING_KNOWN", "Lengths", "Norms", "WholePeople", "lengths_of"]


class WholePeople:
    """Passes on rows of `placed` blocks when all rows of their person have arrived; the engine sorts rows by person.

    Privacy does not depend on that order, only memory does: rows of incomplete people are kept.
    """

    def __init__(self) -> None:
        self._waiting: UnitBlock | None = None

    def __call__(self, block: UnitBlock) -> UnitBlock:
        """The rows of people who are complete with this block."""
        if not block.capped or block.whose is None:
            return block
        if self._waiting is not None and len(self._waiting):
            block = _one_after_the_other(self._waiting, block)
        names, used = block.whose.T  # type: ignore[union-attr]
        _, codes, counts = np.unique(names, return_inverse=True, return_counts=True)
        done = counts[codes.reshape(-1)] == used
        self._waiting = block[~done]
        found = block[done]
        return replace(found, whose=names[done])

    def check(self) -> None:
        """Check that everybody is complete at the end."""
        if self._waiting is not None and len(self._waiting):
            raise UnreadableRowsError("Not all rows of a unit came together. Nothing was spent.")


def _one_after_the_other(first: UnitBlock, second: UnitBlock) -> UnitBlock:
    parts = ([getattr(block, name) for block in (first, second)] for name in ("rows", "sizes", "heads", "whose"))
    rows, sizes, heads, whose = (np.concatenate(part) for part in parts)
    return UnitBlock(rows, sizes, heads, first.capped, whose)


@dataclass(frozen=True)
class Lengths:
    """For each view, the norms of rows in their order and the joint lengths of people; and the person of each row."""

    views: tuple[Any, ...]
    norms: Sequence[Floats]
    together: Sequence[JointLengths]
    whose: Codes
    firsts: NDArray[np.bool_]  # one row of each person

    def has(self, views: tuple[Any, ...]) -> bool:
        return all(view in self.views for view in views)

    def beside(self, blocks: Iterator[UnitBlock], views: tuple[Any, ...]) -> Iterator[UnitBlock]:
        """Blocks of the same rows, with their joint lengths in these views."""
        places = [self.views.index(view) for view in views]
        for block in blocks:
            part = slice(block.start, block.start + len(block))
            codes, firsts = self.whose[part], self.firsts[part]
            if len(codes) != len(block):
                raise UnreadableRowsError("The number of rows changed between two reads. Nothing was spent.")
            yield block.given([self.together[at].of(self.norms[at][part], codes, firsts) for at in places])


NOTHING_KNOWN = Lengths((), (), (), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))


class Norms(Statistic):
    """Norms of rows in some views, by row number."""

    takes_units = True

    def __init__(self, views: tuple[Any, ...]) -> None:
        self.views = views
        self._found: list[tuple[int, list[Floats]]] = []

    def fresh(self) -> Norms:
        return Norms(self.views)

    def update(self, block: UnitBlock) -> Norms:
        self._found.append((block.start, norms_of(block.rows, self.views)))
        return self

    def merge(self, other: Norms) -> Norms:
        self._found += other._found
        return self

    def in_order(self) -> list[Floats]:
        """One array for each view. The parts are deleted on the way, to save memory."""
        rows = sum(len(parts[0]) for _, parts in self._found)
        norms = [np.zeros(rows) for _ in self.views]
        while self._found:
            start, parts = self._found.pop()
            for norm, part in zip(norms, parts, strict=True):
                norm[start : start + len(part)] = part
        return norms


def lengths_of(found: Norms, whose: Codes, people: int, sizes: NDArray[np.int64]) -> Lengths:
    """`Lengths` from the norms of all rows, their people, and the number of rows that share each person's weight."""
    norms = found.in_order()
    if any(len(each) != len(whose) for each in norms):
        raise UnreadableRowsError("The number of rows changed between two reads. Nothing was spent.")
    first = np.full(people, -1)
    first[whose[::-1]] = np.arange(len(whose) - 1, -1, -1)  # of several, the last is used
    firsts = np.zeros(len(whose), dtype=bool)
    firsts[first[first >= 0]] = True
    together = [joint_lengths(each, whose, people, sizes) for each in norms]
    return Lengths(found.views, norms, together, whose, firsts)
