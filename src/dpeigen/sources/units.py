"""Rows that belong to people: sources of blocks that know the person of each row (`stats.units`).

One pass over the ids counts the rows of each person. Two things are drawn independently of all values: which row
represents a person if only one is used, and which rows are left out if a person has too many. Ids are converted to
numbers and dropped; the numbers, and how many rows a person has, never leave the source.

Questions that cannot use shared weights get the rows of `OneEach`: one row for each person.

If every row has equal weight, the rows of a person are clipped together: `sources.joint`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen.privacy import Randomness
from dpeigen.privacy.randomness import choosing
from dpeigen.sources.base import Source, UnreadableRowsError
from dpeigen.sources.choosing import UnitLimits, chosen, first_of_each, ranks
from dpeigen.sources.ids import Codes
from dpeigen.sources.joint import NOTHING_KNOWN, Norms, lengths_of
from dpeigen.sources.memory import ArraySource
from dpeigen.sources.one_each import OneEach
from dpeigen.stats import Statistic
from dpeigen.stats.units import UnitBlock

__all__ = ["LENGTHS", "RowMap", "S", "UnitSource", "UnitsByPlace"]

S = TypeVar("S", bound=Statistic)
RowMap = Callable[[Any], Any]


class UnitSource(Source):
    """A source of `UnitBlock`s. ``n_rows`` and `count_rows` are numbers of people.

    ``max_rows``: None if every person has weight 1; m if every row has equal weight, and at most m rows of a person are
    used. ``counted``: the most rows of a person that count (None: all m). A row then has weight 1/counted, or less if
    more rows of its person share the weight. ``thinned``: whether a person is represented by a row with a probability
    equal to their weight, instead of always.
    """

    name: str  # of the unit
    max_rows: int | None = None
    counted: int | None = None
    thinned: bool = False
    told: Callable[[], None] | None = None  # called when a pass is over, for the source of these rows

    def finished(self) -> None:
        if self.told is not None:
            self.told()
        super().finished()

    @abstractmethod
    def choose(self, rng: Randomness) -> None:
        """Draw which rows represent their people, and which are left out."""

    def count_as(self, rows: int, rng: Randomness) -> None:
        """From now on at most this many rows of a person count, if every row has equal weight."""
        self.counted = rows
        self._recount(rng)

    def _recount(self, rng: Randomness) -> None:
        """Update what depends on ``counted``, unless it is computed whenever rows are returned."""

    @abstractmethod
    def mapped(self, function: RowMap, feature_names: list[str]) -> UnitSource:
        """The same people, with each row transformed by a public function of that row alone."""

    def part(
        self,
        chosen: NDArray[np.bool_] | None,  # noqa: ARG002
        most: int | None,  # noqa: ARG002
        rng: Randomness,  # noqa: ARG002
    ) -> UnitSource:
        """The people selected by ``chosen``, or all; it has one coin per person, in the order of their heads.

        ``most``: the most rows of a person, drawn at random; the head is always among them.
        """
        raise AssertionError("only people in memory are told apart by their places")

    def heads_in_memory(self) -> tuple[NDArray[Any], NDArray[np.intp]] | None:
        """The rows and the indices of those that represent their people; None if rows are not in memory."""
        return None

    def one_each(self) -> OneEach:
        """One row of each person."""
        return OneEach(self)

    @property
    def limits(self) -> UnitLimits:
        """The limits, for the code that draws rows."""
        return UnitLimits(self.max_rows, self.thinned, self.counted)

    def check_rows(self, count: int) -> int:
        return count if self.thinned else super().check_rows(count)  # heads may be drawn again

    def check(self, look: RowMap) -> None:
        """Apply a view to all rows, which may refuse them. This is not counted as a pass, since nothing is measured."""
        if not self.read_once:
            before = self.passes
            self.reduce(_Checked(look))
            self.passes = before


class UnitsByPlace(UnitSource):
    """Rows of a source that come in the same order in every pass, with ids in that order."""

    def __init__(self, rows: Source, ids: Callable[[], tuple[Codes, int]], name: str) -> None:
        self.plain, self.name = rows, name
        self._read_ids = ids
        self._known: tuple[Codes, int] | None = None
        self._rng: Randomness | None = None
        self._heads: NDArray[np.bool_] | None = None
        self._kept: NDArray[np.bool_] | None = None  # None: all rows
        self._lengths = NOTHING_KNOWN
        self._follow()

    def _follow(self) -> None:
        self.n_features, self.feature_names = self.plain.n_features, self.plain.feature_names
        self.schema = self.plain.schema
        self.row_note, self.read_once = self.plain.row_note, self.plain.read_once
        self.fixed_order, self.width_declared = self.plain.fixed_order, self.plain.width_declared

    def over(self, rows: Source) -> UnitsByPlace:
        """The same people, with other rows in the same positions."""
        other = copy(self)
        other.plain, other._lengths = rows, NOTHING_KNOWN
        other._follow()
        return other

    def mapped(self, function: RowMap, feature_names: list[str]) -> UnitsByPlace:
        from dpeigen.sources.mapped import MappedSource

        return self.over(MappedSource(self.plain, function, feature_names))

    @property
    def _codes(self) -> Codes:
        return self._people()[0]

    def _people(self) -> tuple[Codes, int]:
        if self._known is None:
            self._known = self._read_ids()
            if self.plain.n_rows is not None and self.plain.n_rows != len(self._known[0]):
                raise UnreadableRowsError(LENGTHS)
        return self._known

    def count_rows(self) -> int:
        if self.n_rows is None:
            self.n_rows = self._people()[1]
        return self.n_rows

    def choose(self, rng: Randomness) -> None:
        codes, people = self._people()
        if self.thinned:
            self.n_rows = None  # there are fewer heads than people, and their number is private
        self._rng = choosing(rng.token())
        sizes = np.bincount(codes, minlength=people)
        if self.thinned or int(sizes.max(initial=0)) > self.limits.most:
            self.draw()
            return
        self._sizes = self.limits.shared(sizes)
        self._heads, self._kept, self._lengths = first_of_each(codes), None, NOTHING_KNOWN

    def draw(self) -> None:
        """Draw which rows represent their people. It is done when needed: to count people, any row would do."""
        if self._rng is not None:
            codes, people = self._people()
            self._sizes, self._heads, self._kept = chosen(codes, people, self.limits, self._rng)
            self._rng, self._lengths = None, NOTHING_KNOWN

    def _recount(self, rng: Randomness) -> None:
        if self.thinned:
            self.choose(rng)
            return
        codes, people = self._people()
        used = np.minimum(np.bincount(codes, minlength=people), self.limits.most)
        self._sizes, self._lengths = self.limits.shared(used), NOTHING_KNOWN

    def blocks(self) -> Iterator[UnitBlock]:
        if self._heads is None:
            raise AssertionError("nothing was drawn yet")
        at = handed = 0
        # Half as much memory, since it is accessed in arbitrary order.
        small = int(self._sizes.max(initial=0)) < 2**31
        sizes_by_person: NDArray[Any] = self._sizes.astype(np.int32) if small else self._sizes
        for block in self.plain.blocks():
            part = slice(at, at + len(block))
            at += len(block)
            if at > len(self._heads):
                break
            sizes, capped = sizes_by_person.take(self._codes[part]), self.max_rows is not None
            found = UnitBlock(block, sizes, self._heads[part], capped, start=handed)
            if self._kept is not None:
                found = replace(found, rows=np.asarray(block))[self._kept[part]]
                found = replace(found, start=handed)
            handed += len(found)
            yield found
        if at != len(self._heads):
            raise UnreadableRowsError(LENGTHS)

    def blocks_for(self, statistic: Statistic) -> Iterator[UnitBlock]:
        views = statistic.joint_views
        if statistic.reads_heads:  # for everyone, even with one row: others must not change how a row is drawn
            self.draw()
        if self.max_rows is None or not views:
            return self.blocks()
        if not self._lengths.has(views):
            codes, people = self._people()
            other = copy(self)  # not counted as a pass: nothing is measured
            other.told = None
            norms = other.reduce(Norms(views))
            kept = codes if self._kept is None else codes[self._kept]
            self._lengths = lengths_of(norms, kept, people, self._sizes)
        return self._lengths.beside(self.blocks(), views)

    def heads_in_memory(self) -> tuple[NDArray[Any], NDArray[np.intp]] | None:
        """All rows, and the indices of the heads, if rows are in memory."""
        self.draw()
        rows = self.plain.in_memory()
        if rows is None or self._heads is None:
            return None
        if len(rows) != len(self._heads):
            raise UnreadableRowsError(LENGTHS)
        return rows, np.flatnonzero(self._heads)

    def part(self, chosen: NDArray[np.bool_] | None, most: int | None, rng: Randomness) -> UnitSource:
        rows = self.plain.in_memory()
        if rows is None or self._heads is None:
            return super().part(chosen, most, rng)
        codes, sizes, inside = self._codes, self._sizes, self._heads.copy()
        choice = choosing(rng.token())
        if chosen is not None:
            inside[inside] = chosen
        there = np.zeros(len(sizes), dtype=bool)
        there[codes[inside]] = True
        others = there[codes] & ~inside if self._kept is None else there[codes] & ~inside & self._kept
        if most is not None and bool((sizes[there] > most).any()):
            some = np.flatnonzero(others)
            others = np.zeros(len(codes), dtype=bool)
            others[some] = ranks(codes[some], choice) < most - 1
        inside |= others
        other = self.over(ArraySource(rows[inside], self.feature_names))
        other._known, other._heads, other._kept = (codes[inside], len(sizes)), self._heads[inside], None
        other._sizes = sizes if most is None else np.minimum(sizes, most)
        other._rows_read, other.n_rows = None, int(np.count_nonzero(other._heads))
        other.told = self.finished
        return other


LENGTHS = "The 'unit' parameter must have one id for each row of X. Nothing was spent."


class _Checked(Statistic):
    """An empty statistic: it only checks that a view refuses no row."""

    takes_units = True

    def __init__(self, look: RowMap) -> None:
        self.look = look

    def fresh(self) -> _Checked:
        return _Checked(self.look)

    def update(self, block: UnitBlock) -> _Checked:
        self.look(block.rows)
        return self

    def merge(self, other: _Checked) -> _Checked:  # noqa: ARG002
        return self
