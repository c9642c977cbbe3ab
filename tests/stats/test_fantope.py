"""Fantope projection and selection against independent slow solvers, its certificate, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpeigen.stats import fantope, fantope_admm, project_fantope, projection_distance
from dpeigen.stats.fantope import fantope_threshold


def by_bisection(matrix, k):
    """The projection with θ found by halving: slow, and nothing shared."""
    values, vectors = np.linalg.eigh(matrix)
    low, high = values.min() - 1.0, values.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(values - middle, 0, 1).sum() > k else (low, middle)
    return (vectors * np.clip(values - low, 0, 1)) @ vectors.T


def primal_dual(S, k, penalty, steps):
    """Chambolle and Pock 2011: another method, for another form (a saddle point) of the same problem."""
    X = Z = np.zeros_like(S)
    ahead = X
    t = 1.0 / np.abs(S).max()
    for _ in range(steps):
        Z = np.clip(Z + ahead / t * 0.99, -penalty, penalty)
        new = by_bisection(X - t * (Z - S), k)
        ahead, X = 2 * new - X, new
    return X


def sparse_case(p, s, k, noise, seed):
    rng = np.random.default_rng(seed)
    V = np.zeros((p, k))
    support = np.sort(rng.choice(p, s, replace=False))
    V[support] = np.linalg.qr(rng.normal(size=(s, k)))[0]
    N = rng.normal(size=(p, p))
    return V @ V.T / k + noise * (N + N.T) / np.sqrt(2), V.T, support


def objective(S, X, penalty):
    return np.sum(S * X) - penalty * np.abs(X).sum()


@given(st.integers(0, 10**6), st.integers(1, 7), st.floats(1e-3, 1e3))
def test_projection(seed, k, size):
    A = np.random.default_rng(seed).normal(size=(7, 7)) * size
    A = (A + A.T) / 2
    P = project_fantope(A, k)
    assert pytest.approx(k, abs=1e-9) == np.trace(P)
    values = np.linalg.eigvalsh(P)
    assert values.min() > -1e-9
    assert values.max() < 1 + 1e-9
    assert pytest.approx(by_bisection(A, k), abs=1e-8) == P


def test_projection_of_points_inside_and_of_ties():
    inside = np.diag([0.5, 0.5, 1.0])
    assert project_fantope(inside, 2) == pytest.approx(inside)
    assert project_fantope(np.zeros((4, 4)), 1) == pytest.approx(np.eye(4) / 4)
    assert project_fantope(np.eye(3) * 9, 3) == pytest.approx(np.eye(3))
    assert np.clip(np.full(5, 2.0) - fantope_threshold(np.full(5, 2.0), 2), 0, 1).sum() == pytest.approx(2)


@pytest.mark.parametrize(("k", "penalty"), [(1, 0.05), (3, 0.04)])
def test_the_solution_is_that_of_another_solver(k, penalty):
    """p = 40: the matrices agree to 1e-4 entry by entry, the objectives to 1e-6."""
    S, _, _ = sparse_case(40, 8, k, 0.02, seed=k)
    found = fantope_admm(S, k, penalty, tolerance=1e-8, max_iterations=20_000)
    reference = primal_dual(S, k, penalty, 1200)
    assert np.abs(found.projector - reference).max() < 1e-4
    assert objective(S, project_fantope(found.projector, k), penalty) == pytest.approx(
        objective(S, reference, penalty), abs=1e-6
    )
    assert found.converged
    assert -1e-12 < found.gap < 1e-6


def test_a_wrong_penalty_would_be_noticed():
    S, _, _ = sparse_case(40, 8, 3, 0.02, seed=3)
    assert np.abs(fantope_admm(S, 3, 0.0105).projector - primal_dual(S, 3, 0.01, 300)).max() > 1e-3


def test_screening_changes_nothing(monkeypatch):
    S, _, _ = sparse_case(60, 6, 2, 0.01, seed=5)
    penalty = 0.03
    screened = fantope_admm(S, 2, penalty, tolerance=1e-8)
    assert len(fantope._linked((S + S.T) / 2, penalty)) < 30  # most columns were left out
    monkeypatch.setattr(fantope, "_linked", lambda matrix, penalty: np.arange(len(matrix)))
    whole = fantope_admm(S, 2, penalty, tolerance=1e-8)
    assert screened.projector == pytest.approx(whole.projector, abs=1e-5)


def test_the_partial_eigensolver_changes_nothing(monkeypatch):
    S, _, _ = sparse_case(120, 6, 2, 0.0005, seed=6)
    whole = fantope_admm(S, 2, 0.001, tolerance=1e-6)
    used = []
    partial = fantope._Admm._partial

    def counted(self, *matrices):
        used.append(partial(self, *matrices))
        return used[-1]

    monkeypatch.setattr(fantope, "_DENSE", 20)
    monkeypatch.setattr(fantope, "_NARROW", 3)
    monkeypatch.setattr(fantope._Admm, "_partial", counted)
    some = fantope_admm(S, 2, 0.001, tolerance=1e-6)
    assert sum(result is not None for result in used) > 3  # it really was used
    assert some.projector == pytest.approx(whole.projector, abs=1e-4)


def test_single_precision_is_good_enough_for_loose_tolerances(monkeypatch):
    S, _, _ = sparse_case(80, 8, 3, 0.005, seed=8)
    fine = fantope_admm(S, 3, 0.004, tolerance=1e-4)
    monkeypatch.setattr(fantope, "_DENSE", 20)
    rough = fantope_admm(S, 3, 0.004, tolerance=1e-4)
    assert rough.converged
    assert rough.projector == pytest.approx(fine.projector, abs=2e-3)
    assert rough.gap == pytest.approx(fine.gap, abs=1e-4)


def test_no_penalty_is_plain_pca():
    S, _, _ = sparse_case(20, 8, 3, 0.01, seed=2)
    plain = np.linalg.eigh(S)[1][:, -3:].T
    assert projection_distance(fantope_admm(S, 3, 0.0).components, plain) < 1e-3


def test_a_huge_penalty_leaves_the_largest_variances():
    S = np.diag([5.0, 1.0, 4.0, 2.0]) + 0.1
    found = fantope_admm(S, 2, 0.5)
    assert found.support.tolist() == [0, 2]
    assert np.abs(found.components).sum(axis=0) == pytest.approx([1, 0, 1, 0])


def test_support_recovery_beats_plain_components_at_the_same_noise():
    """p = 400, k = 10, s = 20: the 20 columns with the longest loadings; noise on which plain PCA finds next to none.

    Averages of two cases; without noise both find all.
    """
    right, plain, errors = [], [], []
    for seed in range(2):
        S, V, support = sparse_case(400, 20, 10, 0.01, seed)
        penalty = 0.5 * 0.01 * np.sqrt(np.log(400))
        found = fantope_admm(S, 10, penalty, tolerance=1e-2)
        top = np.linalg.eigh(S)[1][:, -10:].T
        for rows, hits in ((found.components, right), (top, plain)):
            chosen = np.argsort(-np.linalg.norm(rows, axis=0))[:20]
            hits.append(len(set(chosen) & set(support)))
        errors.append((projection_distance(found.components, V), projection_distance(top, V)))
    assert np.mean(right) > np.mean(plain) + 3
    ours, theirs = np.mean(errors, axis=0)
    assert ours < 0.75 * theirs


@pytest.mark.parametrize(
    ("change", "words"),
    [({"k": 0}, "k"), ({"k": 9}, "k"), ({"penalty": -1.0}, "penalty"), ({"matrix": np.ones((2, 3))}, "square"),
     ({"matrix": np.full((4, 4), np.nan)}, "finite"), ({"tolerance": 0.0}, "tolerance")],
)  # fmt: skip
def test_bad_calls_are_named(change, words):
    with pytest.raises(ValueError, match=words):
        fantope_admm(**{"matrix": np.eye(4), "k": 1, "penalty": 0.1, **change})
