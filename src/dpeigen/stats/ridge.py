"""Ridge regression from a covariance matrix alone: any target, any features, any number of penalties, and its errors.

With Â the block of the features, b̂ their covariances with the target and v̂ the variance of the target, ridge
coefficients are ŵ = (Â + λI)⁻¹b̂, one eigendecomposition of Â for all λ. Everything here is a function of a released
matrix and of public facts about its noise, so it spends nothing.

Here the penalty λ is added to a covariance, a mean over rows. scikit-learn's α (‖y − Xw‖² + α‖w‖²) is n·λ, and the α
of Amin et al. 2019 (½·mean squared error + α‖w‖²) is λ/2: their 2αn is scikit-learn's α.

Noise. Released is Ĉ = C + UNU with N symmetric and U the diagonal matrix of public ``units`` (all 1 unless columns were
weighted). What is known about N is a bound on its spectral norm (``error``, for `lemma_one_bound`) or the standard
deviation of an off-diagonal entry (``deviation``, for `expected_error`).

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
    "choose_penalty",
    "expected_error",
    "lemma_one_bound",
    "noise_penalty",
    "orthogonal_to",
    "prediction_variance",
    "ridge_coefficients",
]

_GRID = 100  # penalties tried by `choose_penalty`
_NOISE = 0.6  # the penalty that noise alone requires, in τ√p
_TRUSTED = 24  # number of features above which the least expected error is more reliable than the noise alone
_USUAL, _MOST = 0.35, 3.0  # the apparent R² below which a fit needs a larger penalty, and the largest factor on it
_LEFT = 0.9  # of the deviation of the noise that is left in a released matrix after shrinking

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


def prediction_variance(path: RidgePath, penalties: Floats, deviation: float) -> Floats:
    """The effect of noise on predictions: E ‖Â^½ δw‖², δw = G·(UNU(−ŵ, 1)) on the features, G = (Â + λI)⁻¹.

    To first order in N. For entries of deviation τ off the diagonal and √2·τ on it, uncorrelated (Gaussian noise and
    the difference of two Wishart matrices), E[(Nq)(Nq)ᵀ] = τ²(‖q‖²I + qqᵀ), so this is
    τ²·(‖q‖²·tr(U²GÂG) + (U²ŵ)ᵀGÂG(U²ŵ)) with q = U(−ŵ, 1).
    """
    coefficients = path.coefficients(penalties)
    damped = path.values * path.inverse(penalties) ** 2  # the eigenvalues of GÂG
    spread = (path.units**2) @ path.vectors**2  # the diagonal of U² in the eigenvectors
    turned = (coefficients * path.units**2) @ path.vectors
    return deviation**2 * (path.length(coefficients) ** 2 * (damped @ spread) + np.sum(damped * turned**2, axis=1))


def expected_error(path: RidgePath, penalties: Floats, deviation: float, n_rows: float) -> Floats:
    """An estimate of the mean squared prediction error of ŵ for fresh rows, from released and public numbers only.

    It is Mallows's Cp with a second source of noise: the residual variance by Ĉ, plus a correction, since it is too low
    because ŵ was fitted to the noise too,

        (v̂ − 2b̂·ŵ + ŵᵀÂŵ)·(1 + 2·df/n) + 2·`prediction_variance`,     df = tr ÂG

    The factor 2 is that of Cp: the noise makes the error seem smaller by its variance and makes it larger by as much.
    For raw Gaussian noise Stein's identity gives the exact correction, which has G in place of GÂG; the two agree if λ
    is small compared with the eigenvalues. A released matrix has been shrunk and projected, and has little noise in the
    directions where Â is nearly 0; there GÂG contributes nothing, and G would contribute most.

    Limits: it is an estimate without a guarantee. It treats the shrunk matrix as a noisy one with the full deviation,
    is of first order, ignores the bias from clipping rows, and compares penalties better than it measures errors.
    docs/ridge.md states how far the choice is from the best in hindsight.
    """
    freedom = (path.values * path.inverse(penalties)).sum(axis=1)
    sampling = 1 + 2 * freedom / n_rows
    return path.residual(penalties) * sampling + 2 * prediction_variance(path, penalties, deviation)


def choose_penalty(path: RidgePath, deviation: float, n_rows: float, *, stated: bool = False) -> float:
    """The λ of least `expected_error` on a grid of 100 from 10⁻⁸ to 10 times the largest eigenvalue of Â.

    A released matrix has been shrunk for its noise, so it contains less than all of it (docs/ridge.md).

    ``stated``: the deviation is that of the noise, not a guess. Then the noise itself is a better guide to λ than the
    minimum of a curve that noise has moved, unless the curve is a sum over many features. λ is the geometric mean of
    the λ of least error and `noise_penalty`, with weights p : 24, times a factor for how well the fit explains the
    target (`_for_explained`).
    """
    largest = float(path.values.max(initial=0.0)) or 1.0
    grid = largest * np.logspace(-8, 1, _GRID)
    best = float(grid[np.argmin(expected_error(path, grid, _LEFT * deviation, n_rows))])
    trust = len(path.units) / (len(path.units) + _TRUSTED)
    if not stated or deviation <= 0:
        return best
    penalty = best**trust * noise_penalty(path, deviation) ** (1 - trust)
    return penalty * _for_explained(path, penalty, deviation)


def _for_explained(path: RidgePath, penalty: float, deviation: float) -> float:
    """0.35/R̂², at least 1 and at most 3, where R̂² = b̂ᵀGb̂/v̂ is the share of the variance that the fit explains.

    For a target that nothing explains, whatever noise does to the coefficients is a loss. Noise that is large compared
    with the variances of the features hides what they explain, so the factor is at most that ratio.

    Chosen on 520 cells that benchmarks/ridge.py draws with seeds 101 to 104: where R̂² was below 0.3, factors of 2 gave
    the highest R². Without the ratio as a limit, targets that few rows explain well would lose.
    """
    noise, spread = deviation * float(np.mean(path.units**2)), float(np.mean(path.values))
    most = _MOST if spread >= _MOST * noise else max(1.0, spread / noise)
    explained = float(path.scores**2 @ path.inverse(np.array([penalty]))[0])
    if explained * most <= _USUAL * path.variance:
        return most
    return max(1.0, _USUAL * path.variance / explained)


def noise_penalty(path: RidgePath, deviation: float) -> float:
    """0.6·τ√p for p features, with τ the noise on an entry of Â: where the variance of a direction equals its noise.

    ŵ is off by (Â + λ)⁻¹(Nq) and λ(Â + λ)⁻¹w. In a direction where Â has the eigenvalue a, with coefficients of size
    ‖q‖/√p each, both have the same mean square at λ = τ√p, whatever a is. It does not depend on the noise in b̂.
    """
    return _NOISE * deviation * float(np.mean(path.units**2)) * math.sqrt(len(path.units))


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
