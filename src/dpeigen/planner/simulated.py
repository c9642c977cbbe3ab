"""A curator over assumed rows: the methods themselves run on it, unmodified, and nothing is read or spent.

Each question knows how it is answered for a population (`Question.simulated`). `Assumed` is that population: it has the
assumed rows in their eigenbasis (`planner.population`), and translates the frames of methods into linear maps of that
basis. A run costs a few products and decompositions of d × d matrices, whatever the number of rows is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from scipy.linalg import block_diag

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.feed import BatchStream
from dpeigen.methods import Estimate, Method, Task
from dpeigen.planner.population import Population
from dpeigen.planner.views import View
from dpeigen.privacy import Budget, Cost
from dpeigen.privacy.randomness import Generator, made_up_generator
from dpeigen.questions import People, Question
from dpeigen.stats import Frame, ScoreFrame
from dpeigen.stats.columns import ColumnHistogram
from dpeigen.stats.frame import RowView
from dpeigen.stats.generalised import SignFrame, SplitSigns, WeighedSigns
from dpeigen.stats.stretch import Stretched, WhitenedRows

__all__ = ["Answer", "Assumed", "SimulatedCurator", "origin_of", "simulate"]

Answer = TypeVar("Answer")
# Every measurement with pairs draws a new pairing. The errors of two pairings have a correlation of about a third. Four
# measurements on two independent samples average out as much error as four such pairings.
_OTHER_PAIRS = 1000


@dataclass(frozen=True)
class _Map:
    """z = scale · outer · image(x): a view of the eigenbasis, and a rotation and a factor after it."""

    view: View
    outer: Floats | None
    scale: float

    def turned(self, moment: Floats) -> Floats:
        """The moment of z, from that of the images."""
        moment = moment * self.scale**2
        return moment if self.outer is None else self.outer @ moment @ self.outer.T

    def of_radius(self, radius: float | None) -> View:
        if self.view.transform is not None:
            return self.view
        return View(None if radius is None else radius / self.scale, self.view.stretch, self.view.shift)


class Assumed:
    """A sample of assumed rows, as questions use it.

    Coordinates are the columns of the table: oriented by public bounds or, ``turned``, arbitrarily; otherwise they are
    the eigenbasis.
    """

    def __init__(
        self, singles: Population, pairs: Population, task: Task, repetition: int, *, turned: bool = False
    ) -> None:
        self._populations, self._task, self._repetition, self._looks = (singles, pairs), task, repetition, 0
        box = singles.box
        self._turned, self._turn = turned, _any_turn(singles.d) if turned else None
        if box is not None and box.weights is not None:
            self._turn = box.turn
        self.origin = origin_of(task)

    def in_eigenbasis(self, rows: Floats) -> Floats:
        """Rows (or directions) from coordinates to the eigenbasis."""
        return rows if self._turn is None else rows @ self._turn

    def terms(self, view: RowView) -> int:
        return self._of(view).n

    def moment(self, view: RowView, radius: float | None) -> Floats:
        repetition = self._repetition
        if view.rows_per_term == 2:
            self._looks += 1
            repetition += _OTHER_PAIRS * (self._looks % 2 == 0)
        if isinstance(view, SplitSigns):  # of its blocks only those on the diagonal are looked at
            near = self._moment(SignFrame(view.frame, view.transform), None, repetition)
            return np.asarray(block_diag(near, self._moment(view.frame, None, repetition) - near))
        return self._moment(view, None if isinstance(view, SignFrame) else radius, repetition)

    def _moment(self, view: RowView, radius: float | None, repetition: int) -> Floats:
        """``radius`` None: of signs, which have none but 1, and no scale."""
        seen = self._map(view)
        found = self._of(view).moment(repetition, seen.of_radius(radius))
        if radius is None:
            return found if seen.outer is None else seen.outer @ found @ seen.outer.T
        return seen.turned(found)

    def mean(self, view: RowView, radius: float) -> Floats:
        if isinstance(view, WeighedSigns):
            rows = self.mean(SignFrame(view.frame, view.transform), radius) * math.sqrt(1 - view.kappa**2)
            return np.append(rows, view.kappa * view.transform.weights(self.norms(view.frame)).mean())
        seen = self._map(view)
        found = self._of(view).center(self._repetition, seen.of_radius(radius))
        if not isinstance(view, SignFrame):
            found = found * seen.scale
        return found if seen.outer is None else seen.outer @ found

    def squares(self, view: RowView, radius: float) -> Floats:
        if isinstance(view, SignFrame) and isinstance(view.frame, ScoreFrame):
            scores = view.frame  # the transform depends on the norm of the whole row
            view = ScoreFrame(SignFrame(scores.frame, view.transform), scores.directions, scores.residual)
        if not isinstance(view, ScoreFrame):
            return np.diag(self.moment(view, radius)).copy()
        # Scores and residual together have the norm of the row, so clipping them is clipping the row.
        moment = self.moment(view.frame, radius)
        along = np.einsum("ij,jk,ik->i", view.directions, moment, view.directions)
        return np.append(along, max(float(np.trace(moment) - along.sum()), 0.0)) if view.residual else along

    def norms(self, view: RowView) -> Floats:
        if isinstance(view, ScoreFrame):
            return self.norms(view.frame)
        seen = self._map(view)
        return self._of(view).norms(self._repetition, seen.view.stretch, seen.view.shift) * seen.scale

    def tau(self, view: RowView, transform: Any, design: int | None) -> Floats:  # noqa: ARG002
        found = self._populations[0].differences(self._repetition, self._task.n_components or self._task.n_features)
        return found if self._turn is None else self._turn @ found @ self._turn.T

    def sample(self, view: RowView, count: int) -> Floats:
        rows = self._of(view).rows(self._repetition)
        return self._seen(view, np.resize(rows, (count, rows.shape[1])))

    def _seen(self, view: RowView, rows: Floats) -> Floats:
        """Rows of the eigenbasis in the view."""
        seen = self._map(view)
        images = seen.of_radius(math.inf).image(rows) * seen.scale
        return images if seen.outer is None else images @ seen.outer.T

    def counts(self, statistic: ColumnHistogram) -> Floats:
        frame, columns, of = statistic.frame, statistic.columns, self._of(statistic.frame)

        def shares(rows: Floats) -> Floats:
            statistic.tally(np.ascontiguousarray(self._seen(frame, rows)))
            return statistic.counts / statistic.count

        if of.exact:
            return of.n * shares(of.rows(self._repetition))
        facts = (None if fact is None else fact.tobytes() for fact in (frame.center, frame.weights))
        found = of.tallied((type(statistic), columns, *facts), shares)
        rng = made_up_generator(of.seed, 4, self._repetition, statistic.n_cells)
        return of.n * found + np.sqrt(of.n * found * (1 - found)) * rng.normal(size=found.shape)

    def expected(self, view: RowView, radius: float) -> Floats:
        seen = self._map(view)
        return seen.turned(self._of(view).mean(seen.of_radius(radius)))

    def batch(self, rows: int) -> Assumed:
        """A batch of this many rows. Streams use rows or pairs of them, never both."""
        pairs = self._task.pairs
        part = self._populations[pairs].part(max(1, rows // (1 + pairs)))
        return Assumed(part, part, self._task, self._repetition, turned=self._turned)

    @property
    def n_rows(self) -> int:
        """The number of rows, for streams that use batches."""
        pairs = self._task.pairs
        return self._populations[pairs].n * (1 + pairs)

    def _of(self, view: RowView) -> Population:
        return self._populations[view.rows_per_term - 1]

    def _map(self, view: RowView) -> _Map:
        """The map of the eigenbasis that corresponds to a frame."""
        if isinstance(view, Frame):
            return self._framed(view)
        if isinstance(view, SignFrame):
            seen = self._map(view.frame)
            return replace(seen, view=replace(seen.view, transform=view.transform, unit=seen.scale))
        if not isinstance(view, (Stretched, WhitenedRows)):
            raise TypeError(f"no population is seen through {type(view).__name__}")
        inner = self._framed(view.frame)
        rows = view.directions if inner.outer is None else view.directions @ inner.outer
        stretch: Floats | None
        outer: Floats | None = None
        if isinstance(view, WhitenedRows):
            stretch = view.factors[:, None] * rows
        else:
            stretch = np.eye(rows.shape[1]) + (rows.T * (view.factors - 1)) @ rows if len(rows) else None
            outer = inner.outer
        if inner.view.stretch is not None:
            stretch = inner.view.stretch if stretch is None else stretch @ inner.view.stretch
        return _Map(View(None, stretch, inner.view.shift), outer, inner.scale)

    def _framed(self, frame: Frame) -> _Map:
        shift = None
        if not frame.pairs:
            center = np.zeros(frame.n_features) if frame.center is None else frame.center
            away = center - self.origin
            shift = self.in_eigenbasis(away) if away.any() else None
        scale = math.sqrt(0.5) if frame.pairs else 1.0  # frames use (x − y)/2, a population (x − y)/√2
        if self._turn is None:
            return _Map(View(None, None, shift), None, scale)
        if frame.weights is None:
            return _Map(View(None, None, shift), self._turn, scale)
        return _Map(View(None, frame.weights[:, None] * self._turn, shift), None, scale)


@lru_cache(maxsize=16)
def _any_turn(d: int) -> Floats:
    """A fixed arbitrary orientation of the principal directions, used if nothing is known about it."""
    return np.linalg.qr(made_up_generator(d).normal(size=(d, d)))[0]


def origin_of(task: Task) -> Floats:
    """The centre of the rows: the public centre, the middle of column bounds, or 0."""
    if isinstance(task.center, np.ndarray):
        return task.center
    if isinstance(task.bound, tuple) and isinstance(task.center, str):
        return task.bound[0] / 2 + task.bound[1] / 2
    return np.zeros(task.n_features)


class SimulatedCurator(Curator):
    """A curator over assumed rows, for predictions: no data are read, and its answers are not private."""

    def __init__(self, shares: Mapping[Purpose, Cost], task: Task, people: People, rng: Generator) -> None:
        super().__init__(task.relation, shares, task.budget)
        self._people, self._rng = people, rng

    def _of(self, rows: int) -> SimulatedCurator:
        other = copy(self)
        other._people = self._assumed.batch(rows)
        return other

    @property
    def _assumed(self) -> Assumed:
        if not isinstance(self._people, Assumed):
            raise TypeError("batches are made of assumed rows; rows of a table are drawn instead")
        return self._people

    def seen(self, view: RowView) -> SimulatedCurator:
        raise TypeError(f"no population is seen through {type(view).__name__}")

    def first(self, rows: int) -> SimulatedCurator:
        return self._of(rows)

    def random_start(self, shape: tuple[int, int]) -> Floats:
        return self._rng.normal(size=shape)

    def _cut(self, rows: Sequence[int], *, shuffled: bool) -> list[SimulatedCurator]:  # noqa: ARG002
        return [self._of(count) for count in rows]

    def _run(self, stream: BatchStream, budget: Budget) -> None:
        left = self._assumed.n_rows
        while 0 < (rows := stream.wanted()) <= left:
            left -= rows
            stream.rows_used += rows
            (batch,) = self._cut([rows], shuffled=False)
            batch._budget = budget
            batch._declare({})
            stream.use(batch)

    def _answered(self, question: Question[Answer], cost: Cost) -> Answer:
        return question.simulated(self._people, cost, self.relation, self._rng)


def simulate(method: Method, task: Task, people: People, rng: Generator) -> Estimate:
    """What one run of a checked method would release, in the coordinates of the population."""
    return method.estimate(SimulatedCurator(method.shares(task), task, people, rng), task)
