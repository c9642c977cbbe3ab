"""``whitened``: a covariance whose noise has the shape of the data. Worst-case, no bound, unknown scale.

Guarantee: (ε, δ)-DP, δ ≥ 0, for every data set, both relations, with exact integer statistics; with exact discrete
Gaussian noise for δ > 0 and the noise of `matrix-laplace`, idealised as there, for δ = 0. Proof: it is an adaptive
composition of

1. two radii by the sparse-vector technique on a fixed geometric grid: ε-DP each (`questions.radius`).
2. the second moment of the rows, clipped to the first radius, and that of whitened rows Tx, clipped to the second.
   T is a function of the first release, and the image of a row depends on T and that row alone (`stats.stretch`).
   Whatever T is, the clipped rows are no longer than the radius: Frobenius sensitivity √2·R² (replace) or R²
   (add/remove), trace 2·R² or R², in integers (`stats.moments`).
3. where it is private, the number of rows: sensitivity 1.

Gaussian shares compose exactly, each mechanism chosen by what was released before it (Dong, Roth, Su 2022); pure
shares join by their dominating pair (`privacy.accounting`). The rest is post-processing.

Why. One noise for all directions hides the weak ones: its size is that of the longest. After T = (Ĉ + η)^−½, η the
size of the noise that Ĉ carries, all directions that were seen are about equally long, so their errors are relative to
their own variance, and rows of any spectrum are about equally long too, so that few of them are clipped. This is
CoinPress (Biswas, Dong, Kamath, Ullman 2020) with what it lacks: no bounds on the covariance are needed, radii are
those of the rows (its are those of Gaussian rows), the noise is isotropic on symmetric matrices (its is √2 too large
off the diagonal), and η covers the noise (that of its published code does not). The last radius is adaptive after
Dong, Liang, Yi 2022: as many rows are clipped as balance clipping with noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.base import Estimate, Method, Task
from dpeigen.methods.framing import ask_centred_frame, location
from dpeigen.methods.location import center_shares, within
from dpeigen.methods.radius import check_radii
from dpeigen.privacy import Cost, Relation, allocate
from dpeigen.questions import Count, GaussianLaw, Moment, RadiusLeaving, SymmetricLaw, WishartLaw
from dpeigen.stats import Lattice, project_eigenvalues, shrink_eigenvalues
from dpeigen.stats.frame import RowView
from dpeigen.stats.spectrum import symmetric_eigh
from dpeigen.stats.stretch import Whitened as WhitenedRows

_RADIUS_SHARE = 0.05  # of ε, each
_FIRST_SHARE = 0.2  # of the main budget
_COUNT_SHARE = 0.02
_FIRST_OUTSIDE, _MOST_OUTSIDE = 0.05, 0.3  # of the rows
_BALANCE = 0.3  # rows clipped at the end, in units of what balances Gaussian noise


@dataclass(frozen=True)
class Whitened(Method):
    """A rough second moment, then the moment of rows that it whitens."""

    name = "whitened"
    reference = (
        "Biswas, Dong, Kamath and Ullman 2020 and Dong, Liang and Yi 2022, made worst-case, with tight constants"
    )
    needs_bound = False

    def shares(self, task: Task) -> dict[Purpose, Cost]:
        """The budget, split by purpose."""
        pure = {Purpose.FIRST_MOMENT_RADIUS: _RADIUS_SHARE, Purpose.WHITENED_RADIUS: _RADIUS_SHARE}
        main = {Purpose.FIRST_MOMENT: _FIRST_SHARE, Purpose.WHITENED_MOMENT: 1 - _FIRST_SHARE}
        if task.relation is Relation.ADD_REMOVE:
            main[Purpose.ROWS] = _COUNT_SHARE
        if task.private_center:
            center_pure, center_main = center_shares(task)
            pure, main = pure | center_pure, main | center_main
        d = task.n_features
        return allocate(task.budget, pure=pure, main=main, coordinates=d * (d + 1) + 2 * d + 3)

    def check(self, task: Task) -> None:
        super().check(task)
        costs = self.shares(task)
        check_radii(task, costs)
        for purpose in (Purpose.FIRST_MOMENT, Purpose.WHITENED_MOMENT):
            _law(task).check(task.n_features, costs[purpose], task.relation)

    def estimate(self, curator: Curator, task: Task) -> Estimate:
        costs, d = self.shares(task), task.n_features
        frame, cap, _ = ask_centred_frame(curator, task, costs)
        count = float(task.n_terms or 1)
        if Purpose.ROWS in costs:
            rows = Count(RadiusLeaving(frame, 0.0))
            count = curator.measure(rows, purpose=Purpose.ROWS, cost=costs[Purpose.ROWS])
        radius = _ask_radius(curator, frame, _FIRST_OUTSIDE * count, Purpose.FIRST_MOMENT_RADIUS, costs, cap)
        rough, noise = _ask_moment(curator, frame, radius, count, Purpose.FIRST_MOMENT, costs, task)
        levels, basis, factors = whitening(rough, noise)
        rows_whitened = WhitenedRows(frame, basis, factors)
        outside = last_outside(costs[Purpose.WHITENED_MOMENT], count, task)
        reach = _ask_radius(curator, rows_whitened, outside, Purpose.WHITENED_RADIUS, costs, cap)
        white, _ = _ask_moment(curator, rows_whitened, reach, count, Purpose.WHITENED_MOMENT, costs, task)
        back = basis.T / factors * float(frame.unit[0])
        covariance = back @ white @ back.T
        values, components = symmetric_eigh((covariance + covariance.T) / 2)
        values, k = np.maximum(values, 0.0), d if task.n_components is None else task.n_components
        return Estimate(
            components=components[:k],
            eigenvalues=values[:k],
            noise_variance=float(values[k:].mean()) if k < d else 0.0,
            covariance=(components.T * values) @ components,
            mean=location(frame, None, task),
            n_rows=count * frame.rows_per_term,
            radius=None,
            numerics=_law(task).numerics,
            radius_released=True,
            notes=(
                "Rows longer than a paid radius were clipped to it: variances come out low for the heaviest tails.",
            ),
            details={
                "first_radius": radius * float(frame.unit[0]),
                "variance_ratio": float(levels.max() / levels.min()),
            },
        )


def _ask_radius(
    curator: Curator,
    view: RowView,
    outside: float,
    purpose: Purpose,
    costs: Mapping[Purpose, Cost],
    cap: float | None,
) -> float:
    """A paid radius; whitening shortens rows, so that a public bound on them still holds."""
    return within(curator.measure(RadiusLeaving(view, outside), purpose=purpose, cost=costs[purpose]), cap)


def _law(task: Task) -> SymmetricLaw:
    return WishartLaw() if task.budget.is_pure else GaussianLaw()


def whitening(rough: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
    """(levels, basis, factors) from a rough moment whose entries carry noise of this deviation."""
    levels, basis = symmetric_eigh(rough)
    levels = np.maximum(levels, 0.0) + 2 * math.sqrt(len(rough)) * noise  # the norm of the noise: less is not known
    return levels, basis, np.sqrt(levels.min() / levels)


def last_outside(cost: Cost, count: float, task: Task) -> float:
    """How many rows to clip at the end: as many as balance noise.

    Clipping m rows costs the whitened covariance about m·R²/(n·√d) in Frobenius norm, noise of deviation τ d·τ.
    """
    d = task.n_features
    return min(_BALANCE * d**1.5 * _law(task).deviation(d, cost, task.relation), _MOST_OUTSIDE * count)


def _ask_moment(
    curator: Curator,
    view: RowView,
    radius: float,
    count: float,
    purpose: Purpose,
    costs: Mapping[Purpose, Cost],
    task: Task,
) -> tuple[Floats, float]:
    """A noisy mean of zzᵀ over clipped rows, shrunk and projected; and the deviation of its off-diagonal noise."""
    lattice = Lattice(view, radius)
    found = curator.measure(Moment(lattice, _law(task)), purpose=purpose, cost=costs[purpose])
    area = lattice.step**2 / count
    deviation = found.deviation * area
    return denoised(found.total * area, deviation, radius, task), deviation


def denoised(noisy: Floats, deviation: float, radius: float, task: Task) -> Floats:
    """A noisy mean of zzᵀ over rows in this radius, shrunk and projected."""
    values, vectors = np.linalg.eigh((noisy + noisy.T) / 2)
    whole, d = radius**2, len(noisy)
    if task.shrink:  # in units of the squared radius: squares neither overflow nor vanish
        tau = deviation / whole
        shift = _law(task).r_transform(d, tau)
        values = whole * shrink_eigenvalues(values / whole, shift, math.sqrt(d) * tau)
    values = project_eigenvalues(values, trace=whole)
    return (vectors * values) @ vectors.T
