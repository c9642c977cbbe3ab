"""Algorithm 2 of Wang and Xu 2019 (sparse components), against a transcription of its lines that shares no code."""

import math

import numpy as np
import pytest

from dpeigen.local import LocalAggregator, LocalRandomizer
from dpeigen.stats import fantope_admm

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded.*")
SETTINGS = [(6, 2, 8.0, 1e-4, 0.02), (8, 1, 6.0, 1e-5, 0.08)]  # p, k, ε, δ, λ
STUDIES, ROWS = 30, 150


def on_the_fantope(W, k):
    """Line 8: the nearest matrix with 0 ⪯ X ⪯ I and trace k, its shift found by halving."""
    values, vectors = np.linalg.eigh(W)
    low, high = values.min() - 1, values.max()
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(values - middle, 0, 1).sum() > k else (low, middle)
    return (vectors * np.clip(values - low, 0, 1)) @ vectors.T


def algorithm_2(X, k, epsilon, delta, penalty, rng, rho=1.0, rounds=100):
    """Lines 1 to 13: noisy outer products, their average, ADMM from Y = U = 0, and the k first eigenvectors of Y."""
    n, p = X.shape
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    Z = np.triu(rng.normal(0.0, sigma / math.sqrt(n), (p, p)))  # the average of n such matrices
    S = X.T @ X / n + Z + np.triu(Z, 1).T
    Y, U = np.zeros((p, p)), np.zeros((p, p))
    for _ in range(rounds):
        H = on_the_fantope(Y - U + S / rho, k)
        Y = np.sign(H + U) * np.maximum(np.abs(H + U) - penalty / rho, 0)
        U = U + H - Y
    return Y, np.linalg.eigh(Y)[1][:, -k:].T


def rows_of(p, k, seed):
    """Unit rows near the span of k vectors on the first three columns."""
    rng = np.random.default_rng(seed)
    V = np.zeros((k, p))
    V[:, :3] = np.linalg.qr(np.random.default_rng(5).normal(size=(3, k)))[0].T
    rows = rng.normal(size=(ROWS, k)) @ V + 0.1 * rng.normal(size=(ROWS, p))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), V


def studies(p, k, epsilon, delta, penalty, fault):
    """For both: the distance to the true subspace and the number of columns used, in each study."""
    rng, ours, theirs = np.random.default_rng(9), [], []
    penalised = fault.pop("penalty", penalty)
    options = {"epsilon": epsilon, "delta": delta, "constants": "published"} | fault
    for seed in range(STUDIES):
        X, V = rows_of(p, k, seed)
        client = LocalRandomizer(p, random_state=seed, **options)
        fit = LocalAggregator(client).add_many(map(client.report, X)).sparse_pca(k, penalised)
        _, vectors = algorithm_2(X, k, epsilon, delta, penalty, rng)
        for U, used, to in (
            (fit.components, (np.abs(fit.components).max(axis=0) > 1e-3).sum(), ours),
            (vectors, (np.abs(vectors).max(axis=0) > 1e-3).sum(), theirs),
        ):
            to.append((np.linalg.norm(U.T @ U - V.T @ V), used))
    return np.array(ours, float), np.array(theirs, float)


def furthest(setting, fault=()):
    """Standard errors between the means of the two, at most."""
    ours, theirs = studies(*setting, dict(fault))
    spread = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / STUDIES) + 1e-9
    return float((np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / spread).max())


@pytest.mark.parametrize("setting", SETTINGS)
def test_agrees_with_the_transcription(setting):
    """Two means within 6 standard errors: a false alarm has probability below 1e-8."""
    assert furthest(setting) < 6


@pytest.mark.parametrize("fault", [{"penalty": 0.3}, {"epsilon": 2.0}])
def test_another_penalty_or_noise_is_seen(fault):
    assert furthest(SETTINGS[0], fault) > 6


def test_on_the_same_average_both_find_the_same_matrix():
    """Without noise of their own: the solver and the printed iteration, entry by entry."""
    for p, k, _, _, penalty in SETTINGS:
        X, _ = rows_of(p, k, 0)
        S = X.T @ X / len(X)
        Y, _ = algorithm_2(X, k, 1e9, 1e-4, penalty, np.random.default_rng(0), rounds=2000)
        found = fantope_admm(S, k, penalty, tolerance=1e-9, max_iterations=20_000)
        assert found.projector == pytest.approx(Y, abs=2e-4)
