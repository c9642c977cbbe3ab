"""Plans: predicted errors of methods, and the ε or the rows that reach a target. No private data are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any

import numpy as np
from scipy.special import stdtrit

from dpeigen._types import Floats
from dpeigen._validate import check_choice, check_delta, check_epsilon, complain
from dpeigen.methods import METHODS, Method, Task
from dpeigen.methods.auto import explain
from dpeigen.planner.assumptions import Rows
from dpeigen.planner.beside import InTurn
from dpeigen.planner.plans import Plan, Prediction
from dpeigen.planner.problem import Problem, Simulator, planned
from dpeigen.planner.resampled import Resampled
from dpeigen.planner.simulation import (
    DIRECTION_METRICS,
)
from dpeigen.privacy import Spend, best_guess
from dpeigen.privacy.accounting import compose_delta
from dpeigen.stats.rates import subspace_lower_rate

__all__ = [
    "MODELLED",
    "Progress",
    "adversary_success",
    "modelled_method",
    "plan",
    "plan_problem",
]

MODELLED = tuple(name for name, method in METHODS.items() if method.planned and method.basis == "worst-case")
_QUANTILES = (0.05, 0.95)
_MANY = 40  # with at least this many runs, their quantiles are the interval
_PRECISION = 0.035  # relative standard error of a mean error below which more runs are not needed
Progress = Callable[[str], None]


def plan(
    n_rows: int,
    n_features: int,
    n_components: int | None,
    *,
    methods: Iterable[str | Method] | None = None,
    progress: Progress | None = None,
    **facts: Any,
) -> Plan:
    """Predict the errors of the methods that these public facts allow, best first.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    n_features : int
        The number of columns.
    n_components : int or None
        The number of directions wanted; None: the whole covariance.
    methods : list of str or Method, default=None
        None: all with a worst-case guarantee. "spiked", whose guarantee needs assumptions about the rows, must be
        named.
    progress : function of str, default=None
        Called with a method's name before its runs.
    **facts : public facts and assumptions
        ``epsilon``, ``delta``, ``bound``, ``center``, ``relation``: as for `dpeigen.PrivatePCA`. Rows are assumed to be
        distributed about the centre (None, a public one, or the middle of column bounds) and inside column bounds.

        ``spectrum``: None (spiked, ten times the rest), ("spiked", signal), ("power-law", exponent), eigenvalues, a
        public covariance matrix, a `Release`, or `Rows`.

        ``tails``: degrees of freedom of a multivariate t; None for normal rows.

        ``contamination``, ``outlier_length``: the fraction of outliers, and their norm relative to the root mean square
        norm of the other rows.

        ``like``: a table that replaces spectrum, tails and contamination: rows are drawn from it with replacement, and
        errors are relative to its own covariance and directions. An array, a data frame or a file. It must be PUBLIC or
        SYNTHETIC: a plan from private rows would reveal them outside the budget.

        ``metric``: "sin_theta", or "projection_distance" (‖P₁ − P₂‖_F/√(2k)); for a covariance "relative_frobenius"
        (‖Ĉ − C‖_F/‖C‖_F), or "relative_operator".

    Returns
    -------
    Plan
        Predictions; prints as a table.
    """
    problem = Problem.of(n_rows, n_features, n_components, **facts)
    return plan_problem(problem, Simulator(problem), methods, progress=progress)


def plan_problem(
    problem: Problem,
    simulator: Simulator,
    methods: Iterable[str | Method] | None = None,
    *,
    repetitions: int | None = None,
    progress: Progress | None = None,
    pool: Executor | None = None,
) -> Plan:
    """`plan` of a checked problem; its parts may run in a pool."""
    task, refused, pool = problem.task, dict[str, str](), pool or InTurn()
    wanted: list[Method] = []
    for method in map(modelled_method, MODELLED if methods is None else methods):
        try:
            method.check(task)
            if task.n_components is None and not planned(method).covariance:
                raise ValueError(f"method={method.name!r} has no error model for a whole covariance.")
        except ValueError as error:
            refused[method.name] = str(error)
            continue
        wanted.append(method)
    if not wanted:
        raise ValueError(f"No method can do this. {'; '.join(f'{name}: {why}' for name, why in refused.items())}")
    choice, listed = explain(task), len(wanted)
    marked = methods is None and repetitions is None
    if marked and choice.method not in wanted:  # one of the methods, with its own options
        wanted.append(choice.method)
    runs = [min(problem.runs(method), repetitions or problem.repetitions) for method in wanted]
    parts = [pool.submit(_predicted, simulator, task, *part) for part in zip(wanted, runs, strict=True)]
    floor = pool.submit(simulator.floor)
    found = []
    for method, part in zip(wanted, parts, strict=True):
        if progress:
            progress(method.name)
        found.append(part.result())
    return Plan(
        facts=_facts(problem),
        metric=problem.metric,
        predictions=tuple(sorted(found[:listed], key=lambda p: p.error)),
        refused=refused,
        choice=choice,
        floor=floor.result(),
        rate=_rate(problem),
        success=best_guess(task.budget.epsilon, task.budget.delta),
        chosen=found[wanted.index(choice.method)] if marked else None,
    )


def _predicted(simulator: Simulator, task: Task, method: Method, runs: int) -> Prediction:
    errors = simulator.errors(method, task, runs, _PRECISION)
    low, high = _interval(errors, simulator.problem.metric)
    mean, worst = float(np.minimum(errors, high).mean()), float(errors.max())
    success, epsilon = _success(method, task), method.price(task).epsilon
    return Prediction(method.name, mean, low, high, success, epsilon, len(errors), worst, method.assumptions(task))


def modelled_method(method: str | Method) -> Method:
    if isinstance(method, str):
        check_choice("methods", method, list(METHODS), "plan")
        method = METHODS[method]()
    if method.planned is None or method.holds_rows or method.constants != "sharp":
        raise ValueError(complain("methods", "plan", f"among {', '.join(MODELLED)}, sharp", method.name))
    return method


def _interval(errors: Floats, metric: str) -> tuple[float, float]:
    """A 90% prediction interval for a run: quantiles of many runs, or a lognormal prediction from few."""
    if len(errors) >= _MANY:
        low, high = np.quantile(errors, _QUANTILES)
        return float(low), float(high)
    logs = np.log(np.maximum(errors, 1e-12))
    reach = float(stdtrit(len(logs) - 1, _QUANTILES[1])) * logs.std(ddof=1) * math.sqrt(1 + 1 / len(logs))
    low, high = np.exp(logs.mean() - reach), np.exp(logs.mean() + reach)
    return float(low), float(min(high, 1.0) if metric in DIRECTION_METRICS else high)


def _success(method: Method, task: Task) -> float:
    """The success of the best attack for the shares that the method spends, often below that of its (ε, δ)."""
    spent = method.price(task)
    spends = [Spend(purpose.value, "", cost) for purpose, cost in method.shares(task).items()]
    return min(best_guess(spent.epsilon, spent.delta), 0.5 + compose_delta(spends, 0.0) / 2)


def _rate(problem: Problem) -> float | None:
    """The lower bound on sinΘ under the spiked model with constant 1, if the spectrum has a gap."""
    k, values = problem.task.n_components, problem.rows.eigenvalues
    if k is None:
        return None
    rest = float(np.mean(values[k:]))
    signal = float(values[k - 1]) - rest
    if signal <= 0 or problem.metric != "sin_theta":
        return None
    epsilon = problem.task.budget.epsilon
    return subspace_lower_rate(problem.n, len(values), k, signal, rest, epsilon, order=math.inf)


def _facts(problem: Problem) -> dict[str, Any]:
    task, rows = problem.task, problem.rows
    bound = task.bound
    return {
        "n_rows": problem.n,
        "n_features": task.n_features,
        "n_components": task.n_components,
        "epsilon": task.budget.epsilon,
        "delta": task.budget.delta,
        "relation": task.relation.value,
        "bound": "columns" if isinstance(bound, tuple) else bound,
        "center": task.center if task.center is None or isinstance(task.center, str) else "public",
        "eigenvalues": [float(v) for v in rows.eigenvalues],
        **_shape(rows),
    }


def _shape(rows: Rows | Resampled) -> dict[str, Any]:
    if isinstance(rows, Resampled):
        return {"like": rows.n_rows, "tails": None, "contamination": None}
    return {"like": None, "tails": rows.tails, "contamination": rows.contamination}


def adversary_success(epsilon: float, delta: float = 0.0, *, prior: float = 0.5) -> float:
    """Compute the probability with which the best attacker is right about one row.

    It holds for every attack, whatever else the attacker knows; a release's own `best_attack` is often lower.

    Parameters
    ----------
    epsilon : float
        ε > 0.
    delta : float, default=0.0
        δ in [0, 1).
    prior : float, default=0.5
        The attacker's prior probability that the row is in the table.

    Returns
    -------
    float
        A probability; 0.5 is a coin toss.
    """
    check_epsilon(epsilon, "adversary_success")
    return best_guess(epsilon, check_delta(delta, "adversary_success"), prior)
