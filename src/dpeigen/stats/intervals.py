"""Intervals for a matrix, its eigenvalues and its eigenvectors, seen through errors whose law is known.

Given are Y = C + E, symmetric, and draws of E. Whatever is computed is a function of these: it costs nothing.

- *Entries*: Y − quantiles of E.
- *Eigenvalues*: those of Y spread further than those of C, and where the noise is wide, the largest say nothing of C's.
  So they are inverted: the upper end for λⱼ is the largest value under which an eigenvalue as small as the one seen
  still has probability (1 − level)/2, and the lower end the smallest under which one as large has. The other
  eigenvalues are set to those whose noisy version is, on average, the one that was seen (`debiased`).
- *Eigenvectors*: for errors whose law does not depend on the basis, the eigenvectors of C are V̂Qᵀ, with V̂ those of Y
  and Q those of Λ + E in the eigenbasis of C, where Λ are the `debiased` eigenvalues. Draws of E change the distances
  between eigenvalues by as much as these are uncertain. So Λ is not drawn too: that would count the uncertainty twice.
  A draw has the sign that makes its product with the estimate positive; so does the truth it stands for.

>>> spread = gaussian_errors(2, 200, 0.1, np.random.Generator(np.random.PCG64(0)))
>>> low, high = entry_intervals(np.eye(2), spread, 0.95)
>>> bool(low[0, 1] < 0 < high[0, 1])
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.spectrum import isotonic_decreasing

__all__ = ["Interval", "Spectrum", "entry_intervals", "gaussian_errors", "quantiles", "sampling_errors"]

Interval = tuple[Floats, Floats]
_ROUNDS = 12  # of the fixed point for eigenvalues
_STEPS = 5  # of the search for the end of an interval
_MIXED = 0.05  # squared sine of the angle that errors turn an eigenvector by, up to which the second order is enough
_COLUMNS, _FEWEST = 40, 48  # from so many columns on, fewer draws are decomposed, and so many at least
_FIRST, _FAR = 24, 8.0  # draws that are enough to see that an eigenvalue lies so many deviations above noise
_LEVEL_KNOWN = 0.25  # of equal eigenvalues: what errors make of them, up to which their level is known


def gaussian_errors(d: int, draws: int, deviation: float, rng: Generator) -> Floats:
    """Symmetric Gaussian matrices with this deviation off the diagonal and √2 times it on it."""
    g = rng.normal(size=(draws, d, d)) * (deviation / math.sqrt(2))
    return g + np.swapaxes(g, 1, 2)


def sampling_errors(
    covariance: Floats, terms: float, kurtosis: float | Floats, draws: int, rng: Generator, *,
    own: float | Floats = 0.0, units: Floats | None = None,
) -> Floats:  # fmt: skip
    """Errors of the covariance of so many rows of an elliptical law, or of one that is not quite.

    ``kurtosis`` is a third of the excess kurtosis of a column, 0 for normal rows: entries off the diagonal of whitened
    rows have variance (1 + κ)/n, those on it (2 + 3κ)/n and covariance κ/n. ``own`` is an excess kurtosis that each
    principal component has beside, independently of the others, with columns divided by ``units``. Both may be draws.
    """
    units = np.ones(len(covariance)) if units is None else units
    values, vectors = np.linalg.eigh(covariance / np.outer(units, units))
    root = units[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    common, own = np.broadcast_to(kurtosis, draws)[:, None], np.broadcast_to(own, draws)[:, None]
    errors = gaussian_errors(len(covariance), draws, 1.0, rng) * np.sqrt((1 + common) / terms)[:, :, None]
    index = np.arange(len(covariance))
    errors[:, index, index] += rng.normal(size=(draws, 1)) * np.sqrt(common / terms)
    if own.any():
        errors[:, index, index] += rng.normal(size=(draws, len(index))) * np.sqrt(own / terms)
    return np.asarray(root @ errors @ root.T)


def entry_intervals(seen: Floats, errors: Floats, level: float) -> Interval:
    """For every entry of C."""
    low, high = quantiles(errors, level)
    return seen - high, seen - low


def quantiles(draws: Floats, level: float) -> Interval:
    """Between which a further draw lies with this probability, whatever the number of draws is."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
    return low, high


def _far_quantile(draws: Floats, reach: float) -> float:
    """So many deviations from the middle: few draws show no further quantile.

    The deviation is between that of all draws and that of those on this side of the median, since errors have a longer
    tail on the side of what clipping took.
    """
    median = float(np.median(draws))
    side = draws[draws >= median] if reach > 0 else draws[draws <= median]
    own = math.sqrt(float(np.mean((side - median) ** 2)))
    return (median + float(draws.mean())) / 2 + reach * (own + float(draws.std())) / 2


@dataclass(frozen=True)
class Spectrum:
    """The eigenvalues and eigenvectors of Y = C + E, and what can be said of those of C."""

    values: Floats  # of Y, decreasing
    vectors: Floats  # of Y, as columns
    errors: Floats  # draws of E in the eigenbasis of Y
    least: float = 0.0  # that an eigenvalue of C can be

    @classmethod
    def of(cls, seen: Floats, errors: Floats, least: float = 0.0) -> Spectrum:
        """From the matrix and draws of its error."""
        values, vectors = np.linalg.eigh((seen + seen.T) / 2)
        values, vectors = values[::-1].copy(), vectors[:, ::-1].copy()
        return cls(values, vectors, np.asarray(vectors.T @ errors @ vectors), least)

    def noisy(self, values: Floats, draws: int | None = None) -> Floats:
        """Draws × d eigenvalues, decreasing, of a matrix with these eigenvalues and its error."""
        found = np.linalg.eigvalsh(self.errors[:draws] + np.diag(values))
        return np.asarray(found[:, ::-1])

    @property
    def _few(self) -> int:
        """Draws that are decomposed many times: eigenvalues of large matrices vary little from one to another."""
        return min(len(self.errors), max(_FEWEST, len(self.errors) * _COLUMNS // max(len(self.values), 1)))

    def debiased(self) -> Floats:
        """Eigenvalues whose noisy version has, on average, the eigenvalues seen, as far as there are such."""
        values = np.maximum(self.values, self.least)
        for _ in range(_ROUNDS):
            values = values + (self.values - self.noisy(values, self._few).mean(axis=0))
            values = np.maximum(isotonic_decreasing(values), self.least)
        return values

    def eigenvalue_intervals(self, debiased: Floats, level: float, count: int) -> Interval:
        """For the first ``count`` eigenvalues of C."""
        reach = -float(ndtri((1 - level) / 2))
        spreads = self.noisy(debiased, self._few).std(axis=0)
        ends = [[self._end(j, debiased, side, float(spreads[j])) for side in (-reach, reach)] for j in range(count)]
        low, high = np.array(ends).reshape(-1, 2).T
        return np.maximum(low, self.least), np.maximum(high, self.least)

    def _one(self, values: Floats, j: int) -> Floats:
        """The j-th noisy eigenvalue: to second order where it is far from all others, else by decomposition."""
        gaps = values[j] - np.delete(values, j)
        across = np.delete(self.errors[:, j], j, axis=1) ** 2
        if (gaps != 0).all() and float((across @ gaps**-2).mean()) < _MIXED:
            return np.asarray(values[j] + self.errors[:, j, j] + across @ (1 / gaps))
        return self.noisy(values, self._few)[:, j]

    def _end(self, j: int, debiased: Floats, reach: float, spread: float) -> float:
        """The λⱼ under which the eigenvalue seen lies ``reach`` deviations below (or above) what is expected."""

        def gap(value: float) -> float:
            moved = debiased.copy()
            moved[j] = value
            moved[:j] = np.maximum(moved[:j], value)
            moved[j + 1 :] = np.minimum(moved[j + 1 :], value)
            return _far_quantile(self._one(moved, j), -reach) - float(self.values[j])

        spread = spread or 1e-300
        value = float(debiased[j])
        at = gap(value)
        # Uncertainty grows where eigenvalues are close: the step is doubled until the end lies between two values.
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
        """How many eigenvalues, from the first on, stand out of what equal ones would show with this probability.

        The first is compared with the largest that is seen where all are equal, with the same sum; then the second,
        where all but the first are, and so on up to one that does not stand out.
        """
        d = len(self.values)
        for j in range(min(most, d - 1)):
            some = self._equal(j, _FIRST)
            if len(self.errors) > _FIRST and self.values[j] > some.max() + _FAR * float(some.std()):
                continue
            if self.values[j] <= np.quantile(self._equal(j), level, method="weibull"):
                return j
        return min(most, d)  # the last is known by the others

    def _equal(self, j: int, draws: int | None = None) -> Floats:
        """Draws of the largest eigenvalue after the first j, where all these are equal."""
        left, d = max(float(self.values[j:].mean()), self.least), len(self.values)
        return np.asarray(np.linalg.eigvalsh(self.errors[:draws, j:, j:] + left * np.eye(d - j))[:, -1])

    def level_is_known(self, j: int, level: float) -> bool:
        """Whether the mean of the eigenvalues after the first j is large beside what errors make of equal ones.

        Where they do not stand out of each other all the same, they are equal as far as is known: it is directions that
        are not determined then, and not variances that are hidden.
        """
        left = float(self.values[j:].mean())
        return left > 0 and float(np.quantile(self._equal(j), level)) - left < _LEVEL_KNOWN * left

    def directions(self, debiased: Floats, count: int) -> Floats:
        """Draws × count × d of the leading eigenvectors of C, as rows, with the signs of those of Y."""
        turned = np.linalg.eigh(self.errors + np.diag(debiased))[1][:, :, ::-1]  # Q: noisy ones in the basis of C
        turned = turned * np.where(np.einsum("mjj->mj", turned) < 0, -1.0, 1.0)[:, None, :]
        return np.asarray(turned[:, :count, :] @ self.vectors.T)  # row j of Q Vᵀ: eigenvector j of C
