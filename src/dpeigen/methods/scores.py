"""Mean squares of bounded scores, paid for.

Guarantee: worth its cost for every data set. The scores are lattice rows of radius r (`stats.lattice`); the sums of
their squares, column by column, have ℓ2 sensitivity √2·r² (replace) or r² (add/remove), ℓ1 2·r² or r². Exact discrete
noise. Under addition and removal the number of rows is released along with them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods.base import public_count
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.noise import perturb, perturb_with_count
from dpeigen.sources import Source
from dpeigen.stats import Lattice, SquareSums
from dpeigen.stats.lattice import LEVELS

Floats = NDArray[np.float64]
_COUNT_UNIT = LEVELS**2 // 4


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
