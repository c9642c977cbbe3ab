"""σ against the exact condition in 60-digit arithmetic, and discrete noise against its allowance."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr

from dpeigen.auditing.events import exact_epsilon_discrete
from dpeigen.privacy import gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_sigma
from dpeigen.privacy.calibration import discrete_allowance, log_gaussian_delta

EPSILONS = [1e-4, 1e-3, 1e-2, 0.1, 0.5, 1, 2, 5, 10, 20, 50]
DELTAS = [1e-16, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1]


def exact_delta(epsilon, mu, digits=60):
    """Balle and Wang's condition as printed, in arithmetic that can afford the cancellation."""
    with mp.workdps(digits):
        epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def is_valid(epsilon, delta, sigma):
    with mp.workdps(60):
        return exact_delta(epsilon, 1 / mp.mpf(sigma)) <= mp.mpf(delta)


def is_wasteful(epsilon, delta, sigma):
    """Whether noise smaller by 1e-6 would have been enough."""
    with mp.workdps(60):
        return is_valid(epsilon, delta, mp.mpf(sigma) / (1 + mp.mpf(10) ** -6))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sigma_is_valid_and_not_wasteful(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta, 1.0)
    assert is_valid(epsilon, delta, sigma)
    assert not is_wasteful(epsilon, delta, sigma)
    # The check can fail: a hundred-thousandth less noise is not valid, a hundred-thousandth more is wasteful.
    assert not is_valid(epsilon, delta, sigma * (1 - 1e-5))
    assert is_wasteful(epsilon, delta, sigma * (1 + 1e-5))


@pytest.mark.parametrize("delta", [1e-100, 1e-30, 1e-10])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-8, 1e-6, 100, 1000])
def test_sigma_holds_outside_the_usual_range(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    with mp.workdps(200):
        assert exact_delta(epsilon, mu, 200) <= mp.mpf(delta)
        assert exact_delta(epsilon, mp.mpf(mu) * (1 + mp.mpf(10) ** -6), 200) > mp.mpf(delta)


@pytest.mark.parametrize("mu", [1e-6, 9.9e-6, 1.01e-5, 1e-3, 0.1, 1, 5, 30])
@pytest.mark.parametrize("shift", [-4, -1, 0, 1, 5, 10])
def test_the_profile_keeps_its_digits(mu, shift):
    """Also for ε < 0, which mixed composition asks for; ``shift`` is ε in units of μ."""
    epsilon = shift * mu
    assert log_gaussian_delta(epsilon, mu) == pytest.approx(float(mp.log(exact_delta(epsilon, mu))), abs=1e-8)


@pytest.mark.parametrize(
    ("epsilon", "delta", "ratio"), [(0.1, 1e-5, 1.58), (0.5, 1e-5, 1.38), (1, 1e-5, 1.30), (1, 0.1, 2.07)]
)
def test_the_classical_formula_is_larger_by_the_known_factor(epsilon, delta, ratio):
    classical = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert classical / gaussian_sigma(epsilon, delta, 1.0) == pytest.approx(ratio, abs=0.005)


def test_the_classical_formula_is_invalid_for_large_epsilon():
    """Why it is not used: our check catches it."""
    assert not is_valid(10.0, 1e-5, math.sqrt(2 * math.log(1.25e5)) / 10.0)


@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_epsilon_inverts_delta_from_the_safe_side(mu, delta):
    epsilon = gaussian_epsilon(delta, mu)
    assert gaussian_delta(epsilon, mu) <= delta
    if epsilon > 0:
        assert gaussian_delta(epsilon * (1 - 1e-6), mu) > delta
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-6)


def test_no_epsilon_is_needed_when_delta_covers_the_total_variation():
    assert gaussian_epsilon(0.1, 0.01) == 0.0
    assert gaussian_delta(0.0, 0.01) == pytest.approx(math.erf(0.005 / math.sqrt(2)), rel=1e-9)


def test_sigma_is_proportional_to_the_sensitivity():
    assert gaussian_sigma(1, 1e-6, 7.0) == pytest.approx(7 * gaussian_sigma(1, 1e-6, 1.0), rel=1e-15)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gaussian_sigma(1, 0.0, 1.0), "delta"),
        (lambda: gaussian_epsilon(0.0, 1.0), "delta"),
        (lambda: gaussian_epsilon(1.5, 1.0), "delta"),
        (lambda: gaussian_epsilon(1e-5, 0.0), "mu"),
        (lambda: gaussian_sigma(0, 1e-5, 1.0), "epsilon"),
        (lambda: gaussian_sigma(1, 1e-5, 0.0), "sensitivity"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of"):
        call()


# --- discrete noise ----------------------------------------------------------------------------------


def discrete_gaussian(k, sigma, centre=0):
    """Masses of discrete Gaussian noise around an integer; k must cover all that matters."""
    mass = np.exp(-(((k - centre) / sigma) ** 2) / 2)
    return mass / math.fsum(mass)


@pytest.mark.parametrize("sigma", [100.0, 137.5, 1000.0])
def test_allowance_bounds_every_probability_ratio(sigma):
    """ln(discrete/rounded continuous) stays within ±η out to 64σ, and what is outside stays below τ."""
    eta, log_tau = discrete_allowance(sigma, 1)
    k = np.linspace(0, math.floor(64 * sigma), 4001).round()
    nodes, weights = np.polynomial.legendre.leggauss(40)
    u = nodes[:, None] / 2
    log_ratio = np.log((weights[:, None] / 2 * np.exp(-(2 * k * u + u**2) / (2 * sigma**2))).sum(axis=0))
    # Σφ_σ(j) differs from 1 by about 2·exp(−2π²σ²), nothing at these σ.
    worst = np.abs(log_ratio).max()
    assert worst <= eta
    assert worst >= 0.05 * eta  # the bound is not vacuous: this is the right order
    outside = mp.nsum(lambda j: mp.exp(-(j**2) / (2 * mp.mpf(sigma) ** 2)), [math.floor(64 * sigma), mp.inf])
    assert float(mp.log(2 * outside / (sigma * mp.sqrt(2 * mp.pi)))) <= log_tau
    assert log_ndtr(-64 + 0.5 / sigma) + math.log(2) <= log_tau


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize("shift", [20, 100, 300])
def test_exact_discrete_noise_stays_within_its_allowance(shift, delta):
    sigma = 100.0
    eta, _ = discrete_allowance(sigma, 1)
    k = np.arange(-2000, 2001 + shift)  # 20 deviations either side
    exact = exact_epsilon_discrete(discrete_gaussian(k, sigma), discrete_gaussian(k, sigma, shift), delta)
    allowed = gaussian_epsilon(delta * math.exp(-eta), shift / sigma) + 2 * eta
    assert exact <= allowed
    assert exact >= gaussian_epsilon(delta, shift / sigma) - 2 * eta
    # The check can fail: noise of a third of the scale does not stay within.
    small = exact_epsilon_discrete(discrete_gaussian(k, sigma / 3), discrete_gaussian(k, sigma / 3, shift), delta)
    assert small > allowed


def test_two_coordinates_stay_within_their_allowance():
    sigma, shift, delta = 100.0, (60, 80), 1e-5
    eta, _ = discrete_allowance(sigma, 2)
    k = np.arange(-800, 881)
    base = discrete_gaussian(k, sigma)
    first = np.multiply.outer(base, base)
    second = np.multiply.outer(discrete_gaussian(k, sigma, shift[0]), discrete_gaussian(k, sigma, shift[1]))
    exact = exact_epsilon_discrete(first, second, delta)
    assert exact <= gaussian_epsilon(delta * math.exp(-eta), 1.0) + 2 * eta
    assert exact > gaussian_epsilon(delta, 0.8) + 2 * eta  # and is not explained by one of the shifts alone


def test_the_allowance_adds_up_over_coordinates_and_vanishes_on_fine_grids():
    one, log_one = discrete_allowance(1e3, 1)
    many, log_many = discrete_allowance(1e3, 50)
    assert many == pytest.approx(50 * one)
    assert log_many == pytest.approx(log_one + math.log(50))
    assert discrete_allowance(1e9, 5000)[0] < 1e-11


def test_coarse_noise_is_refused():
    with pytest.raises(ValueError, match="too coarse"):
        discrete_allowance(99.0, 1)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-300, 1e-300), (5e-324, 5e-324)])
def test_a_budget_below_the_doubles_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match="too small to be met"):
        gaussian_mu(epsilon, delta)
