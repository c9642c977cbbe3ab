"""The price of steps on random parts of the rows: between an exact lower bound and the published upper one."""

from __future__ import annotations

import math

import pytest

from dpeigen.privacy import gaussian_epsilon, subsampling
from dpeigen.privacy.subsampling import subsampled_epsilon, subsampled_noise

pytest.importorskip("dp_accounting")


@pytest.fixture
def few_orders(monkeypatch):
    """Any orders give a bound; low ones are quick."""
    monkeypatch.setattr(subsampling, "_ORDERS", [2, 3, 4, 6, 8, 12, 16, 24, 32])
    subsampled_epsilon.cache_clear()
    yield
    subsampled_epsilon.cache_clear()


SETTINGS = [(10, 1000, 1.0), (100, 1000, 2.0), (500, 1000, 4.0), (1, 50, 0.8)]  # size, rows, noise


def to_epsilon(divergence, order, delta):
    """Rényi divergence to (ε, δ), Proposition 12 of Canonne, Kamath, Steinke 2020."""
    return divergence + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)


def least_divergence(q, noise, order):
    """Of (1 − q)·N(0) + q·N(1) against N(0): neighbours whose other rows add up to nothing. Exact."""
    moments = (
        math.comb(order, j) * (1 - q) ** (order - j) * q**j * math.exp(j * (j - 1) / (2 * noise**2))
        for j in range(order + 1)
    )
    return math.log(math.fsum(moments)) / (order - 1)


def published_divergence(q, noise, order):
    """Theorem 27 of Wang, Balle, Kasiviswanathan 2019 for Gaussian noise, whose ε(∞) is infinite."""
    first = math.exp(1 / noise**2)
    total = 1 + math.comb(order, 2) * q**2 * min(4 * (first - 1), 2 * first)
    total += math.fsum(
        2 * math.comb(order, j) * q**j * math.exp(j * (j - 1) / (2 * noise**2)) for j in range(3, order + 1)
    )
    return math.log(total) / (order - 1)


@pytest.mark.parametrize("steps", [1, 7, 100])
@pytest.mark.parametrize("noise", [1.5, 5.0, 40.0])
def test_parts_that_are_all_rows_cost_what_gaussian_noise_costs(noise, steps):
    exact = gaussian_epsilon(1e-6, math.sqrt(steps) / noise)
    orders = subsampling._ORDERS
    by_hand = min(to_epsilon(steps * order / (2 * noise**2), order, 1e-6) for order in orders)
    found = subsampled_epsilon(300, 300, steps, noise, 1e-6)
    assert found == pytest.approx(by_hand, rel=1e-9)
    assert exact <= found <= 1.25 * exact + 0.13


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("setting", SETTINGS)
def test_between_the_exact_lower_bound_and_the_published_upper_one(setting, order, monkeypatch):
    size, rows, noise = setting
    monkeypatch.setattr(subsampling, "_ORDERS", [order])
    steps, delta = 20, 1e-5
    found = subsampled_epsilon.__wrapped__(size, rows, steps, noise, delta)
    low, high = (
        to_epsilon(steps * f(size / rows, noise, order), order, delta) for f in (least_divergence, published_divergence)
    )
    assert low <= found <= high * (1 + 1e-9)
    if order == 2:
        assert found == pytest.approx(high, rel=1e-9)
        # The twin: noise taken relative to half the sensitivity would be seen.
        assert subsampled_epsilon.__wrapped__(size, rows, steps, 2 * noise, delta) < high * (1 - 1e-6)


@pytest.mark.usefixtures("few_orders")
def test_the_price_is_monotone():
    base = subsampled_epsilon(50, 1000, 20, 2.0, 1e-6)
    assert subsampled_epsilon(100, 1000, 20, 2.0, 1e-6) > base
    assert subsampled_epsilon(50, 1000, 40, 2.0, 1e-6) > base
    assert subsampled_epsilon(50, 1000, 20, 3.0, 1e-6) < base
    assert subsampled_epsilon(50, 1000, 20, 2.0, 1e-4) < base
    assert base < subsampled_epsilon(1000, 1000, 20, 2.0, 1e-6)


@pytest.mark.usefixtures("few_orders")
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (8.0, 1e-9)])
@pytest.mark.parametrize(("size", "steps"), [(1, 100), (50, 20)])
def test_the_least_noise_is_enough_and_a_little_less_is_not(epsilon, delta, size, steps):
    noise = subsampled_noise(size, 1000, steps, epsilon, delta)
    assert subsampled_epsilon(size, 1000, steps, noise, delta) <= epsilon
    assert subsampled_epsilon(size, 1000, steps, 0.995 * noise, delta) > epsilon


@pytest.mark.usefixtures("few_orders")
def test_the_least_noise_is_monotone():
    def noise(size=50, steps=20, epsilon=2.0, delta=1e-5):
        return subsampled_noise(size, 1000, steps, epsilon, delta)

    base = noise()
    assert base < noise(size=200)
    assert base < noise(steps=80)
    assert base < noise(epsilon=1.0)
    assert base < noise(delta=1e-7)


@pytest.mark.usefixtures("few_orders")
def test_what_no_noise_can_do_takes_infinitely_much():
    """Orders up to 32 cannot reach so small an ε at so small a δ, however much noise there is."""
    assert subsampled_noise(10, 1000, 5, 0.01, 1e-12) == math.inf


def test_the_extra_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"install 'dpeigen\[accounting\]'"):
        subsampled_epsilon.__wrapped__(10, 100, 5, 1.0, 1e-6)


@pytest.mark.parametrize("noise", [1e-153, 1e-160, 1e-300, 0.0, -1.0, math.nan, 1e80, 1e300])
def test_beyond_what_the_accountant_can_sum_there_is_no_guarantee(noise):
    """Without noise it would answer ε = 0."""
    assert subsampled_epsilon(1, 10**9, 1, noise, 1e-6) == math.inf
    assert 1e180 < subsampled_epsilon(1, 10**9, 1, 1e-95, 1e-6) < 1e200


def test_the_least_noise_of_a_large_budget_is_small(few_orders):
    noise = subsampled_noise(10, 1000, 1, 100.0, 1e-6)
    assert 0.05 < noise < 0.2
    assert subsampled_epsilon(10, 1000, 1, noise, 1e-6) <= 100.0 < subsampled_epsilon(10, 1000, 1, 0.998 * noise, 1e-6)
