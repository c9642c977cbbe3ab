"""Private standardisation of the columns: z = (x − c)/s, whatever their units and origins.

Guarantee: only answers that are paid for are used (`questions.columns`, `questions.mean`).

1. The scale of every column, whatever its location (`methods.column_scales`).
2. Its location, in units of that scale (`methods.places`).
3. The mean of rows clipped to two scales about that location.

Everything that follows uses z. The larger rows × ε, the fewer rows are enough to stand out, and the fewer are clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Bools, Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Task
from dpeigen.methods.column_scales import ask_one_scale, ask_sizes, looks_at_scales, scale_integers
from dpeigen.methods.found_columns import SCALES_SHARES, noise_of_counts, precision_of, shows_columns
from dpeigen.methods.holes import NEARLY_ALL, Holes
from dpeigen.methods.large import REACHES_SHARE, single_rows_count
from dpeigen.methods.places import ask_places, place_integers
from dpeigen.methods.task import Box
from dpeigen.privacy import Cost
from dpeigen.questions import ClippedMean, ColumnReaches, shows_scale
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.columns import Octaves
from dpeigen.stats.frame import LARGEST_FACT
from dpeigen.stats.standing_out import stands_out
from dpeigen.stats.tails import PairCounts
from dpeigen.stats.whitening import shrunk_mean

__all__ = [
    "NOTHING_SEEN",
    "NO_CELLS",
    "REACHED",
    "ColumnFrame",
    "Weights",
    "ask_columns",
    "column_integers",
    "column_shares",
    "finds_places",
    "own_units",
    "places_share",
    "rows_for_columns",
    "scales_share",
    "unknown_note",
]

Weights = dict[Purpose, float]
REACHED = 2.0  # scales on either side of the centre, to which columns are clipped
_BEYOND = 2.0  # a factor on that if a few rows may be further out: reaches were measured, or δ = 0 hides far ends
_NOISE_OF_PAIRS = 0.01  # target for the noise on a count, as a fraction of the pairs
_ONE_SCALE_SHARE, _MEAN_SHARE = 0.04, 0.03  # of ε; beside a main share of 1
_PLACES_SHARES = 0.02, 0.2, 0.35  # least, and most for δ > 0 and δ = 0, beside a main share of 1
_LEAST_OF_MUCH = 0.06  # least, if single rows matter: a column without a location has no variance
_NOISE_OF_PLACES = 0.05  # target for the noise on a count in the last of four measurements, as a fraction of the rows
_FOUR_LOOKS = 6.75  # 1.5 for the other shares, times 4.5 for three measurements after the first


@dataclass(frozen=True)
class ColumnFrame:
    """Columns in their own units. ``frame`` has centre, weights and box; ``known``: which columns have a scale.

    ``sizes`` are the counts from which scales were estimated, and ``reach`` the largest sizes found in them; both are
    None if all columns share one scale. ``far`` is the size that almost no entry exceeds, if it was measured
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
    """The most noisy integers that `ask_columns` draws: cells of histograms, and a mean with a count."""
    return scale_integers(d) + place_integers(d) + d + 1


def scales_share(task: Task) -> float:
    """The share for the measurements of `ask_scales`, beside a main share of 1."""
    return looks_at_scales(task.budget.is_pure) * _scales_share(task)


def own_units(task: Task) -> bool:
    """Whether every column gets its own unit: unless all are declared to share one, or a bound is enough.

    If there are too few rows, a column whose scale is not found is reported as unknown. With one unit for all, it would
    be that of the largest column, and the results for the others would be noise of that size.
    """
    return not task.same_units and (task.bound is None or shows_columns(task))


def rows_for_columns(task: Task) -> float:
    """The number of rows that is enough for `ask_columns`, so that noise on a count is a small part of the pairs."""
    return (
        2
        * noise_of_counts(task.n_features, task.budget)
        / precision_of(task.budget, _scales_share(task))
        / _NOISE_OF_PAIRS
    )


def _looks_for_places(task: Task) -> bool:
    """Whether locations are measured: unless columns have public bounds and no own units; then the middle is used."""
    return own_units(task) or not isinstance(task.bound, tuple)


def _scales_share(task: Task) -> float:
    """The share, beside a main share of 1, that makes the noise on a count a small part of the pairs, within limits."""
    least, most = SCALES_SHARES
    if task.n_rows is None:
        return math.sqrt(least * most)
    wanted = noise_of_counts(task.n_features, task.budget) / (_NOISE_OF_PAIRS * task.n_rows / 2)
    return min(most, max(least, wanted if task.budget.is_pure else wanted**2))


def places_share(task: Task) -> float:
    """The share, beside a main share of 1, that is enough to find rows a million scales away, within limits."""
    least, *most_of = _PLACES_SHARES
    least = _LEAST_OF_MUCH if single_rows_count(task) else least
    most = most_of[task.budget.is_pure]
    if task.n_rows is None:
        return math.sqrt(least * most)
    wanted = noise_of_counts(task.n_features, task.budget) / (_NOISE_OF_PLACES * task.n_rows)
    return min(most, max(least, _FOUR_LOOKS * (wanted if task.budget.is_pure else wanted**2)))


def finds_places(task: Task) -> bool:
    """Whether there are enough rows to find locations, if all rows of a column are in two cells."""
    if task.n_rows is None:
        return True
    noise = noise_of_counts(task.n_features, task.budget) / precision_of(task.budget, places_share(task) / 3)
    noise *= math.sqrt(2) if task.budget.is_pure else 1.0
    return stands_out(task.n_features * Octaves.n_cells, not task.budget.is_pure) * noise < task.n_rows / 2


def ask_columns(
    curator: Curator, task: Task, costs: Mapping[Purpose, Cost], count: float, holes: Holes | None = None
) -> ColumnFrame:
    """The frame of columns in their own or a common unit. ``count``: the number of rows, public or released."""
    d = task.n_features
    own, sizes, reach, placed = own_units(task), None, None, np.ones(d, dtype=bool)
    if own:
        scale, known, seen, reach = ask_sizes(curator, task, costs)
        sizes = PairCounts(seen.counts, np.broadcast_to(seen.deviation, d), max(1.0, count / 2))
    elif isinstance(task.bound, tuple):
        scale, known = (task.bound[1] - task.bound[0]) / 2, np.ones(d, dtype=bool)
    else:
        plain = Frame(d, missing=task.missing)
        scale, known = ask_one_scale(curator, plain, costs[Purpose.SCALES], count, task), np.ones(d, dtype=bool)
    center = np.zeros(d) if not isinstance(task.center, np.ndarray) else task.center
    if task.private_center and _looks_for_places(task):
        center, placed = ask_places(curator, scale, costs[Purpose.PLACES], task)[:2]
        known = known & placed if own else known
    elif task.private_center and isinstance(task.bound, tuple):
        center = task.bound[0] / 2 + task.bound[1] / 2
    hidden = _BEYOND if task.budget.is_pure and not single_rows_count(task) else 1.0
    if task.private_center:
        frame, cost = _frame(center, scale, known, task, boxed=own), costs[Purpose.CENTER]
        question = ClippedMean(Lattice(frame, (REACHED if own else 1.0) * math.sqrt(d)))
        answer = curator.measure(question, purpose=Purpose.CENTER, cost=cost)
        mean = shrunk_mean(answer.mean, answer.error / math.sqrt(d))
        mean = mean if holes is None else holes.mean(mean)
        center = center + np.where(known, np.clip(mean, -REACHED, REACHED), 0.0) * scale
    purpose = Purpose.ROUGH_REACHES if task.set_aside else Purpose.REACHES
    if purpose not in costs or reach is None:
        return ColumnFrame(_frame(center, scale, known, task, boxed=own, times=hidden), scale, known, sizes, reach)
    reaches = ColumnReaches(_frame(center, scale, known, task, boxed=False))
    lengths = curator.measure(reaches, purpose=purpose, cost=costs[purpose])
    known, far = known | (placed & shows_scale(lengths)), scale * lengths
    scale = np.maximum(scale, far / REACHED)
    reach = np.maximum(reach, REACHED * scale)
    if task.set_aside:  # rows further out are counted later
        return ColumnFrame(_frame(center, scale, known, task, boxed=True, times=hidden), scale, known, sizes, reach)
    frame = _frame(center, scale, known, task, boxed=True, times=_BEYOND)
    return ColumnFrame(frame, scale, known, sizes, reach, far)


def _frame(center: Floats, scale: Floats, known: Bools, task: Task, *, boxed: bool, times: float = 1.0) -> Frame:
    """The frame of rows in scales from the centre, inside public bounds; a column without a scale is 0."""
    center = np.clip(center, -LARGEST_FACT, LARGEST_FACT)
    lower, upper = _limits(task)
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


def _limits(task: Task) -> Box:
    """The public limits of entries: bounds of columns, or a radius about the public centre, else about 0."""
    if isinstance(task.bound, tuple):
        return task.bound
    if not isinstance(task.bound, float) or task.pairs:  # a radius for differences of rows does not limit entries
        return np.array([-LARGEST_FACT]), np.array([LARGEST_FACT])
    about = task.center if isinstance(task.center, np.ndarray) else np.zeros(task.n_features)
    return np.maximum(about - task.bound, -LARGEST_FACT), np.minimum(about + task.bound, LARGEST_FACT)


NOTHING_SEEN, NO_CELLS = "Nothing stood out of the noise in column(s)", "Hardly any cell could be read in column(s)"


def unknown_note(columns: list[int], missing: Floats | None = None) -> tuple[str, ...]:
    """A note for a release in which these columns have no scale; ``missing``: fractions of missing cells."""
    empty = [column for column in columns if missing is not None and missing[column] > NEARLY_ALL]
    others = [column for column in columns if column not in empty]
    return tuple(
        f"{start} {_listed(which)} (counted from 0): {_why_unknown(start, one=len(which) == 1)}"
        for which, start in ((empty, NO_CELLS), (others, NOTHING_SEEN))
        if which
    )


def _why_unknown(start: str, *, one: bool) -> str:
    """Why nothing is known of one or several columns, and what is given for them."""
    whose, variances, them = ("its", "Its variance", "it") if one else ("their", "Their variances", "them")
    cells = f"nearly all of {whose} cells are missing or do not fit the declared type."
    why = cells if start == NO_CELLS else "constant, rare, or too few rows for this budget."
    return f"{why} {variances} and covariances are given as 0, which says nothing about {them}."


def _listed(columns: list[int]) -> str:
    return ", ".join(map(str, columns[:20])) + (", …" if len(columns) > 20 else "")
