"""How to stretch rows before the next measurement of a moment of signs, from earlier ones (`stats.refinement`).

Known: directions uᵢ with variances λᵢ, the precision of every angle between a wanted direction i and another l, and the
standard deviation τ of the noise of the next measurement. Chosen: factors t along the wanted directions. With rows
stretched by T, the next measurement gives the angle a precision of

    newsᵢₗ = (tᵢ·(λᵢ − λₗ)/(τ·tr TΣT))²

to first order (the reciprocal of the trace approximates the gain of `stats.signs.compression`). What is minimised is

    Σᵢ eᵢ/(1 + eᵢ),   eᵢ = Σₗ costᵢₗ/(knownᵢₗ + newsᵢₗ),

with costᵢₗ = (λᵢ − λₗ)/λᵢ, the variance that a rotation towards l loses. If a wanted direction is only partly known,
its unresolved part makes the other directions longer and the trace larger. Rows are stretched only if a large
improvement is predicted, since rows that are not elliptical have other axes after stretching.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from dpeigen._types import Floats
from dpeigen.stats.sign_model import SignModel
from dpeigen.stats.signs import compression, stretches

__all__ = ["choose_stretch", "predicted_variance"]

_WORTH = 0.5  # the predicted squared error with stretched rows must be below this fraction of that without
_RESOLVED = 0.75  # rows are stretched along a wanted direction if this fraction of it has been found
_MOST_FACTOR = 3.0  # the largest factor, as a logarithm


def choose_stretch(model: SignModel | None, deviation: float, d: int) -> tuple[Floats, Floats]:
    """(directions, factors) for the rows of the next measurement, with noise of this deviation.

    Both are empty for the first measurement, and if stretching is not predicted to help.
    """
    none = np.zeros((0, d)), np.zeros(0)
    if model is None or not len(model.directions):
        return none
    factors = _best_factors(model, deviation)
    return none if np.all(factors == 1) else (model.directions[: len(factors)], factors)


@dataclass(frozen=True)
class _Outlook:
    """What is known about angles between the wanted directions (rows) and the others (columns; the rest is the last).

    ``found``: the fraction of each wanted direction that was found (cos² of its angle error). ``seen``: mean squares of
    rows along the estimated wanted axes; ``seen_beside``: along all others together.
    """

    variances: Floats  # of the wanted directions
    known: Floats
    sharpness: Floats  # ((λᵢ − λₗ)/τ)²
    costs: Floats
    found: Floats  # one column
    seen: Floats
    seen_beside: float

    @classmethod
    def of(cls, model: SignModel, deviation: float) -> _Outlook:
        j, m, k = len(model.directions), model.others, model.wanted
        variances = 1 + np.append(model.excess, 0.0)
        gaps = np.maximum(variances[:k, None] - variances[None, k:], 0.0)
        known = model.precision[:k, k:] * gaps**2
        repeats = np.append(np.ones(j - k), m)
        with np.errstate(divide="ignore", invalid="ignore"):
            turned = repeats / known  # sin² of the angle errors of wanted directions towards others
            turned = np.where(np.isfinite(turned), turned, 1e9)
        turned = turned / (1 + turned.sum(axis=1, keepdims=True))
        leaked = turned * gaps
        seen = variances * np.append(np.ones(j), m)
        seen[:k] -= leaked.sum(axis=1)
        seen[k:] += leaked.sum(axis=0)
        costs = gaps / variances[:k, None] * repeats
        found = 1 - turned.sum(axis=1, keepdims=True)
        return cls(variances[:k], known, (gaps / deviation) ** 2, costs, found, seen[:k], float(seen[k:].sum()))

    def errors(self, squares: Floats, known: Floats | float, found: Floats | float) -> tuple[Floats, Floats]:
        """eᵢ if rows are stretched by the square roots of ``squares``, and −∂eᵢ/∂ log news."""
        news = found * squares[:, None] * self.sharpness / (float(squares @ self.seen) + self.seen_beside) ** 2
        total = np.maximum(known + news, 1e-300)
        left = self.costs / total
        return left.sum(axis=1), (left * (news / total)).sum(axis=1)

    def objective(self, logs: Floats) -> tuple[float, Floats]:
        """log Σ e/(1 + e) at log t, and its gradient: log newsᵢ = 2 log tᵢ − 2 log Σ t²·seen + …"""
        squares = np.exp(2 * logs)
        left, falls = self.errors(squares, self.known, self.found)
        total = float((left / (1 + left)).sum())
        falls = falls / ((1 + left) ** 2 * total)
        long = squares * self.seen
        return math.log(total), 4 * float(falls.sum()) / (float(long.sum()) + self.seen_beside) * long - 2 * falls


def _best_factors(model: SignModel, deviation: float) -> Floats:
    """t for the wanted directions; ones if stretching is not worthwhile."""
    outlook, m, k = _Outlook.of(model, deviation), model.others, model.wanted
    # No direction becomes shorter than the rest, and none is stretched before it is resolved.
    least = 0.5 * np.log(0.2 * min(1.0, m / len(model.directions)) / outlook.variances)
    clear = outlook.found[:, 0] > _RESOLVED
    bounds = [(min(low, 0.0), _MOST_FACTOR) if known else (0.0, 0.0) for low, known in zip(least, clear, strict=True)]
    balanced = np.log(np.maximum(stretches(np.maximum(outlook.variances, 1.05), m), 1e-6))
    best = min(
        (
            minimize(outlook.objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
            for start in (np.zeros(k), np.where(clear, balanced, 0.0))
        ),
        key=lambda result: float(result.fun),
    )
    # Compared by the information of the next measurement alone.
    stretched = outlook.errors(np.exp(2 * best.x), 0.0, outlook.found)[0]
    plain = outlook.errors(np.ones(k), 0.0, 1.0)[0]
    return np.exp(best.x) if stretched.sum() < _WORTH * plain.sum() else np.ones(k)


def predicted_variance(looks: int, noise: float, signal: float, d: int, k: int) -> float:
    """The variance of an angle due to noise after ``looks`` measurements, for k variances ``signal`` and others of 1.

    ``noise``: the deviation of an entry of a mean sign moment with the whole budget; each measurement has an equal
    share. Errors of an earlier measurement add noise to the other directions.
    """
    precision, m = 0.0, d - k
    plain = _angle_gain(signal, 0.0, 1.0, m, k)
    for look in range(looks):
        gain = plain
        if look:
            leak = signal * k / (precision + m)
            factor = float(stretches(np.full(k, max(signal / (1 + leak), 1.05)), m)[0])
            gain = max(gain, _angle_gain(signal, leak, factor, m, k))
        precision += (gain / noise) ** 2 / looks
    return 1 / precision


def _angle_gain(signal: float, leak: float, factor: float, m: int, k: int) -> float:
    """∂φᵢₗ of an angle: c·t·(λ − 1), if the others have variance 1 + leak."""
    _, c = compression(np.array([signal * factor**2]), 1 + leak, m, repeats=k)
    return float(c[0, -1]) * factor * (signal - 1)
