"""A private radius: the first grid radius that holds about 95% (or half) of the rows, a little less when they are few.
Pure ε-DP, exact integers.

Guarantee. This is the sparse-vector technique with one answer (Lyu, Su, Li 2017) over cumulative counts on a fixed
geometric grid (`stats.norms`), scanned from the smallest radius up, with discrete Laplace noise on the threshold and
on every count; all noise is drawn before the scan, which never stops early, so its time says nothing. Replacing one
row moves all counts in one direction by at most 1 (monotone queries): noise 2/ε on both. Adding or removing one moves
20·count − 19·n up by at most 1 and down by at most 19, or the reverse: noise 39/ε on both. Proof, for an answer j and
queries that rise by at most a and fall by at most b: shift the threshold noise by a; each earlier query then stays
below at least as often, and query j passes when its own noise is shifted by at most a + b. With noise s on both that
costs (2a + b)/s: ε/2 + ε/2 for (a, b) = (1, 0), less for (0, 1), and at most 19 + 20 = 39 for (1, 19) and (19, 1).
`radius_but` asks for the number of rows outside instead: one row moves it by at most 1 and in one direction for all
radii, whether it is replaced, added or removed, so noise 2/ε is enough for both relations.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpeigen._validate import complain
from dpeigen.methods.base import Task
from dpeigen.privacy import Cost, PureCost, Randomness, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.sources import Source
from dpeigen.stats import NormHistogram
from dpeigen.stats.frame import RowView
from dpeigen.stats.norms import GRID

KEEP, OUT_OF = 19, 20  # the quantile, as a fraction of integers
PLENTY = 24  # times the rows that a radius needs: from there on its share shrinks, and 1.2% of rows are its slack


def private_radius(
    source: Source,
    view: RowView,
    cost: Cost,
    relation: Relation,
    rng: Randomness,
    within: slice = slice(None),
    *,
    half: bool = False,
) -> float:
    """A radius on the grid, or ``within`` a public part of it; costs ``cost``. ``half``: the median (replacement)."""
    if half and relation is not Relation.REPLACE:
        raise AssertionError("the proof for the median is for a public number of rows")
    scale, grid = noise_scale(cost, relation), GRID[within]
    threshold_noise, noise = (
        int(rng.discrete_laplace(scale, 1)[0]),
        rng.discrete_laplace(scale, len(grid)),
    )
    histogram = source.reduce(NormHistogram(view))
    if relation is Relation.REPLACE:
        margins = histogram.cumulative - _target(histogram.count, half)  # n is public here
    else:
        margins = OUT_OF * histogram.cumulative - KEEP * histogram.count
    return _first_passed(grid, margins[within] + slack(cost, relation), noise, threshold_noise)


def radius_but(histogram: NormHistogram, outside: float, cost: Cost, rng: Randomness) -> float:
    """The first grid radius that about ``outside`` rows are longer than, a public or released number; costs ``cost``.

    Never fewer than five noise scales, for the reason that `slack` gives.
    """
    scale = math.nextafter(2 / pure_epsilon(cost), math.inf)
    threshold_noise = int(rng.discrete_laplace(scale, 1)[0])
    noise = rng.discrete_laplace(scale, len(GRID))
    allowed = max(math.floor(outside), math.ceil(5 * scale))
    return _first_passed(GRID, allowed - (histogram.count - histogram.cumulative), noise, threshold_noise)


def _first_passed(
    grid: NDArray[np.float64], margins: NDArray[np.int64], noise: NDArray[np.int64], threshold_noise: int
) -> float:
    """The first radius whose noisy margin reaches the noisy threshold, else the last; all of them are looked at."""
    passed = margins + noise >= threshold_noise
    return float(grid[np.argmax(passed)] if passed.any() else grid[-1])


def _target(count: int, half: bool) -> int:
    return math.ceil(count / 2) if half else math.ceil(count * KEEP / OUT_OF)


def noise_scale(cost: Cost, relation: Relation) -> float:
    """Of the noise on the threshold and on every count; public."""
    factor = 2 if relation is Relation.REPLACE else KEEP + OUT_OF
    return math.nextafter(factor / pure_epsilon(cost), math.inf)


def slack(cost: Cost, relation: Relation) -> int:
    """By how much the threshold is lowered: five noise scales, a public number.

    A radius that holds every row is then passed over with probability below 2%, and four times it below 1e-3; without
    this, few rows and an unlucky threshold could let the scan run on to an absurd radius.
    """
    return math.ceil(5 * noise_scale(cost, relation))


def rows_needed(cost: Cost, *, half: bool = False) -> int:
    """Rows (or pairs) from which on the counts stand out of the noise, under replacement.

    A radius that holds no row is taken with probability at most about e^−5.
    """
    scale = noise_scale(cost, Relation.REPLACE)
    return math.ceil(
        (scale * (math.log(len(GRID)) + 5) + slack(cost, Relation.REPLACE)) * (2 if half else OUT_OF / KEEP)
    )


def radius_share(
    task: Task, usual: float, *, most: float | None = None, half: bool = False, plenty: int = PLENTY
) -> float:
    """The fraction of ε for a radius; public.

    It is ``usual``, less (to an eighth) where there are more than ``plenty`` times the rows needed, and more (up to
    ``most``) where they would not do. A smaller share finds a smaller radius: its slack is a larger part of the rows.
    """
    if task.n_terms is None:
        return usual
    enough = rows_needed(PureCost(usual * task.budget.epsilon), half=half) / task.n_terms * usual
    if enough > usual / 1.5 and most is not None:
        return min(most, 1.5 * enough)
    return min(usual, max(usual / 8, plenty * enough))


def check_enough_rows(n_terms: int | None, cost: Cost, owner: str, *, half: bool = False) -> None:
    """Refuse, where n is public, when the noise would drown the counts; spends nothing."""
    needed = rows_needed(cost, half=half)
    if n_terms is not None and n_terms < needed:
        remedy = f"A private radius needs at least {needed} rows (or pairs) here: raise epsilon or give a bound."
        raise ValueError(complain("bound", owner, "public for so few rows", f"{n_terms} rows (or pairs)", remedy))
