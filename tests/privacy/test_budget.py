"""Budgets are frozen, ordered, and never split into more than the whole."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeigen.privacy import ApproximateCost, Budget, GaussianCost, PureCost, Relation, Spend

epsilons = st.floats(1e-6, 1e3)
deltas = st.just(0.0) | st.floats(1e-300, 0.5)
weights = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=12)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, -math.inf])
def test_epsilon_must_be_finite_and_positive(epsilon):
    with pytest.raises(ValueError, match="'epsilon' parameter of Budget must be a finite number > 0"):
        Budget(epsilon)


@pytest.mark.parametrize("epsilon", [True, "1", None, 1j])
def test_epsilon_must_be_a_real_number(epsilon):
    with pytest.raises(TypeError, match="'epsilon' parameter of Budget"):
        Budget(epsilon)


@pytest.mark.parametrize("delta", [-1e-9, 1, 2, math.nan, math.inf])
def test_delta_must_lie_in_the_unit_interval(delta):
    with pytest.raises(ValueError, match="'delta' parameter of Budget"):
        Budget(1.0, delta)


def test_a_budget_is_frozen_and_plain():
    budget = Budget(np.float32(1), np.int64(0))
    assert type(budget.epsilon) is float
    assert type(budget.delta) is float
    assert budget.is_pure
    assert not Budget(1, 1e-9).is_pure
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 2.0


def test_order_is_partial():
    small, wide = Budget(1, 1e-6), Budget(2, 1e-7)
    assert not small <= wide
    assert not wide <= small
    assert Budget(1, 1e-7) < small
    assert small > Budget(1, 1e-7)
    assert small >= Budget(1, 1e-6)
    assert not small < Budget(1, 1e-6)


@settings(deadline=None, derandomize=True)
@given(epsilons, deltas, weights)
def test_split_never_exceeds_the_whole_and_wastes_nothing(epsilon, delta, parts):
    whole = Budget(epsilon, delta)
    shares = whole.split(*parts)
    assert len(shares) == len(parts)
    for name in ("epsilon", "delta"):
        total, spent = getattr(whole, name), math.fsum(getattr(s, name) for s in shares)
        assert spent <= total
        assert spent >= total * (1 - 1e-14)
    for share, part in zip(shares, parts, strict=True):
        assert share.epsilon == pytest.approx(epsilon * part / math.fsum(parts), rel=1e-12)


@settings(deadline=None, derandomize=True)
@given(epsilons, epsilons, st.floats(0, 0.4), st.floats(0, 0.4))
def test_addition_is_basic_composition(a, b, p, q):
    assert Budget(a, p) + Budget(b, q) == Budget(a + b, p + q) == Budget(b, q) + Budget(a, p)


@pytest.mark.parametrize("bad", [(), (1, 0), (1, -1), (math.nan,), (math.inf,)])
def test_split_refuses_bad_weights(bad):
    with pytest.raises(ValueError, match=r"'weights' parameter of Budget\.split"):
        Budget(1).split(*bad)


def test_relation_accepts_its_words_only():
    assert Relation.parse("replace") is Relation.REPLACE
    assert Relation.parse(Relation.ADD_REMOVE) is Relation.ADD_REMOVE
    assert str(Relation.ADD_REMOVE) == "add_remove"
    for bad in ("swap", None, 1):
        with pytest.raises(ValueError, match="'relation' parameter of X must be 'replace' or 'add_remove'"):
            Relation.parse(bad, "X")


@pytest.mark.parametrize("cost", [PureCost(np.float32(0.5)), GaussianCost(np.int64(2)), ApproximateCost(1, 1e-6)])
def test_a_spend_survives_json(cost):
    spend = Spend("moment", "m", cost)
    assert Spend.from_dict(json.loads(json.dumps(spend.to_dict()))) == spend


def test_a_spend_of_unknown_kind_is_refused():
    with pytest.raises(
        ValueError, match=r"'kind' parameter of Spend .*'approximate', 'concentrated', 'gaussian', 'pure'"
    ):
        Spend.from_dict({"purpose": "a", "mechanism": "m", "kind": "free", "epsilon": 1.0})


@pytest.mark.parametrize(
    "make",
    [
        lambda: PureCost(0.0),
        lambda: GaussianCost(-1.0),
        lambda: GaussianCost(math.nan),
        lambda: ApproximateCost(math.inf, 0.0),
        lambda: ApproximateCost(1.0, 1.0),
    ],
)
def test_costs_are_checked(make):
    with pytest.raises(ValueError, match="parameter of"):
        make()
