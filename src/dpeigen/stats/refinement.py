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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from dpeigen.stats.signs import compression, solve_levels, stretches
from dpeigen.stats.spectrum import symmetric_eigh

Floats = NDArray[np.float64]
RESOLVED = 0.05  # a direction is used to stretch rows when noise turns it by a sin² below this
LEAST_LEVEL = 1.05
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

    @classmethod
    def none(cls, d: int) -> Directions:
        return cls(np.zeros((0, d)), np.zeros(0), np.zeros(0))


def turn(known: Directions, release: SignRelease) -> Directions:
    """The directions after a release of rows stretched along them."""
    basis, factors, others = known.basis, release.factors, known.others
    if not len(basis):
        return known
    inside = basis @ release.matrix @ basis.T
    across = basis @ release.matrix - inside @ basis
    alphas = solve_levels(np.diag(inside), others)
    _, c = compression(alphas, 1.0, others)
    levels = np.maximum(alphas / factors**2, LEAST_LEVEL)
    gain = c[:-1, -1] * factors * (levels - 1)
    news = (gain / release.deviation) ** 2
    precision = known.precision + news
    moved = basis + across * (news / precision / gain)[:, None]
    moved = _orthonormal(moved)
    block = inside / c[:-1, :-1] / np.outer(factors, factors)
    block[np.diag_indices(len(block))] = levels
    values, rotation = symmetric_eigh((block + block.T) / 2)
    variances = rotation**2 @ (1 / precision)
    return Directions(rotation @ moved, np.maximum(values, LEAST_LEVEL), 1 / variances)


def _orthonormal(rows: Floats) -> Floats:
    """The nearest orthonormal rows."""
    left, _, right = np.linalg.svd(rows, full_matrices=False)
    return left @ right


def remainder(known: Directions, releases: list[SignRelease], wanted: int) -> Directions:
    """The leading ``wanted`` directions orthogonal to the known ones, from all releases together.

    Each release is divided by its mean share of a remaining direction, so that all have the same expectation, and
    weighted by the inverse of its variance. An eigenvalue 1 + x of their sum, whose noise has deviation τ, stands for
    1 + e with x = e + m·τ²/e (Baik, Ben Arous, Péché); noise turns its direction by a sin² of m·τ²/e². Where x is
    inside the noise, e is 0 and the precision 0.
    """
    d = known.basis.shape[1]
    outside = np.eye(d) - known.basis.T @ known.basis
    weights, total = 0.0, np.zeros((d, d))
    for release in releases:
        share = _rest_share(known, release, wanted)
        weight = (share / release.deviation) ** 2
        total += weight * (outside @ release.matrix @ outside) / share
        weights += weight
    total, deviation = total / weights, 1 / math.sqrt(weights)
    values, vectors = symmetric_eigh((total + total.T) / 2)
    m = known.others - wanted
    excess = values[:wanted] - 1
    edge = 4 * max(m, 1) * deviation**2
    signal = np.where(excess > math.sqrt(edge), (excess + np.sqrt(np.maximum(excess**2 - edge, 0.0))) / 2, 0.0)
    return Directions(vectors[:wanted], 1 + signal, (signal / deviation) ** 2)


def _rest_share(known: Directions, release: SignRelease, wanted: int) -> float:
    """The mean share, in the sign moment of a release, of a direction that neither is known nor will be."""
    j, d = len(known.basis), len(release.matrix)
    inside = float(np.trace(known.basis @ release.matrix @ known.basis.T)) if j else 0.0
    m = d - j - wanted
    if m <= 0:
        return max(1 - inside, 1e-3) / max(d - j, 1)
    outside = np.eye(d) - known.basis.T @ known.basis
    values = symmetric_eigh(outside @ release.matrix @ outside)[0][:wanted]
    reach = m * release.deviation**2
    share = max(1 - inside - float(values.sum()), 1e-3) / m
    for _ in range(20):  # eigenvalues are inflated by the noise, which depends on the share
        excess = np.maximum(values - share, 0.0)
        signal = np.where(excess**2 > 4 * reach, (excess + np.sqrt(np.maximum(excess**2 - 4 * reach, 0.0))) / 2, 0.0)
        share = max(1 - inside - float(signal.sum()), 1e-3) / (m + wanted)
    return share


def resolve(known: Directions, releases: list[SignRelease], wanted: int) -> Directions:
    """The known directions, and those of the ``wanted`` leading ones that have come to stand out of the noise."""
    missing = wanted - len(known.basis)
    if missing <= 0:
        return known
    found = remainder(known, releases, missing)
    with np.errstate(divide="ignore"):
        clear = known.others / found.precision < RESOLVED
    count = int(np.argmin(np.append(clear, False)))  # leading ones only: they are ordered
    if not count:
        return known
    levels = found.levels[:count]
    if not len(known.basis):  # shares of plain signs: undo their compression
        levels = solve_levels(levels / (levels.sum() + known.others - count), known.others - count)
    return Directions(
        np.vstack([known.basis, found.basis[:count]]),
        np.append(known.levels, np.maximum(levels, LEAST_LEVEL)),
        np.append(known.precision, found.precision[:count]),
    )


def rescale(known: Directions, inner: float, outer: float) -> Directions:
    """Levels with the mean that two radii tell: of the parts of rows inside and outside the directions."""
    j = len(known.basis)
    if not j or not known.others:
        return known
    inside, outside = (r**2 / chdtri(k, _QUANTILE) for r, k in ((inner, j), (outer, known.others)))
    scale = float(inside / outside) / float(known.levels.mean())
    return replace(known, levels=np.clip(known.levels * scale, LEAST_LEVEL, 1e15))


# --- the error model, for splitting the budget ---------------------------------------------------------------------


def predicted_variance(shares: Floats, noise: float, signal: float, d: int, k: int) -> float:
    """What noise does to an entry of Θ after releases with these shares, for k variances ``signal`` and others of 1.

    ``noise``: the deviation of an entry of a mean sign moment that is given the whole budget. What an earlier release
    has got wrong leaks into the other directions and makes them noisier.
    """
    precision, m = 0.0, d - k
    for share in shares:
        known = precision > 0 and m / precision < RESOLVED
        leak = min(signal * k / precision, signal * k / m) if known else 0.0
        rest = 1 + leak
        levels = np.full(k, signal)
        factors = stretches(levels / rest, m) if known else np.ones(k)
        _, c = compression(levels * factors**2, rest, m)
        gain = float(c[0, -1] * factors[0]) * (signal - 1)
        precision += share * (gain / noise) ** 2
    return 1 / precision


def best_split(noise: float, d: int, k: int, rounds: int) -> Floats:
    """Shares of ``rounds`` + 1 releases: least regret over signals from weak to very strong.

    The regret of a split at a signal is its predicted deviation relative to that of the best split there.
    """
    if rounds == 0:
        return np.ones(1)
    signals = np.array([6.0, 11.0, 31.0, 101.0, 301.0, 1001.0, 3001.0])
    candidates = [
        np.array([first, *((1 - first) * np.array(rest))])
        for first in (0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
        for rest in ([[1.0]] if rounds == 1 else [_geometric(rounds, g) for g in (1.0, 2.0, 3.0, 5.0)])
    ]
    table = np.array([[predicted_variance(c, noise, s, d, k) for s in signals] for c in candidates])
    regret = np.log(table / table.min(axis=0)).max(axis=1)
    return candidates[int(np.argmin(regret))]


def _geometric(count: int, growth: float) -> list[float]:
    weights = [growth**i for i in range(count)]
    return [w / sum(weights) for w in weights]
