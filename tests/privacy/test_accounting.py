"""Closed-form composition against dp-accounting, Kairouz-Oh-Viswanath's theorem and exact probabilities."""

from __future__ import annotations

import math
import sys
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dpeigen.auditing.events import exact_epsilon_discrete, hockey_stick
from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    ConcentratedCost,
    GaussianCost,
    PureCost,
    Spend,
    allocate,
    compose,
    compose_delta,
    compose_pld,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from dpeigen.privacy.accounting import log_concentrated_delta, log_mixed_delta


def spends(*costs):
    return [Spend(f"step {i}", "m", cost) for i, cost in enumerate(costs)]


def pure(*epsilons):
    return spends(*map(PureCost, epsilons))


def gauss(*mus):
    return spends(*map(GaussianCost, mus))


CASES = {
    "pure": pure(0.3, 0.3, 0.2, 0.5),
    "gaussian": gauss(0.3, 0.4, 0.1),
    "mixed": pure(0.1, 0.4) + gauss(0.3, 0.2),
    "mixed, large": pure(2.0) + gauss(1.5, 1.0),
    "approximate": spends(ApproximateCost(0.3, 1e-9), GaussianCost(0.5)),
}


@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
@pytest.mark.parametrize("case", CASES)
def test_closed_form_agrees_with_privacy_loss_distributions(case, delta):
    pytest.importorskip("dp_accounting")
    ours, theirs = compose(CASES[case], delta), compose_pld(CASES[case], delta)
    # They round every loss up by at most 1e-4; a bare (ε, δ) spend we charge in full, they as randomised response.
    if case == "approximate":
        assert theirs <= ours + 1e-3
    else:
        assert theirs - 1e-3 <= ours <= theirs + 1e-6


def test_the_independent_accountant_would_notice_a_forgotten_spend():
    pytest.importorskip("dp_accounting")
    for case in ("pure", "gaussian", "mixed"):
        for left_out in range(len(CASES[case])):
            fewer = [s for i, s in enumerate(CASES[case]) if i != left_out]
            assert compose(fewer, 1e-5) < compose_pld(CASES[case], 1e-5) - 1e-3


def randomised_response(*epsilons):
    """The pair of distributions that dominates pure steps, as explicit probabilities."""
    pairs = [np.array([[math.exp(e), 1], [1, math.exp(e)]]) / (1 + math.exp(e)) for e in epsilons]
    return [reduce(np.multiply.outer, [pair[side] for pair in pairs]).ravel() for side in (0, 1)]


@given(st.lists(st.floats(0.01, 3), min_size=1, max_size=6), st.floats(1e-9, 0.3))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_pure_spends_compose_like_randomised_responses(epsilons, delta):
    first, second = randomised_response(*epsilons)
    assert compose(pure(*epsilons), delta) == pytest.approx(
        exact_epsilon_discrete(first, second, delta), rel=1e-8, abs=1e-9
    )


@pytest.mark.parametrize(("k", "epsilon"), [(3, 0.5), (7, 0.1), (12, 0.3)])
def test_equal_pure_spends_follow_the_optimal_composition_theorem(k, epsilon):
    """Kairouz, Oh, Viswanath 2015, Theorem 3.3."""
    for i in range(k // 2 + 1):
        terms = (
            math.comb(k, j) * (math.exp((k - j) * epsilon) - math.exp((k - 2 * i + j) * epsilon)) for j in range(i)
        )
        expected = math.fsum(terms) / (1 + math.exp(epsilon)) ** k
        assert compose_delta(pure(*[epsilon] * k), (k - 2 * i) * epsilon) == pytest.approx(
            expected, rel=1e-9, abs=1e-15
        )


def test_gaussian_spends_add_their_squares():
    assert compose(gauss(0.3, 0.4), 1e-6) == pytest.approx(gaussian_epsilon(1e-6, 0.5), rel=1e-7)
    assert compose_delta(gauss(0.3, 0.4), 1.0) == pytest.approx(gaussian_delta(1.0, 0.5), rel=1e-9)


def test_mixed_spends_agree_with_explicit_probabilities():
    """A Gaussian step cut into fine cells, times a randomised response: losses a hair below the closed form."""
    mu, epsilon = 0.8, 0.6
    edges = np.linspace(-9, 10, 20001)
    cells = [np.diff(ndtr(edges - centre)) for centre in (mu, 0.0)]
    response = randomised_response(epsilon)
    first, second = (np.multiply.outer(c, r).ravel() for c, r in zip(cells, response, strict=True))
    for target in (0.0, 0.5, 1.0, 2.0):
        ours = compose_delta(pure(epsilon) + gauss(mu), target)
        exact = hockey_stick(first, second, target)
        assert exact <= ours * (1 + 1e-9)
        assert exact == pytest.approx(ours, rel=1e-5)
    # Neither step alone, nor the sum of both profiles' ε, would pass.
    assert compose_delta(gauss(mu), 1.0) < 0.9 * compose_delta(pure(epsilon) + gauss(mu), 1.0)
    assert compose_delta(gauss(mu), 1.0 - epsilon) > 1.1 * compose_delta(pure(epsilon) + gauss(mu), 1.0)


def test_approximate_spends_add_on_top():
    bare = spends(ApproximateCost(0.5, 1e-6), ApproximateCost(0.25, 2e-6))
    assert compose(bare, 3e-6) == 0.75
    assert compose_delta(bare, 0.75) == pytest.approx(3e-6)
    with pytest.raises(ValueError, match="'delta' parameter of compose must be ≥ 3e-06"):
        compose(bare, 1e-6)
    with pytest.raises(ValueError, match="'delta' parameter of compose must be > 3e-06"):
        compose(bare + gauss(1.0), 3e-6)


def test_long_lists_of_pure_spends_are_summed_and_stay_safe():
    pytest.importorskip("dp_accounting")
    many = pure(*[0.1] * 13)
    assert compose(many, 0.0) == pytest.approx(1.3)
    assert compose(many, 1e-5) >= compose_pld(many, 1e-5) - 1e-3


def test_gaussian_noise_never_passes_for_pure_privacy():
    """δ underflows here, and must still not be 0."""
    assert compose_delta(gauss(1e-3), 1.0) > 0
    assert compose_delta(gauss(1e-3) + pure(0.5), 1.0) > 0
    assert compose_delta(pure(0.5, 0.5), 1.0) == 0


def test_nothing_is_left_to_pay_when_delta_covers_everything():
    assert compose(pure(*[0.001] * 12), 0.5) == 0.0
    assert compose(gauss(0.01), 0.5) == 0.0


def test_losses_that_differ_by_rounding_are_harmless():
    assert compose(pure(0.010000000000000002, 0.01), 0.25) == 0.0
    assert compose_delta(pure(0.5, 0.5), math.nextafter(1.0, 0)) == pytest.approx(0, abs=1e-15)


def test_huge_epsilons_do_not_overflow():
    costs = allocate(Budget(2000.0, 1e-6), pure={"a": 0.4}, main={"b": 1.0})
    assert costs["a"] == PureCost(800.0)
    assert costs["b"].mu == pytest.approx(gaussian_mu(1200.0, 1e-6), rel=1e-6)


fractions = st.lists(st.floats(0.01, 1), min_size=0, max_size=4)
weights = st.lists(st.floats(0.01, 10), min_size=1, max_size=4)


@st.composite
def splits(draw):
    """Pure fractions that leave anything from nearly all to nearly nothing, and weights for the rest."""
    raw = draw(fractions)
    taken = 1 - 10.0 ** draw(st.floats(-9, -0.01))
    pure_shares = {f"pure {i}": taken * x / math.fsum(raw) for i, x in enumerate(raw)}
    return pure_shares, {f"main {i}": x for i, x in enumerate(draw(weights))}


def as_spends(costs):
    return [Spend(name, "m", cost) for name, cost in costs.items()]


@given(st.floats(1e-3, 30), splits())
@settings(deadline=None, derandomize=True, max_examples=200)
def test_a_pure_allocation_never_exceeds_the_budget(epsilon, split):
    pure_shares, main = split
    costs = allocate(Budget(epsilon), pure=pure_shares, main=main)
    assert list(costs) == [*pure_shares, *main]
    assert all(isinstance(cost, PureCost) for cost in costs.values())
    total = math.fsum(cost.epsilon for cost in costs.values())
    assert epsilon * (1 - 1e-13) <= total <= epsilon
    assert compose_delta(as_spends(costs), epsilon) == 0.0


@given(st.floats(1e-2, 10), st.floats(1e-12, 1e-2), splits(), st.integers(1, 10**6))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_an_approximate_allocation_never_exceeds_the_budget(epsilon, delta, split, coordinates):
    pure_shares, main = split
    costs = allocate(Budget(epsilon, delta), pure=pure_shares, main=main, coordinates=coordinates)
    assert compose_delta(as_spends(costs), epsilon) <= delta
    for name, fraction in pure_shares.items():
        assert costs[name] == PureCost(epsilon * fraction)
    squares = {name: costs[name].mu ** 2 for name in main}
    for name, weight in main.items():
        assert squares[name] / math.fsum(squares.values()) == pytest.approx(weight / math.fsum(main.values()))


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5])
def test_an_allocation_wastes_nothing(fraction):
    shares = {"scale": fraction} if fraction else {}
    costs = allocate(Budget(1.0, 1e-6), pure=shares, main={"moment": 3.0, "mean": 1.0}, coordinates=10_000)
    assert compose(as_spends(costs), 1e-6) == pytest.approx(1.0, rel=1e-6)


def test_allocation_agrees_with_the_independent_accountant():
    pytest.importorskip("dp_accounting")
    costs = allocate(Budget(1.0, 1e-6), pure={"scale": 0.1}, main={"moment": 3.0, "mean": 1.0})
    assert compose_pld(as_spends(costs), 1e-6) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("shares", [{"a": 1.0}, {"a": 0.6, "b": 0.5}, {"a": -0.1}, {"a": math.nan}])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(ValueError, match="'shares' parameter of allocate"):
        allocate(Budget(1.0), pure=shares, main={"m": 1.0})


def test_main_weights_must_be_positive():
    with pytest.raises(ValueError, match="'shares' parameter of allocate"):
        allocate(Budget(1.0), main={"m": 0.0})


def test_too_many_integers_for_a_tiny_budget_are_refused():
    with pytest.raises(ValueError, match="leave no room for the rounding"):
        allocate(Budget(1.0, 1e-6), main={"m": 1.0}, coordinates=10**19)


# --- concentrated costs ----------------------------------------------------------------------------------


def concentrated(*rhos):
    return spends(*map(ConcentratedCost, rhos))


def best_log_delta(epsilon, rho):
    """Canonne, Kamath, Steinke 2020, Proposition 12, minimised over α in 40 digits by golden sections in ln(α − 1)."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        epsilon, rho = mpmath.mpf(epsilon), mpmath.mpf(rho)

        def log_delta(t):
            a = mpmath.exp(t)
            alpha = a + 1
            return a * (alpha * rho - epsilon) - mpmath.log(a) + alpha * mpmath.log1p(-1 / alpha)

        start = min((mpmath.mpf(t) / 4 for t in range(-60, 121)), key=log_delta)
        low, high, golden = start - 1, start + 1, (mpmath.sqrt(5) - 1) / 2
        for _ in range(120):
            left, right = high - golden * (high - low), low + golden * (high - low)
            low, high = (low, right) if log_delta(left) < log_delta(right) else (left, high)
        return float(min(log_delta(low), 0))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("ratio", [0.002, 0.02, 0.1, 0.4])
def test_conversion_agrees_with_a_minimisation_in_high_precision(epsilon, ratio):
    rho = ratio * epsilon
    ours, best = log_concentrated_delta(epsilon, rho), best_log_delta(epsilon, rho)
    assert best - 1e-9 * abs(best) <= ours <= best + 1e-3 + 1e-4 * abs(best)


@pytest.mark.parametrize("mu", [0.01, 0.1, 0.5, 1.0, 3.0])
def test_conversion_is_never_below_the_gaussian_of_the_same_rho(mu):
    """N(0, 1) against N(μ, 1) is exactly μ²/2-zCDP, so no valid conversion is below its δ."""
    for z in (-2.0, 0.0, 0.5, 1.0, 2.0, 4.0, 6.0):
        epsilon = max(z * mu + mu * mu / 2, -5.0)
        true = gaussian_delta(epsilon, mu)
        found = math.exp(log_concentrated_delta(epsilon, mu * mu / 2))
        assert found >= true * (1 - 1e-9)
        if z >= 2:
            assert found <= 20 * true  # nor is it idle
            halved = math.exp(log_concentrated_delta(epsilon, mu * mu / 4))
            assert halved < true  # twin: half of ρ would be


def test_concentrated_spends_add_up_and_gaussian_ones_join_them():
    whole = compose(concentrated(0.05), 1e-6)
    assert compose(concentrated(0.02, 0.03), 1e-6) == pytest.approx(whole)
    assert compose(concentrated(0.03) + gauss(math.sqrt(0.04)), 1e-6) == pytest.approx(whole)
    assert compose_delta(concentrated(0.05), whole) == pytest.approx(1e-6)
    assert compose(gauss(math.sqrt(0.1)), 1e-6) < whole  # alone, a Gaussian is priced by its own exact profile
    assert compose(concentrated(0.05) + spends(ApproximateCost(0.5, 1e-7)), 1.1e-6) == pytest.approx(0.5 + whole)


def test_concentrated_and_pure_spends_together():
    """Between each alone and their sum; a pure step is dominated by its randomised response."""
    together = compose(concentrated(0.05) + pure(0.3), 1e-6)
    alone = compose(concentrated(0.05), 1e-6)
    assert max(alone, 0.3) < together < alone + 0.3
    # a Gaussian in place of the concentrated spend is a case of it
    assert compose(gauss(math.sqrt(0.1)) + pure(0.3), 1e-6) <= together


def test_bounded_range_steps_cost_less_concentrated_than_pure():
    """The worst ε-bounded-range pairs have two outcomes, of losses t and t − ε; by their moments all are ε²/8-zCDP."""
    k, epsilon = 20, 0.1
    assert compose(concentrated(*[epsilon**2 / 8] * k), 1e-6) < 0.9 * k * epsilon
    seen = []
    for t in np.linspace(0.01, 0.99, 49) * epsilon:
        first = math.expm1(epsilon - t) / (math.exp(epsilon - t) - math.exp(-t))  # so that the second sums to 1
        for alpha in (1.001, 2.0, 10.0, 100.0):
            moment = first * math.exp((alpha - 1) * t) + (1 - first) * math.exp((alpha - 1) * (t - epsilon))
            seen.append(math.log(moment) / (alpha - 1) / alpha)
    assert 0.98 * epsilon**2 / 8 < max(seen) <= epsilon**2 / 8 * (1 + 1e-9)


def test_the_independent_accountant_refuses_concentrated_spends():
    pytest.importorskip("dp_accounting")
    with pytest.raises(ValueError, match="no privacy-loss distribution"):
        compose_pld(concentrated(0.1), 1e-6)


def test_concentrated_noise_never_passes_for_pure_privacy():
    assert compose_delta(concentrated(1e-9), 1.0) > 0
    with pytest.raises(ValueError, match="'delta' parameter of compose"):
        compose(concentrated(0.1), 0.0)


@given(st.floats(1e-3, 20), st.one_of(st.just(0.0), st.floats(1e-12, 1e-2)), splits(), weights)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_an_allocation_with_draws_never_exceeds_the_budget(epsilon, delta, split, drawn):
    pure_shares, main = split
    sampled = {f"draw {i}": x for i, x in enumerate(drawn)}
    costs = allocate(Budget(epsilon, delta), pure=pure_shares, main=main, sampled=sampled)
    assert list(costs) == [*pure_shares, *main, *sampled]
    assert compose_delta(as_spends(costs), epsilon) <= delta
    kinds = [PureCost, PureCost] if delta == 0 else [GaussianCost, ConcentratedCost]
    assert all(isinstance(costs[name], kinds[0]) for name in main)
    assert all(isinstance(costs[name], kinds[1]) for name in sampled)
    total = math.fsum([*main.values(), *sampled.values()])
    if delta > 0:
        rho = {
            n: c.mu**2 / 2 if isinstance(c, GaussianCost) else c.rho for n, c in costs.items() if n not in pure_shares
        }
        for name, weight in (main | sampled).items():
            assert rho[name] / math.fsum(rho.values()) == pytest.approx(weight / total)


def test_an_allocation_with_draws_wastes_nothing():
    costs = allocate(Budget(1.0, 1e-6), pure={"radius": 0.1}, main={"values": 1.0}, sampled={"vectors": 1.0})
    assert compose(as_spends(costs), 1e-6) == pytest.approx(1.0, rel=1e-6)


def test_the_extra_of_the_independent_accountant_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ImportError, match=r"dpeigen\[accounting\]"):
        compose_pld([Spend("a", "m", PureCost(0.1))], 1e-6)


def test_no_loss_above_epsilon_is_no_delta():
    assert log_mixed_delta(1.0, 0.0, [0.5, 0.25]) == log_mixed_delta(1.0, 0.0, []) == -math.inf
    assert log_mixed_delta(1.0, 0.0, [1.5]) == pytest.approx(
        math.log((math.exp(1.5) - math.e) / (1 + math.exp(1.5))), rel=1e-12
    )
