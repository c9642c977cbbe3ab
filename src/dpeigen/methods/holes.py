"""``missing="correct"``: cells may be missing, and covariances and means are corrected for it.

Guarantee: nothing is read here but answers that are paid for (`questions.holes`).

A missing cell becomes z = 0 in the frame: it sits at the centre (`stats.frame`). So sums over rows have only the terms
of the cells that are there: with p_j the share of rows that have column j and p_ij that of rows that have both i and j,

    mean_j = Σz_j / (n·p_j)        covariance_ij = Σz_i·z_j / (n·p_ij) − mean_i·mean_j

without bias where it does not depend on any value whether a cell is missing ("missing completely at random"). Filling
with 0 makes no row longer, so every sensitivity holds as it is.

Shares of holes r_j and r_ij are paid for, and p_ij = 1 − r_i − r_j + r_ij. There are many r_ij, so they are noisy.
Where columns miss cells independently, r_ij = r_i·r_j. The differences to that are kept where they stand out of the
noise, and the others are shrunk together by James and Stein's factor; so are differences of the r_j to their mean.
Noise on the moment is shrunk before the division. No p is taken to be less than what noise can make of 0: a covariance
of two columns that are hardly ever seen together comes out too small, not as noise.
"""

from __future__ import annotations

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
_CLEAR = 4.0  # deviations by which two columns' holes must differ from independent ones to be taken as they are
NEARLY_ALL = 0.9  # share of missing cells from which on that is why nothing is known of a column
_LEAST = 3.0  # deviations of noise: a smaller share of cells that are there is not told from none
ASSUMPTION = (
    "Cells are assumed to be missing completely at random: whether a cell is missing does not depend on any value. "
    "Means and covariances are corrected for the released shares of missing cells."
)


@dataclass(frozen=True)
class Holes:
    """Released shares of rows (or pairs) that have a cell in a column, and in two columns at once."""

    present: Floats  # d
    both: Floats  # d × d; the diagonal is that of one column
    shares: Floats  # of missing cells, column by column: between 0 and 1
    seen: NDArray[np.bool_]  # of a column: whether its cells are told from none
    deviations: Floats  # d × d, of what noise leaves on ``both``, about

    def mean(self, zero_filled: Floats) -> Floats:
        """The mean of the cells that are there, from a mean with 0 for the others."""
        return zero_filled / self.present

    def covariance(self, about_mean: Floats, mean: Floats | None) -> Floats:
        """Of the cells that are there, from the covariance and mean of rows with 0 for the others; not negative."""
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
    """For intervals."""
    return {} if holes is None else {"present": holes.both, "present_deviations": holes.deviations}


def hole_shares(task: Task) -> dict[Purpose, float]:
    """The main share for `ask_holes`."""
    return {Purpose.HOLES: SHARE} if task.missing == "correct" else {}


def hole_integers(task: Task) -> int:
    """How many integers with noise `ask_holes` draws, with a number of rows in each answer."""
    d = task.n_features
    return d * (d + 1) // 2 + 2 if task.missing == "correct" else 0


def ask_holes(curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> Holes | None:
    """Shares of missing cells; None where there may be none."""
    if Purpose.HOLES not in costs:
        return None
    d, frame = task.n_features, Frame(task.n_features, pairs=task.pairs, missing=task.missing)
    cost = part_of(costs[Purpose.HOLES], 1 if d == 1 else 2)
    single = curator.measure(HoleShares(frame), purpose=Purpose.HOLES, cost=cost)
    common = float(single.shares.mean())
    shares = np.clip(common + shrunk(single.shares - common, single.deviation), 0.0, 1.0)
    least = min(0.5, _LEAST * single.deviation)
    together, unsure, doubt = np.outer(shares, shares), least, 0.0
    if d > 1:
        double = curator.measure(HoleShares(frame, together=True), purpose=Purpose.HOLES, cost=cost)
        upper = np.triu_indices(d, 1)
        seen = double.shares - together[upper]
        extra = shrunk(seen, double.deviation)
        doubt = double.deviation * float(np.abs(extra).sum() / max(np.abs(seen).sum(), 1e-300))  # what is not shrunk
        together[upper] = np.clip(together[upper] + extra, *_possible(shares, upper))
        unsure = min(0.5, _LEAST * double.deviation) if extra.any() else least
    present = np.maximum(1 - shares, least)
    both = np.triu(1 - shares[:, None] - shares + together, 1)
    both = np.maximum(both + both.T, unsure)
    np.fill_diagonal(both, present)
    own = 1 - np.sqrt(1 - shares) if task.pairs else shares  # a pair has a hole where one of its rows has one
    single_part = single.deviation * np.sqrt((1 - shares[:, None]) ** 2 + (1 - shares) ** 2)
    deviations = np.hypot(single_part, doubt)
    np.fill_diagonal(deviations, single.deviation)
    return Holes(present, both, own, np.asarray(1 - shares > least), deviations)


def shrunk(extra: Floats, deviation: float) -> Floats:
    """Noisy numbers that may all be 0: those that stand out as they are, the others shrunk towards it together."""
    clear = np.abs(extra) > _CLEAR * deviation
    rest = extra[~clear]
    size = float(rest @ rest)
    factor = max(0.0, 1 - max(0, len(rest) - 2) * deviation**2 / size) if size > 0 else 0.0
    return np.where(clear, extra, factor * extra)


def _possible(shares: Floats, upper: tuple[NDArray[np.intp], ...]) -> tuple[Floats, Floats]:
    """The least and the largest share of rows with two holes."""
    first, second = shares[upper[0]], shares[upper[1]]
    return np.maximum(first + second - 1, 0.0), np.minimum(first, second)
