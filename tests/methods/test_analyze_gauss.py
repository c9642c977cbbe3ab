"""Analyze Gauss as printed: it must say that it is not private, and it is not."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.methods import METHODS, AnalyzeGaussPrinted
from dpeigen.privacy.randomness import NotPrivateWarning

ROWS = np.random.default_rng(0).normal(size=(300, 3)) * [2.0, 1.0, 1.0]
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)


def fit(rows, seed=0, k=1, **options):
    options = {"epsilon": 0.1, "delta": 1e-6, "random_state": seed, **options}
    with pytest.warns(NotPrivateWarning, match="'analyze-gauss-printed' is NOT private: .*scaled by the longest"):
        return PrivatePCA(k, method=AnalyzeGaussPrinted(), **options).fit(rows)


def test_it_warns_and_its_guarantee_says_why():
    guarantee = fit(ROWS, seed=None).guarantee_
    assert not guarantee.is_private
    assert guarantee.basis == "none"
    text = str(guarantee)
    assert text.startswith("NOT PRIVATE")
    assert "scaled by the longest of them" in text
    assert "one row can change the whole release" in text
    assert "NOT PRIVATE" in repr(fit(ROWS).release_)


def test_it_is_in_no_list_of_names():
    assert not {"analyze-gauss-printed", "analyze-gauss"} & set(METHODS)
    with pytest.raises(ValueError, match="method"):
        PrivatePCA(1, epsilon=1.0, delta=1e-6, method="analyze-gauss-printed").fit(ROWS)


def test_one_row_tells_two_neighbours_apart():
    """At ε = 0.1 an attacker is right with probability at most 52.5%: in 36 of 40 runs or more with less than 1e-6."""
    neighbour = ROWS.copy()
    neighbour[0] = [1e6, 0.0, 0.0]
    guesses = [np.trace(fit(rows, seed).release_.covariance) > 1e3 for seed in range(20) for rows in (ROWS, neighbour)]
    assert np.sum(np.array(guesses) == np.tile([False, True], 20)) >= 36


def test_it_is_the_printed_computation():
    """With little noise: the components of the covariance, whatever the centre."""
    rows = np.random.default_rng(1).normal(size=(20_000, 3)) * [4.0, 2.0, 1.0] + 7.0
    fitted = fit(rows, k=2, epsilon=5.0)
    np.testing.assert_allclose(np.abs(fitted.components_), np.eye(3)[:2], atol=0.05)
    np.testing.assert_allclose(fitted.mean_, rows.mean(axis=0))
    np.testing.assert_allclose(fitted.explained_variance_, [16.0, 4.0], rtol=0.1)


def test_it_needs_a_delta():
    with pytest.raises(ValueError, match=r"delta.*> 0 for method='analyze-gauss-printed'"):
        PrivatePCA(1, epsilon=1.0, method=AnalyzeGaussPrinted()).fit(ROWS)


def test_a_large_epsilon_is_no_error():
    """The classical formula is too small from ε ≈ 10 on; what is not private anyway must still run for its paper."""
    assert fit(ROWS, epsilon=20.0).guarantee_.basis == "none"
