"""Estimate what clipping rows to a radius took from single columns with long tails, from noisy histograms.

`stats.clipping` assumes elliptical rows: then clipping shortens all columns in proportion and does not move the mean.
This does not hold for a column that is 0 in nearly all rows, or for a skewed count. Its few large values make the
longest rows, and clipping takes from that column alone. Noisy counts of differences between rows, by half octaves, show
how many rows are how far out in each column, beyond the number for normal columns.

Consider a row at distance t from the centre in column j, whose other entries are the likely ones given t. Its squared
norm is t²·b² + rest, where b is the norm of a step of 1 among the clipped rows. It is shortened by
f = min(1, radius/norm), so the mean of the column loses t·(1 − f) for each such row, and its mean square t²·(1 − f²).

The same counts give the excess kurtosis of a column: that of differences is half of it. The kurtosis determines the
sampling error of variances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dpeigen._types import Floats
from dpeigen.stats.columns import REACH

__all__ = ["PairCounts", "least_variances", "lost_tails"]

_MOST_KURTOSIS = 200.0  # that of an indicator of one row in 200
_SURE = 2.0  # deviations of noise that are subtracted from, or allowed on, a count


@dataclass(frozen=True)
class PairCounts:
    """Noisy counts of half differences by half octaves (columns × cells), deviations of their noise, and the pairs."""

    counts: Floats
    deviations: Floats  # of each column
    pairs: float


def lost_tails(
    sizes: PairCounts, reach: Floats, spread: Floats, lengths: Floats, rest: float, radius: float, outside: float
) -> Floats:
    """6 × columns: the loss of the mean and its deviation; the same for the mean square; excess kurtosis and its noise.

    ``reach``: how far out any value was found; ``spread``: the deviations of the columns; ``lengths``: the norms of
    steps of 1 among the clipped rows, whose mean square is ``rest`` and of which a share ``outside`` may exceed the
    ``radius``. No column loses more than these rows can.

    >>> counts = np.zeros((1, 2 * REACH + 1))
    >>> counts[0, REACH - 2] = 400  # of 10,000 pairs: half differences of ½, so 2% of the rows are 1 and not 0
    >>> one = np.ones(1)
    >>> lost = lost_tails(PairCounts(counts, 5 * one, 10_000.0), one, 0.14 * one, 7 * one, 9.0, 3.0, 0.05)
    >>> lost[:4].ravel().round(3).tolist()
    [0.016, 0.0, 0.025, 0.0]
    """
    cells = np.arange(sizes.counts.shape[1]) - REACH
    edges = 2 * np.exp2(np.append(cells, cells[-1] + 1) / 2)  # of differences
    with np.errstate(divide="ignore", over="ignore"):
        within = ndtr(edges / (math.sqrt(2) * spread[:, None]))
    usual = sizes.pairs * 2 * np.diff(within, axis=1)
    squares = np.maximum((edges[:-1] * edges[1:]) - spread[:, None] ** 2, 0.0)
    squares = np.where(edges[:-1] < reach[:, None] * (1 + 1e-9), squares, 0.0)
    rows = np.where(squares > 0, sizes.counts - usual, 0.0) / (2 * sizes.pairs)
    noise, found = sizes.deviations / (2 * sizes.pairs), []
    for power in (1, 2):
        losses = _loss(squares, lengths[:, None], rest, radius, power)
        most = outside * _loss(reach**2, lengths, rest, radius, power)
        beyond = np.cumsum((rows * losses)[:, ::-1], axis=1)  # from each size on: a long tail may follow too few rows
        estimate = np.clip(beyond.max(axis=1), 0.0, most)
        found += [estimate, np.minimum(noise * np.sqrt((losses**2).sum(axis=1)), most / _SURE)]
    return np.array([*found, *_kurtosis(sizes, edges, reach, spread)])


def least_variances(sizes: PairCounts, reach: Floats) -> Floats:
    """The least variance of each column, by the counts that clearly exceed the noise; 0 if none does.

    >>> counts = np.zeros((1, 2 * REACH + 1))
    >>> counts[0, REACH - 2] = 400  # of 10,000 pairs: half differences of ½ at least
    >>> least_variances(PairCounts(counts, 5 * np.ones(1), 10_000.0), np.ones(1)).round(4).tolist()
    [0.0195]
    """
    edges = 2 * np.exp2((np.arange(sizes.counts.shape[1]) - REACH) / 2)
    inside = edges < reach[:, None] * (1 + 1e-9)
    clear = np.where(inside, np.maximum(sizes.counts - _SURE * sizes.deviations[:, None], 0.0), 0.0)
    return np.asarray((clear * np.where(inside, edges, 0.0) ** 2).sum(axis=1) / (2 * sizes.pairs))


def _kurtosis(sizes: PairCounts, edges: Floats, reach: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """Excess kurtosis of the columns, at least 0, and its noise with what may be somewhat beyond the found values.

    Counts may show no variance beyond their noise. Then it is at least half of the one that was measured otherwise.
    Kurtosis is at most that of values which are 0 or at the limit.
    """
    inside, near = (edges[:-1] < times * reach[:, None] * (1 + 1e-9) for times in (1, 2))
    squares = np.where(near, edges[:-1] * edges[1:], 0.0) / reach[:, None] ** 2
    shares = np.where(inside, sizes.counts, 0.0) / sizes.pairs
    second, fourth = ((shares * squares**power).sum(axis=1) for power in (1, 2))
    hidden = second < _SURE * sizes.deviations / sizes.pairs * np.sqrt(
        (np.where(inside, squares, 0.0) ** 2).sum(axis=1)
    )
    second = np.maximum(np.where(hidden, np.maximum(second, (spread / reach) ** 2), second), 1e-12)
    noise = sizes.deviations / sizes.pairs * np.sqrt((squares**4).sum(axis=1)) / np.maximum(second, 1e-3) ** 2
    limits = (math.sqrt(2) * times**2 for times in (1, 2))  # the middle of the last cell, squared
    most, most_near = (np.clip(2 * (limit / second - 3), 0.0, _MOST_KURTOSIS) for limit in limits)
    return np.clip(2 * (fourth / second**2 - 3), 0.0, most), np.minimum(2 * noise, most_near)


def _loss(squares: Floats, lengths: Floats, rest: float, radius: float, power: int) -> Floats:
    """The loss of a row that is this far out."""
    long = np.sqrt(np.maximum(squares * lengths**2 + rest, 1e-300))
    return np.asarray(squares ** (power / 2) * (1 - np.minimum(1.0, radius / long) ** power))
