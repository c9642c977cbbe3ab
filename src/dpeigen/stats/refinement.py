"""Directions from several noisy sign moments, each of rows stretched by what the ones before had shown.

Everything here is post-processing: its inputs are releases and public numbers. In the units used, the variance of the
directions that do not stand out is 1. For a basis U of j directions with variances λ, to first order, the rows of

    Θ = (U S U^⊥ᵀ) / gain,     gainᵢ = cᵢ·tᵢ·(λᵢ − 1)

say by how much each direction has to turn, when S is the sign moment of rows stretched by t along U (`stats.signs`).
Noise of deviation τ on S gives Θ the deviation τ/gain. A basis that earlier releases determined with precision π (one
over the variance of an entry of Θ) is turned by Θ·(gain/τ)²/(π + (gain/τ)²): both are used, weighted by what they know.
(Sampling errors are common to all releases and do not change the weights.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from dpeigen.stats.signs import compression, solve_levels, stretches
from dpeigen.stats.spectrum import symmetric_eigh

Floats = NDArray[np.float64]
RESOLVED = 0.05  # a direction is used to stretch rows when noise turns it by a sin² below this
LEAST_LEVEL = 1.05
_GAIN = 0.85
_QUANTILE = 0.05  # of rows beyond a paid radius


@dataclass(frozen=True)
class SignRelease:
    """A noisy mean of zzᵀ, z the signs of rows stretched by ``factors`` along the rows of ``basis``."""

    matrix: Floats
    deviation: float
    basis: Floats
    factors: Floats


@dataclass(frozen=True)
class Directions:
    """Directions that stand out, their variances relative to the rest, and how precisely they are known."""

    basis: Floats  # j × d
    levels: Floats
    precision: Floats

    @property
    def others(self) -> int:
        return self.basis.shape[1] - len(self.basis)

    @property
    def factors(self) -> Floats:
        """What to stretch by in the next release."""
        return stretches(self.levels, self.others)

    def leading(self, count: int) -> Directions:
        return Directions(self.basis[:count], self.levels[:count], self.precision[:count])

    @classmethod
    def none(cls, d: int) -> Directions:
        return cls(np.zeros((0, d)), np.zeros(0), np.zeros(0))


def update(known: Directions, releases: list[SignRelease], wanted: int) -> tuple[Directions, Floats]:
    """Directions that stand out after the last release, of rows stretched along the known ones; and all ``wanted``.

    Put together is the whole matrix, in units of the rest: the block of the known directions from the last release,
    the turn Θ of both sources, and what is outside from all releases. Its leading eigenvectors are the new directions.
    A new one, with eigenvalue 1 + x outside noise of deviation τ, stands for 1 + e with x = e + m·τ²/e (Baik, Ben
    Arous, Péché), and noise turns it by a sin² of m·τ²/e²; inside the noise its precision is 0.
    """
    j, d = len(known.basis), known.basis.shape[1]
    missing = wanted - j
    matrix, deviation = _outside(known, releases, missing)
    precision = known.precision
    if j:
        block, across, precision = _inside(known, releases[-1])
        sides = known.basis.T @ across
        matrix = matrix + known.basis.T @ block @ known.basis + sides + sides.T
    values, vectors = symmetric_eigh((matrix + matrix.T) / 2)
    values, vectors = values[:wanted], vectors[:wanted]
    signal = _above_noise(values - 1, max(d - wanted, 1) * deviation**2)
    overlaps = (vectors @ known.basis.T) ** 2
    old = overlaps.sum(axis=1) > 0.5
    with np.errstate(divide="ignore"):
        variances = np.where(old, overlaps @ (1 / precision), (deviation / signal) ** 2)
    clear = old | (variances * known.others < RESOLVED)
    count = min(int(np.argmin(np.append(clear, False))), d - 1)  # leading ones; something must be left to compare with
    if j and not count:  # noise has broken the order: rows were stretched along these, so they stay
        return replace(known, precision=precision), vectors
    levels = np.where(old, values, 1 + signal)[:count]
    if not j and count:  # shares of plain signs: undo their compression
        levels = solve_levels(levels / (levels.sum() + d - count), d - count)
    return Directions(vectors[:count], np.maximum(levels, LEAST_LEVEL), 1 / variances[:count]), vectors


def _inside(known: Directions, release: SignRelease) -> tuple[Floats, Floats, Floats]:
    """The block of the known directions, what turns them (times their excess variance), and their precision now."""
    basis, factors = known.basis, release.factors
    inside = basis @ release.matrix @ basis.T
    across = basis @ release.matrix - inside @ basis
    alphas = solve_levels(np.diag(inside), known.others)
    _, c = compression(alphas, 1.0, known.others)
    levels = np.maximum(alphas / factors**2, LEAST_LEVEL)
    gain = c[:-1, -1] * factors * (levels - 1)
    news = (gain / release.deviation) ** 2
    precision = known.precision + news
    block = inside / c[:-1, :-1] / np.outer(factors, factors)
    block[np.diag_indices(len(block))] = levels
    return block, across * (news / precision / gain * (levels - 1))[:, None], precision


def _outside(known: Directions, releases: list[SignRelease], wanted: int) -> tuple[Floats, float]:
    """The matrix outside the known directions, 1 where nothing stands out, from all releases; and its deviation.

    Each is divided by its mean share of such a direction, and weighted by the inverse of its variance.
    """
    d = known.basis.shape[1]
    outside = np.eye(d) - known.basis.T @ known.basis
    weights, total = 0.0, np.zeros((d, d))
    for release in releases:
        share = _rest_share(known, release, wanted)
        weight = (share / release.deviation) ** 2
        total += weight * (outside @ release.matrix @ outside) / share
        weights += weight
    return total / weights, 1 / math.sqrt(weights)


def _above_noise(excess: Floats, reach: float) -> Floats:
    """e of x = e + reach/e, or 0 where x is inside the noise."""
    inside = np.maximum(excess, 0.0) ** 2 - 4 * reach
    return np.where(inside > 0, (excess + np.sqrt(np.maximum(inside, 0.0))) / 2, 0.0)


def _rest_share(known: Directions, release: SignRelease, wanted: int) -> float:
    """The mean share, in the sign moment of a release, of a direction that neither is known nor will be."""
    j, d = len(known.basis), len(release.matrix)
    inside = float(np.trace(known.basis @ release.matrix @ known.basis.T)) if j else 0.0
    m = d - j - wanted
    if m <= 0:
        return max(1 - inside, 1e-3) / max(d - j, 1)
    outside = np.eye(d) - known.basis.T @ known.basis
    values = symmetric_eigh(outside @ release.matrix @ outside)[0][:wanted]
    share = max(1 - inside - float(values.sum()), 1e-3) / m
    for _ in range(20):  # eigenvalues are inflated by the noise, which depends on the share
        signal = _above_noise(values - share, m * release.deviation**2)
        share = max(1 - inside - float(signal.sum()), 1e-3) / (m + wanted)
    return share


def rescale(known: Directions, inner: float, outer: float) -> Directions:
    """Levels with the mean that two radii tell: of the parts of rows inside and outside the directions."""
    j = len(known.basis)
    if not j or not known.others:
        return known
    inside, outside = (r**2 / chdtri(k, _QUANTILE) for r, k in ((inner, j), (outer, known.others)))
    scale = float(inside / outside) / float(known.levels.mean())
    return replace(known, levels=np.clip(known.levels * scale, LEAST_LEVEL, 1e15))


# --- the error model: whether to stretch, and how to split the budget ----------------------------------------------


def worth_stretching(known: Directions, deviation: float) -> Directions:
    """The leading directions along which the next release, with noise of this deviation, is best stretched; or none.

    What is compared is the predicted mean square turn of all known directions after that release. Stretching has to
    promise 15% less than not stretching, because the prediction is for two flat levels and small turns.
    """
    d, j = known.basis.shape[1], len(known.basis)

    def predicted(count: int) -> float:
        leak = float((known.levels[:count] / known.precision[:count]).sum())
        factors = np.append(stretches(known.levels[:count] / (1 + leak), d - count), np.ones(j - count))
        _, c = compression(known.levels * factors**2, 1 + leak, d - j)
        gain = c[:-1, -1] * factors * (known.levels - 1)
        return float((1 / (known.precision + (gain / deviation) ** 2)).sum())

    errors = [predicted(count) for count in range(j + 1)]
    best = int(np.argmin(errors))
    return known.leading(best if errors[best] < _GAIN * errors[0] else 0)


def predicted_variance(shares: Sequence[float], noise: float, signal: float, d: int, k: int) -> float:
    """What noise does to an entry of Θ after releases with these shares, for k variances ``signal`` and others of 1.

    ``noise``: the deviation of an entry of a mean sign moment that is given the whole budget. What an earlier release
    has got wrong leaks into the other directions and makes them noisier.
    """
    precision, m = 0.0, d - k
    for share in shares:
        known = precision > 0 and m / precision < RESOLVED
        leak = min(signal * k / precision, signal * k / m) if known else 0.0
        rest = 1 + leak
        factor = float(stretches(np.full(k, signal / rest), m)[0]) if known else 1.0
        _, c = compression(np.array([signal * factor**2]), rest, m, repeats=k)
        gain = float(c[0, -1]) * factor * (signal - 1)
        precision += share * (gain / noise) ** 2
    return 1 / precision


def best_split(noise: float, d: int, k: int, rounds: int) -> tuple[float, ...]:
    """Shares of ``rounds`` + 1 releases: least regret over signals from weak to very strong.

    The regret of a split at a signal is its predicted deviation relative to that of the best split there. The first
    share is never small: real spectra are not two flat levels, and everything later rests on the first directions.
    """
    return _best_split(round(20 * math.log(noise)), d, k, rounds)


@lru_cache(maxsize=256)
def _best_split(log_noise: int, d: int, k: int, rounds: int) -> tuple[float, ...]:
    if rounds == 0:
        return (1.0,)
    signals = (6.0, 11.0, 31.0, 101.0, 301.0, 1001.0, 3001.0)
    candidates = [
        (first, *((1 - first) * part for part in rest))
        for first in (0.15, 0.2, 0.3, 0.4, 0.5)
        for rest in ([[1.0]] if rounds == 1 else [_geometric(rounds, g) for g in (1.0, 2.0, 3.0, 5.0)])
    ]
    noise = math.exp(log_noise / 20)
    table = np.array([[predicted_variance(c, noise, s, d, k) for s in signals] for c in candidates])
    regret = np.log(table / table.min(axis=0)).max(axis=1)
    return candidates[int(np.argmin(regret))]


def _geometric(count: int, growth: float) -> list[float]:
    weights = [growth**i for i in range(count)]
    return [w / sum(weights) for w in weights]
