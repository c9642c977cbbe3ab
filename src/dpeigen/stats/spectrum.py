"""Post-processing of a noisy symmetric matrix, and distances between subspaces and matrices.

Everything here is a function of releases (or of public data in `evaluation`), so it costs nothing.

- `shrink_eigenvalues` removes the known inflation of a noisy spectrum. For Y = C + N with N free of C, the best
  rotation-invariant estimate of the eigenvalue at y is y − Re R(g) − Im R(g)·Re g/Im g, g = g(y − iη) the Stieltjes
  transform of the noisy spectrum and R the R-transform of the noise (Bun, Bouchaud, Potters 2017). Gaussian noise of
  off-diagonal deviation τ has R(g) = dτ²·g, which gives the familiar y − 2dτ²·Re g. The difference of two Wisharts
  has R(g) = 2qc²g/(1 − q²c²g²), c = s(d+1), q = d/(d+1).
- `project_eigenvalues` is the Euclidean projection on {λ ≥ 0, Σλ ≤ trace}.

>>> project_eigenvalues(np.array([3.0, 1.0, -2.0]), trace=2.0)
array([2., 0., 0.])
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import isotonic_regression
from scipy.special import chdtri

from dpeigen._types import Floats
from dpeigen.privacy.sphere import envelope

__all__ = [
    "Complexes",
    "RTransform",
    "captured_variance",
    "expected_rayleigh",
    "fix_signs",
    "gaussian_r_transform",
    "isotonic_decreasing",
    "leading_components",
    "ordered_variances",
    "orthonormal",
    "precise_eigh",
    "principal_angles",
    "project_eigenvalues",
    "projection_distance",
    "relative_frobenius",
    "shrink_eigenvalues",
    "sin_theta",
    "symmetric_eigh",
    "wishart_difference_r_transform",
    "with_remainder",
]

Complexes = NDArray[np.complex128]
_SMALL = 64  # columns
_UNLIKELY = 0.01  # the probability with which noise contradicts an order that is right
_GRADED = 1e8  # a ratio of variances at which half of the digits of the smaller one are lost
_VANISHING = 1e-140  # relative to the largest entry: far below the rounding error of eigenvalues
RTransform = Callable[[Complexes], Complexes]


def gaussian_r_transform(d: int, tau: float) -> RTransform:
    """R-transform of d×d symmetric noise whose off-diagonal entries have standard deviation τ."""
    return lambda g: d * tau**2 * g


def wishart_difference_r_transform(d: int, scale: float) -> RTransform:
    """R-transform of scale·(G₁G₁ᵀ − G₂G₂ᵀ), G d×(d+1) standard Gaussian."""
    c, q = scale * (d + 1), d / (d + 1)
    return lambda g: 2 * q * c**2 * g / (1 - (q * c * g) ** 2)


def shrink_eigenvalues(noisy: Floats, r_transform: RTransform, spread: float) -> Floats:
    """Denoised eigenvalues, ascending like the input; ``spread`` = √d·τ is half the noise spectrum's radius."""
    d = len(noisy)
    if spread == 0.0:
        return noisy.copy()
    eta = spread / math.sqrt(d)
    g = np.mean(1.0 / (noisy[:, None] - 1j * eta - noisy[None, :]), axis=1)
    r = r_transform(g)
    return np.sort(noisy - r.real - r.imag * g.real / g.imag)


def project_eigenvalues(values: Floats, trace: float = math.inf) -> Floats:
    """The nearest non-negative vector whose sum is at most ``trace``."""
    clipped = np.maximum(values, 0.0)
    if clipped.sum() <= trace:
        return clipped
    descending = np.sort(values)[::-1]
    thresholds = (np.cumsum(descending) - trace) / np.arange(1, len(values) + 1)
    # ≥, not >: the first entry is always kept, even if its difference from the trace is lost to rounding.
    keep = int(np.nonzero(descending >= thresholds)[0][-1])
    return np.maximum(values - thresholds[keep], 0.0)


def isotonic_decreasing(values: Floats) -> Floats:
    """The nearest decreasing sequence: noisy eigenvalues that were decreasing before the noise."""
    return isotonic_regression(values, increasing=False).x


def ordered_variances(values: Floats, deviations: Floats) -> tuple[NDArray[np.intp], Floats]:
    """The order of directions by their noisy variances, and the variances in this order, decreasing.

    The directions come in the order that is expected, by which their variances decrease. It is kept unless the
    variances contradict it clearly: if the nearest decreasing sequence fits them worse than noise does in 99 of 100
    cases. With the expected order, that sequence is the best estimate. Otherwise one large noise on a variance makes
    another direction the first component.

    >>> ordered_variances(np.array([0.1, 0.12, 0.02]), np.full(3, 0.05))[1].round(2).tolist()
    [0.11, 0.11, 0.02]
    >>> ordered_variances(np.array([0.1, 0.9, 0.02]), np.full(3, 0.05))[0].tolist()
    [1, 0, 2]
    """
    size = max(float(np.abs(values).max(initial=0.0)), float(deviations.max(initial=0.0)), 1e-300)
    least = np.clip(deviations / size, 1e-12, 1.0)
    fitted = isotonic_regression(values / size, weights=least**-2.0, increasing=False).x
    misfit = float((((values / size - fitted) / least) ** 2).sum())
    if misfit <= chdtri(max(len(values) - 1, 1), _UNLIKELY):
        return np.arange(len(values)), fitted * size
    order = np.argsort(-values, kind="stable")
    return order, values[order]


def with_remainder(directions: Floats, variances: Floats, left: float) -> Floats:
    """The matrix with these variances along orthonormal directions (rows), and the variance ``left`` along all others.

    >>> with_remainder(np.array([[0.0, 1.0]]), np.array([3.0]), 1.0).tolist()
    [[1.0, 0.0], [0.0, 3.0]]
    """
    return (directions.T * (variances - left)) @ directions + left * np.eye(directions.shape[1])


def expected_rayleigh(values: Floats, concentrations: Floats) -> Floats:
    """The expected uᵀCu of directions drawn one after the other from exp(cᵢ·uᵀCu), if C has these eigenvalues.

    In the eigenbasis a draw has E[uⱼ²] ≈ 1/(b + 2c(λ_max − λⱼ)), with b such that these sum to 1 (the envelope of the
    Bingham sampler, exact for c → 0 and c → ∞). The next draw uses the eigenvalues of the compression of C to u^⊥, for
    a u with these squares. Values after those of the drawn directions are the eigenvalues that remain.
    """
    left = np.sort(values)[::-1].astype(np.float64)
    expected = []
    for c in concentrations:
        if len(left) == 1:
            break
        beta = c * (left[0] - left)
        squares = 1.0 / (envelope(beta) + 2.0 * beta)
        squares /= squares.sum()
        expected.append(float(squares @ left))
        u = np.sqrt(squares)
        projector = np.eye(len(left)) - np.outer(u, u)
        left = np.asarray(
            np.linalg.eigvalsh((projector * left) @ projector)[::-1][:-1], dtype=np.float64
        )  # the smallest is that of u itself, 0
    return np.concatenate([expected, np.maximum(left, 0.0)])


def symmetric_eigh(matrix: Floats, most: int | None = None) -> tuple[Floats, Floats]:
    """Eigenvalues, descending, and eigenvectors as rows with positive largest entries; all, or the first ``most``."""
    d = len(matrix)
    sizes = np.abs(matrix)
    matrix = np.where(sizes < _VANISHING * sizes.max(), 0.0, matrix)  # LAPACK may not end if entries differ by more
    if most is None and (d <= _SMALL or _is_graded(matrix)):  # another LAPACK routine with less overhead
        values, vectors = precise_eigh(matrix)
    else:
        values, vectors = eigh(matrix, subset_by_index=None if most is None else (d - most, d - 1))
    return values[::-1].copy(), fix_signs(vectors.T[::-1])


def precise_eigh(matrix: Floats) -> tuple[Floats, Floats]:
    """The result of `numpy.linalg.eigh`, also precise if columns have very different units.

    Usual errors are relative to the largest eigenvalue: beside a column with values of 10¹¹, variances of columns with
    values of 100 are lost. With the columns ordered by decreasing variance, and QR iterations, errors are relative to
    each eigenvalue (a test compares with 60 digits).
    """
    if not _is_graded(matrix):
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors
    order = np.argsort(-np.diag(matrix), kind="stable")
    values, turned = eigh(matrix[np.ix_(order, order)], driver="ev")
    vectors = np.empty_like(turned)
    vectors[order] = turned
    return values, vectors


def _is_graded(matrix: Floats) -> bool:
    sizes = np.diag(matrix)
    positive = sizes[sizes > 0]
    return bool(len(positive)) and float(positive.max()) > _GRADED * float(positive.min())


def leading_components(covariance: Floats, k: int) -> tuple[Floats, Floats, float]:
    """The first k components of a covariance as rows, their variances, and the mean of the other variances."""
    values, components = symmetric_eigh(covariance)
    values = np.maximum(values, 0.0)
    return components[:k], values[:k], float(values[k:].mean()) if k < len(values) else 0.0


def fix_signs(rows: Floats) -> Floats:
    """Rows with signs such that the entry of largest magnitude is positive: signs then do not flip between runs."""
    largest = np.abs(rows).argmax(axis=1)
    signs = np.where(rows[np.arange(len(rows)), largest] < 0, -1.0, 1.0)
    return np.ascontiguousarray(rows * signs[:, None])


# --- distances; V holds orthonormal rows -------------------------------------------------------------------------


def orthonormal(directions: Floats) -> Floats:
    """Gram–Schmidt in the order of the rows, twice for full precision."""
    done: list[Floats] = []
    for direction in directions:
        for _ in range(2):
            for other in done:
                direction = direction - (direction @ other) * other
            direction = direction / (float(np.linalg.norm(direction)) or 1.0)
        done.append(direction)
    return np.array(done)


def principal_angles(first: Floats, second: Floats) -> Floats:
    """Compute the principal angles between two row spaces; accurate for small and for right angles.

    Parameters
    ----------
    first : (k, d) array
        Orthonormal rows.
    second : (m, d) array
        Orthonormal rows.

    Returns
    -------
    (min(k, m),) array
        Angles in radians, ascending.
    """
    a = np.linalg.qr(np.atleast_2d(np.asarray(first, dtype=float)).T)[0]
    b = np.linalg.qr(np.atleast_2d(np.asarray(second, dtype=float)).T)[0]
    if b.shape[1] > a.shape[1]:
        a, b = b, a
    cosines = np.sort(np.linalg.svd(a.T @ b, compute_uv=False))[::-1][: b.shape[1]]
    sines = np.sort(np.linalg.svd(b - a @ (a.T @ b), compute_uv=False))[: b.shape[1]]
    return np.where(cosines**2 > 0.5, np.arcsin(np.clip(sines, 0, 1)), np.arccos(np.clip(cosines, 0, 1)))


def sin_theta(first: Floats, second: Floats) -> float:
    """Compute the sine of the largest principal angle between two row spaces.

    Parameters
    ----------
    first : (k, d) array
        Orthonormal rows.
    second : (m, d) array
        Orthonormal rows.

    Returns
    -------
    float
        0 if one row space contains the other, 1 if some direction is lost completely.
    """
    return float(np.sin(principal_angles(first, second)[-1]))


def projection_distance(first: Floats, second: Floats, order: float = 2.0) -> float:
    """Compute the distance ‖P₁ − P₂‖ between the projectors on two row spaces.

    Parameters
    ----------
    first : (k, d) array
        Orthonormal rows.
    second : (m, d) array
        Orthonormal rows.
    order : float, default=2.0
        Of the Schatten norm: 2 is Frobenius, inf is spectral.

    Returns
    -------
    float
        The distance; 0 is perfect.
    """
    a = np.linalg.qr(np.atleast_2d(np.asarray(first, dtype=float)).T)[0]
    b = np.linalg.qr(np.atleast_2d(np.asarray(second, dtype=float)).T)[0]
    values = np.linalg.svd(a @ a.T - b @ b.T, compute_uv=False)
    return float(values.max() if math.isinf(order) else np.sum(values**order) ** (1 / order))


def captured_variance(components: Floats, covariance: Floats) -> float:
    """Compute the variance along components, relative to the best possible with as many: tr(VΣVᵀ) over the sum of the
    largest eigenvalues.

    Parameters
    ----------
    components : (k, d) array
        Orthonormal rows.
    covariance : (d, d) array
        The true covariance matrix.

    Returns
    -------
    float
        1 is perfect.
    """
    rows = np.linalg.qr(np.atleast_2d(np.asarray(components, dtype=float)).T)[0].T
    values = np.sort(np.linalg.eigvalsh(covariance))[::-1][: len(rows)]
    return float(np.trace(rows @ covariance @ rows.T) / values.sum())


def relative_frobenius(estimate: Floats, truth: Floats) -> float:
    """Compute ‖Ĉ − C‖_F / ‖C‖_F.

    Parameters
    ----------
    estimate : (d, d) array
        Ĉ.
    truth : (d, d) array
        C.

    Returns
    -------
    float
        0 is perfect.
    """
    return float(np.linalg.norm(np.asarray(estimate) - truth) / np.linalg.norm(truth))
