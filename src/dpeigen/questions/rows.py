"""How many rows people have, if every row has equal weight: a cap on a person's rows, and the number of rows used.

Guarantee: both have their stated cost, for every data set, under replacement, addition or removal of all rows of one
person, who has between 1 and m rows that are used. Exact discrete noise.

`RowsThatCount`. T(c) = Σ min(j, c), over people with j rows each, is the number of rows that count if a person's rows
are capped at c. The answer is the largest c of a public list for which G·T(c)/c, with noise, is at least N, the number
of people. The noise of later measurements is then at most G times that with one row per person. The mechanism is the
sparse-vector technique of `questions.radius` over the margins ⌊64·G·T(c)/c⌋ − 64·N. One person's term min(j, c)/c lies
in [0, 1] and grows with j for every c. So replacing a person moves all margins in one direction by at most 64·G. Adding
one moves them up by at most 64·(G − 1) and down by at most 64. By the proof there, both cost at most 2·64·G/s, where s
is the scale of the noise.

`RowsUsed`. T(c) for a public or released c changes by less than c if a person is replaced.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Integers
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.noise import perturb
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, Question, plain_noise
from dpeigen.questions.radius import MECHANISM, first_passed
from dpeigen.stats import Frame, Statistic

__all__ = ["RowCounts", "RowsThatCount", "RowsUsed", "candidates"]

_UNITS = 64  # steps per person of the margins
_SINGLY, _STRIDE = 8, 1.25  # candidates: all integers up to the first number, then growing by this factor


def candidates(most: int) -> Integers:
    """Candidates for the cap on a person's rows, from ``most`` down to 1; public.

    >>> candidates(12)
    array([12,  9,  8,  7,  6,  5,  4,  3,  2,  1])
    """
    found = [most]
    while found[-1] > 1:
        found.append(found[-1] - 1 if found[-1] <= _SINGLY else max(_SINGLY, math.floor(found[-1] / _STRIDE)))
    return np.array(found)


@dataclass(frozen=True)
class _OfRowCounts(Question[float]):
    rows: Frame
    most: int

    @property
    def view(self) -> Frame:
        return self.rows

    @property
    def reads(self) -> tuple[Hashable | Frame, ...]:
        return "rows of each", self.rows

    def statistic(self) -> RowCounts:
        return RowCounts(self.rows)


@dataclass(frozen=True)
class RowsThatCount(_OfRowCounts):
    """The cap on the number of a person's rows that count, between 1 and ``most``.

    ``allowed``: G, the most noise relative to one row per person; at least 1, public.
    """

    allowed: float = 1.0

    @property
    def _factor(self) -> int:
        return max(_UNITS, math.floor(_UNITS * self.allowed))

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return MECHANISM

    def can_be_more_than_one(self, people: float, cost: Cost) -> bool:
        """Whether an answer above 1 would be likely if each of these people had ``most`` rows."""
        return self.most > 1 and (self._factor - _UNITS) * people > self._in_doubt(cost)

    def _in_doubt(self, cost: Cost) -> int:
        """The typical maximum of the noise over all candidates."""
        return math.ceil(math.log(2 * len(candidates(self.most))) * self._scale(cost))

    def _scale(self, cost: Cost) -> float:
        return math.nextafter(2 * self._factor / pure_epsilon(cost), math.inf)

    def draw(self, cost: Cost, relation: Relation, rng: Randomness) -> tuple[int, NDArray[np.int64]]:  # noqa: ARG002
        scale = self._scale(cost)
        return int(rng.discrete_laplace(scale, 1)[0]), rng.discrete_laplace(scale, len(candidates(self.most)))

    def answer(self, found: RowCounts, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> float:  # noqa: ARG002
        threshold, each = noise
        counted = candidates(self.most)
        people = _UNITS * found.people + self._in_doubt(cost)  # if in doubt, fewer rows count
        margins = [self._factor * found.used(int(c)) // int(c) - people for c in counted]
        return first_passed(counted.astype(np.float64), np.array(margins, dtype=np.int64), each, threshold)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> float:  # noqa: ARG002
        return float(self.most)


class RowsUsed(_OfRowCounts):
    """The number of rows that count, at most ``most`` of each person; at least 1."""

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)

    def answer(self, found: RowCounts, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> float:  # noqa: ARG002
        if relation is not Relation.REPLACE:
            raise AssertionError("where the number of people is private, it is released with noise instead")
        value = np.array([found.used(self.most)], dtype=object)
        return max(1.0, float(perturb(value, cost, l2=self.most, l1=self.most, rng=rng)[0]))

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> float:  # noqa: ARG002
        noise = self.most * rng.laplace() / pure_epsilon(cost)
        return max(1.0, people.terms(self.rows) * self.most + float(noise))


class RowCounts(Statistic):
    """How many people have how many rows that are used; rows that the frame refuses are refused.

    It is asked first, while each row still comes with its person's number of rows (`stats.units`).
    """

    takes_units = True

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._rows: Integers = np.zeros(1, dtype=np.int64)  # the number of rows, by the row count of their person

    def fresh(self) -> RowCounts:
        return RowCounts(self.frame)

    def update(self, block: Any) -> RowCounts:
        self.frame.image(block.rows)
        self._add(np.bincount(block.sizes))
        return self

    def merge(self, other: RowCounts) -> RowCounts:
        self._add(other._rows)
        return self

    def _add(self, rows: NDArray[Any]) -> None:
        longer, shorter = (rows, self._rows) if len(rows) > len(self._rows) else (self._rows, rows)
        self._rows = longer.astype(np.int64)
        self._rows[: len(shorter)] += shorter

    @property
    def _people(self) -> Integers:
        """The number of people, by their number of rows."""
        return np.asarray(self._rows // np.maximum(np.arange(len(self._rows)), 1))

    @property
    def people(self) -> int:
        return int(self._people.sum())

    count = people

    def used(self, most: int) -> int:
        """The number of rows that count, with at most ``most`` of each person."""
        return int((self._people * np.minimum(np.arange(len(self._rows)), most)).sum())
