"""Noise as the mechanisms draw it, in floating point and for made-up rows: nothing here is private."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods import Laplace, MatrixLaplace, Task
from dpeigen.methods.moment import MomentMethod
from dpeigen.methods.radius import KEEP, OUT_OF, noise_scale, slack
from dpeigen.privacy import Cost, GaussianCost, Relation
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.norms import GRID

Floats = NDArray[np.float64]


def symmetric_noise(method: MomentMethod, d: int, deviation: float, rng: Generator) -> Floats:
    """Symmetric noise of the law that the method draws from, by its deviation off the diagonal."""
    if isinstance(method, Laplace):
        upper = np.triu(rng.laplace(scale=deviation / math.sqrt(2), size=(d, d)))
        return upper + np.triu(upper, 1).T
    if isinstance(method, MatrixLaplace):
        g = rng.normal(size=(2, d, d + 1))
        return deviation / math.sqrt(2 * (d + 1)) * (g[0] @ g[0].T - g[1] @ g[1].T)
    g = rng.normal(size=(d, d)) * (deviation / math.sqrt(2))
    return g + g.T


def vector_noise(cost: Cost, task: Task, radius: float, rng: Generator) -> tuple[Floats, float]:
    """Noise on a sum of rows in this radius (`methods.location`), and its expected length."""
    d, reach = task.n_features, radius * (2.0 if task.relation is Relation.REPLACE else 1.0)
    if isinstance(cost, GaussianCost):
        scale = reach / cost.mu
        return scale * rng.normal(size=d), scale * math.sqrt(d)
    scale = reach * math.sqrt(d) / pure_epsilon(cost)
    return rng.laplace(scale=scale, size=d), scale * math.sqrt(2 * d)


def squares_noise(cost: Cost, task: Task, square: float, count: int, rng: Generator) -> Floats:
    """Noise on sums of squares of scores in a radius with this square (`methods.scores`)."""
    replaced = task.relation is Relation.REPLACE
    if isinstance(cost, GaussianCost):
        return rng.normal(size=count) * ((math.sqrt(2) if replaced else 1.0) * square / cost.mu)
    return rng.laplace(scale=(2 if replaced else 1) * square / pure_epsilon(cost), size=count)


def paid_radius(cost: Cost, task: Task, norms: Floats, n: int, rng: Generator) -> float:
    """What `methods.radius.private_radius` would find among n rows with (a sample of) these sorted norms."""
    scale = noise_scale(cost, task.relation)
    margins = _inside(norms, n) - n * KEEP / OUT_OF
    if task.relation is not Relation.REPLACE:
        margins *= OUT_OF
    return _scan(margins + slack(cost, task.relation), scale, rng)


def radius_but(cost: Cost, norms: Floats, n: int, outside: float, rng: Generator) -> float:
    """What `methods.radius.radius_but` would find."""
    scale = 2 / pure_epsilon(cost)
    allowed = max(math.floor(outside), math.ceil(5 * scale))
    return _scan(allowed - (n - _inside(norms, n)), scale, rng)


def _inside(norms: Floats, n: int) -> Floats:
    return np.asarray(np.searchsorted(norms, GRID, side="right") * (n / len(norms)), dtype=np.float64)


def _scan(margins: Floats, scale: float, rng: Generator) -> float:
    passed = margins + rng.laplace(scale=scale, size=len(GRID)) - rng.laplace(scale=scale) >= 0
    return float(GRID[np.argmax(passed)] if passed.any() else GRID[-1])
