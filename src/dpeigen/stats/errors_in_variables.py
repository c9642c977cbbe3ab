"""Linear regression from a covariance matrix that is seen through errors whose law is known.

Seen is Y = C + E with draws of E, rows and columns of the features first, the target last. With A the block of the
features in C and b their covariances with the target, the coefficients are β = (A + Λ)⁻¹b, Λ a diagonal penalty. Errors
in A and b do not draw β̂ = (Y_A + Λ)⁻¹y_b towards 0, since Y is right on average. To first order

    β̂ − β = (A + Λ)⁻¹(E_b − E_A·β),

which sampling error and privacy noise enter alike. To second order β̂ is off by the mean of −(A + Λ)⁻¹E_A(β̂ − β), which
is taken out. Where the errors are as large as the least eigenvalue of A, some draws of A are not positive. Their share
is ``unclear``; where it is large, nothing can be said.

>>> errors = np.zeros((10, 2, 2))
>>> fit = regress(np.array([[2.0, 1.0], [1.0, 3.0]]), errors, np.zeros(1))
>>> fit.coef, fit.residual_variance
(array([0.5]), 2.5)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats

MOST_UNCLEAR = 0.025


@dataclass(frozen=True, eq=False)
class NoisyRegression:
    """Coefficients with draws of their error, and what they leave unexplained with draws of its error."""

    coef: Floats
    errors: Floats  # draws × p, β̂ − β
    residual_variance: float
    residual_errors: Floats  # draws
    r_squared: float
    r_squared_errors: Floats
    partial: Floats  # partial correlations of the target with each feature
    partial_errors: Floats  # draws × p
    unclear: float  # share of draws in which the features' covariance is not positive


def regress(seen: Floats, errors: Floats, penalty: Floats) -> NoisyRegression:
    """The regression of the last column on the others, with a penalty on each squared coefficient."""
    p = len(seen) - 1
    ridge, block, cross = np.diag(penalty), seen[:p, :p], seen[:p, p]
    inverse = np.linalg.pinv(block + ridge, hermitian=True)
    inverse = (inverse + inverse.T) / 2
    first = inverse @ cross
    moved = (errors[:, :p, p] - errors[:, :p, :p] @ first) @ inverse
    bias = -((errors[:, :p, :p] @ moved[:, :, None])[:, :, 0] @ inverse).mean(axis=0)
    coef = first - bias
    values = np.linalg.eigvalsh(block + ridge - errors[:, :p, :p])
    variance, residual = float(seen[p, p]), _residual(seen, first)
    lost = np.einsum("mij,i,j->m", errors, np.append(-first, 1.0), np.append(-first, 1.0))
    share = 1 - residual / variance if variance > 0 else 0.0
    share_errors = (-lost + (1 - share) * errors[:, p, p]) / variance if variance > 0 else np.zeros(len(errors))
    partial, partial_errors = _partial(seen, errors)
    return NoisyRegression(
        coef, moved, residual, lost, share, share_errors, partial, partial_errors, float((values[:, 0] <= 0).mean())
    )


def _residual(seen: Floats, coef: Floats) -> float:
    with_target = np.append(-coef, 1.0)
    return float(with_target @ seen @ with_target)


def _partial(seen: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """−Ωⱼ/√(ΩⱼⱼΩ) of the inverse Ω of the whole matrix, and its error to first order: Ω moves by −ΩEΩ."""
    p = len(seen) - 1
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
