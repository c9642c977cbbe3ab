"""The baselines of Appendix C that are no methods of this package: SGPCA and NSGGD, for a stack of tables at once.

Neither is private as printed, and the noise is drawn in floating point by NumPy: they are here to be compared with.
Rows come as an array (tables, n, d); what is returned are the first k directions of each, (tables, k, d).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROUNDS = 200


def directions(matrices: Floats, k: int = 2) -> Floats:
    """The first k eigenvectors of each matrix, as rows."""
    return np.linalg.eigh(matrices)[1][..., ::-1][..., :k].swapaxes(-1, -2)


def isometric(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """vecd⁻¹ of standard Gaussians: symmetric, deviation 1 on the diagonal and 1/√2 off it."""
    upper = rng.normal(size=shape)
    return (upper + upper.swapaxes(-1, -2)) / 2


def sgpca(rows: Floats, epsilon: float, delta: float, spikes: Floats, rng: np.random.Generator) -> Floats:
    """Algorithm 2: the leading projector plus noise, with the eigenvalues (λ₁, λ_d) known.

    Its sensitivity holds with high probability for Gaussian rows, and not for others.
    """
    count, n, d = rows.shape
    half = n // 2
    z = (rows[:, half : 2 * half] - rows[:, :half]) / math.sqrt(2)
    first, rest = spikes
    v = directions(z.swapaxes(1, 2) @ z)
    ratio = rest / first
    sensitivity = 4 * (ratio + math.sqrt(ratio)) * math.sqrt(d * (2 + math.log(n))) / n
    deviation = sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    upper = np.triu(rng.normal(size=(count, d, d)))
    noise = upper + np.triu(upper, 1).swapaxes(1, 2)
    return directions(v.swapaxes(1, 2) @ v + deviation * noise)


def nsggd(
    rows: Floats,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    *,
    rate: float = 1.0,
    rounds: int | None = ROUNDS,
    sign: float = 1.0,
    k: int = 2,
) -> Floats:
    """Algorithm 3 on n pairs: T = n² steps on one pair each, at the rate ``rate``/n².

    ``rounds=None`` takes the steps one by one. A number takes T/rounds of them together at one point, their pairs
    and noises added up: each step moves by at most (1 + noise)·rate/n², so that the point hardly changes meanwhile.
    How often each pair is drawn is then Gaussian, with the mean and covariance of the true multinomial numbers.
    ``sign=-1`` is the step as printed, away from the minimum.
    """
    count, total = rows.shape[:2]
    n = total // 2
    z = rows[:, n : 2 * n] - rows[:, :n]
    z = z / np.maximum(np.linalg.norm(z, axis=2, keepdims=True), np.finfo(float).tiny)
    half_epsilon, half_delta = epsilon / 2, delta / 2
    steps = n**2
    batch = max(math.floor(n * math.sqrt(epsilon / (8 * steps))), 1)
    sigma = batch * math.sqrt(2 * steps * math.log(1 / half_delta) / (n**2 * half_epsilon))
    v = _analyze_gauss(z, half_epsilon, half_delta, rng, k).swapaxes(1, 2)
    turned = np.ascontiguousarray(z.swapaxes(1, 2))
    rounds = steps if rounds is None else min(rounds, steps)
    for at in range(rounds):
        together = steps * (at + 1) // rounds - steps * at // rounds
        drawn = batch * together
        if together == 1:
            taken = rng.multinomial(drawn, np.full(n, 1 / n), size=count).astype(float)
        else:
            spread = rng.normal(size=(count, n))
            taken = drawn / n + math.sqrt(drawn / n) * (spread - spread.mean(axis=1, keepdims=True))
        scores = z @ v
        length = np.sqrt(np.maximum(1 - (scores**2).sum(axis=2), 1e-12))
        weighted = scores * (taken / (batch * length))[:, :, None]
        gradient = turned @ weighted - v @ (scores.swapaxes(1, 2) @ weighted)
        noise = math.sqrt(together) * sigma * rng.normal(size=v.shape)
        left, _, right = np.linalg.svd(v + rate / steps * (sign * gradient + noise), full_matrices=False)
        v = left @ right
    return v.swapaxes(1, 2)


def _analyze_gauss(z: Floats, epsilon: float, delta: float, rng: np.random.Generator, k: int) -> Floats:
    """Algorithm 1, the start: rows centred at their mean and divided by the longest."""
    n, d = z.shape[1:]
    z = z - z.mean(axis=1, keepdims=True)
    z = z / np.linalg.norm(z, axis=2).max(axis=1)[:, None, None]
    deviation = 6 * math.sqrt(2 * math.log(1.25 / delta)) / (n * epsilon)
    covariance = z.swapaxes(1, 2) @ z / (n - 1)
    return directions(covariance + deviation * isometric((len(z), d, d), rng), k)
