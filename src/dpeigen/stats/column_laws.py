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

from dpeigen._types import Floats, Integers
from dpeigen.stats.columns import REACH
from dpeigen.stats.tails import PairCounts

__all__ = ["SKEWED", "law_losses"]

_PLACES = np.linspace(-6.0, 9.0, 301)  # of a standard normal variable, from which every law is made
_SHARES = np.exp(-(_PLACES**2) / 2) / np.exp(-(_PLACES**2) / 2).sum()
_LOGNORMAL = (0.3, 0.5, 0.7, 0.9, 1.1, 1.3)  # deviations of logarithms
_ZEROS = (0.5, 0.75)  # shares of zeros beside exponential values
_RARE = (0.5, 0.35, 0.2, 0.14, 0.1, 0.07, 0.05, 0.035, 0.025, 0.018)  # shares of the rarer of two values
# Prior probabilities: of the light and of the normal law, each; of two values; and of all skewed laws together. With
# 0.3 in place of 0.2 for these, elliptical rows have intervals that are 2% wider, and skewed columns are covered as
# often (`benchmarks/intervals.py`, seeds 721 and 722, and 602, 711 and 992 with --columns).
_COMMON, _TWO_VALUES, SKEWED = 0.35, 0.1, 0.2
_NORMAL, _TWO = 1, slice(2, 2 + len(_RARE))  # places of the normal law, and of those of two values
_COUNTED = 2.0  # times the rows that were left beyond a radius: limit for the noise of that count (as in `stats.lost`)
_FINE = 8  # points per cell, at which the distribution of differences is tabulated
_OCTAVES = 8.0  # about the deviation of a column, outside of which counts are not compared
_SCALES = 0.2 * np.arange(-3, 4) / 2  # logarithms of factors on the scale, whose deviation is 0.2
_SCALE_WEIGHTS = -(np.arange(-3, 4) ** 2) / 8
_PRESENT = np.array([1.0, 0.85, 0.7, 0.5, 0.3])  # shares of pairs that differ
_TIES = 2.0  # log odds of a column without ties to one with them
_LENGTHS = np.arange(-20, 17) / 2  # log2 of deviations in norms, over the radius
_TRIED = np.exp2(np.arange(-2, 13) / 4)  # scales over the measured deviation


@dataclass(frozen=True, eq=False)
class _Law:
    """Values about the mean with variance 1, and the distribution function of differences of two of them."""

    values: Floats
    below: Floats  # at `_EDGES`
    prior: float
    ties: bool  # whether some pairs may not differ, beside those of the law itself

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
    kinds = (common, 2 * _COMMON, True), (rare, _TWO_VALUES, False), (skewed, SKEWED, True)
    return tuple(_law(values, prior / len(laws), ties) for laws, prior, ties in kinds for values in laws)


def _law(values: Floats, prior: float, ties: bool) -> _Law:
    about = values - _SHARES @ values
    about = about / np.sqrt(_SHARES @ about**2)
    apart = np.abs(about[:, None] - about).ravel() / 2
    order = np.argsort(apart)
    shares = np.cumsum(np.outer(_SHARES, _SHARES).ravel()[order])
    below = np.append(0.0, shares)[np.searchsorted(apart[order], np.exp2(_EDGES / 2))]
    return _Law(about, below, prior, ties)


def law_losses(
    sizes: PairCounts,
    spread: Floats,
    lengths: Floats,
    rest: float,
    radius: float,
    gaps: Mapping[int, float] = MappingProxyType({}),
    counted: tuple[float, float] | None = None,
) -> Floats:
    """4 × columns: the loss of the mean and its deviation; the same for the mean square. Parameters as `lost_tails`.

    ``gaps``: columns that are declared to have two values, and the difference of these. ``counted``: a radius, and the
    share of rows that a noisy scan left beyond it; None if there was no such scan.

    >>> rng = np.random.default_rng(0)
    >>> columns = [rng.normal(size=(2, 4000)), np.exp(rng.normal(size=(2, 4000)))]
    >>> cells = [np.floor(2 * np.log2(np.abs(x[0] - x[1]) / 2)).astype(int) + REACH for x in columns]
    >>> counts = np.array([np.bincount(x, minlength=2 * REACH + 1) for x in cells])
    >>> sizes = PairCounts(counts.astype(float), np.full(2, 40.0), 4000.0)
    >>> law_losses(sizes, np.array([1.0, 1.6]), np.array([1.0, 1 / 1.6]), 5.0, 3.5)[2].round(1).tolist()
    [0.0, 1.9]
    """
    found, lost = np.zeros((4, len(spread))), _Losses.of(rest, radius, *(counted or (radius, 1.0)))
    for j in np.flatnonzero((spread > 0) & (lengths > 0)):
        column = sizes.counts[j], float(sizes.deviations[j]), sizes.pairs
        found[:, j] = _one(*column, float(spread[j]), float(lengths[j]), lost, gaps.get(int(j)))
    return found


@dataclass(frozen=True, eq=False)
class _Losses:
    """What clipping takes from each law with variance 1, by the length of its deviation in norms over the radius.

    A law says how far out rows beyond the counted radius are. How many these are was counted: if a law has more rows
    there than about the ``share`` that was left, it loses that much less.
    """

    radius: float
    mean: Floats  # laws × `_LENGTHS`
    square: Floats
    whole: Floats  # the loss of the mean square, however many rows lie beyond the counted radius

    @classmethod
    def of(cls, rest: float, radius: float, counted: float, share: float) -> _Losses:
        values = np.array([law.values for law in _laws()])[:, None, :]
        norms = np.sqrt((values * (radius * np.exp2(_LENGTHS))[:, None]) ** 2 + max(rest, 1e-300))
        kept = np.minimum(1.0, radius / norms)
        beyond = norms > counted
        part = np.minimum(1.0, _COUNTED * share / np.maximum(beyond @ _SHARES, 1e-300))
        rows = np.where(beyond, part[:, :, None], 1.0) * _SHARES
        mean, square = values * (1 - kept), values**2 * (1 - kept**2)
        return cls(radius, np.abs((mean * rows).sum(axis=2)), (square * rows).sum(axis=2), square @ _SHARES)

    def at(self, places: Integers, scales: Floats, length: float) -> Floats:
        """2 × laws × scales: losses of the mean and of the mean square of laws with these deviations."""
        where = np.log2(scales * length / self.radius)
        mean, square = (_interpolated(table[places], _LENGTHS, where) for table in (self.mean, self.square))
        return np.array([mean * scales, square * scales**2])

    def of_whole(self, places: Integers, scales: Floats, length: float) -> Floats:
        """Laws × scales: the loss of the mean square, however many rows lie beyond the counted radius."""
        return _interpolated(self.whole[places], _LENGTHS, np.log2(scales * length / self.radius)) * scales**2


def _interpolated(tables: Floats, grid: Floats, where: Floats) -> Floats:
    """Laws × …: each table, at the points of an even grid, interpolated at its own places, inside the grid."""
    at = np.clip((where - grid[0]) / (grid[1] - grid[0]), 0.0, len(grid) - 1.001)
    left = at.astype(np.intp)
    rows = np.arange(len(tables)).reshape(-1, *[1] * (where.ndim - 1))
    return np.asarray(tables[rows, left] + (at - left) * (tables[rows, left + 1] - tables[rows, left]))


def _one(
    counts: Floats, deviation: float, pairs: float, spread: float, length: float, lost: _Losses, gap: float | None
) -> Floats:
    """The same for one column."""
    places = np.arange(len(_laws()))[slice(None) if gap is None else _TWO]
    laws, tried = [_laws()[place] for place in places], spread * _TRIED
    if gap is None:
        left = tried**2 - lost.of_whole(places, np.broadcast_to(tried, (len(laws), len(tried))), length)
        left = np.maximum.accumulate(left, axis=1)
        scales = np.array([np.interp(spread**2, each, tried) for each in left])[:, None] * np.exp(_SCALES)
        shown = scales
    else:
        scales = np.array([gap / law.width for law in laws])[:, None] * np.ones(len(_SCALES))
        shown = scales * (_middle_of_cell(gap) / gap)
    cells = np.arange(len(counts)) - REACH
    near = np.abs(cells / 2 + 1 - np.log2(spread)) < _OCTAVES
    edges = np.append(cells[near], cells[near][-1] + 1) - 2 * np.log2(shown)[:, :, None]
    shares = np.diff(_interpolated(np.array([law.below for law in laws]), _EDGES, edges), axis=2)
    expected = pairs * shares[:, :, None, :] * _PRESENT[:, None]
    variances = deviation**2 + np.maximum(expected, 0.0)
    fit = -((counts[near] - expected) ** 2 / variances + np.log(variances)).sum(axis=3) / 2
    ties = np.array([np.where(_PRESENT < 1, -_TIES if law.ties else -np.inf, 0.0) for law in laws])
    fit = fit + ties[:, None, :] + _SCALE_WEIGHTS[:, None]
    logs = np.logaddexp.reduce(fit, axis=2) + np.log([law.prior for law in laws])[:, None]
    normal = np.full(len(laws), _NORMAL)
    losses = np.maximum(lost.at(places, scales, length) - lost.at(normal, scales, length), 0.0)
    weights = np.exp(logs - np.logaddexp.reduce(logs, axis=None))
    mean = np.einsum("klm,lm->k", losses, weights)
    spreads = np.sqrt(np.maximum(np.einsum("klm,lm->k", losses**2, weights) - mean**2, 0.0))
    return np.array([mean[0], spreads[0], mean[1], spreads[1]])


def _middle_of_cell(gap: float) -> float:
    """A difference in the middle of the cell of this one, which may be on its edge."""
    return float(2 * np.exp2((np.floor(2 * np.log2(gap / 2) + 1e-9) + 0.5) / 2))
