"""Intervals and regressions of releases: for every method, from a file too, and plain words where there are none."""

from __future__ import annotations

import gc
from dataclasses import replace
from types import FunctionType, ModuleType

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge, io, load_release
from dpeigen.cli._show import components_table, console
from dpeigen.curator import Curator
from dpeigen.exchange import read_arrow
from dpeigen.privacy.randomness import made_up_generator
from dpeigen.sources import Source

pytestmark = pytest.mark.filterwarnings("ignore::dpeigen.privacy.randomness.NotPrivateWarning")
RNG = np.random.default_rng(0)
ROWS = (RNG.normal(size=(4000, 4)) * [3.0, 1.5, 1.0, 1.0]) @ np.linalg.qr(RNG.normal(size=(4, 4)))[0] + 1.0
METHODS = {
    "gaussian": {"bound": 12.0},
    "laplace": {"bound": 12.0, "delta": 0.0},
    "matrix-laplace": {"bound": 12.0, "delta": 0.0},
    "whitened": {},
    "spatial-sign": {"random_state": 2},
    "refined": {},
    "kendall": {},
    "eigenvector-sampling": {"bound": 12.0, "epsilon": 3.0},
}


def fitted(method, **options):
    options = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0, "method": method, **options}
    return PrivatePCA(2, **options).fit(ROWS).release_


@pytest.fixture(scope="module")
def release():
    return fitted("whitened")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_intervals(method):
    found = fitted(method, **METHODS[method])
    ends = found.intervals()
    truth = np.cov(ROWS.T, bias=True)
    first = np.linalg.eigh(truth)[1][:, -1]
    low, high = ends.components
    first = first * np.sign(first @ found.components[0])
    assert low.shape == found.components.shape
    assert np.mean((low[0] <= first) & (first <= high[0])) >= 0.5
    for name in ("eigenvalues", "shares", "covariance", "correlation"):
        low, high = getattr(ends, name)
        assert (low <= high).all(), name
    assert (ends.correlation[1] - ends.correlation[0]).max() < 2.0
    assert found.resolved in (1, 2)


def test_intervals_are_the_same_every_time_and_after_saving(release, tmp_path):
    again = load_release(release.save(tmp_path / "r"))
    for name in ("components", "eigenvalues", "covariance", "mean"):
        np.testing.assert_array_equal(getattr(release.intervals(), name), getattr(again.intervals(), name))


@pytest.mark.parametrize("method", METHODS)
def test_what_was_measured_is_computed_when_asked_for_and_holds_no_rows(method):
    found = fitted(method, **METHODS[method])
    later = vars(found)["_measured"]
    assert callable(later)
    assert not holds_rows(later)
    assert holds_rows(lambda rows=ROWS: rows)  # the search finds rows where there are some
    with np.errstate(all="raise"):  # the caller's error state decides nothing
        measured = found.measured
    assert measured is not None
    assert found.measured is measured


def holds_rows(value):
    """Whether an array with as many rows as the table, or anything that reads rows, can be reached from a value."""
    seen, left = set(), [value]
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, (type, ModuleType)):
            continue
        seen.add(id(each))
        if isinstance(each, (Source, Curator)) or (isinstance(each, np.ndarray) and len(ROWS) in each.shape):
            return True
        inside = (each.__closure__, each.__defaults__) if isinstance(each, FunctionType) else gc.get_referents(each)
        left.extend(inside)
    return False


def test_intervals_survive_a_table_for_other_programs(release):
    pytest.importorskip("pyarrow")
    again = read_arrow(release.to_arrow())
    np.testing.assert_allclose(release.intervals().eigenvalues, again.intervals().eigenvalues)


def test_a_file_without_what_was_measured_says_so(release, tmp_path):
    arrays, description = io.read_folder(release.save(tmp_path / "new"))
    del description["measured"]
    arrays = {name: array for name, array in arrays.items() if not name.startswith("measured")}
    old = load_release(io.write_folder(tmp_path / "old", arrays, description))
    assert old.resolved is None
    for ask in (old.intervals, lambda: old.regression(0)):
        with pytest.raises(ValueError, match="older version of dpeigen"):
            ask()


@pytest.mark.parametrize("change", [{"law": "cauchy"}, {"terms": 0}, {"deviation": "x"}, {"other": 1}, {"terms": None}])
def test_a_file_with_nonsense_is_refused(release, tmp_path, change):
    arrays, description = io.read_folder(release.save(tmp_path / "new"))
    description["measured"] |= change
    with pytest.raises(io.DamagedReleaseError):
        load_release(io.write_folder(tmp_path / "bad", arrays, description))


def test_a_table_has_narrower_intervals_than_its_population(release):
    table, population = (release.intervals(of=of).covariance for of in ("table", "population"))
    assert (table[1] - table[0]).mean() < (population[1] - population[0]).mean()
    wide = release.intervals(0.99).covariance
    assert (wide[1] - wide[0]).mean() > (population[1] - population[0]).mean()


@pytest.mark.parametrize(("level", "of"), [(1.0, "table"), (0.2, "table"), (True, "table"), (0.95, "sample")])
def test_bad_parameters_are_named(release, level, of):
    with pytest.raises(ValueError, match=r"The '(level|of)' parameter of Release.intervals"):
        release.intervals(level, of=of)


def test_noise_is_not_printed_as_a_result():
    rows = np.random.default_rng(1).normal(size=(600, 6))
    found = PrivatePCA(2, epsilon=0.5, delta=1e-6, random_state=0).fit(rows).release_
    assert found.resolved == 0
    out = console()
    with out.capture() as text:
        out.print(components_table(found))
    assert text.get().count("not distinguishable from noise") == 2


def test_scaled_columns_have_intervals_of_correlations():
    found = fitted("whitened", scale="private")
    low, high = found.intervals().covariance
    truth = np.corrcoef(ROWS.T)
    assert ((low <= truth) & (truth <= high)).mean() > 0.8


@pytest.mark.parametrize("options", [{}, {"method": "gaussian", "bound": 12.0}, {"relation": "add_remove"}])
def test_holes_have_intervals_that_hold_the_truth(options):
    """Of 22 numbers in 3 fits at least 85% are held; intervals about uncorrected moments hold less."""
    held, uncorrected, truth = [], [], np.cov(ROWS.T, bias=True)
    for seed in range(3):
        rows = ROWS.copy()
        rows[np.random.default_rng(seed).random(rows.shape) < 0.2] = np.nan
        model = PrivatePCA(2, epsilon=4.0, delta=1e-6, missing="correct", random_state=seed, **options)
        ends = model.fit(rows).release_.intervals()
        for name, true in (
            ("covariance", truth),
            ("mean", ROWS.mean(axis=0)),
            ("eigenvalues", np.linalg.eigvalsh(truth)[:1:-1]),
        ):
            low, high = getattr(ends, name)
            held += list(np.ravel((low <= true) & (true <= high)))
        low, high = ends.covariance
        uncorrected += list(np.ravel((0.64 * low <= truth) & (truth <= 0.64 * high)))
    assert np.mean(held) > 0.85
    assert np.mean(uncorrected) < 0.82


def test_intervals_with_holes_survive_a_file(tmp_path):
    rows = ROWS.copy()
    rows[::7, 1] = np.nan
    found = PrivatePCA(2, epsilon=4.0, delta=1e-6, missing="correct", random_state=0).fit(rows).release_
    again = load_release(found.save(tmp_path / "r"))
    np.testing.assert_array_equal(found.intervals().covariance, again.intervals().covariance)
    assert found.regression(0).coef.shape == (3,)


def test_where_all_rows_were_clipped_their_size_is_not_known(release):
    """A radius that all rows are longer than says nothing of variances and places; correlations stay."""
    measured = release.measured
    short = 0.9 * np.sqrt(np.trace(measured.moment[1:, 1:]))
    found = replace(release, measured=replace(measured, radius=float(short), outside_radius=float(short))).intervals()
    assert np.isinf(found.eigenvalues[1]).all()
    assert np.isinf(np.diag(found.covariance[1])).all()
    assert np.isinf(found.mean[1]).all()
    assert (found.correlation[1] - found.correlation[0]).min() < 2
    assert np.isfinite(release.intervals().eigenvalues[1]).all()


def test_eigenvalues_of_a_correlation_are_at_most_the_number_of_columns():
    rows = np.random.default_rng(1).normal(size=(1200, 12)) * 10.0 ** np.arange(-3, 9)
    found = PrivatePCA(2, epsilon=1.5, delta=1e-6, scale="private", random_state=0).fit(rows).release_.intervals()
    low, high = found.eigenvalues
    assert (high <= 12).all()
    assert (found.shares[1] <= 1).all()
    assert (low >= 0).all()


def test_a_private_number_of_components_is_the_number_that_can_be_told_from_noise():
    for rows, count in ((ROWS, None), (np.random.default_rng(3).normal(size=(3000, 6)), 0)):
        found = PrivatePCA("private", epsilon=2.0, delta=1e-6, random_state=0).fit(rows).release_
        clear = found.facts["details"]["components_that_stand_out"]
        assert len(found.components) == max(1, clear)
        assert found.resolved == clear
        assert count is None or clear == count


def test_intervals_protect_people_too():
    ids = np.arange(len(ROWS)) // 2
    found = PrivatePCA(2, epsilon=4.0, delta=1e-6, random_state=0).fit(ROWS, unit=ids).release_
    low, high = found.intervals().covariance
    truth = np.cov(ROWS.T, bias=True)
    assert ((low <= truth) & (truth <= high)).mean() > 0.7


def test_regression_finds_what_least_squares_finds():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 3))
    y = X @ [1.0, -0.5, 0.0] + 2 + rng.normal(size=20_000)
    release = PrivateCovariance(epsilon=2.0, delta=1e-6, random_state=0).fit(np.column_stack([X, y])).release_
    fit = release.regression("x3")
    assert np.all(np.abs(fit.coef - [1.0, -0.5, 0.0]) < 5 * fit.standard_errors)
    assert fit.told[:2].all()
    assert abs(fit.z[2]) < 5
    assert abs(fit.intercept - 2) < 5 * fit.intercept_standard_error
    assert fit.r_squared_interval[0] < 1.25 / 2.25 < fit.r_squared_interval[1]
    assert abs(fit.partial_correlations[0]) > abs(fit.partial_correlations[2])
    text = str(fit)
    assert "std err" in text
    assert "R²" in text
    assert release.regression("x0", ["x1", "x3"]).feature_names == ("x1", "x3")
    strong = release.regression("x3", alpha=1e6)
    assert np.abs(strong.coef).sum() < np.abs(fit.coef).sum()
    with pytest.raises(ValueError, match="'alpha' parameter"):
        release.regression("x3", alpha="auto")


@pytest.mark.parametrize("units", [(1e6, 1.0, 1.0), (1e-6, 1e6, 1.0), (1.0, 1e3, 1e-6), (1.0, 1e-6, 1e6)])
def test_regression_in_other_units_is_the_same(monkeypatch, units):
    """The same measurement of columns in other units, with the same draws of its error."""
    monkeypatch.setattr("dpeigen.errors.generator_of", lambda _: made_up_generator(1))
    rng = np.random.default_rng(2)
    X = rng.normal(size=(5_000, 2)) + 1
    y = X @ [1.0, -0.5] + 2 + rng.normal(size=5_000)
    release = PrivateCovariance(epsilon=2.0, delta=1e-6, random_state=0).fit(np.column_stack([X, y])).release_
    by = np.array(units)
    other = replace(
        release,
        mean=release.mean * by,
        covariance=release.covariance * np.outer(by, by),
        measured=release.measured.scaled(1 / by),
    )
    plain, fit, back = release.regression("x2"), other.regression("x2"), by[:2] / by[2]
    assert plain.told.all()
    for found, expected in [
        (fit.coef * back, plain.coef),
        (fit.standard_errors * back, plain.standard_errors),
        (np.array(fit.intervals) * back, np.array(plain.intervals)),
        (fit.r_squared, plain.r_squared),
        (fit.r_squared_interval, plain.r_squared_interval),
        (fit.intercept / by[2], plain.intercept),
        (fit.intercept_standard_error / by[2], plain.intercept_standard_error),
        (fit.partial_correlation_intervals, plain.partial_correlation_intervals),
    ]:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


LEVELS = ["north", "south", "west"]
LEVELLED = {
    "age": {"lower": 18, "upper": 93},
    "region": {"categories": LEVELS},
    "y": {"lower": -40, "upper": 80},
}


@pytest.fixture(scope="module")
def levelled():
    """Rows, and what least squares finds: of age, of the differences from "south", and R²."""
    pd, rng, n = pytest.importorskip("pandas"), np.random.default_rng(0), 20_000
    region = rng.choice(LEVELS, p=[0.3, 0.5, 0.2], size=n)
    age = rng.normal(45, 11, n).clip(18, 90) + 3 * (region == "west")
    y = 0.5 * age + 8 * (region == "north") - 6 * (region == "west") + rng.normal(0, 5, n)
    X = np.column_stack([age, region == "north", region == "south", region == "west"]).astype(float)
    design = np.column_stack([X[:, [0, 1, 3]], np.ones(n)])
    coef = np.linalg.lstsq(design, y, rcond=None)[0]
    share = 1 - np.var(y - design @ coef) / np.var(y)
    return pd.DataFrame({"age": age, "region": region, "y": y}), X, coef, share


@pytest.mark.parametrize("scale", [None, "private"])
def test_regression_on_all_levels_of_a_category(levelled, scale):
    """They add up to 1, so that one is the reference. A truth 5 standard errors away has probability below 1e-5."""
    frame, _, coef, share = levelled
    widths = []
    for epsilon in (1.0, 10.0):
        options = {"epsilon": epsilon, "delta": 1e-6, "scale": scale, "random_state": 0, "columns": LEVELLED}
        fit = PrivateCovariance(**options).fit(frame).release_.regression("y")
        assert fit.references == ("region=south",)
        assert list(fit.told) == [True, True, False, True]
        assert fit.coef[2] == fit.standard_errors[2] == 0
        assert (np.abs(fit.coef - [*coef[:2], 0, coef[2]]) <= 5 * fit.standard_errors).all()
        assert abs(fit.r_squared - share) < 0.02
        assert abs(fit.intercept - coef[3]) < 5 * fit.intercept_standard_error
        assert np.isnan(fit.partial_correlations).tolist() == [False, False, True, False]
        assert "reference level" in str(fit)
        assert "reference level" in fit._repr_html_()
        widths.append(fit.standard_errors[[0, 1, 3]])
    assert (widths[1] < widths[0]).all()
    assert (widths[1] < 0.02 * np.abs(coef[:3])).all()


def test_penalised_regression_keeps_all_levels(levelled):
    """The penalty says which of the coefficients that predict alike; twin: columns that are not said to be levels."""
    frame, X, _, share = levelled
    for epsilon in (1.0, 10.0):
        options = {"epsilon": epsilon, "delta": 1e-6, "random_state": 0, "columns": LEVELLED}
        release = PrivateRidge("auto", **options).fit(frame, "y").release_
        asked = release.facts["ridge"]
        fit = release.regression("y", alpha=asked["alpha"], scales=asked["scales"])
        center, scales = X - X.mean(axis=0), np.array(asked["scales"])
        truth = np.linalg.solve(center.T @ center + asked["alpha"] * np.diag(scales**2), center.T @ frame["y"])
        assert fit.references == ()
        assert fit.told.all()
        assert (np.abs(fit.coef - truth) <= 5 * fit.standard_errors).all()
        assert abs(fit.r_squared - share) < 0.02
        unsaid = replace(release, facts={name: fact for name, fact in release.facts.items() if name != "columns"})
        apart = unsaid.regression("y")
        assert apart.told.tolist() == [True, False, False, False]
        assert list(apart.unknown) == [f"region={level}" for level in LEVELS]


@pytest.mark.parametrize("alpha", [0.0, "auto"])
def test_ridge_on_all_levels_lies_in_its_intervals(levelled, alpha):
    """Where ε is large, too: noise in the place of the variance of a constant sum moved all levels together."""
    frame, X, _, _ = levelled
    options = {"epsilon": 100.0, "delta": 1e-6, "random_state": 0, "columns": LEVELLED}
    model = PrivateRidge(alpha, **options).fit(frame, "y")
    low, high = model.coef_intervals()
    assert ((low < model.coef_) & (model.coef_ < high)).all()
    np.testing.assert_allclose(
        model.coef_[1:] @ np.array(model.release_.facts["ridge"]["scales"])[1:] ** 2, 0, atol=1e-6
    )
    spread = (X - X.mean(axis=0)) @ model.coef_
    assert np.corrcoef(spread, frame["y"])[0, 1] ** 2 == pytest.approx(levelled[3], abs=0.005)


def test_levels_about_a_public_point_are_not_constant(levelled):
    """About 0 the levels take the place of an intercept, and none of them is left out."""
    frame, X, _, _ = levelled
    options = {"epsilon": 10.0, "delta": 1e-6, "random_state": 0, "columns": LEVELLED}
    fit = PrivateCovariance(center=np.zeros(5), **options).fit(frame).release_.regression("y")
    assert fit.references == ()
    truth = np.linalg.lstsq(X, frame["y"].to_numpy(), rcond=None)[0]
    assert (np.abs(fit.coef - truth) <= 5 * fit.standard_errors).all()


def test_private_ridge_has_intervals_in_the_units_of_the_data():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(20_000, 2)) * [1.0, 100.0]
    y = X @ [0.5, -0.003]
    options = {"epsilon": 2.0, "delta": 1e-6, "random_state": 1}
    model = PrivateRidge(0.0, bound=([-1, -100], [1, 100]), target_bounds=(-1, 1), **options).fit(X, y)
    low, high = model.coef_intervals(0.999)  # both hold but for a chance of about 0.002
    assert ((low <= [0.5, -0.003]) & (high >= [0.5, -0.003])).all()
    assert (high - low < [0.2, 0.002]).all()
