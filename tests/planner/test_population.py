"""Moments of n rows without drawing n rows, and how rows lie in a box."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.planner import Rows
from dpeigen.planner.beside import InTurn, beside
from dpeigen.planner.box import BoxedAxes, _majorised, _turn
from dpeigen.planner.population import Population
from dpeigen.planner.problem import Problem
from dpeigen.planner.views import View

VALUES = np.array([9.0, 4.0, 1.0, 1.0, 0.5])


def stretch(seed=0):
    return np.random.default_rng(seed).normal(size=(5, 5)) / 3 + np.eye(5)


VIEWS = {
    "signs": View(),
    "clipped": View(4.0),
    "stretched signs": View(None, stretch()),
    "stretched and clipped": View(3.0, stretch()),
    "far off centre": View(4.0, None, np.array([1.0, 0, 0, 2.0, 0])),
    "signs off centre": View(None, None, np.array([0.3, 0, 0, 0.2, 0])),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("tails", [None, 3.0])
def test_means_are_those_of_a_million_rows(name, tails):
    """Within 1.5% of the trace, where both Monte Carlo errors are below 0.4%; the twin is another view."""
    rows, view = Rows(VALUES, tails), VIEWS[name]
    population = Population(rows, 10**12)  # so many that nothing is left of the sampling error
    images = view.image(rows.draw(400_000, np.random.default_rng(1)))
    exact = images.T @ images / len(images)
    if view.radius is None:  # a part in all directions does not matter for signs
        exact = exact - np.trace(exact) / 5 * np.eye(5)
    found = population.moment(0, view)
    found = found if view.radius is not None else found - np.trace(found) / 5 * np.eye(5)
    scale = 1.0 if view.radius is None else float(np.trace(exact))
    assert np.abs(found - exact).max() < 0.015 * scale
    other = population.moment(0, VIEWS["signs" if name != "signs" else "stretched signs"])
    assert np.abs(other - exact).max() > 0.015 * scale


@pytest.mark.parametrize("stretched", [False, True])
def test_a_centre_that_is_off_by_little_adds_what_it_adds_to_real_rows(stretched):
    """Within a third of the change, in norm; leaving the change out is the twin."""
    values = np.arange(1.0, 9) ** -2.0
    shift = np.random.default_rng(3).normal(size=8)
    shift *= np.sqrt(0.0025 * values.sum()) / np.linalg.norm(shift)
    matrix = np.diag(np.linspace(0.5, 1.5, 8)) if stretched else None
    population = Population(Rows(values), 10**12)
    change = population.moment(0, View(None, matrix, shift)) - population.moment(0, View(None, matrix))
    rows = Rows(values).draw(400_000, np.random.default_rng(4))
    images = [View(None, matrix, s).image(rows) for s in (shift, -shift, 0 * shift)]
    plus, minus, none = (z.T @ z / len(z) for z in images)
    exact = (plus + minus) / 2 - none
    assert np.linalg.norm(change - exact) < np.linalg.norm(exact) / 3


@pytest.mark.parametrize("pairs", [False, True])
def test_moments_vary_like_those_of_real_rows(pairs):
    """Deviations of an entry over 60 repetitions, within a third of those of real rows (false alarms below 1e-3)."""
    rows, n, view = Rows(VALUES, 5.0), 12_000, View(4.0)
    population = Population(rows, n, pairs=pairs)
    assert not population.exact
    simulated = np.std([population.moment(r, view)[0, 3] for r in range(60)])
    real, rng = [], np.random.default_rng(2)
    for _ in range(60):
        x = rows.draw(2 * n if pairs else n, rng)
        y = view.image((x[0::2] - x[1::2]) / np.sqrt(2) if pairs else x)
        real.append(y[:, 0] @ y[:, 3] / n)
    assert 2 / 3 < simulated / np.std(real) < 3 / 2


def test_differences_vary_like_those_of_real_rows(monkeypatch):
    """One strong direction: a difference that is short along it has a sign far off, which many partners average out.

    Root mean squares across it of 200 models and 60 tables of 5000 rows × 64 partners, 4 entries each: known to 3%
    and 5%, so that a ratio outside 0.85–1.18 has a probability below 1%. The twin takes the directions to be weak.
    """
    variances = np.array([352.0, 1.0, 1.0, 1.0, 1.0])

    def modelled():
        population = Population(Rows(variances), 5000)
        return np.sqrt(np.mean([population.differences(r, 1)[0, 1:] ** 2 for r in range(200)]))

    real = []
    for seed in range(60):
        X, total = Rows(variances).draw(5000, np.random.default_rng([31, seed])), np.zeros(4)
        for step in range(1, 33):  # each row has a partner to either side
            z = X - np.roll(X, step, axis=0)
            z /= np.linalg.norm(z, axis=1, keepdims=True)
            total += z[:, 0] @ z[:, 1:] / (32 * len(X))
        real.append(total**2)
    assert 0.85 < modelled() / np.sqrt(np.mean(real)) < 1.18
    monkeypatch.setattr(Population, "_spread", lambda _self, _k: 4.0)
    assert modelled() / np.sqrt(np.mean(real)) > 1.18


def test_few_rows_are_drawn_themselves():
    population = Population(Rows(VALUES), 300)
    first, again, other = population.rows(0), population.rows(0), population.rows(1)
    assert first is again
    assert first.shape == (300, 5)
    assert not np.array_equal(first, other)
    y = VIEWS["clipped"].image(first)
    assert np.allclose(population.moment(0, VIEWS["clipped"]), y.T @ y / 300)


@pytest.mark.parametrize("d", [3, 20, 120])
def test_columns_spread_in_proportion_to_their_bounds(d):
    rng = np.random.default_rng(d)
    values = np.sort(rng.exponential(size=d))[::-1] + 0.1
    for widths in (np.ones(d), rng.uniform(0.5, 2, d), rng.permutation(values), rng.exponential(size=d) ** 2):
        turn = _turn(values, widths, rng)
        assert np.allclose(turn @ turn.T, np.eye(d), atol=1e-9)
        wanted = _majorised(widths * values.sum() / widths.sum(), values)
        assert np.allclose(np.diag((turn * values) @ turn.T), wanted, rtol=1e-6)
    aligned = _turn(values, rng.permutation(values), rng)
    assert np.allclose(np.sort(np.abs(aligned).max(axis=1)), 1.0)  # such widths are those of the principal directions


def test_rows_are_clipped_to_the_box():
    half = 2.0 * np.sqrt(VALUES)
    facts = {"epsilon": 1.0, "bound": (-half, half), "spectrum": VALUES}
    box = BoxedAxes.of(Problem.of(100, 5, 2, **facts).task, VALUES)
    rows = Rows(VALUES, 3.0).draw(1000, np.random.default_rng(0))
    inside = box.clipped(rows) @ box.turn.T
    assert (np.abs(inside) <= half * (1 + 1e-12)).all()
    assert np.array_equal(box.clipped(rows / 1000), rows / 1000)
    assert BoxedAxes.of(Problem.of(100, 5, 2, epsilon=1.0, spectrum=VALUES).task, VALUES) is None
    population = Population(Rows(VALUES, 3.0), 10**6, box=box)
    assert (np.abs(population.rows(0) @ box.turn.T) <= half * (1 + 1e-9)).all()


def test_jobs_run_in_turn_or_beside_with_the_same_answers():
    for pool in (InTurn(), None):
        with beside(2) as forked:
            executor = pool or forked
            done, wrong = executor.submit(pow, 3, 4), executor.submit(int, "x")
            assert done.result() == done.result() == 81
            with pytest.raises(ValueError, match="invalid literal"):
                wrong.result()
