"""Estimates from the average of local reports: the second moment about 0, its eigenvectors, and sparse ones.

These are functions of sums of reports, numbers of rows and public parameters. They use no row, so they cost no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.local.parameters import LocalParameters
from dpeigen.local.sparse import default_penalty, sparse_components
from dpeigen.stats.spectrum import fix_signs, gaussian_r_transform, project_eigenvalues, shrink_eigenvalues

__all__ = ["Estimated", "all_eigenvectors", "average", "diagonal_of", "sparse_eigenvectors"]


@dataclass(frozen=True)
class Estimated:
    """Components with their variances, the mean variance of the directions left out, and the whole covariance."""

    components: Floats
    values: Floats
    rest: float
    covariance: Floats
    details: dict[str, Any] = field(default_factory=dict)


def diagonal_of(n_features: int) -> NDArray[np.intp]:
    """Indices of the diagonal among the entries of a report, which are those of the upper triangle, row by row."""
    rows, columns = np.triu_indices(n_features)
    return np.flatnonzero(rows == columns)


def average(parameters: LocalParameters, total: NDArray[Any], rows: int) -> Floats:
    """The average of xxᵀ over the rows, from the sum of their reports in grid steps: symmetric and unbiased."""
    p = parameters.n_features
    packed = total.astype(np.float64) * (parameters.step / rows)
    if parameters.mechanism == "privunit":
        packed[np.setdiff1d(np.arange(len(packed)), diagonal_of(p))] /= math.sqrt(2)
    matrix = np.zeros((p, p))
    matrix[np.triu_indices(p)] = packed
    return np.where(np.tri(p, k=-1, dtype=bool), matrix.T, matrix)


def all_eigenvectors(moment: Floats, deviation: float, trace: float, k: int, *, shrink: bool = True) -> Estimated:
    """The first k eigenvectors, after shrinking for noise of this deviation and projection on {PSD, trace ≤ trace}."""
    p = len(moment)
    values, vectors = np.linalg.eigh(moment / trace)
    if shrink:
        tau = deviation / trace
        values = shrink_eigenvalues(values, gaussian_r_transform(p, tau), math.sqrt(p) * tau)
    values = project_eigenvalues(values, trace=1.0) * trace
    components, values = fix_signs(vectors.T[::-1]), values[::-1]
    rest = float(values[k:].mean()) if k < p else 0.0
    return Estimated(components[:k], values[:k], rest, (components.T * values) @ components)


def sparse_eigenvectors(moment: Floats, deviation: float, k: int, penalty: float | None) -> Estimated:
    """Directions that share few columns; ``penalty`` None: from the noise and the number of columns."""
    p = len(moment)
    found = sparse_components(moment, k, default_penalty(p, deviation) if penalty is None else penalty)
    values = np.einsum("ij,jk,ik->i", found.components, moment, found.components)
    order = np.argsort(-values, kind="stable")
    components, values = fix_signs(found.components[order]), np.maximum(values[order], 0.0)
    left = max(0.0, float(np.trace(moment)) - float(values.sum())) / max(1, p - k)
    covariance = (components.T * values) @ components + left * (np.eye(p) - components.T @ components)
    return Estimated(components, values, left if k < p else 0.0, covariance, found.details)
