"""Errors of a method on assumed rows: the method itself, asking a simulated curator (`planner.simulated`).

Methods in many steps are in `planner.steps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.methods import DPPCA, Geodesic, Kendall, Method, Oja, Refined, SpatialSign, Spiked, Task, Whitened
from dpeigen.methods.moment.base import MomentMethod
from dpeigen.methods.sampling.base import SamplingMethod
from dpeigen.planner.population import Population, View
from dpeigen.planner.simulated import Assumed, simulate
from dpeigen.privacy.randomness import made_up_generator
from dpeigen.stats.spectrum import projection_distance, relative_frobenius, sin_theta

_SAMPLES = 80, 40, 12  # different draws, by columns; every repetition has noise of its own
Pair = tuple[Population, Population]  # of rows, and of differences of pairs of them
_COVARIANCES = (MomentMethod, SamplingMethod, SpatialSign, Whitened)
METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "sin_theta": sin_theta,
    "projection_distance": lambda a, b: projection_distance(a, b) / math.sqrt(2 * len(a)),
}
COVARIANCE_METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "relative_frobenius": relative_frobenius,
    "relative_operator": lambda a, b: float(np.linalg.norm(a - b, 2) / np.linalg.norm(b, 2)),
}


@dataclass(frozen=True)
class Found:
    """What a run releases, in the eigenbasis of the assumed rows."""

    directions: Floats
    covariance: Floats
    variances: Floats | None  # along the directions, where they are paid for
    center: Floats | None  # where a centre is paid for; its truth is 0


def by_columns(counts: tuple[int, int, int], d: int) -> int:
    """What is done how often with up to 20 columns, up to 60, and more."""
    return counts[(d > 20) + (d > 60)]


def simulated_errors(method: Method, task: Task, pair: Pair, repetitions: int, metric: str = "sin_theta") -> Floats:
    """Errors of a checked method in so many runs on the assumed rows."""
    truth, errors = np.eye(task.n_features)[: task.n_components], []
    for found in simulated_runs(method, task, pair, repetitions):
        if metric in METRICS:
            errors.append(METRICS[metric](found.directions, truth))
        else:
            errors.append(COVARIANCE_METRICS[metric](found.covariance, pair[0].assumed.covariance))
    return np.array(errors)


def simulated_runs(method: Method, task: Task, pair: Pair, repetitions: int) -> Iterator[Found]:
    """What so many runs of a checked method would release, on rows or on pairs of them as the method asks."""
    d = task.n_features
    for repetition in range(repetitions):
        rng = made_up_generator(pair[0].seed, repetition, d)  # the same for all n and ε: errors are smooth in them
        people = Assumed(*pair, task, repetition % by_columns(_SAMPLES, d))
        released = simulate(method, task, people, rng)
        turned = people.in_eigenbasis(people.in_eigenbasis(released.covariance).T)
        center = None if released.mean is None else people.in_eigenbasis(released.mean - people.origin)
        paid = released.details.get("variances") != "relative"
        variances = released.eigenvalues if paid else None
        yield Found(
            people.in_eigenbasis(released.components), turned, variances, center if task.private_center else None
        )


def floor_errors(population: Population, task: Task, repetitions: int, metric: str) -> Floats:
    """Errors without privacy: of the plain covariance or of Kendall's tau, whichever suits these rows better."""
    k, d = task.n_components or task.n_features, task.n_features
    plain = [population.moment(r, View(math.inf)) for r in range(repetitions)]
    if metric in COVARIANCE_METRICS:
        return np.array([COVARIANCE_METRICS[metric](m, population.assumed.covariance) for m in plain])
    signs = [population.differences(r, k) for r in range(repetitions)]
    errors = [[METRICS[metric](_leading(m, k), np.eye(d)[:k]) for m in moments] for moments in (plain, signs)]
    return np.array(min(errors, key=lambda found: float(np.mean(found))))


def is_modelled(method: Method, *, covariance: bool = False) -> bool:
    """Whether there is an error model for it, and for the covariance it gives."""
    kinds = _COVARIANCES if covariance else (*_COVARIANCES, Kendall, Refined, Geodesic, DPPCA, Oja, Spiked)
    return isinstance(method, kinds) and getattr(method, "constants", "sharp") == "sharp"


def _leading(matrix: Floats, k: int) -> Floats:
    return np.linalg.eigh((matrix + matrix.T) / 2)[1].T[::-1][:k]
