"""Black-box privacy audits of whole methods and estimators on their worst neighbouring data sets.

Each audit runs a mechanism end to end, from rows to released numbers, thousands of times on two neighbours. The lower
bounds it proves hold with confidence 1 − 1e-6: that is the false-alarm probability of every "not violated" below. The
same audit must catch the same mechanism with less noise, or with sensitivity 1 for √2. Generators are seeded for speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.auditing.events import audit
from dpeigen.methods import Estimate, Gaussian, Laplace, MatrixLaplace, Method, SpatialSign
from dpeigen.methods.base import run_method
from dpeigen.privacy import GaussianCost
from dpeigen.sources import ArraySource
from dpeigen.stats import SecondMoment

CONFIDENCE = 1 - 1e-6
RUNS = 5000
APPROXIMATE = {"epsilon": 5.0, "delta": 1e-6}  # μ about 1
PURE = {"epsilon": 2.0}
E1, E2 = [1.0, 0.0], [0.0, 1.0]


def rows(row, n, *inner):
    """n − 1 fixed rows ± inner, which keep the moment away from its edges, and the one that differs, if any."""
    inner = np.array(inner, dtype=float)
    base = np.resize(np.vstack([inner, -inner]), (n - 1, inner.shape[1]))
    return base if row is None else np.vstack([base, [row]])


def covariance(e: Estimate):
    return e.covariance[np.triu_indices(len(e.covariance))]


def sums(e: Estimate):
    """The noisy moment and count of one column."""
    return [e.covariance[0, 0] * e.n_rows, e.n_rows]


def centred(e: Estimate):
    return [e.covariance[0, 0], e.mean[0]]


def direction(e: Estimate):
    return [e.components[0, 0] ** 2]


def mean(e: Estimate):
    return e.mean


@dataclass(frozen=True)
class Case:
    """A mechanism, two neighbours, what is looked at, and which shares of the budget that can cost."""

    name: str
    method: Method
    first: Any
    second: Any
    read: Callable[[Estimate], Any]
    purposes: tuple[str, ...]
    least: float  # part of the claim that the audit must be able to prove: it is not idle
    options: dict[str, Any] = field(default_factory=dict)
    factor: float = 0.7  # of the noise, in the twin

    def claim(self, tools) -> float:
        """μ or ε of the shares that are looked at."""
        costs = self.method.shares(tools.task(self.first, **self.options))
        assert set(self.purposes) <= set(costs)
        costs = [costs[p] for p in self.purposes]
        if isinstance(costs[0], GaussianCost):
            return math.sqrt(math.fsum(c.mu**2 for c in costs))
        return math.fsum(c.epsilon for c in costs)

    def prove(self, tools, runs, factor=None) -> float:
        """The largest lower bound on μ or ε that the audit can prove."""
        task = tools.task(self.first, **self.options)
        costs = self.method.shares(task)
        # The split is public and the same in every run: computed once.
        fixed = type("Fixed", (type(self.method),), {"shares": lambda self, task: costs})()

        def run(data, count):
            label, data = data
            seed = [label, *map(ord, self.name)]
            rng = tools.seeded(seed) if factor is None else tools.faulty(seed, factor)
            public = tools.task(data, **self.options)
            return np.stack([self.read(run_method(fixed, ArraySource(data), public, rng)) for _ in range(count)])

        result = audit(run, (1, self.first), (2, self.second), runs=runs, confidence=CONFIDENCE)
        return result.mu_lower if self.options.get("delta") else result.epsilon_lower


SMALL = ([0.6, 0.0], [0.0, 0.6])
APART = {"relation": "add_remove"}
CASES = [
    Case("gaussian", Gaussian(), rows(E1, 100, *SMALL), rows(E2, 100, *SMALL), covariance, ("second moment",), 0.6,
         APPROXIMATE),
    Case("gaussian-one-column", Gaussian(), rows([1.0], 20, [0.7]), rows([0.0], 20, [0.7]), covariance,
         ("second moment",), 0.6, APPROXIMATE),
    Case("gaussian-add-remove", Gaussian(), rows([1.0], 1000, [0.5]), rows(None, 1000, [0.5]), sums,
         ("second moment", "number of rows"), 0.6, APPROXIMATE | APART),
    Case("gaussian-centre", Gaussian(), rows([1.0], 100, [0.5]), rows([-1.0], 100, [0.5]), centred, ("second moment",),
         0.5, APPROXIMATE | {"center": "private"}, factor=0.5),
    Case("laplace", Laplace(), rows([1.0], 2, [0.0]), rows([0.0], 2, [0.0]), covariance, ("second moment",), 0.6, PURE),
    Case("laplace-three-columns", Laplace(), rows([1.0, 0, 0], 100, *np.eye(3) / 2),
         rows([0, 1.0, 0], 100, *np.eye(3) / 2), covariance, ("second moment",), 0.1, PURE, factor=0.2),
    Case("laplace-add-remove", Laplace(), rows([1.0], 1000, [0.5]), rows(None, 1000, [0.5]), sums,
         ("second moment", "number of rows"), 0.6, PURE | APART),
    Case("matrix-laplace", MatrixLaplace(), rows(E1, 100, *SMALL), rows(E2, 100, *SMALL), covariance,
         ("second moment",), 0.3, PURE, factor=0.3),
    Case("matrix-laplace-one-column", MatrixLaplace(), rows([1.0], 2, [0.0]), rows([0.0], 2, [0.0]), covariance,
         ("second moment",), 0.6, PURE),
    Case("matrix-laplace-add-remove", MatrixLaplace(), rows([1.0], 1000, [0.5]), rows(None, 1000, [0.5]), sums,
         ("second moment", "number of rows"), 0.6, PURE | APART),
    Case("spatial-sign", SpatialSign(), rows(E1, 2, [0.0, 0.0]), rows(E2, 2, [0.0, 0.0]), direction, ("directions",),
         0.6, APPROXIMATE | {"k": 1}),
    Case("spatial-sign-add-remove", SpatialSign(), rows(E1, 3, [0.0, 0.0]), rows(None, 3, [0.0, 0.0]), direction,
         ("directions",), 0.4, APPROXIMATE | APART | {"k": 1}, factor=0.45),
    Case("spatial-sign-pure", SpatialSign(), rows(E1, 2, [0.0, 0.0]), rows(E2, 2, [0.0, 0.0]), direction,
         ("directions",), 0.1, PURE | {"k": 1}, factor=0.1),
    Case("centre", SpatialSign(), rows([1.0], 10, [0.0]), rows([-1.0], 10, [0.0]), mean, ("centre",), 0.6,
         {"epsilon": 30.0, "delta": 1e-6, "center": "private"}),
    Case("centre-pure", SpatialSign(), rows([1.0], 10, [0.0]), rows([-1.0], 10, [0.0]), mean, ("centre",), 0.6,
         {"epsilon": 12.0, "center": "private"}),
    Case("centre-add-remove", SpatialSign(), rows([1.0], 10, [0.0]), rows(None, 10, [0.0]), mean, ("centre",), 0.4,
         {"epsilon": 30.0, "delta": 1e-6, "center": "private"} | APART, factor=0.5),
]  # fmt: skip


@pytest.mark.mostly_slow(fast=1, slow=3)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_no_audit_proves_more_than_is_claimed_and_less_noise_is_caught(case, tools):
    claim = case.claim(tools)
    assert case.least * claim < case.prove(tools, RUNS) <= claim
    assert case.prove(tools, RUNS, factor=case.factor) > claim


@pytest.mark.mostly_slow(fast=1)
@pytest.mark.parametrize("name", ["gaussian", "spatial-sign"])
def test_sensitivity_one_for_root_two_is_caught(name, tools, monkeypatch):
    (case,) = [c for c in CASES if c.name == name]
    monkeypatch.setattr(SecondMoment, "frobenius_sensitivity", lambda self, relation: self.squared_radius)
    assert case.prove(tools, RUNS) > case.claim(tools)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matrix-laplace", "laplace-three-columns"])
def test_a_sensitivity_far_too_small_is_caught(name, tools, monkeypatch):
    """These noises are worst far out in their tails, where no audit gets: it takes a fourth of the sensitivity."""
    (case,) = [c for c in CASES if c.name == name]
    right = {n: getattr(SecondMoment, n) for n in ("trace_sensitivity", "upper_sensitivity")}
    for sensitivity, function in right.items():
        monkeypatch.setattr(SecondMoment, sensitivity, lambda self, relation, f=function: f(self, relation) / 4)
    assert case.prove(tools, RUNS) > case.claim(tools)


# --- through the estimators ---------------------------------------------------------------------------------------


def fitted_covariance(data, rng):
    options = {"method": "gaussian", "bound": 1.0, "center": None, "shrink": False, **APPROXIMATE}
    estimator = PrivateCovariance(**options, random_state=rng).fit(data)
    return estimator, estimator.covariance_[np.triu_indices(2)]


def fitted_pca(data, rng):
    estimator = PrivatePCA(1, method="spatial-sign", bound=1.0, center=None, **APPROXIMATE, random_state=rng).fit(data)
    return estimator, estimator.components_[0, :1] ** 2


ESTIMATORS = [
    (fitted_covariance, "second moment", rows(E1, 100, *SMALL), rows(E2, 100, *SMALL)),
    (fitted_pca, "directions", rows(E1, 2, [0.0, 0.0]), rows(E2, 2, [0.0, 0.0])),
]


@pytest.mark.mostly_slow(fast=1, slow=0)
@pytest.mark.parametrize(("fit", "purpose", "first", "second"), ESTIMATORS, ids=["covariance", "pca"])
def test_what_a_fitted_estimator_shows_is_what_its_guarantee_says(fit, purpose, first, second, monkeypatch):
    seen, _ = fit(first, np.random.default_rng(0))
    (claim,) = [spend.cost.mu for spend in seen.guarantee_.split if spend.purpose == purpose]

    def prove():
        def run(data, count):
            rng = np.random.default_rng([77, int(10 * data[-1, 0])])
            return np.stack([fit(data, rng)[1] for _ in range(count)])

        return audit(run, first, second, runs=3000, confidence=CONFIDENCE).mu_lower

    assert 0.6 * claim < prove() <= claim
    monkeypatch.setattr(SecondMoment, "frobenius_sensitivity", lambda self, relation: self.squared_radius)
    assert prove() > claim
