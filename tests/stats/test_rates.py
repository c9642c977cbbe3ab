"""Rates: the theorems' dependence on everything, and a prediction that measured errors bear out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen.stats.rates import (
    covariance_lower_rate,
    covariance_upper_rate,
    refined_error,
    subspace_lower_rate,
    subspace_upper_rate,
)

FACTS = {"n": 50_000, "p": 50, "rank": 3, "signal": 10.0, "noise_variance": 1.0, "epsilon": 1.0}
UPPER, LOWER = (subspace_upper_rate, covariance_upper_rate), (subspace_lower_rate, covariance_lower_rate)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.5, math.inf])
@pytest.mark.parametrize(("upper", "lower"), list(zip(UPPER, LOWER, strict=True)))
def test_lower_is_below_upper_in_every_norm(upper, lower, order):
    assert 0 < lower(**FACTS, order=order) < upper(**FACTS, delta=1e-5, order=order)


@pytest.mark.parametrize("rate", [*UPPER, *LOWER])
def test_norms_differ_by_a_power_of_the_rank(rate):
    rest = {"delta": 1e-5} if rate in UPPER else {}
    spectral = rate(**FACTS, **rest, order=math.inf)
    for order in (1.0, 2.0, 4.0):
        assert rate(**FACTS, **rest, order=order) == pytest.approx(3 ** (1 / order) * spectral)


def test_the_cost_of_privacy_falls_as_one_over_n():
    """Where noise leads, ten times the rows make it nearly a tenth."""
    few, many = (subspace_lower_rate(**{**FACTS, "n": n, "epsilon": 1e-3}, constant=1e-3) for n in (10**5, 10**6))
    assert 0.09 < many / few < 0.13


def test_as_printed():
    n, p, r, lam = 50_000, 50, 3, 10.0
    expected = (1 / lam + lam**-0.5) * (
        math.sqrt(p / n) + p * math.sqrt(r + math.log(n)) / n * math.sqrt(math.log(2.5e5))
    )
    assert subspace_upper_rate(**FACTS, delta=1e-5, order=math.inf) == pytest.approx(expected)
    conditioned = subspace_upper_rate(**FACTS, delta=1e-5, order=math.inf, condition=4.0)
    assert conditioned / expected == pytest.approx((0.1 + 2 * 0.1**0.5) / (0.1 + 0.1**0.5))


def test_the_covariance_is_at_least_as_hard_as_its_directions():
    """Davis and Kahan; the printed bound alone would not say so."""
    facts = {**FACTS, "epsilon": 0.01}
    assert covariance_lower_rate(**facts) >= 5 * subspace_lower_rate(**facts)
    printed = 10 * (math.sqrt(3 / 5e4) + 3**1.5 / 500) + math.sqrt(11) * (math.sqrt(1e-3) + math.sqrt(150) / 500)
    assert covariance_lower_rate(**facts, order=math.inf) > printed


@pytest.mark.parametrize(
    ("n", "signal", "measured"),
    [(2000, 10.0, 0.341), (2000, 1000.0, 0.0378), (5000, 10.0, 0.149), (5000, 50.0, 0.068), (5000, 1000.0, 0.0152),
     (20000, 5.0, 0.078), (20000, 1000.0, 0.0051)],
)  # fmt: skip
def test_the_prediction_for_refined_is_what_was_measured(n, signal, measured):
    """Means of 20 runs at (1, 1e-5), p = 50, r = 3."""
    assert refined_error(n, 50, 3, signal, 1.0, 1.0, 1e-5) == pytest.approx(measured, rel=0.2)


def test_the_prediction_has_no_unit():
    one, other = (refined_error(5000, 20, 2, 30 * s, s, 1.0, 1e-5) for s in (1.0, 7.0))
    assert one == pytest.approx(other)
    assert np.isfinite(refined_error(100, 20, 19, 0.1, 1.0, 0.1, 1e-9))


@pytest.mark.parametrize(
    ("change", "match"),
    [({"n": 1}, "'n'"), ({"rank": 50}, "'rank'"), ({"signal": 0.0}, "'signal'"), ({"order": 0.5}, "Schatten"),
     ({"epsilon": -1.0}, "'epsilon'"), ({"delta": 0.0}, "'delta'"), ({"condition": 0.1}, "at least 1")],
)  # fmt: skip
def test_refusals(change, match):
    with pytest.raises(ValueError, match=match):
        subspace_upper_rate(**{**FACTS, "delta": 1e-5, **change})
