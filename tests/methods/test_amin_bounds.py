"""Bounds of Amin et al. 2019: they hold where they are proven, and say what the paper prints."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen.papers import amin
from dpeigen.privacy import sample_bingham


def psd(seed, d=4, n=200):
    rows = np.random.default_rng(seed).normal(size=(n, d)) / np.arange(1, d + 1)
    rows /= np.linalg.norm(rows, axis=1).max()
    return rows.T @ rows


def ridge(C, target, penalty):
    keep = np.delete(np.arange(len(C)), target)
    return np.linalg.solve(C[np.ix_(keep, keep)] + penalty * np.eye(len(keep)), C[keep, target])


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_lemma_1_bounds_every_regression(alpha):
    rng, n = np.random.default_rng(1), 200
    for seed in range(20):
        C = psd(seed)
        noise = rng.normal(size=C.shape) * 3
        other = C + noise + noise.T
        for target in range(len(C)):
            off = np.linalg.norm(ridge(C, target, 2 * alpha * n) - ridge(other, target, 2 * alpha * n))
            assert off <= amin.lemma_1(C, other, target, alpha, n) * (1 + 1e-9)


def test_lemma_1_is_written_as_printed():
    C, other = np.diag([4.0, 2.0]), np.array([[4.0, 1.0], [1.0, 2.0]])
    w = 1.0 / (4.0 + 2 * 0.5 * 3)
    assert amin.lemma_1(C, other, 1, 0.5, 3) == pytest.approx((1 + w) / (2 + 3))


def test_lemma_3_holds_and_is_not_loose():
    noise = np.random.default_rng(2).laplace(scale=2.0, size=(20_000, 5))
    above = np.mean(np.abs(noise).max(axis=1) >= amin.lemma_3(2.0, 1.0, 5, 0.1))
    assert 0.08 < above <= 0.103  # 1 − (1 − β/k)^k; the deviation of the mean is 0.002


def test_lemma_4_is_false_as_printed_and_its_other_form_is_not():
    m, tau = 1e-4, 2.0  # all other outcomes are worse by a little more than τ; ε = 2, Δ = 1
    missed = (1 - m) * math.exp(-tau) / (m + (1 - m) * math.exp(-tau))
    assert amin.lemma_4(2.0, 1.0, tau, m) < missed <= amin.lemma_4_proven(2.0, 1.0, tau, m)


@pytest.mark.parametrize(("d", "epsilon"), [(3, 0.5), (6, 2.0)])
def test_lemma_5_with_its_constants_holds(d, epsilon):
    """2,000 draws at 5%: at most 150 exceptions (false alarm below 1e-6)."""
    C = np.diag(np.linspace(120.0, 5.0, d))
    u = sample_bingham(epsilon / 4 * C, size=2000, random_state=0)
    lost = 120.0 - np.einsum("ij,jk,ik->i", u, C, u)
    stated = amin.lemma_5_proven(d, 120.0, epsilon, 0.05)
    assert np.count_nonzero(lost > stated) <= 150
    assert stated < 8 * np.quantile(lost, 0.95)
    assert amin.lemma_5(d, 120.0, epsilon, 0.05) == pytest.approx((d * math.log(120) + math.log(20)) / epsilon)
    with pytest.raises(ValueError, match="'top' parameter of lemma_5"):
        amin.lemma_5(d, 0.5, epsilon, 0.05)


def test_lemma_6_holds_and_is_sharp_for_exact_eigenvalues():
    rng = np.random.default_rng(3)
    for seed in range(20):
        C = psd(seed)
        values = np.linalg.eigvalsh(C)[::-1]
        rows = np.linalg.qr(rng.normal(size=C.shape))[0].T
        rebuilt = (rows.T * values) @ rows
        assert np.linalg.norm(C - rebuilt) == pytest.approx(amin.lemma_6(C, rows, 0.0))
        off = rng.uniform(-3, 3, size=len(C))
        assert np.linalg.norm(C - (rows.T * (values + off)) @ rows) <= amin.lemma_6(C, rows, 3.0) * (1 + 1e-9)
    with pytest.raises(ValueError, match="4 orthonormal rows"):
        amin.lemma_6(C, np.ones((4, 4)), 0.0)


def test_theorem_2_and_its_corollaries_as_printed():
    values, epsilons = np.array([50.0, 10.0, 2.0]), np.array([0.2, 0.2, 0.1])
    assert amin.theorem_2(values, 0.5, epsilons) == pytest.approx(math.sqrt(3 * (250 + 50 + 20)) + math.sqrt(3) / 0.5)
    assert amin.theorem_2(values, 0.5, epsilons[:1]) == pytest.approx(math.sqrt(3 * 250) + math.sqrt(3) / 0.5)
    tau, split = amin.corollary_1_split(values, 1.0, beta=0.1)
    weights = np.sqrt(values + tau)
    assert tau == pytest.approx(4 * math.log(60))
    np.testing.assert_allclose(split, 0.5 * weights / weights.sum())
    assert amin.corollary_1([3.0, -1.0], 2.0) == pytest.approx(math.sqrt(3.5) + math.sqrt(0.5) + math.sqrt(2) / 2)
    assert amin.corollary_2(10, 1.0, 0.5) == pytest.approx(8000 * math.log(20))
    assert amin.kapralov_talwar_condition(10, 1.0, 0.5) == pytest.approx(1e4 * 64)
    assert amin.gaussian_mechanism(4, 2.0, 1e-4) == pytest.approx(4 * math.sqrt(math.log(1e4)))
    with pytest.raises(ValueError, match="'eigenvalues' parameter of theorem_2"):
        amin.theorem_2([1.0, 2.0], 0.5, [0.1, 0.1])
    with pytest.raises(ValueError, match="'epsilons' parameter of theorem_2_proven"):
        amin.theorem_2_proven(values, 0.5, [0.1], 0.05)


def test_theorem_2_with_its_constants_holds():
    """100 runs of Algorithm 1 at 95%: at most 20 exceptions (false alarm 1e-6)."""
    rng, d, epsilon0 = np.random.default_rng(4), 4, 2.0
    values = np.array([900.0, 300.0, 60.0, 5.0])
    C, epsilons = np.diag(values), np.full(d, 0.5)
    stated, exceeded = amin.theorem_2_proven(values, epsilon0, epsilons, 0.05), 0
    for seed in range(100):
        P, rows = np.eye(d), []
        for e in epsilons:
            u = sample_bingham(e / 4 * P @ C @ P.T, random_state=seed * 7 + len(rows))[0]
            rows.append(P.T @ u)
            P = np.linalg.svd(np.array(rows))[2][len(rows) :]
        noisy = values + rng.laplace(scale=2 / epsilon0, size=d)
        rebuilt = sum(v * np.outer(u, u) for v, u in zip(noisy, rows, strict=True))
        exceeded += np.linalg.norm(C - rebuilt) > stated
    assert exceeded <= 20
    assert stated < np.linalg.norm(values)  # it says more than that zeros would do
