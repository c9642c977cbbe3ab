"""Amplification by shuffling against sums done another way, closed forms, and the truth for randomised response."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

from dpeigen.privacy import ApproximateCost, ConcentratedCost, GaussianCost, PureCost, gaussian_epsilon, shuffling
from dpeigen.privacy.shuffling import _approximate_delta, _clone_delta, shuffled_delta, shuffled_epsilon


def by_enumeration(epsilon, local, n, rate):
    """The same hockey-stick divergence from the joint masses of both counts, entry by entry."""
    w = math.exp(local) / (1 + math.exp(local))
    first, second = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    for c in range(n):
        for a in range(c + 1):
            mass = stats.binom.pmf(c, n - 1, rate) * stats.binom.pmf(a, c, 0.5)
            first[a + 1, c - a] += mass * w
            first[a, c - a + 1] += mass * (1 - w)
            second[a, c - a + 1] += mass * w
            second[a + 1, c - a] += mass * (1 - w)
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def randomised_response(epsilon, local, n):
    """The true δ of n shuffled binary randomised responses, one input 0 or 1, the others 0: only the count is seen."""
    flip = 1 / (1 + math.exp(local))
    others = stats.binom.pmf(np.arange(n), n - 1, flip)
    zero = np.convolve(others, [1 - flip, flip])
    one = np.convolve(others, [flip, 1 - flip])
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in ((zero, one), (one, zero)))


@pytest.mark.parametrize("local", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("n", [1, 2, 12, 40])
def test_the_sum_is_that_of_an_enumeration(local, n):
    for epsilon in (0.05, 0.2, 0.8 * local):
        ours = _clone_delta(epsilon, local, n, math.exp(-local))
        assert ours == pytest.approx(by_enumeration(epsilon, local, n, math.exp(-local)), rel=1e-6, abs=1e-13)


def with_many_digits(epsilon, local, n, rate):
    """The same from counts a of c + 1, with many digits."""
    with localcontext() as context:
        context.prec = 360
        rate, w = Decimal(rate), 1 / (1 + (-Decimal(local)).exp())
        total, bar = Decimal(0), Decimal(epsilon).exp()
        for c in range(n):
            mass = math.comb(n - 1, c) * rate**c * (1 - rate) ** (n - 1 - c) / 2**c
            for a in range(c + 2):
                ahead, level = math.comb(c, a - 1) if a else 0, math.comb(c, a)
                first, second = w * ahead + (1 - w) * level, w * level + (1 - w) * ahead
                total += mass * max(first - bar * second, Decimal(0))
        return total


@pytest.mark.parametrize("local", [1e-15, 1e-5, 0.3, 5.0, 28.0, 50.0, 300.0, 700.0])
@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_never_below_the_truth_however_large_or_near_its_limit_epsilon_is(local, n):
    for part in (0.0, 0.1, 0.5, 0.9, 0.99, 1 - 1e-6, 1 - 1e-10, 1 - 1e-13):
        for rate in (math.exp(-local), 0.5, 1e-300):
            truth = with_many_digits(part * local, local, n, rate)
            assert Decimal(_clone_delta(part * local, local, n, rate)) >= truth * (1 - Decimal("1e-11"))


def test_one_report_is_not_shuffled():
    assert shuffled_epsilon(PureCost(50.0), 1, 1e-6) == pytest.approx(50.0)
    assert shuffled_epsilon(PureCost(30.0), 1000, 1e-6) == pytest.approx(30.0)


def test_losses_beyond_the_range_of_numbers():
    assert shuffled_delta(PureCost(750.0), 10, 1.0) == pytest.approx(1.0)
    assert shuffled_delta(PureCost(1.0), 10, 800.0) == 0
    assert shuffled_delta(ApproximateCost(750.0, 1e-9), 10, 740.0) == 1.0
    assert shuffled_epsilon(GaussianCost(33.0), 10, 1e-6) == pytest.approx(gaussian_epsilon(1e-6, 33.0))


@pytest.mark.parametrize(("local", "n"), [(0.3, 12), (1.0, 40), (2.5, 25)])
def test_rounding_goes_to_the_safe_side(local, n):
    ours = _clone_delta(0.1, local, n, math.exp(-local))
    assert ours >= by_enumeration(0.1, local, n, math.exp(-local)) * (1 - 1e-12)


@pytest.mark.parametrize("local", [0.3, 1.5])
@pytest.mark.parametrize("n", [2, 30, 400])
@pytest.mark.parametrize("width", [0.01, 0.5, 2.0, 6.0])
def test_what_is_not_summed_counts_as_delta(monkeypatch, local, n, width):
    """However little is summed, the answer stays above the whole sum, and by no more than the chance left out."""
    rate, epsilon = math.exp(-local), 0.3 * local
    monkeypatch.setattr(shuffling, "_TAIL", 1e6)
    whole = _clone_delta(epsilon, local, n, rate)
    monkeypatch.setattr(shuffling, "_TAIL", width)
    mean, deviation = (n - 1) * rate, math.sqrt((n - 1) * rate * (1 - rate))
    chances = stats.binom.pmf(np.arange(n), n - 1, rate)
    outside = chances[np.abs(np.arange(n) - mean) > width * deviation].sum()
    part = _clone_delta(epsilon, local, n, rate)
    assert whole * (1 - 1e-12) <= part <= whole + outside + 1e-12
    far = chances[np.abs(np.arange(n) - mean) > width * (deviation + 2) + 2].sum()
    assert part >= min(whole + 0.5 * far, 1.0) * (1 - 1e-12) or far < 1e-12  # and it is not all summed after all


def test_the_local_guarantee_is_where_it_ends():
    for n in (1, 50):
        assert shuffled_delta(PureCost(1.0), n, 1.0) == 0.0
        assert shuffled_delta(PureCost(1.0), n, 2.0) == 0.0
        assert 0 < shuffled_delta(PureCost(1.0), n, 0.9) < 1
        assert shuffled_delta(ApproximateCost(1.0, 1e-3), n, 1.0) <= 1e-3
        assert shuffled_epsilon(ApproximateCost(1.0, 1e-6), n, 1e-6) == 1.0  # its own δ, to the last bit
    assert shuffled_delta(ApproximateCost(1.0, 0.5), 50, 0.5) == 1.0  # nothing is promised, and no more than that


@pytest.mark.parametrize(("local", "n"), [(0.2, 50), (1.0, 1000), (3.0, 10**5)])
def test_the_epsilon_found_is_the_least(local, n):
    epsilon = shuffled_epsilon(PureCost(local), n, 1e-6)
    assert shuffled_delta(PureCost(local), n, epsilon) <= 1e-6
    assert shuffled_delta(PureCost(local), n, epsilon * (1 - 1e-5)) > 1e-6


@pytest.mark.parametrize("local", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("n", [10, 300, 5000])
def test_never_below_the_truth_for_randomised_response(local, n):
    for epsilon in (0.02, 0.1, 0.5):
        assert shuffled_delta(PureCost(local), n, epsilon) >= randomised_response(epsilon, local, n) - 1e-13
    # The bound is of use: at four times its ε it would be below the truth of a quarter of the reports.
    epsilon = shuffled_epsilon(PureCost(local), n, 1e-6)
    assert epsilon <= local


@pytest.mark.parametrize(("local", "n"), [(0.5, 10_000), (1.0, 10_000), (2.0, 10**5), (4.0, 10**6)])
def test_never_worse_than_the_closed_form(local, n):
    """Feldman, McMillan, Talwar 2021, Theorem 3.1, valid for ε₀ ≤ ln(n/16 ln(2/δ))."""
    delta = 1e-6
    assert local <= math.log(n / (16 * math.log(2 / delta)))
    e = math.exp(local)
    closed = math.log1p((e - 1) / (e + 1) * (8 * math.sqrt(e * math.log(4 / delta) / n) + 8 * e / n))
    ours = shuffled_epsilon(PureCost(local), n, delta)
    assert 0.05 * closed < ours < closed


def test_it_falls_with_the_root_of_the_number():
    few, many = (shuffled_epsilon(PureCost(1.0), n, 1e-6) for n in (10**4, 10**6))
    assert many == pytest.approx(few / 10, rel=0.3)


def test_approximate_randomisers_pay_for_their_delta():
    pure = shuffled_epsilon(PureCost(1.0), 10_000, 1e-6)
    assert pure < shuffled_epsilon(ApproximateCost(1.0, 1e-12), 10_000, 1e-6) < 1.01 * pure
    assert shuffled_epsilon(ApproximateCost(1.0, 5e-7), 10_000, 1e-6) == 1.0  # n·δ₀ is too much: the local one remains
    t = 1e-8 * (1 + 99 * math.exp(-1.0))
    assert _approximate_delta(0.3, 1.0, 1e-8, 100) == pytest.approx(
        _clone_delta(0.3, 1.0, 100, math.exp(-1.0) * (1 - 1e-8)) + (1 + math.exp(0.3)) * t
    )


def test_approximate_randomisers_that_fail_openly_are_covered():
    """A randomiser that shows its row with probability δ₀, else randomised response: the bound is above its true δ."""
    n, local, delta0, epsilon = 60, 1.0, 1e-3, 0.4
    honest = randomised_response(epsilon, local, n)
    truth = delta0 + (1 - delta0) * 0.9 * honest  # it shows itself, or all is as before (others' shows only help less)
    assert _approximate_delta(epsilon, local, delta0, n) > truth


def test_gaussian_reports():
    cost = GaussianCost(0.25)
    alone = gaussian_epsilon(1e-6, 0.25)
    shuffled = shuffled_epsilon(cost, 10**5, 1e-6)
    assert shuffled < 0.1 * alone
    assert shuffled_delta(cost, 10**5, shuffled * 1.001) <= 1.01e-6
    assert shuffled_epsilon(cost, 1, 1e-6) == pytest.approx(alone)
    assert shuffled >= shuffled_epsilon(cost, 10**6, 1e-6)


def test_refusals():
    with pytest.raises(ValueError, match="delta"):
        shuffled_epsilon(PureCost(1.0), 10, 0.0)
    with pytest.raises(TypeError, match="concentrated"):
        shuffled_epsilon(ConcentratedCost(0.1), 10, 1e-6)
    with pytest.raises(ValueError, match="delta"):
        shuffled_epsilon(ApproximateCost(1.0, 1e-3), 10, 1e-6)
