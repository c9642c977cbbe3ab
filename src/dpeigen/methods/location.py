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
from dpeigen.methods.radius import private_radius, radius_share, rows_needed
from dpeigen.privacy import Cost, GaussianCost, PureCost, Randomness, Relation, gaussian_mu
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
_RADIUS_SHARE, _MOST_SHARE = 0.04, 0.08  # of ε, each: usually, and with few rows


def center_shares(task: Task, *, measured: bool = False) -> tuple[dict[str, float], dict[str, float]]:
    """(pure, main) shares for `private_center`, to be joined to a method's own for `allocate`.

    Two rounds with radii where there is no public bound, and, if ``measured``, also inside one where rows are enough: a
    bound is mostly far longer than the spread, and the noise of a centre follows it.
    """
    share = _center_share(task)
    if isinstance(task.bound, (float, tuple)):
        needed = rows_needed(PureCost(_MOST_SHARE * task.budget.epsilon))
        if not measured or task.n_terms is None or task.n_terms < 1.2 * needed:
            return {}, {"centre": max(share, 0.2)}
    radius = radius_share(task, _RADIUS_SHARE, most=_MOST_SHARE, plenty=4)
    radii = {"radius for the first centre": radius, "radius for the centre": radius}
    return radii, {"first centre": max(0.04, share / 2), "centre": share}


def _center_share(task: Task) -> float:
    """The weight of a centre beside a main share of 1: less where rows are plenty.

    A centre that is off by e adds e·eᵀ to a moment. In units of the trace that is about 6d/(n·μ)² (Gaussian) or
    12·d²/(n·ε)² (pure) over the share for normal rows, several times that for heavy tails, and should stay a fraction
    of the norm of the moment's own noise, 2√d/(n·μ) or 3d/(n·ε).
    """
    d, budget = task.n_features, task.budget
    if task.n_terms is None:
        return 0.2
    if budget.is_pure:
        return min(0.3, max(0.05, math.sqrt(25 * d / (task.n_terms * budget.epsilon))))
    return min(0.2, max(0.03, 30 * math.sqrt(d) / (task.n_terms * gaussian_mu(budget.epsilon, budget.delta))))


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
    for name in [name for name in ("first centre", "centre") if name in costs]:
        reach = radius
        if f"radius for the {name}" in costs:
            paid = private_radius(source, frame, costs[f"radius for the {name}"], relation, rng)
            reach = paid if radius is None else min(paid, radius)
        if reach is None:
            raise AssertionError("a radius is public or paid for")
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
