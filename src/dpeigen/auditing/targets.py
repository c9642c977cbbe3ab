"""The mechanisms under audit: every method, the steps that pay for a radius, centre, rank, and local reports."""

from __future__ import annotations

import math
import warnings
from functools import cache

import numpy as np

from dpeigen._types import Floats
from dpeigen.auditing.claims import Claim
from dpeigen.auditing.further import (
    estimator_target,
    map_target,
    mean_target,
    ridge_target,
    shuffled_target,
    top_eigenvalue_target,
)
from dpeigen.auditing.making import (
    DELTA,
    NOISE,
    SIGNAL,
    Kind,
    Target,
    make_task,
    method_target,
    model_rows,
    people_target,
    shown,
    whole,
)
from dpeigen.curator import DataCurator, Purpose
from dpeigen.local.client import LocalRandomizer
from dpeigen.methods import (
    METHODS,
    EigenvectorSampling,
    Gaussian,
    Geodesic,
    KapralovTalwar,
    Kendall,
    Laplace,
    PrivateRank,
    Spiked,
)
from dpeigen.methods.location import ask_center, center_integers, center_shares
from dpeigen.privacy import Budget, Cost, GaussianCost, PureCost, Randomness, Relation, Spend, allocate, gaussian_mu
from dpeigen.privacy.sphere import sample_orthonormal
from dpeigen.questions import RadiusHolding
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame, Lattice, SecondMoment
from dpeigen.stats.lattice import LEVELS

# --- steps --------------------------------------------------------------------------------------------------------


def _radius(name: str, epsilon: float, kind: Kind) -> Target:
    relation = kind.options.get("relation", Relation.REPLACE)
    cost = PureCost(epsilon)

    def run(rows: Floats, rng: Randomness) -> Floats:
        shares = {Purpose.RADIUS: cost}
        curator = DataCurator(ArraySource(rows), relation, shares, Budget(epsilon), rng)
        found = curator.measure(RadiusHolding(Frame(kind.d)), purpose=Purpose.RADIUS, cost=cost)
        return np.array([math.log(found)])

    return Target(name, Claim(Budget(epsilon), (Spend("radius", "", cost),)), 40, kind.d, relation, run)


def _center_target(name: str, epsilon: float, kind: Kind) -> Target:
    budget = Budget(epsilon, kind.delta)
    bound = kind.options.get("bound", "private")
    task = make_task(kind.d, 40, budget, bound=bound, center="private")
    pure, main = center_shares(task)
    costs: dict[Purpose, Cost] = allocate(budget, pure=pure, main=main, coordinates=center_integers(kind.d))
    radius = None if isinstance(bound, str) else float(bound)

    def run(rows: Floats, rng: Randomness) -> Floats:
        curator = DataCurator(ArraySource(rows), Relation.REPLACE, costs, budget, rng)
        return np.arcsinh(ask_center(curator, Frame(kind.d), radius, costs, task)[0])

    spends = tuple(Spend(purpose.value, "", cost) for purpose, cost in costs.items())
    return Target(name, Claim(budget, spends), 40, kind.d, Relation.REPLACE, run)


def _direction(name: str, epsilon: float, kind: Kind) -> Target:
    task = make_task(kind.d, 40, Budget(epsilon))
    concentration = epsilon * EigenvectorSampling().concentration(task)

    def run(rows: Floats, rng: Randomness) -> Floats:
        gram = ArraySource(rows).reduce(SecondMoment(Lattice(Frame(kind.d), 1.0))).gram
        drawn = sample_orthonormal(gram.astype(np.float64) / LEVELS**2, np.array([concentration]), rng)[0]
        return np.outer(drawn, drawn)[np.triu_indices(kind.d)]

    return Target(name, Claim(Budget(epsilon), (Spend("draw", "", PureCost(epsilon)),)), 40, kind.d, task.relation, run)


# --- local reports ------------------------------------------------------------------------------------------------


def _local(name: str, epsilon: float, kind: Kind) -> Target:
    from dpeigen.local.server import LocalAggregator

    budget = Budget(epsilon, kind.delta)
    made = LocalRandomizer(kind.d, epsilon=epsilon, delta=kind.delta, seeded_test=True, **kind.options)
    server = LocalAggregator(made)

    def run(rows: Floats, rng: Randomness) -> Floats:
        if rng.seeded:
            made._rng = rng
        return server.read(made.report(rows[-1])).steps.astype(np.float64)

    # The μ of the Gaussian report is that of its (ε, δ), including discrete noise.
    cost: Cost = GaussianCost(gaussian_mu(epsilon, kind.delta)) if kind.delta else PureCost(epsilon)
    return Target(
        name, Claim(budget, (Spend("report", "", cost),)), 1, kind.d, Relation.REPLACE, run, local=True
    )  # fmt: skip


# --- the list -----------------------------------------------------------------------------------------------------

_APART = {"relation": Relation.ADD_REMOVE}
TARGETS: dict[str, Kind] = {
    "gaussian": Kind(whole, "gaussian"),
    "gaussian, one column": Kind(whole, "gaussian", d=1),
    "gaussian, add/remove": Kind(whole, "gaussian", options=_APART),
    "gaussian, private centre": Kind(whole, "gaussian", options={"center": "private"}),
    "gaussian, column bounds": Kind(whole, "gaussian", options={"bound": (np.full(2, -1.0), np.full(2, 1.0))}),
    "gaussian, private bound": Kind(whole, "gaussian", options={"bound": "private"}, cost=10),
    "gaussian, pairs": Kind(whole, "gaussian", options={"center": "pairs"}),
    "gaussian, bad rows": Kind(whole, "gaussian", options={"missing": "drop"}),
    "gaussian, missing cells": Kind(whole, "gaussian", options={"missing": "correct"}),
    "gaussian, as printed": Kind(whole, Gaussian(constants="published")),
    "gaussian, private rank": Kind(whole, PrivateRank(Gaussian()), options={"private_rank": True}, cost=2),
    "laplace": Kind(whole, "laplace", 0.0),
    "laplace, one column": Kind(whole, "laplace", 0.0, d=1),
    "laplace, add/remove": Kind(whole, "laplace", 0.0, options=_APART),
    "laplace, as printed": Kind(whole, Laplace(constants="published"), 0.0),
    "matrix-laplace": Kind(whole, "matrix-laplace", 0.0),
    "matrix-laplace, one column": Kind(whole, "matrix-laplace", 0.0, d=1),
    "matrix-laplace, add/remove": Kind(whole, "matrix-laplace", 0.0, options=_APART),
    "spatial-sign": Kind(whole, "spatial-sign"),
    "spatial-sign, pure": Kind(whole, "spatial-sign", 0.0),
    "spatial-sign, add/remove": Kind(whole, "spatial-sign", options=_APART),
    "spatial-sign, no bound": Kind(whole, "spatial-sign", options={"bound": None, "center": "private"}, cost=30),
    "eigenvector-sampling": Kind(whole, "eigenvector-sampling", 0.0, d=4, options={"n_components": 2}, cost=2),
    "eigenvector-sampling, add/remove": Kind(whole, "eigenvector-sampling", 0.0, options=_APART, cost=2),
    "eigenvector-sampling, approximate": Kind(whole, "eigenvector-sampling", d=4, options={"n_components": 2}, cost=2),
    "eigenvector-sampling, as printed": Kind(whole, EigenvectorSampling(constants="published"), 0.0, d=4, cost=2),
    "kapralov-talwar": Kind(whole, "kapralov-talwar", 0.0, d=4, cost=2),
    "kapralov-talwar, as printed": Kind(whole, KapralovTalwar(constants="published"), 0.0, d=4, cost=2),
    "kendall": Kind(whole, "kendall", options={"bound": None}, cost=3),
    "kendall, pure": Kind(whole, "kendall", 0.0, options={"bound": None}, cost=3),
    "kendall, all paid": Kind(
        whole,
        Kendall(design="all", variances="paid", location="paid"),
        options={"bound": None, "center": "private"},
        cost=80,
    ),
    "kendall, circulant": Kind(whole, Kendall(design=2), options={"bound": None}, cost=3),
    "kendall, winsorised": Kind(
        whole, Kendall(transform="winsorized", radius="private"), options={"bound": None}, cost=70
    ),
    "kendall, as printed": Kind(whole, Kendall(constants="published"), options={"bound": None}, cost=3),
    "geodesic": Kind(whole, "geodesic", options={"bound": None}, cost=6),
    "geodesic, as printed": Kind(whole, Geodesic(constants="published"), options={"bound": None}, cost=60),
    "spiked": Kind(whole, Spiked(signal=SIGNAL, noise_variance=NOISE), options={"bound": None}, cost=30),
    "refined": Kind(whole, "refined", options={"bound": None}, cost=60),
    "refined, add/remove": Kind(whole, "refined", options={"bound": None} | _APART, cost=30),
    "whitened": Kind(whole, "whitened", options={"bound": None}, cost=30),
    "whitened, pure": Kind(whole, "whitened", 0.0, options={"bound": None}, cost=30),
    "people": Kind(people_target, "gaussian", cost=2),
    "people, capped": Kind(people_target, "spatial-sign", options={"max_rows": 2}, cost=6),
    "oja": Kind(whole, "oja", cost=5),
    "dp-pca": Kind(whole, "dp-pca", options={"bound": None}, cost=400),
    "radius": Kind(_radius, delta=0.0, cost=8),
    "radius, add/remove": Kind(_radius, delta=0.0, options=_APART, cost=5),
    "centre": Kind(_center_target, options={"bound": 1.0}),
    "centre, pure": Kind(_center_target, delta=0.0, options={"bound": 1.0}),
    "centre, no bound": Kind(_center_target, cost=12),
    "direction": Kind(_direction, delta=0.0, d=5),
    "mean": Kind(mean_target, cost=6),
    "top eigenvalue": Kind(top_eigenvalue_target),
    "score map": Kind(map_target, delta=0.0),
    "score map, classes": Kind(map_target, delta=0.0, options={"classes": True}),
    "score map, add/remove": Kind(map_target, delta=0.0, options={"classes": True} | _APART),
    "PrivatePCA": Kind(estimator_target, cost=60),
    "PrivatePCA, pure": Kind(estimator_target, delta=0.0, cost=10),
    "PrivatePCA, bad rows": Kind(estimator_target, options={"missing": "drop"}, cost=60),
    "PrivateRidge": Kind(ridge_target, cost=4),
    "local gaussian": Kind(_local),
    "local privunit": Kind(_local, delta=0.0),
    "local privunit, three columns": Kind(_local, delta=0.0, d=3, options={"rows": "scale"}),
    "shuffled privunit": Kind(shuffled_target, cost=30),
}
TARGETS |= {name: Kind(whole, name) for name in METHODS if name not in TARGETS}  # in the unit ball, about 0


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


__all__ = [
    "DELTA",
    "TARGETS",
    "Kind",
    "Target",
    "find_target",
    "make_task",
    "method_target",
    "model_rows",
    "select",
    "shown",
]
