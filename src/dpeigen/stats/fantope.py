"""Sparse principal subspaces by convex optimisation: the Fantope, its projection, and ADMM over it.

The Fantope F_k = {0 ⪯ X ⪯ I, tr X = k} is the convex hull of the projectors on k-dimensional subspaces. Fantope
projection and selection (Vu, Cho, Lei, Rohe 2013) solves

    maximise ⟨S, X⟩ − λ‖X‖₁ over X in F_k,    ‖·‖₁ the sum of absolute entries,

here by ADMM (`stats.admm`). Three facts make it fast and checkable. *Screening* (`stats.screening`): columns without
an entry above λ are treated as scalars, and connected parts that no solution uses are left out. *A certificate*: for
any Z with |Zᵢⱼ| ≤ λ, the sum of the k largest eigenvalues of S − Z is an upper bound on the maximum. The dual variable
of ADMM gives such a Z, and the gap is reported. *A working set* (`stats.working_set`): if few entries exceed λ, the
problem is solved on a few columns, and the certificate shows that the others are not needed.

Everything here is computed from released or public matrices, so it spends nothing.

>>> project_fantope(np.diag([5.0, 0.3, 0.0]), 1)
array([[1., 0., 0.],
       [0., 0., 0.],
       [0., 0., 0.]])
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

from dpeigen._types import Floats
from dpeigen._validate import check_count, check_positive, complain
from dpeigen.stats.admm import fantope_threshold
from dpeigen.stats.screening import kept_columns
from dpeigen.stats.working_set import solve

__all__ = ["SparseProjector", "fantope_admm", "fantope_threshold", "project_fantope"]


def project_fantope(matrix: Floats, k: int) -> Floats:
    """The nearest matrix of the Fantope in Frobenius norm."""
    matrix = _symmetric(matrix)
    check_count("k", k, "project_fantope", high=len(matrix))
    values, vectors = eigh(matrix)
    kept = np.clip(values - fantope_threshold(values, k), 0.0, 1.0)
    return (vectors * kept) @ vectors.T


@dataclass(frozen=True, eq=False)
class SparseProjector:
    """The solution of Fantope projection and selection.

    Attributes
    ----------
    projector : (p, p) the sparse solution Y.
    components : (k, p) its first eigenvectors as rows, exactly 0 outside the support.
    support : columns with a non-zero row.
    penalty : λ.
    iterations : of ADMM.
    gap : the certificate's bound on the distance of the objective from the maximum.
    converged : whether both residuals met the tolerance.
    """

    projector: Floats
    components: Floats
    support: NDArray[np.intp]
    penalty: float
    iterations: int
    gap: float
    converged: bool


def fantope_admm(
    matrix: Floats, k: int, penalty: float, *, tolerance: float = 1e-5, max_iterations: int = 2000
) -> SparseProjector:
    """Solve maximise ⟨S, X⟩ − λ‖X‖₁ over the Fantope.

    ``tolerance`` is relative, on the primal and the dual residual.
    """
    owner = "fantope_admm"
    matrix = _symmetric(matrix)
    p = len(matrix)
    k = check_count("k", k, owner, high=p)
    penalty = 0.0 if penalty == 0 else check_positive("penalty", penalty, owner)
    check_positive("tolerance", tolerance, owner)
    check_count("max_iterations", max_iterations, owner)
    joined, single = kept_columns(matrix, k, penalty)
    scale = max(float(np.abs(matrix).max()), 1e-300)
    block, variances = matrix[np.ix_(joined, joined)] / scale, np.diag(matrix)[single] / scale
    # Below a thousand columns, BLAS threads spend more time waiting than working (measured: 20 times slower).
    with threadpool_limits(1, user_api="blas") if len(joined) < 1000 else nullcontext():
        found = solve(block, variances, k, penalty / scale, tolerance, max_iterations)
    projector = np.zeros((p, p))
    used = joined[found.columns]
    projector[np.ix_(used, used)] = found.admm.y
    projector[single, single] = found.admm.y_single
    support = np.flatnonzero(np.abs(projector).max(axis=1) > 0)
    components = _leading(projector, support, k)
    return SparseProjector(
        projector, components, support, penalty, found.iterations, found.gap * scale, found.converged
    )


def _symmetric(matrix: Floats) -> Floats:
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or not np.isfinite(matrix).all():
        must = "a square matrix of finite numbers"
        raise ValueError(complain("matrix", "dpeigen.stats.fantope", must, f"shape {matrix.shape}"))
    return (matrix + matrix.T) / 2


def _leading(projector: Floats, support: NDArray[np.intp], k: int) -> Floats:
    """The first k eigenvectors as rows; if the support is smaller than k, unit vectors are added."""
    p, r = len(projector), min(k, len(support))
    rows = np.zeros((k, p))
    if r:
        _, vectors = eigh(projector[np.ix_(support, support)], subset_by_index=[len(support) - r, len(support) - 1])
        rows[:r, support] = vectors.T[::-1]
    rows[np.arange(r, k), np.setdiff1d(np.arange(p), support)[: k - r]] = 1.0
    return rows
