"""What is granted: more than sums where that is proven, never more than the cap, whatever the analyst does."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpeigen import Ledger, PrivatePCA
from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    ConcentratedCost,
    GaussianCost,
    PureCost,
    Spend,
    compose_delta,
    gaussian_delta,
    gaussian_mu,
)
from dpeigen.privacy.ledger import BudgetExceededError, rules

CAP = Budget(1.0, 1e-5)
FILTERS = rules.filters_of("mixed", CAP)


def shares(*costs):
    return [Spend("a", "m", cost) for cost in costs]


def gaussian(epsilon, delta):
    return Budget(epsilon, delta), shares(GaussianCost(gaussian_mu(epsilon, delta)))


def grant_all(ledger, cost, split, most=10_000):
    granted = 0
    while granted < most:
        try:
            ledger.commit(ledger.reserve(cost, "x", split=split))
        except BudgetExceededError:
            break
        granted += 1
    return granted


# --- how much -------------------------------------------------------------------------------------------------------


def test_gaussian_releases_cost_less_than_their_sum(place):
    cost, split = gaussian(0.1, 1e-7)
    ledger = Ledger.create(place, epsilon=CAP.epsilon, delta=CAP.delta)
    granted = grant_all(ledger, cost, split)
    assert granted > 80  # ten by sums
    assert compose_delta(split * granted, CAP.epsilon) <= CAP.delta  # exactly composed, they are within the cap
    assert ledger.verify().ok
    by_sums = Ledger.create(f"{place}_by_sums", epsilon=CAP.epsilon, delta=CAP.delta, accounting="sum")
    assert grant_all(by_sums, cost, split) == 10


@pytest.mark.parametrize(
    ("accounting", "cost", "split", "expected"),
    [
        ("auto", Budget(1.0, 1e-5), shares(GaussianCost(gaussian_mu(1.0, 1e-5))), "sum"),  # all of δ at once
        ("auto", Budget(0.1), None, "sum"),
        ("auto", Budget(0.1), shares(PureCost(0.1)), "sum"),
        ("auto", *gaussian(0.5, 1e-6), "mixed"),
        ("auto", Budget(0.5, 1e-6), shares(ConcentratedCost(0.001)), "mixed"),
        ("auto", Budget(0.5, 1e-6), shares(ApproximateCost(0.5, 1e-6)), "sum"),
        ("sum", *gaussian(0.5, 1e-6), "sum"),
        ("mixed", Budget(0.1), None, "mixed"),
    ],
)
def test_the_first_reservation_decides(path, accounting, cost, split, expected):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5, accounting=accounting)
    assert ledger.state().accounting == accounting
    ledger.reserve(cost, "x", split=split)
    assert ledger.state().accounting == expected
    kinds = [event.kind for event in ledger.events()]
    assert kinds == (["create", "decide", "reserve"] if accounting == "auto" else ["create", "reserve"])


def test_a_refused_first_reservation_decides_nothing(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5)
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Budget(2.0), "x")
    assert ledger.state().accounting == "auto"
    assert len(ledger.events()) == 1


def test_pure_budgets_are_sums(path):
    assert Ledger.create(path, epsilon=1.0).state().accounting == "sum"
    with pytest.raises(ValueError, match="'accounting' parameter"):
        Ledger.create(f"{path}2", epsilon=1.0, accounting="mixed")
    with pytest.raises(ValueError, match="'accounting' parameter"):
        Ledger.create(f"{path}2", epsilon=1.0, accounting="pld")


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("gpcs"), st.floats(0.001, 0.3)), min_size=1, max_size=60))
def test_whatever_is_granted_composes_to_the_cap(wishes):
    """Fixed lists are a special case of adaptive ones, and for them the exact total is known."""
    total, granted, pure = rules.Charge(), [], 0
    for kind, epsilon in wishes:
        if kind in "pc" and pure == 12:
            continue  # longer lists have no exact total here
        split = {
            "g": lambda e=epsilon: shares(GaussianCost(gaussian_mu(e, 1e-6))),
            "p": lambda e=epsilon: shares(PureCost(e)),
            "c": lambda e=epsilon: shares(PureCost(e / 8), GaussianCost(gaussian_mu(e * 7 / 8, 1e-6))),
            "s": lambda e=epsilon: shares(GaussianCost(gaussian_mu(e, 1e-9)), GaussianCost(gaussian_mu(e, 1e-9))),
        }[kind]()
        price = Budget(epsilon * (2 if kind == "s" else 1), {"p": 0.0, "s": 2e-9}.get(kind, 1e-6))
        after = total.plus(rules.charge_of(price, split))
        if rules.admits(FILTERS, after):
            total, granted, pure = after, granted + split, pure + (kind in "pc")
    assert not granted or compose_delta(granted, CAP.epsilon) <= CAP.delta * (1 + 1e-9)


# --- an analyst who adapts --------------------------------------------------------------------------------------------


def adaptive_delta(epsilon, first_mu, mu, bare):
    """The exact δ at ε of an analyst with a plan: a Gaussian release; where its privacy loss came out high, Gaussian
    releases up to μ in all; where not, a release that shows everything with probability ``bare``."""
    loss = np.linspace(-8 * first_mu, 8 * first_mu, 200_001) + first_mu**2 / 2
    weight = stats.norm.pdf(loss, first_mu**2 / 2, first_mu) * (loss[1] - loss[0])
    rest = math.sqrt(mu**2 - first_mu**2)
    t = (epsilon - loss) / rest
    go_on = stats.norm.cdf(rest / 2 - t) - np.exp(np.minimum(epsilon - loss, 700)) * stats.norm.cdf(-rest / 2 - t)
    stop = bare + (1 - bare) * np.maximum(-np.expm1(np.minimum(epsilon - loss, 0)), 0)
    return float(np.sum(weight * np.maximum(go_on, stop)))


def test_the_filters_hold_against_a_planning_analyst_and_the_better_of_two_would_not():
    sums = FILTERS[0]
    careless = gaussian_mu(CAP.epsilon, CAP.delta)  # the Gaussian filter with all of δ beside sums with all of δ
    for share in (0.5, 0.7, 0.9):
        first = math.sqrt(share) * careless  # stated as (ε, δ₁) with next to all of ε; the rest of δ is for later
        bare = CAP.delta - gaussian_delta(CAP.epsilon, first)
        assert adaptive_delta(CAP.epsilon, first, careless, bare) > 1.3 * CAP.delta
    for other in FILTERS[1:3]:  # mu, rho
        mu = math.sqrt(2 * other.rho)
        for share in (0.3, 0.5, 0.7, 0.9, 0.99):
            bare = sums.delta - gaussian_delta(CAP.epsilon, math.sqrt(share) * mu)
            assert adaptive_delta(CAP.epsilon, math.sqrt(share) * mu, mu, bare) <= CAP.delta


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.000999, 0.00101, 0.1, 1.0, 3.0, 10.0, 29.9, 30.1, 100.0, 1e4])
def test_a_pure_step_is_dominated_by_its_gaussian(epsilon):
    """Randomised response against the Gaussian: no δ(x) of the first is above the second's."""
    mu = rules.gaussian_of_pure(epsilon)
    for x in epsilon * np.array([0.0, 0.1, 0.5, 0.9, 0.999]):
        response = -math.expm1(x - epsilon) / (1 + math.exp(-epsilon)) if epsilon < 700 else -math.expm1(x - epsilon)
        assert gaussian_delta(float(x), mu) >= response * (1 - 1e-9)
    back = rules._pure_of_gaussian(mu)
    assert back <= epsilon
    assert back >= epsilon * (1 - 1e-4) or epsilon > 20


def test_gaussian_accounting_is_exact(path):
    """Nothing is lost beside what the cap itself allows, whatever the order and size of the releases."""
    ledger = Ledger.create(path, epsilon=CAP.epsilon, delta=CAP.delta, accounting="gaussian")
    cost, split = gaussian(0.1, 1e-7)
    granted = grant_all(ledger, cost, split)
    exact = math.floor((gaussian_mu(CAP.epsilon, CAP.delta) / gaussian_mu(0.1, 1e-7)) ** 2)
    assert exact - 2 <= granted <= exact
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Budget(0.1, 1e-8), "x", split=shares(ConcentratedCost(1e-6)))  # not μ-Gaussian for any μ


def test_the_shares_of_delta_make_one_whole():
    """Each filter's own δ: bare steps and the conversion of ρ at what ε is left."""
    from dpeigen.privacy.accounting import log_concentrated_delta

    total = FILTERS[0].delta
    for f in FILTERS[1:]:
        rest = CAP.epsilon - f.epsilon
        gaussian = f.kind == "mu"
        noisy = (
            gaussian_delta(rest, math.sqrt(2 * f.rho)) if gaussian else math.exp(log_concentrated_delta(rest, f.rho))
        )
        total += f.delta + noisy
    assert CAP.delta * (1 - 1e-5) < total <= CAP.delta
    assert [f.kind for f in FILTERS] == ["sum", "mu", "rho", "split", "split"]
    assert FILTERS[0].epsilon == CAP.epsilon


def test_the_shares_are_those_that_are_documented():
    """A record is judged by them for as long as it is kept, by other versions too."""
    assert [f.delta / CAP.delta for f in FILTERS] == pytest.approx([3 / 4, 1 / 32, 1 / 64, 1 / 128, 1 / 128])
    assert [f.epsilon / CAP.epsilon for f in FILTERS] == [1.0, 0.0, 0.0, 0.25, 0.5]
    (only,) = rules.filters_of("gaussian", CAP)
    assert only.kind == "mu"
    assert only.delta == pytest.approx(CAP.delta / 16)
    rest = gaussian_delta(CAP.epsilon, math.sqrt(2 * only.rho))
    assert CAP.delta * 15 / 16 * (1 - 1e-4) < rest < CAP.delta * 15 / 16


@pytest.mark.parametrize("cap", [Budget(1e-3, 1e-5), Budget(0.5, 0.2), Budget(20.0, 0.4)])
def test_the_gaussian_total_leaves_room_for_noise_on_integers(cap):
    """Two millionths of ε and of δ, as long as Σμ² stays at or below 2ε."""
    (only,) = rules.filters_of("gaussian", cap)
    mu = math.sqrt(2 * only.rho)
    assert gaussian_delta(cap.epsilon * (1 - 2e-6), mu) <= cap.delta * 15 / 16 * (1 - 2e-6)
    assert mu**2 <= 2 * cap.epsilon * (1 + 1e-12)


def test_a_cap_is_passed_by_a_rounding_and_by_no_more(path):
    for number, cap in enumerate((Budget(1.0), Budget(64.0, 1e-6))):
        for factor, granted in ((1 + 0.9e-12, True), (1 + 1.2e-12, False)):
            ledger = Ledger.create(f"{path}{number}{granted}", epsilon=cap.epsilon, delta=cap.delta)
            if granted:
                ledger.reserve(Budget(cap.epsilon * factor, cap.delta * factor), "x")
                assert ledger.remaining() is None
                continue
            for cost in (Budget(cap.epsilon * factor), Budget(0.1, max(cap.delta * factor, 1e-30))):
                with pytest.raises(BudgetExceededError):
                    ledger.reserve(cost, "x")


def test_dust_is_nothing_left(path):
    for epsilon in (1 / 64, 64.0):
        ledger = Ledger.create(f"{path}{epsilon}", epsilon=epsilon)
        ledger.reserve(Budget(epsilon * (1 - 2**-41)), "all but dust")  # 4.5e-13 of the whole
        assert ledger.remaining() is None
    ledger = Ledger.create(path, epsilon=64.0)
    ledger.reserve(Budget(64 * (1 - 2**-38)), "all but a little")
    assert ledger.remaining() == Budget(64 * 2**-38)


# --- totals -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(1e-300, 1e6), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_totals_are_exact(values, random):
    charges = [rules.charge_of(Budget(v, min(v, 0.5)), shares(GaussianCost(min(v, 1e3)))) for v in values]
    total = rules.Charge()
    for charge in charges:
        total = total.plus(charge)
    random.shuffle(charges)
    assert rules.Charge.from_dict(total.to_dict()) == total
    for charge in charges:
        total = total.plus(charge, -1)
    assert total == rules.Charge()  # nothing is left of what was cancelled, in any order


def test_totals_are_written_in_the_same_units_for_ever():
    """2^−1074, in hexadecimal: a file outlives the version that wrote it."""
    written = rules.charge_of(Budget(1.0, 2.0**-20), None).to_dict()
    assert int(written["epsilon"], 16) == 2**1074
    assert int(written["delta"], 16) == 2**1054


def test_a_share_costs_at_least_what_it_is():
    for value in (1e-9, 0.1, 1 / 3, 0.7, 5.0):
        charge = rules.charge_of(Budget(1.0), shares(GaussianCost(value)))
        assert charge.gaussian >= int(value.as_integer_ratio()[0] ** 2 * 2**1073 // value.as_integer_ratio()[1] ** 2)
        pure = rules.charge_of(Budget(value), None)
        assert pure.pure_rho / 2**1074 >= min(value * value / 2, value)


@pytest.mark.parametrize(
    ("cost", "costs"),
    [
        (Budget(0.1), [PureCost(0.2)]),
        (Budget(0.1), [GaussianCost(1e-6)]),
        (Budget(0.1, 1e-7), [GaussianCost(0.1)]),
        (Budget(0.1, 1e-9), [ApproximateCost(0.1, 1e-7)]),
        (Budget(0.1, 1e-7), [ApproximateCost(0.1, 1.0001e-7)]),
        (Budget(0.1, 1e-7), [GaussianCost(gaussian_mu(0.1, 1e-7) * 1.0001)]),
        (Budget(0.1), []),
    ],
)
def test_shares_worth_more_than_stated_are_refused(path, cost, costs):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5)
    with pytest.raises(ValueError, match="'split' parameter of Ledger"):
        ledger.reserve(cost, "x", split=shares(*costs))
    assert ledger.history() == []


def test_shares_worth_exactly_what_is_stated_are_granted(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5)
    for delta in (1e-7, 1e-6 / 3):
        ledger.reserve(Budget(0.1, delta), "x", split=shares(ApproximateCost(0.1, delta)))


def test_remaining_and_room_are_what_is_granted(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5, accounting="mixed")
    cost, split = gaussian(0.2, 1e-7)
    for _ in range(8):  # beyond the sum
        ledger.reserve(cost, "x", split=split)
    left = ledger.remaining()
    assert 0 < left.epsilon < 0.5
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Budget(left.epsilon * 1.001, left.delta), "x")
    room = ledger.room(1e-7)
    assert room > 0.2
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Budget(room * 1.001, 1e-7), "x", split=gaussian(room * 1.001, 1e-7)[1])
    ledger.cancel(ledger.reserve(Budget(left.epsilon, left.delta), "x"))
    ticket, granted = ledger.reserve(Budget(room, 1e-7), "x", split=gaussian(room, 1e-7)[1]), ledger.remaining()
    assert granted is None or granted.epsilon < left.epsilon
    ledger.cancel(ticket)
    assert ledger.remaining() == left


def test_room_in_sums(path):
    ledger = Ledger.create(path, epsilon=0.5, delta=1e-6, accounting="sum")
    assert ledger.room(1e-6) == ledger.room(0.0) == 0.5
    assert ledger.room(1.5e-6) == 0.0
    ledger.reserve(Budget(0.25, 1e-6), "x")
    assert (ledger.room(0.0), ledger.room(1e-9)) == (0.25, 0.0)
    assert not ledger.wants_split


def test_room_where_shares_count(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5, accounting="gaussian")
    (only,) = ledger.state().filters
    for delta in (1e-9, 1e-6):
        room = ledger.room(delta)
        assert gaussian_delta(room, math.sqrt(2 * only.rho)) == pytest.approx(delta, rel=1e-4)
    assert ledger.room(0.0) == 0.0
    assert ledger.wants_split
    ledger.reserve(*gaussian(room, delta)[:1], "x", split=gaussian(room, delta)[1])
    assert ledger.room(delta) < 0.01 * room


def test_a_look_ahead_refuses_what_cannot_fit_and_reserves_nothing(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5, accounting="mixed")
    ledger.require(Budget(1.0, 1e-6))
    with pytest.raises(BudgetExceededError):
        ledger.require(Budget(1.5, 1e-6))
    ledger.require(Budget(1.5, 1e-6), split_unknown=True)  # its shares may be worth less
    assert ledger.history() == []
    ledger.reserve(Budget(1.0), "x")
    ledger.require(Budget(0.1, 1e-6), split_unknown=True) if ledger.room(1e-6) > 0 else None
    sums = Ledger.create(f"{path}2", epsilon=1.0, delta=1e-5, accounting="sum")
    for unknown in (False, True):
        sums.require(Budget(1.0), split_unknown=unknown)
        with pytest.raises(BudgetExceededError):
            sums.require(Budget(1.5), split_unknown=unknown)


@pytest.mark.parametrize("accounting", ["sum", "mixed", "gaussian"])
def test_grants_do_not_depend_on_an_installed_accountant(path, monkeypatch, accounting):
    cost, split = gaussian(0.1, 1e-7)
    counts = []
    for name in ("with", "without"):
        if name == "without":
            monkeypatch.setitem(sys.modules, "dp_accounting", None)
            rules.filters_of.cache_clear()
        ledger = Ledger.create(f"{path}-{name}", epsilon=1.0, delta=1e-5, accounting=accounting)
        counts.append(grant_all(ledger, cost, split))
    assert counts[0] == counts[1]


# --- estimators -------------------------------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(400, 3))


def test_fits_are_priced_by_their_shares(place):
    ledger = Ledger.create(place, epsilon=1.0, delta=1e-5)
    pca = PrivatePCA(1, epsilon=0.4, delta=1e-7, method="gaussian", bound=4.0, random_state=0, ledger=ledger)
    for _ in range(3):  # 1.2 in all by sums
        pca.fit(X)
    entries = ledger.history()
    assert entries[-1]["split"] == [spend.to_dict() for spend in pca.guarantee_.split]
    assert [entry["state"] for entry in entries] == ["committed"] * 3
    small = {"epsilon": 0.05, "bound": 4.0, "method": "laplace", "random_state": 0, "ledger": ledger}
    PrivatePCA(1, **small).fit(X)  # a pure one beside them
    assert ledger.verify().ok
    with pytest.raises(BudgetExceededError, match="Nothing was spent"):
        PrivatePCA(1, **{**small, "epsilon": 0.9}).fit(X)


def test_the_plain_sums_are_those_of_the_stated_costs():
    total = rules.Charge()
    for cost, split in (gaussian(0.25, 1e-7), (Budget(0.5), None)):
        total = total.plus(rules.charge_of(cost, split))
    assert rules.stated(total) == (0.75, 1e-7)


def test_a_ledger_that_was_not_used_has_spent_nothing_in_any_currency(path):
    ledger = Ledger.create(path, epsilon=1.0, delta=1e-5)
    assert set(ledger.state().total.to_dict().values()) == {"0"}
    ledger.cancel(ledger.reserve(*gaussian(0.1, 1e-7)[:1], "x", split=gaussian(0.1, 1e-7)[1]))
    assert set(ledger.state().total.to_dict().values()) == {"0"}
