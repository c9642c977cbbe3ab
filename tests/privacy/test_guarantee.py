"""A guarantee says everything, survives JSON, and cannot promise more than its split allows."""

from __future__ import annotations

import dataclasses
import json
import math
from statistics import NormalDist

import numpy as np
import pytest

from dpeigen.auditing.events import hockey_stick
from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    GaussianCost,
    Guarantee,
    PureCost,
    Relation,
    Spend,
    allocate,
    gaussian_delta,
    gaussian_mu,
)

SPLIT = (
    Spend("scale", "histogram", PureCost(0.1)),
    Spend("moment", "gaussian", GaussianCost(0.2)),
    Spend("rank", "stability", ApproximateCost(0.05, 1e-8)),
)


def full():
    return Guarantee(
        2.0,
        1e-6,
        Relation.ADD_REMOVE,
        "gaussian",
        split=SPLIT,
        trust="local",
        basis="distributional",
        numerics="idealised",
        reference="Someone 2020",
        assumptions=("rows are Gaussian",),
        notes=("one", "two"),
    )


def test_round_trip_through_json():
    assert Guarantee.from_dict(json.loads(json.dumps(full().to_dict()))) == full()
    plain = Guarantee(np.float32(1), np.int64(0), "replace", "laplace")
    assert Guarantee.from_dict(json.loads(json.dumps(plain.to_dict()))) == plain


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        full().epsilon = 0.1


def test_words_say_what_a_reader_must_know():
    text = str(full())
    for part in (
        "(2, 1e-06)-differential privacy, one row added or removed",
        "gaussian  [Someone 2020]",
        "trust      local",
        "distributional\n             - rows are Gaussian",
        "idealised",
        "spent on   scale: ε = 0.1 (histogram)",
        "spent on   moment: μ = 0.2 (Gaussian) (gaussian)",
        "spent on   rank: ε = 0.05, δ = 1e-08 (stability)",
        "note       one\nnote       two",
        "under the assumptions below ONLY",
    ):
        assert part in text
    assert "guesses" not in text  # no promise to people that holds under a model only
    plain = dataclasses.replace(full(), basis="worst-case", assumptions=())
    assert f"{100 * plain.best_attack():.1f}%" in str(plain)
    assert "knows every other row guesses whether a given row is in the table correctly at most" in str(plain)
    replaced = str(Guarantee(1.0, 0.0, Relation.REPLACE, "laplace"))
    assert "one row replaced" in replaced
    assert "guesses the values of the remaining one (between two candidates) correctly at most 73.1%" in replaced
    assert "not private" in str(Guarantee(1.0, 0.0, Relation.REPLACE, "laplace", numerics="seeded"))


@pytest.mark.parametrize(
    ("epsilon", "delta", "costs"),
    [
        (1.0, 0.0, [PureCost(0.5), PureCost(0.500001)]),
        (1.0, 0.0, [GaussianCost(1e-3)]),
        (1.0, 1e-6, [GaussianCost(gaussian_mu(1.0, 1e-6) * 1.0001)]),
        (1.0, 1e-6, [ApproximateCost(0.5, 2e-6)]),
        (1.0, 1e-6, [PureCost(0.2), GaussianCost(gaussian_mu(1.0, 1e-6))]),
    ],
)
def test_an_overspent_split_is_refused(epsilon, delta, costs):
    split = tuple(Spend(f"{i}", "m", cost) for i, cost in enumerate(costs))
    with pytest.raises(ValueError, match=r"'split' parameter of Guarantee must be worth at most"):
        Guarantee(epsilon, delta, "replace", "m", split=split)


@pytest.mark.parametrize("budget", [Budget(0.7), Budget(0.3, 1e-9), Budget(8.0, 1e-3)])
def test_whatever_was_allocated_is_accepted_and_priced_below_the_promise(budget):
    costs = allocate(budget, pure={"a": 0.3, "b": 0.1}, main={"c": 2.0, "d": 1.0}, coordinates=500)
    split = tuple(Spend(name, "m", cost) for name, cost in costs.items())
    guarantee = Guarantee(budget.epsilon, budget.delta, "replace", "m", split=split)
    assert guarantee.spent_epsilon <= budget.epsilon
    assert guarantee.spent_epsilon == pytest.approx(budget.epsilon, rel=1e-6)


def test_a_split_worth_exactly_the_promise_is_accepted():
    for delta in (1e-6, 0.1, 1 / 3):
        whole = Guarantee(1.0, delta, "replace", "m", split=(Spend("a", "m", ApproximateCost(1.0, delta)),))
        assert whole.spent_epsilon == 1.0


@pytest.mark.parametrize("mu", [0.01, 0.2, 0.5])
def test_the_best_attack_on_gaussian_noise_is_known(mu):
    """The likelihood-ratio test between N(0, 1) and N(μ, 1) is right with probability Φ(μ/2)."""
    g = Guarantee(4.0, 1e-6, "replace", "gaussian", split=(Spend("a", "m", GaussianCost(mu)),))
    assert g.best_attack() == pytest.approx(NormalDist().cdf(mu / 2), rel=1e-9)


def test_without_a_split_everything_counts_as_spent():
    assert Guarantee(1.5, 1e-6, "replace", "m").spent_epsilon == 1.5


def test_best_attack_is_reached_by_the_worst_mechanism_and_by_nothing_else():
    """The bound against explicit probabilities: with chance δ everything is told, else randomised response."""
    for epsilon, delta in [(0.1, 0.0), (1.0, 0.0), (1.0, 0.01), (5.0, 1e-6)]:
        truth = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
        first = np.array([delta, 0, truth, 1 - delta - truth])
        second = np.array([0, delta, 1 - delta - truth, truth])
        attack = 0.5 + hockey_stick(first, second, 0.0) / 2
        assert Guarantee(epsilon, delta, "replace", "m").best_attack() == pytest.approx(attack, rel=1e-12)
    mu = gaussian_mu(1.0, 1e-6)
    assert Guarantee(1.0, 1e-6, "replace", "m").best_attack() > 0.5 + gaussian_delta(0.0, mu) / 2
    assert Guarantee(1e-9, 0.0, "replace", "m").best_attack() == pytest.approx(0.5, abs=1e-9)
    assert Guarantee(1000.0, 0.5, "replace", "m").best_attack() <= 1.0


def test_is_private_needs_a_proof_and_unknown_randomness():
    assert Guarantee(1.0, 0.0, "replace", "m").is_private
    assert not Guarantee(1.0, 0.0, "replace", "m", numerics="seeded").is_private
    assert not Guarantee(1.0, 0.0, "replace", "m", basis="none").is_private


def test_notes_are_added_to_a_copy():
    before = full()
    after = before.with_notes("three")
    assert after.notes == ("one", "two", "three")
    assert before == full()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"relation": "swap"}, "relation"),
        ({"trust": "nobody"}, "trust"),
        ({"basis": "hope"}, "basis"),
        ({"numerics": "fine"}, "numerics"),
        ({"basis": "distributional"}, "assumptions"),
    ],
)
def test_bad_fields_are_named(change, name):
    fields = {"epsilon": 1.0, "delta": 0.0, "relation": "replace", "mechanism": "m"} | change
    with pytest.raises(ValueError, match=f"'{name}' parameter of Guarantee"):
        Guarantee(**fields)
