"""Slips of the pen get an answer that helps, before anything is read or spent."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from dpeigen import PrivatePCA
from dpeigen.privacy.guarantee import WeakBudgetWarning, weak_budget

X = np.random.default_rng(0).normal(size=(400, 3))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"method": "gausian"}, "gaussian"),
        ({"relation": "replaced"}, "replace"),
        ({"scale": "privat"}, "private"),
        ({"missing": "corect"}, "correct"),
    ],
)
def test_a_word_that_is_nearly_right(given, meant):
    with pytest.raises(ValueError, match=f"Did you mean '{meant}'"):
        PrivatePCA(2, epsilon=1.0, delta=1e-6, bound=5.0, **given).fit(X)


def test_a_column_that_is_nearly_there():
    frame = pd.DataFrame(X, columns=["patient", "age", "height"])
    with pytest.raises(ValueError, match="Did you mean 'patient'"):
        PrivatePCA(1, epsilon=1.0, delta=1e-6, unit="patinet").fit(frame)
    with pytest.raises(ValueError, match="Did you mean 'height'"):
        PrivatePCA(1, epsilon=1.0, delta=1e-6, columns={"age": None, "heigth": None}).fit(frame)


def test_a_word_that_is_nothing_like_it_gets_no_guess():
    with pytest.raises(ValueError, match=r"instead\.$"):
        PrivatePCA(2, epsilon=1.0, method="x").fit(X)


@pytest.mark.parametrize(
    ("given", "remedy"), [(0.95, "costs budget"), ("mle", "'private'"), (None, "number of columns")]
)
def test_numbers_of_components_that_scikit_learn_takes(given, remedy):
    with pytest.raises(TypeError, match=remedy):
        PrivatePCA(given, epsilon=1.0, delta=1e-6).fit(X)


@pytest.mark.parametrize("budget", [{"epsilon": 25.0, "delta": 1e-6}, {"epsilon": 1.0, "delta": 0.01}])
def test_weak_budgets_are_questioned_before_they_are_spent(budget):
    with pytest.warns(WeakBudgetWarning, match="Nothing has been spent yet"):
        PrivatePCA(1, bound=5.0, **budget).fit(X)


def test_usual_budgets_are_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeakBudgetWarning)
        PrivatePCA(1, epsilon=10.0, delta=1e-6, bound=5.0).fit(X)


def test_the_number_of_people_counts():
    assert weak_budget(1.0, 1e-3, 500, "patient") is None
    assert "number of units (2,000)" in weak_budget(1.0, 1e-3, 2000, "patient")
    assert weak_budget(1.0, 1e-3, None) is None  # private


@pytest.mark.parametrize("n_units", [500, 10**6, 3 * 10**6])
def test_the_delta_that_is_proposed_is_not_weak(n_units):
    text = weak_budget(1.0, 0.1, n_units)
    assert text is not None
    proposed = float(text.split("Use ")[1].split(" or less")[0])
    assert weak_budget(1.0, proposed, n_units) is None
