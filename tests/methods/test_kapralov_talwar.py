"""Kapralov–Talwar: against a slow version of itself, its noise and budgets, an audit, and what deflation must do.

Audits have confidence 1 − 1e-6. What follows from the sampler, the accountant and the shared shares is tested in
tests/privacy and in tests/methods/test_eigenvector_sampling.py, which runs over this method too.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.auditing.events import audit
from dpeigen.curator import DataCurator, Purpose
from dpeigen.methods import KapralovTalwar
from dpeigen.methods.base import run_method
from dpeigen.methods.sampling.base import SamplingMethod
from dpeigen.privacy import Budget, ConcentratedCost, GaussianCost, PureCost, sample_bingham
from dpeigen.privacy.noise import perturb
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.questions import spectrum
from dpeigen.questions.spectrum import VALUE_GRID
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame, Lattice, SecondMoment, project_eigenvalues
from dpeigen.stats.lattice import LEVELS

CONFIDENCE = 1 - 1e-6
RELATIONS = ["replace", "add_remove"]


def table(*counts):
    return np.repeat(np.eye(len(counts)), counts, axis=0)


class Recording(SeededRandomness):
    """Remembers the scales it was asked for."""

    def __init__(self, seed):
        super().__init__(np.random.default_rng(seed))
        self.scales = []

    def discrete_laplace(self, scale, size):
        self.scales.append(("laplace", scale, size))
        return super().discrete_laplace(scale, size)

    def discrete_gaussian(self, scale, size):
        self.scales.append(("gaussian", scale, size))
        return super().discrete_gaussian(scale, size)


class Exact(Recording):
    """No noise on the values."""

    def discrete_laplace(self, scale, size):
        return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize("k", [1, 2])  # with more, last bits decide about the signs of eigenvectors
@pytest.mark.parametrize("constants", ["sharp", "published"])
def test_it_is_the_slow_version_of_itself(k, constants, tools):
    """The same draws in the same order: u from the residual, a noisy uᵀRu, subtract, and the spectrum of the sum."""
    method, rows, lattice = KapralovTalwar(constants=constants), table(30, 12, 5, 1), Lattice(Frame(4), 1.0)
    matrix = SecondMoment(lattice).update(rows).gram / LEVELS**2
    np.testing.assert_allclose(matrix, np.diag([30.0, 12.0, 5.0, 1.0]), atol=1e-3)  # but for the lattice
    task = tools.task(rows, epsilon=2.0, k=k)
    spent = PureCost(0.5 if constants == "published" else 1.0)  # printed for 1.0, and worth half of it
    costs = {Purpose.EIGENVALUES: spent, Purpose.EIGENVECTORS: spent}
    curator = DataCurator(ArraySource(rows), task.relation, costs, Budget(2.0), tools.seeded(8))
    components, values, left, *_ = method.ask(curator, lattice, 48.0, costs, task)
    rng, rebuilt = tools.seeded(8), np.zeros((4, 4))
    c, reach = (0.25, 2.0) if constants == "published" else (0.5, 1.0)
    for _ in range(k):
        residual = matrix - rebuilt
        u = sample_bingham(c / k * residual / (1 + method.allowance(task)) * (1 - 2**-40), random_state=rng)[0]
        steps = reach * (VALUE_GRID * (1 + method.allowance(task)) + 1)
        exact = np.array([round(float(u @ residual @ u) * VALUE_GRID)], dtype=object)
        noisy = perturb(exact, PureCost(1.0 / k * (1 - 2**-40)), l2=steps, l1=steps, rng=rng)
        rebuilt += float(noisy[0]) / VALUE_GRID * np.outer(u, u)
    expected = np.sort(project_eigenvalues(np.linalg.eigvalsh(rebuilt), trace=48.0))[::-1][:k]
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
    assert left == 0.0
    for u, value in zip(components, np.sort(np.linalg.eigvalsh(rebuilt))[::-1], strict=False):
        np.testing.assert_allclose(rebuilt @ u, value * u, atol=1e-6)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("constants", ["sharp", "published"])
@pytest.mark.parametrize("k", [1, 3])
def test_every_value_has_the_noise_of_its_own_share(relation, constants, k, tools):
    if constants == "published" and relation == "add_remove":
        pytest.skip("refused")
    task = tools.task(table(9, 5, 3), epsilon=2.0, relation=relation, k=k)
    method, rng = KapralovTalwar(constants=constants), Recording(1)
    run_method(method, ArraySource(table(9, 5, 3)), task, rng)
    scales = [scale for kind, scale, size in rng.scales][-k:]
    sensitivity = 2.0 if constants == "published" else 1.0
    expected = sensitivity * VALUE_GRID * k / KapralovTalwar().shares(task)[Purpose.EIGENVALUES].epsilon
    assert method.shares(task)[Purpose.EIGENVALUES].epsilon == pytest.approx(
        k * VALUE_GRID / expected, rel=1e-9
    )  # is recorded
    assert len(scales) == k
    for scale in scales:
        assert expected < scale < expected * (1 + method.allowance(task) + 1e-9)


def test_with_delta_the_steps_split_squares(tools):
    task = tools.task(table(9, 5, 3, 2), epsilon=1.0, delta=1e-6)
    method, rng = KapralovTalwar(), Recording(1)
    costs = method.shares(task)
    assert isinstance(costs[Purpose.EIGENVECTORS], ConcentratedCost)
    assert isinstance(costs[Purpose.EIGENVALUES], GaussianCost)
    run_method(method, ArraySource(table(9, 5, 3, 2)), task, rng)
    assert [kind for kind, _, _ in rng.scales] == ["gaussian"] * 4
    spent = math.fsum((VALUE_GRID / scale) ** 2 for _, scale, _ in rng.scales)
    assert costs[Purpose.EIGENVALUES].mu ** 2 * (1 - 1e-6) < spent <= costs[Purpose.EIGENVALUES].mu ** 2


def test_deflation_finds_the_matrix_without_noise(tools):
    """Sharp draws, exact values: the residual after d steps is what the last directions missed."""
    rows = table(900, 90, 9)
    task = tools.task(rows, epsilon=1e7)
    found = run_method(KapralovTalwar(), ArraySource(rows), task, Exact(3))
    np.testing.assert_allclose(found.covariance, rows.T @ rows / len(rows), atol=2e-3)
    # twin: a method that forgets to deflate draws the first direction again and again
    assert np.linalg.matrix_rank(found.covariance, tol=1e-3) == 3


def prove(tools, first, second, runs, rng=None, **options):
    """Lower bound on ε from one value and one direction, and the claim."""
    method, task = KapralovTalwar(), tools.task(table(*first), k=1, **options)
    costs = method.shares(task)
    fixed = type("Fixed", (KapralovTalwar,), {"shares": lambda self, task: costs})()

    def run(data, count):
        public = tools.task(table(*data), k=1, **options)
        draws = tools.seeded([92, *data]) if rng is None else rng([92, *data])
        found = (run_method(fixed, ArraySource(table(*data)), public, draws) for _ in range(count))
        return np.stack([[e.components[0, 0] ** 2, e.eigenvalues[0] * e.n_rows, e.n_rows] for e in found])

    result = audit(run, first, second, runs=runs, confidence=CONFIDENCE)
    return result.epsilon_lower, math.fsum(c.epsilon for c in costs.values())


NEIGHBOURS = {"replace": ((12, 0), (11, 1)), "add_remove": ((12, 0), (11, 0))}


@pytest.mark.mostly_slow(fast=1)
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_audit_proves_more_than_is_claimed_and_too_little_noise_is_caught(relation, tools):
    proven, claim = prove(tools, *NEIGHBOURS[relation], runs=1500, epsilon=2.5, relation=relation)
    assert 0.05 * claim < proven <= claim
    caught, claim = prove(
        tools, *NEIGHBOURS[relation], runs=1500, epsilon=2.5, relation=relation, rng=lambda s: tools.faulty(s, 0.06)
    )
    assert caught > claim


@pytest.mark.slow
def test_the_audit_catches_directions_that_are_too_sharp(tools, monkeypatch):
    right = SamplingMethod.concentration
    monkeypatch.setattr(SamplingMethod, "concentration", lambda self, task: 8 * right(self, task))
    with pytest.raises(AssertionError, match="worth more than what pays for them"):
        prove(tools, (30, 30), (29, 31), runs=1500, epsilon=2.0)
    monkeypatch.setattr(spectrum, "check_draws", lambda *facts: None)
    caught, claim = prove(tools, (30, 30), (29, 31), runs=1500, epsilon=2.0)
    assert caught > claim


def test_the_estimator_takes_it_by_name():
    pca = PrivatePCA(1, epsilon=50.0, method="kapralov-talwar", bound=1.0, center=None).fit(table(500, 20, 3))
    assert pca.guarantee_.mechanism == "kapralov-talwar"
    assert pca.guarantee_.reference == "Kapralov and Talwar 2013"
    assert {s.purpose for s in pca.guarantee_.split} == {Purpose.EIGENVALUES, Purpose.EIGENVECTORS}
    assert abs(pca.components_[0, 0]) > 0.9  # 1 − u₁² is about Exp(25·480)
