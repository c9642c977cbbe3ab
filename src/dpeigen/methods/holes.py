"""``missing="correct"``: cells may be missing, and covariances and means are corrected for it.

Guarantee: only answers that are paid for are used (`questions.holes`).

A missing cell becomes z = 0 in the frame, that is, the centre (`stats.frame`). So sums over rows contain only present
cells. Let p_j be the fraction of rows with a cell in column j, and p_ij that of rows with cells in both i and j. Then

    mean_j = Σz_j / (n·p_j)        covariance_ij = Σz_i·z_j / (n·p_ij) − mean_i·mean_j

are unbiased if missingness does not depend on any value ("missing completely at random"). Filling with 0 makes no row
longer, so all sensitivities stay the same.

The fractions of missing cells r_j and r_ij are paid for, and p_ij = 1 − r_i − r_j + r_ij. There are many r_ij, so they
are noisy. If columns miss cells independently, r_ij = r_i·r_j. Differences from that are kept if they clearly exceed
the noise, and the others are shrunk together by James and Stein's factor; so are differences of the r_j from their
mean. If neither the mean nor any r_j clearly exceeds its noise, all are 0: nothing is corrected. Noise on the moment is
shrunk before the division. Every p is bounded below by the value that noise alone can produce. So a covariance of two
columns that are rarely present together is too small, but not mere noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.costs import part_of
from dpeigen.methods.base import Task
from dpeigen.privacy import Cost
from dpeigen.questions import HoleShares
from dpeigen.stats import Frame

__all__ = [
    "ASSUMPTION",
    "NEARLY_ALL",
    "SHARE",
    "Holes",
    "ask_holes",
    "hole_integers",
    "hole_shares",
    "known_shares",
    "shrunk",
]

SHARE = 0.06  # beside a main share of 1
_CLEAR = 4.0  # noise deviations from independence above which the missing cells of two columns are not shrunk
NEARLY_ALL = 0.9  # a fraction of missing cells that explains why a column has no scale
_LEAST = 3.0  # noise deviations: a smaller fraction of present cells is not distinguishable from none
ASSUMPTION = (
    "Cells are assumed to be missing completely at random: whether a cell is missing does not depend on any value. "
    "Means and covariances are corrected for the released shares of missing cells."
)


@dataclass(frozen=True)
class Holes:
    """Released fractions of rows (or pairs) with a present cell in a column, and in two columns at once."""

    present: Floats  # d
    both: Floats  # d × d; the diagonal is ``present``
    shares: Floats  # fractions of missing cells by column, between 0 and 1
    seen: NDArray[np.bool_]  # whether the present cells of a column are distinguishable from none
    deviations: Floats  # d × d, approximate noise deviations of ``both``

    def mean(self, zero_filled: Floats) -> Floats:
        """The mean of the present cells, from a mean with 0 for missing cells."""
        return zero_filled / self.present

    def covariance(self, about_mean: Floats, mean: Floats | None) -> Floats:
        """The covariance of present cells, from covariance and mean with 0 for missing cells; without negative part."""
        outer = np.zeros_like(about_mean) if mean is None else np.outer(mean, mean)
        alone = np.zeros_like(outer) if mean is None else np.outer(self.mean(mean), self.mean(mean))
        found = (about_mean + outer) / self.both - alone
        deviations = np.sqrt(np.maximum(np.diag(found), 0.0)) * self.seen
        safe = np.where(deviations > 0, deviations, 1.0)
        values, vectors = np.linalg.eigh(found / np.outer(safe, safe) * np.outer(deviations > 0, deviations > 0))
        positive: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
        sizes = np.sqrt(np.diag(positive))
        return positive * np.outer(*2 * (np.divide(deviations, sizes, out=np.zeros_like(sizes), where=sizes > 0),))


def known_shares(holes: Holes | None) -> dict[str, Any]:
    """The released fractions, as intervals need them."""
    return {} if holes is None else {"present": holes.both, "present_deviations": holes.deviations}


def hole_shares(task: Task) -> dict[Purpose, float]:
    """The main share for `ask_holes`."""
    return {Purpose.HOLES: SHARE} if task.missing == "correct" else {}


def hole_integers(task: Task) -> int:
    """The number of noisy integers that `ask_holes` draws, with a number of rows in each answer."""
    d = task.n_features
    return d * (d + 1) // 2 + 2 if task.missing == "correct" else 0


def ask_holes(curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> Holes | None:
    """Fractions of missing cells; None if no cells may be missing."""
    if Purpose.HOLES not in costs:
        return None
    d, frame = task.n_features, Frame(task.n_features, pairs=task.pairs, missing=task.missing)
    cost = part_of(costs[Purpose.HOLES], 1 if d == 1 else 2)
    single = curator.measure(HoleShares(frame), purpose=Purpose.HOLES, cost=cost)
    shares = _fractions(single.shares, single.deviation)
    least = min(0.5, _LEAST * single.deviation)
    together, unsure, doubt = np.outer(shares, shares), least, 0.0
    if d > 1:
        double = curator.measure(HoleShares(frame, together=True), purpose=Purpose.HOLES, cost=cost)
        upper = np.triu_indices(d, 1)
        seen = double.shares - together[upper]
        extra = shrunk(seen, double.deviation)
        doubt = double.deviation * float(np.abs(extra).sum() / max(np.abs(seen).sum(), 1e-300))  # left by shrinking
        together[upper] = np.clip(together[upper] + extra, *_possible(shares, upper))
        unsure = min(0.5, _LEAST * double.deviation) if extra.any() else least
    present = np.maximum(1 - shares, least)
    both = np.triu(1 - shares[:, None] - shares + together, 1)
    both = np.maximum(both + both.T, unsure)
    np.fill_diagonal(both, present)
    own = 1 - np.sqrt(1 - shares) if task.pairs else shares  # a cell of a pair is missing if it is in either row
    single_part = single.deviation * np.sqrt((1 - shares[:, None]) ** 2 + (1 - shares) ** 2)
    deviations = np.hypot(single_part, doubt)
    np.fill_diagonal(deviations, single.deviation)
    return Holes(present, both, own, np.asarray(1 - shares > least), deviations)


def _fractions(noisy: Floats, deviation: float) -> Floats:
    """Fractions of missing cells: those of different columns are alike, and all are 0 if noise could have made them.

    Nothing is then divided by them. Otherwise noise alone would move columns that are nearly collinear apart.
    """
    common = float(noisy.mean())
    if common < _LEAST * deviation / math.sqrt(len(noisy)) and noisy.max() < _CLEAR * deviation:
        return np.zeros_like(noisy)
    return np.clip(common + shrunk(noisy - common, deviation), 0.0, 1.0)


def shrunk(extra: Floats, deviation: float) -> Floats:
    """Noisy numbers that may all be 0: clear ones are kept, and the others are shrunk towards 0 together."""
    clear = np.abs(extra) > _CLEAR * deviation
    rest = extra[~clear]
    size = float(rest @ rest)
    factor = max(0.0, 1 - max(0, len(rest) - 2) * deviation**2 / size) if size > 0 else 0.0
    return np.where(clear, extra, factor * extra)


def _possible(shares: Floats, upper: tuple[NDArray[np.intp], ...]) -> tuple[Floats, Floats]:
    """The smallest and the largest possible fraction of rows in which both cells are missing."""
    first, second = shares[upper[0]], shares[upper[1]]
    return np.maximum(first + second - 1, 0.0), np.minimum(first, second)
