"""ADMM for Fantope projection and selection (`stats.fantope`), on linked and on single columns.

X ← Π_F(Y − U + S/ρ), Y ← soft(X + U, λ/ρ), U ← U + X − Y, over-relaxed, with ρ balanced between the two residuals.
Π_F keeps the eigenvectors and changes the eigenvalues to min(max(γᵢ − θ, 0), 1), with θ such that they add up to k.
Only eigenvalues above θ are needed, so large problems use a partial eigensolver, started from the last eigenvectors.

>>> fantope_threshold(np.array([5.0, 0.3, 0.0]), 1)
4.0
"""

from __future__ import annotations

import math
import warnings

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import lobpcg

from dpeigen._types import Floats

__all__ = ["Admm", "fantope_threshold"]

_DENSE = 256  # up to this many columns a full eigendecomposition is the fastest
_NARROW = 12  # an iterative eigensolver is faster if less than 1/_NARROW of the eigenvectors is wanted
_ROUGH = 1e-4  # above this tolerance large eigenproblems are solved in single precision, at half the cost
_RELAXATION = 1.6
_BALANCE_UNTIL = 200  # iterations after which ρ is fixed, so that convergence is guaranteed


def fantope_threshold(values: Floats, k: int) -> float:
    """θ with Σ min(max(γᵢ − θ, 0), 1) = k; the sum is piecewise linear in θ with corners at γᵢ and γᵢ − 1."""

    def total(theta: float) -> float:
        return float(np.clip(values - theta, 0.0, 1.0).sum())

    corners = np.unique(np.concatenate([values, values - 1.0]))
    low, high = 0, len(corners) - 1  # total(corners[low]) ≥ k ≥ total(corners[high])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if total(corners[middle]) >= k else (low, middle)
    a, b = float(corners[low]), float(corners[high])
    at_a, at_b = total(a), total(b)
    return a if at_a <= at_b else a + (b - a) * (at_a - k) / (at_a - at_b)


def _soft(values: Floats, threshold: float) -> Floats:
    return values - np.clip(values, -threshold, threshold)


class Admm:
    """The iteration on linked columns (a matrix) and single columns (scalars), in units of the largest entry."""

    def __init__(self, s: Floats, s_single: Floats, k: int, penalty: float) -> None:
        self.s, self.s_single, self.k, self.penalty = s, s_single, k, penalty
        self.y, self.u = np.zeros_like(s), np.zeros_like(s)
        self.y_single, self.u_single = np.zeros_like(s_single), np.zeros_like(s_single)
        self.rho, self.iterations = 2.0, 0
        self._basis: Floats | None = None
        self._rank = len(s)  # how many eigenvectors to ask for
        self._residual = 1.0
        self._rough = False  # whether single precision is enough

    def run(self, tolerance: float, most: int) -> bool:
        self._rough = tolerance >= _ROUGH and len(self.s) > _DENSE
        for self.iterations in range(1, most + 1):
            x, x_single = self._project(
                self.y - self.u + self.s / self.rho, self.y_single - self.u_single + self.s_single / self.rho
            )
            primal, dual, size, dual_size = self._step(x, x_single)
            self._residual = max(primal / size, dual / dual_size)
            if primal <= tolerance * size and dual <= tolerance * dual_size:
                return True
            if self.iterations % 5 == 0 and self.iterations <= _BALANCE_UNTIL:
                self._balance(primal / size, dual / dual_size)
        return False

    def _step(self, x: Floats, x_single: Floats) -> tuple[float, float, float, float]:
        """Update Y and U; return the residuals and the sizes that they are relative to."""
        threshold, old, old_single = self.penalty / self.rho, self.y, self.y_single
        relaxed = _RELAXATION * x + (1 - _RELAXATION) * old
        relaxed_single = _RELAXATION * x_single + (1 - _RELAXATION) * old_single
        self.u += relaxed
        self.u_single += relaxed_single
        self.y, self.y_single = _soft(self.u, threshold), _soft(self.u_single, threshold)
        self.u -= self.y
        self.u_single -= self.y_single
        primal = math.hypot(_norm(x - self.y), _norm(x_single - self.y_single))
        dual = self.rho * math.hypot(_norm(self.y - old), _norm(self.y_single - old_single))
        size = max(math.sqrt(self.k), math.hypot(_norm(self.y), _norm(self.y_single)))
        return primal, dual, size, max(self.rho * math.hypot(_norm(self.u), _norm(self.u_single)), 1e-12)

    def _balance(self, primal: float, dual: float) -> None:
        """Residual balancing (Boyd et al. 2011, 3.4.1), by the square root of their ratio."""
        factor = min(max(math.sqrt(primal / max(dual, 1e-300)), 0.2), 5.0)
        if 0.7 < factor < 1.4:
            return
        self.rho *= factor
        self.u /= factor
        self.u_single /= factor

    def _project(self, w: Floats, w_single: Floats) -> tuple[Floats, Floats]:
        values, vectors, theta = self._above(w, w_single)
        kept = np.clip(values - theta, 0.0, 1.0)
        used = kept > 0
        block = vectors[:, used] * kept[used] @ vectors[:, used].T if used.any() else np.zeros_like(w)
        return block, np.clip(w_single - theta, 0.0, 1.0)

    def _above(self, w: Floats, w_single: Floats) -> tuple[Floats, Floats, float]:
        """Eigenvalues, at least all above θ, eigenvectors, and θ."""
        q = len(w)
        if q == 0:
            return np.zeros(0), np.zeros((0, 0)), fantope_threshold(w_single, self.k)
        partial = self._partial(w, w_single) if q > _DENSE and self._basis is not None else None
        if partial is not None:
            return partial
        while True:
            values, vectors = _top(w.astype(np.float32) if self._rough else w, self._rank)
            theta = fantope_threshold(np.concatenate([values, w_single]), self.k)
            above = int(np.count_nonzero(values > theta))
            if above < len(values) or len(values) == q:
                break
            self._rank = min(q, 2 * self._rank)
        if q > _DENSE:  # ask for a few more: those below θ show that none above was missed
            self._rank = min(q, above + max(8, above // 4))
            self._basis = vectors[:, -self._rank :] if self._rank < q // _NARROW else None
        return values, vectors, theta

    def _partial(self, w: Floats, w_single: Floats) -> tuple[Floats, Floats, float] | None:
        """The same, started from the last eigenvectors; None if that failed."""
        wanted = max(1e-9, 0.02 * self._residual)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # non-convergence is detected below
            try:
                values, vectors = lobpcg(w, self._basis, largest=True, tol=wanted, maxiter=25)
            except (np.linalg.LinAlgError, ValueError):
                self._basis = None
                return None
        theta = fantope_threshold(np.concatenate([values, w_single]), self.k)
        above = values > theta
        errors = np.linalg.norm(w @ vectors[:, above] - vectors[:, above] * values[above], axis=0)
        if above.all() or values.min() > theta or errors.max(initial=0.0) > 10 * wanted:
            self._basis = None
            return None
        self._basis = vectors
        return values, vectors, theta

    @property
    def dual(self) -> tuple[Floats, Floats]:
        """Z with entries of at most λ, on linked columns and on single ones."""
        z = np.clip(self.rho * self.u, -self.penalty, self.penalty)
        return z, np.clip(self.rho * self.u_single, -self.penalty, self.penalty)

    def objective(self) -> float:
        """The objective at the point of the Fantope nearest to Y."""
        self._basis, self._rough = None, False
        x, x_single = self._project(self.y, self.y_single)
        value = float(np.sum(self.s * x) + np.sum(self.s_single * x_single))
        return value - self.penalty * float(np.abs(x).sum() + np.abs(x_single).sum())

    def bound(self) -> float:
        """An upper bound on the maximum: the k largest eigenvalues of S − Z, added up."""
        z, z_single = self.dual
        values = np.concatenate([_largest(self.s - z, self.k), self.s_single - z_single])
        return float(np.sort(values)[::-1][: self.k].sum())


def _norm(values: Floats) -> float:
    return float(np.linalg.norm(values))


def _top(matrix: Floats, rank: int) -> tuple[Floats, Floats]:
    """At least the ``rank`` largest eigenvalues and their eigenvectors, ascending."""
    q = len(matrix)
    if rank > q // 4:
        return eigh(matrix, driver="evd")  # divide and conquer: faster for all eigenvectors than other drivers for many
    return eigh(matrix, subset_by_index=[q - rank, q - 1])


def _largest(matrix: Floats, k: int) -> Floats:
    q = len(matrix)
    return eigh(matrix, eigvals_only=True, subset_by_index=[max(0, q - k), q - 1]) if q else np.zeros(0)
