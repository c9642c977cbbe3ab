"""A private centre when no bound is known: two rounds of "find a radius, take the clipped mean".

Guarantee: the composition of its spends, for every data set. Each round pays for a radius about the present centre
(`methods.radius`) and for the mean of the rows clipped to it: Σz on the lattice has ℓ2 sensitivity 2·L (replace) or L
(add/remove) and √d times that in ℓ1; exact discrete noise. The first round finds where the data are, the
second measures the centre at the scale of their spread. With a public bound, one round without radii is enough.
After Biswas, Dong, Kamath, Ullman 2020 (CoinPress), with a worst-case guarantee.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods.base import Task, public_count
from dpeigen.methods.radius import private_radius
from dpeigen.privacy import Cost, GaussianCost, Randomness, Relation
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.noise import perturb, perturb_with_count
from dpeigen.sources import Source
from dpeigen.stats import Frame, Lattice, RowSums
from dpeigen.stats.frame import LARGEST_FACT
from dpeigen.stats.lattice import LEVELS

Floats = NDArray[np.float64]
_ROW_UNIT = int(LEAST_SENSITIVITY) // LEVELS  # sums are multiplied by this
_COUNT_UNIT = int(LEAST_SENSITIVITY) // 4


def center_shares(task: Task) -> tuple[dict[str, float], dict[str, float]]:
    """(pure, main) shares for `private_center`, to be joined to a method's own for `allocate`."""
    if isinstance(task.bound, (float, tuple)):
        return {}, {"centre": 0.2}
    radii = {"radius for the first centre": 0.04, "radius for the centre": 0.04}
    return radii, {"first centre": 0.1, "centre": 0.2}


def private_center(
    source: Source,
    frame: Frame,
    radius: float | None,
    costs: dict[str, Cost],
    relation: Relation,
    rng: Randomness,
) -> tuple[Floats, float]:
    """A centre in the data's own units, and the expected length of its noise in framed units.

    Spends the `center_shares`. ``radius`` is the public one, if there is one.
    """
    error = 0.0
    rounds = ["centre"] if radius is not None else ["first centre", "centre"]
    for name in rounds:
        reach = radius
        if reach is None:
            reach = private_radius(source, frame, costs[f"radius for the {name}"], relation, rng)
        shift, error = _clipped_mean(source, Lattice(frame, reach), costs[name], relation, rng)
        origin = np.zeros(frame.n_features) if frame.center is None else frame.center
        frame = replace(frame, center=np.clip(origin + shift * frame.unit, -LARGEST_FACT, LARGEST_FACT))
    if frame.center is None:
        raise AssertionError("at least one round sets a centre")
    return frame.center, error


def _clipped_mean(
    source: Source, lattice: Lattice, cost: Cost, relation: Relation, rng: Randomness
) -> tuple[Floats, float]:
    """The mean of the clipped rows and the expected length of its noise, in framed units."""
    sums = source.reduce(RowSums(lattice))
    replaced = relation is Relation.REPLACE
    root = math.sqrt(lattice.n_columns)
    reach = float(LEVELS * _ROW_UNIT) * (2 if replaced else 1)
    values = sums.total.astype(object) * _ROW_UNIT
    if replaced:
        count = public_count(sums.count, lattice.frame.rows_per_term)
        noisy = perturb(values, cost, l2=reach, l1=reach * root, rng=rng)
    else:
        noisy, count = perturb_with_count(
            values, sums.count, cost, l2=reach, l1=reach * root, unit=_COUNT_UNIT, rng=rng
        )
    unit = lattice.step / _ROW_UNIT / count
    deviation = reach / cost.mu if isinstance(cost, GaussianCost) else math.sqrt(2) * reach * root / pure_epsilon(cost)
    return noisy.astype(np.float64) * unit, deviation * root * unit
