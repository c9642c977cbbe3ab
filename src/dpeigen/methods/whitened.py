"""``whitened``: a covariance whose noise has the shape of the data. Worst-case, no bound, unknown scale.

Guarantee: (ε, δ)-DP, δ ≥ 0, for every data set, both relations, with exact integer statistics; with exact discrete
Gaussian noise for δ > 0 and the noise of `matrix-laplace`, idealised as there, for δ = 0. Proof: it is an adaptive
composition of

1. two radii by the sparse-vector technique on a fixed geometric grid: ε-DP each (`methods.radius`).
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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods.base import Estimate, Method, Task, public_count
from dpeigen.methods.framing import centre_source, check_radii, location, released_count, spends
from dpeigen.methods.gaussian import Gaussian
from dpeigen.methods.location import center_shares
from dpeigen.methods.matrix_laplace import MatrixLaplace
from dpeigen.methods.moment import MomentMethod
from dpeigen.methods.radius import radius_but
from dpeigen.privacy import Budget, Cost, PureCost, Randomness, Relation, allocate
from dpeigen.privacy.budget import gaussian_share
from dpeigen.privacy.randomness import check_scale
from dpeigen.sources import Source
from dpeigen.stats import Frame, Lattice, NormHistogram, SecondMoment, project_eigenvalues, shrink_eigenvalues
from dpeigen.stats.frame import RowView
from dpeigen.stats.spectrum import symmetric_eigh
from dpeigen.stats.stretch import Whitened as WhitenedRows

Floats = NDArray[np.float64]
FIRST, LAST = "first moment", "whitened moment"
FIRST_RADIUS, LAST_RADIUS = "radius for the first moment", "radius for the whitened moment"
_RADIUS_SHARE = 0.05  # of ε, each
_FIRST_SHARE = 0.2  # of the main budget
_COUNT_SHARE = 0.02
FIRST_OUTSIDE, _MOST_OUTSIDE = 0.05, 0.3  # of the rows
_BALANCE = 0.3  # rows clipped at the end, in units of what balances Gaussian noise


@dataclass(frozen=True)
class Whitened(Method):
    """A rough second moment, then the moment of rows that it whitens."""

    name = "whitened"
    reference = (
        "Biswas, Dong, Kamath and Ullman 2020 and Dong, Liang and Yi 2022, made worst-case, with tight constants"
    )
    needs_bound = False

    def shares(self, task: Task) -> dict[str, Cost]:
        """The budget, split by purpose."""
        pure = {FIRST_RADIUS: _RADIUS_SHARE, LAST_RADIUS: _RADIUS_SHARE}
        main = {FIRST: _FIRST_SHARE, LAST: 1 - _FIRST_SHARE}
        if task.relation is Relation.ADD_REMOVE:
            main["number of rows"] = _COUNT_SHARE
        if task.private_center:
            center_pure, center_main = center_shares(task)
            pure, main = pure | center_pure, main | center_main
        d = task.n_features
        return allocate(task.budget, pure=pure, main=main, coordinates=d * (d + 1) + 2 * d + 3)

    def check(self, task: Task) -> None:
        super().check(task)
        costs = self.shares(task)
        check_radii(task, costs)
        mechanism = mechanism_of(task)
        widest = SecondMoment(Lattice(Frame(task.n_features), 1.0))
        reach = 2 * math.sqrt(task.n_features + 2) if mechanism.numerics == "idealised" else 1.0
        for purpose in (FIRST, LAST):
            check_scale(reach * mechanism.noise_scale(widest, costs[purpose], task.relation))

    def estimate(self, source: Source, task: Task, rng: Randomness) -> Estimate:
        costs, d = self.shares(task), task.n_features
        source, frame, cap, _ = centre_source(source, task, costs, rng)
        norms = source.reduce(NormHistogram(frame))
        if task.relation is Relation.ADD_REMOVE:
            count = released_count(norms.count, costs["number of rows"], rng)
        else:
            count = public_count(norms.count, frame.rows_per_term)
        radius = _least(radius_but(norms, FIRST_OUTSIDE * count, costs[FIRST_RADIUS], rng), cap)
        rough, noise = _moment(source, frame, radius, count, costs[FIRST], task, rng)
        levels, basis, factors = whitening(rough, noise)
        rows = WhitenedRows(frame, basis, factors)
        norms = source.reduce(NormHistogram(rows))
        reach = _least(radius_but(norms, last_outside(costs[LAST], count, task), costs[LAST_RADIUS], rng), cap)
        white, _ = _moment(source, rows, reach, count, costs[LAST], task, rng)
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
            split=spends(costs, dict.fromkeys((FIRST, LAST), mechanism_of(task).name)),
            numerics=mechanism_of(task).numerics,
            radius_released=True,
            notes=(
                "Rows longer than a paid radius were clipped to it: variances come out low for the heaviest tails.",
            ),
            details={
                "first_radius": radius * float(frame.unit[0]),
                "variance_ratio": float(levels.max() / levels.min()),
            },
        )


def _least(radius: float, cap: float | None) -> float:
    """Whitening shortens rows, so that a public bound on them still holds."""
    return radius if cap is None else min(radius, cap)


def mechanism_of(task: Task) -> MomentMethod:
    return MatrixLaplace() if task.budget.is_pure else Gaussian()


def deviation_of(d: int, cost: Cost, task: Task) -> float:
    """Of an off-diagonal entry of the noise on Σzzᵀ for rows in the unit ball."""
    if isinstance(cost, PureCost):
        return MatrixLaplace().deviation(d, Budget(cost.epsilon), task.relation)
    return (1.0 if task.relation is Relation.REPLACE else math.sqrt(0.5)) / gaussian_share(cost)


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
    return min(_BALANCE * d**1.5 * deviation_of(d, cost, task), _MOST_OUTSIDE * count)


def _moment(
    source: Source, view: RowView, radius: float, count: float, cost: Cost, task: Task, rng: Randomness
) -> tuple[Floats, float]:
    """A noisy mean of zzᵀ over clipped rows, shrunk and projected; and the deviation of its off-diagonal noise."""
    lattice = Lattice(view, radius)
    empty = SecondMoment(lattice)
    mechanism = mechanism_of(task)
    noise = mechanism.noise(empty, cost, task.relation, rng)
    area = lattice.step**2 / count
    noisy = noise.added_to(source.reduce(empty).gram) * area
    deviation = noise.deviation * area
    return denoised(noisy, deviation, radius, task), deviation


def denoised(noisy: Floats, deviation: float, radius: float, task: Task) -> Floats:
    """A noisy mean of zzᵀ over rows in this radius, shrunk and projected."""
    values, vectors = np.linalg.eigh((noisy + noisy.T) / 2)
    whole, d = radius**2, len(noisy)
    if task.shrink:  # in units of the squared radius: squares neither overflow nor vanish
        tau = deviation / whole
        shift = mechanism_of(task).r_transform(d, tau)
        values = whole * shrink_eigenvalues(values / whole, shift, math.sqrt(d) * tau)
    values = project_eigenvalues(values, trace=whole)
    return (vectors * values) @ vectors.T
