"""The auditor proves itself: right mechanisms pass, planted faults are caught, its confidence is honest.

A right mechanism is called wrong with probability at most 1e-6 (``SURE``); every such test has a faulty twin.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

from dpeigen.auditing.events import (
    _clopper_pearson,
    audit,
    bingham_circle_log_density,
    exact_epsilon_discrete,
    find_events,
    gaussian_log_density,
    hockey_stick,
    hockey_stick_density,
    laplace_log_density,
    repeat,
    scores,
)
from dpeigen.privacy import gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_sigma, randomness
from dpeigen.privacy.noise import symmetric_gaussian

SURE = 1 - 1e-6


def laplace(scale, seed):
    rng = np.random.default_rng(seed)
    return lambda value, runs: np.asarray(value) + rng.laplace(scale=scale, size=(runs, np.size(value)))


def gaussian(sigma, seed):
    rng = np.random.default_rng(seed)
    return lambda value, runs: np.asarray(value) + sigma * rng.normal(size=(runs, np.size(value)))


# --- right and faulty mechanisms ---------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0.0, 1.0), (1.0, 0.0)])
def test_laplace(order):
    right = audit(laplace(1.0, 1), *order, runs=50_000, confidence=SURE)
    assert not right.violates(1.0)
    assert right.violates(0.8)  # close to the truth, too
    assert audit(laplace(0.7, 2), *order, runs=50_000, confidence=SURE).violates(1.0)


def test_gaussian_by_epsilon_and_delta():
    epsilon, delta = 1.0, 0.05
    sigma = gaussian_sigma(epsilon, delta, 1.0)
    right = audit(gaussian(sigma, 3), 0.0, 1.0, runs=100_000, delta=delta, confidence=SURE)
    assert not right.violates(epsilon)
    assert right.violates(0.7)
    wrong = audit(gaussian(0.7 * sigma, 4), 0.0, 1.0, runs=100_000, delta=delta, confidence=SURE)
    assert wrong.violates(epsilon)


def test_gaussian_by_mu():
    """At δ = 1e-5 no event is likely enough to show much of ε; the Gaussian bound shows the fault all the same."""
    mu = gaussian_mu(1.0, 1e-5)
    right = audit(gaussian(1 / mu, 5), 0.0, 1.0, runs=100_000, delta=1e-5, confidence=SURE)
    assert not right.violates_gaussian(mu)
    assert right.violates_gaussian(0.7 * mu)
    assert not right.violates(1.0)
    wrong = audit(gaussian(0.7 / mu, 6), 0.0, 1.0, runs=100_000, delta=1e-5, confidence=SURE)
    assert wrong.violates_gaussian(mu)


@pytest.mark.parametrize("d", [2, 5])
def test_sensitivity_one_in_place_of_root_two_is_caught(d):
    """e₁e₁ᵀ replaced by e₂e₂ᵀ moves a moment by √2; calibrating to 1 is a printed mistake."""
    epsilon, delta, grid = 4.0, 1e-5, 2.0**20
    mu = gaussian_mu(epsilon, delta)
    first, second = np.zeros((2, d, d))
    first[0, 0] = second[1, 1] = grid

    def release(sensitivity, seed):
        rng = randomness(seed)
        return repeat(lambda moment: moment + symmetric_gaussian(d, sensitivity * grid / mu, rng))

    right = audit(release(math.sqrt(2), 7), first, second, runs=12_000, delta=delta, confidence=SURE)
    assert not right.violates_gaussian(mu)
    assert not right.violates(epsilon)
    wrong = audit(release(1.0, 8), first, second, runs=12_000, delta=delta, confidence=SURE)
    assert wrong.violates_gaussian(mu)


def test_a_shift_spread_over_many_coordinates_is_found():
    """Each coordinate alone shows nothing; the discriminant does, under correlated noise as well."""
    rng, m = np.random.default_rng(9), 20
    mix = np.eye(m) + 0.3 * rng.normal(size=(m, m))

    def mechanism(sigma):
        return lambda value, runs: (value / math.sqrt(m) + sigma * rng.normal(size=(runs, m))) @ mix

    right = audit(mechanism(1.0), 0.0, 1.0, runs=40_000, confidence=SURE)
    assert not right.violates_gaussian(1.0)
    assert right.violates_gaussian(0.85)
    assert audit(mechanism(0.8), 0.0, 1.0, runs=40_000, confidence=SURE).violates_gaussian(1.0)


def test_a_change_of_spread_is_found():
    """Noise that depends on the data: means agree, variances do not."""
    rng = np.random.default_rng(10)

    def mechanism(value, runs):
        return (1 + value) * rng.normal(size=(runs, 3))

    assert audit(mechanism, 0.0, 1.0, runs=20_000, confidence=SURE).violates(2.0)
    assert not audit(mechanism, 0.0, 0.0, runs=20_000, confidence=SURE).violates(1e-9)


def test_signless_directions_are_found():
    """±u has mean zero; the squares tell the data sets apart."""
    rng = np.random.default_rng(11)

    def mechanism(axis, runs):
        draws = rng.normal(size=(runs, 3)) * np.where(np.arange(3) == axis, 3.0, 1.0)
        return draws / np.linalg.norm(draws, axis=1, keepdims=True)

    assert audit(mechanism, 0, 1, runs=20_000, confidence=SURE).violates(1.0)
    assert not audit(mechanism, 1, 1, runs=20_000, confidence=SURE).violates(1e-9)


def test_disjoint_supports_are_found():
    rng = np.random.default_rng(12)
    leak = audit(lambda v, runs: v + rng.integers(0, 2, size=runs), 0, 2, runs=20_000, confidence=SURE)
    assert leak.violates(6.0)
    assert {leak.hits[0], leak.hits[1]} == {0, 10_000}


def test_constant_outputs_say_nothing():
    assert audit(lambda v, runs: np.ones((runs, 2)), 0, 1, runs=1000).epsilon_lower == 0.0


# --- honesty of the confidence -----------------------------------------------------------------------


def honesty(seed, fresh):
    """How many of 200 audits at 80% exceed the true ε of a Laplace mechanism with five coordinates of pure noise."""
    rng, alarms = np.random.default_rng(seed), 0

    def mechanism(value, runs):
        draws = np.column_stack([value + rng.laplace(size=runs), rng.normal(size=(runs, 5))])
        if not fresh:
            draws[runs // 2 :] = draws[: runs // 2]
        return draws

    for _ in range(200):
        alarms += audit(mechanism, 0.0, 1.0, runs=200, confidence=0.8).violates(1.0)
    return alarms


def test_confidence_is_honest():
    """At most 20% alarms; more than the limit has probability 1e-6 at exactly 20%."""
    limit = stats.binom.isf(1e-6, 200, 0.2)
    assert honesty(13, fresh=True) <= limit
    assert honesty(14, fresh=False) > limit  # planted fault: the event is judged on the runs that chose it


@pytest.mark.parametrize("alpha", [0.05, 1e-6])
@pytest.mark.parametrize("trials", [5, 1000])
def test_clopper_pearson(trials, alpha):
    hits = np.arange(trials + 1)[:: max(1, trials // 20)]
    lower, upper = _clopper_pearson(hits, trials, alpha)
    assert lower[hits == 0] == 0
    assert upper[hits == trials] == 1
    inner = hits > 0
    np.testing.assert_allclose(stats.binom.sf(hits - 1, trials, lower)[inner], alpha, rtol=1e-6)
    inner = hits < trials
    np.testing.assert_allclose(stats.binom.cdf(hits, trials, upper)[inner], alpha, rtol=1e-6)


# --- the interface -----------------------------------------------------------------------------------


def test_result_is_frozen_and_readable():
    result = audit(laplace(0.5, 15), 0.0, 1.0, runs=2000, delta=1e-3, confidence=0.99)
    text = str(result)
    assert f"ε ≥ {result.epsilon_lower:.4g} at δ = 0.001, confidence 0.99" in text
    assert result.event in text
    assert f"{result.hits[0]} of 1000 runs on the first data set, {result.hits[1]} on the second" in text
    assert (result.runs, result.trials, result.delta, result.confidence) == (2000, 1000, 1e-3, 0.99)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.epsilon_lower = 0.0


def test_the_counts_reproduce_the_bound():
    result = audit(laplace(1.0, 16), 1.0, 0.0, runs=4001, confidence=0.999)
    ci = [stats.binomtest(k, 2001).proportion_ci(0.999, method="exact") for k in result.hits]
    bounds = [math.log(ci[i].low / ci[1 - i].high) for i in (0, 1)]
    assert result.epsilon_lower == pytest.approx(max(bounds), rel=1e-6)


def test_an_audit_is_reproduced_by_the_mechanisms_seed():
    assert audit(laplace(1.0, 17), 0, 1, runs=1000) == audit(laplace(1.0, 17), 0, 1, runs=1000)


def test_repeat_calls_once_per_run_and_flattens():
    seen = []

    def single(data):
        seen.append(data)
        return np.full((2, 2), len(seen))

    outputs = repeat(single)("data", 5)
    assert seen == ["data"] * 5
    np.testing.assert_array_equal(outputs, np.arange(1.0, 6)[:, None] * np.ones(4))


@pytest.mark.parametrize(
    ("mechanism", "changes", "name"),
    [
        (lambda v, runs: np.zeros(runs - 1), {}, "mechanism"),
        (lambda v, runs: 0.0, {}, "mechanism"),
        (lambda v, runs: np.full(runs, np.nan), {}, "mechanism"),
        (lambda v, runs: np.zeros((runs, v + 1)), {}, "mechanism"),
        (lambda v, runs: np.zeros(runs), {"runs": 10}, "runs"),
        (lambda v, runs: np.zeros(runs), {"delta": 1.0}, "delta"),
        (lambda v, runs: np.zeros(runs), {"confidence": 1.0}, "confidence"),
    ],
)
def test_bad_arguments_are_named(mechanism, changes, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of audit"):
        audit(mechanism, 0, 1, **({"runs": 100} | changes))


# --- exact losses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_hockey_stick_of_gaussians_is_the_analytic_condition(epsilon, mu):
    kink = epsilon / mu + mu / 2  # where the likelihood ratio is e^ε
    value = hockey_stick_density(
        gaussian_log_density(2.0, 2 * mu), gaussian_log_density(2.0), epsilon, -25, 25 + 2 * mu, [2 * kink]
    )
    assert value == pytest.approx(gaussian_delta(epsilon, mu), rel=1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.99, 1.0, 2.0])
def test_hockey_stick_of_laplace_noise_is_its_formula(epsilon):
    """Shift Δ, scale b: 1 − e^{(ε − Δ/b)/2} below ε = Δ/b, and 0 from there on."""
    shift, scale = 1.5, 1.5
    value = hockey_stick_density(
        laplace_log_density(scale, shift),
        laplace_log_density(scale),
        epsilon,
        -60,
        60,
        [0.0, shift, (shift + epsilon * scale) / 2],
    )
    assert value == pytest.approx(max(0.0, -math.expm1((epsilon - shift / scale) / 2)), abs=1e-12)


def test_densities_integrate_to_one():
    """A hockey stick against nothing is the whole mass."""
    for log_density, low, high in (
        (laplace_log_density(0.7, 1.0), -40, 40),
        (gaussian_log_density(0.7, 1.0), -10, 10),
        (bingham_circle_log_density([[3.0, 1.0], [1.0, -2.0]]), 0, math.pi),
        (bingham_circle_log_density(np.diag([0.0, 900.0])), 0, math.pi),
    ):
        whole = hockey_stick_density(log_density, lambda x: -math.inf, 0.0, low, high, [1.0, math.pi / 2])
        assert whole == pytest.approx(1, abs=1e-9)


def test_exact_epsilon_of_randomised_response():
    for epsilon in (0.1, 1.0, 5.0):
        keep = math.exp(epsilon) / (1 + math.exp(epsilon))
        first, second = [keep, 1 - keep], [1 - keep, keep]
        assert exact_epsilon_discrete(first, second) == pytest.approx(epsilon, rel=1e-12)
        for delta in (1e-6, 0.01):
            expected = math.log((keep - delta) / (1 - keep))
            assert exact_epsilon_discrete(first, second, delta) == pytest.approx(max(0, expected), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("delta", [1e-4, 0.01, 0.2])
def test_exact_epsilon_is_where_the_hockey_stick_reaches_delta(seed, delta):
    first, second = np.random.default_rng(seed).dirichlet(np.ones(30), size=2)
    epsilon = exact_epsilon_discrete(first, second, delta)
    worst = max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))
    assert worst == pytest.approx(delta, rel=1e-9)


def test_exact_epsilon_of_both_orders_and_of_missing_support():
    assert exact_epsilon_discrete([0.5, 0.5, 0.0], [0.5, 0.4, 0.1]) == math.inf
    assert exact_epsilon_discrete([0.5, 0.4, 0.1], [0.5, 0.5, 0.0]) == math.inf
    assert exact_epsilon_discrete([0.5, 0.4, 0.1], [0.5, 0.5, 0.0], 0.1) == pytest.approx(0, abs=1e-12)
    assert exact_epsilon_discrete([0.9, 0.1], [0.8, 0.2]) == pytest.approx(math.log(2))
    assert exact_epsilon_discrete([0.3, 0.7], [0.3, 0.7]) == 0.0


def test_exact_epsilon_of_fine_gaussian_cells():
    edges = np.linspace(-9, 10, 100_001)
    first, second = (np.diff(stats.norm.cdf(edges, loc=c)) for c in (0.0, 1.0))
    exact = exact_epsilon_discrete(first, second, 1e-5)
    assert exact == pytest.approx(gaussian_epsilon(1e-5, 1.0), rel=1e-4)
    assert exact <= gaussian_epsilon(1e-5, 1.0)


def test_events_are_found_for_pure_privacy_unless_a_delta_is_given():
    rng = np.random.default_rng(5)
    first, second = rng.laplace(0, 0.5, (4000, 1)), rng.laplace(1, 0.5, (4000, 1))
    by_epsilon, _ = find_events(first, second)
    assert by_epsilon.value == find_events(first, second, delta=0.0, confidence=0.999)[0].value
    assert 1.5 < by_epsilon.value < 2.0
    assert find_events(first, second, delta=0.3)[0].value < by_epsilon.value


@pytest.mark.parametrize(
    ("columns", "runs", "expected"),
    [
        (1, 100, ["quadratic discriminant"]),  # of one number there is one direction
        (2, 100, ["discriminant", "quadratic discriminant"]),
        (5, 20, ["discriminant"]),  # as many runs as a covariance needs: four to a number
        (5, 19, []),
        (5, 40, ["discriminant", "quadratic discriminant"]),
    ],
)
def test_directions_are_fitted_where_there_are_runs_enough(columns, runs, expected):
    first, second = np.random.default_rng(0).normal(size=(2, runs, columns))
    names = [name for name, _ in scores(first, second)]
    always = [*(f"output[{j}]" for j in range(columns)), "sum of squares", "difference of means"]
    assert names == [*always, *expected]


def test_where_outputs_lie_and_in_which_units_does_not_matter():
    """A change of spread is seen as well around a thousand as around zero, in metres as in miles."""
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(300, 2)), 1.5 * rng.normal(size=(300, 2))
    here, there = scores(first, second), scores(1000 + 7 * first, 1000 + 7 * second)
    for (name, score), (_, other) in list(zip(here, there, strict=True))[2:]:
        np.testing.assert_allclose(other(1000 + 7 * first), score(first), rtol=1e-6, atol=1e-6, err_msg=name)
