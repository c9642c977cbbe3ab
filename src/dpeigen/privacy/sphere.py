"""Exact sampling on the sphere: the Bingham distribution, density ∝ exp(uᵀAu).

Rejection from an angular central Gaussian envelope (Kent, Ganeiber, Mardia 2018), in logs and in batches. With
B = λ_max·I − A ⪰ 0 the target is exp(−uᵀBu) and the envelope (uᵀΩu)^{−d/2}, Ω = I + 2B/b, with b the root of
Σ 1/(b + 2βᵢ) = 1. A proposal is kept with log-probability

    −uᵀBu + (d/2)·ln(uᵀΩu) + (d − b)/2 − (d/2)·ln(d/b)  ≤ 0,

with the maximum at uᵀBu = (d − b)/2. The sign before (d/2)·ln(uᵀΩu) matters: two common libraries have the wrong sign,
and their samples are neither Bingham nor as private as stated (docs, errata).

Guarantee: used as an exponential mechanism for a direction, a draw with A = c·C is c·s-bounded-range for a utility uᵀCu
of range sensitivity s. Drawn in floating point: "idealised". The number of proposals depends on A and so on the data;
on average it is between 1 (equal eigenvalues) and √(ed/2) = 1.17·√d (one strong direction: docs, errata).

>>> import numpy as np
>>> u = sample_bingham(np.diag([0.0, 50.0]), size=4, random_state=0)
>>> u.shape, bool((np.abs(u[:, 1]) > 0.9).all())
((4, 2), True)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.optimize import brentq

from dpeigen._types import Floats
from dpeigen._validate import check_count, complain
from dpeigen.privacy.randomness import Randomness, randomness

__all__ = ["acceptance", "envelope", "sample_bingham", "sample_orthonormal"]

_GRID = 2.0**26  # grid steps per unit: far coarser than rounding errors, far finer than the noise of a direction
_BATCH_NUMBERS = 2**18  # proposals are drawn in batches of about this many numbers


def envelope(beta: Floats) -> float:
    """The b in [1, d] with Σ 1/(b + 2βᵢ) = 1. The smallest βᵢ is 0, so the ends bracket the root."""
    d = len(beta)

    def excess(b: float) -> float:
        return float(np.sum(1.0 / (b + 2.0 * beta))) - 1.0

    if d == 1 or excess(1.0) <= 0.0:
        return 1.0
    if excess(float(d)) >= 0.0:
        return float(d)
    return float(brentq(excess, 1.0, float(d), xtol=1e-14, rtol=1e-14))


def _propose(beta: Floats, count: int, rng: Randomness) -> tuple[Floats, NDArray[np.bool_]]:
    """``count`` proposals from the envelope in the eigenbasis, and which of them are accepted."""
    d = len(beta)
    b = envelope(beta)
    omega = 1.0 + 2.0 * beta / b
    log_bound = (d - b) / 2 - (d / 2) * np.log(d / b)
    u = rng.normal((count, d)) / np.sqrt(omega)
    squares = u**2
    squares /= squares.sum(axis=1, keepdims=True)
    log_keep = -squares @ beta + (d / 2) * np.log(squares @ omega) + log_bound
    return u, np.log(rng.uniform(count)) < log_keep


def acceptance(beta: Floats, count: int, rng: Randomness) -> float:
    """The fraction of ``count`` proposals that are accepted for eigenvalues −beta."""
    return float(_propose(np.asarray(beta, dtype=np.float64), count, rng)[1].mean())


def sample_bingham(A: ArrayLike, size: int = 1, random_state: Any = None) -> Floats:
    """Draw independent unit vectors with density ∝ exp(uᵀAu).

    Parameters
    ----------
    A : (d, d) array
        A symmetric matrix.
    size : int, default=1
        How many.
    random_state : int, Generator or None, default=None
        A seed; None: the operating system's randomness.

    Returns
    -------
    (size, d) array
        The vectors, as rows.
    """
    matrix = np.asarray(A, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0 or not np.isfinite(matrix).all():
        raise ValueError(complain("A", "sample_bingham", "a finite square matrix", f"shape {matrix.shape}"))
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(matrix).max())):
        raise ValueError(complain("A", "sample_bingham", "symmetric", "an asymmetric matrix"))
    size = check_count("size", size, "sample_bingham", low=0)
    rng = randomness(random_state)
    values, vectors = eigh((matrix + matrix.T) / 2)
    draws = _on_grid(_draw(values[-1] - values, size, rng) @ vectors.T)
    return draws / np.linalg.norm(draws, axis=1, keepdims=True)


def _on_grid(draws: Floats) -> Floats:
    """Directions rounded to a public grid: their last bits depend on the eigenbasis, that is, on the data."""
    return np.rint(draws * _GRID) / _GRID


def _draw(beta: Floats, size: int, rng: Randomness) -> Floats:
    """Unit vectors with density ∝ exp(−Σβᵢuᵢ²); the smallest β is 0."""
    d = len(beta)
    kept: list[Floats] = []
    missing = size
    while missing > 0:
        count = int(np.clip(2 * missing * np.sqrt(d), 16, max(16, _BATCH_NUMBERS // d)))
        proposals, good = _propose(beta, count, rng)
        accepted = proposals[good][:missing]
        kept.append(accepted)
        missing -= len(accepted)
    draws = np.concatenate(kept) if kept else np.empty((0, d))
    return draws / np.linalg.norm(draws, axis=1, keepdims=True)


def sample_orthonormal(matrix: Floats, concentrations: Floats, rng: Randomness) -> Floats:
    """Orthonormal rows: row i has density ∝ exp(cᵢ·uᵀCu) on the sphere orthogonal to the earlier rows.

    A draw is made in the eigenbasis of the remaining subspace and rounded to a public grid. The row, and the basis of
    the subspace that remains after it (a Householder reflection), are computed from rounded draws only, so the last
    bits of a row do not depend on the eigenbasis. Only the compressed matrix, one smaller each time, is decomposed
    again. The last direction is determined by the others: it is returned without a draw, whatever its concentration.
    """
    d, k = len(matrix), len(concentrations)
    basis, left = np.eye(d), matrix  # basis: columns span the remaining subspace; left: the matrix in that basis
    rows = np.empty((k, d))
    for i, concentration in enumerate(concentrations):
        if len(left) == 1:
            rows[i] = basis[:, 0]
            break
        values, vectors = eigh(left)
        drawn = _on_grid(basis @ (vectors @ _draw(concentration * (values[-1] - values), 1, rng)[0]))
        u = basis.T @ drawn  # a function of rounded draws only
        u /= np.linalg.norm(u)
        rows[i] = basis @ u
        complement = _complement(u)
        basis = basis @ complement
        left = complement.T @ left @ complement
        left = (left + left.T) / 2
    return rows


def _complement(u: Floats) -> Floats:
    """An orthonormal basis (columns) of the complement of a unit vector: a Householder reflection minus one column."""
    v = u.copy()
    v[0] += 1.0 if u[0] >= 0 else -1.0
    reflection = np.eye(len(u)) - np.outer(v, v) * (2.0 / (v @ v))
    return reflection[:, 1:]
