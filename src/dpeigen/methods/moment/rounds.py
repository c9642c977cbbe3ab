"""The rounds of `whitened`: rough second moments, from which the map that equalises all directions is found.

Guarantee: only answers that are paid for are used (`questions.moment`, `questions.rough`), all from one share of the
budget. The number of rounds depends on public facts and releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.curator.costs import part_of
from dpeigen.methods.base import Task
from dpeigen.methods.columns import rows_for_columns
from dpeigen.methods.holes import Holes
from dpeigen.methods.large import leading
from dpeigen.methods.moment.lengths import LEFT
from dpeigen.methods.moment.reach import longest, row_length
from dpeigen.methods.moment.turned import ask_moment, law_of, powers_of, turned_by
from dpeigen.privacy import Cost
from dpeigen.stats import Frame
from dpeigen.stats.stretch import WhitenedRows
from dpeigen.stats.whitening import noise_across, noise_left, quadratic_forms, shrunk_mean, whitening

__all__ = ["POWERS", "ROUNDS", "ask_rounds", "enough_for_columns", "enough_rows", "judge", "noise_of_round", "resolves"]

ROUNDS = 7  # at most
_REACH = 1.6  # radius of a round, relative to the root mean square of rows
POWERS = (0.5, 1.0)  # of the whitening map that are tried, besides no map
_BETTER = 0.8  # relative to the best judged noise so far: a round that does not get below it is the last
_SHORTER = 0.7  # of a radius: if rows became this much shorter, another round may find more, even in much noise
_STILL = 0.98  # the same where noise hides little: the next round would have the same noise (`benchmarks/rounds.py`)
_USELESS = 0.2  # noise of a round, relative to an eigenvalue, above which more rounds find nothing new
_RESOLVED = 4.0  # times the noise: eigenvalues above this are resolved
_WORTH_SAMPLING = 0.6  # of the rows: larger samples save little


def ask_rounds(
    curator: Curator,
    frame: Frame,
    radius: float,
    count: float,
    costs: Mapping[Purpose, Cost],
    task: Task,
    holes: Holes | None,
    floor: Floats,
) -> tuple[Frame, Floats, Floats, Floats]:
    """The frame about a better centre, rough covariances in it, and a map that gives all directions the same variance.

    Directions are found one after the other, the longest first. Along a short one the centre must be measured again:
    it was only accurate for the long ones. The covariances are those of the first round, which clips least, and of the
    last, which resolves most.
    """
    d = task.n_features
    each = {Purpose.FIRST_MOMENT: part_of(costs[Purpose.FIRST_MOMENT], ROUNDS)}
    view: Frame | WhitenedRows = frame
    turn: Floats = np.eye(d)
    back = turn
    found_so_far: list[Floats] = []
    best = math.inf
    resolved = resolves(task, costs, count)
    for _ in range(ROUNDS):
        seen = ask_moment(curator, view, radius, count, Purpose.FIRST_MOMENT, each, task, rough=True)
        found, noise = seen.second, seen.deviation  # not shrunk, since shrinking draws eigenvalues together
        if seen.mean is not None and frame.center is not None:
            mean = shrunk_mean(seen.mean, noise / seen.weight)
            off = back @ mean if holes is None else holes.mean(back @ mean)
            frame = replace(frame, center=frame.center + frame.unit * off)
        levels, basis, factors = whitening(found, noise)
        latest = back @ (basis.T * levels) @ basis @ back.T
        clipped = np.diag(latest) < LEFT * floor / frame.unit**2
        if clipped.any():  # few rows make up the variance of a column and were clipped: its scale is more reliable
            latest[clipped, clipped] = (floor / frame.unit**2)[clipped]
            levels, basis, factors = whitening(turn @ latest @ turn.T, noise)
        found_so_far.append(latest)
        turn = (factors[:, None] * basis) @ turn
        # All directions are now as long as the shortest; rounding in sums of very different sizes may violate that.
        view, size = turned_by(frame, turn)
        least, most = d * float(levels.min()) / size**2, longest(found, basis, factors, noise) / size**2
        turn, back = view.factors[:, None] * view.directions, view.directions.T / view.factors
        trace = min(most, max(least, float(quadratic_forms(turn, latest).sum())))
        before, radius = radius, min(radius, _REACH * math.sqrt(trace))  # rows only get shorter
        if radius > (_STILL if resolved else _SHORTER) * before:
            break  # noise hides the rest, unless it only came from a few long directions
        if levels.min() > _RESOLVED * noise * 2 * math.sqrt(d) or levels.max() < 2 * levels.min():
            break  # every direction was resolved, or nothing more can be
        if resolved and leading(task):
            figure = _least_noise(task, view, latest)
            if figure > _BETTER * best:
                break  # short directions matter little for the ones asked for
            best = figure
    return frame, found_so_far[0], found_so_far[-1], turn


def judge(task: Task, unit: Floats, rough: Floats, sampling: float = 0.0) -> Callable[[float, Floats], float]:
    """The criterion for maps: the noise on the directions asked for, in raw units, or on all of them and correlations.

    ``sampling``: sampling error of a table of random rows, relative to the noise on a moment of rows of norm 1.
    """
    k = task.n_components
    if k is None or not leading(task):
        return noise_left(rough, sampling)
    across = noise_across(rough * np.outer(unit, unit), k)
    return lambda radius, back: across(radius, unit[:, None] * back)


def _least_noise(task: Task, view: WhitenedRows, rough: Floats) -> float:
    """The noise that the best map would leave by `judge`, before any radius is known."""
    judged = judge(task, view.frame.unit, rough)
    maps = [np.eye(len(rough)), *(back for _, back in powers_of(view, *POWERS))]
    return min(judged(row_length(back, rough), back) for back in maps)


def noise_of_round(task: Task, costs: Mapping[Purpose, Cost], count: float) -> float:
    """The noise of a round on an eigenvalue, relative to it, for rows with about equal variances in all directions."""
    d, cost = task.n_features, part_of(costs[Purpose.FIRST_MOMENT], ROUNDS)
    return d**1.5 * _REACH**2 * law_of(task).deviation(d, cost, task.relation) / count


def resolves(task: Task, costs: Mapping[Purpose, Cost], count: float) -> bool:
    """Whether a round shows more than noise, so that another one may show more."""
    return noise_of_round(task, costs, count) < _USELESS


def enough_rows(task: Task, costs: Mapping[Purpose, Cost], least: int) -> float:
    """The share of the rows that is enough for all measurements except the last moment; 1 if sampling saves little."""
    if task.n_terms is None:
        return 1.0
    enough, noise = max(least, rows_for_columns(task)), noise_of_round(task, costs, task.n_terms)
    if noise < _USELESS:
        enough = max(enough, task.n_terms * noise / (_USELESS / 2))
    share = enough / task.n_terms
    return share if share < _WORTH_SAMPLING else 1.0


def enough_for_columns(task: Task, share: float, least: int) -> float:
    """The share of a sample, or of all rows, that is enough for the columns alone; 1 if sampling saves little."""
    if task.n_terms is None:
        return 1.0
    part = max(least, rows_for_columns(task)) / (share * task.n_terms)
    return part if part < _WORTH_SAMPLING else 1.0
