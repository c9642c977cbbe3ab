"""The theorems of Kim and Jung 2025: eigenvalues against simulated rows, bounds against what they bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.evaluation import sin_theta
from dpeigen.methods import Kendall
from dpeigen.papers import kim_jung
from dpeigen.stats import kendall_tau
from dpeigen.stats.elliptical import breakdown_bound, sign_eigenvalues, subspace_error_bound, tau_eigenvalues
from dpeigen.stats.transform import Transform, redescending, winsorized_redescending

VARIANCES = np.array([10.0, 5.0, 1.0, 1.0])
TRANSFORMS = [Transform(), Transform("winsorized", 5.0), redescending(3.0), winsorized_redescending(3.0)]


def differences(tails, count=400_000, seed=0):
    """(x − y)/√2 of independent rows: normal, or multivariate t with its scale matrix."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(2, count, len(VARIANCES))) * np.sqrt(VARIANCES)
    if tails is not None:
        x, y = (rows / np.sqrt(rng.chisquare(tails, size=(count, 1)) / tails) for rows in (x, y))
    return (x - y) / math.sqrt(2)


@pytest.mark.parametrize("tails", [None, 1.0, 5.0])
def test_eigenvalues_of_tau_are_those_of_simulated_rows(tails):
    """400,000 pairs have a standard error below 0.001 of b²; five of them, and 0.002 for the quadrature.

    Twin: eigenvalues as if the rows were normal are far off for heavy tails.
    """
    w = differences(tails)
    s = np.linalg.norm(w, axis=1)
    for transform in TRANSFORMS:
        g = w * (transform.gains(s) / s)[:, None]
        seen = (g**2).mean(axis=0)
        found = tau_eigenvalues(VARIANCES, transform, tails=tails) / transform.unit
        np.testing.assert_allclose(found, seen, atol=0.007)
        if tails == 1.0 and transform.kind != "spherical":
            assert np.abs(tau_eigenvalues(VARIANCES, transform) / transform.unit - seen).max() > 0.02


@pytest.mark.parametrize("tails", [None, 5.0])
@pytest.mark.parametrize("radius", [0.5, 2.0, 5.0])
def test_winsorised_eigenvalues_lie_between_the_bounds_of_proposition_3_6(radius, tails):
    found = kim_jung.proposition_3_6(VARIANCES, radius, tails=tails)
    assert found.ratios.max() <= 1 + 1e-9
    assert found.ratios.min() >= found.least - 0.005
    w = differences(tails)
    seen = (np.linalg.norm(w / np.sqrt(VARIANCES), axis=1) ** 2 >= radius**2 / VARIANCES[-1]).mean()
    assert abs(found.least - seen) < 0.01


def test_rates_are_the_printed_formulas():
    """Worked out by hand: d = 4, φ = (0.5, 0.3, 0.1, 0.1), b = 1, n = 1000, ε = 1, δ = e⁻⁴, β = e⁻¹, m = 2."""
    facts = {"bound": 1.0, "n": 1000, "epsilon": 1.0, "delta": math.exp(-4), "failure": math.exp(-1)}
    phi = [0.5, 0.3, 0.1, 0.1]
    clean = kim_jung.theorem_3_2(phi, 2, **facts)
    assert math.isclose(clean.ratio, 2.5)
    assert math.isclose(clean.privacy, 2 * (2 + 1) * 2 / 1000)
    assert math.isclose(clean.sampling, math.sqrt(2 * (math.log(4) + 1) / 1000))
    assert math.isclose(clean.total, 2.5 * (clean.privacy + clean.sampling))
    assert math.isclose(clean.rows_needed, 16 * (math.log(8) + 1))
    dirty = kim_jung.theorem_3_4(phi, 2, contamination=0.1, **facts)
    assert math.isclose(dirty.privacy, clean.privacy)
    assert math.isclose(dirty.sampling, math.sqrt(3 * (math.log(4) + 1) / 900))
    assert math.isclose(dirty.contamination, 0.1 * 1.9 * 3)
    assert math.isclose(dirty.rows_needed, 16 / 0.9 * (math.log(8) + 1))
    assert dirty.holds
    assert not kim_jung.theorem_3_4(phi, 2, contamination=0.1, **(facts | {"n": 40})).holds
    assert math.isclose(kim_jung.theorem_3_3(phi, 2, bound=1.0), 0.2 / 8)
    assert math.isclose(kim_jung.theorem_3_3(phi, 2, bound=1.0), breakdown_bound(phi, 2, 1.0) / 2)


def test_rates_of_remark_3_1():
    """The effective rank is at most d, so the rate of the spherical transform is below that of Analyze Gauss."""
    values = np.r_[10.0, 5.0, np.ones(23)]
    rates = kim_jung.remark_3_1(values, 2, n=2000, epsilon=0.5)
    er = 38 / 10
    assert math.isclose(rates["kendall"], 2.5 * (er * 5 / 1000 + math.sqrt(er * math.log(25) / 2000)))
    assert math.isclose(rates["analyze-gauss"], 2.5 * (125 / 1000 + math.sqrt(25 / 2000)))
    assert rates["kendall"] < rates["analyze-gauss"]
    growing = [kim_jung.condition_3_5(np.r_[d**0.8 + 1, np.ones(d - 1)]) for d in (10**3, 10**6)]
    assert growing[1] < growing[0]


@pytest.mark.parametrize(
    "facts",
    [{"contamination": 1.0}, {"contamination": -0.1}, {"delta": 0.0}, {"epsilon": 0.0}, {"m": 4}, {"bound": 0.0}],
)
def test_refusals(facts):
    plain = {"m": 2, "bound": 1.0, "n": 100, "epsilon": 1.0, "delta": 1e-5, "contamination": 0.1}
    with pytest.raises(ValueError, match=next(iter(facts))):
        kim_jung.theorem_3_4([0.5, 0.3, 0.1, 0.1], **(plain | facts))


def test_under_contamination_the_error_stays_below_what_a_release_says():
    """Arbitrary rows in several places: the bound holds, and the one that is told of no outliers does not hold."""
    d, n, share = 3, 20_000, 0.03
    values, rng = np.array([30.0, 1.0, 1.0]), np.random.default_rng(0)
    for place in ([0.0, 50.0, 0.0], [4.0, 4.0, 0.0], [0.0, 1.0, 1.0]):
        rows = rng.normal(size=(n, d)) * np.sqrt(values)
        rows[: round(share * n)] = place
        release = PrivatePCA(1, epsilon=1.0, delta=1e-6, method=Kendall(), random_state=0).fit(rows).release_
        assert sin_theta(release.components, np.eye(d)[:1]) <= release.subspace_error(contamination=share) < 1
        assert release.subspace_error() < release.subspace_error(contamination=share)
    with pytest.raises(ValueError, match="contamination"):
        release.subspace_error(contamination=1.0)


def test_the_bias_that_is_allowed_for_outliers_is_needed():
    """Without rows to sample and noise: outliers in the worst place move tau by nearly what the bound allows."""
    phi, share = sign_eigenvalues([30.0, 1.0, 1.0]), 0.05
    rows = np.random.default_rng(1).normal(size=(3000, 3)) * np.sqrt([30.0, 1.0, 1.0])
    clean = kendall_tau(rows)
    rows[:150] = 1e6 * np.sign(np.arange(150) - 75)[:, None] * np.array([0.7, 0.7, 0.0])
    moved = np.linalg.norm(kendall_tau(rows) - clean, 2)
    assert 0.5 * 2 * share < moved <= 2 * share
    assert (
        subspace_error_bound(phi, 1, 1.0, 1e12, 0.0) < 0.001 < subspace_error_bound(phi, 1, 1.0, 1e12, 0.0, 0.05, share)
    )
