"""Ridge regression from one private covariance against output perturbation, on wine, airfoil and adult.

Columns are centred and scaled with public numbers (these data are public), so that no method needs an intercept and
the joint rows (features, target) lie in the unit ball. Output perturbation (`baselines.py`) gets its best α in
hindsight, which would not be free. Releases choose α = "auto" from themselves, which is; METHOD-best has the best α in
hindsight too. Figures are the mean squared error on held-out rows over that of predicting the mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import baselines
import numpy as np
from numpy.typing import NDArray

from dpeigen import PrivateCovariance
from dpeigen.methods import EigenvectorSampling
from dpeigen.privacy import NotPrivateWarning, gaussian_sigma

Floats = NDArray[np.float64]

TARGETS = {"wine": 0, "airfoil": -1, "adult": -1}  # alcohol; sound pressure; income above 50K
LEFT_OUT = {"adult": [-2]}  # income up to 50K, which is the target again
METHODS = {
    "AD": EigenvectorSampling("published", reconstruction="printed"),
    "eigenvector-sampling": "eigenvector-sampling",
    "matrix-laplace": "matrix-laplace",
}
PERTURBED = {"output-perturbation": 0.0, "output-perturbation-6": 1e-6}  # and the δ of each
ALPHAS = np.logspace(-2, 5, 29)


class Problem:
    """Training moments, and the test error of any coefficients."""

    def __init__(self, name: str, data: Floats) -> None:
        joint = np.delete(data, LEFT_OUT.get(name, []), axis=1)
        joint = joint - joint.mean(axis=0)
        joint /= np.abs(joint).max(axis=0)
        joint /= np.linalg.norm(joint, axis=1).max()
        order = np.random.default_rng(0).permutation(len(joint))
        self.target = TARGETS[name] % joint.shape[1]
        self.train, test = joint[order[: len(joint) * 4 // 5]], joint[order[len(joint) * 4 // 5 :]]
        self.X, self.y = np.delete(self.train, self.target, axis=1), self.train[:, self.target]
        rows, y = np.delete(test, self.target, axis=1), test[:, self.target]
        self._moments = rows.T @ rows, rows.T @ y, float(y @ y)
        self.row_bound = float(np.linalg.norm(np.delete(joint, self.target, axis=1), axis=1).max())
        self.target_bound = float(np.abs(joint[:, self.target]).max())

    def error(self, coef: Floats) -> float:
        """Mean squared error on the test rows, over that of predicting the mean."""
        second, first, total = self._moments
        return float(coef @ second @ coef - 2 * first @ coef + total) / total


def cells(name: str, data: Floats, epsilons: Sequence[float], seeds: range) -> dict[tuple[str, str, float], Floats]:
    """Test errors by (data, method, ε); ε = 0 stands for the regression without privacy."""
    problem = Problem(name, data)
    exact = min(problem.error(baselines.ridge(problem.X, problem.y, alpha)) for alpha in (0.01, 0.1, 1.0))
    found = {(f"{name}-ridge", "not-private", 0.0): np.full(len(seeds), exact)}  # the same whatever the seed
    for method in METHODS:
        for epsilon in epsilons:
            tried = np.array([released(problem, method, epsilon, s) for s in seeds])
            found[f"{name}-ridge", method, epsilon] = tried[:, 0]
            found[f"{name}-ridge", f"{method}-best", epsilon] = tried[:, 1 + np.argmin(tried[:, 1:].mean(axis=0))]
    models = [baselines.ridge(problem.X, problem.y, alpha) for alpha in ALPHAS]
    for method, delta in PERTURBED.items():
        for epsilon in epsilons:
            tried = [
                np.array([problem.error(w + perturbation(problem, alpha, epsilon, delta, s)) for s in seeds])
                for alpha, w in zip(ALPHAS, models, strict=True)
            ]
            found[f"{name}-ridge", method, epsilon] = min(tried, key=np.mean)
    return found


def released(problem: Problem, method: str, epsilon: float, seed: int) -> list[float]:
    """The test errors of the regressions read off one release: α = "auto", then each of `ALPHAS`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)  # seeded on purpose, on public data
        release = PrivateCovariance(epsilon=epsilon, method=METHODS[method], bound=1.0, center=None, random_state=seed)
        release = release.fit(problem.train).release_
    chosen, path = release.ridge(problem.target, "auto").coef, release.ridge(problem.target, ALPHAS).coef
    return [problem.error(coef) for coef in (chosen, *path)]


def perturbation(problem: Problem, alpha: float, epsilon: float, delta: float, seed: int) -> Floats:
    """The noise of `baselines.output_perturbation_ridge`, drawn apart from the model, which is the same every time."""
    n, p = problem.X.shape
    sensitivity = baselines.ridge_sensitivity(alpha, n, problem.row_bound, problem.target_bound)
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=p)
    if delta > 0:
        return gaussian_sigma(epsilon, delta, sensitivity) * direction
    return rng.gamma(p, sensitivity / epsilon) * direction / np.linalg.norm(direction)
