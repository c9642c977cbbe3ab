"""Columns that are narrow beside the others have a centre with an error of their own size."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.methods import Refined, location
from dpeigen.methods.signs import refined, spatial_sign
from dpeigen.privacy.randomness import SeededRandomness

UNITS = np.array([40.0, 8.0, 25.0, 1.0, 0.1, 0.01, 1e-4])
PLACES = np.array([-2.0, 0.3, 4.0, 1.0, -7.0, 2.0, 1e5])


def rows_in_mixed_units(n, seed):
    rng = np.random.default_rng(seed)
    sources = rng.normal(size=(n, 7)) @ np.linalg.qr(rng.normal(size=(7, 7)))[0] + 0.5 * rng.normal(size=(n, 7))
    return (sources / sources.std(axis=0) + PLACES) * UNITS


def means(n=6000, *, seeds=4, **options):
    """Errors of means in deviations, and whether 95% intervals hold the means of the table: fits × columns each."""
    errors, held = [], []
    for seed in range(seeds):
        rows = rows_in_mixed_units(n, seed)
        facts = {"epsilon": 2.0, "delta": 1e-6, "random_state": seed} | options
        release = PrivatePCA(2, **facts).fit(rows).release_
        low, high = release.intervals(of="table").mean
        truth = rows.mean(axis=0)
        errors.append((release.mean - truth) / UNITS)
        held.append((low <= truth) & (truth <= high))
    return np.array(errors), np.array(held)


@pytest.mark.parametrize(
    "options",
    [
        {"robust": True},
        {"method": "spatial-sign"},
        {"method": "spatial-sign", "relation": "add_remove"},
        {"method": "spatial-sign", "delta": 0.0, "epsilon": 8.0, "n": 25_000},
    ],
)
def test_means_of_narrow_columns_are_right_in_their_own_unit(options):
    """Without their own locations errors are of the size of the largest column: tens of deviations."""
    errors, held = means(**options)
    assert np.sqrt(np.mean(errors**2, axis=0)).max() < 4.0
    assert held.mean() >= 0.8  # 28 means; fewer have a probability below 0.1% at a coverage of 0.95


def test_and_without_locations_of_their_own_they_are_not(monkeypatch):
    monkeypatch.setattr(location, "ask_narrow_places", lambda *_: None)
    errors, _ = means(robust=True)
    assert np.sqrt(np.mean(errors**2, axis=0)).max() > 30


def test_columns_declared_to_share_a_unit_are_not_asked_again(monkeypatch):
    def refused(*_):
        raise AssertionError("not asked")

    monkeypatch.setattr(location, "ask_narrow_places", refused)
    rows = np.random.default_rng(0).normal(size=(6000, 4)) * [1.0, 1.0, 1.0, 1e-6]
    model = PrivatePCA(2, epsilon=2.0, delta=1e-6, robust=True, units="same", random_state=0).fit(rows)
    assert model.mean_.shape == (4,)


@pytest.mark.parametrize("share", [0.02, 0.2, 0.5])
def test_the_mean_of_a_flag_is_not_its_most_frequent_value(share):
    """Most rows of a rare flag have one value, as those of a narrow column are near one: its mean is elsewhere."""
    errors = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = np.column_stack([rng.normal(size=(20_000, 4)), rng.random(20_000) < share])
        model = PrivatePCA(2, epsilon=2.0, delta=1e-6, method="spatial-sign", random_state=seed).fit(rows)
        errors.append(model.mean_[4] - rows[:, 4].mean())
    assert np.sqrt(np.mean(np.square(errors))) < 0.03


def test_a_constant_column_has_its_value():
    rows = np.column_stack([np.random.default_rng(1).normal(size=(6000, 3)), np.full(6000, 17.25)])
    model = PrivatePCA(2, epsilon=2.0, delta=1e-6, robust=True, random_state=0).fit(rows)
    assert abs(model.mean_[3] - 17.25) < 0.02


class Counting(SeededRandomness):
    """Counts the integers that are drawn with Gaussian noise."""

    drawn = 0

    def discrete_gaussian(self, scale, size):
        self.drawn += size
        return super().discrete_gaussian(scale, size)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize(("module", "method"), [(spatial_sign, "spatial-sign"), (refined, Refined(cutoff="private"))])
def test_discrete_noise_is_allowed_for_as_often_as_it_is_drawn(module, method, relation, monkeypatch):
    """A column far from 0 takes the most measurements of places; if constant, it is counted again as a narrow one."""
    allowed, real = [], module.allocate
    monkeypatch.setattr(module, "allocate", lambda *a, **o: (allowed.append(o["coordinates"]), real(*a, **o))[1])
    rng = Counting(np.random.default_rng(0))
    rows = np.column_stack([np.random.default_rng(1).normal(size=3000), np.full(3000, 2.0**64)])
    options = {"method": method, "center": "private", "relation": relation, "random_state": rng}
    PrivatePCA(1, epsilon=30.0, delta=1e-6, **options).fit(rows)
    assert 2 * 2400 < rng.drawn <= min(allowed)
