"""Intervals for a matrix, its eigenvalues and its eigenvectors, measured with errors of known distribution.

Given are Y = C + E, symmetric, and draws of E. All results are functions of these, so they cost nothing.

- *Entries*: Y − quantiles of E.
- *Eigenvalues*: those of Y are spread further than those of C, and if noise is large, the largest say nothing about
  those of C. So the test is inverted: the upper limit for λⱼ is the largest value under which an eigenvalue as small as
  the measured one still has probability (1 − level)/2, and the lower limit is the smallest under which one as large
  has. The other eigenvalues are set to those whose noisy version is, on average, the measured one (`debiased`).
- *Eigenvectors*: for errors whose distribution does not depend on the basis, the eigenvectors of C are V̂Qᵀ, with V̂
  those of Y and Q those of Λ + E in the eigenbasis of C, where Λ are the `debiased` eigenvalues. Draws of E change the
  distances between eigenvalues by as much as these are uncertain. So Λ is not drawn too: that would count the
  uncertainty twice. Each draw has the sign for which its product with the estimate is positive; so has the true vector.

>>> spread = gaussian_errors(2, 200, 0.1, np.random.Generator(np.random.PCG64(0)))
>>> low, high = entry_intervals(np.eye(2), spread, 0.95)
>>> bool(low[0, 1] < 0 < high[0, 1])
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.spectrum import isotonic_decreasing, precise_eigh

__all__ = [
    "CLEAR",
    "DECOMPOSED",
    "Interval",
    "Spectrum",
    "entry_intervals",
    "gaussian_errors",
    "quantiles",
    "sampling_errors",
]

Interval = tuple[Floats, Floats]
CLEAR = 0.98  # level of the tests that distinguish a component from noise
DECOMPOSED = 160  # draws of errors, if each needs a decomposition
_ROUNDS = 12  # of the fixed-point iteration for eigenvalues
_STEPS = 5  # of the search for the limit of an interval
_MIXED = 0.05  # squared sine of the rotation of an eigenvector by errors, up to which the second order is enough
_COLUMNS, _FEWEST = 40, 48  # above this many columns, fewer draws are decomposed, but at least this many
_FIRST, _FAR = 24, 8.0  # draws that are enough to see that an eigenvalue is this many deviations above noise
_LEAST_ERROR = 1 / 16  # of the mean of squared errors of all directions: smaller ones count as this large
_LEVEL_KNOWN = 0.25  # relative spread of equal eigenvalues by errors, up to which their level is known


def gaussian_errors(d: int, draws: int, deviation: float, rng: Generator) -> Floats:
    """Symmetric Gaussian matrices with this deviation off the diagonal and √2 times it on the diagonal."""
    g = rng.normal(size=(draws, d, d)) * (deviation / math.sqrt(2))
    return g + np.swapaxes(g, 1, 2)


def sampling_errors(
    covariance: Floats, terms: float, kurtosis: float | Floats, draws: int, rng: Generator, *,
    own: float | Floats = 0.0, units: Floats | None = None,
) -> Floats:  # fmt: skip
    """Sampling errors of the covariance of ``terms`` rows of an elliptical distribution, or of nearly such rows.

    ``kurtosis``: a third of the excess kurtosis of a column, 0 for normal rows. For whitened rows, entries off the
    diagonal have variance (1 + κ)/n, those on it variance (2 + 3κ)/n and covariance κ/n. ``own``: an excess kurtosis
    that each principal component has in addition, independently of the others, with columns divided by ``units``. Both
    may be draws.
    """
    units = np.ones(len(covariance)) if units is None else units
    values, vectors = precise_eigh(covariance / np.outer(units, units))
    root = units[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    common, own = np.broadcast_to(kurtosis, draws)[:, None], np.broadcast_to(own, draws)[:, None]
    errors = gaussian_errors(len(covariance), draws, 1.0, rng) * np.sqrt((1 + common) / terms)[:, :, None]
    index = np.arange(len(covariance))
    errors[:, index, index] += rng.normal(size=(draws, 1)) * np.sqrt(common / terms)
    if own.any():
        errors[:, index, index] += rng.normal(size=(draws, len(index))) * np.sqrt(own / terms)
    return np.asarray(root @ errors @ root.T)


def entry_intervals(seen: Floats, errors: Floats, level: float) -> Interval:
    """Intervals for every entry of C."""
    low, high = quantiles(errors, level)
    return seen - high, seen - low


def quantiles(draws: Floats, level: float) -> Interval:
    """Limits between which a further draw lies with this probability, for any number of draws."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
    return low, high


def _far_quantile(draws: Floats, reach: float) -> float:
    """The point ``reach`` deviations from the middle: with few draws, quantiles so far out cannot be read off.

    The deviation is between that of all draws and that of those on this side of the median, since errors have a longer
    tail on the side of the losses by clipping.
    """
    median = float(np.median(draws))
    side = draws[draws >= median] if reach > 0 else draws[draws <= median]
    own = math.sqrt(float(np.mean((side - median) ** 2)))
    return (median + float(draws.mean())) / 2 + reach * (own + float(draws.std())) / 2


@dataclass(frozen=True)
class Spectrum:
    """The eigenvalues and eigenvectors of Y = C + E, and what they imply about those of C."""

    values: Floats  # of Y, decreasing
    vectors: Floats  # of Y, as columns
    errors: Floats  # draws of E in the eigenbasis of Y
    least: float = 0.0  # the least possible eigenvalue of C

    @classmethod
    def of(cls, seen: Floats, errors: Floats, least: float = 0.0) -> Spectrum:
        """From the matrix and draws of its error."""
        values, vectors = precise_eigh((seen + seen.T) / 2)
        values, vectors = values[::-1].copy(), vectors[:, ::-1].copy()
        return cls(values, vectors, np.asarray(vectors.T @ errors @ vectors), least)

    def noisy(self, values: Floats, draws: int | None = None) -> Floats:
        """Draws × d eigenvalues, decreasing, of a matrix with these eigenvalues plus its error.

        If columns have different units, eigenvalues have different orders of magnitude, each with an error of its own
        order. A rare draw that makes a large one negative makes it the smallest of all. So for each eigenvalue, those
        of a larger order are eliminated to second order.
        """
        larger, found = self._larger(values), np.empty((len(self.errors[:draws]), len(values)))
        for k in np.unique(larger):
            same = larger == k
            found[:, same] = self._after(k, values, draws)[:, same[k:]]
        return found

    def _after(self, k: int, values: Floats, draws: int | None) -> Floats:
        """Draws × (d − k) noisy eigenvalues, decreasing, after the first k are eliminated to second order."""
        across, rest = self.errors[:draws, k:, :k], self.errors[:draws, k:, k:] + np.diag(values[k:])
        found = np.linalg.eigvalsh(rest - (across / values[:k]) @ np.swapaxes(across, 1, 2))
        return np.asarray(found[:, ::-1])

    def _larger(self, values: Floats) -> NDArray[np.int_]:
        """For each eigenvalue, the number of those that are at least ten times as large as it and as its error."""
        sizes = np.maximum(values, np.einsum("mii->mi", self.errors).std(axis=0))
        orders = np.floor(np.log10(np.maximum(np.maximum.accumulate(sizes[::-1])[::-1], 1e-300)))
        return np.sum(np.floor(np.log10(np.maximum(values, 1e-300))) > orders[:, None] + 1, axis=1)

    @property
    def _few(self) -> int:
        """The number of draws decomposed repeatedly: eigenvalues of large matrices vary little between draws."""
        return min(len(self.errors), max(_FEWEST, len(self.errors) * _COLUMNS // max(len(self.values), 1)))

    def debiased(self) -> Floats:
        """Eigenvalues whose noisy version has, on average, the measured eigenvalues, as far as such exist."""
        values = np.maximum(self.values, self.least)
        for _ in range(_ROUNDS):
            values = values + (self.values - self.noisy(values, self._few).mean(axis=0))
            values = np.maximum(isotonic_decreasing(values), self.least)
        return values

    def traces(self) -> Floats:
        """Draws of the error of the sum of the eigenvalues."""
        return np.asarray(np.einsum("mii->m", self.errors))

    def eigenvalue_intervals(self, debiased: Floats, level: float, count: int) -> Interval:
        """Intervals for the first ``count`` eigenvalues of C."""
        reach = -float(ndtri((1 - level) / 2))
        spreads = self.noisy(debiased, self._few).std(axis=0)
        ends = [[self._end(j, debiased, side, float(spreads[j])) for side in (-reach, reach)] for j in range(count)]
        low, high = np.array(ends).reshape(-1, 2).T
        return np.maximum(low, self.least), np.maximum(high, self.least)

    def _one(self, values: Floats, j: int) -> Floats:
        """The j-th noisy eigenvalue: to second order if it is far from all others, else by decomposition."""
        gaps = values[j] - np.delete(values, j)
        across = np.delete(self.errors[:, j], j, axis=1) ** 2
        if (gaps != 0).all() and float((across @ gaps**-2).mean()) < _MIXED:
            return np.asarray(values[j] + self.errors[:, j, j] + across @ (1 / gaps))
        k = int(self._larger(values)[j])
        return self._after(k, values, self._few)[:, j - k]

    def _quantile(self, draws: Floats, reach: float) -> float:
        return _far_quantile(draws, reach)

    def _end(self, j: int, debiased: Floats, reach: float, spread: float) -> float:
        """The λⱼ for which the measured eigenvalue is ``reach`` deviations below (or above) its expectation."""

        def gap(value: float) -> float:
            moved = debiased.copy()
            moved[j] = value
            moved[:j] = np.maximum(moved[:j], value)
            moved[j + 1 :] = np.minimum(moved[j + 1 :], value)
            return self._quantile(self._one(moved, j), -reach) - float(self.values[j])

        spread = spread or 1e-300
        value = float(debiased[j])
        at = gap(value)
        # Uncertainty grows if eigenvalues are close: the step is doubled until the limit lies between two values.
        step = math.copysign(abs(reach) * spread, reach)
        other, beyond = value + step, gap(value + step)
        for _ in range(8):
            if at * beyond <= 0 or (other < self.least and step < 0):
                break
            step *= 2
            other, beyond = other + step, gap(other + step)
        for _ in range(_STEPS):
            if beyond == at or at * beyond > 0:
                break
            middle = value - at * (other - value) / (beyond - at)
            middle = min(
                max(middle, min(value, other) + 0.05 * abs(other - value)),
                max(value, other) - 0.05 * abs(other - value),
            )
            here = gap(middle)
            if here * at > 0:
                value, at = middle, here
            else:
                other, beyond = middle, here
        return value if abs(at) < abs(beyond) else other

    def resolved(self, level: float, most: int) -> int:
        """How many eigenvalues, counted from the first, exceed what equal eigenvalues would show with this probability.

        The first is compared with the largest measured one if all are equal, with the same sum; the second with that if
        all but the first are equal, and so on up to one that is not larger. If errors along its own direction are
        small, it is compared with those. These are the eigenvalues above their `floors`.
        """
        floors = self.floors(level, most)
        return int(np.sum(self.values[: len(floors)] > floors))

    def floors(self, level: float, most: int) -> Floats:
        """The value that each of the first ``most`` eigenvalues must exceed, after those before it that exceed theirs.

        From the first one that does not, all are compared with the same number, so that none of them exceeds it. The
        last of all has no floor (−∞): its direction follows from the others.
        """
        d = len(self.values)
        found = np.full(min(most, d), -math.inf)
        for j in range(min(most, d - 1)):
            found[j:] = self._floor(j, level)
            if self.values[j] <= found[j]:
                return found
        found[d - 1 :] = -math.inf
        return found

    def _floor(self, j: int, level: float) -> float:
        """The quantile of the largest of equal eigenvalues after the first j; from few draws if that is enough."""
        some = self._equal(j, _FIRST)
        far = self.values[j] > some.max() + _FAR * float(some.std())
        drawn = some if far or len(self.errors) <= _FIRST else self._equal(j)
        common = float(np.quantile(drawn, level, method="weibull"))
        return common if far else min(common, self._own_floor(j, level))

    def _own_floor(self, j: int, level: float) -> float:
        """The same for direction j alone: a variance that is known well is not hidden by one that is hardly known.

        For any matrix A, the excess of the j-th eigenvalue over equal ones, divided by the squared norm of A⁻¹ along
        its direction, is at most the largest eigenvalue of AEA. Here A makes the errors of all directions alike. The
        level of equal eigenvalues is also taken from the directions that are known well.
        """
        errors = self.errors[:, j:, j:]
        squares, vectors = np.linalg.eigh((errors @ errors).mean(axis=0))
        squares = np.maximum(squares, _LEAST_ERROR * squares.mean())
        if not squares[0] > 0:
            return math.inf
        alike = (vectors / np.sqrt(squares)) @ vectors.T
        largest = np.linalg.eigvalsh(alike @ errors @ alike)[:, -1]
        weights, values = np.diag(alike @ alike), self.values[j:]
        level_of_all = max(float(values.mean()), float(np.average(values, weights=weights)), self.least)
        along = float(squares @ vectors[0] ** 2)
        return level_of_all + along * float(np.quantile(largest, level, method="weibull"))

    def _equal(self, j: int, draws: int | None = None) -> Floats:
        """Draws of the largest eigenvalue after the first j, if all these are equal."""
        left, d = max(float(self.values[j:].mean()), self.least), len(self.values)
        return np.asarray(np.linalg.eigvalsh(self.errors[:draws, j:, j:] + left * np.eye(d - j))[:, -1])

    def level_is_known(self, j: int, level: float) -> bool:
        """Whether the mean of the eigenvalues after the first j is large compared with the spread that errors cause.

        If these still do not exceed each other, they are equal as far as is known: then directions are undetermined,
        and not variances hidden.
        """
        left = float(self.values[j:].mean())
        return left > 0 and float(np.quantile(self._equal(j), level)) - left < _LEVEL_KNOWN * left

    def directions(self, debiased: Floats, count: int) -> Floats:
        """Draws × count × d of the leading eigenvectors of C, as rows, with the signs of those of Y."""
        turned = np.linalg.eigh(self.errors + np.diag(debiased))[1][:, :, ::-1]  # Q: noisy ones in the basis of C
        turned = turned * np.where(np.einsum("mjj->mj", turned) < 0, -1.0, 1.0)[:, None, :]
        return np.asarray(turned[:, :count, :] @ self.vectors.T)  # row j of Q Vᵀ: eigenvector j of C
