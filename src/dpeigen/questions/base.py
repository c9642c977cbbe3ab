"""The base class of questions: one query of the rows, with everything that is needed to answer it privately.

A question is a small frozen value made of public or released numbers. It defines:

1. the exact statistic that it is answered from (`statistic`), which merges across blocks, threads and machines;
2. the sensitivity of that statistic, to which `draw` scales the noise, for a given cost and neighbouring relation;
3. the mechanism: how statistic and noise become an answer (`answer`), and its name for the record;
4. the answer for a simulated population (`simulated`), from which errors are predicted.

Only a curator calls these. Methods make questions and get answers; an exact statistic never leaves the curator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.privacy import Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.guarantee import Numerics
from dpeigen.privacy.noise import noise_scale, perturb, perturb_with_count
from dpeigen.privacy.randomness import Generator
from dpeigen.stats import BadRowsError, Lattice, Statistic
from dpeigen.stats.columns import ColumnHistogram
from dpeigen.stats.frame import RowView

__all__ = [
    "Answer",
    "LatticeSum",
    "People",
    "Question",
    "counted",
    "noisy_sums",
    "plain_noise",
    "public_count",
    "simulated_sums",
]

Answer = TypeVar("Answer")


class People(Protocol):
    """A simulated population: the exact statistics of n of its rows, up to sampling error."""

    def terms(self, view: RowView) -> int:
        """The number of rows, or of pairs of rows."""

    def moment(self, view: RowView, radius: float | None) -> Floats:
        """The mean of zzᵀ over rows clipped to the radius; if it is None, over rows divided by their norms."""

    def mean(self, view: RowView, radius: float) -> Floats:
        """The mean of rows clipped to the radius."""

    def squares(self, view: RowView, radius: float) -> Floats:
        """Mean squares, column by column, of rows clipped to the radius."""

    def norms(self, view: RowView) -> Floats:
        """Norms of (a sample of) the rows, in increasing order."""

    def sample(self, view: RowView, count: int) -> Floats:
        """``count`` rows, or a smaller representative sample."""

    def counts(self, statistic: ColumnHistogram) -> Floats:
        """The counts that an empty histogram of columns would have after all rows."""

    def expected(self, view: RowView, radius: float) -> Floats:
        """The mean of zzᵀ over rows clipped to the radius, without sampling error."""

    def tau(self, view: RowView, transform: Any, design: int | None) -> Floats:
        """Kendall's tau over pairs of the rows."""


def counted(people: People, statistic: ColumnHistogram, rows: int) -> Floats:
    """`People.counts`, estimated from a sample of about ``rows`` rows."""
    sample = people.sample(statistic.frame, rows)
    statistic.tally(sample)
    return np.asarray(statistic.counts * (people.terms(statistic.frame) / len(sample)), dtype=np.float64)


class Question(ABC, Generic[Answer]):
    """One query of the rows."""

    numerics: ClassVar[Numerics] = "exact"
    shuffled: ClassVar[bool] = False  # whether the rows must be in a random order
    gathers: ClassVar[bool] = (
        False  # whether the statistic keeps the order of rows, so that blocks must come in sequence
    )

    @property
    def failure(self) -> float:
        """The probability of showing an empty bin, which costs δ in addition; 0 for most questions."""
        return 0.0

    @property
    @abstractmethod
    def view(self) -> RowView:
        """How the statistic sees the rows, and whether it sees them in pairs."""

    def look(self, block: Any) -> Any:
        """Apply the view to rows, so that rows which the statistic would refuse are refused now."""
        return self.view.image(block)

    @property
    @abstractmethod
    def reads(self) -> tuple[Hashable | RowView, ...]:
        """Identifies the statistic: questions with equal `reads` are answered from one pass."""

    @abstractmethod
    def mechanism(self, cost: Cost) -> str:
        """The name of the mechanism, for the record."""

    @abstractmethod
    def statistic(self) -> Statistic:
        """The empty statistic; it has public parameters only."""

    def draw(self, cost: Cost, relation: Relation, rng: Randomness) -> Any:  # noqa: ARG002
        """Noise that depends on public facts only, so it can be drawn while the rows are read."""
        return None

    @abstractmethod
    def answer(self, found: Any, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Answer:
        """The noisy answer. Everything in it is public or paid for by ``cost``."""

    @abstractmethod
    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Answer:
        """The answer for a simulated population."""


@dataclass(frozen=True)
class LatticeSum(Question[Answer]):
    """A question about sums over lattice rows, with noise on each sum; ``kind`` names the sums."""

    lattice: Lattice

    kind: ClassVar[str]

    @property
    def view(self) -> RowView:
        return self.lattice.frame

    @property
    def reads(self) -> tuple[Hashable | RowView, ...]:
        return self.kind, self.lattice

    def mechanism(self, cost: Cost) -> str:
        return plain_noise(cost)


def plain_noise(cost: Cost) -> str:
    """The name of exact integer noise that is added entry by entry."""
    return "discrete Gaussian" if isinstance(cost, GaussianCost) else "discrete Laplace"


def noisy_sums(
    values: NDArray[Any],
    terms: int,
    cost: Cost,
    relation: Relation,
    *,
    l2: float,
    l1: float,
    unit: int,
    rows_per_term: int,
    rng: Randomness,
) -> tuple[Floats, float]:
    """Integer sums with noise for a cost, and the number of terms: public, or with noise of the same draw.

    ``l2``, ``l1``: the sensitivities of the sums in grid steps. ``unit``: the grid steps of one term in the count.
    """
    if relation is Relation.REPLACE:
        count = public_count(terms, rows_per_term)
        noisy = perturb(values, cost, l2=l2, l1=l1, rng=rng)
    else:
        noisy, count = perturb_with_count(values, terms, cost, l2=l2, l1=l1, unit=unit, rng=rng)
    return noisy.astype(np.float64), count


def simulated_sums(
    total: Floats, terms: int, cost: Cost, relation: Relation, *, l2: float, l1: float, unit: int, rng: Generator
) -> tuple[Floats, float]:
    """`noisy_sums` in floating point for simulations: not private.

    The number of terms has noise too if it is released together with the sums.
    """
    joined = relation is Relation.ADD_REMOVE
    scale = noise_scale(cost, l2=math.hypot(l2, unit * joined), l1=l1 + unit * joined)
    noise = scale * (rng.normal if isinstance(cost, GaussianCost) else rng.laplace)(size=len(total) + joined)
    return total + noise[: len(total)], max(1.0, terms + float(noise[-1]) / unit) if joined else float(terms)


def public_count(terms: int, rows_per_term: int) -> float:
    """The number of terms under replacement, where it is public. Some sources know it only after a pass."""
    if terms * rows_per_term < 2:
        raise BadRowsError("The data must hold at least 2 rows. Nothing was spent.")
    return float(terms)
