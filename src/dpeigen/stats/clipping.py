"""Estimate what clipping rows to a radius took away from their second moment.

Given are the moment of the clipped rows, the radius, and the approximate number of longer rows. Candidates are
elliptical rows, normal or with the tails of Student's t. Each candidate is weighted by how well it explains that
number. It determines the moment before clipping, and how much the squares of clipped rows vary. This is a model, not a
proof: a moment does not show what was clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import chdtrc, chdtri

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator, made_up_generator
from dpeigen.stats.elliptical import normal_squares

__all__ = [
    "MAY_BE_LONG",
    "NORMAL_TAILS",
    "USUAL_LAWS",
    "Clipping",
    "clipping",
    "far_likelihoods",
    "length_ratio",
    "share_beyond",
    "unclipped",
    "whole_rows",
]

_USUAL = 0.3  # excess kurtosis of components if norms vary as for normal rows: skewed and bounded ones have others
_OF_SIGNS = 0.6  # the same if rows are only known by their signs
_APART = 0.5  # probability that components are long in different rows rather than in the same rows
_LIGHT = 0.0  # stands for rows whose squared norms vary less than those of normal rows, as with bounded columns
_SPREAD = 0.6  # their deviation relative to that of normal rows
_FREEDOMS = (_LIGHT, np.inf, 30.0, 15.0, 10.0, 7.0, 5.5, 4.5, 3.5, 3.0, 2.6)
# Without the last two laws, rows of Student's t with 3 degrees of freedom had 0.25 to 0.58 of their eigenvalues in the
# intervals; other rows have nearly the same intervals with them (`benchmarks/FURTHER.md`).
USUAL_LAWS = 9  # how many of them, from the first, the scores of sign methods are corrected with
NORMAL_TAILS = (np.array(_FREEDOMS[:USUAL_LAWS]) == np.inf).astype(np.float64)  # 1 for normal tails, 0 for others
_PRIOR = 0.25  # each step away from normal tails divides the prior probability by e to this power
_BEFOREHAND = np.exp(-_PRIOR * np.abs(np.arange(len(_FREEDOMS)) - 1))
_LONG, MAY_BE_LONG = 3, 0.2  # index of the first law with clearly long tails, and the prior probability of such laws
_FREEDOM = 4  # degrees of freedom of the squared norms of rows that are long in a few directions
_ROUNDS = 60
_STEPS = 2.0 ** (-np.arange(7) / 2)  # squares of the radii of the grid, from the released one downwards
_MOST_GAIN = 10.0  # of a variance: rows with decreasing weights could have any
_DOUBT_OF_FAR, _LEAST_DOUBT_OF_FAR = 0.15, 0.005  # of the weight of far rows, which need not be elliptical
_FULL = 0.95  # of the squared radius: with a larger mean square, rows could have any norm
_LEVELS = (np.arange(64) + 0.5) / 64
_LAPLACE = -np.sign(_LEVELS - 0.5) * np.log(1 - 2 * np.abs(_LEVELS - 0.5))  # quantiles


@dataclass(frozen=True)
class Clipping:
    """Factors that correct the variances along the eigenvectors of a clipped moment (``gains``), and their uncertainty.

    ``kurtosis``: a third of the excess kurtosis of the clipped rows. ``sizes``: draws of the gains, as far as they are
    known, relative to ``gains``: draws × d. ``shortened``: by how much rows are shortened on average, in radii.
    ``heavy``: the probability, given the paid radius, that tails are longer than normal. ``outside``: the share of rows
    beyond the measured radius. ``reached``: that radius, relative to the radius of clipping.

    If squared norms vary more than those of normal rows, there are two explanations that a radius cannot distinguish:
    all components are long in the same rows, or each is long in different rows. ``common`` holds draws of a third of
    the excess kurtosis in the first case, ``own`` draws of the excess kurtosis in the second.
    """

    gains: Floats
    kurtosis: float
    sizes: Floats
    common: Floats
    own: Floats
    shortened: float = 0.0
    heavy: float = 0.0
    outside: float = 0.0
    reached: float = 1.0

    @property
    def on_purpose(self) -> bool:
        """Whether rows were clipped to less than the measured radius."""
        return self.reached > 1 + 1e-9


def whole_rows(d: int, draws: int) -> Clipping:
    """For rows that were not clipped: squares of signs of d columns vary by 2/d more than those of normal rows."""
    return Clipping(np.ones(d), 2.0 / d, np.ones((draws, d)), np.full(draws, 2.0 / d), np.full(draws, _OF_SIGNS))


def clipping(
    values: Floats,
    radius: float,
    outside: tuple[float, float] | None,
    draws: int,
    rng: Generator,
    asked: float | None = None,
    count: int = len(_FREEDOMS),
    *,
    power: int = 1,
    evidence: Floats | None = None,
) -> Clipping:
    """Estimate the effect of clipping, given the eigenvalues of the second moment of rows clipped to a radius.

    ``outside``: the share of rows that may exceed the ``asked`` radius (if that is None, the radius itself), and the
    scale of the noise on counts and threshold, relative to the rows. The asked radius is the first on a grid that
    passed with that noise, so every law has a likelihood. None: the radius is public, and rows are assumed to be
    normal. ``count``: the number of laws that are compared.

    ``power``: squared lengths beyond the radius are divided by its multiple to this power; 1: clipped to the radius.
    ``evidence``: likelihoods of the laws, in place of those by ``outside``.
    """
    clipped = _in_radii(values, radius)
    reached = 1.0 if asked is None else asked / radius
    squares = _STEPS * reached**2
    if outside is None:
        normal = _under(clipped, np.inf, squares)
        common, own = np.full(draws, normal.kurtosis), np.full(draws, _USUAL)
        return Clipping(normal.gains, normal.kurtosis, np.ones((draws, len(values))), common, own, normal.shortened)
    laws = [_under(clipped, freedom, squares, power) for freedom in _FREEDOMS[:count]]
    likelihoods = np.array([_likelihood(law.shares, *outside) for law in laws]) if evidence is None else evidence
    weights = likelihoods * _BEFOREHAND[:count]
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(laws), 1.0 / len(laws))
    # Nothing distinguishes laws between two neighbours, so each draw is anywhere between two of them.
    drawn = np.searchsorted(np.cumsum(weights), rng.random(draws)) + rng.uniform(-0.5, 0.5, size=draws)
    heaviness, steps = np.clip(drawn, 0, len(laws) - 1), np.arange(len(laws))
    drawn_gains = np.array([np.interp(heaviness, steps, [law.gains[j] for law in laws]) for j in range(len(values))]).T
    gains = drawn_gains.mean(axis=0)
    kurtosis = np.interp(heaviness, steps, [law.kurtosis for law in laws])
    shortened = np.interp(heaviness, steps, [law.shortened for law in laws])
    return Clipping(
        gains, float(kurtosis.mean()), drawn_gains / gains, *_told_apart(kurtosis, heaviness, clipped, rng),
        float(shortened.mean()), _heavy(weights / _BEFOREHAND[:count]), outside[0], reached,
    )  # fmt: skip


def far_likelihoods(values: Floats, cutoff: float, far: float, deviation: float, terms: float) -> Floats:
    """Likelihoods of the laws of sign methods, from the weight of rows beyond a multiple of their median length.

    ``values``: eigenvalues of the rows, up to a factor. A row at s cutoffs, s > 1, has the weight 1 − s⁻⁸ (that of
    `stats.generalised.SplitSigns`). ``far``: the mean weight, measured with noise of this ``deviation``.
    """
    squares, found = normal_squares(len(values)), np.zeros(USUAL_LAWS)
    for place, freedom in enumerate(_FREEDOMS[:USUAL_LAWS]):
        lengths = squares @ values
        lengths = _tails(freedom, lengths, float(values.sum())) * lengths
        beyond = np.maximum(lengths / (cutoff**2 * float(np.median(lengths))), 1.0)
        expected = float((1 - beyond**-4).mean())
        doubt = _LEAST_DOUBT_OF_FAR + _DOUBT_OF_FAR * expected
        variance = deviation**2 + expected / terms + doubt**2
        found[place] = -((far - expected) ** 2) / variance / 2 - np.log(variance) / 2
    return np.asarray(np.exp(found - found.max()))


def length_ratio(outside: float, share: float) -> float:
    """The approximate radius that a ``share`` of normal rows exceeds over the one that ``outside`` exceeds."""
    return float(np.sqrt(chdtri(_FREEDOM, share) / chdtri(_FREEDOM, outside)))


def share_beyond(outside: float, ratio: float) -> float:
    """The approximate share of normal rows beyond ``ratio`` times the radius that a share ``outside`` exceeds."""
    return float(chdtrc(_FREEDOM, ratio**2 * chdtri(_FREEDOM, outside)))


def unclipped(moment: Floats, radius: float) -> Floats:
    """The second moment of normal rows whose moment, after clipping to the radius, is ``moment``."""
    values, vectors = np.linalg.eigh(moment)
    return (vectors * (values * _under(_in_radii(values, radius), np.inf, _STEPS).gains)) @ vectors.T


def _in_radii(values: Floats, radius: float) -> Floats:
    """Eigenvalues of clipped rows over the squared radius: positive, with a sum that such rows can have."""
    clipped = values / radius**2
    clipped = np.maximum(clipped, 1e-9 * max(float(clipped.max()), 1e-9))  # noise can make all of them negative
    return np.asarray(clipped * min(1.0, _FULL / clipped.sum()))


def _told_apart(kurtosis: Floats, heaviness: Floats, values: Floats, rng: Generator) -> tuple[Floats, Floats]:
    """Draws of common and of separate kurtosis of the components, each of which explains how much norms vary.

    Squared norms of components with variances λ have variance 2Σλ² if they are normal, κ(2Σλ² + (Σλ)²) more if the
    components share the kurtosis κ, and kΣλ² more if each has its own excess kurtosis k.
    """
    apart = rng.random(len(kurtosis)) < _APART
    equal = 2 + float(values.sum() ** 2 / (values**2).sum())
    own = _USUAL * np.minimum(heaviness, 1.0) + np.where(apart, kurtosis * equal, 0.0)
    return np.where(apart, 0.0, kurtosis), own


def _heavy(likelihoods: Floats) -> float:
    """The probability, by the likelihoods of the laws, that tails are longer than normal."""
    long, others = float(likelihoods[_LONG:].mean()), float(likelihoods[:2].max())
    return MAY_BE_LONG * long / max(MAY_BE_LONG * long + (1 - MAY_BE_LONG) * others, 1e-300)


def _likelihood(shares: list[float], allowed: float, scale: float) -> float:
    """The probability that a scan with Laplace noise on the threshold and every share stops at the first, not before.

    ``shares`` are those outside the radius and outside ever smaller radii; ``allowed`` is the share that is asked for.
    """
    over = np.array(shares) - allowed
    if scale <= 0:
        return float(over[0] <= 0 and (over[1:] > 0).all())
    thresholds = scale * _LAPLACE[:, None]
    tails = np.abs(over + thresholds) / scale
    passed = np.where(over + thresholds > 0, 0.5 * np.exp(-tails), 1 - 0.5 * np.exp(-tails))
    return float((passed[:, 0] * np.prod(1 - passed[:, 1:], axis=1)).mean())


@dataclass(frozen=True)
class _Law:
    """Rows of one law: gains, kurtosis, and the shares of rows beyond some radii."""

    gains: Floats
    kurtosis: float
    shares: list[float]
    shortened: float


def _under(clipped: Floats, freedom: float, radii: Floats, power: int = 1) -> _Law:
    """The `_Law` of Student's t with ``freedom`` degrees of freedom, or of light rows, in units of the radius."""
    squares, values = normal_squares(len(clipped)), clipped.copy()
    for _ in range(_ROUNDS):
        lengths = squares @ values
        tails = _tails(freedom, lengths, float(values.sum()))
        lengths = tails * lengths
        weights = tails / np.maximum(lengths, 1.0) ** power
        ratio = clipped / (values * (weights @ squares) / len(squares))
        values = values * np.minimum(ratio, 3.0)
        if power > 1:
            values = np.minimum(values, _MOST_GAIN * clipped)
        if np.abs(ratio - 1).max() < 1e-3:
            break
    fourth = (weights**2 @ squares**2) / len(squares)
    kurtosis = float(np.average(fourth / 3 / ((weights @ squares) / len(squares)) ** 2 - 1, weights=values))
    normal = float((squares**2).mean() / 3)  # of these points; 1 up to their finite number
    shares = [float((lengths > square).mean()) for square in radii]
    shortened = float(np.maximum(np.sqrt(lengths) - 1, 0.0).mean())
    whole = values * (tails @ squares) / len(squares)  # of the same points, so that their finite number causes no gain
    return _Law(whole / clipped, max((1 + kurtosis) / normal - 1, 0.0), shares, shortened)


def _tails(freedom: float, lengths: Floats, mean: float) -> Floats:
    """Factors on the squared norms of normal rows, with this mean, that make them those of a law."""
    if freedom == _LIGHT:
        return np.asarray(_SPREAD + (1 - _SPREAD) * mean / np.maximum(lengths, 1e-300))
    return _factors(freedom, len(lengths))


@lru_cache(maxsize=32)
def _factors(freedom: float, count: int) -> Floats:
    """Factors with mean 1, independent of the norms, in random order."""
    if np.isinf(freedom):
        return np.ones(count)
    levels = (np.arange(count) + 0.5) / count
    found = freedom / chdtri(freedom, levels)
    return np.asarray(made_up_generator(count).permutation(found / found.mean()))
