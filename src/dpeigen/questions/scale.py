"""The scale of unbounded rows: the top eigenvalue of their covariance, and ratios of eigenvalues.

Guarantee: the stated cost and `failure`, for every data set under replacement. The rows are put into a random order and
cut into groups by position. Each group gives one label that depends on its own rows alone (they are scaled by a power
of two and rounded to integers whose sums of products are exact). So one row changes one label. The histogram of labels,
over infinitely many bins, is released by `privacy.histogram`: discrete Laplace noise of scale 2/ε, and δ for the
threshold. Each ratio uses its own part of the rows, so a row is in only one of those histograms.

Algorithm 4 of Liu, Kong, Jain, Oh 2022 uses differences of disjoint pairs, bins [2^(j/4), 2^((j+1)/4)), and one bin for
0. With bins this narrow, only groups of thousands of rows agree on one. If groups are smaller (a public fact), the bins
here are wider, up to a factor of 4. Here the differences are divided by √2, so the answer estimates the covariance of
the rows (the paper's is about twice that), and the middle of the bin is returned instead of its lower end.
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
from dpeigen.stats.exact_norms import exact_bits
from dpeigen.stats.frame import RowView
from dpeigen.stats.products import exact_product

__all__ = ["EigenvalueRatios", "TopEigenvalue", "bins_per_doubling", "log_slopes", "log_spectra"]

_ZERO = -1e6  # the label of the bin of 0
_NOT_SEEN = -20.0  # log₂ of the slope of groups in which no eigenvalue exceeds those of chance
_LARGEST_EXPONENT = 900.0


@dataclass(frozen=True)
class _OfGroups(OfAllRows[Answer]):
    """A question about ``terms`` rows (or pairs) in ``groups`` groups."""

    rows: RowView
    terms: int
    groups: int
    chance: float  # probability of failure

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
        groups = max(1, len(rows) * self.groups // self.terms)  # fewer groups of the same size
        return self._shown(rows, groups, cost, relation, SeededRandomness(rng))

    @abstractmethod
    def _shown(self, rows: Floats, groups: int, cost: Cost, relation: Relation, rng: Randomness) -> Answer:
        """The release from rows in this many groups."""

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
        halves = pairs[:, :, 0] / 2 - pairs[:, :, 1] / 2  # halved first: a difference of finite numbers can overflow
        # (x − y)/√2 = √2·(x/2 − y/2), and one more doubling for its square
        logs = log_spectra(halves)[:, 0] + 1.0
        return self._bin(logs, bins_per_doubling(self.terms // 2 // self.groups), cost, relation, rng)


@dataclass(frozen=True)
class EigenvalueRatios(_OfGroups[list[float | None]]):
    """λ_{j+1}/λ_j of the second moment for j ≤ k, each from its own part of the rows.

    None if no bin stands out, or if groups are too small. The release is −log₂ of the ratio, between 2^−9 and 2^6,
    within a factor of 2 (4 for groups below 50): the rate at which power steps converge. Chance spreads the sample
    eigenvalues of small groups; `log_slopes` corrects for that.
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
    """log₂(λ_j/λ_{j+1}) of each group (j from 0), from log₂ of all its sample eigenvalues; 0 if neither stands out.

    Suppose that the eigenvalues after the j-th all are about τ. In a sample of m rows of d columns they then reach up
    to τ(1 + √(d/m))², and a larger eigenvalue ℓ appears at ℓ(1 + (d/m)·τ/(ℓ − τ)). Both are inverted. τ is the mean of
    the eigenvalues after the leading ones; chance does not change that mean.
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
    """The population eigenvalue that appears as ``seen`` in a sample where the others are about ``rest``."""
    with np.errstate(invalid="ignore", divide="ignore"):
        # ℓ² − ℓ(seen + rest(1 − γ)) + rest·seen = 0
        middle = (seen + rest * (1 - aspect)) / 2
        found = middle + np.sqrt(np.maximum(middle**2 - rest * seen, 0.0))
        return np.where(seen > rest * (1 + math.sqrt(aspect)) ** 2, found, rest)


def bins_per_doubling(size: int) -> float:
    """4, 2, 1 or ½: chosen so that the labels of groups of this size mostly fall into one or two bins.

    The top eigenvalue of a group of squares of Gaussian variables has a relative deviation of √(14/size), others less.
    A bin is at least 3.5·√(16/size) wide, in units of log₂, but never wider than two doublings.
    """
    width = 2.0 ** math.ceil(math.log2(3.5 * math.sqrt(16 / size)))
    return 1 / min(max(width, 0.25), 2.0)


def log_spectra(groups: Floats, count: int = 1) -> Floats:
    """log₂ of the largest eigenvalues of (1/size)·Σxxᵀ in each group (groups × size × d); −∞ for 0.

    The result of a group depends on its own rows alone: products are summed as integers that are exact in doubles.
    """
    _, size, d = groups.shape
    bits = exact_bits(max(size, d))
    _, exponents = np.frexp(np.abs(groups).max(axis=(1, 2)))
    exponents = np.maximum(exponents.astype(np.int64), -900)  # so that 2^(bits − exponent) is finite
    scaled = np.rint(groups * np.ldexp(1.0, bits - exponents)[:, None, None])
    across = scaled.transpose(0, 2, 1)
    products = exact_product(scaled, across) if size < d else exact_product(across, scaled)
    values = np.linalg.eigvalsh(products)[:, ::-1]
    if values.shape[1] < count:
        values = np.pad(values, ((0, 0), (0, count - values.shape[1])))
    with np.errstate(divide="ignore"):
        logs = np.log2(np.maximum(values[:, :count], 0.0)) - math.log2(size)
    # Values below the rounding error of the decomposition carry no information.
    logs[values[:, :count] <= values[:, :1] * 2.0**-40] = -math.inf
    return logs + 2.0 * (exponents - bits)[:, None]
