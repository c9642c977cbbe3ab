"""What a question is: one thing asked of the rows, with everything that is needed to answer it privately.

A question is a small frozen value made of public or released numbers. It knows four facts:

1. the exact statistic that it is answered from (`statistic`), which merges across blocks, threads and machines;
2. the sensitivity of that statistic, by which `draw` makes noise worth a cost under each neighbouring relation;
3. the mechanism: how noise and statistic become an answer (`answer`), and its name for the record;
4. how it would be answered for a simulated population (`simulated`), which is how errors are predicted.

Only a curator calls them. Methods make questions and get answers; an exact statistic never leaves the curator.
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
    """A simulated population: what the exact statistics of n of its rows would be, up to sampling error."""

    def terms(self, view: RowView) -> int:
        """How many rows, or pairs of rows, there are."""

    def moment(self, view: RowView, radius: float | None) -> Floats:
        """The mean of zzᵀ over rows clipped to the radius, or divided by their length where it is None."""

    def mean(self, view: RowView, radius: float) -> Floats:
        """The mean of rows clipped to the radius."""

    def squares(self, view: RowView, radius: float) -> Floats:
        """Mean squares, column by column, of rows clipped to the radius."""

    def norms(self, view: RowView) -> Floats:
        """Lengths of (a sample of) the rows, increasing."""

    def sample(self, view: RowView, count: int) -> Floats:
        """So many rows, or fewer that stand for them."""

    def counts(self, statistic: ColumnHistogram) -> Floats:
        """How many of the rows fall into the cells of an empty histogram of columns."""

    def expected(self, view: RowView, radius: float) -> Floats:
        """The mean of zzᵀ over rows clipped to the radius, without sampling error."""

    def tau(self, view: RowView, transform: Any, design: int | None) -> Floats:
        """Kendall's tau over pairs of the rows."""


def counted(people: People, statistic: ColumnHistogram, rows: int) -> Floats:
    """`People.counts` from a sample of about so many rows."""
    sample = people.sample(statistic.frame, rows)
    statistic.tally(sample)
    return np.asarray(statistic.counts * (people.terms(statistic.frame) / len(sample)), dtype=np.float64)


class Question(ABC, Generic[Answer]):
    """One thing asked of the rows."""

    numerics: ClassVar[Numerics] = "exact"
    shuffled: ClassVar[bool] = False  # whether rows must come in a random order over all of them
    gathers: ClassVar[bool] = (
        False  # whether the statistic keeps the order of rows, so that blocks must come one by one
    )

    @property
    def failure(self) -> float:
        """The chance of an empty bin being shown, which is paid for in δ beside the cost; 0 for most."""
        return 0.0

    @property
    @abstractmethod
    def view(self) -> RowView:
        """How rows are looked at; it says whether they enter in pairs."""

    def look(self, block: Any) -> Any:
        """See rows as the statistic will, so that those it would refuse are refused now."""
        return self.view.image(block)

    @property
    @abstractmethod
    def reads(self) -> tuple[Hashable | RowView, ...]:
        """What tells the statistic apart: questions that read the same are answered from one pass."""

    @abstractmethod
    def mechanism(self, cost: Cost) -> str:
        """The name of the mechanism, for the record."""

    @abstractmethod
    def statistic(self) -> Statistic:
        """The empty statistic; made of public parameters only."""

    def draw(self, cost: Cost, relation: Relation, rng: Randomness) -> Any:  # noqa: ARG002
        """Noise that depends on public facts only, so that it may be drawn while the rows are read."""
        return None

    @abstractmethod
    def answer(self, found: Any, noise: Any, cost: Cost, relation: Relation, rng: Randomness) -> Answer:
        """The noisy answer; everything in it is paid for by ``cost``, or public."""

    @abstractmethod
    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Answer:
        """What the answer would be for a simulated population."""


@dataclass(frozen=True)
class LatticeSum(Question[Answer]):
    """A question about sums over lattice rows, with noise on each of them; ``kind`` names the sum."""

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
    """Integer sums with noise worth a cost, and the number of terms: public, or with noise of the same draw.

    ``l2``, ``l1`` are the sensitivities of the sums in grid steps; ``unit``: the grid steps that a term counts.
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
    """Sums with noise in floating point, and the number of terms: with noise too where it is released along with them.

    The twin of `noisy_sums` for simulations: not private.
    """
    joined = relation is Relation.ADD_REMOVE
    scale = noise_scale(cost, l2=math.hypot(l2, unit * joined), l1=l1 + unit * joined)
    noise = scale * (rng.normal if isinstance(cost, GaussianCost) else rng.laplace)(size=len(total) + joined)
    return total + noise[: len(total)], max(1.0, terms + float(noise[-1]) / unit) if joined else float(terms)


def public_count(terms: int, rows_per_term: int) -> float:
    """The number of terms under replacement, where it is public; sources that cannot tell it beforehand come here."""
    if terms * rows_per_term < 2:
        raise BadRowsError("The data must hold at least 2 rows. Nothing was spent.")
    return float(terms)
