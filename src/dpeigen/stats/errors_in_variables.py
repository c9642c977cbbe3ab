"""Linear regression from a covariance matrix that is seen through errors whose law is known.

Seen is Y = C + E with draws of E, rows and columns of the features first, the target last. With A the block of the
features in C and b their covariances with the target, the coefficients are β = (A + Λ)⁻¹b, Λ a diagonal penalty. Errors
in A and b do not draw β̂ = (Y_A + Λ)⁻¹y_b towards 0, since Y is right on average. To first order

    β̂ − β = (A + Λ)⁻¹(E_b − E_A·β),

which sampling error and privacy noise enter alike. To second order β̂ is off by the mean of −(A + Λ)⁻¹E_A(β̂ − β), which
is taken out. Where the errors are as large as the least eigenvalue of A, some draws of A are not positive. Their share
is ``unclear``; where it is large, nothing can be said.

All of it is done with columns divided by their deviations, so that nothing depends on the units of measure.

The indicators of all levels of a category have a sum that is constant: v, which is 1 for them and 0 for other columns,
has Av = 0 and b·v = 0. Such v are known beforehand (``constants``). Without a penalty β + tv predicts alike for all t,
and β is the one that is 0 for a reference level. With one, vᵀΛβ = vᵀ(b − Aβ) = 0, and β is looked for among those.
Neither divides by the noise that stands in the place of vᵀAv = 0.

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

MOST_UNCLEAR = 0.025
Constant = tuple[int, Floats]  # a reference column, and weights with which the sum of the features is constant


@dataclass(frozen=True, eq=False)
class NoisyRegression:
    """Coefficients with draws of their error, and what they leave unexplained with draws of its error."""

    coef: Floats
    errors: Floats  # draws × p, β̂ − β
    residual_variance: float
    residual_errors: Floats  # draws
    r_squared: float
    r_squared_errors: Floats
    partial: Floats  # partial correlations of the target with each feature; NaN for references
    partial_errors: Floats  # draws × p
    unclear: float  # share of draws in which the features' covariance is not positive


def regress(seen: Floats, errors: Floats, penalty: Floats, constants: Sequence[Constant] = ()) -> NoisyRegression:
    """The regression of the last column on the others, with a penalty on each squared coefficient."""
    p = len(seen) - 1
    units = _units(seen, errors, np.append(penalty, 0.0))
    area = np.outer(units, units)
    fit = _in_units(seen / area, errors / area, penalty / units[:p] ** 2, _free(penalty, constants, units[:p]))
    partial, partial_errors = np.full(p, np.nan), np.full((len(errors), p), np.nan)
    kept = [j for j in range(p) if j not in {reference for reference, _ in constants}]
    chosen = [*kept, p]
    partial[kept], partial_errors[:, kept] = _partial(seen[np.ix_(chosen, chosen)], errors[:, chosen][:, :, chosen])
    back, area_back = units[p] / units[:p], units[p] ** 2
    return replace(
        fit,
        coef=fit.coef * back,
        errors=fit.errors * back,
        residual_variance=fit.residual_variance * area_back,
        residual_errors=fit.residual_errors * area_back,
        partial=partial,
        partial_errors=partial_errors,
    )


def _units(seen: Floats, errors: Floats, penalty: Floats) -> Floats:
    """Deviations of the columns, or of their errors where those are larger: no answer depends on units of measure."""
    own = np.maximum(np.diag(seen), np.einsum("mii->mi", errors).std(axis=0)) + penalty
    return np.sqrt(np.where(own > 0, own, 1.0))


def _free(penalty: Floats, constants: Sequence[Constant], units: Floats) -> Floats:
    """A basis of the coefficients that are looked for, for columns divided by their units."""
    bans = np.zeros((len(units), len(constants)))
    for at, (reference, weights) in enumerate(constants):
        bans[reference, at] = 1.0
        if (penalty[weights != 0] > 0).all():
            bans[:, at] = weights * penalty / units
            bans[:, at] /= np.linalg.norm(bans[:, at])
    return np.asarray(np.linalg.qr(bans, mode="complete")[0][:, len(constants) :]) if constants else np.eye(len(units))


def _in_units(seen: Floats, errors: Floats, penalty: Floats, free: Floats) -> NoisyRegression:
    """The same for columns in units in which variances are about 1, and coefficients in the span of ``free``."""
    p = len(seen) - 1
    block, blocks = free.T @ (seen[:p, :p] + np.diag(penalty)) @ free, free.T @ errors[:, :p, :p] @ free
    inverse = np.linalg.pinv(block, hermitian=True)
    inverse = free @ ((inverse + inverse.T) / 2) @ free.T
    first = inverse @ seen[:p, p]
    moved = (errors[:, :p, p] - errors[:, :p, :p] @ first) @ inverse
    bias = -((errors[:, :p, :p] @ moved[:, :, None])[:, :, 0] @ inverse).mean(axis=0)
    values = np.linalg.eigvalsh(block - blocks) if free.shape[1] else np.ones((len(errors), 1))
    variance, residual = float(seen[p, p]), _residual(seen, first)
    lost = np.einsum("mij,i,j->m", errors, np.append(-first, 1.0), np.append(-first, 1.0))
    share = 1 - residual / variance if variance > 0 else 0.0
    share_errors = (-lost + (1 - share) * errors[:, p, p]) / variance if variance > 0 else np.zeros(len(errors))
    unclear = float((values[:, 0] <= 0).mean())
    return NoisyRegression(first - bias, moved, residual, lost, share, share_errors, first, moved, unclear)


def _residual(seen: Floats, coef: Floats) -> float:
    with_target = np.append(-coef, 1.0)
    return float(with_target @ seen @ with_target)


def _partial(seen: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """−Ωⱼ/√(ΩⱼⱼΩ) of the inverse Ω of the whole matrix, and its error to first order: Ω moves by −ΩEΩ."""
    p, units = len(seen) - 1, _units(seen, errors, np.zeros(len(seen)))
    seen, errors = seen / np.outer(units, units), errors / np.outer(units, units)
    inverse = np.linalg.pinv(seen, hermitian=True)
    moved = -inverse @ errors @ inverse
    own, target = np.diag(inverse)[:p], float(inverse[p, p])
    roots = np.sqrt(np.maximum(own * target, 1e-300))
    partial = -inverse[:p, p] / roots
    relative = np.einsum("mii->mi", moved)
    sizes = (
        relative[:, :p] / np.where(own > 0, own, np.inf)
        + (relative[:, p] / (target if target > 0 else np.inf))[:, None]
    )
    return np.clip(partial, -1.0, 1.0), -moved[:, :p, p] / roots - partial * sizes / 2
