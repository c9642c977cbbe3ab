"""Generators with a known fault or none at all, and tasks, for the tests of the methods."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dpeigen.methods import Task, check_bound, check_center
from dpeigen.privacy import Budget, Randomness, Relation
from dpeigen.privacy.randomness import SeededRandomness


class Silent(Randomness):
    """No noise at all; remembers what was asked for. Orders are left as they are."""

    seeded = True

    def __init__(self):
        self.asked = []

    def uniform(self, size):
        raise AssertionError("no method of this library needs uniform numbers yet")

    def normal(self, size):
        self.asked.append(("normal", 1.0, size))
        return np.zeros(size)

    def permutation(self, n):
        return np.arange(n)

    def discrete_gaussian(self, scale, size):
        self.asked.append(("gaussian", scale, size))
        return np.zeros(size, dtype=np.int64)

    def discrete_laplace(self, scale, size):
        self.asked.append(("laplace", scale, size))
        return np.zeros(size, dtype=np.int64)


class Faulty(SeededRandomness):
    """Noise that is ``factor`` times what was asked for."""

    factor = 0.7

    def normal(self, size):
        return super().normal(size) * np.sqrt(self.factor)  # matrix Laplace is a square of these

    def discrete_gaussian(self, scale, size):
        return np.rint(self.factor * scale * self._generator.standard_normal(size)).astype(np.int64)

    def discrete_laplace(self, scale, size):
        return super().discrete_laplace(self.factor * scale, size)


def make_faulty(seed, factor=0.7):
    rng = Faulty(np.random.default_rng(seed))
    rng.factor = factor
    return rng


def make_task(X, *, epsilon=1.0, delta=0.0, bound=1.0, center=None, relation="replace", k=None, **rest):
    relation = Relation(relation)
    return Task(
        owner="test",
        n_features=X.shape[1],
        n_components=k,
        budget=Budget(epsilon, delta),
        relation=relation,
        bound=check_bound(bound, X.shape[1], "test"),
        center=check_center(center, X.shape[1], "test"),
        n_rows=len(X) if relation is Relation.REPLACE else None,
        **{"shrink": False, **rest},
    )


@pytest.fixture(scope="session")
def tools():
    return SimpleNamespace(
        Silent=Silent,
        Faulty=Faulty,
        task=make_task,
        seeded=lambda seed: SeededRandomness(np.random.default_rng(seed)),
        faulty=make_faulty,
    )
