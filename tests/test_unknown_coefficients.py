"""Regressions on a table with columns of which nothing is known: they have no coefficient, whatever the penalty."""

import math

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivateRidge
from dpeigen.report.regressions import ridge_tables
from dpeigen.sources import ArraySource


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6000, 2))
    return np.column_stack([x, np.full(6000, 7.0), x @ [1.0, -1e-5] + 0.3 * rng.normal(size=6000)])


@pytest.mark.parametrize("alpha", [0.0, 5.0])
def test_a_constant_column_has_no_coefficient(table, alpha):
    source = ArraySource(table, ["a", "b", "constant", "y"])
    release = PrivateCovariance(epsilon=3.0, delta=1e-6, scale="private", random_state=0).fit(source).release_
    assert list(release.unknown_columns) == ["constant"]
    fit = release.regression("y", alpha=alpha)
    assert list(fit.unknown) == ["constant"]
    assert math.isinf(fit.standard_errors[2])
    assert np.isfinite(fit.standard_errors[:2]).all()
    assert fit.told[[0, 2]].tolist() == [True, False]
    lines = fit.summary().splitlines()
    assert next(line for line in lines if line.startswith("constant")).split() == ["constant", "not", "known"]
    assert "intercept: not known, it depends on all coefficients." in lines


def test_the_table_of_a_ridge_regression_gives_it_no_number(table):
    source = ArraySource(table[:, :3], ["a", "b", "constant"])
    ridge = PrivateRidge(5.0, epsilon=3.0, delta=1e-6, scale="private", random_state=0).fit(source, table[:, 3])
    assert list(ridge.release_.unknown_columns) == ["constant"]
    (shown,) = ridge_tables(ridge.release_)
    (row,) = [row for row in shown.rows if row[0] == "constant"]
    assert row[1] == "not known"
    assert "Not known: constant (constant, rare, or too few rows for this budget)." in shown.note
    assert shown.rows[-1] == ["intercept", "not known"]
    assert "The intercept depends on all coefficients." in shown.note
    assert isinstance(next(row for row in shown.rows if row[0] == "a")[1], tuple)


def test_the_table_of_a_ridge_regression_says_which_columns_cannot_be_separated():
    rows = np.random.default_rng(0).normal(size=(4000, 3))
    rows[:, 1] = rows[:, 0] + 0.003 * rows[:, 1]
    ridge = PrivateRidge(0.0, method="gaussian", bound=6.0, epsilon=2.0, delta=1e-6, random_state=0)
    target = rows @ [1.0, 0.0, 1.0] + np.random.default_rng(1).normal(size=4000)
    release = ridge.fit(ArraySource(rows, ["mg", "umol", "other"]), target).release_
    why = "it cannot be separated from a combination with umol"
    assert release.regression("y").unknown["mg"] == why
    (shown,) = ridge_tables(release)
    assert [row[1] for row in shown.rows if row[0] in ("mg", "umol", "intercept")] == ["not known"] * 3
    assert f"mg ({why})" in shown.note


def test_a_regression_in_a_notebook_says_what_is_not_known_and_what_is_assumed(table):
    source = ArraySource(table, ["a", "b", "constant", "y"])
    release = PrivateCovariance(epsilon=3.0, delta=1e-6, scale="private", random_state=0).fit(source).release_
    for of, sampled in (("population", True), ("table", False)):
        fit = release.regression("y", of=of)
        for text in (fit._repr_html_(), " ".join(str(fit).split())):
            assert ("residuals of equal spread (homoscedastic)" in text) == sampled
            assert f"constant: not known, {release.unknown_columns['constant']}." in text


def test_numbers_of_a_summary_do_not_run_together(table):
    release = PrivateCovariance(epsilon=3.0, delta=1e-6, random_state=0).fit(table[:, [0, 1, 3]] * [1, 1e5, 1e-4])
    lines = release.release_.regression("x2").summary().splitlines()
    rows = [line for line in lines if line.startswith(("x0", "x1"))]
    assert [len(row.split()) for row in rows] == [7, 7]
    assert all(len(line) <= 78 for line in lines[:10])


def test_intervals_of_eigenvalues_are_in_order():
    """No eigenvalue is larger than the one before it, so no interval may say that it could be."""
    for seed in range(8):
        rows = np.random.default_rng(seed).normal(size=(1500, 8)) * [3, 2, 1, 1, 1, 0.5, 0.01, 0.01]
        low, high = (
            PrivateCovariance(epsilon=1.0, delta=1e-6, random_state=seed).fit(rows).release_.intervals().eigenvalues
        )
        assert (np.diff(low) <= 1e-12 * low[0]).all()
        assert (np.diff(high) <= 1e-12 * high[0]).all()


def test_columns_with_one_reason_are_named_together_and_noise_is_the_reason():
    """Ten columns of which noise hides all differences: one sentence, not ten that blame the columns."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(4000, 1))
    rows = common + 0.05 * rng.normal(size=(4000, 10))
    source = ArraySource(np.column_stack([rows, rows[:, 0] + rng.normal(size=4000)]), [*"abcdefghij", "y"])
    release = PrivateCovariance(method="gaussian", bound=14.0, epsilon=1.0, delta=1e-6, random_state=0).fit(source)
    fit = release.release_.regression("y")
    reasons = set(fit.unknown.values())
    assert any("columns whose separate effects noise hides" in why for why in reasons)
    for why in reasons:
        names = [name for name, reason in fit.unknown.items() if reason == why]
        assert f"{', '.join(names)}: not known, {why}." in fit.notes()
    assert "More may be known with fewer features=[…], which spends no budget." in fit.notes()
    alone = release.release_.regression("y", features=["a"])
    assert not alone.unknown
    assert abs(alone.coef[0] - 1) < 4 * alone.standard_errors[0]


def test_the_table_of_a_ridge_regression_says_how_more_can_be_known():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 1)) + 0.01 * rng.normal(size=(4000, 10))
    source = ArraySource(np.column_stack([rows, rng.normal(size=4000)]), [*"abcdefghij", "z"])
    ridge = PrivateRidge(0.0, epsilon=1.0, delta=1e-6, scale="private", random_state=0)
    release = ridge.fit(source, rows[:, 0] + rng.normal(size=4000)).release_
    (shown,) = ridge_tables(release)
    assert 1 <= shown.note.count("separate effects noise hides") <= 3
    assert (
        "in a regression on fewer columns, which spends no budget: release.regression('y', features=[…])" in shown.note
    )
    assert len(shown.note) < 1500
