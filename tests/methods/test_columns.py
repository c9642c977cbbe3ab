"""Units and places of columns, and the covariance on tables as they are: raw, skewed, discrete, far from 0."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.methods import column_scales, places
from dpeigen.methods.column_scales import _NORMAL, alike, scales
from dpeigen.questions import NoisyCounts
from dpeigen.stats import Frame
from dpeigen.stats.columns import Sizes

OPTIONS = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}


def people(n=20_000, seed=1):
    """A table like many: years, money, a rare event, a count with many zeros, a category, and a share."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, size=n).astype(float)
    income = np.exp(rng.normal(10 + 0.01 * age, 0.7))
    rare = (rng.uniform(size=n) < 0.06).astype(float)
    visits = rng.poisson(0.4 + 3 * rare)
    code = rng.integers(1, 6, size=n) * 1000.0 + 2_000_000
    share = np.clip(rng.normal(0.5, 0.1, size=n), 0, 1)
    return np.column_stack([age, income, rare, visits, code, share])


def correlation_error(fitted, X):
    upper = np.triu_indices(X.shape[1], 1)
    return np.sqrt(np.mean((fitted.correlation_ - np.corrcoef(X.T))[upper] ** 2))


def resampled(X, n=8000):
    X = X[:, X.std(axis=0) > 0]
    return X[np.random.default_rng(0).integers(len(X), size=n)]


def test_scales_do_not_depend_on_places():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(20_000, 3)) * [1.0, 1e-9, 1e9]
    for shift in (0.0, 1e6):
        counts = Sizes(Frame(3, pairs=True), (0, 1, 2)).update(rows + shift * rows.std(axis=0)).counts.astype(float)
        found, known, _ = scales(NoisyCounts(counts, 20.0), True)
        assert known.all()
        assert (found / rows.std(axis=0) > 1.5).all()
        assert (found / rows.std(axis=0) < 8).all()


def test_a_constant_column_has_no_scale():
    counts = Sizes(Frame(2, pairs=True), (0, 1)).update(np.column_stack([np.ones(4000), np.arange(4000.0)])).counts
    assert scales(NoisyCounts(counts.astype(float), 20.0), True)[1].tolist() == [False, True]


def test_correlations_of_a_raw_table():
    X = people()
    fitted = PrivateCovariance(**OPTIONS).fit(X)
    assert correlation_error(fitted, X) < 0.05
    np.testing.assert_allclose(np.diag(fitted.covariance_)[[0, 2, 4, 5]], X.var(axis=0)[[0, 2, 4, 5]], rtol=0.1)
    np.testing.assert_allclose(fitted.location_, X.mean(axis=0), atol=(0.15 * X.std(axis=0)).max())


@pytest.mark.parametrize("options", [{"relation": "add_remove"}, {"delta": 0.0, "epsilon": 5.0}, {"center": "pairs"}])
def test_other_kinds_of_privacy(options):
    X = people()
    assert correlation_error(PrivateCovariance(**{**OPTIONS, **options}).fit(X), X) < 0.06


def test_units_and_places_change_nothing():
    """The same noise: only rounding differs, so the error is that of the table in its own units."""
    X = people(6000)
    factors, shifts = np.array([1e-6, 1e6, 1e3, 1e-3, 1.0, 1e6]), np.array([1e6, 0.0, -1e6, 1e3, 1e5, 1e6])
    Y = (X + shifts * X.std(axis=0)) * factors
    errors = []
    for rows in (X, Y):
        runs = [PrivatePCA(2, scale="private", **{**OPTIONS, "random_state": s}).fit(rows) for s in range(6)]
        R = np.corrcoef(rows.T)
        best = np.linalg.eigvalsh(R)[::-1][:2].sum()
        errors.append(np.mean([1 - np.trace(p.components_ @ R @ p.components_.T) / best for p in runs]))
    assert errors[1] < 1.3 * errors[0] + 0.01


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_diabetes])
def test_the_default_converges_to_the_principal_components(load):
    X = resampled(load().data[:, :10])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    S = np.cov(Z.T)
    best = np.linalg.eigvalsh(S)[::-1][:2].sum()
    lost = []
    for epsilon in (1.0, 50.0):
        found = PrivatePCA(2, **{**OPTIONS, "epsilon": epsilon}).fit(Z)
        lost.append(1 - np.trace(found.components_ @ S @ found.components_.T) / best)
    assert lost[1] < 0.01
    assert lost[1] <= lost[0] + 1e-3
    np.testing.assert_allclose(found.explained_variance_, np.linalg.eigvalsh(S)[::-1][:2], rtol=0.1)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_components_of_the_correlation_matrix_of_a_raw_table(load):
    X = resampled(load().data[:, :10])
    R = np.corrcoef(X.T)
    pca = PrivatePCA(2, scale="private", **{**OPTIONS, "epsilon": 10.0}).fit(X)
    best = np.linalg.eigvalsh(R)[::-1][:2]
    assert np.trace(pca.components_ @ R @ pca.components_.T) > 0.99 * best.sum()
    np.testing.assert_allclose(pca.explained_variance_, best, rtol=0.1)
    np.testing.assert_allclose(pca.scale_, X.std(axis=0), rtol=0.2)
    assert pca.release_.estimand == "correlation"
    scores = pca.transform(X)
    np.testing.assert_allclose(scores.var(axis=0), pca.explained_variance_, rtol=0.3)
    np.testing.assert_allclose(pca.inverse_transform(scores).mean(axis=0), X.mean(axis=0), rtol=0.2)


def test_bounds_do_not_make_it_worse():
    X = people()
    plain, bounded = (
        np.mean(
            [
                correlation_error(PrivateCovariance(bound=bound, **{**OPTIONS, "random_state": s}).fit(X), X)
                for s in range(4)
            ]
        )
        for bound in (None, (X.min(axis=0), X.max(axis=0)))
    )
    assert bounded < 1.2 * plain


def test_a_column_that_nothing_is_known_of_is_named():
    X = np.column_stack([people(3000), np.zeros(3000)])
    release = PrivateCovariance(**OPTIONS).fit(X).release_
    assert 6 in release.facts["details"]["columns_without_scale"]
    assert any("column(s)" in note and "6" in note for note in release.guarantee.notes)
    assert release.covariance[6].tolist() == [0.0] * 7
    assert release.correlation[6].tolist() == [0.0] * 6 + [1.0]


def test_short_directions_are_right_relative_to_themselves():
    """Condition number 1e6, a mean 1e5 deviations away: the error of 8,000 rows without privacy is 0.116."""
    rng, d = np.random.default_rng(3), 10
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    roots = basis * np.logspace(0, -3, d)
    rows = rng.normal(size=(8000, d)) @ roots.T + 1e5
    found = PrivateCovariance(epsilon=4.89, delta=1e-6, random_state=0).fit(rows).covariance_
    white = np.linalg.inv(roots)
    assert np.linalg.norm(white @ found @ white.T - np.eye(d)) < 0.2


def test_public_deviations():
    X = people()
    fitted = PrivatePCA(2, scale=X.std(axis=0), **OPTIONS).fit(X)
    np.testing.assert_array_equal(fitted.scale_, X.std(axis=0))
    assert fitted.release_.estimand == "covariance of columns in public units"
    for bad in ([1.0] * 5, [1.0] * 5 + [0.0], "public"):
        with pytest.raises(ValueError, match="'scale' parameter"):
            PrivatePCA(2, scale=bad, **OPTIONS).fit(X)


def test_rare_columns_are_found_by_a_second_look():
    """One person in fourteen has each event; the first look, at all columns, does not see them (the planted twin)."""
    rng = np.random.default_rng(5)
    events = (rng.uniform(size=(3000, 4)) < 0.07).astype(float)
    X = np.column_stack([rng.normal(size=(3000, 4)), events])

    def missed(seed):
        fitted = PrivateCovariance(epsilon=1.0, delta=1e-6, random_state=seed).fit(X)
        return len(fitted.release_.facts["details"]["columns_without_scale"])

    assert np.mean([missed(seed) for seed in range(6)]) < 0.7
    counts = Sizes(Frame(8, pairs=True), tuple(range(8))).update(X).counts
    first = NoisyCounts(counts + rng.normal(scale=60.0, size=counts.shape), 60.0)  # about the noise of such a look
    assert (~scales(first, True)[1][4:]).sum() >= 2


def test_columns_of_one_unit_share_a_scale():
    """So that rows of one unit keep their shape: the noise of scales does not turn what is symmetric."""
    rng = np.random.default_rng(6)
    counts = Sizes(Frame(5, pairs=True), tuple(range(5))).update(rng.normal(size=(20_000, 5)) * [1, 1.1, 1.3, 0.9, 1.5])
    found, known, sure = scales(NoisyCounts(counts.counts.astype(float), 20.0), True)
    assert known.all()
    assert sure.all()
    assert len(set(alike(found, known, sure)[0])) == 1
    apart = found * [1.0, 1.0, 1.0, 1.0, 100.0]
    np.testing.assert_array_equal(alike(apart, known, sure)[0], apart)


def test_a_column_that_does_not_stand_out_has_the_unit_of_the_others():
    """Where most columns are seen clearly and have one unit; not where units differ (the twin), or few are seen."""
    scale, known, sure = (
        np.array([2.0, 2.8, 2.0, 1.0]),
        np.array([True, True, True, False]),
        np.array([True] * 3 + [False]),
    )
    shared, all_known = alike(scale, known, sure)
    assert shared.tolist() == [2.8] * 4
    assert all_known.all()
    apart = scale * [1.0, 1e3, 1.0, 1.0]
    assert alike(apart, known, sure)[1].tolist() == known.tolist()
    assert alike(scale, known, sure & [True, False, False, False])[1].tolist() == known.tolist()


def test_constant_columns_have_no_variance_even_if_they_get_a_scale():
    X = np.random.default_rng(7).normal(size=(4000, 6))
    X[:, 2] = 5.0
    release = PrivateCovariance(epsilon=1.0, delta=1e-6, random_state=0).fit(X).release_
    assert release.covariance[2, 2] == 0
    assert release.facts["details"]["columns_without_scale"] == [2]
    assert (release.center_text(2), release.deviation_text(2)) == ("not known", "not known")
    assert "not known" not in (release.center_text(1), release.deviation_text(1))


@pytest.mark.parametrize(("gaussian", "most"), [(True, 12), (False, 70)])
def test_noise_alone_has_no_scale(gaussian, most, monkeypatch):
    """In 100 tables of 40 constant columns. Expected 2 and 30 columns; false alarm below 1e-6. Twin: a fixed limit."""

    def found():
        rng = np.random.default_rng(11)
        draw = rng.normal if gaussian else rng.laplace
        noise = (NoisyCounts(draw(size=(40, Sizes.n_cells)), 1.0 if gaussian else 2**0.5) for _ in range(100))
        return sum(int(scales(each, gaussian)[1].sum()) for each in noise)

    assert found() <= most
    monkeypatch.setattr("dpeigen.methods.column_scales.filtered_stands_out", lambda columns, gaussian: 3.2)
    assert found() > most


def test_noise_does_not_make_a_scale_so_large_that_the_column_is_lost(monkeypatch):
    """In 4,000 tables of 3 normal columns. Expected 0.4, false alarm below 1e-6. Twin: the limit of near cells, 11."""
    normal = np.concatenate([np.zeros(190), _NORMAL, np.zeros(Sizes.n_cells - 190 - len(_NORMAL))])

    def lost():
        rng = np.random.default_rng(21)
        tables = (NoisyCounts(400 * normal + 15 * rng.normal(size=(3, Sizes.n_cells)), 15.0) for _ in range(4000))
        found = (scales(each, True)[0] for each in tables)
        return sum(scale.max() > 11 * np.median(scale) for scale in found)

    assert lost() <= 5
    monkeypatch.setattr("dpeigen.methods.column_scales._NEAR_ABOVE", 100)
    assert lost() > 5


@pytest.mark.parametrize("bound", [12.0, (-12.0, 12.0)])
def test_public_bounds_limit_scales_and_entries(bound):
    """Entries beyond the bounds, or noise there, could make a scale in which the rest of the column was lost."""
    X = np.random.default_rng(13).normal(size=(800, 3))
    X[:120, 0] = 90.0
    release = PrivatePCA(2, epsilon=3.0, delta=1e-6, bound=bound, random_state=0).fit(X).release_
    assert release.facts["details"]["columns_without_scale"] == []
    assert release.covariance[0, 0] == pytest.approx(np.clip(X[:, 0], -12, 12).var(), rel=0.25)


def test_bounds_narrower_than_any_scale_do_not_make_a_fit_fail(monkeypatch):
    """A scale of 2⁻¹⁰⁶⁴ has no finite inverse: fits failed for some values of one cell, which reveals them."""
    rng, width = np.random.default_rng(1), 2.0**-1064
    X = np.column_stack([1000 + rng.uniform(size=1000) * 0.01, rng.uniform(size=1000), np.full(1000, np.nan)])
    bound = ([0.0, 0.0, 0.0], [2000.0, 1.0, width])
    options = {"epsilon": 5.0, "delta": 1e-6, "method": "whitened", "missing": "correct", "bound": bound}

    def fits():
        for seed, cell in ((2, 4 * width), (10, -width), (5, 8 * width), (0, np.nan)):
            X[0, 2] = cell
            yield PrivateCovariance(**options, random_state=seed).fit(X)

    assert all(np.isfinite(fit.covariance_).all() for fit in fits())
    monkeypatch.setattr("dpeigen.methods.column_scales._LEAST_SCALE", 0.0)
    with pytest.raises(Exception, match="negative elements"):
        list(fits())


def test_columns_that_lie_in_two_octaves_are_found(monkeypatch):
    """δ = 0: each octave holds half of the rows, which may not exceed the noise. The next measurement shows them.

    Without it 10% of the fits lose a column, with it 0.3%: 2 of 30 would have probability 0.004. Seeds are fixed.
    """
    X = np.random.default_rng(3).normal(size=(4000, 8)) + np.linspace(0, 5, 8)

    def lost():
        fits = (PrivateCovariance(epsilon=2.0, random_state=seed).fit(X).release_ for seed in range(30))
        return sum(bool(release.facts["details"]["columns_without_scale"]) for release in fits)

    assert lost() <= 1
    fullest = places._fullest

    def only_octaves(counts, gaussian, *cells):
        best, seen = fullest(counts, gaussian, *cells)
        return best, seen & (not cells)

    monkeypatch.setattr(places, "_fullest", only_octaves)
    assert lost() > 1


def test_too_few_rows_for_scales_are_refused_before_spending():
    """δ = 0, 2,000 rows, 8 columns: nearly all columns would be unknown. Directions of signs need no scales."""
    X = np.random.default_rng(4).normal(size=(2000, 8)) * np.geomspace(1, 1000, 8)
    with pytest.raises(ValueError, match=r"Three remedies: public bounds.*Nothing was spent"):
        PrivateCovariance(epsilon=2.0, random_state=0).fit(X)
    alike = X / np.geomspace(1, 1000, 8) * np.geomspace(3, 1, 8)
    found = PrivatePCA(2, epsilon=2.0, random_state=0).fit(alike)
    assert found.release_.facts["method"] == "spatial-sign"
    assert np.abs(found.components_[0, 0]) > 0.9


def test_variances_are_not_made_of_noise(monkeypatch):
    """δ = 0: a constant column may get a scale from noise, often far from the others. Twin: the limit for δ > 0."""
    X = np.random.default_rng(5).normal(size=(4000, 8))
    X[:, 5:] = 7.0

    def largest():
        fits = (PrivateCovariance(epsilon=2.0, random_state=seed).fit(X) for seed in range(60))
        return max(fit.covariance_[5:, 5:].max() for fit in fits)

    assert largest() < 1
    monkeypatch.setattr("dpeigen.methods.moment.whitened._clear", lambda columns, task: np.full(8, 0.5))
    assert largest() > 1


def test_a_scale_that_noise_makes_far_from_the_others_is_not_believed(monkeypatch):
    """δ = 0: of two scales that stand out, the one near the other columns'. A clearer one far away is kept."""
    normal = np.concatenate([np.zeros(70), _NORMAL, np.zeros(Sizes.n_cells - 70 - len(_NORMAL))])
    counts = np.tile(1000 * normal, (6, 1))
    counts[2, 110:113] = 350.0  # noise
    counts[4] = np.roll(counts[4], 40)  # a column in another unit
    seen = NoisyCounts(counts, 40.0)
    found = scales(seen, False)[0]
    assert found[2] == found[0]
    assert found[4] == pytest.approx(2.0**20 * found[0])
    monkeypatch.setattr("dpeigen.methods.column_scales._LESS", 1.0)
    assert scales(seen, False)[0][2] > 1e4 * found[0]


def test_few_rows_in_different_units():
    """Each column is known in its own unit or not at all. One unit for all made deviations of 10⁵ of zeros and ones."""
    rng = np.random.default_rng(12)
    answers = (rng.uniform(size=(1900, 24)) < 0.4).astype(float)
    X = np.column_stack([answers, rng.normal(3e5, 1e5, size=1900)])
    for seed in range(3):
        release = PrivateCovariance(epsilon=1.0, delta=1e-6, random_state=seed).fit(X).release_
        known = np.diag(release.covariance) > 0
        assert (np.diag(release.covariance)[known] < 4 * X.var(axis=0)[known]).all()
        assert (np.abs(release.mean - X.mean(axis=0)) < 10 * X.std(axis=0)).all()


def test_public_bounds_give_a_scale_to_rare_columns(monkeypatch):
    """Fixed seeds. Flags of 4% among columns in other units; twin: bounds that are not used for scales."""
    rng = np.random.default_rng(8)
    rows = np.column_stack([rng.normal([50, 2e11], [15, 5e10], (3000, 2)), rng.uniform(size=(3000, 3)) < 0.04])
    bound = (np.array([0, 0, 0, 0, 0.0]), np.array([120, 1e12, 1, 1, 1.0]))

    def unknown():
        fits = (PrivateCovariance(**{**OPTIONS, "random_state": seed}, bound=bound).fit(rows) for seed in range(5))
        return sum(len(fit.release_.facts["details"]["columns_without_scale"]) for fit in fits)

    found = unknown()
    monkeypatch.setattr(column_scales, "_spans", lambda _: {})
    assert found + 5 <= unknown()
