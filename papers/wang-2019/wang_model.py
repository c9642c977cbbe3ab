"""The data and the noisy averages of the reproduction.

A server sees the average of n reports only, so n clients are simulated by their average: the exact sum of the rows'
part and one draw of the summed noise. For Gaussian noise that is the same distribution. For the pure randomiser the
report of a unit vector v is αv plus a standard Gaussian on the complement of v; here it is a standard Gaussian
everywhere, which adds a sliver of noise (1/m of it, m the number of entries). tests/local checks the real client.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpeigen.local import LocalParameters

Floats = NDArray[np.float64]
DELTA = 1e-4
_LARGE = 5000  # columns


def printed_sigma(epsilon: float, delta: float = DELTA) -> float:
    """σ₁ of Algorithms 1 and 2, as the client of this library adds it."""
    return LocalParameters(2, epsilon, delta, constants="published").noise / math.sqrt(2)


def true_epsilon(epsilon: float, delta: float = DELTA) -> float:
    """What the printed noise really gives at the same δ: the sensitivity is √2, not 1."""
    return LocalParameters(2, epsilon, delta, constants="published").real_epsilon


def subspace(p: int, k: int, rng: np.random.Generator, s: int | None = None) -> Floats:
    """Orthonormal rows V (k × p); with s, on s columns only."""
    columns = np.arange(p) if s is None else rng.choice(p, s, replace=False)
    V = np.zeros((k, p))
    V[:, columns] = np.linalg.qr(rng.normal(size=(len(columns), k)))[0].T
    return V


def gaussian_rows(n: int, V: Floats, rng: np.random.Generator, strength: float = 1.0) -> Floats:
    """N(0, Σ), Σ = λ/(5p(λ+1))·VVᵀ + 1/(5p(λ+1))·I, as in Section 6.1."""
    k, p = V.shape
    X = rng.normal(size=(n, p)) + math.sqrt(strength) * rng.normal(size=(n, k)) @ V
    return X / math.sqrt(5 * p * (strength + 1))


def noisy_average(
    X: Floats,
    curve: str,
    epsilon: float,
    rng: np.random.Generator,
    delta: float = DELTA,
    exact: Floats | None = None,
) -> Floats:
    """The average of n reports: "printed", "corrected" or "pure" (rows scaled to the sphere).

    ``exact``: the average of xxᵀ, where the rows are of norm 1 and it is known already.
    """
    n, p = X.shape
    if exact is not None and curve != "pure":
        return exact + _noise(p, n, curve, epsilon, rng, delta)
    norms = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    if curve == "exact":
        rows = X / np.maximum(norms, 1.0)
        return rows.T @ rows / n
    if curve != "pure":
        rows = X / np.maximum(norms, 1.0)
        return rows.T @ rows / n + _noise(p, n, curve, epsilon, rng, delta)
    noise = _symmetric(p, n, rng, math.sqrt(0.5))
    cap = LocalParameters(p, epsilon, 0.0, rows="scale").cap
    rows = X / norms
    weights = along(cap.height, cap.coin / 2.0**64, n, rng) / cap.gain
    return (rows * weights[:, None]).T @ rows / n + noise / cap.gain


def _noise(p: int, n: int, curve: str, epsilon: float, rng: np.random.Generator, delta: float) -> Floats:
    """The noise of the average of n Gaussian reports."""
    if curve == "printed":
        return np.asarray(printed_sigma(epsilon, delta) * _symmetric(p, n, rng, 1.0))
    return np.asarray(LocalParameters(p, epsilon, delta).noise * _symmetric(p, n, rng, math.sqrt(0.5)))


def _symmetric(p: int, n: int, rng: np.random.Generator, off: float) -> Floats:
    """Symmetric noise of variance 1/n on the diagonal and off²/n off it; 50 million entries in single precision."""
    whole = rng.standard_normal((p, p), dtype=np.float32) if p > _LARGE else rng.normal(size=(p, p))
    noise = np.triu(whole, 1)
    noise += noise.T
    noise *= off / math.sqrt(n)
    np.fill_diagonal(noise, np.diag(whole) / math.sqrt(n))
    return noise


def along(height: float, coin: float, n: int, rng: np.random.Generator) -> Floats:
    """⟨g, v⟩ of n reports: a standard normal given that it is above (probability ``coin``) or below ``height``."""
    above = rng.random(n) < coin
    found = rng.normal(size=n)
    while (wrong := (found >= height) != above).any():
        found[wrong] = rng.normal(size=int(wrong.sum()))
    return found


def leading(S: Floats, k: int) -> Floats:
    """The first k eigenvectors as rows."""
    from scipy.linalg import eigh

    p = len(S)
    return eigh(S, subset_by_index=[p - k, p - 1])[1].T
