"""Ridge regression from a covariance matrix alone: any target, any features, any number of penalties, and its errors.

With Â the block of the features, b̂ their covariances with the target and v̂ the variance of the target, ridge
coefficients are ŵ = (Â + λI)⁻¹b̂, one eigendecomposition of Â for all λ. Everything here is a function of a released
matrix and of public facts about its noise, so it spends nothing.

Here the penalty λ is added to a covariance, a mean over rows. scikit-learn's α (‖y − Xw‖² + α‖w‖²) is n·λ, and the α
of Amin et al. 2019 (½·mean squared error + α‖w‖²) is λ/2: their 2αn is scikit-learn's α.

Noise. Released is Ĉ = C + UNU with N symmetric and U the diagonal matrix of public ``units`` (all 1 unless columns were
weighted). What is known about N is a bound on its spectral norm (``error``, for `lemma_one_bound`) or the standard
deviation of an off-diagonal entry (``deviation``, for the choice of a penalty: `stats.penalty`).

>>> C = np.array([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [1.0, 3.0, 9.0]])
>>> ridge_coefficients(C, 2, [0.0, 1.0])
array([[0.5       , 3.        ],
       [0.33333333, 1.5       ]])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from dpeigen._types import Floats
from dpeigen._validate import complain

__all__ = [
    "RidgeFit",
    "RidgePath",
    "check_alphas",
    "lemma_one_bound",
    "orthogonal_to",
    "ridge_coefficients",
]


# Times the largest eigenvalue, for each column: what rounding alone leaves of an eigenvalue that is 0. Sums of a few
# hundred products were found to leave 5 times the machine precision.
_ROUNDED = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class RidgePath:
    """All ridge solutions for one target and one set of features."""

    values: Floats  # eigenvalues of Â, ascending, none negative
    vectors: Floats  # its eigenvectors, as columns
    scores: Floats  # b̂ in the eigenvectors
    variance: float  # v̂
    units: Floats  # of the features, in which the noise is isotropic
    target_unit: float
    plain: Floats | None = None  # coefficients without a penalty, for which units do not matter

    @classmethod
    def of(
        cls, covariance: Floats, target: int, features: Sequence[int] | None = None, units: ArrayLike | None = None,
        free: Floats | None = None,
    ) -> RidgePath:  # fmt: skip
        """One eigendecomposition; by default ``features`` are all columns except the target.

        ``free``: orthonormal columns whose span contains the coefficients. If the sum of features with weights v is
        constant, coefficients are orthogonal to v. Otherwise noise in place of a variance of 0 would hide them.
        """
        columns = [j for j in range(len(covariance)) if j != target] if features is None else list(features)
        scales = np.ones(len(covariance)) if units is None else np.asarray(units, dtype=np.float64)
        block = covariance[np.ix_(columns, columns)]
        block = (block + block.T) / 2
        values, vectors = eigh(block if free is None else free.T @ block @ free)
        vectors = vectors if free is None else free @ vectors
        return cls(
            values=np.maximum(values, 0.0),
            vectors=vectors,
            scores=vectors.T @ covariance[columns, target],
            variance=float(covariance[target, target]),
            units=scales[columns],
            target_unit=float(scales[target]),
            plain=_plain(block, covariance[columns, target], free),
        )

    def inverse(self, penalties: Floats) -> Floats:
        """1/(s + λ), penalties × eigenvalues; 0 if the denominator is 0 up to rounding (the solution of least norm)."""
        total = self.values + penalties[:, None]
        nothing = total <= _ROUNDED * len(self.values) * self.values.max(initial=0.0)
        return np.divide(1.0, total, out=np.zeros_like(total), where=~nothing)

    def coefficients(self, penalties: Floats) -> Floats:
        """ŵ, penalties × features."""
        found = (self.inverse(penalties) * self.scores) @ self.vectors.T
        return found if self.plain is None else np.where(penalties[:, None] > 0, found, self.plain)

    def residual(self, penalties: Floats) -> Floats:
        """v̂ − 2b̂·ŵ + ŵᵀÂŵ: the mean squared error of ŵ according to Ĉ itself."""
        inverse, squares = self.inverse(penalties), self.scores**2
        left = self.variance + (squares * inverse * (self.values * inverse - 2)).sum(axis=1)
        return np.maximum(left, 0.0)

    def length(self, coefficients: Floats) -> Floats:
        """‖U(−ŵ, 1)‖: noise times this is the noise in b̂ − Âŵ."""
        return np.sqrt(np.sum((self.units * coefficients) ** 2, axis=1) + self.target_unit**2)


def _plain(block: Floats, cross: Floats, free: Floats | None) -> Floats:
    """Â⁻¹b̂ for columns divided by their deviations, so that which eigenvalues count as 0 does not depend on units.

    Of several solutions it is the one of least norm.
    """
    deviations = np.sqrt(np.maximum(np.diag(block), 0.0))
    sizes = np.where(deviations > 0, deviations, 1.0)
    basis = np.eye(len(block)) if free is None else np.linalg.qr(sizes[:, None] * free)[0]
    values, vectors = eigh(basis.T @ (block / np.outer(sizes, sizes)) @ basis)
    nothing = values <= _ROUNDED * len(block) * max(float(values.max(initial=0.0)), 0.0)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=~nothing)
    turned = basis @ vectors
    found = turned @ (inverse * (turned.T @ (cross / sizes))) / sizes
    if nothing.any():
        alike = np.linalg.qr(turned[:, nothing] / sizes[:, None])[0]  # coefficients that predict nothing
        found = found - alike @ (alike.T @ found)
    return np.asarray(found)


def ridge_coefficients(
    covariance: Floats, target_index: int, alphas: ArrayLike, features: Sequence[int] | None = None
) -> Floats:
    """(Â + αI)⁻¹b̂ for every α, alphas × features. α is on the scale of a covariance: scikit-learn's α divided by n."""
    path = RidgePath.of(covariance, target_index, features)
    return path.coefficients(np.atleast_1d(np.asarray(alphas, dtype=np.float64)))


def orthogonal_to(weights: Floats) -> Floats | None:
    """A basis of the orthogonal complement of the rows of a k × p matrix; None for no rows."""
    return np.asarray(np.linalg.qr(weights.T, mode="complete")[0][:, len(weights) :]) if len(weights) else None


def lemma_one_bound(path: RidgePath, penalties: Floats, error: float, coefficients: Floats | None = None) -> Floats:
    """A bound on ‖ŵ − w‖₂ for every penalty, where w are the coefficients from C, provided that ‖N‖₂ ≤ ``error`` = B.

    This is Lemma 1 of Amin et al. 2019 with a better constant. From (A + λ)(w − ŵ) = (b − b̂) − (A − Â)ŵ, whose right
    side is the features' part of (C − Ĉ)(−ŵ, 1),

        ‖ŵ − w‖ ≤ B·√(1 + ‖ŵ‖²) / (λ_min(A) + λ),     λ_min(A) ≥ max(0, λ_min(Â) − B)

    where the lemma has 1 + ‖ŵ‖ instead of the root. (With units, B is multiplied by the largest unit of the features,
    twice for λ_min, and the root is `RidgePath.length`.) It is infinite if the denominator may be 0.

    ``coefficients``: ŵ other than those of the path. Then ‖b̂ − (Â + λ)ŵ‖, which is 0 otherwise, is added to B·√….
    """
    widest = float(path.units.max())
    curvature = max(0.0, float(path.values[0]) - widest**2 * error) + penalties
    found = path.coefficients(penalties) if coefficients is None else coefficients
    left = path.scores - (path.values + penalties[:, None]) * (found @ path.vectors)
    distance = widest * error * path.length(found) + (0.0 if coefficients is None else np.linalg.norm(left, axis=1))
    return np.divide(distance, curvature, out=np.full(len(penalties), math.inf), where=curvature > 0)


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """A ridge regression computed from a release, as safe to publish as the release itself.

    For an array of m values of α every number below is an array over them, and ``coef`` is m × p.

    Attributes
    ----------
    coef : (p,) coefficients of the features.
    intercept : float, or None if the release has no centre.
    alpha : the penalty, scikit-learn's convention.
    feature_names, target : names of the columns.
    error_bound : with probability 95% over the noise, ‖coef − w‖₂ is at most this, where w are the coefficients without
        noise (of the same clipped rows, at this α). Lemma 1 of Amin et al. 2019, sharpened; None if the release does
        not state the error of its covariance, and infinite if the bound says nothing.
    scales : (p,) the penalty was α·Σ(s·w)² with these s.
    """

    coef: Floats
    intercept: float | Floats | None
    alpha: float | Floats
    feature_names: tuple[str, ...]
    target: str
    error_bound: float | Floats | None
    scales: Floats

    def __post_init__(self) -> None:
        for value in (self.coef, self.intercept, self.alpha, self.error_bound, self.scales):
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def predict(self, X: Any) -> Floats:
        """Predict the target of rows. Predictions for private rows are private data.

        Parameters
        ----------
        X : array or table with n rows
            A data frame is read by its column names, anything else by column order.

        Returns
        -------
        (n,) array, or (n, m) for m values of α
            Predictions in the target's unit.
        """
        if self.intercept is None:
            raise ValueError(
                "This fit has slopes but no intercept: the release has no centre (none was paid for). Use `coef` on "
                "differences, or fit_intercept=False if the columns have mean 0."
            )
        p = len(self.feature_names)
        rows = _table(X, self.feature_names)
        if rows is None or rows.ndim != 2 or rows.shape[1] != p:
            raise ValueError(
                f"X must be a table of real numbers with the {p} columns of `feature_names`, in that order."
            )
        result: Floats = rows @ self.coef.T + self.intercept
        return result


def _table(X: Any, names: Sequence[str]) -> Floats | None:
    """Rows of numbers, by name if X has names; None if X is something else (no error may quote it)."""
    try:
        if set(names) <= set(getattr(X, "columns", ())):
            X = X[list(names)]
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def check_alphas(value: Any, owner: str, *, many: bool = True) -> Floats | None:
    """One penalty (zero-dimensional) or several, or None for "auto"."""
    must = "'auto', a finite number ≥ 0" + (" or a vector of them" if many else "")
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(complain("alpha", owner, must, value))
        return None
    alphas = np.asarray(value) if not isinstance(value, (bool, type(None))) else np.array(None)
    if alphas.dtype.kind not in "fiu":
        raise TypeError(complain("alpha", owner, must, value))
    if alphas.ndim > int(many) or alphas.size == 0 or not np.isfinite(alphas).all() or (alphas < 0).any():
        raise ValueError(complain("alpha", owner, must, value))
    return alphas.astype(np.float64)
