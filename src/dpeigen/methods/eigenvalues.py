"""Noisy eigenvalues of a second moment.

Guarantee: sorted eigenvalues of Σxxᵀ, rows in the unit ball, have sensitivity 2 (replace) or 1 (add/remove) in ℓ1 and
√2 or 1 in ℓ2 (Lidskii; Hoffman–Wielandt). They are computed in floating point, rounded to a grid of 2^−32, and get
exact discrete noise; the sensitivities include what rounding may add. "Idealised" for the decomposition.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpeigen.methods.base import Task
from dpeigen.methods.sampling import GRID, rounding_allowance
from dpeigen.privacy import Cost, Randomness, Relation
from dpeigen.privacy.noise import noise_scale, perturb

Floats = NDArray[np.float64]


def eigenvalue_scale(cost: Cost, task: Task) -> float:
    """The scale of the noise, in grid steps; public."""
    return noise_scale(cost, **_reach(task))


def noisy_eigenvalues(matrix: Floats, cost: Cost, task: Task, rng: Randomness) -> Floats:
    """Eigenvalues, decreasing, with noise, in squared radii."""
    on_grid = np.array([round(float(v) * GRID) for v in np.linalg.eigvalsh(matrix)[::-1]], dtype=object)
    return perturb(on_grid, cost, **_reach(task), rng=rng).astype(np.float64) / GRID


def _reach(task: Task) -> dict[str, float]:
    """Sensitivities of the rounded eigenvalues, in grid steps."""
    d, two_sided = task.n_features, task.relation is Relation.REPLACE and task.n_features > 1
    each = GRID * rounding_allowance(task) + 1  # what rounding may add to the change of each eigenvalue
    return {
        "l2": (math.sqrt(2) if two_sided else 1.0) * GRID + math.sqrt(d) * each,
        "l1": (2.0 if two_sided else 1.0) * GRID + d * each,
    }
