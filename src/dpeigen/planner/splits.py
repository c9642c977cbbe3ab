"""How to split a budget between directions, variances, centre and radii, under the error model."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from dpeigen.methods import Kendall, Method, Refined, SpatialSign, Task
from dpeigen.methods.moment import MomentMethod
from dpeigen.methods.sampling import GRID, VALUES, SamplingMethod
from dpeigen.planner.planning import Problem, Simulator, modelled_method
from dpeigen.privacy import Cost, GaussianCost
from dpeigen.privacy.budget import pure_epsilon
from dpeigen.privacy.randomness import made_up_generator

_FACTORS = (0.25, 0.5, 2.0, 4.0)
_MAIN = ("second moment", "directions", "Kendall's tau")


def best_split(
    method: str | Method, n_rows: int, n_features: int, n_components: int, *, rounds: int = 2, **facts: Any
) -> Method:
    """The method with the ``emphasis`` on its shares that the error model likes best; give it to an estimator.

    What is minimised is the root mean square of the error of the directions and of the relative error that noise makes
    in a variance along them, by trying factors on one share after the other, ``rounds`` times over. Shares of the noise
    on the directions themselves are the unit. Facts are those of `plan`.

    Under relation="add_remove" the number of rows is private, and a release shows its shares: ``n_rows`` is then taken
    as the nearest power of 2, and should be a guess made without the data.
    """
    if facts.get("relation") == "add_remove":
        n_rows = 2 ** round(math.log2(max(2, n_rows)))
    problem = Problem.of(n_rows, n_features, n_components, **facts)
    simulator, best = Simulator(problem), modelled_method(method)
    best.check(problem.task)
    least = split_loss(best, problem, simulator)
    names = [name for name in best.shares(problem.task) if not name.startswith(_MAIN)]  # type: ignore[attr-defined]
    for _ in range(rounds):
        for name in names:
            base = float(best.emphasis.get(name, 1.0))
            for factor in _FACTORS:
                trial = replace(best, emphasis={**best.emphasis, name: base * factor})  # type: ignore[type-var]
                loss = split_loss(trial, problem, simulator)
                if loss < least * 0.995:  # not for less than runs can tell
                    best, least = trial, loss
    return best


def split_loss(method: Method, problem: Problem, simulator: Simulator) -> float:
    task = problem.task
    try:
        method.check(task)
    except ValueError:
        return math.inf
    errors = simulator.errors(method, task, max(4, problem.repetitions // 2))
    return math.hypot(float(np.sqrt(np.mean(errors**2))), _variance_error(method, task, problem))


def _variance_error(method: Method, task: Task, problem: Problem) -> float:
    """The relative error that noise makes in the last of the wanted variances; 0 where the moment holds them too."""
    costs: dict[str, Cost] = method.shares(task)  # type: ignore[attr-defined]
    values, k = problem.rows.eigenvalues, task.n_components or 1
    square = float(np.quantile(np.sum(problem.rows.draw(2000, made_up_generator()) ** 2, axis=1), 0.95))
    if isinstance(method, MomentMethod):
        return 0.0
    if isinstance(method, SamplingMethod):
        scale = method.value_scale(costs[VALUES], task) / GRID
        whole = task.bound**2 if isinstance(task.bound, float) else square
        return scale * whole / problem.n / float(values[k - 1])
    if isinstance(method, (SpatialSign, Refined, Kendall)) and "variances" in costs:
        cost = costs["variances"]
        deviation = math.sqrt(2) / cost.mu if isinstance(cost, GaussianCost) else 2 * math.sqrt(2) / pure_epsilon(cost)
        return deviation * square / problem.n / float(values[k - 1])
    return 0.0
