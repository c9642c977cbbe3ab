"""Plans for local privacy: the error of an average of reports, predicted before anyone reports.

From public facts and assumptions only. The simulated average of n reports is the sum of three parts: the second moment
of the assumed rows, clipped or scaled as clients would do; the sampling error of n rows; and the known noise of n
reports. Its leading directions are compared with those of the assumed covariance.

>>> found = plan_local(200_000, 10, 2, epsilon=2.0, delta=1e-6, spectrum=[9.0, 4.0] + [1.0] * 8)
>>> [p.method for p in found.predictions][-1]
'local-gaussian, published'
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_positive, complain
from dpeigen.local.parameters import LocalParameters
from dpeigen.local.promise import local_cost
from dpeigen.papers.wang import (
    Rate,
    local_lower_rate,
    local_upper_rate,
    sparse_local_lower_rate,
    sparse_local_upper_rate,
)
from dpeigen.planner.assumptions import Rows, assumed_rows
from dpeigen.planner.inverse import high_quantile, search
from dpeigen.planner.plans import Prediction
from dpeigen.planner.simulation import DIRECTION_METRICS, by_columns
from dpeigen.privacy import GaussianCost, best_guess
from dpeigen.privacy.randomness import Generator, made_up_generator

__all__ = ["LocalPlan", "needed_local_epsilon", "needed_local_rows", "plan_local", "symmetric"]

_POPULATION, _SAMPLE = 40_000, 2000  # rows drawn for the population, and for the sampling error
_RUNS = 60, 40, 16  # by columns
_MOST_EPSILON, _MOST_ROWS = 50.0, 10**10


@dataclass(frozen=True)
class LocalPlan:
    """Predictions for reports of single rows.

    Attributes
    ----------
    facts : dict
        The public facts and assumptions that were given.
    metric : str
        How errors are measured.
    predictions : tuple of Prediction
        One for each mechanism, by increasing error.
    floor : float
        The error without privacy.
    rates : dict of str to Rate
        Rates of Wang and Xu 2019.
    """

    facts: Mapping[str, Any]
    metric: str
    predictions: tuple[Prediction, ...]  # best first
    floor: float  # without privacy
    rates: Mapping[str, Rate]  # Theorems 1 to 4 of Wang and Xu, in squared distance; constants unknown

    @property
    def best(self) -> Prediction:
        """The prediction with the smallest error."""
        return self.predictions[0]

    def __getitem__(self, method: str) -> Prediction:
        return next(p for p in self.predictions if p.method == method)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Returns
        -------
        dict
            All fields.
        """
        return {
            "facts": dict(self.facts),
            "metric": self.metric,
            "predictions": [vars(p) for p in self.predictions],
            "floor": self.floor,
            "rates": {name: vars(rate) for name, rate in self.rates.items()},
        }


@dataclass(frozen=True)
class _World:
    """Assumed rows as they enter the reports."""

    images: Floats
    moment: Floats
    truth: Floats
    metric: str

    @classmethod
    def of(cls, rows: Rows, k: int, bound: float | None, metric: str) -> _World:
        images = rows.draw(_POPULATION, made_up_generator(0))
        lengths = np.maximum(np.linalg.norm(images, axis=1, keepdims=True), 1e-300)
        images = images / lengths if bound is None else images * np.minimum(1.0, bound / lengths)
        return cls(images, images.T @ images / len(images), np.eye(rows.n_features)[:k], metric)

    def errors(self, n: int, noise: float, runs: int) -> Floats:
        """Errors of runs; ``noise``: the deviation of one report in isometric coordinates."""
        p, found, k = len(self.moment), [], len(self.truth)
        for run in range(runs):
            rng = made_up_generator(run + 1)
            noisy = self.moment + self._sampling(n, rng) + noise / math.sqrt(n) * symmetric(p, rng)
            vectors = np.linalg.eigh(noisy)[1][:, ::-1]
            found.append(DIRECTION_METRICS[self.metric](vectors[:, :k].T, self.truth))
        return np.array(found)

    def _sampling(self, n: int, rng: Generator) -> Floats:
        part = self.images[rng.integers(len(self.images), size=_SAMPLE)]
        weights = rng.normal(size=(_SAMPLE, 1))
        return np.asarray((part * (weights - weights.mean())).T @ part / math.sqrt(_SAMPLE * n))


def symmetric(p: int, rng: Generator) -> Floats:
    """A symmetric Gaussian matrix, of variance 1 on the diagonal and ½ off it."""
    square = rng.normal(size=(p, p))
    return np.asarray((square + square.T) / 2)


def plan_local(
    n_rows: int,
    n_features: int,
    n_components: int,
    *,
    epsilon: float,
    delta: float = 0.0,
    bound: float | None = None,
    spectrum: Any = None,
    tails: float | None = None,
    contamination: float = 0.0,
    metric: str | None = None,
    sparsity: int | None = None,
) -> LocalPlan:
    """Predict the error of the first components from n local reports, before anything is collected.

    Parameters
    ----------
    n_rows : int
        Reports.
    n_features : int
        Columns of a row.
    n_components : int
        Components wanted.
    epsilon : float
        Of one report.
    delta : float, default=0.0
        Of one report. With δ > 0 Gaussian reports, also with published constants, are predicted beside the pure ones.
    bound : float, default=None
        Public bound to which rows are clipped, in the units of the spectrum; None: every row is scaled to norm 1
        (`LocalRandomizer(rows="scale")`).
    spectrum : as in `plan`, default=None
        The assumed variances.
    tails : float, default=None
        Degrees of freedom of a multivariate t; None for normal rows.
    contamination : float, default=0.0
        The fraction of outliers.
    metric : str, default=None
        "sin_theta" (None too) or "projection_distance".
    sparsity : int, default=None
        The number of columns with non-zero loadings that is assumed for the rates of sparse components.

    Returns
    -------
    LocalPlan
        The predictions.
    """
    n, k, world, values = _checked(n_rows, n_features, n_components, bound, spectrum, tails, contamination, metric)
    runs = by_columns(_RUNS, n_features)
    reports = _reports(n_features, epsilon, delta, bound)
    found = [_predicted(name, parameters, world, n, runs) for name, parameters in reports.items()]
    rates: dict[str, Rate] = {}
    if k < n_features and values[k - 1] > values[k]:
        unit = np.linalg.eigvalsh(world.moment)[::-1] / (1.0 if bound is None else bound**2)
        rates = _rates(n, k, unit.tolist(), epsilon, delta, sparsity)
    facts = {
        "n_rows": n,
        "n_features": n_features,
        "n_components": k,
        "epsilon": epsilon,
        "delta": delta,
        "bound": bound,
        "trust": "local",
    }
    floor = float(world.errors(n, 0.0, runs).mean())
    return LocalPlan(facts, world.metric, tuple(sorted(found, key=lambda p: p.error)), floor, rates)


def _predicted(name: str, parameters: LocalParameters, world: _World, n: int, runs: int) -> Prediction:
    errors = world.errors(n, parameters.noise, runs)
    low, high = (float(q) for q in np.quantile(errors, (0.05, 0.95)))
    cost = local_cost(parameters)
    success = ndtr(cost.mu / 2) if isinstance(cost, GaussianCost) else best_guess(parameters.epsilon, 0.0)
    mean, worst = float(errors.mean()), float(errors.max())
    return Prediction(name, mean, low, high, float(success), parameters.real_epsilon, runs, worst)


def _rates(
    n: int, k: int, eigenvalues: list[float], epsilon: float, delta: float, sparsity: int | None
) -> dict[str, Rate]:
    """Theorems 1 to 4 of Wang and Xu, for the eigenvalues of rows in the unit ball."""
    p = len(eigenvalues)
    versions = ((False, "as printed"), (True, "corrected")) if delta else ()
    rates = {"lower bound, Theorem 1": local_lower_rate(n, p, k, epsilon, eigenvalues)}
    for fixed, text in versions:
        rate = local_upper_rate(n, p, k, epsilon, delta, eigenvalues, corrected=fixed)
        rates[f"upper bound, Theorem 2, {text}"] = rate
    if sparsity is not None:
        rate = sparse_local_lower_rate(n, p, k, sparsity, epsilon, eigenvalues)
        rates["sparse lower bound, Theorem 3"] = rate
        for fixed, text in versions:
            rate = sparse_local_upper_rate(n, p, k, sparsity, epsilon, delta, eigenvalues, corrected=fixed)
            rates[f"sparse upper bound, Theorem 4, {text}"] = rate
    return rates


def needed_local_epsilon(
    target: float, n_rows: int, n_features: int, n_components: int, *, delta: float = 0.0, **facts: Any
) -> float:
    """Find approximately the smallest ε of a report at which 95% of studies reach a target error.

    Parameters
    ----------
    target : float
        The error.
    n_rows : int
        The number of reports.
    n_features : int
        Columns of a row.
    n_components : int
        Components wanted.
    delta : float, default=0.0
        Of one report. Of the sharp mechanisms the better one counts.
    **facts : public facts
        As for `plan_local`.

    Returns
    -------
    float
        ε.

    Raises
    ------
    OutOfReachError
        No ε is enough.
    """
    n, _, world, _ = _checked(n_rows, n_features, n_components, **_rest(facts))

    def error(epsilon: float, near: bool) -> float:
        return _best_error(world, n, n_features, epsilon, delta, facts.get("bound"), near)

    return search(error, 1.0, 1e-3, _MOST_EPSILON, "ε", _target(target))


def needed_local_rows(
    target: float, n_features: int, n_components: int, *, epsilon: float, delta: float = 0.0, **facts: Any
) -> int:
    """Find approximately the smallest number of reports at which 95% of studies reach a target error.

    Parameters
    ----------
    target : float
        The error.
    n_features : int
        Columns of a row.
    n_components : int
        Components wanted.
    epsilon : float
        Of one report.
    delta : float, default=0.0
        Of one report.
    **facts : public facts
        As for `plan_local`.

    Returns
    -------
    int
        The number of reports.
    """
    _, _, world, _ = _checked(2, n_features, n_components, **_rest(facts))

    def error(n: float, near: bool) -> float:
        return _best_error(world, math.ceil(n), n_features, epsilon, delta, facts.get("bound"), near)

    return math.ceil(search(error, 100_000.0, 10.0, _MOST_ROWS, "number of rows", _target(target)))


def _rest(facts: Mapping[str, Any]) -> dict[str, Any]:
    usual: dict[str, Any] = {"bound": None, "spectrum": None, "tails": None, "contamination": 0.0, "metric": None}
    unknown = sorted(set(facts) - set(usual))
    if unknown:
        raise TypeError(complain("facts", "plan_local", f"among {', '.join(usual)}", ", ".join(unknown)))
    return usual | dict(facts)


def _best_error(world: _World, n: int, p: int, epsilon: float, delta: float, bound: float | None, near: bool) -> float:
    runs = by_columns(_RUNS, p) if near else 6
    noise = min(q.noise for q in _reports(p, epsilon, delta, bound).values() if not q.published)
    return high_quantile(world.errors(n, noise, runs))


def _reports(p: int, epsilon: float, delta: float, bound: float | None) -> dict[str, LocalParameters]:
    given: dict[str, Any] = {"bound": bound or 1.0, "rows": "clip" if bound else "scale"}
    found = {"local-privunit": LocalParameters(p, epsilon, 0.0, **given)}
    if delta:
        found["local-gaussian"] = LocalParameters(p, epsilon, delta, **given)
        found["local-gaussian, published"] = LocalParameters(p, epsilon, delta, **given, constants="published")
    return found


def _checked(
    n_rows: int,
    n_features: int,
    n_components: int,
    bound: float | None,
    spectrum: Any,
    tails: float | None,
    contamination: float,
    metric: str | None,
) -> tuple[int, int, _World, Floats]:
    owner = "plan_local"
    n, p = check_count("n_rows", n_rows, owner, low=2), check_count("n_features", n_features, owner)
    k = check_count("n_components", n_components, owner, high=p)
    if bound is not None:
        bound = check_positive("bound", bound, owner)
    metric = check_choice("metric", metric or "sin_theta", list(DIRECTION_METRICS), owner)
    rows = assumed_rows(spectrum, p, k, **({} if isinstance(spectrum, Rows) else _assumed(tails, contamination)))
    return n, k, _World.of(rows, k, bound, metric), rows.eigenvalues


def _assumed(tails: float | None, contamination: float) -> dict[str, Any]:
    return {"tails": tails, "contamination": contamination}


def _target(target: float) -> float:
    return check_positive("target", target, "plan_local")
