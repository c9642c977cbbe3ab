"""Further targets: the score map, a mean and a scale without bounds, shuffled reports, and whole estimators.

The estimators are audited from the user's call to the saved release, with the choice of "auto", the public scale of the
target of a regression, and rows that are not numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpeigen._types import Floats
from dpeigen.auditing.claims import Claim
from dpeigen.auditing.making import Kind, Target
from dpeigen.estimators import PrivatePCA, PrivateRidge
from dpeigen.local.client import LocalRandomizer
from dpeigen.methods.one_pass.mean import MeanShares, mean_of, vectors_needed
from dpeigen.methods.one_pass.spread import groups_needed, top_eigenvalue
from dpeigen.methods.score_map import MapTask, run_map
from dpeigen.privacy import ApproximateCost, Budget, PureCost, Randomness, Relation, Spend, shuffled_epsilon
from dpeigen.privacy.ledger.requirement import made_up_rows
from dpeigen.privacy.randomness import made_up_randomness
from dpeigen.release import Release
from dpeigen.sources import ArraySource
from dpeigen.sources.memory import Batch
from dpeigen.stats import Frame
from dpeigen.stats.cells import PlaneView

__all__ = ["estimator_target", "map_target", "mean_target", "ridge_target", "shuffled_target", "top_eigenvalue_target"]

_MAPPED_ROWS, _CELLS = 40, 2
_CLIENTS, _SHUFFLED_DELTA = 60, 0.01


def map_target(name: str, epsilon: float, kind: Kind) -> Target:
    """Counts of four cells; with classes (a row e₁ or e₂ belongs to one) also their weights and sums."""
    relation = kind.options.get("relation", Relation.REPLACE)
    classes = (0, 1) if kind.options.get("classes") else ()
    view = PlaneView(Frame(2), np.eye(2), np.array([[-1.0, 1.0], [-1.0, 1.0]]), np.ones(2), (0, 1), classes)
    task = MapTask(epsilon, relation, view, bool(classes), _CELLS, 0.5)
    task.check()

    def run(rows: Floats, rng: Randomness) -> Floats:
        found = run_map(ArraySource(rows), task, rng)
        count = [found.n_rows] if relation is Relation.ADD_REMOVE else []
        return np.concatenate([found.counts.ravel(), found.class_counts, found.class_sums.ravel(), count])

    return Target(name, Claim(Budget(epsilon), task.spends()), _MAPPED_ROWS, 2, relation, run)


def mean_target(name: str, epsilon: float, kind: Kind) -> Target:
    """A mean of rows without a bound, the scale being public."""
    budget = Budget(epsilon, kind.delta)
    n = vectors_needed(budget, kind.d)
    shares = MeanShares.of(budget, n, kind.d)

    def run(rows: Floats, rng: Randomness) -> Floats:
        found = mean_of(Batch(rows, in_random_order=True), 1.0, shares, rng)
        return np.arcsinh(np.array([*found.mean, found.radius, found.deviation]))

    return Target(name, Claim(budget, shares.spends()), n, kind.d, Relation.REPLACE, run)


def top_eigenvalue_target(name: str, epsilon: float, kind: Kind) -> Target:
    """A scale without a bound; the answer may be that nothing can be distinguished from noise."""
    budget = Budget(epsilon, kind.delta)
    n = 4 * groups_needed(budget)

    def run(rows: Floats, rng: Randomness) -> Floats:
        found = top_eigenvalue(Batch(rows, in_random_order=True), budget, rng)
        return np.array([found is None, found == 0.0, math.log(found) if found else 0.0], dtype=np.float64)

    spends = (Spend("labels", "", ApproximateCost(epsilon, kind.delta)),)
    return Target(name, Claim(budget, spends), n, kind.d, Relation.REPLACE, run)


def shuffled_target(name: str, epsilon: float, kind: Kind) -> Target:
    """Reports in a random order, observed as sums and counts; ε is that of a report, the claim is the shuffled one."""
    from dpeigen.local.server import LocalAggregator

    made = LocalRandomizer(kind.d, epsilon=epsilon, delta=0.0, seeded_test=True)
    server = LocalAggregator(made)
    budget = Budget(shuffled_epsilon(PureCost(epsilon), _CLIENTS, _SHUFFLED_DELTA), _SHUFFLED_DELTA)

    def run(rows: Floats, rng: Randomness) -> Floats:
        if rng.seeded:
            made._rng = rng
        steps = np.array([server.read(made.report(row)).steps for row in rows], dtype=np.float64)
        return np.concatenate([steps.sum(axis=0), (steps > 0).sum(axis=0)])

    spends = (Spend("shuffled reports", "", ApproximateCost(budget.epsilon, budget.delta)),)
    return Target(name, Claim(budget, spends), _CLIENTS, kind.d, Relation.REPLACE, run)


def _numbers(release: Release) -> Floats:
    upper = np.triu_indices(release.covariance.shape[0])
    projector = release.components.T @ release.components
    mean = np.empty(0) if release.mean is None else release.mean
    return np.arcsinh(np.concatenate([release.covariance[upper], projector[upper], release.eigenvalues, mean]))


def estimator_target(name: str, epsilon: float, kind: Kind) -> Target:
    """`PrivatePCA` as a user calls it."""
    given: dict[str, Any] = {"bound": 1.0, "center": "private", "method": "auto"} | kind.options
    spoiled = given.get("missing", "refuse") != "refuse"

    def fit(rows: Floats, rng: Randomness) -> Release:
        model = PrivatePCA(1, epsilon=epsilon, delta=kind.delta, random_state=rng, **given)
        with made_up_rows():
            return model.fit(rows).release_

    n = 120
    sample = fit(np.eye(kind.d)[np.arange(n) % kind.d], made_up_randomness()).guarantee
    claim = Claim(Budget(sample.epsilon, sample.delta), tuple(sample.split))
    return Target(
        name, claim, n, kind.d, Relation.REPLACE, lambda rows, rng: _numbers(fit(rows, rng)), {"bad rows": spoiled}
    )


def ridge_target(name: str, epsilon: float, kind: Kind) -> Target:
    """`PrivateRidge`: the last column is the target, under public bounds."""

    def fit(rows: Floats, rng: Randomness) -> PrivateRidge:
        bounds: dict[str, Any] = {"bound": ([-1.0], [1.0]), "target_bounds": (-1.0, 1.0)}
        model = PrivateRidge("auto", epsilon=epsilon, delta=kind.delta, center=None, random_state=rng, **bounds)
        with made_up_rows():
            return model.fit(rows[:, :1], rows[:, 1])

    def run(rows: Floats, rng: Randomness) -> Floats:
        model = fit(rows, rng)
        shown = [*model.coef_, model.intercept_, math.log(model.alpha_ + 1e-9)]
        return np.concatenate([np.arcsinh(shown), _numbers(model.release_)])

    n = 120
    sample = fit(np.eye(2)[np.arange(n) % 2], made_up_randomness()).guarantee_
    claim = Claim(Budget(sample.epsilon, sample.delta), tuple(sample.split))
    return Target(name, claim, n, 2, Relation.REPLACE, run)
