"""A private centre costs the same wherever the rows lie: at the origin, or a million deviations away."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.methods import Kendall, Oja, Refined, resolve
from dpeigen.methods.base import Task, run_method
from dpeigen.privacy import Budget, Relation
from dpeigen.sources import ArraySource

DEVIATIONS = np.array([5.0, 4.0, 1.0, 1.0, 1.0])
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, 1.0])


def rows_at(away, n, seed):
    return (np.random.default_rng(seed).normal(size=(n, 5)) + away * SIGNS) * DEVIATIONS


def errors(method, away, tools, *, n=4000, seed=0, relation="replace", **options):
    """Of the plane of the two long columns (a sine), and of the mean in deviations."""
    X = rows_at(away, n, seed)
    facts = {"bound": None, "epsilon": 2.0, "delta": 1e-6, **options}
    budget = Budget(facts["epsilon"], facts["delta"])
    known = n if relation == "replace" else None
    task = Task("PrivatePCA", 5, 2, budget, Relation(relation), facts["bound"], "private", known)
    found = run_method(resolve(method, task), ArraySource(X), task, tools.seeded(seed))
    return np.linalg.norm(found.components[:, 2:], 2), np.abs((found.mean - X.mean(axis=0)) / DEVIATIONS).max()


CASES = [
    ("spatial-sign", {}), ("refined", {}), (Refined(differences=True), {}), ("gaussian", {"bound": "private"}),
    ("spatial-sign", {"delta": 0.0, "n": 10_000}), ("matrix-laplace", {"bound": "private", "delta": 0.0, "n": 10_000}),
    ("laplace", {"bound": "private", "delta": 0.0, "n": 10_000}), ("whitened", {}),
    ("eigenvector-sampling", {"bound": "private", "n": 20_000, "epsilon": 8.0}),
    (Kendall(design=16, location="paid"), {}), (Oja(batch="auto"), {"bound": "private", "n": 40_000}),
    ("spatial-sign", {"bound": 1e8}), ("spatial-sign", {"relation": "add_remove", "n": 20_000}),
    ("gaussian", {"bound": "private", "relation": "add_remove", "n": 20_000}),
]  # fmt: skip


@pytest.mark.parametrize("away", [0.0, 1e2, 1e6])
@pytest.mark.parametrize(("method", "options"), CASES)
def test_the_error_does_not_depend_on_the_origin(method, options, away, tools):
    """Limits are about three times what was seen; a centre that is off by a deviation misses both."""
    found = [errors(method, away, tools, seed=seed, **options) for seed in range(2)]
    assert max(angle for angle, _ in found) < 0.2
    assert max(off for _, off in found) < 0.3


def test_few_rows_about_the_origin_still_have_a_centre(tools):
    """Too few for places to stand out: two rounds about 0, as far as some deviations away."""
    for away in (0.0, 3.0):
        assert errors("spatial-sign", away, tools, n=1500, epsilon=1.0, delta=0.0)[0] < 0.3
