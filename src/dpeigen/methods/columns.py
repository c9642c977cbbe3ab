"""The unit and the place of every column, paid for: z = (x − c)/s, whatever the columns are measured in and from where.

Guarantee: nothing is read here but answers that are paid for (`questions.columns`, `questions.mean`).

1. Scales. Differences of random pairs of rows are counted by half octaves, all columns at once. The scale of a column
   is twice the deviation of normal rows whose differences would fill the cells as they are filled (a matched filter),
   or, if that is more, the upper edge of the highest cell above it that stands out of the noise. So the scale is near
   the far end of the column. A column that is 0 for most rows has one. A column in which nothing stands out has none.
2. Places. Entries are counted by octaves of the scale on either side of 0, then the fullest octave is divided until
   its cells are half as wide as the scale. Columns far away need more steps, each at half the cost of the last.
3. The mean of rows clipped to two scales about that place.

What follows happens in z. The number of rows that stand out, and with it what is clipped, falls as rows × ε grow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.costs import part_of
from dpeigen.methods.base import Task
from dpeigen.privacy import Budget, Cost, GaussianCost, gaussian_mu
from dpeigen.questions import ClippedMean, ColumnCounts, NoisyCounts, RadiusLeaving
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.columns import CELLS, OCTAVES, REACH, Octaves, Sizes
from dpeigen.stats.frame import LARGEST_FACT

Weights = dict[Purpose, float]
Bools = NDArray[np.bool_]
Integers = NDArray[np.intp]
REACHED = 2.0  # scales to either side of the centre, where columns are clipped
_FALSE = 0.02  # chance that noise alone stands out somewhere
_SCALES_SHARES = 0.12, 0.25  # least and most, beside a main share of 1
_NOISE_OF_PAIRS = 0.01  # noise on a count that is aimed at, as a part of the pairs
_SEEN, _SPIKE = 3.2, 4.0  # deviations that a normal column, or a single cell, must stand out by
_USUAL, _UNUSUAL = 48, 0.4  # half octaves from 1, beyond which they must stand out by so much more
_WINDOWS = (1, 2, 4)  # cells
_ABOVE = 14  # half octaves above the deviation where the far end of a column is looked for
_ONE_SCALE_SHARE, _MEAN_SHARE = 0.04, 0.03  # of ε; beside a main share of 1
_FAR_PAIRS = 0.05  # of the pairs, beyond one scale for all columns
_FILLED = 0.3  # of the pairs, in the best fit of a column
_CLEARLY, _CLEARLY_PURE = 4.0, 10.0  # scales of noise that they have to stand out by
_LOOKS = 8  # for a place, at most; each costs half of what the one before it costs
_FINE = 0.5  # scales: the width of the cells that a place is looked for in
_EDGES = np.arange(-8.0, 3.5, 0.5)  # of half octaves, for differences of normal rows, in log2 of their deviation
_NORMAL = 2 * np.diff(ndtr(np.exp2(np.append(_EDGES, 3.5)) * math.sqrt(2)))  # of half differences, deviation √½
_FILTER = _NORMAL / np.linalg.norm(_NORMAL)
_FAR = 1.0  # log2 of the far end of a normal column in deviations of its rows


@dataclass(frozen=True)
class ColumnFrame:
    """Columns in their own units. ``frame`` has centre, weights and box; ``known`` tells which columns have a scale."""

    frame: Frame
    scale: Floats
    known: Bools


def column_shares(task: Task) -> tuple[Weights, Weights]:
    """(pure, main) shares for `ask_columns`."""
    share, main = _scales_share(task), Weights()
    own, pure = own_units(task), Weights()
    if own:
        main[Purpose.SCALES] = share
    elif not isinstance(task.bound, tuple):
        pure[Purpose.SCALES] = _ONE_SCALE_SHARE
    if task.private_center:
        main[Purpose.CENTER] = _MEAN_SHARE
        if _looks_for_places(task):
            main[Purpose.PLACES] = share / 2
    return pure, main


def column_integers(d: int) -> int:
    """How many integers with noise `ask_columns` draws at most: cells of histograms, and a mean with a count."""
    return d * (Sizes.n_cells + Octaves.n_cells + (_LOOKS - 1) * CELLS) + d + 1


def own_units(task: Task) -> bool:
    """Whether every column gets a unit of its own: unless all are said to share one, or rows are too few for it."""
    if task.same_units or task.n_rows is None:
        return not task.same_units
    clearly = _CLEARLY if not task.budget.is_pure else _CLEARLY_PURE
    return _FILLED * task.n_rows / 2 >= clearly * _noise_of_counts(task) / _precision_of(task.budget, _SCALES_SHARES[1])


def rows_for_columns(task: Task) -> float:
    """How many rows are enough for `ask_columns`: noise on a count is a small part of the pairs then."""
    return 2 * _noise_of_counts(task) / _precision_of(task.budget, _scales_share(task)) / _NOISE_OF_PAIRS


def _looks_for_places(task: Task) -> bool:
    """Unless columns are told by their public bounds alone, and lie somewhere about their middle."""
    return own_units(task) or not isinstance(task.bound, tuple)


def _noise_of_counts(task: Task) -> float:
    """On counts of all columns, if they had the whole budget."""
    d, budget = task.n_features, task.budget
    return 2 * d / budget.epsilon if budget.is_pure else math.sqrt(2 * d) / gaussian_mu(budget.epsilon, budget.delta)


def _precision_of(budget: Budget, share: float) -> float:
    """How much of the precision of a whole budget a share has, beside a main share of 1."""
    fraction = share / (1.5 + share)
    return fraction if budget.is_pure else math.sqrt(fraction)


def _scales_share(task: Task) -> float:
    """Beside a main share of 1: as much as makes the noise on a count a small part of the pairs, within limits."""
    least, most = _SCALES_SHARES
    if task.n_rows is None:
        return math.sqrt(least * most)
    wanted = _noise_of_counts(task) / (_NOISE_OF_PAIRS * task.n_rows / 2)
    return min(most, max(least, wanted if task.budget.is_pure else wanted**2))


def ask_columns(curator: Curator, task: Task, costs: Mapping[Purpose, Cost], count: float) -> ColumnFrame:
    """The frame of columns in their own units, or in one that they share; ``count`` rows, public or released."""
    d = task.n_features
    own = own_units(task)
    if own:
        scale, known = _ask_scales(curator, task, costs)
    elif isinstance(task.bound, tuple):
        scale, known = (task.bound[1] - task.bound[0]) / 2, np.ones(d, dtype=bool)
    else:
        scale, known = _ask_one_scale(curator, task, costs, count)
    center = np.zeros(d) if not isinstance(task.center, np.ndarray) else task.center
    if task.private_center and _looks_for_places(task):
        center, found = ask_places(curator, scale, costs[Purpose.PLACES], task)
        known = known & found if own else known
    elif task.private_center and isinstance(task.bound, tuple):
        center = task.bound[0] / 2 + task.bound[1] / 2
    frame = _frame(center, scale, known, task, boxed=own)
    if task.private_center:
        cost = costs[Purpose.CENTER]
        question = ClippedMean(Lattice(frame, (REACHED if own else 1.0) * math.sqrt(d)))
        mean = curator.measure(question, purpose=Purpose.CENTER, cost=cost).mean
        center = center + np.where(known, np.clip(mean, -REACHED, REACHED), 0.0) * scale
        frame = _frame(center, scale, known, task, boxed=own)
    return ColumnFrame(frame, scale, known)


def _ask_scales(curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> tuple[Floats, Bools]:
    """The scale of every column; and whether anything stood out in it."""
    apart = Frame(task.n_features, pairs=True, on_bad_row=task.on_bad_row)
    question, cost = ColumnCounts(apart, "sizes", tuple(range(task.n_features))), costs[Purpose.SCALES]
    return scales(curator.measure(question, purpose=Purpose.SCALES, cost=cost), isinstance(cost, GaussianCost))


def _ask_one_scale(curator: Curator, task: Task, costs: Mapping[Purpose, Cost], count: float) -> tuple[Floats, Bools]:
    """One scale for all columns: about two and a half times their root mean square deviation."""
    apart = Frame(task.n_features, pairs=True, on_bad_row=task.on_bad_row)
    question, cost = RadiusLeaving(apart, _FAR_PAIRS * count / 2), costs[Purpose.SCALES]
    radius = curator.measure(question, purpose=Purpose.SCALES, cost=cost)
    scale = 2 * math.sqrt(2) * radius / math.sqrt(task.n_features)
    return np.full(task.n_features, scale), np.ones(task.n_features, dtype=bool)


def _frame(center: Floats, scale: Floats, known: Bools, task: Task, *, boxed: bool) -> Frame:
    """Rows in scales from the centre, inside public bounds; a column without a scale is 0."""
    center = np.clip(center, -LARGEST_FACT, LARGEST_FACT)
    lower, upper = task.bound if isinstance(task.bound, tuple) else np.array([[-LARGEST_FACT], [LARGEST_FACT]])
    if task.pairs:
        box = (np.where(known, lower, 0.0), np.where(known, upper, 0.0))
        return Frame(task.n_features, None, 1 / scale, box, pairs=True, on_bad_row=task.on_bad_row)
    if not boxed:
        given = task.bound if isinstance(task.bound, tuple) else None
        return Frame(task.n_features, center, 1 / scale, given, on_bad_row=task.on_bad_row)
    reach = np.where(known, REACHED * scale, 0.0)
    center = np.clip(center, lower, upper)
    box = (np.maximum(center - reach, lower), np.minimum(center + reach, upper))
    return Frame(task.n_features, center, 1 / scale, box, on_bad_row=task.on_bad_row)


def scales(sizes: NoisyCounts, gaussian: bool) -> tuple[Floats, Bools]:
    """The scale of every column, from noisy counts of half differences; and whether anything stood out (else 1)."""
    counts, noise = sizes.counts, sizes.deviation
    filtered = np.stack([np.correlate(row, _FILTER, mode="valid") for row in counts])
    cells = np.arange(filtered.shape[1]) - round(2 * _EDGES[0])  # of the deviation of normal rows
    # A column of few values fills one cell only; its differences are about three deviations then.
    single = counts[:, np.minimum(cells + 1, counts.shape[1] - 1)] / _SPIKE
    clear = np.maximum(filtered / _SEEN, single) / noise - np.where(np.abs(cells - REACH) > _USUAL, _UNUSUAL, 0.0)
    middle, known = cells[np.argmax(clear, axis=1)], clear.max(axis=1) > 1
    normal = np.exp2((middle - REACH) / 2 + _FAR)
    above = middle[:, None] + np.arange(1, _ABOVE)  # cells that may hold the far end
    limit, highest = _stands_out(above.size * len(_WINDOWS), gaussian) * noise, np.full(len(counts), -1)
    for window in _WINDOWS:  # of tails that are spread over many cells only windows stand out
        sums = np.cumsum(np.pad(counts, ((0, 0), (window, _ABOVE))), axis=1)
        tails = np.take_along_axis(sums[:, window:] - sums[:, :-window], above, axis=1)
        seen = (above < counts.shape[1]) & (tails > limit * math.sqrt(window))
        highest = np.maximum(highest, np.where(seen, above - (window - 1), -1).max(axis=1))
    edge = np.where(highest >= 0, np.exp2((highest + 1 - REACH) / 2) * 2, 0.0)  # of differences, twice the halves
    return np.where(known, np.maximum(normal, edge), 1.0), known


def _stands_out(cells: int, gaussian: bool) -> float:
    """Deviations that noise on so many cells stays below, but for a small chance."""
    tail = _FALSE / cells
    return -float(ndtri(tail)) if gaussian else -math.log(2 * tail) / math.sqrt(2)


def ask_places(curator: Curator, scale: Floats, cost: Cost, task: Task) -> tuple[Floats, Bools]:
    """Where every column lies, to about a quarter of its scale; and whether its place stood out."""
    gaussian, everything = isinstance(cost, GaussianCost), tuple(range(len(scale)))
    first, *others = [part_of(cost, 2 ** min(look, _LOOKS - 1)) for look in range(1, _LOOKS + 1)]  # the last are equal
    view = Frame(len(scale), None, 1 / scale, on_bad_row=task.on_bad_row)
    counts = curator.measure(ColumnCounts(view, "octaves", everything), purpose=Purpose.PLACES, cost=first)
    fullest, found = _fullest(counts, gaussian)
    away = fullest - OCTAVES
    width = np.where(away == 0, 2.0, np.exp2(np.abs(away) - 1.0)) * scale
    low = np.where(away > 0, width, np.where(away < 0, -2 * width, -width / 2))
    for look, each in enumerate(others):
        cells = np.clip(np.ceil(width / (scale * _FINE) * (1 - 1e-9)), 1, CELLS)
        if look and (cells == 1).all():
            break
        view = Frame(len(scale), low, cells / width, on_bad_row=task.on_bad_row)
        counts = curator.measure(ColumnCounts(view, "stretch", everything), purpose=Purpose.PLACES, cost=each)
        width = width / cells
        low = low + _fullest(counts, gaussian, cells)[0] * width
    return low + width / 2, found


def _fullest(counts: NoisyCounts, gaussian: bool, cells: Floats | float = math.inf) -> tuple[Integers, Bools]:
    """The fullest of the first ``cells`` cells of every column, and whether it stands out."""
    real = np.arange(counts.counts.shape[1]) < np.reshape(cells, (-1, 1))
    inside = np.where(real, counts.counts, -math.inf)
    return np.argmax(inside, axis=1), inside.max(axis=1) > _stands_out(inside.size, gaussian) * counts.deviation


def unknown_note(columns: list[int]) -> tuple[str, ...]:
    """For a release that could not find the scales of these columns."""
    if not columns:
        return ()
    which = ", ".join(map(str, columns[:20])) + (", …" if len(columns) > 20 else "")
    return (
        f"Nothing stood out of the noise in column(s) {which} (counted from 0): constant, or too rare for this budget. "
        "Their variances and covariances are given as 0, which says nothing about them.",
    )
