"""Linear regression from a covariance matrix that is measured with errors of known distribution.

Given are Y = C + E and draws of E, with rows and columns of the features first and the target last. With A the block of
the features in C and b their covariances with the target, the coefficients are β = (A + Λ)⁻¹b, where Λ is a diagonal
penalty. Errors in A and b do not shrink β̂ = (Y_A + Λ)⁻¹y_b towards 0, since Y is unbiased. To first order

    β̂ − β = (A + Λ)⁻¹(E_b − E_A·β),

for sampling error and privacy noise alike. To second order β̂ has a bias, the mean of −(A + Λ)⁻¹E_A(β̂ − β), which is
subtracted.

If the errors are as large as the least eigenvalue of A, some draws of A are not positive definite. Their share is
``unclear``. If it is large, the variance of some combination of features cannot be distinguished from noise: a rare
indicator by itself, or the difference of two features that are nearly the same. Nothing can be said about the
coefficients of the features in it (``confused``). The combination is left out, and the other features have the
coefficients of the regression without it. If the combination is constant, they are those of the full regression.

All of this is done with columns divided by their deviations, so that nothing depends on units.

The indicators of all levels of a category have a constant sum: v, which is 1 for them and 0 for other columns, has
Av = 0 and b·v = 0. Such v are known beforehand (``constants``). Without a penalty β + tv gives the same predictions for
all t, and β is chosen to be 0 for a reference level. With a penalty, vᵀΛβ = vᵀ(b − Aβ) = 0, and β is restricted to
this. Neither case divides by the noise that is measured in place of vᵀAv = 0.

>>> errors = np.zeros((10, 2, 2))
>>> fit = regress(np.array([[2.0, 1.0], [1.0, 3.0]]), errors, np.zeros(1))
>>> fit.coef.round(6), round(float(fit.residual_variance), 6)
(array([0.5]), 2.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpeigen._types import Floats

__all__ = ["MOST_UNCLEAR", "Constant", "NoisyRegression", "regress"]

MOST_UNCLEAR = 0.025
_PART = 0.02  # of the largest square in a combination: features above it belong to the combination
_FULLY = 0.5  # of a combination of features that can be distinguished from noise
_TINY = 1e-12
Constant = tuple[int, Floats]  # a reference column, and weights with which the sum of the features is constant


@dataclass(frozen=True, eq=False)
class NoisyRegression:
    """Coefficients and the residual variance, with draws of their errors."""

    coef: Floats
    errors: Floats  # draws × p, β̂ − β
    residual_variance: float
    residual_errors: Floats  # draws
    r_squared: float
    r_squared_errors: Floats
    partial: Floats  # partial correlations of the target with each feature; NaN for references
    partial_errors: Floats  # draws × p
    unclear: float  # share of draws whose block of features is not positive definite, before anything is left out
    confused: tuple[tuple[int, ...], ...] = ()  # features with a combination that cannot be distinguished from noise
    left: bool = True  # whether anything is left


def regress(seen: Floats, errors: Floats, penalty: Floats, constants: Sequence[Constant] = ()) -> NoisyRegression:
    """The regression of the last column on the others, with a penalty on each squared coefficient."""
    p = len(seen) - 1
    units = _units(seen, errors, np.append(penalty, 0.0))
    area = np.outer(units, units)
    seen, errors, penalty = seen / area, errors / area, penalty / units[:p] ** 2
    bans = _bans(penalty, constants, units[:p])
    free, unclear, confused = _clear(seen[:p, :p] + np.diag(penalty), errors[:, :p, :p], bans)
    fit = _in_units(seen, errors, penalty, free)
    partial, partial_errors = np.full(p, np.nan), np.full((len(errors), p), np.nan)
    out = {reference for reference, _ in constants}.union(*confused)
    kept = [j for j in range(p) if j not in out]
    basis = np.eye(p)[:, kept]
    beside = _beside(free, kept, {reference for reference, _ in constants})
    turn = np.zeros((p + 1, len(kept) + beside.shape[1] + 1))
    turn[:p, :-1], turn[p, -1] = np.hstack([basis, beside]), 1.0
    found, found_errors = _partial(turn.T @ seen @ turn, turn.T @ errors @ turn)
    partial[kept], partial_errors[:, kept] = found[: len(kept)], found_errors[:, : len(kept)]
    back, area_back = units[p] / units[:p], units[p] ** 2
    return replace(
        fit,
        coef=fit.coef * back,
        errors=fit.errors * back,
        residual_variance=fit.residual_variance * area_back,
        residual_errors=fit.residual_errors * area_back,
        partial=partial,
        partial_errors=partial_errors,
        unclear=unclear,
        confused=confused,
        left=free.shape[1] > 0 or p == len(constants),
    )


def _units(seen: Floats, errors: Floats, penalty: Floats) -> Floats:
    """Deviations of the columns, or of their errors if those are larger, so that no result depends on units."""
    own = np.maximum(np.diag(seen), np.einsum("mii->mi", errors).std(axis=0)) + penalty
    return np.sqrt(np.where(own > 0, own, 1.0))


def _bans(penalty: Floats, constants: Sequence[Constant], units: Floats) -> Floats:
    """What coefficients must be orthogonal to, as columns, for features and penalties divided by their units."""
    bans = np.zeros((len(units), len(constants)))
    for at, (reference, weights) in enumerate(constants):
        bans[reference, at] = 1.0
        if (penalty[weights != 0] > 0).all():
            bans[:, at] = weights * penalty * units
            bans[:, at] /= np.linalg.norm(bans[:, at])
    return bans


def _orthogonal(bans: Floats) -> Floats:
    return np.asarray(np.linalg.qr(bans, mode="complete")[0][:, bans.shape[1] :]) if bans.size else np.eye(len(bans))


def _clear(block: Floats, errors: Floats, bans: Floats) -> tuple[Floats, float, tuple[tuple[int, ...], ...]]:
    """A basis of the coefficients that can be estimated, the share of unclear draws of all, and what was left out."""
    unclear = 0.0
    confused: list[tuple[int, ...]] = []
    while True:
        free = _orthogonal(bans)
        if not free.shape[1]:
            break
        seen, drawn = free.T @ block @ free, free.T @ errors @ free
        lost = float((np.linalg.eigvalsh(seen - drawn)[:, 0] <= 0).mean())
        unclear = unclear if confused else lost
        if lost <= MOST_UNCLEAR:
            break
        values, vectors = np.linalg.eigh(seen)
        noise = np.einsum("mij,ik,jk->mk", drawn, vectors, vectors, optimize=True).std(axis=0)
        weakest = free @ vectors[:, int(np.argmin(values / (noise + _TINY)))]
        part = weakest**2 >= _PART * float((weakest**2).max())
        left_out = np.where(part, weakest, 0.0)
        bans = np.column_stack([bans, left_out / np.linalg.norm(left_out)])
        confused.append(tuple(map(int, np.flatnonzero(part))))
    return free, unclear, tuple(confused)


def _beside(free: Floats, kept: Sequence[int], references: set[int]) -> Floats:
    """A basis of what can be estimated for the features that are not kept."""
    others = [j for j in range(len(free)) if j not in {*kept, *references}]
    if not others or not free.shape[1]:
        return np.zeros((len(free), 0))
    vectors, sizes, _ = np.linalg.svd(free[others], full_matrices=False)
    found = np.zeros((len(free), int((sizes > _FULLY).sum())))
    found[others] = vectors[:, sizes > _FULLY]
    return found


def _in_units(seen: Floats, errors: Floats, penalty: Floats, free: Floats) -> NoisyRegression:
    """The same for columns in units in which variances are about 1, and coefficients in the span of ``free``."""
    p = len(seen) - 1
    block = free.T @ (seen[:p, :p] + np.diag(penalty)) @ free
    inverse = np.linalg.pinv(block, hermitian=True)
    inverse = free @ ((inverse + inverse.T) / 2) @ free.T
    first = inverse @ seen[:p, p]
    moved = (errors[:, :p, p] - errors[:, :p, :p] @ first) @ inverse
    about, turned = errors[:, :p, :p] - errors[:, :p, :p].mean(axis=0), moved - moved.mean(axis=0)
    bias = -((about @ turned[:, :, None])[:, :, 0] @ inverse).mean(axis=0)
    most = turned.std(axis=0)  # a second-order term larger than the first is not reliable
    bias = np.clip(bias, -most, most)
    variance, residual = float(seen[p, p]), _residual(seen, first)
    lost = np.einsum("mij,i,j->m", errors, np.append(-first, 1.0), np.append(-first, 1.0))
    share = 1 - residual / variance if variance > 0 else 0.0
    share_errors = (-lost + (1 - share) * errors[:, p, p]) / variance if variance > 0 else np.zeros(len(errors))
    return NoisyRegression(first - bias, moved, residual, lost, share, share_errors, first, moved, 0.0)


def _residual(seen: Floats, coef: Floats) -> float:
    with_target = np.append(-coef, 1.0)
    return float(with_target @ seen @ with_target)


def _partial(seen: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """−Ωⱼ/√(ΩⱼⱼΩ) of the inverse Ω of the whole matrix, and its error to first order: Ω changes by −ΩEΩ."""
    p, units = len(seen) - 1, _units(seen, errors, np.zeros(len(seen)))
    seen, errors = seen / np.outer(units, units), errors / np.outer(units, units)
    inverse = np.linalg.pinv(seen, hermitian=True)
    moved = -inverse @ errors @ inverse
    own, target = np.diag(inverse)[:p], float(inverse[p, p])
    roots = np.sqrt(np.maximum(own * target, 1e-100))  # noise can make it negative; squares of errors stay finite
    partial = -inverse[:p, p] / roots
    relative = np.einsum("mii->mi", moved)
    sizes = (
        relative[:, :p] / np.where(own > 0, own, np.inf)
        + (relative[:, p] / (target if target > 0 else np.inf))[:, None]
    )
    return np.clip(partial, -1.0, 1.0), -moved[:, :p, p] / roots - partial * sizes / 2
