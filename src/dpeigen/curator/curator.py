"""The curator of rows: the only object that holds rows or exact sums. Every number about the rows comes from it.

A method asks questions and gets noisy answers. A question is paid for before anything is read (`curator.account`).
Then the curator draws the noise, reads the rows, and returns the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.curator.account import Answer, C, Curator
from dpeigen.curator.costs import NotPaidForError, worth
from dpeigen.curator.feed import BatchStream, Feed
from dpeigen.curator.purposes import Purpose
from dpeigen.privacy import Budget, Cost, Randomness, Relation
from dpeigen.privacy.noise import draw_ahead
from dpeigen.questions.base import Question
from dpeigen.questions.gathered import Gathered
from dpeigen.sources import PairedSource, Source
from dpeigen.sources.choosing import enough_rows
from dpeigen.sources.mapped import divided, mapped
from dpeigen.sources.memory import ArraySource, Batch, PartSource
from dpeigen.sources.shuffled import ShuffledSource, shuffled
from dpeigen.sources.units import UnitSource
from dpeigen.stats import BadRowsError
from dpeigen.stats.frame import Frame, RowView
from dpeigen.stats.single import known

__all__ = ["Answer", "C", "Curator", "DataCurator"]


@dataclass
class _Kept:
    """The exact statistic of the last pass. Questions with the same `reads` are answered from it."""

    reads: tuple[Any, ...] = ()
    found: Any = None


class DataCurator(Curator):
    """A curator over the rows of a source. ``hands_out_rows``: whether a method may get the rows; see `unprotected`.

    If people have several rows, the curator uses one row of each person, drawn at random: one person is then one row in
    every batch, part, pair and histogram. Statistics that can divide a person's weight among all their rows get all of
    them, and so do norms if every row has equal weight (`stats.together`).
    """

    def __init__(
        self,
        source: Source,
        relation: Relation,
        shares: Mapping[Purpose, Cost],
        budget: Budget,
        rng: Randomness,
        *,
        hands_out_rows: bool = False,
    ) -> None:
        super().__init__(relation, shares, budget)
        self.__units: UnitSource | None = None
        self.__checked = [False]  # whether all rows of all people were checked; shared with the parts
        if isinstance(source, UnitSource):
            source.counted = 1
            source.choose(rng)
            self.__units, source = source, source.one_each()
        self.__source, self.__rng, self.__kept = source, rng, _Kept()
        self.__hands_out_rows = hands_out_rows
        # Samples by the id of their source. The source is kept, so that no other gets its id. Shared with the parts.
        self.__samples: dict[tuple[int, float], tuple[Source, Source, UnitSource | None]] = {}

    def sample(self, share: float, view: RowView) -> tuple[DataCurator, float]:
        enough, key = self.__rows_of_each(share), (id(self.__source), share)
        if share >= 1 and (enough is None or self.__source.in_memory() is None):
            if enough not in (None, 1) and key not in self.__samples:
                self.__rng.token()  # `part` draws one too: a seed gives the same release wherever the rows are stored
                self.__samples[key] = self.__source, self.__source, self.__units
            return self, 1.0
        if key not in self.__samples:
            known_finite = False

            def draw(rows: int) -> NDArray[np.bool_]:
                nonlocal known_finite
                known_finite = self.__look_at_all(view)
                return self.__rng.coins(share, rows)

            found = None
            if share >= 1:
                self.__look_at_all(view)
            elif (found := self.__source.some_in_memory(draw)) is None:
                return self, 1.0
            whole = None if enough == 1 else self.__units
            units = None if whole is None else whole.part(None if found is None else found[0], enough, self.__rng)
            part = self.__source if found is None else PartSource(found[1], self.__source)
            self.__samples[key] = self.__source, part, units
            if found is not None and self.__units is None and type(self.__source) is ArraySource:
                self.__mark(key, found[1], finite=known_finite, single=self.__source.typed)
        other = copy(self)
        (_, other.__source, other.__units), other.__kept = self.__samples[key], _Kept()
        other.known_terms = None if self.known_terms is None else self.known_terms * share
        return other, share

    def __look_at_all(self, view: RowView) -> bool:
        """Refuse rows that the view refuses. True if all rows were checked and had no missing cell."""
        if self.__units is not None or not isinstance(view, Frame):
            self.__look(view.image)
            for block in self.__source.blocks() if self.__units is None else ():
                view.image(block)
            return False
        whole = True
        for block in self.__source.blocks():  # all of them: even the last may have a row to refuse
            whole &= view.look(block)
        return whole

    def __mark(self, key: tuple[int, float], rows: NDArray[Any], *, finite: bool, single: bool) -> None:
        """Record for rows in memory, and a sample of them, that no cell is missing, and their precision."""
        before, _, units = self.__samples[key]
        whole, part = (PartSource(known(each, finite=finite, single=single), before) for each in (self.__held(), rows))
        self.__source = whole
        self.__samples[key], self.__samples[id(whole), key[1]] = (before, part, units), (whole, part, units)

    def __rows_of_each(self, share: float) -> int | None:
        """How many rows of each person a sample needs; None for all, e.g. if the number of people is private."""
        people, units = self.__source.n_rows, self.__units
        if not people or units is None or units.max_rows is not None or self.relation is not Relation.REPLACE:
            return None
        return enough_rows(people * min(share, 1.0))

    def _answered(self, question: Question[Answer], cost: Cost) -> Answer:
        rng, relation = self.__rng, self.relation
        drawn = draw_ahead(lambda: question.draw(cost, relation, rng), rng)
        found = self.__read(question)
        return question.answer(found, drawn(), cost, relation, rng)

    def __read(self, question: Question[Any]) -> Any:
        """The exact statistic. It never leaves the curator."""
        if self.__kept.found is None or self.__kept.reads != question.reads:
            self.__kept = _Kept()  # frees the last one: only one statistic is held in memory
            statistic, units = question.statistic(), self.__units
            takes = statistic.takes_units or (
                statistic.takes_capped and units is not None and units.max_rows is not None
            )
            if units is not None and takes and question.view.rows_per_term == 1:
                self.__checked[0] = True
                found: Any = units.reduce(statistic)
                if self.known_terms is not None:
                    found.count = self.known_terms
                self.__kept = _Kept(question.reads, found)
                return found
            self.__look(question.look)
            source = self.__ordered(question.view, shuffled=question.shuffled)
            reduce = source.reduce_in_sequence if question.gathers else source.reduce
            self.__kept = _Kept(question.reads, reduce(statistic))
        return self.__kept.found

    def __look(self, look: Callable[[Any], Any]) -> None:
        """Check all rows of all people once, also those that are not drawn, before any noise is drawn."""
        if self.__units is not None and not self.__checked[0]:
            self.__units.check(look)
            self.__checked[0] = True

    def __ordered(self, view: RowView, *, shuffled: bool) -> Source:
        """The rows as a view needs them: in random pairs or in random order, unless they already are."""
        if self.__source.in_random_order:
            return self.__source
        if view.rows_per_term == 2:
            return PairedSource(self.__source, self.__rng, view.image)
        return ShuffledSource(self.__source, self.__rng) if shuffled else self.__source

    def __over(self, rows: Floats, *, in_random_order: bool = True) -> DataCurator:
        other = copy(self)
        other.__source, other.__kept = Batch(rows, in_random_order=in_random_order), _Kept()
        other.__units = None
        return other

    def divided(self, by: Floats) -> DataCurator:
        other, divide = copy(self), partial(divided, by)
        names = self.__source.feature_names or [""] * self.__source.n_features
        other.__source, other.__kept = mapped(self.__source, divide, names), _Kept()
        if self.__units is not None:
            other.__units = self.__units.mapped(divide, names)
            other.__units.told = self.__units.finished  # the original source counts the passes
        return other

    def counting(self, rows: int) -> DataCurator:
        if self.__units is None:
            return self
        self.__units.count_as(rows, self.__rng)
        other = copy(self)
        other.__source, other.__kept = self.__units.one_each(), _Kept()
        return other

    def seen(self, view: RowView) -> DataCurator:
        self.__look(view.image)
        source = self.__ordered(view, shuffled=True)
        return self.__over(source.reduce_in_sequence(Gathered(view)).table())

    def first(self, rows: int) -> DataCurator:
        if not self.__source.in_random_order:
            raise AssertionError("which rows come first would follow from how the table is sorted")
        return self.__over(self.__held()[:rows])

    def random_start(self, shape: tuple[int, int]) -> Floats:
        return self.__rng.normal(shape)

    def _cut(self, rows: Sequence[int], *, shuffled: bool) -> list[DataCurator]:
        table, known = self.__held(), self.__source.in_random_order
        table = table[self.__rng.permutation(len(table))] if shuffled else table
        ends = list(accumulate(rows))
        if ends[-1] > len(table):
            raise AssertionError("the parts have more rows than there are")
        return [
            self.__over(table[end - count : end], in_random_order=known or shuffled)
            for count, end in zip(rows, ends, strict=True)
        ]

    def __held(self) -> Floats:
        rows = self.__source.in_memory()
        if rows is None:
            raise AssertionError("only rows in memory are told apart by their places")
        return rows

    def feed(self, stream: BatchStream, *, purpose: Purpose, cost: Cost) -> Feed:
        """Pay for a stream whose rows come block by block; the caller is responsible for their order."""
        budget = worth(cost)
        self._pay_for(stream, purpose, cost)
        return self.__feed(stream, budget, in_random_order=False)

    def __feed(self, stream: BatchStream, budget: Budget, *, in_random_order: bool) -> Feed:
        def batch(rows: Floats) -> DataCurator:
            source = Batch(rows, in_random_order=in_random_order)
            return DataCurator(source, self.relation, {}, budget, self.__rng)

        return Feed(stream, batch)

    def _run(self, stream: BatchStream, budget: Budget) -> None:
        feed = self.__feed(stream, budget, in_random_order=True)
        self.__look(stream.frame.image)
        feed.before_spending = self.__source.finished  # after this, a failure still costs budget
        try:
            for block in shuffled(self.__source, self.__rng):
                feed.take(block)
        except BadRowsError as error:
            if not feed.spent:
                raise
            text = f"Reading stopped after {stream.rows_used} rows, which stay paid for: {error}"
        else:
            return
        raise ValueError(text)  # not a BadRowsError: that would give the budget back

    def unprotected(self) -> tuple[Source, Randomness]:
        """The rows themselves, for baselines that are not private."""
        if not self.__hands_out_rows:
            raise NotPaidForError("The method did not declare that it holds rows.")
        return self.__source, self.__rng
