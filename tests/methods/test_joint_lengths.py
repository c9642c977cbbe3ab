"""The lengths of target and constant in a regression's rows follow public facts, and more noise makes both longer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen import PrivateRidge
from dpeigen.methods.joint_lengths import lengths

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("p", [1, 4, 12, 60])
def test_more_noise_makes_target_and_constant_longer(p):
    found = np.array([lengths(p, noise, center=True) for noise in (1e-6, 1e-2, 1e-1)])
    assert (np.diff(found, axis=0) >= 0).all()
    assert found[0, 0] ** 2 < 1.5 * p  # little noise: about as long as the features at most
    assert (found[-1] ** 2 > 1.2 * p).all()  # much noise: the mean of the target is all that can be known


def test_no_constant_without_a_centre():
    assert lengths(6, 1e-3, center=False)[1] == 0.0


def mean_error(X, y, monkeypatch, fixed):
    """Of the released mean of the target, over 40 fits with much noise."""
    if fixed:
        monkeypatch.setattr("dpeigen.methods.framing.joint_lengths", lambda task: lengths(5, 1e-9, center=True))
        monkeypatch.setattr("dpeigen.methods.moment.base.joint_lengths", lambda task: lengths(5, 1e-9, center=True))
    settings = {"epsilon": 0.3, "delta": 1e-6, "bound": (-1, 1), "target_bounds": (-1, 1)}
    errors = [PrivateRidge(**settings, random_state=seed).fit(X, y).release_.mean[-1] - y.mean() for seed in range(40)]
    return math.sqrt(np.mean(np.square(errors)))


def test_few_rows_and_much_noise_know_the_mean_of_the_target_better(monkeypatch):
    """By a factor of 1.5, where the lengths for little noise (the twin) would give 1: by chance below 1e-6."""
    X = RNG.uniform(-1, 1, size=(300, 5))
    y = np.clip(0.4 + 0.2 * X[:, 0] + RNG.normal(0, 0.1, size=300), -1, 1)
    ours = mean_error(X, y, monkeypatch, fixed=False)
    assert 1.5 * ours < mean_error(X, y, monkeypatch, fixed=True)
