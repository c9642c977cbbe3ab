"""Directions drawn anew have the law of the mechanism, and intervals from them hold the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.privacy.randomness import SeededRandomness, made_up_generator
from dpeigen.privacy.sphere import sample_orthonormal
from dpeigen.stats.drawn import decreasing, drawn_rotations
from dpeigen.stats.spectrum import isotonic_decreasing

pytestmark = pytest.mark.filterwarnings("ignore::dpeigen.privacy.randomness.NotPrivateWarning")
VALUES, CONCENTRATIONS = np.array([20.0, 12.0, 4.0, 1.0]), np.array([0.3, 0.2])


def squares(concentrations, draws=1500):
    turns = drawn_rotations(np.tile(VALUES, (draws, 1)), concentrations, made_up_generator(1))
    np.testing.assert_allclose(turns @ np.swapaxes(turns, 1, 2), np.tile(np.eye(4), (draws, 1, 1)), atol=1e-9)
    return (turns[:, :2] ** 2).mean(axis=0)


def test_rotations_have_the_law_of_the_mechanism():
    """1,500 draws of each: means of squared cosines differ by less than 0.06, five standard errors or more.

    Twin: draws that are twice as concentrated differ by more.
    """
    rng = SeededRandomness(made_up_generator(2))
    paid = np.array([sample_orthonormal(np.diag(VALUES), CONCENTRATIONS, rng) for _ in range(1500)])
    assert np.abs(squares(CONCENTRATIONS) - (paid**2).mean(axis=0)).max() < 0.06
    assert np.abs(squares(2 * CONCENTRATIONS) - (paid**2).mean(axis=0)).max() > 0.1


def test_axes_after_the_directions_are_uniform_in_what_remains():
    turns = drawn_rotations(np.tile(VALUES * 1e6, (4000, 1)), CONCENTRATIONS[:1], made_up_generator(3))
    np.testing.assert_allclose((turns[:, 1:, 1:] ** 2).mean(axis=0), 1 / 3, atol=0.03)


def test_decreasing_rows_are_isotonic_regressions():
    rows = np.random.default_rng(0).normal(size=(20, 7))
    np.testing.assert_allclose(decreasing(rows), [isotonic_decreasing(row) for row in rows], atol=1e-12)


def held(kind, **changed):
    """The share of intervals of eigenvector sampling that hold the truth: 40 tables of 1,500 rows."""
    levels, found = np.array([8.0, 3.0, 1.0, 0.5]), []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        rows = rng.normal(size=(1500, 4)) @ (turn * np.sqrt(levels)).T
        asked = {"method": "eigenvector-sampling", "bound": 14.0, "epsilon": 4.0, "delta": 1e-6, "center": None}
        release = PrivatePCA(2, random_state=seed, **asked).fit(rows).release_
        factors = {name: factor * getattr(release.measured, name) for name, factor in changed.items()}
        release = replace(release, measured=replace(release.measured, **factors))
        truth = {"eigenvalues": levels[:2], "covariance": (turn * levels) @ turn.T, "components": turn.T[:2]}[kind]
        if kind == "components":
            truth = truth * np.sign(np.sum(truth * release.components, axis=1))[:, None]
        low, high = getattr(release.intervals(), kind)
        found.append(((low <= truth) & (truth <= high)).mean())
    return float(np.mean(found))


@pytest.mark.parametrize("kind", ["eigenvalues", "covariance", "components"])
def test_intervals_of_drawn_directions_hold_the_truth(kind):
    """40 releases; a share below 0.85 has probability below 0.01 where 0.95 is meant; the seeds are fixed."""
    assert held(kind) >= 0.85


def test_directions_assumed_too_sharp_are_caught():
    assert held("components", concentrations=50.0) < 0.85
    assert held("covariance", concentrations=50.0) < 0.85


def test_intervals_exist_without_any_signal():
    rows = np.random.default_rng(0).normal(size=(60, 5))
    model = PrivatePCA(2, method="eigenvector-sampling", bound=40.0, epsilon=0.2, random_state=0).fit(rows)
    found = model.release_.intervals()
    for low, high in (found.components, found.eigenvalues, found.shares, found.covariance, found.correlation):
        assert np.isfinite(low).all()
        assert (high > low).all()
    assert (found.components[1] - found.components[0]).mean() > 1.0
