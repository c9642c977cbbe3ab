"""Where intervals are easily wrong: rare values, long tails, unknown columns, equal variances, equal features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA, load_release
from dpeigen.methods.signs import refined
from dpeigen.report import write_card
from dpeigen.spectral_intervals import SpectralIntervals

pd = pytest.importorskip("pandas")
pytestmark = [
    pytest.mark.filterwarnings("ignore::dpeigen.privacy.randomness.NotPrivateWarning"),
    pytest.mark.filterwarnings("ignore::dpeigen.methods.OnlyNoiseWarning"),
]
OPTIONS = {"delta": 1e-6, "random_state": 0}


def rare_table(seed, n):
    rng = np.random.default_rng(seed)
    frame = {"age": rng.normal(50, 12, n).clip(18, 95), "x": rng.normal(size=n), "y": rng.normal(size=n)}
    frame |= {"common": rng.random(n) < 0.3, "rare": rng.random(n) < 0.02, "rarer": rng.random(n) < 0.005}
    return pd.DataFrame(frame | {"group": rng.choice(list("abc"), p=[0.6, 0.39, 0.01], size=n)})


RARE = {name: {"type": "bool"} for name in ("common", "rare", "rarer")}
RARE |= {"age": {"lower": 18, "upper": 95}, "group": {"categories": list("abc")}, "x": {}, "y": {}}
FREQUENCIES = {"common": 0.3, "rare": 0.02, "rarer": 0.005, "group=a": 0.6, "group=b": 0.39, "group=c": 0.01}


def test_shares_of_rows_lie_between_0_and_1_and_hold_the_truth():
    """Of 48 intervals at least 42 hold it. Twin: without what counts of pairs show, fewer do."""
    held, blind = [], []
    for seed, epsilon in ((0, 1.0), (1, 4.0), (2, 4.0), (3, 4.0)):
        options = {**OPTIONS, "epsilon": epsilon, "random_state": seed}
        found = PrivateCovariance(columns=RARE, **options).fit(rare_table(seed, 2500)).release_
        for release, holds in ((found, held), (replace(found, measured=replace(found.measured, tails=None)), blind)):
            ends, names = release.intervals(), release.feature_names
            for name, truth in FREQUENCIES.items():
                j = names.index(name)
                low, high = ends.mean[0][j], ends.mean[1][j]
                assert 0 <= low <= high <= 1
                spread = ends.covariance[0][j, j], ends.covariance[1][j, j]
                assert 0 <= spread[0] <= spread[1] <= 0.25
                holds += [low <= truth <= high, spread[0] <= truth * (1 - truth) <= spread[1]]
    assert np.mean(held) > 0.86
    assert np.mean(blind) < np.mean(held)


def test_variances_of_skewed_counts_are_held():
    """Of 24 variances at least 11; without what counts of pairs show, fewer.

    Such columns are covered less often than stated (docs/intervals.md): 21 of 28 were, with seeds 0 to 13. At that rate
    fewer than 11 are covered once in 250 times. Processors differ in the last bits of products, and so in all draws.
    """
    held, blind = [], []
    shape, truth = 0.5, 0.5 * 0.9 / 0.01  # of the negative binomial law below
    for seed in range(12):
        rng = np.random.default_rng(seed)
        counts = rng.negative_binomial(shape, 0.1, size=(30_000, 2))
        rows = np.column_stack([counts, rng.normal(size=(30_000, 6))])
        found = PrivateCovariance(epsilon=1.0, delta=1e-6, random_state=seed).fit(rows).release_
        for release, holds in ((found, held), (replace(found, measured=replace(found.measured, tails=None)), blind)):
            low, high = (np.diag(end)[:2] for end in release.intervals().covariance)
            holds += list((low <= truth) & (truth <= high))
    assert np.sum(held) >= 11
    assert np.sum(blind) < np.sum(held)


def dominated(seed, long):
    """One column has nearly all of the variance; 2% of its rows lie far out, or none do."""
    rng, n = np.random.default_rng(seed), 4000
    column = rng.normal(size=n) * 40
    if long:
        column = np.where(rng.random(n) < 0.02, rng.normal(600, 150, size=n), rng.exponential(20, size=n))
    rows = np.column_stack([column, rng.normal(size=(n, 3)) * [2.0, 1.0, 1.0]])
    return PrivatePCA(2, epsilon=2.0, delta=1e-6, random_state=seed).fit(rows).release_, np.var(column)


def test_shares_have_one_end_where_a_long_column_was_clipped(tmp_path):
    """Clipping takes an unknown part of its variance. Twin: a normal column has shares with two ends."""
    seen = 0
    for seed in (0, 1, 5):  # noisy counts show the tail in three quarters of 30 releases
        release, variance = dominated(seed, long=True)
        truth = variance / (variance + 6)
        low, high = release.intervals().shares
        assert low[0] <= truth <= high[0] == 1
        assert low[1] == 0
        assert 4 / (variance + 6) <= high[1]
        seen += release.covariance[0, 0] < variance / 2
    assert seen == 3  # the released variance is far too small
    assert "no upper end" in write_card(release, tmp_path / "long").with_name("card.md").read_text()
    release, _ = dominated(0, long=False)
    low, high = release.intervals().shares
    assert high[0] < 1
    assert low[1] > 0
    assert "no upper end" not in write_card(release, tmp_path / "normal").with_name("card.md").read_text()


@pytest.fixture(scope="module")
def unreadable():
    """A table of which one column was declared to be of another type: its cells cannot be read."""
    rng, n = np.random.default_rng(0), 8000
    shared = rng.normal(size=n)
    frame = {"a": shared + rng.normal(size=n) / 2, "b": shared + rng.normal(size=n) / 2, "c": rng.normal(size=n)}
    frame["smoker"] = rng.choice(["ja", "nein"], size=n)
    declared = {"a": {}, "b": {}, "c": {}, "smoker": {"type": "bool"}}
    model = PrivatePCA(2, epsilon=2.0, missing="correct", columns=declared, **OPTIONS)
    return model.fit(pd.DataFrame(frame)).release_


def test_one_unreadable_column_leaves_the_others_their_intervals(unreadable, tmp_path):
    found = unreadable.intervals()
    assert found.known.tolist() == [True, True, True, False]
    low, high = found.components
    assert (high - low)[0, :3].max() < 0.2
    assert (low[:, 3] == -1).all()
    assert (high[:, 3] == 1).all()
    truth = np.array([1, 1, 0]) / np.sqrt(2)
    assert ((low[0, :3] <= truth) & (truth <= high[0, :3])).all()
    assert np.isfinite(found.eigenvalues[1]).all()
    assert found.mean[0][3] == 0
    assert found.mean[1][3] == 1
    assert load_release(unreadable.save(tmp_path / "r")).unknown_columns == unreadable.unknown_columns


def test_an_unreadable_column_is_said_to_be_one(unreadable):
    assert list(unreadable.unknown_columns) == ["smoker"]
    assert "missing or do not fit the declared type" in unreadable.unknown_columns["smoker"]
    assert any("do not fit the declared type" in note for note in unreadable.guarantee.notes)
    rows = np.random.default_rng(0).normal(size=(5000, 3)) * [1, 1, 0]
    constant = PrivateCovariance(epsilon=2.0, **OPTIONS).fit(rows).release_
    assert "constant" in constant.unknown_columns["x2"]


def test_shares_of_missing_cells_have_errors():
    """8 shares, at 99.9%: one that is missed has probability below 0.01."""
    rng = np.random.default_rng(0)
    rows, shares = rng.normal(size=(4000, 4)), np.array([0.0, 0.1, 0.3, 0.6])
    rows[rng.random(rows.shape) < shares] = np.nan
    for center in ("private", "pairs"):
        model = PrivatePCA(2, epsilon=1.0, missing="correct", center=center, **OPTIONS)
        release = model.fit(rows).release_
        low, high = release.intervals(0.999).missing_shares
        assert ((low <= shares) & (shares <= high)).all()
        assert ((low >= 0) & (high <= 1) & (high > low)).all()
        table = release.intervals(0.999, of="table").missing_shares
        assert (table[1] - table[0] <= high - low).all()
    whole = PrivatePCA(2, epsilon=1.0, **OPTIONS).fit(np.nan_to_num(rows)).release_
    assert whole.intervals().missing_shares is None


def test_equal_variances_are_no_noise():
    """They are known well; it is their directions that are not determined. Few rows: noise hides the variances, too."""
    rng = np.random.default_rng(0)
    equal = PrivatePCA(2, epsilon=2.0, **OPTIONS).fit(rng.normal(size=(60_000, 6))).release_
    assert (equal.resolved, equal.unresolved) == (0, "equal variances")
    assert not equal.intervals().determined.any()
    few = PrivatePCA(2, epsilon=0.5, **OPTIONS).fit(rng.normal(size=(600, 6))).release_
    assert (few.resolved, few.unresolved) == (0, "noise")
    clear = PrivatePCA(2, epsilon=2.0, **OPTIONS).fit(rng.normal(size=(60_000, 6)) * [4, 2, 1, 1, 1, 1]).release_
    assert (clear.resolved, clear.unresolved) == (2, None)
    assert clear.intervals().determined.all()


def test_two_equal_variances_that_stand_out_have_no_directions_of_their_own():
    rows = np.random.default_rng(1).normal(size=(60_000, 6)) * [3, 3, 1, 1, 1, 1]
    found = PrivatePCA(2, epsilon=2.0, **OPTIONS).fit(rows).release_
    assert found.resolved == 2
    assert not found.intervals().determined.any()


@pytest.mark.parametrize("known", [0, 1, 2])
def test_where_most_columns_are_unknown_nothing_is_resolved(known):
    rows = np.random.default_rng(2).normal(size=(20_000, 6)) * [3.0, 2, 1, 1, 1, 1]
    release = PrivatePCA(2, epsilon=4.0, **OPTIONS).fit(rows).release_
    assert release.resolved == 2
    back = release.measured.back * (np.arange(6) < known)[:, None]
    found = replace(release, measured=replace(release.measured, back=back))
    assert (found.resolved, found.unresolved) == (0, "unknown columns")
    low, high = found.intervals().components
    assert (low[:, known:] == -1).all()
    assert (high[:, known:] == 1).all()


def levels_and_twins(seed):
    """A rare level, and two features that are the same but for a constant combination."""
    rng, n = np.random.default_rng(seed), 8000
    age, group = rng.normal(50, 12, n), rng.choice(list("abcr"), p=[0.5, 0.3, 0.198, 0.002], size=n)
    size, noise = rng.normal(size=(2, n))
    y = 0.5 * age + 8 * (group == "b") - 6 * (group == "c") + 2 * size + 5 * noise
    frame = pd.DataFrame({"age": age, "group": group, "metres": size, "feet": 3.28 * size + 1, "y": y})
    columns = {"age": {}, "group": {"categories": list("abcr")}, "metres": {}, "feet": {}, "y": {}}
    return PrivateCovariance(epsilon=2.0, delta=1e-6, columns=columns, random_state=seed).fit(frame).release_


def test_coefficients_beside_a_rare_level_and_equal_features_keep_their_intervals():
    """Twelve known coefficients: one more than 5 standard errors away has probability below 1e-5."""
    truth = {"age": 0.5, "group=b": 8.0, "group=c": -6.0}
    for seed in range(4):
        fit = levels_and_twins(seed).regression("y")
        places = {name: j for j, name in enumerate(fit.feature_names)}
        assert fit.references == ("group=a",)
        assert {"group=r", "metres", "feet"} == set(fit.unknown)
        assert fit.unknown["group=r"] == "constant, rare, or too few rows for this budget"  # as the release says
        assert "feet" in fit.unknown["metres"]
        for name, true in truth.items():
            error = fit.standard_errors[places[name]]
            assert abs(fit.coef[places[name]] - true) < 5 * error < 0.5 * abs(true)
        assert np.isinf([fit.standard_errors[places[name]] for name in fit.unknown]).all()
        assert abs(fit.r_squared - 0.73) < 0.1
        assert np.isnan(fit.partial_correlations[[places["metres"], places["group=r"]]]).all()
        assert fit.partial_correlations[places["age"]] > 0.5
        assert "metres: not known, it cannot be separated" in str(fit)
        alone = fit.intervals[0][places["metres"]], fit.intervals[1][places["metres"]]
        assert alone == (-np.inf, np.inf)


def test_a_target_of_which_nothing_is_known_has_no_regression():
    rows = np.random.default_rng(0).normal(size=(5000, 3)) * [1, 1, 0]
    fit = PrivateCovariance(epsilon=2.0, **OPTIONS).fit(rows).release_.regression(2)
    assert set(fit.unknown) == {"x0", "x1"}
    assert np.isinf(fit.standard_errors).all()
    assert not fit.told.any()


def test_rows_clipped_on_purpose_have_finite_intervals_that_hold_the_truth():
    """Nearly half of the rows are clipped, but few exceed the radius that was paid for: that tells how long they are.

    Of 30 numbers at least 26 are held (false alarms: below one in a hundred). Twin: without the paid radius, all
    variances are unknown in most releases.
    """
    held, unknown, truth = [], 0, np.array([6.0, 3.0])
    for seed in range(5):
        rows = np.random.default_rng(seed).normal(size=(2200, 24)) * np.sqrt([6.0, 3.0, *np.ones(22)])
        release = PrivatePCA(2, epsilon=5.0, delta=1e-6, random_state=seed).fit(rows).release_
        measured = release.measured
        assert measured.radius < 0.8 * measured.outside_radius
        found = release.intervals()
        assert (found.eigenvalues[1] < 1.6 * truth).all()
        for (low, high), true in (
            (found.eigenvalues, truth),
            (found.shares, truth / 31),
            ([np.diag(end)[:2] for end in found.covariance], truth),
        ):
            held += list((low <= true) & (true <= high))
        blind = replace(release, measured=replace(measured, outside_radius=measured.radius)).intervals()
        unknown += bool(np.isinf(blind.eigenvalues[1]).all())
    assert unknown >= 3
    assert len(held) == 30
    assert np.sum(held) >= 26


def held_beside_a_noisy_center(without=False):
    """The share of intervals that hold small variances beside a large one, where the noise on the centre is larger."""
    held, deviations = [], np.array([200.0, 150.0, 3.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    for seed in range(10):
        rows = np.random.default_rng(seed).normal(size=(1000, 8)) * deviations
        release = PrivatePCA(2, epsilon=0.6, delta=1e-6, random_state=seed).fit(rows).release_
        assert release.measured.kind == "signs"
        assert release.measured.center_errors.max() > 3
        if without:
            release = replace(release, measured=replace(release.measured, center_deviations=np.zeros(8)))
        low, high = release.intervals().covariance
        held.append((np.diag(low)[2:] <= deviations[2:] ** 2) & (deviations[2:] ** 2 <= np.diag(high)[2:]))
    return float(np.mean(held))


@pytest.mark.filterwarnings("ignore")
def test_small_variances_about_a_noisy_center_are_held():
    """60 intervals of 10 releases: fewer than 0.85 has a probability below 1% at a coverage of 0.95."""
    assert held_beside_a_noisy_center() >= 0.85


@pytest.mark.filterwarnings("ignore")
def test_and_are_not_if_its_square_is_left_out():
    assert held_beside_a_noisy_center(without=True) < 0.8


def loadings_of_equal_variances():
    """The share of loadings of two components of equal variance that are held: 60 tables of 2,500 rows."""
    levels, held = np.array([19.0, 1.0, 1.0]), []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        rows = rng.normal(size=(2500, 3)) @ (turn * np.sqrt(levels)).T
        release = PrivatePCA(3, method="gaussian", epsilon=1.0, bound=16.0, delta=1e-6, random_state=seed).fit(rows)
        release, truth = release.release_, turn.T
        truth = truth * np.sign(np.sum(truth * release.components, axis=1))[:, None]
        low, high = release.intervals().components
        held.append(((low <= truth) & (truth <= high))[1:].mean())
    return float(np.mean(held))


def test_directions_of_equal_variances_may_be_any(monkeypatch):
    """A standard error of about 0.02. Twin: noise that makes equal variances differ passes for a known direction."""
    found = loadings_of_equal_variances()
    assert found > 0.9
    monkeypatch.setattr(SpectralIntervals, "_any_of_equal", lambda self, low, high: (low, high))
    assert loadings_of_equal_variances() < found - 0.04


def test_means_are_less_certain_the_more_rows_were_clipped_for_the_centre():
    """Public numbers tell how many were. Of 24 intervals of the most skewed column more hold it than if none were."""
    held, blind = [], []
    for seed in range(24):
        rows = np.random.default_rng(seed).exponential(size=(1500, 3)) * [5.0, 2.0, 1.0]
        options = {"method": "gaussian", "bound": "private", "epsilon": 0.35, "delta": 1e-6, "random_state": seed}
        found = PrivatePCA(2, **options).fit(rows).release_
        assert 0.2 < found.measured.center_clipped < 0.4
        without = replace(found, measured=replace(found.measured, center_clipped=0.0))
        for release, holds in ((found, held), (without, blind)):
            low, high = release.intervals().mean
            holds.append(low[0] <= 5.0 <= high[0])
    assert np.sum(held) > np.sum(blind)


def test_there_are_intervals_where_noise_makes_all_variances_negative():
    rows = np.random.default_rng(0).normal(size=(400, 3))
    release = PrivatePCA(2, method="gaussian", bound="private", epsilon=2.0, **OPTIONS).fit(rows).release_
    moment = -np.eye(len(release.measured.moment))
    found = replace(release, measured=replace(release.measured, moment=moment, weight=0.0, back=np.eye(len(moment))))
    for low, high in (found.intervals().covariance, found.intervals().eigenvalues):
        assert (low <= high).all()


def held_with_heavy_tails():
    """The share of eigenvalues in their intervals: Student rows with six degrees of freedom and `robust=True`."""
    held, deviations = [], np.array([4.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(5000, 6)) * deviations * np.sqrt(4 / rng.chisquare(6, size=(5000, 1)))
        model = PrivatePCA(2, epsilon=2.0, delta=1e-6, robust=True, random_state=seed).fit(rows)
        low, high = model.release_.intervals().eigenvalues
        held.append((low <= deviations[:2] ** 2) & (deviations[:2] ** 2 <= high))
    return float(np.mean(held))


def test_robust_variances_of_rows_with_heavy_tails_are_held():
    """20 intervals of 10 releases: fewer than 15 have a probability below 1e-6 at a coverage of 0.95."""
    assert held_with_heavy_tails() >= 0.75


def test_and_are_not_if_the_tails_are_taken_for_normal(monkeypatch):
    monkeypatch.setattr(refined, "_far_weight", lambda *_, **__: None)
    assert held_with_heavy_tails() < 0.5
