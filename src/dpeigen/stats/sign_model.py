"""The model of a covariance that signs show, and its start from the first release (`stats.refinement` fits it).

A few directions exceed the noise; all others (the rest) have variance 1:    Σ = I + Σⱼ (λⱼ − 1)uⱼuⱼᵀ.

Noise has two effects on eigenvalues that are corrected here. The largest of a noisy matrix are inflated: with m other
directions and noise of variance s² on an entry, an excess e is measured as x = e + m·s²/e (Baik, Ben Arous, Péché). And
equal ones are spread: the variance of k of them is about k·s².
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.signs import compression, solve_levels
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = [
    "CLEAR",
    "LEAST_VARIANCE",
    "MOST_VARIANCE",
    "SignModel",
    "SignRelease",
    "first_model",
    "how_many",
    "share_of_rest",
    "variances_from",
]

LEAST_VARIANCE, MOST_VARIANCE = 1.001, 1e12
_EXTRA = 8  # directions beyond the wanted ones that may be modelled
CLEAR = 1.1  # times the edge of the noise: an eigenvalue above it is distinguished from noise


@dataclass(frozen=True)
class SignRelease:
    """One release S: a noisy mean of zzᵀ of rows stretched by ``factors`` t along the rows of ``basis`` b."""

    matrix: Floats
    deviation: float  # τ
    basis: Floats
    factors: Floats


@dataclass(frozen=True)
class SignModel:
    """Σ: modelled directions, their variances (those of the rest are 1), and the precision of its entries."""

    directions: Floats  # j × d, orthonormal rows, the wanted ones first
    variances: Floats  # λ
    wanted: int
    precision: Floats  # (j + 1)²: one over the variance of an entry of Σ in these axes; the last index: each other one

    @property
    def others(self) -> int:
        """The number of directions in the rest."""
        return self.directions.shape[1] - len(self.directions)

    @property
    def excess(self) -> Floats:
        """λ − 1 corrected for inflation, and for the spread of the wanted ones."""
        found = _deflated(self.variances - 1, self.others / self.precision[:-1, -1])
        k = self.wanted
        found[:k] = _drawn_together(found[:k], float(np.median(1 / self.precision[:k, :k])) if k else 0.0)
        return found

    def completed(self, wanted: int) -> Floats:
        """The wanted directions; if these are more than were modelled, completed by an orthonormal basis."""
        j = len(self.directions)
        if wanted <= j:
            return self.directions[:wanted]
        return np.vstack([self.directions, np.linalg.svd(self.directions)[2][j:][: wanted - j]])


def first_model(release: SignRelease, wanted: int) -> SignModel:
    """From signs of unstretched rows: their axes are those of Σ, and variances follow from deflated shares."""
    d, noise = len(release.matrix), release.deviation
    values, vectors = symmetric_eigh(release.matrix)
    seen = np.append(_drawn_together(values[:wanted], noise**2), values[wanted:])
    count, rest = wanted, max(float(values[wanted:].mean()), 0.0)
    for _ in range(20):  # the inflation of eigenvalues depends on the share of the rest, and that share on them
        m = d - count
        signal = _deflated(seen[:count] - rest, m * noise**2)
        rest = max(1 - float(signal.sum()), math.sqrt(2 * min(count, m)) * noise, 1e-9) / d
        count = how_many(values > rest + 2 * CLEAR * math.sqrt(m) * noise, wanted, d)
    signal = _deflated(seen[:count] - rest, (d - count) * noise**2)
    variances = variances_from(rest + signal, float(values.sum()), d - count, noise)
    _, c = compression(variances, 1.0, d - count)
    return SignModel(vectors[:count], variances, wanted, (c / noise) ** 2)


def variances_from(shares: Floats, trace: float, others: int, deviation: float) -> Floats:
    """λ from noisy shares. The share of the rest may be hidden by noise, so it is set to at least the noise."""
    rest, variance = share_of_rest(float(shares.sum()), trace, len(shares), others)
    rest = max(rest, math.sqrt(variance) * deviation)
    if not len(shares):
        return shares
    shares = np.maximum(shares, 1e-9)
    found = solve_levels(shares * (max(1 - rest, 0.01) / float(shares.sum())), others)
    return np.clip(found, LEAST_VARIANCE, MOST_VARIANCE)


def share_of_rest(inside: float, trace: float, j: int, m: int) -> tuple[float, float]:
    """(the share of m directions besides j others, the variance of its noise in units of τ²).

    It is measured twice: as trace − inside, with noise on m entries, and, because shares sum to 1, as 1 − inside, with
    noise on j. Both are weighted by their precision.
    """
    return ((1 - inside) * m + (trace - inside) * j) / (j + m), 2 * j * m / (j + m)


def _deflated(seen: Floats, reach: Floats | float) -> Floats:
    """e from x = e + reach/e; or x/2, which is no more than noise, if x is within the noise."""
    seen = np.maximum(seen, 0.0)
    return (seen + np.sqrt(np.maximum(seen**2 - 4 * reach, 0.0))) / 2


def _drawn_together(values: Floats, variance: float) -> Floats:
    """k eigenvalues of a noisy block without the spread by noise, which is k times the variance of an entry."""
    spread = float(values.var()) if len(values) else 0.0
    kept = math.sqrt(max(1 - len(values) * variance / spread, 0.0)) if spread else 0.0
    return values.mean() + kept * (values - values.mean()) if len(values) else values


def how_many(stands_out: NDArray[np.bool_], wanted: int, d: int) -> int:
    """The number of directions to model: leading ones that exceed the noise, with some left to compare with."""
    leading = int(np.argmin(np.append(stands_out, False)))
    return min(max(leading, wanted), wanted + _EXTRA, d - 1)
