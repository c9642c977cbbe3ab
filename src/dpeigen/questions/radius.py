"""A radius on a fixed geometric grid that contains about 95% (or half) of the rows, or leaves a given number outside.

Guarantee: pure ε-DP, exact integers. This is the sparse-vector technique with one answer (Lyu, Su, Li 2017) over
cumulative counts (`stats.norms`), scanned from the smallest radius up, with discrete Laplace noise on the threshold and
on every count. All noise is drawn before the scan, which never stops early, so its time reveals nothing. Replacing one
row moves all counts in one direction by at most 1 (monotone queries): noise 2/ε on both. Adding or removing one moves
20·count − 19·n up by at most 1 and down by at most 19, or the reverse: noise 39/ε on both. For half of the rows it is
2·count − n, up or down by at most 1: noise 3/ε.

Proof, for an answer j and queries that rise by at most a and fall by at most b: shift the threshold noise by a. Each
earlier query then stays below at least as often, and query j passes if its own noise is shifted by at most a + b. With
noise s on both that costs (2a + b)/s: ε/2 + ε/2 for (a, b) = (1, 0), less for (0, 1), at most 19 + 20 = 39 for (1, 19)
and (19, 1), and 3 for (1, 1).

`RadiusLeaving` uses the number of rows outside instead: one row moves it by at most 1 and in one direction for all
radii, whether it is replaced, added or removed, so noise 2/ε is enough for both relations.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.randomness import Generator
from dpeigen.questions.base import People, Question
from dpeigen.stats import NormHistogram, Statistic
from dpeigen.stats.frame import RowView
from dpeigen.stats.norms import FINE_GRID, GRID, NormHistograms
from dpeigen.stats.stretch import WhitenedRows

__all__ = [
    "KEEP",
    "MECHANISM",
    "NOISY_MAX",
    "OUT_OF",
    "STEPS",
    "RadiusHolding",
    "RadiusLeaving",
    "RadiusNear",
    "first_passed",
    "holding_left",
    "holding_scale",
    "length_costs",
    "noisy_max",
    "slack",
]

KEEP, OUT_OF = 19, 20  # the quantile, as a fraction of integers
MECHANISM = "sparse vector, discrete Laplace"
NOISY_MAX = "report noisy max, discrete Laplace"
STEPS = 64  # steps of a score for each row
_STEP = 1.5  # noise scales that are subtracted from a score for each cell of the grid
_RISE = 1.0  # noise scales by which more rows may be outside, for each cell beyond the usual radius


@dataclass(frozen=True)
class _Radius(Question[float]):
    """What both questions share: the histogram of norms, and a scan of noisy margins."""

    rows: RowView
    within: slice = field(default_factory=lambda: slice(None), kw_only=True)  # a public part of the grid

    @property
    def view(self) -> RowView:
        return self.rows

    @property
    def grid(self) -> NDArray[np.float64]:
        """The radii by which rows are counted; public."""
        return GRID

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "norms", self.rows

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return MECHANISM

    def statistic(self) -> Statistic:
        return NormHistogram(self.rows)

    @abstractmethod
    def scale(self, cost: Cost, relation: Relation) -> float:
        """The scale of the noise on the threshold and on every count; public."""

    @abstractmethod
    def margins(self, inside: NDArray[Any], count: Any, cost: Cost, relation: Relation) -> NDArray[Any]:
        """The number that must be at least 0 for each radius, from the numbers of rows inside it."""

    def draw(self, cost: Cost, relation: Relation, rng: Randomness) -> tuple[int, NDArray[np.int64]]:
        scale = self.scale(cost, relation)
        return int(rng.discrete_laplace(scale, 1)[0]), rng.discrete_laplace(scale, len(self.grid[self.within]))

    def answer(self, found: Any, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> float:  # noqa: ARG002
        threshold, each = noise
        margins = self.margins(found.cumulative, found.people, cost, relation)[self.within]
        return first_passed(self.grid[self.within], margins, each, threshold)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> float:
        margins, scale = self._simulated_margins(people, cost, relation), self.scale(cost, relation)
        noise, threshold = rng.laplace(scale=scale, size=len(margins)), rng.laplace(scale=scale)
        return first_passed(self.grid[self.within], margins, noise, threshold)

    def _simulated_margins(self, people: People, cost: Cost, relation: Relation) -> NDArray[Any]:
        norms, terms = people.norms(self.rows), people.terms(self.rows)
        inside = np.searchsorted(norms, self.grid, side="right") * (terms / len(norms))
        return self.margins(inside, terms, cost, relation)[self.within]


@dataclass(frozen=True)
class RadiusHolding(_Radius):
    """The first grid radius that contains about 95% of the rows, a little less if there are few.

    ``half``: half of them, on a finer grid, because cutoffs are multiples of it.
    """

    half: bool = False

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return "fine norms" if self.half else "norms", self.rows

    @property
    def grid(self) -> NDArray[np.float64]:
        return FINE_GRID if self.half else GRID

    def statistic(self) -> Statistic:
        return NormHistogram(self.rows, fine=self.half)

    def scale(self, cost: Cost, relation: Relation) -> float:
        if relation is not Relation.REPLACE and self.rows.rows_per_term > 1:
            raise AssertionError("the proof is for rows: one more of them may change one pair and add another")
        return holding_scale(cost, relation, half=self.half)

    def margins(self, inside: NDArray[Any], count: Any, cost: Cost, relation: Relation) -> NDArray[Any]:
        if relation is Relation.REPLACE:  # n is public here
            target = math.ceil(count / 2) if self.half else math.ceil(count * KEEP / OUT_OF)
            return np.asarray(inside - target + slack(cost, relation, half=self.half))
        keep, out_of = (1, 2) if self.half else (KEEP, OUT_OF)
        return np.asarray(out_of * inside - keep * count + slack(cost, relation, half=self.half))


@dataclass(frozen=True)
class RadiusLeaving(_Radius):
    """The first grid radius that about ``outside`` rows exceed, a public or released number.

    At least five noise scales of rows are left outside, for the reason stated in `slack`. ``together``: views along one
    basis, including this one, that are measured one after the other and answered from one pass. Beyond the ``usual``
    radius, a public or released number, more rows may be left outside, one noise scale for each cell of the grid. So a
    threshold with much noise is reached after a few cells; otherwise the scan could continue to a far too large radius.
    """

    outside: float
    together: tuple[WhitenedRows, ...] = field(default=(), kw_only=True)
    usual: float = field(default=math.inf, kw_only=True)

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return ("norms of each", *self.together) if self.together else super().reads

    def statistic(self) -> Statistic:
        return NormHistograms(self.together) if self.together else super().statistic()

    def answer(self, found: Any, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> float:
        return super().answer(found.of(self.rows) if self.together else found, noise, cost, relation, rng)

    def scale(self, cost: Cost, relation: Relation) -> float:  # noqa: ARG002
        return math.nextafter(2 / pure_epsilon(cost), math.inf)

    def allowed(self, cost: Cost, relation: Relation) -> int:
        """The approximate number of rows that are left outside."""
        return max(math.floor(self.outside), math.ceil(5 * self.scale(cost, relation)))

    def allowed_at(self, radius: float, cost: Cost, relation: Relation) -> int:
        """The same, if this radius on the grid was the answer."""
        return self.allowed(cost, relation) + int(self._more(cost, relation)[int(np.searchsorted(GRID, radius))])

    def _more(self, cost: Cost, relation: Relation) -> NDArray[np.int64]:
        """How many more rows may be outside each radius of the grid; public."""
        cells = np.maximum(np.arange(len(GRID)) - np.searchsorted(GRID, self.usual), 0)
        return np.floor(cells * (_RISE * self.scale(cost, relation))).astype(np.int64)

    def margins(self, inside: NDArray[Any], count: Any, cost: Cost, relation: Relation) -> NDArray[Any]:
        return np.asarray(self.allowed(cost, relation) + self._more(cost, relation) - (count - inside))


@dataclass(frozen=True)
class RadiusNear(RadiusLeaving):
    """A grid radius that about ``outside`` rows exceed, or a few more, out of the few radii ``within``.

    Report noisy max. The score of a radius is minus the excess number of longer rows, minus the cost of its length
    (`length_costs`). Every score gets noise |Z|, Z discrete Laplace of scale 1/ε, and the first of the largest is the
    answer. One row moves the numbers of longer rows by at most 1, all in one direction, whether it is replaced, added
    or removed; the rest of the scores is public. Proof: fix the noise on all other radii. Radius j is the answer if its
    noise reaches a threshold t. With the other row all scores have risen by 0 or 1, or all have fallen by 0 or 1, so
    the threshold is at most t + 1, and Pr(|Z| ≥ t + 1) ≥ e^−ε·Pr(|Z| ≥ t) for every t. All of it is computed in
    integers, 64 steps per row.

    This has half of the noise of the sparse-vector technique, and none on a threshold: if noise is far below one row,
    no row is left outside, unless it is so far beyond all others that the cells between cost more. It needs a short
    list of radii, because each cell has a cost.
    """

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return NOISY_MAX

    def scale(self, cost: Cost, relation: Relation) -> float:  # noqa: ARG002
        return math.nextafter(1 / pure_epsilon(cost), math.inf)

    def allowed(self, cost: Cost, relation: Relation) -> int:
        return math.floor(self.outside + self.scale(cost, relation))

    def margins(self, inside: NDArray[Any], count: Any, cost: Cost, relation: Relation) -> NDArray[Any]:
        """Scores, in steps."""
        too_many = np.maximum(count - inside - math.floor(self.outside), 0)
        return np.asarray(-STEPS * too_many - length_costs(len(inside), self.scale(cost, relation)))

    def draw(self, cost: Cost, relation: Relation, rng: Randomness) -> tuple[int, NDArray[np.int64]]:
        scale = math.nextafter(STEPS * self.scale(cost, relation), math.inf)
        return 0, rng.discrete_laplace(scale, len(GRID[self.within]))

    def answer(self, found: Any, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> float:  # noqa: ARG002
        found = found.of(self.rows) if self.together else found
        scores = self.margins(found.cumulative, found.people, cost, relation)[self.within]
        return float(GRID[self.within][noisy_max(scores, noise[1])])

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> float:
        scores, scale = self._simulated_margins(people, cost, relation), STEPS * self.scale(cost, relation)
        return float(GRID[self.within][noisy_max(scores, rng.laplace(scale=scale, size=len(scores)))])


def noisy_max(scores: NDArray[Any], noise: NDArray[Any]) -> NDArray[np.intp]:
    """The index of the first of the largest scores, in each row of them, after noise of one sign."""
    return np.asarray(np.argmax(scores + np.abs(noise), axis=-1))


def length_costs(sizes: int, scale: float) -> NDArray[np.int64]:
    """The costs of sizes, the smallest first: a public number of steps, if noise has this scale in rows."""
    return np.floor(np.arange(sizes) * (STEPS * _STEP * scale)).astype(np.int64)


def first_passed(grid: NDArray[Any], margins: NDArray[Any], noise: NDArray[Any], threshold: float) -> float:
    """The first radius whose noisy margin reaches the noisy threshold, else the last; all of them are evaluated."""
    passed = margins + noise >= threshold
    return float(grid[np.argmax(passed)] if passed.any() else grid[-1])


def holding_scale(cost: Cost, relation: Relation, *, half: bool = False) -> float:
    """The noise scale of `RadiusHolding`, on the threshold and on every count; public."""
    factor = 2 if relation is Relation.REPLACE else 3 if half else KEEP + OUT_OF
    return math.nextafter(factor / pure_epsilon(cost), math.inf)


def holding_left(cost: Cost, relation: Relation, count: float) -> tuple[float, float]:
    """The approximate number of ``count`` rows that `RadiusHolding` leaves outside, and the noise on it; public."""
    parts = 1 if relation is Relation.REPLACE else OUT_OF  # rows are compared, or rows times this
    allowed = count * (OUT_OF - KEEP) / OUT_OF + slack(cost, relation) / parts
    return allowed, holding_scale(cost, relation) / parts


def slack(cost: Cost, relation: Relation, *, half: bool = False) -> int:
    """By how much the threshold is lowered: five noise scales, a public number; 0 for ``half`` of the rows.

    Then a radius that contains every row is passed over with probability below 2%, and four times it below 1e-3.
    Without this, with few rows and an unlucky threshold the scan could continue to a far too large radius. For
    ``half``, a radius that contains every row exceeds its threshold by half of the rows, so no more room is needed.
    """
    return 0 if half else math.ceil(5 * holding_scale(cost, relation, half=half))
