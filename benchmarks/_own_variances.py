"""What variances of columns that are measured on their own could give: correlations of a private fit, other variances.

Nothing here is private except the fit of the correlations. A clipped moment has good correlations, and too small
variances of columns in which a few rows are far out. So a part of ε pays for a fit with `scale="private"`, a part for
the longest row (by noisy max over sixteenths of octaves), and the rest for the sums of squares of all columns:

- Laplace noise on all sums: a replaced row changes them by at most twice the square of its longest norm;
- staircase noise (Geng and Viswanath 2014), where the squares of a long row count in its two largest entries only: a
  replaced row then changes four sums. Below a fifth of the longest entry, squares are taken as known.

A measured variance replaces that of the fit if it differs from it by clearly more than its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _table_errors import K, captured

PARTS = (0.16, 0.2, 0.64)  # of ε: the correlations, the longest row, the sums of squares
DRAWS = 20  # of noise, for each fit
STEP, PER_OCTAVE, OCTAVES = 1.25, 16, 10  # noise scales that a quarter of an octave costs; the grid of radii
CLEAR, SHARP = 2.5, 6  # deviations of the noise at which a variance is not replaced, and how fast it is beyond
SHORT = 0.2  # of the longest entry

Noisy = Callable[[float, np.random.Generator], tuple[np.ndarray, float]]


def longest(sizes: np.ndarray, epsilon: float, rng: np.random.Generator) -> float:
    """A size that about no row exceeds, by noisy max."""
    grid = sizes.mean() / 2 * 2 ** (np.arange(OCTAVES * PER_OCTAVE + 1) / PER_OCTAVE)
    cost = STEP * 4 / PER_OCTAVE * np.arange(len(grid))
    scores = -epsilon * (sizes[:, None] > grid).sum(axis=0) - cost + rng.exponential(size=len(grid))
    return float(grid[np.argmax(scores)])


def staircase(epsilon: float, size: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Staircase noise of the least variance for sensitivity 1, and its deviation."""
    b = math.exp(-epsilon)
    inner = (b - 2 * b**2 + 2 * b**4 - b**5) ** (1 / 3) / (2 ** (1 / 3) * (1 - b) ** 2) - b / (1 - b)
    inside = rng.random(size) < inner / (inner + (1 - inner) * b)
    within = np.where(inside, inner * rng.random(size), inner + (1 - inner) * rng.random(size))
    noise = rng.choice((-1.0, 1.0), size) * (rng.geometric(1 - b, size) - 1 + within)
    variance = (2 ** (-2 / 3) * b ** (2 / 3) * (1 + b) ** (2 / 3) + b) / (1 - b) ** 2
    return noise, math.sqrt(variance)


def by_laplace(rows: np.ndarray, epsilon: float) -> Noisy:
    lengths = np.linalg.norm(rows, axis=1)

    def noisy(paid: float, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        radius = longest(lengths, paid, rng)
        squares = ((rows * np.minimum(1, radius / lengths)[:, None]) ** 2).mean(axis=0)
        scale = 2 * radius**2 / (len(rows) * epsilon)
        return squares + rng.laplace(scale=scale, size=rows.shape[1]), math.sqrt(2) * scale

    return noisy


def by_staircase(rows: np.ndarray, epsilon: float) -> Noisy:
    entries = np.abs(rows)

    def noisy(paid: float, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        reach = longest(entries.max(axis=1), paid, rng)
        short = np.minimum(entries, SHORT * reach) ** 2
        far = np.minimum(entries, reach) ** 2 - short
        far[far < np.sort(far, axis=1)[:, -2:-1]] = 0.0
        noise, deviation = staircase(epsilon / 4, rows.shape[1], rng)
        unit = reach**2 / len(rows)
        return (short + far).mean(axis=0) + unit * noise, unit * deviation

    return noisy


def combined(variances: np.ndarray, measured: np.ndarray, noise: float) -> np.ndarray:
    more = measured - variances
    part = np.maximum(1 - (CLEAR * noise / np.maximum(np.abs(more), 1e-300)) ** SHARP, 0.0)
    return np.maximum(variances + part * more, 0.0)


def figures(
    rows: np.ndarray, truth: np.ndarray, epsilon: float, fitted: Callable[[float], list[Any]]
) -> Iterator[tuple[str, float]]:
    """(what, captured variance); ``fitted``: fits of standardised columns that cost a given ε."""
    own, paid, left = (part * epsilon for part in PARTS)
    found = [(each.release_.correlation, np.asarray(each.scale_) ** 2) for each in fitted(own)]
    if not found:
        return

    def score(correlation: np.ndarray, variances: np.ndarray) -> float:
        roots = np.sqrt(variances)
        return captured(np.linalg.eigh(correlation * np.outer(roots, roots))[1][:, -K:].T, truth)

    what = f"correlations of a fit of ε = {own:.3g}"
    yield f"{what} with exact variances", float(np.mean([score(c, np.ones(len(truth))) for c, _ in found]))
    ways = {"Laplace noise": by_laplace(rows, left), "staircase noise, two columns a row": by_staircase(rows, left)}
    for name, noisy in ways.items():
        rng = np.random.default_rng(4)
        scores = [score(c, combined(v, *noisy(paid, rng))) for c, v in found for _ in range(DRAWS)]
        yield f"{what}, variances by {name} of ε = {left:.3g}", float(np.mean(scores))
