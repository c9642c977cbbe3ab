"""Ridge from a covariance: right solutions, Lemma 1 as a theorem (and wrong versions of it caught), a sensible α."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from dpeigen.stats.penalty import choose_penalty, expected_error, prediction_variance
from dpeigen.stats.ridge import RidgePath, lemma_one_bound, ridge_coefficients

ALPHAS = np.logspace(-3, 4, 40)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(2)
    return rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6))


def random_covariance(rng, d, n=40):
    scales = rng.uniform(0.05, 1.5, size=d)
    Z = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * scales
    return Z.T @ Z / n


def symmetric_noise(rng, d, deviation):
    Z = rng.normal(size=(d, d))
    return deviation * (Z + Z.T) / np.sqrt(2)


# --- solutions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [0, 3, 5])
@pytest.mark.parametrize("features", [None, [1, 2, 4], [4, 1]])
def test_many_penalties_at_once_are_scikit_learns(rows, target, features):
    chosen = [j for j in range(6) if j != target] if features is None else features
    found = ridge_coefficients(rows.T @ rows / 300, target, ALPHAS / 300, features)
    assert found.shape == (40, len(chosen))
    for alpha, coefficients in zip(ALPHAS, found, strict=True):
        expected = Ridge(alpha, fit_intercept=False).fit(rows[:, chosen], rows[:, target]).coef_
        np.testing.assert_allclose(coefficients, expected, rtol=1e-8, atol=1e-12)


def test_no_penalty_on_dependent_columns_gives_the_shortest_solution(rows):
    X = np.column_stack([rows[:, :2], rows[:, 0] + rows[:, 1], np.zeros(300)])
    joint = np.column_stack([X, rows[:, 5]])
    found = ridge_coefficients(joint.T @ joint / 300, 4, 0.0)[0]
    np.testing.assert_allclose(found, np.linalg.lstsq(X, rows[:, 5], rcond=None)[0], atol=1e-10)


def test_nothing_explains_nothing():
    path = RidgePath.of(np.zeros((3, 3)), 2)
    assert (path.coefficients(np.array([0.0, 1.0])) == 0).all()
    assert choose_penalty(path, 0.0, 100) > 0
    assert choose_penalty(path, 1.0, 100) > 0
    assert np.isinf(lemma_one_bound(path, np.zeros(1), 1.0)).all()


def test_the_residual_is_what_the_matrix_says(rows):
    C = rows.T @ rows / 300
    path = RidgePath.of(C, 2)
    for penalty in (0.0, 0.1, 10.0):
        u = np.insert(-path.coefficients(np.array([penalty]))[0], 2, 1.0)
        np.testing.assert_allclose(path.residual(np.array([penalty])), u @ C @ u, rtol=1e-10)


# --- Lemma 1 ------------------------------------------------------------------------------------------------------


def printed(path, penalties, error):
    """The lemma as printed, with both norms replaced by B."""
    lengths = np.linalg.norm(path.coefficients(penalties), axis=1)
    return error * (1 + lengths) / (max(0.0, path.values[0] - error) + penalties)


def without_slack(path, penalties, error):
    """Wrong: the smallest eigenvalue of the noisy matrix taken for that of the true one."""
    return error * path.length(path.coefficients(penalties)) / (path.values[0] + penalties)


def without_coefficients(path, penalties, error):
    """Wrong: the error of the features' block is forgotten."""
    return np.full(len(penalties), error) / (max(0.0, path.values[0] - error) + penalties)


def with_the_largest(path, penalties, error):
    """Wrong: another eigenvalue."""
    return error * path.length(path.coefficients(penalties)) / (path.values[-1] + penalties)


def worst_ratio(bound, trials=400, units=False):
    """The largest ‖ŵ − w‖ ÷ bound over random matrices and over errors of spectral norm B, most of them nasty."""
    rng, worst = np.random.default_rng(8), 0.0
    penalties = np.array([1e-3, 0.03, 0.3, 3.0])
    for trial in range(trials):
        d = int(rng.integers(2, 6))
        C, scale = random_covariance(rng, d), rng.uniform(0.3, 3.0, size=d) if units else np.ones(d)
        E = symmetric_noise(rng, d, 1.0)
        if trial % 2:  # rank one against the weakest direction: the smallest eigenvalue really falls
            v = np.linalg.eigh(C[:-1, :-1])[1][:, 0]
            v = np.append(v, rng.normal())
            E = np.outer(v, v) * rng.choice([-1, 1])
        E *= rng.choice([0.003, 0.03, 0.3]) / np.linalg.norm(E, 2)
        noisy = C + E * np.outer(scale, scale)
        path = RidgePath.of(noisy, d - 1, units=scale)
        if np.linalg.eigvalsh(noisy)[0] < 0:
            continue  # releases are positive semi-definite
        true = RidgePath.of(C, d - 1).coefficients(penalties)
        distance = np.linalg.norm(path.coefficients(penalties) - true, axis=1)
        worst = max(worst, float((distance / bound(path, penalties, np.linalg.norm(E, 2))).max()))
    return worst


@pytest.mark.parametrize("units", [False, True])
def test_lemma_one_holds(units):
    assert 0.3 < worst_ratio(lemma_one_bound, units=units) <= 1 + 1e-9


@pytest.mark.parametrize("wrong", [without_slack, without_coefficients, with_the_largest])
def test_wrong_versions_of_the_lemma_are_caught(wrong):
    assert worst_ratio(wrong) > 1.05


def test_units_may_not_be_forgotten():
    def forgotten(path, penalties, error):
        plain = RidgePath(path.values, path.vectors, path.scores, path.variance, np.ones_like(path.units), 1.0)
        return lemma_one_bound(plain, penalties, error)

    assert worst_ratio(forgotten, units=True) > 1.05


def test_ours_is_never_looser_than_the_printed_lemma(rows):
    path = RidgePath.of(rows.T @ rows / 300, 0)
    penalties = np.logspace(-3, 2, 30)
    ours, theirs = lemma_one_bound(path, penalties, 0.02), printed(path, penalties, 0.02)
    assert (ours <= theirs).all()
    assert (ours < 0.95 * theirs).any()


def test_the_bound_is_sharp_for_one_feature():
    """A feature of variance a, seen as a + B, next to a covariance b seen as b: nothing is lost in the limit."""
    a, penalty, error = 1.0, 0.2, 1e-6
    w = 30.0  # long, so that √(1 + w²) ≈ w
    C = np.array([[a, w * (a + penalty)], [w * (a + penalty), 1e4]])
    noisy = C + np.diag([error, 0.0])
    path, p = RidgePath.of(noisy, 1), np.array([penalty])
    distance = abs(path.coefficients(p) - RidgePath.of(C, 1).coefficients(p))
    assert 0.99 < distance[0, 0] / lemma_one_bound(path, p, error)[0] <= 1


# --- the choice of a penalty --------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [np.ones(5), np.array([0.5, 1.0, 2.0, 0.7, 1.5])])
def test_prediction_variance_is_that_of_the_noise(units):
    """To 4% with 20,000 draws (five standard errors), at noise so small that the first order is all there is."""
    rng = np.random.default_rng(4)
    C, deviation, penalties = random_covariance(rng, 5) + 0.2 * np.eye(5), 1e-5, np.array([0.01, 0.3])
    path = RidgePath.of(C, 4, units=units)
    A, total = C[:4, :4], np.zeros(2)
    for _ in range(20000):
        noisy = C + symmetric_noise(rng, 5, deviation) * np.outer(units, units)
        for i, penalty in enumerate(penalties):
            moved = np.linalg.solve(noisy[:4, :4] + penalty * np.eye(4), noisy[:4, 4])
            moved = moved - np.linalg.solve(A + penalty * np.eye(4), C[:4, 4])
            total[i] += moved @ A @ moved
    np.testing.assert_allclose(prediction_variance(path, penalties, deviation), total / 20000, rtol=0.04)


def risks(C, target, penalties, deviation, seeds, pick):
    """Mean true error, and mean of what ``pick`` makes of the noisy path, over draws of noise."""
    rng, d = np.random.default_rng(seeds), len(C)
    true, stated = [], []
    for _ in range(400):
        path = RidgePath.of(C + symmetric_noise(rng, d, deviation), target)
        u = np.insert(-path.coefficients(penalties), target, 1.0, axis=1)
        true.append(np.einsum("li,ij,lj->l", u, C, u))
        stated.append(pick(path))
    return np.array(true), np.array(stated)


def test_expected_error_corrects_the_optimism_of_the_noisy_matrix():
    rng = np.random.default_rng(6)
    C = random_covariance(rng, 12, n=200) + 0.5 * np.eye(12)
    penalties, deviation = np.array([1e-4, 0.02, 0.2]), 0.1
    true, stated = risks(C, 11, penalties, deviation, 1, lambda path: expected_error(path, penalties, deviation, 1e12))
    plain = risks(C, 11, penalties, deviation, 1, lambda path: path.residual(penalties))[1]
    gap, plain_gap = (np.abs(s.mean(axis=0) - true.mean(axis=0)) for s in (stated, plain))
    assert (plain_gap > 0.05 * true.mean(axis=0)).all()
    assert (gap < plain_gap / 3).all()


def test_few_rows_count_too():
    path = RidgePath.of(np.diag([1.0, 2.0, 3.0]) + 0.1, 2)
    assert (expected_error(path, np.ones(1), 0.0, 10) > 1.05 * expected_error(path, np.ones(1), 0.0, 1e9)).all()


def test_the_chosen_penalty_is_nearly_the_best_and_far_better_than_none():
    rng = np.random.default_rng(9)
    C = random_covariance(rng, 20, n=60)
    C[:, 19], C[19, :] = C[:, 19] / 4, C[19, :] / 4
    grid = np.linalg.eigvalsh(C)[-1] * np.logspace(-8, 1, 100)
    for deviation in (0.01, 0.05, 0.2):
        chosen = []
        for seed in range(30):
            noise = symmetric_noise(np.random.default_rng(seed), 20, deviation)
            values, vectors = np.linalg.eigh(C + noise)
            path = RidgePath.of((vectors * np.maximum(values, 0)) @ vectors.T, 19)
            penalties = np.append(grid, choose_penalty(path, deviation, 1e6))
            u = np.insert(-path.coefficients(penalties), 19, 1.0, axis=1)
            chosen.append(np.einsum("li,ij,lj->l", u, C, u))
        errors = np.mean(chosen, axis=0)
        assert errors[-1] < 1.15 * errors[:-1].min()
        assert errors[-1] < 0.5 * errors[0]


def test_more_noise_asks_for_more_penalty(rows):
    path = RidgePath.of(rows.T @ rows / 300, 0)
    chosen = [choose_penalty(path, deviation, 300) for deviation in (0.0, 0.01, 0.1, 1.0)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]


@pytest.mark.parametrize("units", [(1.0, 1e9, 1.0, 1.0), (1e-10, 1.0, 1e8, 1.0), (1e-8, 1e8, 1.0, 1e5)])
def test_no_penalty_gives_the_same_in_all_units(units):
    """A cutoff relative to the largest variance would take columns in small units for constant."""
    rows = np.random.default_rng(0).normal(size=(200, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    by = np.array(units)
    plain = ridge_coefficients(np.cov(rows.T), 3, [0.0])[0]
    other = ridge_coefficients(np.cov((rows * by).T), 3, [0.0])[0]
    np.testing.assert_allclose(other * by[:3] / by[3], plain, rtol=1e-6)
