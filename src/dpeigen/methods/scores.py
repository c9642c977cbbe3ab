"""Mean squares of bounded scores, paid for.

Guarantee: worth its cost for every data set. The scores are lattice rows of radius r (`stats.lattice`); the sums of
their squares, column by column, have ℓ2 sensitivity √2·r² (replace) or r² (add/remove), ℓ1 2·r² or r². Exact discrete
noise. Under addition and removal the number of rows is released along with them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods.base import Task, public_count
from dpeigen.privacy import Cost, Randomness, Relation, gaussian_mu
from dpeigen.privacy.noise import perturb, perturb_with_count
from dpeigen.sources import Source
from dpeigen.stats import Lattice, SquareSums
from dpeigen.stats.lattice import LEVELS

Floats = NDArray[np.float64]
_COUNT_UNIT = LEVELS**2 // 4


def variance_share(task: Task) -> float:
    """The weight of the variances beside one of 1 for everything: less where rows are plenty; public.

    Noise moves a variance by √2·r²/(n·μ) or 2√2·r²/(n·ε) over the share, r² some fifteen times a variance; that is to
    stay below a tenth of it. A whole covariance needs its variances as much as its directions.
    """
    if task.n_components is None or task.n_terms is None:
        return 0.3
    if task.budget.is_pure:
        return min(0.15, max(0.05, 425 / (task.n_terms * task.budget.epsilon)))
    return min(0.15, max(0.05, (210 / (task.n_terms * gaussian_mu(task.budget.epsilon, task.budget.delta))) ** 2))


def clipped_squares(
    source: Source, lattice: Lattice, cost: Cost, relation: Relation, rng: Randomness
) -> tuple[Floats, float]:
    """Mean squares of the columns in framed units, and the number of terms, public or released."""
    sums = source.reduce(SquareSums(lattice))
    reach, area = float(LEVELS**2), lattice.step**2
    if relation is Relation.REPLACE:
        count = public_count(sums.count, lattice.frame.rows_per_term)
        noisy = perturb(sums.squares, cost, l2=math.sqrt(2) * reach, l1=2 * reach, rng=rng)
    else:
        noisy, count = perturb_with_count(sums.squares, sums.count, cost, l2=reach, l1=reach, unit=_COUNT_UNIT, rng=rng)
    return noisy.astype(np.float64) * (area / count), count
