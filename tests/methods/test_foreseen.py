"""Before anything is spent: a warning where the public facts leave only noise, with what would be enough."""

from __future__ import annotations

import itertools
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from dpeigen import Ledger, PrivatePCA
from dpeigen.methods.auto import choose, resolve
from dpeigen.methods.base import Task
from dpeigen.methods.foreseen import OnlyNoiseWarning, only_noise, refuse_random_directions
from dpeigen.privacy import Budget, Relation

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
    assert re.search(r"[\d,]+ rows or epsilon=[\d.]+ would be enough", str(caught.value))


def test_random_directions_are_refused_and_nothing_is_spent(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.sqlite", epsilon=1.0, delta=1e-5)
    rows = np.random.default_rng(0).normal(size=(8, 4000))
    for options in ({}, {"robust": True}, {"method": "auto", "center": None}):
        model = PrivatePCA(2, epsilon=1.0, delta=1e-6, ledger=ledger, **options)
        for call in (model.fit, model.explain):
            with pytest.raises(ValueError, match="larger for 4000 columns and 8 rows") as caught:
                call(rows)
            assert "Three remedies: fewer columns; " in str(caught.value)
            assert "Nothing was spent" in str(caught.value)
    assert not list(ledger.history())


def test_a_refusal_of_random_directions_says_what_is_enough():
    with pytest.raises(ValueError, match="random directions") as caught:
        fit(ROWS[:20], 0.1)
    rows, epsilon = re.search(r"; ([\d,]+) rows; or epsilon=([\d.]+)\.", str(caught.value)).groups()
    assert only_noise_of(int(rows.replace(",", "")), 30, 0.1, 1e-6, None) is None
    assert only_noise_of(20, 30, float(epsilon), 1e-6, None) is None


def test_a_named_method_and_a_private_number_of_components_are_not_refused():
    task = Task("T", 30, 2, Budget(0.1, 1e-6), Relation.REPLACE, None, "private", 20)
    chosen = resolve("auto", task)
    with pytest.warns(OnlyNoiseWarning):
        fit(ROWS[:20], 0.1, method=chosen)
    refuse_random_directions(chosen, replace(task, private_rank=True), "auto")
    refuse_random_directions(chosen, replace(task, n_rows=None), "auto")
    with pytest.raises(ValueError, match="random directions"):
        refuse_random_directions(chosen, task, "auto")


def along_a_line(n, d, epsilon, monkeypatch):
    """The root mean square cosine of the first component with the direction along which all rows lie."""
    monkeypatch.setattr("dpeigen.estimators.base.refuse_random_directions", lambda *_: None)
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        line = rng.normal(size=d) / np.sqrt(d)
        model = PrivatePCA(1, epsilon=epsilon, delta=1e-6, random_state=seed)
        found.append(model.fit(np.outer(rng.normal(size=n), line)).components_[0] @ line / np.linalg.norm(line))
    return float(np.sqrt(np.mean(np.square(found))))


@pytest.mark.filterwarnings("ignore::dpeigen.methods.OnlyNoiseWarning")
def test_only_what_is_random_is_refused(monkeypatch):
    """The mean square of 30 random cosines is at most 2.2 / d but for 1e-5; rows in a line are the easiest table."""

    def refused(n, d, epsilon, bound=None):
        task = Task("T", d, 1, Budget(epsilon, 1e-6), Relation.REPLACE, bound, "private", n)
        try:
            refuse_random_directions(resolve("auto", task), task, "auto")
        except ValueError:
            return True
        return False

    assert refused(20, 50, 0.1)
    assert along_a_line(20, 50, 0.1, monkeypatch) < np.sqrt(2.2 / 50)
    assert not refused(8, 8, 1.0)
    assert not refused(120, 4, 0.1, bound=1.0)  # a rough centre: squared cosines 2.5 times as large as random ones
    assert not refused(20, 50, 1.0)
    assert not refused(20, 50, 10.0)
    assert along_a_line(20, 50, 10.0, monkeypatch) > 0.8
    assert refused(8, 50, 0.3)
    assert along_a_line(8, 50, 0.3, monkeypatch) < np.sqrt(2.2 / 50)


def only_noise_of(n, d, epsilon, delta, scale, method="auto"):
    """What is said before a fit; reads no rows."""
    task = Task("T", d, 2, Budget(epsilon, delta), Relation.REPLACE, None, "private", n, scale=scale)
    try:
        chosen = resolve(method, task)
    except ValueError:  # refused: says why by itself
        return None
    return only_noise(chosen, task, method)


GRID = [
    (n, d, epsilon, delta, scale)
    for n in (150, 3000)
    for d in (6, 30)
    for epsilon in (0.05, 0.3)
    for delta in (0.0, 1e-6)
    for scale in (None, "private")
]


def test_what_is_said_to_do_does():
    """Whatever "auto" chooses then: neither the ε and the rows that are named nor a little more bring a warning."""
    warned = tried = 0
    for n, d, epsilon, delta, scale in GRID:
        said = only_noise_of(n, d, epsilon, delta, scale)
        if said is None:
            continue
        warned += 1
        for larger in re.findall(r"epsilon=([\d.e+-]+) would", said):
            tried += 1
            for more in (1.0, 1.1, 1.25):
                assert only_noise_of(n, d, more * float(larger), delta, scale) is None, (n, d, epsilon, delta, said)
        for rows in re.findall(r"noise: .*?([\d,]+) rows", said):
            assert only_noise_of(int(rows.replace(",", "")), d, epsilon, delta, scale) is None, said
    assert tried >= 0.8 * warned >= 4


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_refused_covariance_is_accepted_as_the_refusal_says(delta):
    def task(n, d, epsilon):
        return Task("T", d, None, Budget(epsilon, delta), Relation.REPLACE, None, "private", n)

    refused = 0
    for n, d, epsilon in itertools.product((60, 200, 437, 2000), (5, 25), (0.05, 0.3, 1.0)):
        try:
            choose(task(n, d, epsilon))
            continue
        except ValueError as error:
            said = str(error)
        refused += 1
        for larger in re.findall(r"or epsilon=([\d.e+-]+)\. Nothing", said):
            for more in (1.0, 1.1, 1.25):
                assert choose(task(n, d, more * float(larger))).name == "whitened", said
        for rows in re.findall(r"; ([\d,]+) rows", said):
            assert choose(task(int(rows.replace(",", "")), d, epsilon)).name == "whitened", said
    assert refused >= 5


def test_enough_rows_are_no_reason_to_warn():
    rows = np.random.default_rng(1).normal(size=(5000, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnlyNoiseWarning)
        fit(rows, 1.0)
        fit(rows, 1.0, relation="add_remove")  # the number of rows is private: nothing is said of it
