"""What is estimated, and columns that are divided by their deviations: the same answers in any units, everywhere."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from dpeigen import Guarantee, PrivateCovariance, PrivatePCA, PrivateRidge, PrivateScoreMap, load_release
from dpeigen.exchange import read_arrow
from dpeigen.plotting import BiplotDisplay

TRUE = np.array([[1.0, 0.7, 0.0, 0.2], [0.7, 1.0, 0.0, 0.2], [0.0, 0.0, 1.0, 0.3], [0.2, 0.2, 0.3, 1.0]])
UNITS = np.array([1.0, 1e4, 1e-3, 5.0])
PLAIN = np.random.default_rng(0).multivariate_normal(np.zeros(4), TRUE, size=20_000)
ROWS = PLAIN * UNITS + [0, 1e5, 3, -2]
BUDGET = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0}


@pytest.fixture(scope="module")
def pca():
    return PrivatePCA(2, scale="private", **BUDGET).fit(ROWS)


def test_private_scales_give_the_components_of_the_correlation_matrix(pca):
    """Of 20,000 rows; noise and sampling move a correlation by about 0.01 here."""
    truth = PCA(2).fit(StandardScaler().fit_transform(ROWS))
    assert np.abs(pca.components_ @ truth.components_.T).diagonal() == pytest.approx(1, abs=0.02)
    np.testing.assert_allclose(pca.scale_, UNITS, rtol=0.1)
    np.testing.assert_allclose(np.diag(pca.release_.covariance), 1)
    np.testing.assert_allclose(pca.explained_variance_, truth.explained_variance_, rtol=0.1)
    assert pca.release_.estimand == pca.guarantee_.estimand == "correlation"
    assert "\nabout      the correlation matrix of the columns\n" in str(pca.guarantee_)


def test_scores_and_rows_are_in_the_units_of_the_data(pca):
    scores = pca.transform(ROWS[:50])
    expected = (ROWS[:50] - pca.mean_) / pca.scale_ @ pca.components_.T
    np.testing.assert_allclose(scores, expected)
    np.testing.assert_allclose(pca.transform(pca.inverse_transform(scores)), scores, atol=1e-9)


def test_public_deviations_are_used_as_they_are():
    fitted = PrivateCovariance(scale=2 * UNITS, **BUDGET).fit(ROWS)
    assert fitted.scale_.tolist() == (2 * UNITS).tolist()
    np.testing.assert_allclose(np.diag(fitted.covariance_), 0.25, rtol=0.2)
    np.testing.assert_allclose(fitted.correlation_, TRUE, atol=0.1)
    assert fitted.release_.estimand == "covariance of columns in public units"
    plain = PrivateCovariance(**BUDGET).fit(ROWS)  # the same noise
    np.testing.assert_allclose(fitted.release_.raw_covariance, plain.covariance_)
    np.testing.assert_allclose(fitted.mahalanobis(ROWS[:9]), plain.mahalanobis(ROWS[:9]), rtol=1e-6)
    assert fitted.score(ROWS) == pytest.approx(plain.score(ROWS), rel=1e-6)


@pytest.mark.parametrize(
    ("estimator", "estimand", "words"),
    [
        (PrivatePCA(1, **BUDGET), "covariance", "the covariance matrix"),
        (PrivatePCA(1, center=None, **BUDGET), "second moment", "about 0"),
        (PrivatePCA(1, method="spatial-sign", **BUDGET), "spatial signs", "whatever their lengths"),
        (
            PrivatePCA("private", method="spatial-sign", bound="private", **BUDGET),
            "spatial signs",
            "directions of rows",
        ),
        (PrivatePCA(1, method="kendall", **BUDGET), "Kendall's tau", "differences of rows"),
    ],
)
def test_a_release_says_what_it_is_about(estimator, estimand, words):
    guarantee = estimator.fit(PLAIN[:3000]).guarantee_
    assert guarantee.estimand == estimator.release_.estimand == estimand
    assert words in guarantee.about
    assert estimator.explain(PLAIN[:3000]).guarantee.estimand == estimand


def test_robust_asks_for_signs_and_names_of_other_methods_contradict_it():
    robust = PrivatePCA(1, robust=True, **BUDGET).fit(PLAIN)
    assert robust.release_.estimand in ("spatial signs", "Kendall's tau")
    refused = PrivatePCA(1, robust=True, method="gaussian", bound=9.0, **BUDGET)
    for call in (refused.fit, refused.explain):
        with pytest.raises(ValueError, match="'robust' parameter of PrivatePCA must be False for method='gaussian'"):
            call(PLAIN)


@pytest.mark.parametrize(
    "scale", ["other", [1, 2, 3], [1, 2, 3, 0], [1, 2, 3, -1], [1, 2, 3, np.nan], [1, 2, 3, 1e200]]
)
def test_scales_that_cannot_be(scale):
    with pytest.raises(ValueError, match="'scale' parameter of PrivatePCA must"):
        PrivatePCA(1, scale=scale, **BUDGET).fit(PLAIN)


def test_other_units_and_streams():
    with pytest.raises(ValueError, match="'units' parameter of PrivatePCA must be"):
        PrivatePCA(1, units="grams", **BUDGET).fit(PLAIN)
    with pytest.raises(ValueError, match="'scale' parameter of PrivatePCA must be None for partial_fit"):
        PrivatePCA(1, scale="private", method="oja", bound=5.0, center=None, **BUDGET).partial_fit(PLAIN)
    same = PrivatePCA(1, units="same", **BUDGET).fit(PLAIN)
    assert abs(same.components_[0] @ np.linalg.eigh(TRUE)[1][:, -1]) > 0.95


def test_a_guarantee_without_an_estimand_is_read(pca):
    """Files of versions that did not state it."""
    old = pca.guarantee_.to_dict()
    del old["estimand"]
    assert Guarantee.from_dict(json.loads(json.dumps(old))) == replace(pca.guarantee_, estimand="")
    assert "\nabout " not in str(Guarantee.from_dict(old))


def test_the_scale_travels(pca, tmp_path):
    release = pca.release_
    for other in (load_release(release.save(tmp_path / "r")), read_arrow(release.to_arrow())):
        np.testing.assert_array_equal(other.scale, release.scale)
        assert other.estimand == "correlation"
    assert release.to_arrow()["scale"].to_pylist() == release.scale.tolist()


def test_scikit_learn_gets_a_scaler_and_a_pca(pca):
    peer = pca.release_.to_sklearn()
    assert isinstance(peer, Pipeline)
    np.testing.assert_allclose(peer.transform(ROWS[:20]), pca.transform(ROWS[:20]))
    scores = pca.transform(ROWS[:20])
    np.testing.assert_allclose(peer.inverse_transform(scores), pca.inverse_transform(scores))
    wanted = {name for name in vars(StandardScaler().fit(ROWS)) if name.endswith("_")}
    assert wanted <= set(vars(peer[0]))


def test_samples_are_in_the_units_of_the_data(pca):
    """20,000 draws: deviations are off by 0.5% each, correlations by 0.007; five of those are allowed."""
    rows = pca.release_.sample(20_000, random_state=1)
    np.testing.assert_allclose(rows.std(axis=0), np.sqrt(np.diag(pca.release_.raw_covariance)), rtol=0.03)
    np.testing.assert_allclose(np.corrcoef(rows.T), pca.release_.correlation, atol=0.035)


def test_a_score_map_divides_rows(pca):
    """Counts are those of the scores, up to Laplace noise of scale 2/50 on each; 1e-9 that one is off by one."""
    found = PrivateScoreMap(pca.release_, epsilon=50.0, cells=8, random_state=0).fit(ROWS).map_
    x, y = found.edges
    scores = np.clip(pca.transform(ROWS), [x[0], y[0]], [x[-1] - 1e-9, y[-1] - 1e-9])
    exact = np.histogram2d(*scores.T, bins=(x, y))[0]
    assert np.abs(found.counts[0] - exact).max() <= 2  # a row on the border of two cells may be in either
    assert found.facts["scale"] == pca.scale_.tolist()


def test_a_biplot_shows_scores_of_scaled_columns(pca):
    ax = BiplotDisplay.from_estimator(pca, Figure().subplots()).ax_
    cloud = ax.collections[0].get_offsets()
    assert np.abs(cloud).max() < 10  # deviations; in the data's own units they would be tens of thousands
    assert "of scaled columns" in ax.get_title(loc="left")


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("scale", ["private", "public"])
def test_the_penalty_of_a_ridge_has_no_unit(bounded, scale):
    """Coefficients beside those after a StandardScaler without privacy; a unit of a column changes nothing but them."""
    y = ROWS @ [1.0, 1e-4, 500.0, 0.2] + 7 + 0.1 * np.random.default_rng(1).normal(size=len(ROWS))
    box = {}
    if bounded:
        box = {"bound": (ROWS.min(axis=0), ROWS.max(axis=0)), "target_bounds": (y.min(), y.max())}
    given = "private" if scale == "private" else np.append(ROWS.std(axis=0), y.std())
    for alpha in (1.0, 20_000.0):
        model = PrivateRidge(alpha, scale=given, **box, **BUDGET).fit(ROWS, y)
        truth = make_pipeline(StandardScaler(), Ridge(alpha)).fit(ROWS, y)
        np.testing.assert_allclose(model.coef_ * ROWS.std(axis=0), truth[-1].coef_, atol=0.05 * y.std())
        np.testing.assert_allclose(model.predict(ROWS[:50]), truth.predict(ROWS[:50]), atol=0.2 * y.std())
    if scale == "public":
        np.testing.assert_allclose(model.release_.scale, given)
    assert PrivateRidge("auto", scale=given, **box, **BUDGET).fit(ROWS, y).score(ROWS, y) > 0.95
    other = model.release_.ridge(0, 20_000.0, features=[1, 2])
    exact = make_pipeline(StandardScaler(), Ridge(20_000.0)).fit(ROWS[:, 1:3], ROWS[:, 0])
    np.testing.assert_allclose(other.coef * UNITS[1:3], exact[-1].coef_, atol=0.05)


def test_a_regression_from_a_correlation_matrix_is_in_the_units_of_the_data(pca):
    fit = PrivateCovariance(scale="private", **BUDGET).fit(ROWS).release_.ridge(1, 0.0, features=[0])
    assert fit.coef[0] == pytest.approx(0.7e4, rel=0.1)
    assert fit.predict([[0.0]])[0] == pytest.approx(1e5, rel=0.02)
