"""The unit and the place of every column, paid for: z = (x − c)/s, whatever the columns are measured in and from where.

Guarantee: nothing is read here but answers that are paid for (`questions.columns`, `questions.mean`).

1. Scales. Differences of random pairs of rows are counted by half octaves, all columns at once. The scale of a column
   is twice the deviation of normal rows whose differences would fill the cells as they are filled (a matched filter),
   or, if that is more, the upper edge of the highest cell above it that stands out of the noise. So the scale is near
   the far end of the column. A column that is 0 for most rows has one. A column in which nothing stands out has none.
2. Places. Entries are counted by octaves of the scale on either side of 0, then the fullest octave is divided until
   its cells are half as wide as the scale. Columns far away need more steps, which share what the first one leaves.
3. The mean of rows clipped to two scales about that place.

What follows happens in z. The number of rows that stand out, and with it what is clipped, falls as rows × ε grow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.costs import part_of, sum_of
from dpeigen.methods.base import Task
from dpeigen.methods.holes import NEARLY_ALL, Holes
from dpeigen.methods.large import REACHES_SHARE, single_rows_count
from dpeigen.privacy import Budget, Cost, GaussianCost, gaussian_mu
from dpeigen.questions import ClippedMean, ColumnCounts, ColumnReaches, NoisyCounts, RadiusLeaving, shows_scale
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.columns import CELLS, OCTAVES, REACH, Octaves, Sizes
from dpeigen.stats.frame import LARGEST_FACT
from dpeigen.stats.standing_out import FALSE_END, filtered_stands_out, stands_out
from dpeigen.stats.tails import PairCounts
from dpeigen.stats.whitening import shrunk_mean

__all__ = [
    "NORMAL_SCALE",
    "NOTHING_SEEN",
    "NO_CELLS",
    "REACHED",
    "Bools",
    "ColumnFrame",
    "Integers",
    "Weights",
    "alike",
    "ask_columns",
    "ask_one_scale",
    "ask_places",
    "ask_scales",
    "column_integers",
    "column_shares",
    "finds_places",
    "own_units",
    "place_integers",
    "places_share",
    "rows_for_columns",
    "scale_integers",
    "scales",
    "scales_share",
    "settled",
    "share_unit",
    "shows_columns",
    "unknown_note",
]

Weights = dict[Purpose, float]
Bools = NDArray[np.bool_]
Integers = NDArray[np.intp]
REACHED = 2.0  # scales to either side of the centre, where columns are clipped
_BEYOND = 2.0  # times that, where reaches of columns were asked for: a few rows may lie further out
_SCALES_SHARES = 0.12, 0.25  # least and most, beside a main share of 1
_NOISE_OF_PAIRS = 0.01  # noise on a count that is aimed at, as a part of the pairs
_SEEN, _SPIKE = 3.2, 4.0  # deviations that a normal column, or a single cell, must stand out by
_USUAL, _UNUSUAL = 48, 0.4  # half octaves from 1, beyond which they must stand out by so much more
_NEAR, _LESS = 6, 0.5  # half octaves from the typical scale, and how much less may stand out there to be believed
_WINDOWS = (1, 2, 4)  # cells
_SURE = 1.2  # times what a column must stand out by to be known: it is seen clearly
# Times the smallest scale: up to the first, columns seen clearly are given one scale; up to the second, columns in
# which nothing stands out are given theirs. Chosen by `benchmarks/tables.py`, raw and standardised rows.
_ALIKE, _RELATED = 4.5, 9.0
_ABOVE = 14  # half octaves above the deviation where the far end of a column is looked for
_ONE_SCALE_SHARE, _MEAN_SHARE = 0.04, 0.03  # of ε; beside a main share of 1
_FAR_PAIRS = 0.05  # of the pairs, beyond one scale for all columns
_MEDIAN_TO_FAR = 1.4  # times the median length of differences is what few normal ones are longer than
_FILLED = 0.3  # of the pairs, in the best fit of a column
_CLEARLY, _CLEARLY_PURE = 4.0, 10.0  # scales of noise that they have to stand out by
_LOOKS = 9  # for a place, at most
_PLACES_SHARES = 0.02, 0.2, 0.35  # least, and most for δ > 0 and δ = 0, beside a main share of 1
_LEAST_OF_MUCH = 0.06  # least, where single rows count: a column whose place is not found has no variance
_NOISE_OF_PLACES = 0.05  # noise on a count of the last of four looks that is aimed at, as a part of the rows
_FOUR_LOOKS = 6.75  # 1.5 for what else is paid for, times 4.5 for three looks after the first
_NEAR_ZERO = 0.75  # scales
_FINE = 1.0  # scales: the width of the cells that a place is looked for in
_EDGES = np.arange(-8.0, 3.5, 0.5)  # of half octaves, for differences of normal rows, in log2 of their deviation
_NORMAL = 2 * np.diff(ndtr(np.exp2(np.append(_EDGES, 3.5)) * math.sqrt(2)))  # of half differences, deviation √½
_FILTER = _NORMAL / np.linalg.norm(_NORMAL)
_FAR = 1.0  # log2 of the far end of a normal column in deviations of its rows
NORMAL_SCALE = 2.0**_FAR  # deviations of a normal column in its scale


@dataclass(frozen=True)
class ColumnFrame:
    """Columns in their own units. ``frame`` has centre, weights and box; ``known`` tells which columns have a scale.

    ``sizes`` are the counts that scales were found with, and ``reach`` how far out anything stood out in them; None
    where one scale does for all columns. ``far`` is the size that next to no entry exceeds, where it was asked for
    (`questions.reaches`).
    """

    frame: Frame
    scale: Floats
    known: Bools
    sizes: PairCounts | None = None
    reach: Floats | None = None
    far: Floats | None = None


def column_shares(task: Task) -> tuple[Weights, Weights]:
    """(pure, main) shares for `ask_columns`."""
    own, pure, main = own_units(task), Weights(), Weights()
    if own:
        main[Purpose.SCALES] = scales_share(task)
        if single_rows_count(task):
            pure[Purpose.REACHES] = REACHES_SHARE
    elif not isinstance(task.bound, tuple):
        pure[Purpose.SCALES] = _ONE_SCALE_SHARE
    if task.private_center:
        main[Purpose.CENTER] = _MEAN_SHARE
        if _looks_for_places(task):
            main[Purpose.PLACES] = places_share(task)
    return pure, main


def column_integers(d: int) -> int:
    """How many integers with noise `ask_columns` draws at most: cells of histograms, and a mean with a count."""
    return scale_integers(d) + place_integers(d) + d + 1


def scale_integers(d: int) -> int:
    """How many of them `ask_scales` draws."""
    return 2 * d * Sizes.n_cells


def place_integers(d: int) -> int:
    """How many integers with noise `ask_places` draws at most."""
    return d * (Octaves.n_cells + (_LOOKS - 1) * CELLS)


def scales_share(task: Task) -> float:
    """For the looks of `ask_scales`, beside a main share of 1."""
    return _looks_at_scales(task.budget.is_pure) * _scales_share(task)


def _looks_at_scales(pure: bool) -> int:
    """Pure budgets are better spent on one look: two of half the budget have twice its noise each."""
    return 1 if pure else 2


def own_units(task: Task) -> bool:
    """Whether every column gets a unit of its own: unless all are said to share one, or a bound says enough.

    Where rows are too few, a column in which nothing stands out is given as unknown. One unit for all would be that of
    the largest column, and what came out for the others would be noise of its size.
    """
    return not task.same_units and (task.bound is None or shows_columns(task))


def shows_columns(task: Task) -> bool:
    """Whether rows are enough for the scale of a normal column to stand out of the noise, nearly always."""
    if task.same_units or task.n_rows is None:
        return True
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


def places_share(task: Task) -> float:
    """Beside a main share of 1: as much as shows rows that lie a million scales away, within limits."""
    least, *most_of = _PLACES_SHARES
    least = _LEAST_OF_MUCH if single_rows_count(task) else least
    most = most_of[task.budget.is_pure]
    if task.n_rows is None:
        return math.sqrt(least * most)
    wanted = _noise_of_counts(task) / (_NOISE_OF_PLACES * task.n_rows)
    return min(most, max(least, _FOUR_LOOKS * (wanted if task.budget.is_pure else wanted**2)))


def finds_places(task: Task) -> bool:
    """Whether rows are enough for places to stand out of the noise, all rows of a column being in two cells."""
    if task.n_rows is None:
        return True
    noise = _noise_of_counts(task) / _precision_of(task.budget, places_share(task) / 3)
    noise *= math.sqrt(2) if task.budget.is_pure else 1.0
    return stands_out(task.n_features * Octaves.n_cells, not task.budget.is_pure) * noise < task.n_rows / 2


def ask_columns(
    curator: Curator, task: Task, costs: Mapping[Purpose, Cost], count: float, holes: Holes | None = None
) -> ColumnFrame:
    """The frame of columns in their own units, or in one that they share; ``count`` rows, public or released."""
    d = task.n_features
    own, sizes, reach, placed = own_units(task), None, None, np.ones(d, dtype=bool)
    if own:
        scale, known, seen, reach = _ask_sizes(curator, task, costs)
        sizes = PairCounts(seen.counts, np.broadcast_to(seen.deviation, d), max(1.0, count / 2))
    elif isinstance(task.bound, tuple):
        scale, known = (task.bound[1] - task.bound[0]) / 2, np.ones(d, dtype=bool)
    else:
        plain = Frame(d, missing=task.missing)
        scale, known = ask_one_scale(curator, plain, costs[Purpose.SCALES], count), np.ones(d, dtype=bool)
    center = np.zeros(d) if not isinstance(task.center, np.ndarray) else task.center
    if task.private_center and _looks_for_places(task):
        center, placed = ask_places(curator, scale, costs[Purpose.PLACES], task)
        known = known & placed if own else known
    elif task.private_center and isinstance(task.bound, tuple):
        center = task.bound[0] / 2 + task.bound[1] / 2
    frame = _frame(center, scale, known, task, boxed=own)
    if task.private_center:
        cost = costs[Purpose.CENTER]
        question = ClippedMean(Lattice(frame, (REACHED if own else 1.0) * math.sqrt(d)))
        answer = curator.measure(question, purpose=Purpose.CENTER, cost=cost)
        mean = shrunk_mean(answer.mean, answer.error / math.sqrt(d))
        mean = mean if holes is None else holes.mean(mean)
        center = center + np.where(known, np.clip(mean, -REACHED, REACHED), 0.0) * scale
        frame = _frame(center, scale, known, task, boxed=own)
    if Purpose.REACHES not in costs or reach is None:
        return ColumnFrame(frame, scale, known, sizes, reach)
    reaches = ColumnReaches(_frame(center, scale, known, task, boxed=False))
    lengths = curator.measure(reaches, purpose=Purpose.REACHES, cost=costs[Purpose.REACHES])
    known, far = known | (placed & shows_scale(lengths)), scale * lengths
    scale = np.maximum(scale, far / REACHED)
    frame = _frame(center, scale, known, task, boxed=True, times=_BEYOND)
    return ColumnFrame(frame, scale, known, sizes, np.maximum(reach, REACHED * scale), far)


def ask_scales(curator: Curator, task: Task, costs: Mapping[Purpose, Cost]) -> tuple[Floats, Bools]:
    """The scale of every column; and whether it is known."""
    scale, known, _, _ = _look_at_sizes(curator, task, costs, shared=False)
    return scale, known


def _ask_sizes(
    curator: Curator, task: Task, costs: Mapping[Purpose, Cost]
) -> tuple[Floats, Bools, NoisyCounts, Floats]:
    """The same, where columns of one unit get one scale (`alike`); the counts, and how far out anything stood out.

    A column in which nothing did may reach as far as the scale that it is given.
    """
    own, found, sure, counts = _look_at_sizes(curator, task, costs, shared=True)
    scale, known = alike(own, found, sure)
    return scale, known, counts, np.where(found, own, scale)


def _look_at_sizes(
    curator: Curator, task: Task, costs: Mapping[Purpose, Cost], *, shared: bool
) -> tuple[Floats, Bools, Bools, NoisyCounts]:
    """Scales, whether they are known, whether they are seen clearly, and the counts of all looks.

    A second look is for columns in which nothing stood out at first: of fewer columns, so it has less noise.
    ``shared``: there is none where columns will get one scale.
    """
    apart = Frame(task.n_features, pairs=True, missing=task.missing)
    looks = _looks_at_scales(task.budget.is_pure)
    cost = part_of(costs[Purpose.SCALES], looks)
    gaussian, everything = isinstance(cost, GaussianCost), tuple(range(task.n_features))
    first = curator.measure(ColumnCounts(apart, "sizes", everything), purpose=Purpose.SCALES, cost=cost)
    ends = Purpose.REACHES not in costs
    scale, known, sure = scales(first, gaussian, ends=ends)
    missing = np.flatnonzero(~known)
    if looks > 1 and len(missing) and not (shared and share_unit(scale, sure, _RELATED)):
        question = ColumnCounts(apart, "sizes", tuple(map(int, missing)))
        second = curator.measure(question, purpose=Purpose.SCALES, cost=cost)
        both = second.joined(first.counts[missing], first.deviation)
        scale[missing], known[missing], sure[missing] = scales(both, gaussian, ends=ends)
        counts = first.counts.copy()
        counts[missing] = both.counts  # with less noise than is said then
        first = replace(first, counts=counts)
    return scale, known, sure, first


def share_unit(scale: Floats, sure: Bools, apart: float) -> bool:
    """Whether at least half of the columns are seen clearly, and their scales differ by less than this factor."""
    found = scale[sure]
    return 2 * len(found) >= len(scale) and bool(found.max() < apart * found.min())


def alike(scale: Floats, known: Bools, sure: Bools) -> tuple[Floats, Bools]:
    """Scales, and which columns have one, where columns that are seen clearly tell about the others.

    If their scales differ little, all columns get the largest: what noise and cells make of such scales tells nothing.
    If they differ by a little more, columns in which nothing stood out get it. Such a column, an indicator of something
    rare for instance, is likely to have the unit of the others. If it is constant, its variance will not stand out of
    the noise of the last moment, and is given as unknown then.
    """
    if share_unit(scale, sure, _ALIKE):
        return np.where(known, np.maximum(scale, scale[sure].max()), scale[sure].max()), np.ones(len(scale), dtype=bool)
    if share_unit(scale, sure, _RELATED):
        return np.where(known, scale, scale[sure].max()), np.ones(len(scale), dtype=bool)
    return scale, known


def ask_one_scale(curator: Curator, view: Frame, cost: Cost, count: float, *, robust: bool = False) -> Floats:
    """One scale for all framed columns, in their own units: about 2.5 times their root mean square deviation.

    ``robust``: from the median of differences, which outliers do not move far as long as most pairs are free of them;
    only where the number of rows is public (``count`` is not 0).
    """
    apart = replace(view, center=None, pairs=True)
    far, factor = (0.5, _MEDIAN_TO_FAR) if robust and count else (_FAR_PAIRS, 1.0)
    radius = curator.measure(RadiusLeaving(apart, far * count / 2), purpose=Purpose.SCALES, cost=cost)
    return factor * 2 * radius / math.sqrt(view.n_features) * apart.unit


def _frame(center: Floats, scale: Floats, known: Bools, task: Task, *, boxed: bool, times: float = 1.0) -> Frame:
    """Rows in scales from the centre, inside public bounds; a column without a scale is 0."""
    center = np.clip(center, -LARGEST_FACT, LARGEST_FACT)
    lower, upper = task.bound if isinstance(task.bound, tuple) else np.array([[-LARGEST_FACT], [LARGEST_FACT]])
    if task.pairs:
        box = (np.where(known, lower, 0.0), np.where(known, upper, 0.0))
        return Frame(task.n_features, None, 1 / scale, box, pairs=True, missing=task.missing)
    if not boxed:
        given = task.bound if isinstance(task.bound, tuple) else None
        return Frame(task.n_features, center, 1 / scale, given, missing=task.missing)
    reach = np.where(known, times * REACHED * scale, 0.0)
    center = np.clip(center, lower, upper)
    box = (np.maximum(center - reach, lower), np.minimum(center + reach, upper))
    return Frame(task.n_features, center, 1 / scale, box, missing=task.missing)


def scales(sizes: NoisyCounts, gaussian: bool, *, ends: bool = True) -> tuple[Floats, Bools, Bools]:
    """The scale of every column (1 if nothing stands out), from noisy counts of half differences.

    And whether anything stands out, and whether it does so clearly. Without ``ends`` far ends are not looked for: noise
    alone may stand out there.
    """
    counts, noise = sizes.counts, sizes.deviation
    filtered = np.stack([np.correlate(row, _FILTER, mode="valid") for row in counts])
    cells = np.arange(filtered.shape[1]) - round(2 * _EDGES[0])  # of the deviation of normal rows
    # A column of few values fills one cell only; its differences are about three deviations then.
    single = counts[:, np.minimum(cells + 1, counts.shape[1] - 1)] / _SPIKE
    clear = np.maximum(filtered / _SEEN, single) / noise - np.where(np.abs(cells - REACH) > _USUAL, _UNUSUAL, 0.0)
    certain = max(1.0, filtered_stands_out(len(counts), gaussian) / _SEEN)
    sure = clear.max(axis=1) > max(_SURE, certain)
    middle, known = cells[np.argmax(clear, axis=1)], clear.max(axis=1) > certain
    if not gaussian and known.any():  # noise may stand out far from the others, more than what the column has near them
        off = np.abs(cells - np.median(middle[known]))
        near = np.where(off <= _NEAR, clear, -math.inf)
        best = np.argmax(near, axis=1)
        nearer = near.max(axis=1) > np.maximum(certain, _LESS * clear.max(axis=1))
        middle = np.where(
            nearer & (off[best] < _NEAR), cells[best], middle
        )  # at the end, it is a part of what is beyond
    normal = np.exp2((middle - REACH) / 2 + _FAR)
    above = middle[:, None] + np.arange(1, _ABOVE)  # cells that may hold the far end
    limit = stands_out(above.size * len(_WINDOWS), gaussian, FALSE_END) * noise
    highest = np.full(len(counts), -1)
    first = max(_WINDOWS)
    sums = np.zeros((len(counts), first + counts.shape[1] + _ABOVE))
    sums[:, first:-_ABOVE] = counts
    sums = np.cumsum(sums, axis=1)
    for window in _WINDOWS:  # of tails that are spread over many cells only windows stand out
        tails = np.take_along_axis(sums[:, first:] - sums[:, first - window : -window], above, axis=1)
        seen = (above < counts.shape[1]) & (tails > limit * math.sqrt(window))
        highest = np.maximum(highest, np.where(seen, above - (window - 1), -1).max(axis=1))
    edge = np.where((highest >= 0) & ends, _upper_edge(highest), 0.0)
    return np.where(known, np.maximum(normal, edge), 1.0), known, sure


def _upper_edge(cell: Integers) -> Floats:
    """Of differences, twice the halves that the cell holds."""
    return np.exp2((cell + 1 - REACH) / 2) * 2


def ask_places(curator: Curator, scale: Floats, cost: Cost, task: Task) -> tuple[Floats, Bools]:
    """Where every column lies, to about a quarter of its scale; and whether its place stood out (else about 0)."""
    gaussian, everything, third = isinstance(cost, GaussianCost), tuple(range(len(scale))), part_of(cost, 3)
    view = Frame(len(scale), None, 1 / scale, missing=task.missing)
    counts = curator.measure(ColumnCounts(view, "octaves", everything), purpose=Purpose.PLACES, cost=third)
    fullest, found = _fullest(counts, gaussian)
    away = np.where(found, fullest - OCTAVES, 0)
    width = np.where(away == 0, 2.0, np.exp2(np.abs(away) - 1.0)) * scale
    low = np.where(away > 0, width, np.where(away < 0, -2 * width, -width / 2))
    looks = max(1, math.ceil(math.log(float((width / scale).max()) / _FINE, CELLS) - 1e-9))
    for _ in range(looks):
        cells = np.clip(np.ceil(width / (scale * _FINE) * (1 - 1e-9)), 1, CELLS)
        view = Frame(len(scale), low, cells / width, missing=task.missing)
        each = part_of(sum_of(third, third), looks)
        most = min(CELLS, int(cells.max()) + 1)  # the best cell and its neighbours are looked at
        asked = ColumnCounts(view, "stretch", everything, most)
        counts = curator.measure(asked, purpose=Purpose.PLACES, cost=each)
        width = width / cells
        best = _fullest(counts, gaussian, cells)[0]
        low = low + best * width
    return low + _middle(counts.counts, best) * width, found


def _fullest(counts: NoisyCounts, gaussian: bool, cells: Floats | float = math.inf) -> tuple[Integers, Bools]:
    """The fullest of the first ``cells`` cells of every column, and whether it stands out."""
    real = np.arange(counts.counts.shape[1]) < np.reshape(cells, (-1, 1))
    inside = np.where(real, counts.counts, -math.inf)
    return np.argmax(inside, axis=1), inside.max(axis=1) > stands_out(inside.size, gaussian) * counts.deviation


def _middle(counts: Floats, best: Integers) -> Floats:
    """The mean place of what the best cell and its neighbours hold, in cells from the lower end of the best."""
    near = np.pad(np.maximum(counts, 0.0), ((0, 0), (1, 1)))
    below, inside, above = (np.take_along_axis(near, best[:, None] + step, axis=1)[:, 0] for step in range(3))
    return 0.5 + (above - below) / np.maximum(below + inside + above, 1.0)


def settled(center: Floats, scale: Floats, known: Bools) -> Floats:
    """The places of columns, 0 for those of which nothing else is known and in whose cell, or beside it, 0 lies.

    A column in which nothing stands out has one value in nearly all rows, which is anywhere in its cell. Mostly it is
    a rare indicator or count, so that value is 0.
    """
    return np.where(~known & (np.abs(center) <= _NEAR_ZERO * scale), 0.0, center)


NOTHING_SEEN, NO_CELLS = "Nothing stood out of the noise in column(s)", "Hardly any cell could be read in column(s)"


def unknown_note(columns: list[int], missing: Floats | None = None) -> tuple[str, ...]:
    """For a release that could not find the scales of these columns; ``missing`` are shares of missing cells."""
    empty = [column for column in columns if missing is not None and missing[column] > NEARLY_ALL]
    others = [column for column in columns if column not in empty]
    given = "Their variances and covariances are given as 0, which says nothing about them."
    said = (
        (empty, NO_CELLS, "nearly all of their cells are missing or do not fit the declared type."),
        (others, NOTHING_SEEN, "constant, or too rare for this budget."),
    )
    return tuple(f"{start} {_listed(which)} (counted from 0): {why} {given}" for which, start, why in said if which)


def _listed(columns: list[int]) -> str:
    return ", ".join(map(str, columns[:20])) + (", …" if len(columns) > 20 else "")
