"""The mechanisms under audit: every method, the local randomisers, and the steps that pay for a radius, centre, rank.

A target runs one release, from rows to released numbers, and says what it claims. What an adversary looks at is
everything that the release shows, as a vector of numbers; nothing else.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.auditing.claims import Claim
from dpeigen.local.client import LocalRandomizer
from dpeigen.methods import (
    METHODS,
    EigenvectorSampling,
    Estimate,
    Gaussian,
    Method,
    PrivateRank,
    Spiked,
    Task,
    check_center,
)
from dpeigen.methods.location import center_shares, private_center
from dpeigen.methods.radius import private_radius
from dpeigen.privacy import Budget, Cost, GaussianCost, PureCost, Randomness, Relation, Spend, allocate, gaussian_mu
from dpeigen.privacy.randomness import made_up_generator, made_up_randomness
from dpeigen.privacy.sphere import sample_orthonormal
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame, Lattice, SecondMoment
from dpeigen.stats.lattice import LEVELS

Floats = NDArray[np.float64]
DELTA = 1e-6
_SIZES = (40, 120, 240, 600, 1500, 6000, 12_000, 30_000)  # rows: as few as the method agrees to
_SIGNAL, _NOISE = 1.0, 0.1  # of the spiked model, whose claim is about data from it


@dataclass(frozen=True)
class Target:
    """One mechanism with its claim. ``run`` makes one release of a data set and returns what it shows."""

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
class _Kind:
    """How a target is made."""

    make: Callable[[str, float, _Kind], Target]
    method: str = ""
    delta: float = DELTA
    d: int = 2
    options: dict[str, Any] = field(default_factory=dict)
    cost: int = 1  # how many releases of a plain method one release takes the time of


def shown(estimate: Estimate, task: Task) -> Floats:
    """Everything that a release shows, as numbers of moderate size: a bijection, so that nothing is lost or added."""
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
    """A task with the public facts of an audit: unit ball, no centre, replacement, unless told otherwise."""
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
    """A target from a method, with as few rows as the method agrees to."""
    for n in _SIZES:
        task = make_task(d, n, budget, **options)
        try:
            method.check(task)
            break
        except ValueError:
            if n == _SIZES[-1]:
                raise
    stated = _fixed_shares(method, task)
    price = method.price(task)
    sample = stated.estimate(ArraySource(model_rows(n, d)), task, _rehearsal())

    def run(rows: Floats, rng: Randomness) -> Floats:
        own = task if task.n_rows is None else replace(task, n_rows=len(rows))
        return shown(stated.estimate(ArraySource(rows), own, rng), own)

    claim = Claim(price, sample.split)
    facts = {"bound": str(task.bound), "center": str(options.get("center"))}
    return Target(name, claim, n, d, task.relation, run, facts, model=method.basis == "distributional")


def _fixed_shares(method: Method, task: Task) -> Method:
    """The same method with its split computed once: it is public and the same in every run."""
    if not hasattr(method, "shares"):
        return method
    costs = method.shares(task)
    kind = type(method)
    fixed = type(kind.__name__, (kind,), {"shares": lambda self, task: costs})  # noqa: ARG005
    copy: Method = object.__new__(fixed)
    copy.__dict__.update(vars(method))
    return copy


def _rehearsal() -> Randomness:
    return made_up_randomness()


def model_rows(n: int, d: int, seed: int = 0) -> Floats:
    """Rows of the spiked model that the distributional claim is about."""
    rng = made_up_generator(seed)
    deviations = np.sqrt([_SIGNAL + _NOISE, *[_NOISE] * (d - 1)])
    return rng.standard_normal((n, d)) * deviations


def _whole(name: str, epsilon: float, kind: _Kind) -> Target:
    method: Method = (
        Spiked(signal=_SIGNAL, noise_variance=_NOISE) if kind.method == "spiked" else METHODS[kind.method]()
    )
    options = dict(kind.options)
    if kind.method == "spiked":
        options["bound"] = None
    if options.pop("rank", False):
        method, options = PrivateRank(Gaussian()), options | {"private_rank": True}
    budget = Budget(epsilon, kind.delta)
    return method_target(name, method, budget, kind.d, **options)


# --- steps --------------------------------------------------------------------------------------------------------


def _radius(name: str, epsilon: float, kind: _Kind) -> Target:
    relation = kind.options.get("relation", Relation.REPLACE)
    cost = PureCost(epsilon)

    def run(rows: Floats, rng: Randomness) -> Floats:
        found = private_radius(ArraySource(rows), Frame(kind.d), cost, relation, rng)
        return np.array([math.log(found)])

    return Target(name, Claim(Budget(epsilon), (Spend("radius", "", cost),)), 40, kind.d, relation, run)


def _centre(name: str, epsilon: float, kind: _Kind) -> Target:
    budget = Budget(epsilon, kind.delta)
    bound = kind.options.get("bound", "private")
    task = make_task(kind.d, 40, budget, bound=bound, center="private")
    pure, main = center_shares(task)
    costs: dict[str, Cost] = allocate(budget, pure=pure, main=main, coordinates=4 * kind.d)
    radius = None if isinstance(bound, str) else float(bound)

    def run(rows: Floats, rng: Randomness) -> Floats:
        found, _ = private_center(ArraySource(rows), Frame(kind.d), radius, costs, Relation.REPLACE, rng)
        return np.arcsinh(found)

    spends = tuple(Spend(purpose, "", cost) for purpose, cost in costs.items())
    return Target(name, Claim(budget, spends), 40, kind.d, Relation.REPLACE, run)


def _direction(name: str, epsilon: float, kind: _Kind) -> Target:
    task = make_task(kind.d, 40, Budget(epsilon))
    concentration = epsilon * EigenvectorSampling().concentration(task)

    def run(rows: Floats, rng: Randomness) -> Floats:
        gram = ArraySource(rows).reduce(SecondMoment(Lattice(Frame(kind.d), 1.0))).gram
        drawn = sample_orthonormal(gram.astype(np.float64) / LEVELS**2, np.array([concentration]), rng)[0]
        return np.outer(drawn, drawn)[np.triu_indices(kind.d)]

    return Target(name, Claim(Budget(epsilon), (Spend("draw", "", PureCost(epsilon)),)), 40, kind.d, task.relation, run)


# --- local reports ------------------------------------------------------------------------------------------------


def _local(name: str, epsilon: float, kind: _Kind) -> Target:
    from dpeigen.local.server import LocalAggregator

    budget = Budget(epsilon, kind.delta)
    made = LocalRandomizer(kind.d, epsilon=epsilon, delta=kind.delta, **kind.options)
    server = LocalAggregator(made)

    def run(rows: Floats, rng: Randomness) -> Floats:
        if rng.seeded:
            made._rng = rng
        return server.read(made.report(rows[-1])).steps.astype(np.float64)

    # The μ of the Gaussian report is the one of its (ε, δ), discrete noise included.
    cost: Cost = GaussianCost(gaussian_mu(epsilon, kind.delta)) if kind.delta else PureCost(epsilon)
    return Target(
        name, Claim(budget, (Spend("report", "", cost),)), 1, kind.d, Relation.REPLACE, run, local=True
    )  # fmt: skip


# --- the list -----------------------------------------------------------------------------------------------------

_APART = {"relation": Relation.ADD_REMOVE}
TARGETS: dict[str, _Kind] = {
    "gaussian": _Kind(_whole, "gaussian"),
    "gaussian, one column": _Kind(_whole, "gaussian", d=1),
    "gaussian, add/remove": _Kind(_whole, "gaussian", options=_APART),
    "gaussian, private centre": _Kind(_whole, "gaussian", options={"center": "private"}),
    "gaussian, column bounds": _Kind(_whole, "gaussian", options={"bound": (np.full(2, -1.0), np.full(2, 1.0))}),
    "gaussian, private bound": _Kind(_whole, "gaussian", options={"bound": "private"}, cost=4),
    "gaussian, private rank": _Kind(_whole, "gaussian", options={"rank": True}, cost=40),
    "laplace": _Kind(_whole, "laplace", 0.0),
    "laplace, one column": _Kind(_whole, "laplace", 0.0, d=1),
    "laplace, add/remove": _Kind(_whole, "laplace", 0.0, options=_APART),
    "matrix-laplace": _Kind(_whole, "matrix-laplace", 0.0),
    "matrix-laplace, one column": _Kind(_whole, "matrix-laplace", 0.0, d=1),
    "matrix-laplace, add/remove": _Kind(_whole, "matrix-laplace", 0.0, options=_APART),
    "spatial-sign": _Kind(_whole, "spatial-sign"),
    "spatial-sign, pure": _Kind(_whole, "spatial-sign", 0.0),
    "spatial-sign, add/remove": _Kind(_whole, "spatial-sign", options=_APART),
    "spatial-sign, no bound": _Kind(_whole, "spatial-sign", options={"bound": None, "center": "private"}, cost=4),
    "eigenvector-sampling": _Kind(_whole, "eigenvector-sampling", 0.0, d=4, options={"n_components": 2}),
    "eigenvector-sampling, add/remove": _Kind(_whole, "eigenvector-sampling", 0.0, options=_APART),
    "kapralov-talwar": _Kind(_whole, "kapralov-talwar", 0.0, d=4, cost=2),
    "kendall": _Kind(_whole, "kendall", options={"bound": None}, cost=2),
    "kendall, pure": _Kind(_whole, "kendall", 0.0, options={"bound": None}, cost=2),
    "geodesic": _Kind(_whole, "geodesic", options={"bound": None}, cost=3),
    "spiked": _Kind(_whole, "spiked", cost=4),
    "refined": _Kind(_whole, "refined", options={"bound": None}, cost=8),
    "whitened": _Kind(_whole, "whitened", options={"bound": None}, cost=8),
    "oja": _Kind(_whole, "oja", cost=3),
    "dp-pca": _Kind(_whole, "dp-pca", options={"bound": None}, cost=40),
    "radius": _Kind(_radius, delta=0.0),
    "radius, add/remove": _Kind(_radius, delta=0.0, options=_APART),
    "centre": _Kind(_centre, options={"bound": 1.0}),
    "centre, pure": _Kind(_centre, delta=0.0, options={"bound": 1.0}),
    "centre, no bound": _Kind(_centre, cost=4),
    "direction": _Kind(_direction, delta=0.0, d=5),
    "local gaussian": _Kind(_local),
    "local privunit": _Kind(_local, delta=0.0),
    "local privunit, three columns": _Kind(_local, delta=0.0, d=3, options={"rows": "scale"}),
}


@cache
def find_target(name: str, epsilon: float) -> Target:
    """A target, or a planted fault, by its name."""
    from dpeigen.auditing.faults import FAULTS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name in FAULTS:
            return FAULTS[name].make(epsilon)
        return TARGETS[name].make(name, epsilon, TARGETS[name])


def select(words: list[str]) -> list[str]:
    """Names of targets: exact ones, or all that begin with a word ("gaussian" and its variants); none: all."""
    if not words:
        return list(TARGETS)
    chosen: list[str] = []
    for word in words:
        found = [name for name in TARGETS if name == word or name.startswith(f"{word},")]
        if not found:
            known = ", ".join(dict.fromkeys(name.split(",")[0] for name in TARGETS))
            raise ValueError(f"There is no mechanism {word!r} to audit. There are: {known}.")
        chosen += [name for name in found if name not in chosen]
    return chosen
