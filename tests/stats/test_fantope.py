"""Fantope projection and selection against independent slow solvers, its certificate, and what it is for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeigen.stats import admm, fantope, fantope_admm, project_fantope, projection_distance, working_set
from dpeigen.stats.fantope import fantope_threshold
from dpeigen.stats.screening import kept_columns


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


def noisy_diagonal(p, seed, spread=1.0):
    """Noise with variances on the diagonal that differ: a few columns stand out, and links between them are noise."""
    rng = np.random.default_rng(seed)
    N = np.triu(rng.normal(size=(p, p)))
    return N + np.triu(N, 1).T + np.diag(spread * rng.normal(size=p))


def whole_problem(monkeypatch):
    """No column is left out."""
    monkeypatch.setattr(fantope, "kept_columns", lambda matrix, k, penalty: (np.arange(len(matrix)), np.arange(0)))
    monkeypatch.setattr(working_set, "_SMALL", 10**9)


@pytest.mark.parametrize(("case", "k", "penalty"), [("sparse", 2, 0.03), ("noise", 3, 2.2), ("noise", 1, 2.6)])
def test_screening_changes_nothing(monkeypatch, case, k, penalty):
    S = sparse_case(60, 6, 2, 0.01, seed=5)[0] if case == "sparse" else noisy_diagonal(40, 7)
    joined, single = kept_columns((S + S.T) / 2, k, penalty)
    assert len(joined) + len(single) < len(S)  # some columns were left out
    screened = fantope_admm(S, k, penalty, tolerance=1e-8, max_iterations=20_000)
    whole_problem(monkeypatch)
    whole = fantope_admm(S, k, penalty, tolerance=1e-8, max_iterations=20_000)
    assert screened.projector == pytest.approx(whole.projector, abs=1e-5)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0.5, 3.0))
def test_columns_left_out_are_zero_in_the_solution_of_the_whole_problem(seed, k, penalty):
    S = noisy_diagonal(14, seed)
    joined, single = kept_columns(S, k, penalty)
    kept = np.union1d(joined, single)
    assert len(kept) >= k
    whole = admm.Admm(S, np.zeros(0), k, penalty)
    whole.run(1e-6, 1000)
    value = whole.objective()
    part = admm.Admm(S[np.ix_(kept, kept)], np.zeros(0), k, penalty)
    part.run(1e-6, 1000)
    assert part.objective() >= value - 1e-4 * max(1.0, abs(value))  # nothing is lost by leaving the others out


def test_a_part_that_pays_is_never_left_out():
    """Two weak columns with a strong link beat four strong single ones; with a weaker link they do not."""
    S = np.diag([3.0, 2.9, 2.8, 2.7, 1.0, 1.0])
    S[4, 5] = S[5, 4] = 4.0
    assert kept_columns(S, 1, 0.5)[0].tolist() == [4, 5]
    assert fantope_admm(S, 1, 0.5).support.tolist() == [4, 5]
    S[4, 5] = S[5, 4] = 1.5
    assert kept_columns(S, 1, 0.5)[0].tolist() == []
    assert fantope_admm(S, 1, 0.5).support.tolist() == [0]


@pytest.mark.parametrize("k", [1, 2])
def test_the_working_set_changes_nothing(monkeypatch, k):
    """Noise with about 1.7 links a column: nearly all hang together, and few are in the solution."""
    S, penalty = noisy_diagonal(160, 3, 6.0), 2.55
    used = []
    inner = working_set._bound
    monkeypatch.setattr(working_set, "_SMALL", 20)
    monkeypatch.setattr(working_set, "_FIRST", 12)
    monkeypatch.setattr(working_set, "_bound", lambda *given: used.append(len(given[1])) or inner(*given))
    some = fantope_admm(S, k, penalty, tolerance=1e-5, max_iterations=1000)
    assert used
    assert used[-1] < 54  # most columns were never looked at
    whole_problem(monkeypatch)
    whole = fantope_admm(S, k, penalty, tolerance=1e-5, max_iterations=1000)
    assert some.projector == pytest.approx(whole.projector, abs=1e-3)
    assert -1e-6 < some.gap < 1e-3 * np.abs(S).max()  # and the certificate is one of all columns


def test_the_bound_over_all_columns_sees_a_column_that_is_missing():
    """A working set without the columns that matter: the bound is far above, and names them."""
    S = noisy_diagonal(80, 4, 0.1)
    S[70, 71] = S[71, 70] = 12.0
    soft, working = working_set._thresholded(S, 1.0), np.arange(30)
    core = admm.Admm(S[:30, :30], np.zeros(0), 1, 1.0)
    core.run(1e-6, 2000)
    bound, more = working_set._bound(soft, working, core)
    assert bound > core.bound() + 1
    assert {70, 71} <= set(more.tolist())


def test_the_partial_eigensolver_changes_nothing(monkeypatch):
    S, _, _ = sparse_case(120, 6, 2, 0.0005, seed=6)
    whole = fantope_admm(S, 2, 0.001, tolerance=1e-6)
    used = []
    partial = admm.Admm._partial

    def counted(self, *matrices):
        used.append(partial(self, *matrices))
        return used[-1]

    monkeypatch.setattr(admm, "_DENSE", 20)
    monkeypatch.setattr(admm, "_NARROW", 3)
    monkeypatch.setattr(admm.Admm, "_partial", counted)
    some = fantope_admm(S, 2, 0.001, tolerance=1e-6)
    assert sum(result is not None for result in used) > 3  # it really was used
    assert some.projector == pytest.approx(whole.projector, abs=1e-4)


def test_single_precision_is_good_enough_for_loose_tolerances(monkeypatch):
    S, _, _ = sparse_case(80, 8, 3, 0.005, seed=8)
    fine = fantope_admm(S, 3, 0.004, tolerance=1e-4)
    monkeypatch.setattr(admm, "_DENSE", 20)
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
