"""Sparse components from the average of local reports (Wang and Xu 2019, Algorithm 2): post-processing, so free.

The penalty of Fantope projection and selection must suppress the noise of p² entries. In theory it has the order τ·√ln
p, where τ is the noise of an entry; the constant matters more than the order. One half is the best of 0.35 to 1.2 for
the error of the subspace over a wide range of noise (papers/wang-2019), because the penalty also shrinks the signal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpeigen._types import Floats
from dpeigen._validate import check_positive
from dpeigen.stats.fantope import fantope_admm

__all__ = ["CONSTANT", "TOLERANCE", "SparseFit", "default_penalty", "sparse_components"]

CONSTANT = 0.5
TOLERANCE = 2e-3  # of ADMM: far below the error of the subspace due to noise


@dataclass(frozen=True, eq=False)
class SparseFit:
    """Components, and details of the computation."""

    components: Floats
    details: dict[str, Any]


def default_penalty(p: int, noise: float) -> float:
    """λ from public facts: ½·τ·√ln p."""
    return CONSTANT * noise * math.sqrt(math.log(max(p, 2)))


def sparse_components(moment: Floats, k: int, penalty: float) -> SparseFit:
    """``k`` orthonormal rows that are 0 outside a common support."""
    penalty = 0.0 if penalty == 0 else check_positive("penalty", penalty, "LocalAggregator.sparse_pca")
    found = fantope_admm(moment, k, penalty, tolerance=TOLERANCE)
    details = {
        "penalty": found.penalty,
        "support": [int(j) for j in found.support],
        "iterations": found.iterations,
        "gap": found.gap,
        "converged": found.converged,
    }
    return SparseFit(found.components, details)
