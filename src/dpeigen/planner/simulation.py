"""Errors of a method on assumed rows: the method itself asks a simulated curator (`planner.simulated`).

Methods whose questions need actual rows (`Planned.drawn`) run on sampled tables: `planner.tables`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.methods import Method, Task
from dpeigen.planner.samples import Sample, Samples
from dpeigen.planner.simulated import simulate
from dpeigen.privacy.randomness import made_up_generator
from dpeigen.stats import Frame
from dpeigen.stats.spectrum import projection_distance, relative_frobenius, sin_theta
from dpeigen.stats.transform import Transform

__all__ = [
    "COVARIANCE_METRICS",
    "DIRECTION_METRICS",
    "Found",
    "by_columns",
    "floor_errors",
    "simulated_errors",
    "simulated_runs",
]

_SAMPLES = 80, 40, 12  # different samples, by columns; every repetition has its own noise
_AT_FIRST, _AT_A_TIME = (20, 20, 10), 10  # runs before the first check of the standard error (by columns), and between
DIRECTION_METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "sin_theta": sin_theta,
    "projection_distance": lambda a, b: projection_distance(a, b) / math.sqrt(2 * len(a)),
}
COVARIANCE_METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "relative_frobenius": relative_frobenius,
    "relative_operator": lambda a, b: float(np.linalg.norm(a - b, 2) / np.linalg.norm(b, 2)),
}


@dataclass(frozen=True)
class Found:
    """What a run releases, in the true principal axes and relative to the true centre."""

    directions: Floats
    covariance: Floats
    variances: Floats | None  # along the directions, if paid for
    center: Floats | None  # if paid for; the true centre is 0


def by_columns(counts: tuple[int, int, int], d: int) -> int:
    """The count for up to 20 columns, up to 60, or more."""
    return counts[(d > 20) + (d > 60)]


def simulated_errors(
    method: Method, task: Task, samples: Samples, repetitions: int, metric: str = "sin_theta", precision: float = 0.0
) -> Floats:
    """Errors of a checked method in this many runs on the assumed rows.

    Runs end earlier if the standard error of their mean, relative to the mean, is at most the precision.
    """
    truth, errors = np.eye(task.n_features)[: task.n_components], list[float]()
    first = by_columns(_AT_FIRST, task.n_features)
    for found in simulated_runs(method, task, samples, repetitions):
        if metric in DIRECTION_METRICS:
            errors.append(DIRECTION_METRICS[metric](found.directions, truth))
        else:
            errors.append(COVARIANCE_METRICS[metric](found.covariance, samples.covariance))
        if precision and len(errors) >= first and len(errors) % _AT_A_TIME == 0 and _known(errors, precision):
            break
    return np.array(errors)


def _known(errors: list[float], precision: float) -> bool:
    """Whether the standard error of the mean, relative to the mean, is at most the precision."""
    return bool(np.std(errors) <= precision * math.sqrt(len(errors)) * np.mean(errors))


def simulated_runs(method: Method, task: Task, samples: Samples, repetitions: int) -> Iterator[Found]:
    """What this many runs of a checked method would release, on rows or on pairs of them as the method asks."""
    d = task.n_features
    for repetition in range(repetitions):
        rng = made_up_generator(samples.seed, repetition, d)  # the same for all n and ε: errors are smooth in them
        people = samples.people(task, repetition % by_columns(_SAMPLES, d))
        released = simulate(method, task, people, rng)
        center = None if released.mean is None else people.in_eigenbasis(released.mean - people.origin)
        paid = released.details.get("variances") != "relative"
        variances = released.eigenvalues if paid else None
        yield Found(
            people.in_eigenbasis(released.components),
            _turned(people, released.covariance),
            variances,
            center if task.private_center else None,
        )


def floor_errors(samples: Samples, task: Task, repetitions: int, metric: str) -> Floats:
    """Errors without privacy: of the plain covariance or of Kendall's tau, whichever suits these rows better."""
    k, d = task.n_components or task.n_features, task.n_features
    plain, signs = [], []
    for repetition in range(repetitions):
        people = samples.people(task, repetition)
        frame = Frame(d, people.origin)
        plain.append(_turned(people, people.moment(frame, math.inf)))
        if metric not in COVARIANCE_METRICS:
            signs.append(_turned(people, people.tau(frame, Transform(), None)))
    if metric in COVARIANCE_METRICS:
        return np.array([COVARIANCE_METRICS[metric](m, samples.covariance) for m in plain])
    errors = [[DIRECTION_METRICS[metric](_leading(m, k), np.eye(d)[:k]) for m in moments] for moments in (plain, signs)]
    return np.array(min(errors, key=lambda found: float(np.mean(found))))


def _turned(people: Sample, matrix: Floats) -> Floats:
    """A symmetric matrix, converted from the coordinates of a sample to the true axes."""
    return people.in_eigenbasis(people.in_eigenbasis(matrix).T)


def _leading(matrix: Floats, k: int) -> Floats:
    return np.linalg.eigh((matrix + matrix.T) / 2)[1].T[::-1][:k]
