"""Reports with the constants of Wang and Xu 2019 as printed, against a transcription that shares no code."""

import math

import numpy as np
import pytest

from dpeigen.local import LocalAggregator, LocalParameters, LocalRandomizer
from dpeigen.privacy import gaussian_epsilon

pytestmark = pytest.mark.filterwarnings("ignore:.*seeded.*")
SETTINGS = [(3, 1.0, 1e-4), (5, 2.0, 1e-6)]  # p, ε, δ


def printed_report(x, epsilon, delta, rng):
    """Algorithm 1, line 2, from the paper's text: XXᵀ + Z, the upper triangle of Z i.i.d. N(0, 2 ln(1.25/δ)/ε²)."""
    sigma = math.sqrt(2 * math.log(1.25 / delta) / epsilon**2)
    p = len(x)
    report = np.outer(x, x)
    for i in range(p):
        for j in range(i, p):
            z = rng.normal(0.0, sigma)
            report[i, j] += z
            if j > i:
                report[j, i] += z
    return report


def rows_of(n, p, seed):
    rows = np.random.default_rng(seed).normal(size=(n, p)) * np.array([3.0, 2.0] + [0.5] * (p - 2))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def our_reports(X, epsilon, delta, **options):
    """The matrices of single reports, as an aggregator reads them."""
    client = LocalRandomizer(X.shape[1], epsilon=epsilon, delta=delta, random_state=3, **options)
    return np.array([LocalAggregator(client).add_many([client.report(x)]).moment for x in X])


def disagreements(ours, theirs):
    """How many standard errors the means and variances of the entries are apart, at most."""
    n = len(ours)
    mean = np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / n)
    ratio = np.log(ours.var(axis=0) / theirs.var(axis=0)) / math.sqrt(4 / n)  # the variance of ln s² is 2/n
    return max(mean.max(), np.abs(ratio).max())


@pytest.mark.parametrize(("p", "epsilon", "delta"), SETTINGS)
def test_reports_have_the_printed_distribution(p, epsilon, delta):
    """At most 25 entries, two comparisons each: 50·2·(1 − Φ(6)) < 1e-7. The noise of tight constants is caught."""
    X = np.tile(rows_of(1, p, 0), (1500, 1))
    rng = np.random.default_rng(1)
    theirs = np.array([printed_report(x, epsilon, delta, rng) for x in X])
    assert disagreements(our_reports(X, epsilon, delta, constants="published"), theirs) < 6
    assert disagreements(our_reports(X, epsilon, delta), theirs) > 6


@pytest.mark.parametrize(("p", "epsilon", "delta"), SETTINGS)
def test_the_subspace_of_the_average_has_the_printed_error(p, epsilon, delta):
    """Mean distance over 30 studies of 400 reports, within six standard errors of each other (2e-9)."""
    rng, errors = np.random.default_rng(2), {"ours": [], "theirs": []}
    V = np.eye(p)[:2]
    for seed in range(30):
        X = rows_of(400, p, seed)
        client = LocalRandomizer(p, epsilon=epsilon, delta=delta, constants="published", random_state=seed)
        ours = LocalAggregator(client).add_many(map(client.report, X)).pca(2).components
        average = np.mean([printed_report(x, epsilon, delta, rng) for x in X], axis=0)
        theirs = np.linalg.eigh(average)[1][:, -2:].T
        for name, U in (("ours", ours), ("theirs", theirs)):
            errors[name].append(np.linalg.norm(U.T @ U - V.T @ V))
    a, b = np.array(errors["ours"]), np.array(errors["theirs"])
    assert abs(a.mean() - b.mean()) < 6 * math.sqrt((a.var() + b.var()) / 30)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 8.0])
def test_the_guarantee_says_what_the_printed_noise_gives(epsilon):
    parameters = LocalParameters(6, epsilon, 1e-4, constants="published")
    sigma = math.sqrt(2 * math.log(1.25e4)) / epsilon
    assert parameters.real_epsilon == pytest.approx(gaussian_epsilon(1e-4, math.sqrt(2) / sigma), rel=1e-5)
    assert (parameters.real_epsilon > epsilon) == (epsilon >= 1)
    client = LocalRandomizer(6, epsilon=epsilon, delta=1e-4, constants="published")
    guarantee = LocalAggregator(client).guarantee
    assert guarantee.epsilon == parameters.real_epsilon
    assert f"stated ε of {epsilon:g}" in " ".join(guarantee.notes)


def test_consent_is_asked_for_what_a_report_really_costs():
    asked = LocalParameters(4, 2.0, 1e-6, constants="published")
    with pytest.raises(ValueError, match=r"'epsilon' parameter .* at most 2"):
        LocalRandomizer.from_parameters(asked, at_most=2.0)
    assert LocalRandomizer.from_parameters(asked.to_dict(), at_most=2.5).parameters == asked
    assert asked.digest != LocalParameters(4, 2.0, 1e-6).digest


def test_printed_and_tight_reports_do_not_mix():
    printed = LocalRandomizer(3, epsilon=1.0, delta=1e-6, constants="published")
    tight = LocalRandomizer(3, epsilon=1.0, delta=1e-6)
    server = LocalAggregator(printed)
    assert server.add(printed.report([0.1, 0.2, 0.3]))
    assert not server.add(tight.report([0.1, 0.2, 0.3]))
    assert dict(server.refused) == {"parameters": 1}


def test_published_constants_are_of_gaussian_reports():
    with pytest.raises(ValueError, match=r"'constants' parameter .*'gaussian'.*delta > 0"):
        LocalRandomizer(3, epsilon=1.0, delta=0.0, constants="published")
