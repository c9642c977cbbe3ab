"""Corrections for missing cells: exact where nothing is noisy, shrunk where it is, and a planted fault."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpeigen import PrivateCovariance
from dpeigen.methods import METHODS, Task
from dpeigen.methods.auto import resolve
from dpeigen.methods.base import run_method
from dpeigen.methods.holes import Holes, shrunk
from dpeigen.privacy import Budget, GaussianCost, PureCost, Relation
from dpeigen.privacy.randomness import randomness
from dpeigen.questions import HoleShares
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame
from dpeigen.stats.holes import HoleCounts

TASK = Task("test", 4, None, Budget(50.0, 1e-6), Relation.REPLACE, None, "private", 20_000, missing="correct")


def table(n=20_000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 10 * np.arange(d)


def blanked(rows, share=0.2, block=0.0, seed=1):
    """Cells missing on their own, and a form of two columns that is missing as a whole."""
    rng = np.random.default_rng(seed)
    found = rows.copy()
    found[rng.random(rows.shape) < share] = np.nan
    found[np.ix_(rng.random(len(rows)) < block, [0, 1])] = np.nan
    return found


def test_the_correction_gives_the_moments_of_the_cells_that_are_there():
    rows = blanked(table(5000), 0.3, 0.3)
    there = np.isfinite(rows).astype(float)
    filled = np.nan_to_num(rows - 3.0)
    p, mean = there.mean(axis=0), filled.mean(axis=0)
    holes = Holes(p, there.T @ there / len(rows), 1 - p, p > 0, np.zeros((len(p), len(p))))
    covariance = holes.covariance(filled.T @ filled / len(rows) - np.outer(mean, mean), mean)
    assert np.allclose(holes.mean(mean), np.nanmean(rows, axis=0) - 3.0)
    assert np.allclose(np.diag(covariance), np.nanvar(rows, axis=0))
    both = there[:, 0] * there[:, 1] == 1
    products = (rows[both, 0] - np.nanmean(rows[:, 0])) * (rows[both, 1] - np.nanmean(rows[:, 1]))
    assert np.isclose(covariance[0, 1], products.mean(), rtol=0.05, atol=0.05)


def test_what_is_corrected_is_positive_and_keeps_its_variances():
    rng = np.random.default_rng(3)
    for _ in range(50):
        p = rng.uniform(0.05, 1, size=5)
        holes = Holes(p, np.minimum.outer(p, p) * rng.uniform(0.3, 1), 1 - p, np.arange(5) != 2, np.zeros((5, 5)))
        np.fill_diagonal(holes.both, p)
        rows = rng.normal(size=(20, 5))
        found = holes.covariance(rows.T @ rows / 20, None)
        assert np.linalg.eigvalsh(found).min() > -1e-9
        assert np.allclose(np.diag(found), np.where(holes.seen, (rows**2).mean(axis=0) / p, 0.0))


def test_complete_nearly_collinear_columns_are_not_moved_apart():
    """Condition number 10⁶, no missing cell: errors of 0.13 as with missing="refuse". Before, 1.5 to 35: entries were
    divided by noisy shares, and the smallest variances were those of the noise.
    """
    for seed in range(3):
        rng = np.random.default_rng(seed)
        turn, sizes = np.linalg.qr(rng.normal(size=(10, 10)))[0], np.logspace(0, 3, 10)
        rows = rng.normal(size=(8000, 10)) * sizes @ turn.T
        fit = PrivateCovariance(epsilon=4.89, delta=1e-6, missing="correct", random_state=seed).fit(rows)
        whitened = (turn / sizes).T @ fit.covariance_ @ (turn / sizes)
        assert np.linalg.norm(whitened - np.eye(10)) < 0.3
        assert not fit.release_.missing_shares.any()


def test_differences_that_noise_could_have_made_are_shrunk_and_clear_ones_stay():
    noise = np.random.default_rng(0).normal(size=190)
    assert np.linalg.norm(shrunk(noise, 1.0)) < 0.3 * np.linalg.norm(noise)
    assert shrunk(np.append(noise, 30.0), 1.0)[-1] == 30.0
    assert not shrunk(np.zeros(3), 1.0).any()
    clear = np.random.default_rng(0).normal(size=190) * 3
    assert np.linalg.norm(shrunk(clear, 1.0) - clear) < 0.2 * np.linalg.norm(clear)


@pytest.mark.parametrize("cost", [GaussianCost(0.5), PureCost(0.5)])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("together", [False, True])
def test_noise_on_shares_has_the_stated_deviation(cost, relation, together):
    """4,000 draws of known noise; false alarms below 1e-6 (5 deviations of a sample deviation, Laplace kurtosis)."""
    rows, rng = blanked(table(300, 5)), randomness(7)
    question = HoleShares(Frame(5, missing="correct"), together=together)
    found = HoleCounts(question.rows).update(rows)
    holes = np.isnan(rows).astype(float)
    exact = (holes.T @ holes / 300)[np.triu_indices(5, 1)] if together else holes.mean(axis=0)
    draws = [question.answer(found, None, cost, relation, rng) for _ in range(4000 // len(exact))]
    errors = np.concatenate([draw.shares - exact for draw in draws])
    stated = float(np.mean([draw.deviation for draw in draws]))
    slack = 0.15 + (0.05 if relation is Relation.ADD_REMOVE else 0.0)  # a noisy number of rows divides there
    assert abs(errors.std() / stated - 1) < slack
    reach = np.sqrt(len(exact)) if isinstance(cost, GaussianCost) else len(exact)
    if relation is Relation.REPLACE:
        unit = 1.0 if isinstance(cost, GaussianCost) else np.sqrt(2)
        assert np.isclose(stated, unit * reach / 0.5 / 300)


@pytest.mark.parametrize("block", [0.0, 0.4])
@pytest.mark.parametrize("center", ["private", "pairs"])
def test_a_fit_finds_the_covariance_of_the_complete_table(block, center):
    rows = table()
    task = replace(TASK, center=center)
    found = run_method(resolve("auto", task), ArraySource(blanked(rows, 0.2, block)), task, randomness(0))
    truth = np.cov(rows.T)
    deviations = np.sqrt(np.diag(truth))
    error = np.abs((found.covariance - truth) / np.outer(deviations, deviations)).max()
    assert error < (0.04 if center == "private" else 0.1)  # of pairs there are half as many, with twice the holes
    shares = [0.2 + 0.8 * block] * 2 + [0.2] * 2
    assert found.holes == pytest.approx(shares, abs=0.02)
    if center == "private":
        assert np.abs((found.mean - rows.mean(axis=0)) / deviations).max() < 0.03


def test_forgotten_shares_would_be_noticed(monkeypatch):
    """The planted fault: rows are filled, and sums divided by the number of rows."""
    rows = table()
    monkeypatch.setattr(Holes, "covariance", lambda self, about_mean, mean: about_mean)
    found = run_method(resolve("auto", TASK), ArraySource(blanked(rows, 0.2)), TASK, randomness(0))
    assert (np.diag(found.covariance) / rows.var(axis=0) < 0.85).all()


def test_holes_of_a_form_need_shares_of_pairs(monkeypatch):
    """Without them two columns that miss cells together look too much alike, or too little."""
    rows = table()
    alone = lambda extra, deviation: shrunk(extra, deviation) if len(extra) == 4 else 0.0 * extra  # noqa: E731
    monkeypatch.setattr("dpeigen.methods.holes.shrunk", alone)
    found = run_method(resolve("auto", TASK), ArraySource(blanked(rows, 0.2, 0.4)), TASK, randomness(0))
    truth = np.cov(rows.T)
    assert abs(found.covariance[0, 1] / truth[0, 1] - 1) > 0.2


def test_a_column_without_cells_is_unknown():
    rows = blanked(table(), 0.1)
    rows[:, 2] = np.nan
    found = run_method(resolve("auto", TASK), ArraySource(rows), TASK, randomness(0))
    assert found.details["columns_without_scale"] == [2]
    assert not found.covariance[2].any()
    assert found.holes[2] > 0.99
    assert np.isfinite(found.covariance).all()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_methods_correct_or_say_what_does(name):
    task = replace(TASK, n_components=1, bound=50.0, budget=Budget(50.0, 0.0 if "laplace" in name else 1e-6))
    if name in ("whitened", "gaussian", "laplace", "matrix-laplace"):
        found = run_method(resolve(name, task), ArraySource(blanked(table())), task, randomness(0))
        assert found.holes is not None
    else:
        with pytest.raises(ValueError, match=r"'missing' parameter .*cannot be corrected.*method='auto'"):
            resolve(name, task)


def test_auto_corrects_or_refuses_and_never_takes_signs():
    few = replace(TASK, n_components=1, n_rows=60, budget=Budget(0.5, 1e-6))
    with pytest.raises(ValueError, match="Three remedies"):
        resolve("auto", few)
    assert resolve("auto", replace(few, missing="refuse")).estimand != "covariance"
    assert resolve("auto", replace(few, bound=20.0)).estimand == "covariance"
    with pytest.raises(ValueError, match="robust=False"):
        resolve("auto", replace(TASK, n_components=1, robust=True))
    with pytest.raises(ValueError, match="a number with missing='correct'"):
        resolve("auto", replace(TASK, n_components=1, private_rank=True))
    with pytest.raises(ValueError, match="'sharp' where"):
        resolve(METHODS["gaussian"](constants="published"), replace(TASK, bound=20.0, center=None))  # type: ignore[call-arg]
