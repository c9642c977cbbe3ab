"""Screening: columns that no sparse principal subspace uses are found before it is computed.

Fantope projection and selection maximises ⟨S, X⟩ − λ‖X‖₁ over 0 ⪯ X ⪯ I, tr X = k (`stats.fantope`). Link i and j
if |Sᵢⱼ| > λ, and let C be the connected parts of that graph.

*Parts separate.* Setting the entries of X between parts to 0 keeps X in the Fantope (it is an average of X over sign
changes of whole parts) and never lowers the objective, because |Sᵢⱼ| ≤ λ there. So the maximum is that of Σ_C f_C(k_C)
over k_C ≥ 0 that add up to k, where f_C is the maximum of the same problem on part C. Every f_C is concave, and f_C(t)
= t·f_C(1) for t ≤ 1, because X ⪯ I then follows from the trace.

*Parts that are not used.* Let a_C = maxᵢ Sᵢᵢ − λ over the columns of C and b_C the largest eigenvalue of the matrix
with Sᵢᵢ − λ on the diagonal and sign(Sᵢⱼ)·max(|Sᵢⱼ| − λ, 0) off it. Then a_C ≤ f_C(1) ≤ b_C: the first by X = eᵢeᵢᵀ,
the second because ⟨S, X⟩ − λ‖X‖₁ ≤ ⟨S − Z, X⟩ for every Z with |Zᵢⱼ| ≤ λ. Let θ be the (k + 1)-th largest a_C. One of
the k + 1 parts with a_C ≥ θ has k_C < 1, and gains at least θ for each unit that is moved to it. A part with b_C < θ
loses at most b_C per unit. So in every solution that part has k_C = 0, and X is 0 there. With at most k parts nothing
is left out.

>>> kept_columns(np.diag([3.0, 2.0, 1.0, 0.5]), 1, 0.1)
(array([], dtype=int64), array([0, 1]))
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from dpeigen._types import Floats

__all__ = ["kept_columns"]

Columns = NDArray[np.intp]


def kept_columns(matrix: Floats, k: int, penalty: float) -> tuple[Columns, Columns]:
    """Columns in parts of two or more, and single columns, without those that no solution uses."""
    links = np.abs(matrix) > penalty
    np.fill_diagonal(links, False)
    linked = np.flatnonzero(links.any(axis=1))
    single = np.flatnonzero(~links.any(axis=1))
    diagonal = np.diag(matrix) - penalty
    count, labels = connected_components(csr_matrix(links[np.ix_(linked, linked)]), directed=False)
    parts = [linked[labels == label] for label in range(count)]
    least = np.concatenate([diagonal[single], [diagonal[part].max() for part in parts]])
    if len(least) <= k:
        return linked, single
    theta = np.partition(least, len(least) - k - 1)[len(least) - k - 1]
    kept = [part for part in parts if _may_gain(matrix[np.ix_(part, part)], penalty, theta)]
    joined = np.sort(np.concatenate(kept)) if kept else linked[:0]
    return joined, single[diagonal[single] >= theta]


def _may_gain(block: Floats, penalty: float, theta: float) -> bool:
    """Whether b_C ≥ θ, with a margin for rounding. Gershgorin's bound is tried first, since it needs no eigenvalue."""
    diagonal = np.diag(block) - penalty
    off = np.sign(block) * np.maximum(np.abs(block) - penalty, 0.0)
    np.fill_diagonal(off, 0.0)
    theta -= 1e-12 * max(float(np.abs(block).max()), abs(theta))
    if float((diagonal + np.abs(off).sum(axis=1)).max()) < theta:
        return False
    q = len(block)
    largest = eigh(off + np.diag(diagonal), eigvals_only=True, subset_by_index=[q - 1, q - 1])[0]
    return bool(largest >= theta)
