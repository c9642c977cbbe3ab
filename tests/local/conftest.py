"""Seeded clients without the warning that they are not private."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from dpeigen.local import LocalRandomizer


def make(n_features=3, *, epsilon=2.0, delta=1e-6, seed=0, **rest):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LocalRandomizer(n_features, epsilon=epsilon, delta=delta, random_state=seed, **rest)


@pytest.fixture(scope="session")
def client():
    """A function that makes seeded clients."""
    return make


@pytest.fixture(scope="session")
def rows():
    """Rows of three columns, most of them inside the unit ball."""
    return np.random.default_rng(5).normal(size=(400, 3)) * [0.6, 0.3, 0.1]
