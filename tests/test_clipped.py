"""Many clipped rows are told everywhere, and a number that is shown lies inside its interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge, clipping_errors, errors
from dpeigen.cli._show import as_json, console, show_release
from dpeigen.clipped import clipped_share, clipped_warning, long_columns
from dpeigen.notebook import release_html
from dpeigen.report.content import make_card
from dpeigen.sources import ArraySource
from dpeigen.stats.clipping import Clipping
from dpeigen.stats.lost import Lost, far_rows, loss_errors, seen_tails, shared_losses

RNG = np.random.default_rng(3)
FEW = RNG.normal(size=(3000, 5))
FEW[:, 0] = np.exp(1.2 * FEW[:, 0])
NAMES = ["sales", "a", "b", "c", "d"]
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


@pytest.fixture(scope="module")
def clipped():
    return PrivatePCA(2, method="whitened", **BUDGET).fit(ArraySource(FEW, NAMES)).release_


def test_many_clipped_rows_are_told_on_the_card_in_the_terminal_in_notebooks_and_to_programs(clipped):
    warning = clipped_warning(clipped)
    assert clipped_share(clipped) > 0.03
    assert warning is not None
    assert "of the rows may have been clipped" in warning
    assert "Many rows were clipped" in [
        notice.title for notice in make_card(clipped, {"release.json": "0" * 64}).notices
    ]
    out = console()
    with out.capture() as text:
        show_release(out, clipped, "A release")
    assert "may have been clipped" in " ".join(text.get().split())
    assert "may have been clipped" in release_html(clipped)
    assert as_json(clipped, "folder")["warnings"] == [warning]


def test_columns_with_long_tails_are_named(clipped):
    tails = np.zeros((6, 5))
    tails[4, 0] = 9.0
    found = replace(clipped, measured=replace(clipped.measured, tails=tails))
    assert long_columns(found) == [0]
    assert "sales" in clipped_warning(found)


@pytest.mark.parametrize("said", [None, "bool", {"levels": [0, 1]}, {"categories": [0, 1]}])
def test_a_declared_flag_is_not_blamed(said):
    """A logarithm would make its zeros missing, and log1p changes nothing: what helps is to declare it."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({**dict(zip(NAMES, FEW.T, strict=True)), "flag": (RNG.random(3000) < 0.1).astype(int)})
    options = {} if said is None else {"columns": {"flag": said, ...: None}}
    release = PrivatePCA(2, method="whitened", **{**BUDGET, "epsilon": 4.0}, **options).fit(frame).release_
    tails = np.zeros((6, release.n_features))
    tails[4, [label.startswith(("flag", "sales")) for label in release.labels]] = 9.0
    warning = clipped_warning(replace(release, measured=replace(release.measured, tails=tails)))
    flags = [label for label in release.labels if label.startswith("flag")]
    assert any(label in warning.split("most clearly in")[1].split(".")[0] for label in flags) == (said is None)
    assert "A flag of 0 and 1 needs no transform" in warning
    assert 'declare type = "bool"' in warning


def test_regressions_warn_too(clipped):
    """Variances that are too small make coefficients wrong, by more than their standard errors say."""
    fit = clipped.regression("a")
    assert fit.warning == clipped_warning(clipped, coefficients=True)
    assert "coefficients" not in clipped_warning(clipped)
    assert "coefficients" in clipped_warning(replace(clipped, kind="ridge"))
    for text in (fit.summary(), fit._repr_html_()):
        said = " ".join(text.split())
        assert "of the rows may have been clipped" in said
        assert "coefficients, perhaps by more than their intervals say" in said
    few = replace(clipped, measured=replace(clipped.measured, outside=0.0, tails=np.zeros((6, 5)))).regression("a")
    assert few.warning is None
    assert "clipped" not in few.summary()
    assert all(len(line) <= 78 for line in fit.summary().splitlines())


def test_no_column_is_blamed_where_the_counts_show_none(clipped):
    found = replace(clipped, measured=replace(clipped.measured, tails=np.zeros((6, 5))))
    said = clipped_warning(found)
    assert "This share follows from ε and the number of rows." in said
    assert "The released counts show no column with rare large values" in said
    unseen = clipped_warning(replace(clipped, measured=replace(clipped.measured, tails=None)))
    assert "do not show which columns these are" in unseen


def test_the_plan_states_the_share_before_anything_is_spent(clipped):
    plan = PrivatePCA(2, method="whitened", **BUDGET).explain(ArraySource(FEW, NAMES))
    assert plan.clipped == clipped_share(clipped)
    assert f"About {100 * plan.clipped:.2g}% of the rows would be clipped" in str(plan)
    assert "would be clipped" in plan._repr_html_()
    private = PrivatePCA(2, method="whitened", relation="add_remove", **BUDGET).explain(ArraySource(FEW, NAMES))
    assert private.clipped is None  # it would tell the number of rows
    assert PrivatePCA(2, bound=12.0, method="gaussian", **BUDGET).explain(FEW).clipping is None


def test_few_clipped_rows_are_no_warning():
    rows = np.random.default_rng(0).normal(size=(40_000, 4))
    found = PrivatePCA(2, method="whitened", epsilon=4.0, delta=1e-6, random_state=0).fit(rows).release_
    assert clipped_share(found) < 0.03
    assert clipped_warning(found) is None
    public = PrivatePCA(2, bound=12.0, method="gaussian", **BUDGET).fit(FEW).release_
    assert clipped_share(public) is None
    assert clipped_warning(public) is None


@pytest.mark.parametrize("options", [{}, {"robust": True}, {"method": "kendall"}, {"scale": "private"}])
def test_released_numbers_lie_inside_their_intervals(options):
    found = PrivatePCA(2, **BUDGET, **options).fit(FEW).release_
    ends = found.intervals()
    told = np.outer(ends.errors.told, ends.errors.told)
    numbers = {"covariance": found.covariance, "components": found.components, "eigenvalues": found.eigenvalues}
    if ends.mean is not None:
        numbers["mean"] = found.mean
    for name, value in numbers.items():
        low, high = getattr(ends, name)
        assert ((low <= value) & (value <= high)).all(), name
    low, high = ends.correlation
    assert ((low <= found.correlation) & (found.correlation <= high))[told].all()


def test_coefficients_lie_inside_their_intervals():
    model = PrivateRidge("auto", **BUDGET).fit(FEW[:, 1:], FEW[:, 0])
    low, high = model.coef_intervals()
    assert ((low <= model.coef_) & (model.coef_ <= high)).all()
    release = PrivateCovariance(**BUDGET).fit(FEW).release_
    fit = release.regression(0)
    far = fit.coef + 100 * fit.standard_errors
    assert (fit.holding(far).intervals[1] >= far).all()


def test_means_of_skewed_columns_are_held(monkeypatch):
    """Of 6 lognormal columns in 6 releases 85% at least; without rows far beyond the radius intervals are narrower."""
    truth, held, widths = np.exp(0.5), [], [[], []]
    for far in (True, False):
        if not far:
            none = np.zeros((1, 6))
            monkeypatch.setattr(clipping_errors, "far_rows", lambda *_: (Lost(none, none), np.zeros(6)))  # noqa: B023
        for seed in range(6):
            rows = np.exp(np.random.default_rng(seed).normal(size=(4000, 6)))
            options = {"epsilon": 1.0, "delta": 1e-6, "random_state": seed, "method": "whitened"}
            low, high = PrivatePCA(2, **options).fit(rows).release_.intervals().mean
            held += list((low <= truth) & (truth <= high)) if far else []
            widths[far].append(np.mean(high - low))
    assert np.mean(held) > 0.85
    assert np.mean(widths[True]) > 1.1 * np.mean(widths[False])


def cut_of(heavy: float) -> Clipping:
    return Clipping(np.ones(2), 0.0, np.ones((2000, 2)), np.zeros(2000), np.zeros(2000), heavy=heavy, outside=0.05)


def test_what_far_rows_take_from_means_and_variances():
    rng, eye = np.random.default_rng(0), np.eye(2)
    none, _ = far_rows(eye, eye, 3.0, cut_of(0.0), None, rng)
    assert not none.mean.any()
    likely, long = far_rows(eye, eye, 3.0, cut_of(0.9), None, rng)
    assert not long.any()  # nothing shows which column it is
    assert (likely.mean >= 0).all()
    assert 0.05 * 3 / 2.4 > likely.mean.mean() > 0.001
    tails = np.array([9.0, 0.0]), np.zeros(2)
    found, long = far_rows(eye, eye, 3.0, cut_of(0.9), tails, rng)
    assert found.mean[:, 0].mean() > 2 * found.mean[:, 1].mean()
    assert long.tolist() == [1.0, 0.0]
    assert found.square[:, 0].max() > 0.05 * 9  # more than the rows outside have where they are clipped


def test_columns_that_go_together_lose_the_same_rows_once():
    """Four equal columns that each lose a tenth: so does their sum, and not four times as much."""
    rng, covariance = np.random.default_rng(0), np.ones((4, 4)) + 1e-9 * np.eye(4)
    lost = Lost(np.zeros((50, 4)), np.full((50, 4), 0.1))
    together = loss_errors(lost, covariance, rng)
    np.testing.assert_allclose(np.linalg.eigvalsh(together)[:, -1] / 4, 0.1, rtol=1e-6)
    np.testing.assert_allclose(loss_errors(lost, np.eye(4), rng), np.broadcast_to(0.1 * np.eye(4), (50, 4, 4)))


def test_fewer_clipped_rows_are_told_where_counts_show_a_long_tail(clipped):
    few = replace(clipped.measured, outside=0.02 * clipped.measured.terms, tails=np.zeros((6, 5)))
    assert clipped_warning(replace(clipped, measured=few)) is None
    tails = np.zeros((6, 5))
    tails[4, 0] = 3.0
    assert "sales" in clipped_warning(replace(clipped, measured=replace(few, tails=tails)))


def test_normal_columns_are_not_named():
    """Released counts of 8 tables of 10 normal columns; without a limit for noise 2 of them would have a warning."""
    rows, warned = np.random.default_rng(0).normal(size=(20_000, 10)) * np.linspace(4, 1, 10), []
    for seed in range(8):
        options = {"epsilon": 2.0, "delta": 1e-6, "scale": np.ones(10), "random_state": seed}
        found = PrivatePCA(3, **options).fit(rows).release_
        warned.append((clipped_warning(found) is not None, bool(long_columns(found))))
    assert not any(told for told, _ in warned)
    assert any(long for _, long in warned)  # the limit is what keeps the warning away


def test_losses_make_variances_smaller_only():
    rng, eye = np.random.default_rng(0), np.eye(2)
    tails = np.array([[0.02, 0], [0.01, 0], [0.1, 0], [0.05, 0], [6.0, 0], [1.0, 0]])
    cut = Clipping(np.full(2, 1.1), 0.0, np.ones((500, 2)), np.zeros(500), np.zeros(500), 0.01)
    lost = shared_losses(eye, eye, np.ones(2), 3.0, cut, tails, rng).or_more(seen_tails(tails, 0.0, 500, rng))
    assert (lost.mean >= 0).all()
    assert (lost.square >= 0).all()
    found = loss_errors(lost, eye, rng)
    assert (found[:, 0, 0] >= 0).all()
    assert found[:, 0, 0].mean() > found[:, 1, 1].mean()
    np.testing.assert_allclose(found, np.swapaxes(found, 1, 2))


def test_eigenvector_sampling_says_that_its_radius_was_found_with_noise():
    rows = np.random.default_rng(0).normal(size=(2000, 4))
    options = {"method": "eigenvector-sampling", "bound": "private", "epsilon": 2.0, "random_state": 0}
    measured = PrivatePCA(2, **options).fit(rows).release_.measured
    assert measured.outside_scale > 0
    assert measured.outside > 2000 / 20  # the threshold is lowered, so more than one row in 20 may be longer


def test_a_mean_that_is_only_the_first_centre_is_held_for_skewed_rows(monkeypatch):
    """Exponential columns, much noise: `gaussian` subtracts no further mean. Without doubt intervals are narrower."""
    rows = np.random.default_rng(0).exponential(size=(2600, 3)) * [3.0, 2.0, 1.0]
    options = {"method": "gaussian", "bound": "private", "epsilon": 0.5, "delta": 1e-6, "random_state": 0}
    release = PrivatePCA(2, **options).fit(rows).release_
    assert release.measured.weight == 0
    low, high = release.intervals().mean
    monkeypatch.setattr(errors, "_DOUBT_OF_CENTER", 0.0)
    monkeypatch.setattr(errors, "_OF_CLIPPED", 0.0)
    narrow_low, narrow_high = release.intervals().mean
    assert ((high - low) > 1.1 * (narrow_high - narrow_low)).any()
    assert ((low <= [3.0, 2.0, 1.0]) & (high >= [3.0, 2.0, 1.0])).mean() > 0.5
