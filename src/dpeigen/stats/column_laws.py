"""Estimate what clipping took from skewed columns, from the shape of noisy counts of differences.

A few rows far out are often hidden by noise, but a skewed column also has another shape where most rows are: its
differences are spread over more octaves, and they are small compared with its deviation. So each column is compared
with some laws: light and normal columns, columns of two values, exponential ones, exponential ones among zeros, and
lognormal ones. The scale of each law is the one for which the clipped column has the measured variance, up to an error.
A law is weighted by its prior probability and by the likelihood of the counts. Each law determines what clipping took
from the mean and from the mean square, in addition to what it takes from a normal column, which is corrected elsewhere
(`stats.clipping`). The result has the mean of these losses and their deviation.

Rows are clipped as in `stats.tails`: at distance t from the centre of the column, the squared norm is t²·b² + rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from dpeigen._types import Floats
from dpeigen.stats.columns import REACH
from dpeigen.stats.tails import PairCounts

__all__ = ["law_losses"]

_PLACES = np.linspace(-6.0, 9.0, 301)  # of a standard normal variable, from which every law is made
_SHARES = np.exp(-(_PLACES**2) / 2) / np.exp(-(_PLACES**2) / 2).sum()
_LOGNORMAL = (0.3, 0.5, 0.7, 0.9, 1.1, 1.3)  # deviations of logarithms
_ZEROS = (0.5, 0.75)  # shares of zeros beside exponential values
_RARE = (0.5, 0.35, 0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025, 0.018)  # shares of the rarer of two values
# Prior probabilities: of the light and of the normal law, each; of two values; and of all skewed laws together. With
# 0.3 in place of 0.2 for these, elliptical rows have intervals that are 2% wider, and skewed columns are covered as
# often (`benchmarks/intervals.py`, seeds 721 and 722, and 602, 711 and 992 with --columns).
_COMMON, _TWO_VALUES, _SKEWED = 0.35, 0.1, 0.2
_NORMAL, _TWO = 1, slice(2, 2 + len(_RARE))  # places of the normal law, and of those of two values
_FINE = 8  # points per cell, at which the distribution of differences is tabulated
_OCTAVES = 8.0  # about the deviation of a column, outside of which counts are not compared
_SCALES = 0.2 * np.arange(-3, 4) / 2  # logarithms of factors on the scale, whose deviation is 0.2
_SCALE_WEIGHTS = -(np.arange(-3, 4) ** 2) / 8
_PRESENT = np.array([1.0, 0.85, 0.7, 0.5, 0.3])  # shares of pairs that differ; laws of two values have their own ties
_TIES = 2.0  # log odds of a column without ties to one with them
_LENGTHS = np.arange(-40, 33) / 4  # log2 of deviations in norms, over the radius
_TRIED = np.exp2(np.arange(-2, 13) / 4)  # scales over the measured deviation


@dataclass(frozen=True, eq=False)
class _Law:
    """Values about the mean with variance 1, and the distribution function of differences of two of them."""

    values: Floats
    below: Floats  # at `_EDGES`
    prior: float
    present: Floats  # of `_PRESENT`

    @property
    def width(self) -> float:
        """The difference of the largest and the smallest value."""
        return float(np.ptp(self.values))


_EDGES = np.arange(-30 * _FINE, 14 * _FINE) / _FINE  # half differences of 2^(edge/2)


@lru_cache(maxsize=1)
def _laws() -> tuple[_Law, ...]:
    exponential, step = -log_ndtr(-_PLACES), float(_PLACES[1] - _PLACES[0])
    common = [ndtr(_PLACES), _PLACES]
    rare = [np.clip((_PLACES + ndtri(share)) / step + 0.5, 0.0, 1.0) for share in _RARE]
    skewed = [exponential, *(np.exp(width * _PLACES) for width in _LOGNORMAL)]
    skewed += [np.maximum(exponential + np.log(1 - zeros), 0.0) for zeros in _ZEROS]
    kinds = (common, 2 * _COMMON, _PRESENT), (rare, _TWO_VALUES, _PRESENT[:1]), (skewed, _SKEWED, _PRESENT)
    return tuple(_law(values, prior / len(laws), present) for laws, prior, present in kinds for values in laws)


def _law(values: Floats, prior: float, present: Floats) -> _Law:
    about = values - _SHARES @ values
    about = about / np.sqrt(_SHARES @ about**2)
    apart = np.abs(about[:, None] - about).ravel() / 2
    order = np.argsort(apart)
    shares = np.cumsum(np.outer(_SHARES, _SHARES).ravel()[order])
    below = np.append(0.0, shares)[np.searchsorted(apart[order], np.exp2(_EDGES / 2))]
    return _Law(about, below, prior, present)


def law_losses(
    sizes: PairCounts,
    spread: Floats,
    lengths: Floats,
    rest: float,
    radius: float,
    gaps: Mapping[int, float] = MappingProxyType({}),
) -> Floats:
    """4 × columns: the loss of the mean and its deviation; the same for the mean square. Parameters as `lost_tails`.

    ``gaps``: columns that are declared to have two values, and the difference of these.

    >>> rng = np.random.default_rng(0)
    >>> columns = [rng.normal(size=(2, 4000)), np.exp(rng.normal(size=(2, 4000)))]
    >>> cells = [np.floor(2 * np.log2(np.abs(x[0] - x[1]) / 2)).astype(int) + REACH for x in columns]
    >>> counts = np.array([np.bincount(x, minlength=2 * REACH + 1) for x in cells])
    >>> sizes = PairCounts(counts.astype(float), np.full(2, 40.0), 4000.0)
    >>> law_losses(sizes, np.array([1.0, 1.6]), np.array([1.0, 1 / 1.6]), 5.0, 3.5)[2].round(1).tolist()
    [0.0, 1.9]
    """
    found, lost = np.zeros((4, len(spread))), _Losses.of(rest, radius)
    for j in np.flatnonzero((spread > 0) & (lengths > 0)):
        counted = sizes.counts[j], float(sizes.deviations[j]), sizes.pairs
        found[:, j] = _one(*counted, float(spread[j]), float(lengths[j]), lost, gaps.get(int(j)))
    return found


@dataclass(frozen=True, eq=False)
class _Losses:
    """What clipping takes from each law with variance 1, by the length of its deviation in norms over the radius."""

    radius: float
    mean: Floats  # laws × `_LENGTHS`
    square: Floats

    @classmethod
    def of(cls, rest: float, radius: float) -> _Losses:
        values = np.array([law.values for law in _laws()])[:, None, :]
        norms = np.sqrt((values * (radius * np.exp2(_LENGTHS))[:, None]) ** 2 + max(rest, 1e-300))
        kept = np.minimum(1.0, radius / norms)
        return cls(radius, np.abs((values * (1 - kept)) @ _SHARES), (values**2 * (1 - kept**2)) @ _SHARES)

    def at(self, place: int, scales: Floats, length: float) -> Floats:
        """2 × scales: losses of the mean and of the mean square, for the law at this place and these deviations."""
        at = np.log2(scales * length / self.radius)
        losses = np.interp(at, _LENGTHS, self.mean[place]), np.interp(at, _LENGTHS, self.square[place])
        return np.array([losses[0] * scales, losses[1] * scales**2])


def _one(
    counts: Floats, deviation: float, pairs: float, spread: float, length: float, lost: _Losses, gap: float | None
) -> Floats:
    """The same for one column."""
    cells = np.arange(len(counts)) - REACH
    near = np.abs(cells / 2 + 1 - np.log2(spread)) < _OCTAVES
    edges, weights, losses = np.append(cells[near], cells[near][-1] + 1), [], []
    for place in range(len(_laws())) if gap is None else range(len(_laws()))[_TWO]:
        law = _laws()[place]
        left = (spread * _TRIED) ** 2 - lost.at(place, spread * _TRIED, length)[1]
        fitting = float(np.interp(spread**2, np.maximum.accumulate(left), spread * _TRIED))
        scales = fitting * np.exp(_SCALES) if gap is None else np.full(len(_SCALES), gap / law.width)
        shown = scales if gap is None else scales * (_middle_of_cell(gap) / gap)
        shares = np.diff(_below(law, shown, edges))
        expected = pairs * shares[:, None, :] * law.present[:, None]
        variances = deviation**2 + np.maximum(expected, 0.0)
        fit = -((counts[near] - expected) ** 2 / variances + np.log(variances)).sum(axis=2) / 2
        fit = fit - _TIES * (law.present < 1) + _SCALE_WEIGHTS[:, None]
        weights.append(np.logaddexp.reduce(fit, axis=1) + np.log(law.prior))
        losses.append(np.maximum(lost.at(place, scales, length) - lost.at(_NORMAL, scales, length), 0.0))
    logs, each = np.concatenate(weights), np.concatenate(losses, axis=1)
    shares = np.exp(logs - np.logaddexp.reduce(logs))
    mean = each @ shares
    spreads = np.sqrt(np.maximum(each**2 @ shares - mean**2, 0.0))
    return np.array([mean[0], spreads[0], mean[1], spreads[1]])


def _middle_of_cell(gap: float) -> float:
    """A difference in the middle of the cell of this one, which may be on its edge."""
    return float(2 * np.exp2((np.floor(2 * np.log2(gap / 2) + 1e-9) + 0.5) / 2))


def _below(law: _Law, scales: Floats, edges: Floats) -> Floats:
    """Scales × edges: the share of differences below each edge."""
    return np.interp(edges - 2 * np.log2(scales)[:, None], _EDGES, law.below)
