"""Before anything is spent: a warning where the public facts leave only noise, with what would do."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

from dpeigen import Ledger, PrivatePCA
from dpeigen.methods.foreseen import OnlyNoiseWarning

ROWS = np.random.default_rng(0).normal(size=(400, 30))


def fit(rows, epsilon, **options):
    return PrivatePCA(2, epsilon=epsilon, delta=1e-6, random_state=0, **options).fit(rows)


def test_noise_is_foreseen_and_nothing_is_spent(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.sqlite", epsilon=1.0, delta=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnlyNoiseWarning)
        with pytest.raises(OnlyNoiseWarning, match="leave only noise") as caught:
            fit(ROWS, 0.3, ledger=ledger)
    assert "Nothing has been spent" in str(caught.value)
    assert not list(ledger.history())
    assert re.search(r"About [\d,]+ rows, or epsilon=", str(caught.value))


def test_what_is_said_to_do_does():
    with pytest.warns(OnlyNoiseWarning) as caught:
        fit(ROWS, 0.3)
    said = next(str(each.message) for each in caught if each.category is OnlyNoiseWarning)
    epsilon = float(re.search(r"epsilon=([\d.]+), would", said)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnlyNoiseWarning)
        fit(ROWS, 1.2 * epsilon)


def test_enough_rows_are_no_reason_to_warn():
    rows = np.random.default_rng(1).normal(size=(5000, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnlyNoiseWarning)
        fit(rows, 1.0)
        fit(rows, 1.0, relation="add_remove")  # the number of rows is private: nothing is said of it
