"""Targets of audits, and how they are made from methods.

A target runs one release, from rows to released numbers, and states its claim. The adversary sees everything in the
release, as a vector of numbers, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.auditing.claims import Claim
from dpeigen.methods import METHODS, Estimate, Method, Task, check_center
from dpeigen.methods.base import run_method
from dpeigen.privacy import Budget, Randomness, Relation
from dpeigen.privacy.randomness import made_up_generator, made_up_randomness
from dpeigen.sources import ArraySource
from dpeigen.sources.units import UnitsByPlace

__all__ = [
    "DELTA",
    "NOISE",
    "SIGNAL",
    "VISITS",
    "Kind",
    "Target",
    "make_task",
    "method_target",
    "model_rows",
    "people_target",
    "shown",
    "whole",
]

DELTA = 1e-6
_SIZES = (40, 120, 240, 600, 1500, 6000, 12_000, 30_000)  # rows: the smallest number that the method accepts
VISITS = 5  # rows of a person
SIGNAL, NOISE = 1.0, 0.1  # of the spiked model, for the claim that assumes it


@dataclass(frozen=True)
class Target:
    """One mechanism with its claim.

    Attributes
    ----------
    name : str
        The mechanism.
    claim : Claim
        The stated guarantee.
    n_rows, n_features : int
        The size of the data sets.
    relation : Relation
        What neighbours are.
    run : function
        Makes one release of a data set and returns its numbers.
    facts : dict
        Public facts that the attack may use.
    model : bool
        Whether the guarantee assumes a model of the rows.
    local : bool
        Whether it is about single reports.
    """

    name: str
    claim: Claim
    n_rows: int
    n_features: int
    relation: Relation
    run: Callable[[Floats, Randomness], Floats]
    facts: dict[str, Any] = field(default_factory=dict)
    model: bool = False  # whether the claim holds for data from a model only
    local: bool = False  # whether a data set is a single row


@dataclass(frozen=True)
class Kind:
    """How a target is made."""

    make: Callable[[str, float, Kind], Target]
    method: str | Method = ""
    delta: float = DELTA
    d: int = 2
    options: dict[str, Any] = field(default_factory=dict)
    cost: int = 1  # the time of one release, in releases of a plain method


def shown(estimate: Estimate, task: Task) -> Floats:
    """Everything in a release, as numbers of moderate size: a bijection, so that nothing is lost or added."""
    upper = np.triu_indices(task.n_features)
    projector = estimate.components.T @ estimate.components
    parts = [estimate.covariance[upper], projector[upper], estimate.eigenvalues[:2], [estimate.noise_variance]]
    if estimate.mean is not None and task.private_center:
        parts.append(estimate.mean)
    if task.relation is Relation.ADD_REMOVE and estimate.n_rows is not None:
        parts.append([estimate.n_rows])
    if task.private_bound and estimate.radius is not None:
        parts.append([math.log(estimate.radius)])
    parts.append([v for _, v in sorted(estimate.details.items()) if isinstance(v, (int, float))])
    if "noisy_eigenvalues" in estimate.details:
        parts.append(estimate.details["noisy_eigenvalues"])
    return np.arcsinh(np.concatenate([np.ravel(np.asarray(p, dtype=np.float64)) for p in parts]))


# --- whole methods ------------------------------------------------------------------------------------------------


def make_task(d: int, n: int, budget: Budget, **options: Any) -> Task:
    """A task with the public facts of an audit: unit ball, no centre, replacement, unless options say otherwise."""
    relation = options.pop("relation", Relation.REPLACE)
    given = {
        "n_components": 1,
        "bound": 1.0,
        "center": None,
        "shrink": False,
        "n_rows": n if relation is Relation.REPLACE else None,
    } | options
    given["center"] = check_center(given["center"], d, "audit")
    return Task(owner="audit", n_features=d, budget=budget, relation=relation, **given)


def method_target(name: str, method: Method, budget: Budget, d: int, **options: Any) -> Target:
    """A target from a method, with the smallest number of rows that the method accepts."""
    for n in _SIZES:
        task = make_task(d, n, budget, **options)
        try:
            method.check(task)
            break
        except ValueError:
            if n == _SIZES[-1]:
                raise
    price = method.price(task)
    sample = run_method(method, ArraySource(model_rows(n, d)), task, made_up_randomness())

    def run(rows: Floats, rng: Randomness) -> Floats:
        own = task if task.n_rows is None else replace(task, n_rows=len(rows))
        return shown(run_method(method, ArraySource(rows), own, rng), own)

    claim = Claim(price, sample.split)
    facts: dict[str, Any] = {"bound": str(task.bound), "center": str(options.get("center"))}
    facts["bad rows"] = task.missing != "refuse"
    return Target(name, claim, n, d, task.relation, run, facts, model=method.basis == "distributional")


def people_target(name: str, epsilon: float, kind: Kind, source: type[UnitsByPlace] = UnitsByPlace) -> Target:
    """A method on people with several rows: neighbours differ in all rows of one of them."""
    method = kind.method if isinstance(kind.method, Method) else METHODS[kind.method]()
    target = method_target(name, method, Budget(epsilon, kind.delta), kind.d)
    most = kind.options.get("max_rows")

    def run(rows: Floats, rng: Randomness) -> Floats:
        task = make_task(kind.d, len(rows), Budget(epsilon, kind.delta), unit="person", max_rows=most)
        whose = np.repeat(np.arange(len(rows)), VISITS)
        people = source(ArraySource(rows[whose]), lambda: (whose, len(rows)), "person")
        people.max_rows = most
        return shown(run_method(method, people, task, rng), task)

    return replace(target, run=run)


def model_rows(n: int, d: int, seed: int = 0) -> Floats:
    """Rows of the spiked model that the distributional claim assumes."""
    rng = made_up_generator(seed)
    deviations = np.sqrt([SIGNAL + NOISE, *[NOISE] * (d - 1)])
    return rng.standard_normal((n, d)) * deviations


def whole(name: str, epsilon: float, kind: Kind) -> Target:
    """A method from rows to everything that it releases."""
    method = kind.method if isinstance(kind.method, Method) else METHODS[kind.method]()
    return method_target(name, method, Budget(epsilon, kind.delta), kind.d, **kind.options)
