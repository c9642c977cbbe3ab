"""From counts to a bound on ε: against closed forms, and never above the truth."""

from __future__ import annotations

import math

import pytest
from scipy.special import ndtr, ndtri

from dpeigen.auditing.claims import Claim
from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    ConcentratedCost,
    GaussianCost,
    PureCost,
    Spend,
    compose,
    gaussian_epsilon,
    gaussian_mu,
)


def claim(budget, *costs):
    return Claim(budget, tuple(Spend(str(i), "", cost) for i, cost in enumerate(costs)))


def test_pure_claims_are_judged_by_the_ratio():
    stated = claim(Budget(1.0), PureCost(0.4), PureCost(0.6))
    found = stated.judge(0.5, 0.5 / math.exp(0.9))
    assert found.plain == pytest.approx(0.9)
    assert found.fitted == pytest.approx(0.9, rel=1e-6)
    assert not found.refuted
    assert stated.judge(0.5, 0.5 / math.exp(1.01)).refuted


@pytest.mark.parametrize("part", [0.5, 0.99, 1.01, 2.0])
def test_gaussian_claims_are_judged_by_mu(part):
    mu = gaussian_mu(2.0, 1e-6)
    stated = claim(Budget(2.0, 1e-6), GaussianCost(0.6 * mu), GaussianCost(0.8 * mu))
    p = 0.7
    found = stated.judge(p, float(ndtr(ndtri(p) - part * mu)))
    assert found.refuted == (part > 1)
    assert found.fitted == pytest.approx(gaussian_epsilon(1e-6, part * mu), rel=1e-6)
    assert found.plain < 2.0  # the plain bound shows little of a Gaussian's ε


def test_mixed_claims_are_scaled_as_a_whole():
    spends = [GaussianCost(0.5), PureCost(0.3)]
    epsilon = compose([Spend("", "", c) for c in spends], 1e-6)
    stated = claim(Budget(epsilon, 1e-6), *spends)
    # An event that the Gaussian part alone can have is not refuted; one far beyond both is.
    p = 0.6
    inside = stated.judge(p, float(ndtr(ndtri(p) - 0.5)))
    assert not inside.refuted
    assert 0 < inside.fitted < epsilon
    beyond = stated.judge(p, float(ndtr(ndtri(p) - 1.5)))
    assert beyond.refuted
    assert beyond.fitted > epsilon


def test_concentrated_and_bare_claims():
    assert claim(Budget(3.0, 1e-6), ConcentratedCost(0.05)).judge(0.9, 0.01).refuted
    assert not claim(Budget(3.0, 1e-6), ConcentratedCost(0.05)).judge(0.3, 0.25).refuted
    bare = claim(Budget(1.0, 0.01), ApproximateCost(1.0, 0.01))
    assert bare.judge(0.5, 0.2).plain == pytest.approx(math.log(0.49 / 0.2))
    assert bare.judge(0.5, 0.2).fitted == pytest.approx(math.log(0.49 / 0.2), rel=1e-6)
    assert bare.judge(0.5, 0.1).refuted


@pytest.mark.parametrize(("p", "q"), [(0.0, 0.5), (0.3, 0.3), (0.2, 0.9), (1e-7, 1e-9)])
def test_an_event_that_says_nothing(p, q):
    found = claim(Budget(1.0, 1e-6), GaussianCost(0.2)).judge(p, q)
    if p <= q:
        assert found.epsilon == 0.0
    assert found.plain == 0.0


def test_an_impossible_event_refutes_everything():
    for cost, budget in ((PureCost(1.0), Budget(1.0)), (GaussianCost(0.3), Budget(1.2, 1e-6))):
        assert claim(budget, cost).judge(0.999, 1e-30).refuted
