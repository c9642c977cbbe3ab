"""Errors of methods whose questions need actual rows: runs on sampled tables of moderate size.

Such methods say so themselves (`Planned.drawn`); streams are run like this too if the population is a table. The
sampled table has m rows, at most some thousands. If it represents n rows, the budget is raised so that noise relative
to m rows is as large as it would be relative to n. The larger sampling error s_m of m rows, estimated by runs without
noise, is subtracted: e² = e_m² − s_m²(1 − m/n). On rows that are not elliptical a method may estimate something else
than was asked for. That part of the error does not depend on n and is not subtracted.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpeigen._types import Floats
from dpeigen.methods import Method, Task
from dpeigen.methods.base import run_method
from dpeigen.methods.one_pass.streaming import OnePassMethod
from dpeigen.methods.outline import Planned
from dpeigen.planner.samples import Samples
from dpeigen.planner.simulation import DIRECTION_METRICS
from dpeigen.privacy import Budget, gaussian_epsilon, gaussian_mu
from dpeigen.privacy.randomness import SeededRandomness, made_up_generator
from dpeigen.sources import ArraySource

__all__ = ["table_errors"]

_FEWEST, _MOST, _NUMBERS = 2000, 20_000, 300_000  # least and most rows of a table, and about this many numbers
_WITHOUT_NOISE = 30.0  # factor on the μ of a run
_MOST_MU = 20.0  # with a larger μ noise is negligible, and no budget is larger
_FLOOR_RUNS = 3


def table_errors(method: Method, task: Task, samples: Samples, repetitions: int, metric: str) -> Floats:
    """Errors of the method itself on sampled tables."""
    n, d, planned = samples.n, task.n_features, method.planned or Planned()
    m = min(n, planned.larger * int(np.clip(_NUMBERS // d, _FEWEST, _MOST)))
    if m == n:
        return _on_tables(method, task, samples, n, repetitions, metric)
    while True:
        mu = gaussian_mu(task.budget.epsilon, task.budget.delta) * n / m
        short = _with_mu(replace(task, n_rows=m), mu)
        try:
            method.check(short)
        except ValueError:
            m = min(2 * m, n)  # too few rows for the method, whatever its noise
            if m == n:
                return _on_tables(method, task, samples, n, repetitions, metric)
            continue
        break
    errors = _on_tables(method, short, samples, m, repetitions, metric)

    quiet = _with_mu(short, _WITHOUT_NOISE * mu)

    def sampling() -> Floats:
        """The mean squared sampling error of m rows: errors without noise, minus the part that does not depend on n."""
        drawn = _on_tables(method, quiet, samples, m, _FLOOR_RUNS, metric)
        return np.array(max(float(np.mean(drawn**2)) - _lasting(method, quiet, samples, metric), 0.0))

    found = samples.kept(("sampling", method.name, m, metric), sampling)
    excess = float(found) * (1 - m / n)
    mean = float(np.mean(errors**2))
    return errors * math.sqrt(max(mean - excess, mean * m / n) / mean)


def _lasting(method: Method, task: Task, samples: Samples, metric: str) -> float:
    """The squared error without sampling error: a method may estimate something else than was asked for.

    A stream sees every row once, so its error on such rows is a sampling error too.
    """
    rng = made_up_generator(task.n_features, 8)
    found = None if isinstance(method, OnePassMethod) else samples.whole(task.n_rows or 1, rng)
    if found is None:
        return 0.0
    table, axes = found
    task = replace(task, n_rows=None if task.n_rows is None else len(table))
    components = run_method(method, ArraySource(table), task, SeededRandomness(rng)).components
    return DIRECTION_METRICS[metric](components, axes[:, : task.n_components].T) ** 2


def _with_mu(task: Task, mu: float) -> Task:
    delta = task.budget.delta
    return replace(task, budget=Budget(gaussian_epsilon(delta, min(mu, _MOST_MU)), delta))


def _on_tables(method: Method, task: Task, samples: Samples, n: int, repetitions: int, metric: str) -> Floats:
    errors = []
    for repetition in range(repetitions):
        rng = made_up_generator(n, repetition, task.n_features, 5)
        table, axes = samples.table(task, n, rng)
        found = run_method(method, ArraySource(table), task, SeededRandomness(rng)).components
        errors.append(DIRECTION_METRICS[metric](found, axes[:, : task.n_components].T))
    return np.array(errors)
