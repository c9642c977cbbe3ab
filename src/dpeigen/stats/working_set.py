"""Fantope projection and selection on a few columns, with a proof that the others are not needed.

If few entries of S exceed λ, a solution uses few columns, but these are linked to many others (in noise, nearly all
columns are connected as soon as each has more than one link). So the problem is solved on a working set W, which grows
by the columns that are linked to the support. When none are left, the answer is checked on all columns. Let Z be ADMM's
dual variable on W, and S clipped to ±λ elsewhere. The k largest eigenvalues of S − Z add up to an upper bound on the
maximum over *all* columns. S − Z is sparse outside W, so that costs little. The answer is accepted only if this bound
equals that on W alone, up to the tolerance. Otherwise the columns on which the leading eigenvectors of S − Z are large
are added. In the worst case W becomes all columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import eigsh

from dpeigen._types import Floats
from dpeigen.stats.admm import Admm

__all__ = ["Solution", "solve"]

Columns = NDArray[np.intp]
_SMALL = 128  # with fewer columns, a working set is not worthwhile
_LINKS = 8  # most links per column, on average, for which a solution may be much smaller than the problem
_FIRST = 48  # columns of the first working set
_SHARE = 3  # if the working set exceeds 1/_SHARE of all columns, all are used


@dataclass(frozen=True, eq=False)
class Solution:
    """The final state of ADMM, its columns, the number of all iterations, and the gap over all columns."""

    admm: Admm
    columns: Columns
    iterations: int
    gap: float
    converged: bool


def solve(s: Floats, s_single: Floats, k: int, penalty: float, tolerance: float, most: int) -> Solution:
    """Solve for linked columns (a matrix) and single ones (scalars)."""
    q = len(s)
    soft = _thresholded(s, penalty) if q > _SMALL else None
    if soft is None or soft.nnz > (_LINKS + 1) * q:
        core, everything = Admm(s, s_single, k, penalty), np.arange(q)
        converged = core.run(tolerance, most)
        return Solution(core, everything, core.iterations, core.bound() - core.objective(), converged)
    reach = soft.diagonal() + np.asarray(abs(soft).sum(axis=1)).reshape(-1) - np.abs(soft.diagonal())
    working, iterations, last = np.sort(np.argsort(-reach)[: max(_FIRST, 3 * k)]), 0, None
    while True:
        core = _started(s, s_single, k, penalty, working, last)
        converged = core.run(tolerance, most)
        iterations, last = iterations + core.iterations, (core, working)
        more = _linked_to_support(soft, working, core)
        if not len(more):
            bound, more = _bound(soft, working, core)
            here = core.bound()
            if not len(more) or bound - here <= tolerance * max(abs(here), 1.0):
                return Solution(core, working, iterations, bound - core.objective(), converged)
        working = np.union1d(working, np.union1d(more, soft[more].indices))  # with their neighbours, which saves rounds
        working = working if _SHARE * len(working) < q else np.arange(q)


def _thresholded(s: Floats, penalty: float) -> csr_matrix:
    """sign(Sᵢⱼ)·max(|Sᵢⱼ| − λ, 0) off the diagonal, Sᵢᵢ − λ on it."""
    soft = s - np.clip(s, -penalty, penalty)
    np.fill_diagonal(soft, np.diag(s) - penalty)
    return csr_matrix(soft)


def _started(
    s: Floats, s_single: Floats, k: int, penalty: float, working: Columns, before: tuple[Admm, Columns] | None
) -> Admm:
    """ADMM on the working set, started from the end of the last run."""
    core = Admm(s[np.ix_(working, working)], s_single, k, penalty)
    if before is not None:
        old, columns = before
        at = np.ix_(np.searchsorted(working, columns), np.searchsorted(working, columns))
        core.y[at], core.u[at], core.rho = old.y, old.u, old.rho
        core.y_single, core.u_single = old.y_single, old.u_single
    return core


def _linked_to_support(soft: csr_matrix, working: Columns, core: Admm) -> Columns:
    """Columns outside the working set that have an entry above λ with a column of the support."""
    support = working[np.abs(core.y).max(axis=1) > 0]
    return np.setdiff1d(np.unique(soft[support].indices), working)


def _bound(soft: csr_matrix, working: Columns, core: Admm) -> tuple[float, Columns]:
    """An upper bound on the maximum over all columns, and the columns outside the working set that raise it most."""
    rest = soft.copy().tolil()
    z, z_single = core.dual
    rest[np.ix_(working, working)] = core.s - z
    wanted = min(core.k + 1, soft.shape[0] - 2)
    start = np.ones(soft.shape[0])
    values, vectors = eigsh(rest.tocsr(), wanted, which="LA", v0=start, tol=1e-6)
    every = np.sort(np.concatenate([values, core.s_single - z_single]))[::-1]
    weights = np.square(vectors[:, values >= every[core.k - 1]]).sum(axis=1)
    weights[working] = 0.0
    heavy = np.argsort(-weights)[: len(working)]
    return float(every[: core.k].sum()), np.sort(heavy[weights[heavy] > 1e-6])
