"""Bounds of Amin, Dick, Kulesza, Muñoz Medina and Vassilvitskii 2019, as printed, and with every constant stated.

C = Σxxᵀ is the sum, not the mean, and rows have length at most 1. Printed bounds have constants and logarithms that the
paper leaves out: ``constant`` multiplies them and is 1 unless one is given, so they are rates, not errors. Functions
with "proven" in their name have no unknown constant (`stats.sampled` has the proofs). All of these take numbers of the
private table (C, its eigenvalues), so they are for analysis and for public data; the bound that comes with a release is
``covariance_error`` among its facts.

The arguments mean the same everywhere: ``d`` columns; ``top`` the largest eigenvalue λ₁ of C; ``eigenvalues`` all of
them, decreasing; ``noisy`` those of step 1 of Algorithm 1; ``epsilon`` the whole budget ε, or that of a draw (Lemmas 3
to 5); ``epsilon_0`` and ``epsilons`` its split, ε₀ and ε₁..ε_d; ``beta`` the probability of failure β; ``zeta`` the
relative error ζ. Each returns one number, but for `corollary_1_split`.

>>> round(lemma_5(d=6, top=1000.0, epsilon=1.0, beta=0.05), 1), round(lemma_5_proven(6, 1000.0, 1.0, 0.05), 1)
(44.4, 66.7)
>>> tau, epsilons = corollary_1_split([90.0, 20.0, 4.0], epsilon=1.0)
>>> round(tau, 2), [round(e, 3) for e in epsilons]
(19.15, [0.243, 0.145, 0.112])
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._types import Floats
from dpeigen._validate import check_count, check_epsilon, check_fraction, check_positive, complain
from dpeigen.stats.sampled import direction_loss

__all__ = [
    "corollary_1",
    "corollary_1_split",
    "corollary_2",
    "gaussian_mechanism",
    "kapralov_talwar_condition",
    "lemma_1",
    "lemma_3",
    "lemma_4",
    "lemma_4_proven",
    "lemma_5",
    "lemma_5_proven",
    "lemma_6",
    "theorem_2",
    "theorem_2_proven",
]


def lemma_1(exact: ArrayLike, private: ArrayLike, target: int, alpha: float, n_rows: int) -> float:
    """Lemma 1: ‖w_α − ŵ_α‖₂ of ridge regressions of one column on the others is at most this.

    Parameters
    ----------
    exact, private : C and a symmetric Ĉ; sums, not means.
    target : the column that is predicted.
    alpha : the paper's α, whose penalty is 2αn.
    n_rows : n.
    """
    C, other = _square(exact, "exact"), _square(private, "private")
    if C.shape != other.shape:
        raise ValueError(complain("private", "lemma_1", f"of shape {C.shape}", other.shape))
    target = check_count("target", target, "lemma_1", low=0, high=len(C) - 1)
    penalty = 2 * check_positive("alpha", alpha, "lemma_1") * check_count("n_rows", n_rows, "lemma_1")
    keep = np.delete(np.arange(len(C)), target)
    released = np.linalg.solve(other[np.ix_(keep, keep)] + penalty * np.eye(len(keep)), other[keep, target])
    off = C - other
    columns, norm = float(np.linalg.norm(off, axis=0).max()), float(np.linalg.norm(off, 2))
    return (columns + norm * float(np.linalg.norm(released))) / (float(np.linalg.eigvalsh(C)[0]) + penalty)


def lemma_3(sensitivity: float, epsilon: float, k: int, beta: float) -> float:
    """Lemma 3: the largest of k Laplace variables of scale Δ/ε stays below this with probability 1 − β."""
    scale = check_positive("sensitivity", sensitivity, "lemma_3") / check_epsilon(epsilon, "lemma_3")
    return scale * math.log(check_count("k", k, "lemma_3") / check_fraction("beta", beta, "lemma_3"))


def lemma_4(epsilon: float, sensitivity: float, tau: float, measure: float) -> float:
    """Lemma 4 as printed: Pr(y ∉ G_τ) ≤ exp(−ετ/2Δ)·μ(G_τ). It is false: see the errata."""
    return math.exp(-epsilon * tau / (2 * sensitivity)) * measure


def lemma_4_proven(epsilon: float, sensitivity: float, tau: float, measure: float) -> float:
    """The form that holds: Pr(y ∉ G_τ) ≤ exp(−ετ/4Δ)/μ(G_{τ/2}); ``measure`` is μ(G_{τ/2})."""
    return min(1.0, math.exp(-epsilon * tau / (4 * sensitivity)) / measure)


def lemma_5(d: int, top: float, epsilon: float, beta: float, constant: float = 1.0) -> float:
    """Lemma 5: λ₁ − ûᵀCû of a draw from exp((ε/4)uᵀCu) is of this order with probability 1 − β (top: λ₁ > 1)."""
    _facts(d, epsilon, beta, "lemma_5")
    if top <= 1:
        raise ValueError(complain("top", "lemma_5", "> 1: the printed d·ln λ₁ is negative below", top))
    return constant / epsilon * (d * math.log(top) + math.log(1 / beta))


def lemma_5_proven(d: int, top: float, epsilon: float, beta: float) -> float:
    """Lemma 5 with its constants: for the printed draw, c = ε/4. At most λ₁."""
    _facts(d, epsilon, beta, "lemma_5_proven")
    return direction_loss(d, check_positive("top", top, "lemma_5_proven"), epsilon / 4, beta)


def lemma_6(exact: ArrayLike, directions: ArrayLike, tau: float) -> float:
    """Lemma 6: ‖C − Θ̂Λ̂Θ̂ᵀ‖_F for orthonormal θ̂ (rows) and eigenvalues that are within τ, at most.

    As the proof has it, with τ√d outside the root; in print the root extends over it.
    """
    C, rows = _square(exact, "exact"), np.asarray(directions, dtype=np.float64)
    if rows.shape != C.shape or not np.allclose(rows @ rows.T, np.eye(len(C)), atol=1e-8):
        raise ValueError(complain("directions", "lemma_6", f"{len(C)} orthonormal rows", rows.shape))
    values = np.linalg.eigvalsh(C)[::-1]
    lost = float(values @ (values - np.einsum("ij,jk,ik->i", rows, C, rows)))
    return math.sqrt(2 * max(lost, 0.0)) + tau * math.sqrt(len(C))


def theorem_2(eigenvalues: ArrayLike, epsilon_0: float, epsilons: ArrayLike, constant: float = 1.0) -> float:
    """Theorem 2 without the logarithms it hides: √(Σ dλᵢ/εᵢ) + √d/ε₀.

    ``eigenvalues`` and ``epsilons`` may be the first k: then it is the printed remark on approximations of rank k,
    which holds for captured variance and not for matrices (see the errata); d is the length of ``eigenvalues``.
    """
    values, parts = _values(eigenvalues, "theorem_2"), np.asarray(epsilons, dtype=np.float64)
    if parts.ndim != 1 or not 1 <= len(parts) <= len(values) or not (parts > 0).all():
        raise ValueError(complain("epsilons", "theorem_2", f"up to {len(values)} numbers > 0", epsilons))
    d = len(values)
    drawn = math.sqrt(d * float(np.sum(np.maximum(values[: len(parts)], 0.0) / parts)))
    return constant * (drawn + math.sqrt(d) / check_epsilon(epsilon_0, "theorem_2"))


def theorem_2_proven(eigenvalues: ArrayLike, epsilon_0: float, epsilons: ArrayLike, beta: float) -> float:
    """Theorem 2 with every constant: ‖C − Ĉ‖_F of Algorithm 1 as printed, at most, with probability 1 − β."""
    values, parts = _values(eigenvalues, "theorem_2_proven"), np.asarray(epsilons, dtype=np.float64)
    if parts.shape != values.shape or not (parts > 0).all():
        raise ValueError(complain("epsilons", "theorem_2_proven", f"{len(values)} numbers > 0", epsilons))
    d, top = len(values), float(values[0])
    check_fraction("beta", beta, "theorem_2_proven")
    each = beta / (2 * max(1, d - 1))  # half for the draws, of which the last is none
    lost = sum(
        float(v) * min(float(v), direction_loss(d - i, top, float(e) / 4, each))
        for i, (v, e) in enumerate(zip(values, parts, strict=True))
    )
    return math.sqrt(2 * lost) + math.sqrt(d) * lemma_3(2.0, epsilon_0, d, beta / 2)


def corollary_1_split(noisy: ArrayLike, epsilon: float, beta: float = 0.05) -> tuple[float, list[float]]:
    """τ and ε₁..ε_d of Corollary 1 from noisy eigenvalues (ε₀ = ε/2); negative ones count as 0 (see the errata)."""
    values = np.asarray(noisy, dtype=np.float64)
    d = len(values)
    tau = (
        4
        / check_epsilon(epsilon, "corollary_1_split")
        * math.log(2 * d / check_fraction("beta", beta, "corollary_1_split"))
    )
    weights = np.sqrt(np.maximum(values, 0.0) + tau)
    return tau, list((epsilon / 2 * weights / weights.sum()).tolist())


def corollary_1(noisy: ArrayLike, epsilon: float, constant: float = 1.0) -> float:
    """Corollary 1: √(d/ε)·Σ√(λ̂ᵢ + 1/ε) + √d/ε, without the logarithms it hides."""
    values = np.maximum(np.asarray(noisy, dtype=np.float64), 0.0)
    d, epsilon = len(values), check_epsilon(epsilon, "corollary_1")
    return constant * (math.sqrt(d / epsilon) * float(np.sqrt(values + 1 / epsilon).sum()) + math.sqrt(d) / epsilon)


def corollary_2(d: int, epsilon: float, zeta: float) -> float:
    """Corollary 2: from this λ₁ on, the uniform split has ‖C − Ĉ‖_F = O(ζλ₁) with probability 0.99."""
    check_count("d", d, "corollary_2")
    check_epsilon(epsilon, "corollary_2")
    ratio = d / (epsilon * check_positive("zeta", zeta, "corollary_2"))
    return 2 * d**3 / (epsilon * zeta**2) * math.log(ratio)


def kapralov_talwar_condition(d: int, epsilon: float, zeta: float, constant: float = 1.0) -> float:
    """Section 3.1: what Kapralov and Talwar 2013 (Theorem 18) ask of λ₁ for the same, d⁴/(εζ⁶)."""
    return constant * d**4 / (check_epsilon(epsilon, "kapralov_talwar_condition") * zeta**6)


def gaussian_mechanism(d: int, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """Section 3.1: ‖C − Ĉ‖_F of Gaussian noise (Dwork et al. 2014, Theorem 9), d^{3/2}·√ln(1/δ)/ε."""
    return constant * d**1.5 * math.sqrt(math.log(1 / delta)) / check_epsilon(epsilon, "gaussian_mechanism")


def _facts(d: int, epsilon: float, beta: float, owner: str) -> None:
    check_count("d", d, owner)
    check_epsilon(epsilon, owner)
    check_fraction("beta", beta, owner)


def _square(matrix: Any, name: str) -> Floats:
    found = np.asarray(matrix, dtype=np.float64)
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not np.allclose(found, found.T):
        raise ValueError(complain(name, "amin", "a symmetric matrix", f"shape {found.shape}"))
    return found


def _values(eigenvalues: Any, owner: str) -> Floats:
    found = np.asarray(eigenvalues, dtype=np.float64)
    if found.ndim != 1 or not len(found) or not (np.diff(found) <= 0).all() or not (found >= 0).all():
        raise ValueError(complain("eigenvalues", owner, "a decreasing vector of numbers ≥ 0", eigenvalues))
    return found
