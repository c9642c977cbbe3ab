"""One release of a made-up table by the estimator itself, and its distance from the answer without privacy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpeigen.stats.spectrum import sin_theta
from dpeigen.studio.made_up import MadeUpTable

__all__ = ["CLEAR", "Asked", "Tried", "tried"]

CLEAR = 200.0  # ε at which a robust method on a made-up table has almost no noise


@dataclass(frozen=True)
class Asked:
    """What is asked of a table, and how."""

    question: str  # pca, covariance, ridge
    components: int
    epsilon: float
    delta: float
    standardised: bool
    robust: bool
    relation: str
    missing: str
    max_rows: int | None
    bound: tuple[tuple[float, ...], tuple[float, ...]] | None
    target: int


@dataclass(frozen=True)
class Tried:
    """The error of a release, in the measure of its question, and whether anything differed from noise."""

    error: float
    clear: bool


def tried(asked: Asked, table: MadeUpTable, seed: int) -> Tried | None:
    """One release; None if the estimator refuses or if a column is unknown."""
    try:
        fit = _fit(asked, table, seed)
        error = _MEASURES[asked.question](fit, asked, table)
    except (ValueError, ArithmeticError):
        return None
    return Tried(error, fit.release_.resolved != 0) if math.isfinite(error) else None


def _fit(asked: Asked, table: MadeUpTable, seed: int) -> Any:
    from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge

    options: dict[str, Any] = {
        "epsilon": asked.epsilon, "delta": asked.delta, "relation": asked.relation, "missing": asked.missing,
        "scale": "private" if asked.standardised else None, "robust": asked.robust, "max_rows": asked.max_rows,
        "center": "private", "bound": asked.bound, "random_state": seed,
    }  # fmt: skip
    rows, people = table.source(), table.people
    if asked.question == "pca":
        return PrivatePCA(asked.components, **options).fit(rows, unit=people)
    if asked.question == "covariance":
        return PrivateCovariance(**options).fit(rows, unit=people)
    if asked.bound is not None:
        low, high = map(list, asked.bound)
        options["target_bounds"] = low.pop(asked.target), high.pop(asked.target)
        options["bound"] = low, high
    return PrivateRidge("auto", **options).fit(rows, table.names[asked.target], unit=people)


@lru_cache(maxsize=32)
def _without_noise(asked: Asked, table: MadeUpTable) -> Any:
    return _fit(asked, table, 0)


def _angle(fit: Any, asked: Asked, table: MadeUpTable) -> float:
    """The sine of the largest angle between the components and those of the complete table."""
    if asked.robust:
        true = _without_noise(replace(asked, epsilon=CLEAR), table).components_
    else:
        rows = table.standardised if asked.standardised else table.complete - table.weights @ table.complete
        true = np.linalg.eigh(table.moment(rows))[1][:, ::-1][:, : asked.components].T
    return float(sin_theta(fit.components_, true))


def _correlation_error(fit: Any, asked: Asked, table: MadeUpTable) -> float:
    """The root mean square error of the correlations of all pairs of columns."""
    if asked.robust:
        true = _without_noise(replace(asked, epsilon=CLEAR), table).release_.correlation
    else:
        moment = table.moment(table.standardised)
        spread = np.sqrt(np.maximum(np.diag(moment), 1e-300))
        true = moment / np.outer(spread, spread)
    apart = ~np.eye(len(true), dtype=bool)
    return float(np.sqrt(np.mean((fit.release_.correlation - true)[apart] ** 2)))


def _prediction_error(fit: Any, asked: Asked, table: MadeUpTable) -> float:
    """The distance of predicted values from those of least squares, in deviations of the target."""
    y = table.complete[:, asked.target]
    others = np.delete(table.complete, asked.target, axis=1)
    root = np.sqrt(table.weights)
    design = np.column_stack([np.ones(len(y)), others])
    best = design @ np.linalg.lstsq(design * root[:, None], y * root, rcond=1e-9)[0]
    away = fit.predict(others) - best
    spread = math.sqrt(table.weights @ (y - table.weights @ y) ** 2)
    return math.sqrt(table.weights @ away**2) / spread


_MEASURES: dict[str, Callable[[Any, Asked, MadeUpTable], float]] = {
    "pca": _angle,
    "covariance": _correlation_error,
    "ridge": _prediction_error,
}
