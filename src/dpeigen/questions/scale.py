"""The scale of rows without a bound: the top eigenvalue of their covariance; and ratios of eigenvalues.

Guarantee: worth its cost and `failure` for every data set under replacement. The rows come in a random order and are
cut into groups by their positions in it; each group gives one label, computed from its own rows alone (a power of two
taken out, rounded to integers whose sums of products are exact), so one row changes one label, and the labels'
histogram over infinitely many bins is released by `privacy.histogram`: discrete Laplace noise of scale 2/ε, δ for the
threshold. Ratios use one part of the rows for each, so a row is in one of those histograms only.

Algorithm 4 of Liu, Kong, Jain, Oh 2022: differences of disjoint pairs, bins [2^(j/4), 2^((j+1)/4)), and one for 0. Bins
so narrow need groups of thousands to agree; where groups are smaller (a public fact) the bins are wider, up to a
factor of 4. The differences are divided by √2, so the answer is about the rows' own covariance (the paper's is about
twice it), and the middle of the bin is returned instead of its lower end.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.histogram import most_popular, stable_histograms
from dpeigen.privacy.randomness import Generator, SeededRandomness
from dpeigen.questions.base import Answer, People
from dpeigen.questions.gathered import OfAllRows
from dpeigen.stats.frame import RowView, exact_bits
from dpeigen.stats.products import exact_product

__all__ = ["EigenvalueRatios", "TopEigenvalue", "bins_per_doubling", "log_slopes", "log_spectra"]

_ZERO = -1e6  # the label of the bin that holds 0 alone
_NOT_SEEN = -20.0  # log₂ of the slope of groups that show no eigenvalue above those of chance
_LARGEST_EXPONENT = 900.0


@dataclass(frozen=True)
class _OfGroups(OfAllRows[Answer]):
    """A question about ``terms`` rows (or pairs) in so many groups."""

    rows: RowView
    terms: int
    groups: int
    chance: float  # of failure

    shuffled: ClassVar[bool] = True

    @property
    def failure(self) -> float:
        return self.chance

    @property
    def view(self) -> RowView:
        return self.rows

    def mechanism(self, cost: Cost) -> str:  # noqa: ARG002
        return "stability histogram"

    def _answered(self, rows: Floats, cost: Cost, relation: Relation, rng: Randomness) -> Answer:
        return self._shown(rows, self.groups, cost, relation, rng)

    def simulated(self, people: People, cost: Cost, relation: Relation, rng: Generator) -> Answer:
        rows = people.sample(self.rows, self.terms)
        groups = max(1, len(rows) * self.groups // self.terms)  # which stand for all of them
        return self._shown(rows, groups, cost, relation, SeededRandomness(rng))

    @abstractmethod
    def _shown(self, rows: Floats, groups: int, cost: Cost, relation: Relation, rng: Randomness) -> Answer:
        """What is released of rows in so many groups."""

    def _bin(self, logs: Floats, per_doubling: float, cost: Cost, relation: Relation, rng: Randomness) -> float | None:
        """The power of 2 in the middle of the fullest bin; 0 for the bin of 0, None if no bin stands out."""
        if relation is not Relation.REPLACE:
            raise AssertionError("the proof is for a replaced row")
        labels = np.where(np.isfinite(logs), np.floor(logs * per_doubling), _ZERO)
        labels = np.resize(labels, (self.groups, 1))
        (histogram,) = stable_histograms(labels, cost, self.chance, relation, rng)
        label = most_popular(histogram)
        if label is None or label == _ZERO:
            return None if label is None else 0.0
        return float(np.exp2(np.clip((label + 0.5) / per_doubling, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)))


class TopEigenvalue(_OfGroups[float | None]):
    """The top eigenvalue of the covariance, within a bin; 0 for constant rows, None if no bin stands out."""

    def _shown(self, rows: Floats, groups: int, cost: Cost, relation: Relation, rng: Randomness) -> float | None:
        size = max(1, len(rows) // 2 // groups)
        pairs = rows[: 2 * size * groups].reshape(groups, size, 2, rows.shape[1])
        halves = pairs[:, :, 0] / 2 - pairs[:, :, 1] / 2  # halved first: a difference of finite numbers may overflow
        # (x − y)/√2 = √2·(x/2 − y/2), and one more doubling for its square
        logs = log_spectra(halves)[:, 0] + 1.0
        return self._bin(logs, bins_per_doubling(self.terms // 2 // self.groups), cost, relation, rng)


@dataclass(frozen=True)
class EigenvalueRatios(_OfGroups[list[float | None]]):
    """λ_{j+1}/λ_j of the second moment for j ≤ k, each from its own part of the rows; None if no bin stands
    out, or if groups are too small to tell.

    What is released is −log₂ of the ratio, between 2^−9 and 2^6, within a factor of 2 (4 for groups below 50): how fast
    power steps converge. Sample eigenvalues of small groups are spread out by chance; `log_slopes` corrects for that.
    """

    k: int

    def _shown(self, rows: Floats, groups: int, cost: Cost, relation: Relation, rng: Randomness) -> list[float | None]:
        size = max(1, len(rows) // self.k // groups)
        parts = rows[: self.k * groups * size].reshape(groups, size, self.k, rows.shape[1])
        per_doubling = 1.0 if self.terms // self.k // self.groups >= 50 else 0.5
        ratios: list[float | None] = []
        for j in range(self.k):
            slope = log_slopes(log_spectra(parts[:, :, j], rows.shape[1]), j, size)
            seen = slope != 0
            slope = np.clip(np.nan_to_num(slope, nan=0.0, posinf=64.0), 2.0**-9, 64.0)
            found = self._bin(np.where(seen, np.log2(slope), _NOT_SEEN), per_doubling, cost, relation, rng)
            ratios.append(None if found is None or found < 2.0**-15 else 2.0**-found)
        return ratios


def log_slopes(logs: Floats, j: int, size: int) -> Floats:
    """log₂(λ_j/λ_{j+1}) of each group (j from 0), from log₂ of all its sample eigenvalues; 0 where neither stands out.

    Where the eigenvalues after the j-th are about equal, to τ, those of a sample of m rows of d columns reach up to τ(1
    + √(d/m))², and a larger one, ℓ, is seen at ℓ(1 + (d/m)·τ/(ℓ − τ)). Both are inverted, τ being the mean of what is
    left after the leading ones, which is not spread out by chance.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        values = np.nan_to_num(np.exp2(logs - logs[:, :1]), nan=0.0)
        d = values.shape[1]
        if j + 1 >= d:
            return np.asarray(np.where(values[:, j] > 0, math.inf, math.nan))
        rest = values[:, j + 1 :].sum(axis=1) / (d - j - 1)
        here = np.maximum(_before_sampling(values[:, j], rest, d / size), rest)
        after = np.minimum(_before_sampling(values[:, j + 1], rest, d / size), here)
        return np.asarray(np.log2(here) - np.log2(after))


def _before_sampling(seen: Floats, rest: Floats, aspect: float) -> Floats:
    """The eigenvalue that a sample shows as ``seen`` beside many of about ``rest``."""
    with np.errstate(invalid="ignore", divide="ignore"):
        # ℓ² − ℓ(seen + rest(1 − γ)) + rest·seen = 0
        middle = (seen + rest * (1 - aspect)) / 2
        found = middle + np.sqrt(np.maximum(middle**2 - rest * seen, 0.0))
        return np.where(seen > rest * (1 + math.sqrt(aspect)) ** 2, found, rest)


def bins_per_doubling(size: int) -> float:
    """4, 2, 1 or ½: the bins into which the labels of groups of this size mostly fall in ones or twos.

    The top eigenvalue of a group of squares of Gaussian variables has a relative deviation of √(14/size), others less,
    and a bin is made at least 3.5·√(16/size) wide, in units of log₂, but never wider than two doublings.
    """
    width = 2.0 ** math.ceil(math.log2(3.5 * math.sqrt(16 / size)))
    return 1 / min(max(width, 0.25), 2.0)


def log_spectra(groups: Floats, count: int = 1) -> Floats:
    """log₂ of the largest eigenvalues of (1/size)·Σxxᵀ in each group (groups × size × d); −∞ for 0.

    A group's numbers depend on its own rows alone: its products are sums of integers that are exact in doubles.
    """
    _, size, d = groups.shape
    bits = exact_bits(max(size, d))
    _, exponents = np.frexp(np.abs(groups).max(axis=(1, 2)))
    exponents = np.maximum(exponents.astype(np.int64), -900)  # so that 2^(bits − exponent) is a number
    scaled = np.rint(groups * np.ldexp(1.0, bits - exponents)[:, None, None])
    across = scaled.transpose(0, 2, 1)
    products = exact_product(scaled, across) if size < d else exact_product(across, scaled)
    values = np.linalg.eigvalsh(products)[:, ::-1]
    if values.shape[1] < count:
        values = np.pad(values, ((0, 0), (0, count - values.shape[1])))
    with np.errstate(divide="ignore"):
        logs = np.log2(np.maximum(values[:, :count], 0.0)) - math.log2(size)
    # Below the rounding of the decomposition there is nothing but rounding.
    logs[values[:, :count] <= values[:, :1] * 2.0**-40] = -math.inf
    return logs + 2.0 * (exponents - bits)[:, None]
