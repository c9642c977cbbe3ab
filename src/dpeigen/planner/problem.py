"""The checked problem of a plan, and runs of methods on it. No private data are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_count, check_delta, check_epsilon, complain
from dpeigen.methods import Method, OnePassMethod, Task, check_bound, check_center
from dpeigen.methods.outline import Planned
from dpeigen.planner.assumptions import Rows, assumed_rows
from dpeigen.planner.resampled import Resampled, TableSamples
from dpeigen.planner.samples import EllipticalSamples, Samples
from dpeigen.planner.simulation import (
    COVARIANCE_METRICS,
    DIRECTION_METRICS,
    Found,
    by_columns,
    floor_errors,
    simulated_errors,
    simulated_runs,
)
from dpeigen.planner.tables import table_errors
from dpeigen.privacy import Budget, Relation
from dpeigen.stats.threads import single_blas

__all__ = ["Problem", "Simulator", "planned"]

_RUNS = 80, 40, 16  # the most runs, by columns
_SMALL = 200_000  # numbers up to which even slow methods are fast
_FEWEST, _FLOOR_RUNS = 5, 8


@dataclass(frozen=True)
class Problem:
    """Public facts and assumptions, checked."""

    task: Task
    rows: Rows | Resampled
    n: int
    metric: str

    @classmethod
    def of(
        cls,
        n_rows: int,
        n_features: int,
        n_components: int | None,
        *,
        epsilon: float,
        delta: float = 0.0,
        bound: Any = None,
        center: Any = "private",
        relation: str = "replace",
        spectrum: Any = None,
        tails: float | None = None,
        contamination: float = 0.0,
        outlier_length: float = 10.0,
        like: Any = None,
        metric: str | None = None,
    ) -> Problem:
        n = check_count("n_rows", n_rows, "plan", low=2)
        d = check_count("n_features", n_features, "plan", low=2)
        k = None if n_components is None else check_count("n_components", n_components, "plan", high=d - 1)
        metrics = list(COVARIANCE_METRICS if k is None else DIRECTION_METRICS)
        metric = check_choice("metric", metrics[0] if metric is None else metric, metrics, "plan")
        related = Relation.parse(relation, "plan")
        if isinstance(bound, tuple):
            bound = tuple(np.broadcast_to(np.asarray(side, dtype=float), (d,)) for side in bound)
        task = Task(
            owner="plan",
            n_features=d,
            n_components=k,
            budget=Budget(check_epsilon(epsilon, "plan"), check_delta(delta, "plan")),
            relation=related,
            bound=check_bound(bound, d, "plan"),
            center=check_center(center, d, "plan"),
            n_rows=n if related is Relation.REPLACE else None,
        )
        options = {"tails": tails, "contamination": contamination, "outlier_length": outlier_length}
        if like is None:
            rows: Rows | Resampled = assumed_rows(spectrum, d, 1 if k is None else k, **options)
        elif spectrum is not None or tails is not None or contamination:
            must = "given without spectrum, tails and contamination: a table has its own"
            raise ValueError(complain("like", "plan", must, "both"))
        else:
            rows = Resampled.of(like, task)
        if k is None and not np.isfinite(rows.covariance).all():
            raise AssertionError("`Rows` has refused tails without a covariance")
        return cls(task, rows, n, metric)

    def samples(self, seed: int) -> Samples:
        """The samples that are simulated."""
        if isinstance(self.rows, Resampled):
            return TableSamples(self.rows, self.n, seed)
        return EllipticalSamples(self.rows, self.task, self.n, seed)

    def at(self, epsilon: float) -> Problem:
        return replace(self, task=replace(self.task, budget=Budget(epsilon, self.task.budget.delta)))

    def with_rows(self, n: int) -> Problem:
        return replace(self, n=n, task=replace(self.task, n_rows=None if self.task.n_rows is None else n))

    @property
    def repetitions(self) -> int:
        """The number of runs: more if runs are fast and vary more."""
        return by_columns(_RUNS, self.task.n_features)

    def runs(self, method: Method) -> int:
        """The number of runs of a method: fewer if it is slow."""
        slow = planned(method).slow
        return max(_FEWEST, self.repetitions // (min(slow, 6) if self.n * self.task.n_features <= _SMALL else slow))


class Simulator:
    """Runs of methods on one problem; caches what runs at different ε have in common."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self.problem, self._samples = problem, problem.samples(seed)

    def errors(self, method: Method, task: Task, repetitions: int, precision: float = 0.0) -> Floats:
        """Errors in this many runs, or in as many as give their mean the relative precision."""
        metric, samples = self.problem.metric, self._samples
        with single_blas():  # the matrices are small: a second thread costs more than it saves
            apart = isinstance(method, OnePassMethod) and not samples.in_batches
            if planned(method).drawn or apart:
                return table_errors(method, task, samples, repetitions, metric)
            return simulated_errors(method, task, samples, repetitions, metric, precision)

    def found(self, method: Method, task: Task, repetitions: int) -> list[Found]:
        """What runs would release: directions and, if paid for, variances and a centre."""
        return list(simulated_runs(method, task, self._samples, repetitions))

    def distance(self, directions: Floats) -> float:
        """The distance of directions from the true ones."""
        k = self.problem.task.n_components
        return DIRECTION_METRICS["sin_theta"](directions, np.eye(self.problem.task.n_features)[:k])

    def floor(self) -> float:
        return float(np.mean(floor_errors(self._samples, self.problem.task, _FLOOR_RUNS, self.problem.metric)))


def planned(method: Method) -> Planned:
    """How plans run a method that `modelled_method` accepted, or that "auto" chose."""
    return method.planned or Planned()
