"""Output perturbation for ridge regression: what `PrivateRidge` is compared with. It pays for every model it fits.

Chaudhuri, Monteleoni, Sarwate (Differentially private empirical risk minimization, JMLR 12, 2011, Algorithm 1) release
the minimiser of a regularised risk plus noise of density ∝ exp(−ε‖b‖/Δ). Their Δ = 2/(nΛ) is for losses whose slope
is at most 1; the squared loss has none, so its sensitivity is derived here.

Let ‖x‖ ≤ R, |y| ≤ Y, α = nΛ, and J(w) = (1/2n)·Σ(xᵢ·w − yᵢ)² + (Λ/2)·‖w‖², minimised by ridge regression w with
scikit-learn's α.

1. ‖w‖ ≤ Y/(2√Λ): with the singular values s of X/√n, w has the factors s/(s² + Λ) ≤ 1/(2√Λ) on y/√n, whose length is
   at most Y.
2. So one row's gradient at w, (x·w − y)·x, is at most g = R·Y·(1 + R/(2√Λ)) long.
3. Let J′ differ from J in one row. ∇J′(w) = ∇J(w) + (g′ − g)/n = (g′ − g)/n, at most 2g/n long. J′ is Λ-strongly
   convex, so its minimiser w′ has ‖w − w′‖ ≤ ‖∇J′(w)‖/Λ ≤ 2g/(nΛ).
4. The noise has density ∝ exp(−ε‖b‖/Δ) with Δ = 2g/(nΛ), and |‖b‖ − ‖b + w − w′‖| ≤ Δ: ε-DP.

There is no intercept: centre the data with public numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.privacy import gaussian_sigma

Floats = NDArray[np.float64]


def clip(X: Floats, y: Floats, row_bound: float, target_bound: float) -> tuple[Floats, Floats]:
    """Rows shortened to length R, targets clipped to [−Y, Y]; each row depends on itself alone."""
    lengths = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), row_bound)
    return X * (row_bound / lengths), np.clip(y, -target_bound, target_bound)


def ridge(X: Floats, y: Floats, alpha: float) -> Floats:
    """The minimiser of ‖y − Xw‖² + α‖w‖². Not private."""
    return np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ y)


def ridge_sensitivity(alpha: float, n_rows: int, row_bound: float, target_bound: float) -> float:
    """The most by which replacing one clipped row moves the ridge solution, in ℓ2 (derivation above)."""
    gradient = row_bound * target_bound * (1 + row_bound / (2 * math.sqrt(alpha / n_rows)))
    return 2 * gradient / alpha


def output_perturbation_ridge(
    X: Floats,
    y: Floats,
    alpha: float,
    *,
    epsilon: float,
    delta: float = 0.0,
    row_bound: float,
    target_bound: float,
    random_state: Any = None,
) -> Floats:
    """Ridge coefficients plus noise.

    Guarantee: ε-DP (δ = 0; length Gamma(p, Δ/ε), direction uniform) or (ε, δ)-DP (Gaussian noise, exact calibration),
    one row replaced, for every data set, if ``alpha``, the bounds and the number of rows are public. It covers this one
    model; choosing α by looking at several costs their sum. The noise is drawn in floating point by NumPy: this is for
    experiments, not for releases.
    """
    X, y = clip(X, y, row_bound, target_bound)
    n, p = X.shape
    sensitivity = ridge_sensitivity(alpha, n, row_bound, target_bound)
    rng = np.random.default_rng(random_state)
    direction = rng.normal(size=p)
    if delta > 0:
        noise = gaussian_sigma(epsilon, delta, sensitivity) * direction
    else:
        noise = rng.gamma(p, sensitivity / epsilon) * direction / np.linalg.norm(direction)
    return ridge(X, y, alpha) + noise
