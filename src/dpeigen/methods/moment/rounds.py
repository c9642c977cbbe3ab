"""The rounds of `whitened`: rough second moments that tell which map makes all directions equally long.

Guarantee: nothing is read here but answers that are paid for (`questions.moment`, `questions.rough`), all from one
share of the budget. How many rounds there are depends on public facts and on what was released.
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
_REACH = 1.6  # of rows in a round, relative to their root mean square
POWERS = (0.5, 1.0)  # of the whitening map that are tried, beside none
_BETTER = 0.8  # of the noise that maps were judged to leave: a round that does not get there is the last
_SHORTER = 0.7  # of a radius: rows that got so much shorter may show more in another round
_USELESS = 0.2  # noise of a round, relative to what it looks at, from which on more rounds see nothing new
_RESOLVED = 4.0  # times the noise: levels above this were seen
_WORTH_SAMPLING = 0.6  # of the rows: larger parts save little


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
    """The frame about a better centre, rough covariances in it, and a map that makes all directions equally long.

    Directions are seen one after the other, the longest first. Along a short one the centre has to be found again:
    it was good for the long ones only. The covariances are those of the first round, which clips least, and of the
    last, which sees most.
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
        found, noise = seen.second, seen.deviation  # not shrunk: that draws eigenvalues together
        if seen.mean is not None and frame.center is not None:
            mean = shrunk_mean(seen.mean, noise / seen.weight)
            off = back @ mean if holes is None else holes.mean(back @ mean)
            frame = replace(frame, center=frame.center + frame.unit * off)
        levels, basis, factors = whitening(found, noise)
        latest = back @ (basis.T * levels) @ basis @ back.T
        clipped = np.diag(latest) < LEFT * floor / frame.unit**2
        if clipped.any():  # few rows make the variance of a column, and were clipped: its scale says more
            latest[clipped, clipped] = (floor / frame.unit**2)[clipped]
            levels, basis, factors = whitening(turn @ latest @ turn.T, noise)
        found_so_far.append(latest)
        turn = (factors[:, None] * basis) @ turn
        # All directions are as long as the shortest now; sums of numbers of very different size may lose that.
        view, size = turned_by(frame, turn)
        least, most = d * float(levels.min()) / size**2, longest(found, basis, factors, noise) / size**2
        turn, back = view.factors[:, None] * view.directions, view.directions.T / view.factors
        trace = min(most, max(least, float(quadratic_forms(turn, latest).sum())))
        before, radius = radius, min(radius, _REACH * math.sqrt(trace))  # rows only get shorter
        if not resolved and radius > _SHORTER * before:
            break  # noise hides the rest, unless a few long directions were all that it was made of
        if levels.min() > _RESOLVED * noise * 2 * math.sqrt(d) or levels.max() < 2 * levels.min():
            break  # every direction was seen, or nothing more
        if resolved and leading(task):
            figure = _least_noise(task, view, latest)
            if figure > _BETTER * best:
                break  # short directions matter little to those that are asked for
            best = figure
    return frame, found_so_far[0], found_so_far[-1], turn


def judge(task: Task, unit: Floats, rough: Floats, sampling: float = 0.0) -> Callable[[float, Floats], float]:
    """What a map is judged by: the directions that are asked for, in raw units, or all of them and all correlations.

    ``sampling``: errors of a table of random rows, relative to the noise on a moment of rows of length 1.
    """
    k = task.n_components
    if k is None or not leading(task):
        return noise_left(rough, sampling)
    across = noise_across(rough * np.outer(unit, unit), k)
    return lambda radius, back: across(radius, unit[:, None] * back)


def _least_noise(task: Task, view: WhitenedRows, rough: Floats) -> float:
    """What the best map would leave, as it is judged, before any radius is known."""
    judged = judge(task, view.frame.unit, rough)
    maps = [np.eye(len(rough)), *(back for _, back in powers_of(view, *POWERS))]
    return min(judged(row_length(back, rough), back) for back in maps)


def noise_of_round(task: Task, costs: Mapping[Purpose, Cost], count: float) -> float:
    """What a round adds to an eigenvalue of rows that are about equally long in all directions, relative to it."""
    d, cost = task.n_features, part_of(costs[Purpose.FIRST_MOMENT], ROUNDS)
    return d**1.5 * _REACH**2 * law_of(task).deviation(d, cost, task.relation) / count


def resolves(task: Task, costs: Mapping[Purpose, Cost], count: float) -> bool:
    """Whether a round sees more than noise, so that another one may see more."""
    return noise_of_round(task, costs, count) < _USELESS


def enough_rows(task: Task, costs: Mapping[Purpose, Cost], least: int) -> float:
    """Which part of the rows is enough for all but the last moment; 1 where that saves little."""
    if task.n_terms is None:
        return 1.0
    enough, noise = max(least, rows_for_columns(task)), noise_of_round(task, costs, task.n_terms)
    if noise < _USELESS:
        enough = max(enough, task.n_terms * noise / (_USELESS / 2))
    share = enough / task.n_terms
    return share if share < _WORTH_SAMPLING else 1.0


def enough_for_columns(task: Task, share: float, least: int) -> float:
    """Which part of a sample, or of all rows, is enough for the columns alone; 1 where that saves little."""
    if task.n_terms is None:
        return 1.0
    part = max(least, rows_for_columns(task)) / (share * task.n_terms)
    return part if part < _WORTH_SAMPLING else 1.0
