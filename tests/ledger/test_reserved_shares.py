"""What a ledger reserves for a fit is at least what the fit spends, in every currency in which the ledger adds up.

The shares that are reserved come from a rehearsal, and those that are spent may follow from what was released on the
way. The cap is compared with the first, so each filter must count at least as much for them as for the second.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from dpeigen import Ledger, PrivatePCA
from dpeigen.estimators import base, record
from dpeigen.methods import Whitened
from dpeigen.privacy import Budget, PureCost, Spend
from dpeigen.privacy.ledger.rules import charge_of

ROWS = np.random.default_rng(0).normal(size=(3000, 6)) * np.logspace(0, 3, 6)
FAR_ROWS, WIDE, CORRELATED = {}, {"bound": ([-1e4] * 6, [1e4] * 6)}, {"scale": "private"}
SETTINGS = [
    (60.0, 1e-6, FAR_ROWS),
    (60.0, 1e-6, {"units": "same"}),
    (60.0, 1e-30, {"units": "same"}),
    (60.0, 0.0, {"units": "same"}),
    (100.0, 1e-6, CORRELATED),
    (100.0, 1e-6, WIDE),
    (2.0, 1e-6, FAR_ROWS),
    (2.0, 0.0, FAR_ROWS),
]


def short(path, epsilon, delta, options, rows=3000) -> list[str]:
    """The currencies in which a fit spends more than was reserved for it."""
    ledger = Ledger.create(path, epsilon=1000.0, delta=1e-2, accounting="gaussian")
    parameters = {"n_components": 2, "method": "whitened", "center": "private", "random_state": 0, **options}
    fitted = PrivatePCA(epsilon=epsilon, delta=delta, ledger=ledger, **parameters).fit(ROWS[:rows])
    split, cost = ledger.history()[-1]["split"], Budget(epsilon, delta)
    planned = None if split is None else [Spend.from_dict(share) for share in split]
    reserved, spent = charge_of(cost, planned), charge_of(cost, fitted.guarantee_.split)
    names = [field.name for field in fields(reserved)]
    return [name for name in names if getattr(spent, name) * 10**9 > getattr(reserved, name) * (10**9 + 1)]


@pytest.mark.parametrize(("epsilon", "delta", "options"), SETTINGS)
def test_a_fit_spends_no_more_than_the_ledger_reserved_for_it(path, epsilon, delta, options):
    assert short(path, epsilon, delta, options) == []


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_neither_does_one_with_a_private_number_of_components(path, delta):
    assert short(path, 100.0, delta, {"n_components": "private"}, rows=100) == []


def test_shares_of_a_rehearsal_are_too_small_where_all_are_pure(path, monkeypatch):
    """Planted: the shares are reserved as they were rehearsed and declared, whatever they are."""

    def rehearsed(method, task):
        asked, most = record.rehearse(method, task, counting=False).split, method.declared(task)
        return tuple(Spend(s.purpose, s.mechanism, most.get(s.purpose, s.cost)) for s in asked)

    monkeypatch.setattr(base, "planned_split", rehearsed)
    assert "pure_mu" in short(path, 100.0, 1e-6, CORRELATED)


def test_a_share_that_is_never_asked_for_is_missed(path, monkeypatch):
    """Planted: the share for ranges of columns is declared where no ranges are asked for."""
    real = Whitened.shares

    def shares(self, task):
        costs = dict(real(self, task))
        for purpose, cost in costs.items():
            if purpose.name == "FAR_ROWS":
                costs[purpose] = PureCost(cost.epsilon - 1.0)
                return costs | {type(purpose).ROUGH_REACHES: PureCost(1.0)}
        return costs

    monkeypatch.setattr(Whitened, "shares", shares)
    assert "pure" in short(path, 60.0, 1e-6, {"units": "same"})
