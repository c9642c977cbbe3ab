"""Error bounds for a direction drawn from exp(c·uᵀCu), and for a covariance built from such draws.

Lemmas 5 and 6 and Theorem 2 of Amin et al. 2019 with every constant stated. Let C ⪰ 0 have m columns and the largest
eigenvalue λ, and let u be drawn from the density ∝ exp(c·uᵀCu) on the sphere.

**One draw.** s = c(λ − uᵀCu) has, under the draw, Pr(s ≥ τ) = E₀[e^{−s}; s ≥ τ]/E₀[e^{−s}] ≤ e^{−τ}/E₀[e^{−s}], E₀ over
the uniform law. If φ is the angle to the first eigenvector, uᵀCu ≥ λcos²φ, so s ≤ x·sin²φ with x = cλ, and sin²φ has
the law Beta(a, ½), a = (m − 1)/2. Its density is at least t^{a−1}/B(a, ½), so

    E₀[e^{−s}] ≥ x^{−a}·P(a, x)·Γ(a + ½)/Γ(½),   and   E₀[e^{−s}] ≥ e^{−x(m−1)/m}  (Jensen),

P the regularised incomplete gamma function. With L(m, x) the smaller of the two logarithms of the inverse,
λ − uᵀCu ≤ (ln(1/β) + L(m, cλ))/c with probability 1 − β. L grows as a·ln x: the rate of the printed lemma.

**All draws.** Let θ₁..θ_d be orthonormal, each drawn on the orthogonal complement of the earlier ones (those that are
not drawn are the eigenvectors on the complement of the drawn ones), and let the covariance be rebuilt with the values
v₁..v_d. As in Lemma 6,

    ‖C − Σvᵢθᵢθᵢᵀ‖_F ≤ √(2Σλᵢ(λᵢ − θᵢᵀCθᵢ)) + ‖λ − v‖.

The largest eigenvalue on the complement is at least λᵢ (interlacing) and at most λ₁, so λᵢ − θᵢᵀCθᵢ is at most the loss
of the draw, and at most λᵢ; it is at most 0 where nothing was drawn. ∎

>>> round(direction_loss(6, top=1000.0, concentration=0.25, failure=0.05), 1)
66.7
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammainc, gammaln

from dpeigen._types import Floats

__all__ = ["direction_loss", "sampled_error"]


def direction_loss(m: int, top: float, concentration: float, failure: float) -> float:
    """A bound on λ − uᵀCu of a draw in m columns, exceeded with at most probability ``failure``; at most λ."""
    if m == 1 or top <= 0:
        return 0.0
    if concentration <= 0:
        return top
    return min(top, (math.log(1 / failure) + _log_inverse_mean(m, concentration * top)) / concentration)


def _log_inverse_mean(m: int, x: float) -> float:
    """L(m, x)."""
    a, jensen = (m - 1) / 2, x * (m - 1) / m
    covered = float(gammainc(a, x))
    if covered <= 0:
        return jensen
    return min(jensen, a * math.log(x) - math.log(covered) - float(gammaln(a + 0.5) - gammaln(0.5)))


def sampled_error(
    noisy: Floats, off: float, rebuilt: Floats, concentrations: Floats, trace: float, failure: float
) -> float:
    """A bound on ‖C − Σvᵢθᵢθᵢᵀ‖ from released numbers, exceeded with at most probability ``failure`` of the draws.

    ``noisy``: the decreasing eigenvalues of C, with noise of at most ``off`` each. ``rebuilt``: v, in the order of the
    draws. ``concentrations``: of the draws; 0 where a direction is determined. ``trace``: an upper bound on that of C.
    The result is the smaller of a bound in the Frobenius norm and one in the spectral norm (that of C and Ĉ, both ⪰ 0).
    """
    d, drawn = len(noisy), int(np.count_nonzero(concentrations))
    most = np.clip(noisy + off, 0.0, trace / np.arange(1, d + 1))  # λᵢ is at most the mean of the first i
    most = np.minimum.accumulate(most)
    top = float(most[0])
    lost = 0.0
    for i in range(len(concentrations)):
        loss = direction_loss(d - i, top, float(concentrations[i]), failure / max(1, drawn))
        lost += float(most[i]) * min(loss, float(most[i]))
    values = float(np.linalg.norm(rebuilt - noisy)) + off * math.sqrt(d)
    return min(math.sqrt(2 * lost) + values, max(top, float(rebuilt.max())))
