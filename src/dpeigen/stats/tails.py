"""What clipping rows to a radius took from single columns with long tails, as far as noisy histograms show it.

`stats.clipping` takes rows to be elliptical: then clipping shortens all columns alike, and does not move the mean. A
column that is 0 for nearly all rows, or a skewed count, is not like that. Its few large values make the longest rows,
and clipping takes from that column alone. Noisy counts of differences between rows, by half octaves, show how many rows
lie how far out in each column, more than normal columns have.

A row that lies t from the centre in column j, and in the others where that makes it likely, has a squared length of
t²·b² + rest, b the length of a step of 1 among the clipped rows. It is shortened by f = min(1, radius/length), so the
mean of the column loses t·(1 − f) for each such row, and its mean square t²·(1 − f²).

The same counts tell the excess kurtosis of a column: that of differences is half of it. It makes the sampling error of
variances.
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
_SURE = 2.0  # deviations of noise on the number of rows outside the radius


@dataclass(frozen=True)
class PairCounts:
    """Noisy counts of half differences by half octaves (columns × cells), deviations of their noise, and the pairs."""

    counts: Floats
    deviations: Floats  # of each column
    pairs: float


def lost_tails(
    sizes: PairCounts, reach: Floats, spread: Floats, lengths: Floats, rest: float, radius: float, outside: float
) -> Floats:
    """6 × columns: what the mean loses and the deviation of that; the same for the mean square; excess kurtosis.

    ``reach`` is how far out anything was seen, ``spread`` the deviations of the columns, ``lengths`` those of steps of
    1 among the clipped rows, whose mean square is ``rest`` and of which a share ``outside`` may be longer than the
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
    return np.array([*found, *_kurtosis(sizes, edges, reach)])


def least_variances(sizes: PairCounts, reach: Floats) -> Floats:
    """A variance that each column has at least, by the counts that are clear of the noise; 0 where none is.

    >>> counts = np.zeros((1, 2 * REACH + 1))
    >>> counts[0, REACH - 2] = 400  # of 10,000 pairs: half differences of ½ at least
    >>> least_variances(PairCounts(counts, 5 * np.ones(1), 10_000.0), np.ones(1)).round(4).tolist()
    [0.0195]
    """
    edges = 2 * np.exp2((np.arange(sizes.counts.shape[1]) - REACH) / 2)
    inside = edges < reach[:, None] * (1 + 1e-9)
    clear = np.where(inside, np.maximum(sizes.counts - _SURE * sizes.deviations[:, None], 0.0), 0.0)
    return np.asarray((clear * np.where(inside, edges, 0.0) ** 2).sum(axis=1) / (2 * sizes.pairs))


def _kurtosis(sizes: PairCounts, edges: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Excess kurtosis of the columns, none below 0, and its noise with what may lie somewhat beyond what was seen."""
    inside, near = (edges[:-1] < times * reach[:, None] * (1 + 1e-9) for times in (1, 2))
    squares = np.where(near, edges[:-1] * edges[1:], 0.0) / reach[:, None] ** 2
    shares = np.where(inside, sizes.counts, 0.0) / sizes.pairs
    second, fourth = (np.maximum((shares * squares**power).sum(axis=1), 1e-12) for power in (1, 2))
    noise = sizes.deviations / sizes.pairs * np.sqrt((squares**4).sum(axis=1)) / np.maximum(second, 1e-3) ** 2
    return np.clip(2 * (fourth / second**2 - 3), 0.0, _MOST_KURTOSIS), np.minimum(2 * noise, _MOST_KURTOSIS)


def _loss(squares: Floats, lengths: Floats, rest: float, radius: float, power: int) -> Floats:
    """Of a row that lies so far out."""
    long = np.sqrt(np.maximum(squares * lengths**2 + rest, 1e-300))
    return np.asarray(squares ** (power / 2) * (1 - np.minimum(1.0, radius / long) ** power))
