"""Regressions inside bounds take covariance and mean from one denoised matrix, so few rows still explain a target."""

from __future__ import annotations

import numpy as np
import pytest

import dpeigen.methods.moment.base as moments
import dpeigen.methods.moment.joint as joint
from dpeigen import PrivateRidge
from dpeigen.methods.moment.joint import joint_estimate
from dpeigen.questions.laws import GaussianLaw
from dpeigen.stats.penalty import choose_penalty, noise_penalty
from dpeigen.stats.ridge import RidgePath

RNG = np.random.default_rng(8)
ROWS = RNG.uniform(-1, 1, size=(500, 4)) @ RNG.normal(0, 0.4, size=(4, 4)) + [0.3, 0.0, -0.2, 0.1]
WEIGHT = 1.5
WHOLE = np.column_stack([np.full(500, WEIGHT), ROWS])
MOMENT = WHOLE.T @ WHOLE / 500
COVARIANCE = np.cov(ROWS.T, bias=True)


def noisy(deviation, seed):
    noise = np.triu(np.random.default_rng(seed).normal(0, deviation, size=(5, 5)), 1)
    diagonal = np.random.default_rng([seed, 1]).normal(0, np.sqrt(2) * deviation, size=5)
    moment = MOMENT + noise + noise.T + np.diag(diagonal)
    moment[0, 0] = WEIGHT**2
    return joint_estimate(moment, GaussianLaw(), deviation, WEIGHT, 9.0)


def test_without_noise_it_is_the_covariance_and_the_mean():
    found = noisy(1e-12, 0)
    np.testing.assert_allclose(found[0], COVARIANCE, atol=1e-9)
    np.testing.assert_allclose(found[1], ROWS.mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("deviation", [0.01, 0.3, 10.0])
def test_no_eigenvalue_is_negative_and_much_noise_leaves_no_mean(deviation):
    found = [noisy(deviation, seed) for seed in range(20)]
    for covariance, _ in found:
        assert np.linalg.eigvalsh(covariance)[0] > -1e-12
        assert np.trace(covariance) < 9.0 + WEIGHT**2
    plain = deviation / WEIGHT * np.sqrt(4)  # the length of the noise on a mean that is not shrunk
    if deviation > 1:
        assert np.mean([np.linalg.norm(mean) for _, mean in found]) < plain / 2


def test_the_stated_error_of_the_covariance_holds():
    """In 95% of runs: fewer than 35 of 40 would be chance with probability below 0.03. A tenth (the twin) does not."""
    X, y = RNG.uniform(-1, 1, size=(400, 3)), RNG.uniform(-1, 1, size=400)
    expected = np.cov(np.column_stack([X, y]).T, bias=True)
    settings = {"epsilon": 1.0, "delta": 1e-6, "bound": (-1, 1), "target_bounds": (-1, 1), "method": "gaussian"}
    held = np.zeros(2)
    for seed in range(40):
        release = PrivateRidge(**settings, random_state=seed).fit(X, y).release_
        units = release.noise_units / release.noise_units.max()
        off = np.linalg.norm((release.covariance - expected) / np.outer(units, units), 2)
        held += off <= release.facts["covariance_error"] * np.array([1.0, 0.1])
    assert held[0] >= 35
    assert held[1] < 35


def test_nothing_left_of_the_moment_is_no_error():
    covariance, mean = joint_estimate(-np.eye(4), GaussianLaw(), 0.0, 1.0, 3.0)
    assert not covariance.any()
    assert not mean.any()


@pytest.mark.parametrize(("measured", "kept"), [(0.05, 0.0), (-0.3, 1 - 0.5 / 9), (0.0, 0.0)])
def test_a_mean_that_noise_hides_is_the_middle_and_one_that_stands_out_stays(measured, kept):
    """Compared with the mean of the same denoised matrix at noise that hides nothing."""
    moment = np.diag([1.0, 0.5, 0.5])
    moment[0, 1] = moment[1, 0] = measured
    found = [joint_estimate(moment, GaussianLaw(), 0.1, 1.0, 2.0)[1][0]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(joint, "_HIDDEN", 0.0)
        found.append(joint_estimate(moment, GaussianLaw(), 0.1, 1.0, 2.0)[1][0])
    assert found[0] == pytest.approx(kept * found[1])
    assert found[1] != 0 or measured == 0


def test_no_mean_lies_outside_its_bounds(monkeypatch):
    """Means that are 10 times as large as estimated would lie far outside; they are put at the bounds."""
    X, y = RNG.uniform(0, 1, size=(30, 3)), RNG.uniform(5, 6, size=30)
    settings = {"epsilon": 0.05, "bound": ([0, 0, 0], [1, 1, 1]), "target_bounds": (5, 6), "method": "matrix-laplace"}
    far = joint_estimate
    monkeypatch.setattr(moments, "joint_estimate", lambda *args: (far(*args)[0], 10 * far(*args)[1]))
    means = np.array([PrivateRidge(**settings, random_state=seed).fit(X, y).release_.mean for seed in range(20)])
    assert (means >= [0, 0, 0, 5]).all()
    assert (means <= [1, 1, 1, 6]).all()
    assert (means == 6).any() or (means == 5).any()


@pytest.mark.parametrize(
    ("share", "deviation", "factor"), [(0.02, 1e-3, 3.0), (0.02, 0.15, 2.0), (0.02, 1.0, 1.0), (0.9, 1e-3, 1.0)]
)
def test_the_penalty_is_larger_where_little_is_explained_and_noise_does_not_hide_it(
    share, deviation, factor, monkeypatch
):
    """Features of variance 0.3, so their ratio to the noise is 2 for 0.15; ``share`` of the target is explained."""
    covariance = np.diag([0.3, 0.3, 1.0])
    covariance[0, 2] = covariance[2, 0] = np.sqrt(share * 0.3)
    path = RidgePath.of(covariance, 2)
    found = choose_penalty(path, deviation, 500, stated=True)
    monkeypatch.setattr("dpeigen.stats.penalty._MOST", 1.0)
    assert found == pytest.approx(factor * choose_penalty(path, deviation, 500, stated=True))


def test_a_target_that_nothing_explains_loses_less(monkeypatch):
    """R² of −0.004 with a standard error of 0.001, and higher than with the same penalty for all (the twin, −0.014) in
    39 of 40 fits. Above −0.01 and in more than 32: by chance not once in 10⁴."""
    X, y = RNG.choice([-1.0, 1.0], size=(1500, 9)), RNG.uniform(-1, 1, size=1500)
    ours = r_squares(X, y)
    monkeypatch.setattr("dpeigen.stats.penalty._MOST", 1.0)
    assert ours.mean() > -0.01
    assert np.sum(ours > r_squares(X, y)) > 32


def r_squares(X, y):
    """Of the rows, 40 fits."""
    settings = {"epsilon": 0.3, "delta": 1e-6, "bound": (-1, 1), "target_bounds": (-1, 1)}
    fits = [PrivateRidge(**settings, random_state=seed).fit(X, y).predict(X) for seed in range(40)]
    return np.array([1 - np.mean((y - fit) ** 2) / y.var() for fit in fits])


def test_few_rows_explain_a_target_that_two_features_make(monkeypatch):
    """R² above 0.58 (0.66 with a standard error of 0.02: by chance below 1e-4). With the penalty of the least expected
    error alone, and target and constant as long as the mean alone would have them (the twin), it is below 0.5."""
    X = RNG.choice([-1.0, 1.0], size=(300, 4))
    X[:, 1] = np.where(RNG.random(300) < 0.8, X[:, 0], -X[:, 0])
    y = 0.6 * X[:, 0] + 0.3 * X[:, 1] + RNG.uniform(-0.1, 0.1, 300)
    assert r_squares(X, y).mean() > 0.58
    long = (np.sqrt(3 * 4), np.sqrt(3 * 4))
    monkeypatch.setattr("dpeigen.methods.framing.joint_lengths", lambda task: long)
    monkeypatch.setattr(moments, "joint_lengths", lambda task: long)
    monkeypatch.setattr("dpeigen.stats.penalty._TRUSTED", 0.0)
    assert r_squares(X, y).mean() < 0.5


def test_the_penalty_follows_the_noise_and_vanishes_with_it():
    path = RidgePath.of(COVARIANCE, 3)
    assert noise_penalty(path, 0.2) == pytest.approx(2 * noise_penalty(path, 0.1))
    found = [choose_penalty(path, deviation, 500, stated=True) for deviation in (1e-12, 1e-6, 1e-3, 0.1)]
    assert (np.diff(found) > 0).all()
    assert found[0] < 1e-8
    assert choose_penalty(path, 0.0, 500, stated=True) == choose_penalty(path, 0.0, 500)


@pytest.mark.parametrize("epsilon", [100, 1000])
def test_coefficients_converge_to_least_squares(epsilon):
    X = RNG.uniform(-1, 1, size=(2000, 3))
    y = np.clip(X @ [0.4, -0.2, 0.1] + RNG.normal(0, 0.1, 2000), -1, 1)
    model = PrivateRidge(epsilon=epsilon, delta=1e-6, bound=(-1, 1), target_bounds=(-1, 1), random_state=0).fit(X, y)
    expected = np.linalg.lstsq(np.column_stack([np.ones(2000), X]), y, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, expected[1:], atol=0.3 / epsilon)
    assert model.intercept_ == pytest.approx(expected[0], abs=0.3 / epsilon)
