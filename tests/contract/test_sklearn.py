"""The estimators keep scikit-learn's contract, and the promises made about arrays, frames and files."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.covariance import EmpiricalCovariance
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.methods import Gaussian, MatrixLaplace
from dpeigen.sources import ArraySource


def expected_failed_checks(estimator) -> dict[str, str]:
    """Every check of scikit-learn 1.6 to 1.9 passes but these."""
    if estimator.relation != "add_remove":
        return {}
    failed = {
        "check_estimators_empty_data_messages": "The number of rows is private under add/remove: refusing an empty "
        "table would tell it. It is answered like any other, with noise.",
    }
    if hasattr(estimator, "transform"):
        why = "A list tells its columns by its rows only: it is refused, whether it holds rows or not."
        failed["check_transformer_data_not_an_array"] = why
    return failed


PCAS = [
    PrivatePCA(1, epsilon=1.0, bound=10.0, random_state=0),
    PrivatePCA(1, epsilon=1.0, bound=10.0, center=None, method="laplace", random_state=0),
    PrivatePCA(1, epsilon=1.0, bound=(-10, 10), center="pairs", method="matrix-laplace", random_state=0),
    PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=10.0, relation="add_remove", method="gaussian", random_state=0),
    PrivatePCA(1, epsilon=1.0, delta=1e-6, bound=10.0, method="spatial-sign", random_state=0),
]
COVARIANCES = [
    PrivateCovariance(epsilon=1.0, bound=10.0, random_state=0),
    PrivateCovariance(epsilon=1.0, bound=10.0, center="pairs", method="laplace", random_state=0),
    PrivateCovariance(epsilon=1.0, delta=1e-6, bound=(-10, 10), method=Gaussian(), random_state=0),
    PrivateCovariance(epsilon=1.0, bound=10.0, relation="add_remove", method="spatial-sign", random_state=0),
]


checks = parametrize_with_checks([*PCAS, *COVARIANCES], expected_failed_checks=expected_failed_checks).mark


# A list: older scikit-learn hands over a generator, which newer pytest no longer takes.
@pytest.mark.parametrize(checks.args[0], list(checks.args[1]), **checks.kwargs)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- numbers ------------------------------------------------------------------------------------------------------


@pytest.fixture
def X():
    rng = np.random.default_rng(7)
    return rng.normal(size=(400, 4)) @ np.diag([3.0, 2.0, 1.0, 0.5]) + [1.0, 0.0, -1.0, 2.0]


@pytest.mark.parametrize("estimator", PCAS, ids=lambda e: f"{e.method}-{e.center}")
def test_a_pca_is_a_pca(estimator, X):
    pca = clone(estimator).set_params(n_components=3).fit(X)
    assert pca.components_.shape == (3, 4)
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(3), atol=1e-12)
    assert (pca.explained_variance_ >= 0).all()
    assert (np.diff(pca.explained_variance_) <= 0).all()
    assert (pca.explained_variance_ratio_ >= 0).all()
    assert pca.explained_variance_ratio_.sum() <= 1 + 1e-12
    assert pca.noise_variance_ >= 0
    assert np.linalg.eigvalsh(pca.get_covariance()).min() >= -1e-9
    alone = pca.release_.facts["details"].get("variances") == "relative"  # "auto" with few rows: only directions
    assert (pca.mean_ is None) == (estimator.center == "pairs" or (alone and estimator.center == "private"))
    assert pca.n_components_ == 3
    assert pca.n_features_in_ == 4


@pytest.mark.parametrize("estimator", COVARIANCES, ids=lambda e: f"{e.method}-{e.center}")
def test_a_covariance_is_a_covariance(estimator, X):
    fitted = clone(estimator).fit(X)
    assert fitted.covariance_.shape == fitted.precision_.shape == (4, 4)
    np.testing.assert_allclose(fitted.covariance_, fitted.covariance_.T, rtol=1e-13, atol=1e-13)
    assert np.linalg.eigvalsh(fitted.covariance_).min() >= -1e-9
    assert (fitted.location_ is None) == (estimator.center == "pairs")
    assert fitted.get_precision() is fitted.precision_


@pytest.mark.parametrize("estimator", [*PCAS, *COVARIANCES], ids=lambda e: f"{type(e).__name__}-{e.method}-{e.center}")
def test_fit_and_refit_agree(estimator, X):
    first = clone(estimator).fit(X)
    again = clone(estimator).fit(X[:50, :2]).fit(X)  # what was fitted before leaves no trace
    np.testing.assert_array_equal(first.release_.covariance, again.release_.covariance)
    np.testing.assert_array_equal(first.release_.components, again.release_.components)
    assert first.guarantee_ == again.guarantee_
    assert vars(first).keys() == vars(again).keys()


@pytest.mark.parametrize("estimator", PCAS, ids=lambda e: f"{e.method}-{e.center}")
def test_fit_transform_and_transform_agree(estimator, X):
    estimator = clone(estimator).set_params(n_components=2)
    scores = estimator.fit_transform(X)
    np.testing.assert_array_equal(scores, clone(estimator).fit(X).transform(X))
    centre = 0.0 if estimator.mean_ is None else estimator.mean_
    np.testing.assert_allclose(scores, (X - centre) @ estimator.components_.T, rtol=1e-12, atol=1e-12)


def test_inverse_transform_undoes_a_full_transform(X):
    pca = PrivatePCA(4, epsilon=1.0, bound=10.0, random_state=0).fit(X)
    np.testing.assert_allclose(pca.inverse_transform(pca.transform(X)), X, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(pca.get_covariance(), pca.release_.covariance, rtol=1e-10, atol=1e-10)


def test_a_released_covariance_scores_like_scikit_learns(X):
    ours = PrivateCovariance(epsilon=50.0, bound=10.0, random_state=0).fit(X)
    theirs = EmpiricalCovariance().fit(X)
    theirs.covariance_, theirs.location_ = ours.covariance_, ours.location_
    theirs.precision_ = ours.precision_
    np.testing.assert_allclose(ours.mahalanobis(X), theirs.mahalanobis(X), rtol=1e-9)
    np.testing.assert_allclose(ours.score(X), theirs.score(X), rtol=1e-9)
    for norm in ("frobenius", "spectral"):
        for scaling in (True, False):
            for squared in (True, False):
                options = {"norm": norm, "scaling": scaling, "squared": squared}
                expected = theirs.error_norm(np.eye(4), **options)
                np.testing.assert_allclose(ours.error_norm(np.eye(4), **options), expected, rtol=1e-9)


@pytest.mark.parametrize("call", ["transform", "inverse_transform", "get_covariance", "get_feature_names_out"])
def test_an_unfitted_estimator_says_so(call, X):
    arguments = {"transform": (X,), "inverse_transform": (X,)}.get(call, ())
    with pytest.raises(NotFittedError):
        getattr(PrivatePCA(2, epsilon=1.0), call)(*arguments)


# --- the machinery of scikit-learn --------------------------------------------------------------------------------


def test_clone_keeps_every_parameter(tmp_path):
    pca = PrivatePCA(2, epsilon=0.5, delta=1e-7, method=MatrixLaplace(tighten=True), bound=(-1, 1), center="pairs",
                     relation="replace", ledger=tmp_path / "x", random_state=3, missing="drop")  # fmt: skip
    assert clone(pca).get_params() == pca.get_params()
    assert clone(pca).method == MatrixLaplace(tighten=True)


def test_pipeline_and_grid_search(X):
    y = (X[:, 0] > 1).astype(int)
    pipeline = make_pipeline(PrivatePCA(2, epsilon=5.0, bound=10.0, random_state=0), LogisticRegression())
    assert pipeline.fit(X, y).score(X, y) > 0.9
    grid = {"privatepca__n_components": [1, 3], "privatepca__method": ["auto", "spatial-sign"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8
    assert set(pipeline[:-1].get_feature_names_out()) == {"privatepca0", "privatepca1"}


def test_grid_search_over_covariances_by_likelihood(X):
    bounds = {"bound": [0.01, 15.0]}
    covariance = PrivateCovariance(epsilon=50.0, random_state=0, method="matrix-laplace")
    assert GridSearchCV(covariance, bounds, cv=2, error_score="raise").fit(X).best_params_ == {"bound": 15.0}


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_fitted_estimators_can_be_copied(how, X):
    pca = PrivatePCA(2, epsilon=1.0, bound=10.0, random_state=0).fit(X)
    twin = how(pca)
    np.testing.assert_array_equal(twin.transform(X), pca.transform(X))
    assert twin.release_.guarantee == pca.release_.guarantee
    assert dict(twin.release_.facts) == dict(pca.release_.facts)
    assert not twin.release_.covariance.flags.writeable


# --- frames, tables, files ----------------------------------------------------------------------------------------


def frame_pandas(X, names):
    return pytest.importorskip("pandas").DataFrame(X, columns=names)


def frame_polars(X, names):
    return pytest.importorskip("polars").DataFrame(X, schema=names)


NAMES = ["age", "height", "weight", "größe"]


@pytest.mark.parametrize("make", [frame_pandas, frame_polars])
@pytest.mark.parametrize("estimator", [PCAS[0], PCAS[4], COVARIANCES[2]], ids=lambda e: str(e.method)[:12])
def test_frames_give_the_same_release_and_keep_their_names(make, estimator, X):
    frame = make(X, NAMES)
    fitted = clone(estimator).fit(frame)
    np.testing.assert_array_equal(fitted.release_.covariance, clone(estimator).fit(X).release_.covariance)
    assert list(fitted.feature_names_in_) == NAMES
    assert fitted.release_.feature_names == NAMES
    assert not hasattr(fitted.fit(X), "feature_names_in_")
    if hasattr(fitted, "transform"):
        with pytest.raises(ValueError, match="feature names"):
            clone(estimator).fit(frame).transform(make(X, NAMES[::-1]))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_set_output(kind, X):
    library = pytest.importorskip(kind)
    frame = (frame_pandas if kind == "pandas" else frame_polars)(X, NAMES)
    pca = PrivatePCA(2, epsilon=1.0, bound=10.0, random_state=0).set_output(transform=kind).fit(frame)
    scores = pca.transform(frame)
    assert isinstance(scores, library.DataFrame)
    assert list(scores.columns) == list(pca.get_feature_names_out()) == ["privatepca0", "privatepca1"]
    np.testing.assert_array_equal(scores.to_numpy(), pca.set_output(transform="default").transform(frame))


def as_table(X, path):
    import pyarrow as pa

    return pa.table({name: X[:, j] for j, name in enumerate(NAMES)})


def as_parquet(X, path):
    import pyarrow.parquet as pq

    pq.write_table(as_table(X, path), path / "rows.parquet", row_group_size=64)
    return path / "rows.parquet"


def as_feather(X, path):
    import pyarrow.feather as feather

    feather.write_feather(as_table(X, path), path / "rows.feather")
    return str(path / "rows.feather")


def as_csv(X, path):
    lines = [",".join(NAMES), *(",".join(map(repr, row)) for row in X.tolist())]
    (path / "rows.csv").write_text("\n".join(lines), encoding="utf-8")
    return str(path / "rows.csv")


@pytest.mark.parametrize("make", [as_table, as_parquet, as_feather, as_csv])
@pytest.mark.parametrize("options", [{}, {"method": "spatial-sign"}, {"relation": "add_remove"}, {"center": None}])
def test_tables_and_files_give_what_arrays_give(make, options, X, tmp_path):
    settings = {"epsilon": 1.0, "delta": 1e-6, "bound": 10.0, "method": "gaussian", "random_state": 0}
    estimator = PrivatePCA(2, **settings).set_params(**options)
    fitted = clone(estimator).fit(make(X, tmp_path))
    rows = ArraySource(X)
    if make is as_csv:
        rows.n_rows = None  # only a full read would tell, so the centre's weight is chosen without it
    expected = clone(estimator).fit(rows)
    np.testing.assert_array_equal(fitted.release_.covariance, expected.release_.covariance)
    assert fitted.guarantee_ == expected.guarantee_
    assert list(fitted.feature_names_in_) == NAMES
    scores = fitted.transform(frame_pandas(X, NAMES))
    assert scores.shape == (400, 2)


def test_pandas_with_nullable_and_mixed_types():
    pandas = pytest.importorskip("pandas")
    whole = np.arange(40) % 7
    frame = pandas.DataFrame({"a": pandas.array(whole, dtype="Int64"), "b": whole % 2 == 0, "c": whole / 2})
    plain = np.column_stack([whole, whole % 2 == 0, whole / 2]).astype(float)
    pca = PrivatePCA(2, epsilon=1.0, bound=10.0, random_state=0)
    np.testing.assert_array_equal(pca.fit(frame).components_, clone(pca).fit(plain).components_)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, np.int8, np.int64, np.uint16, bool])
@pytest.mark.parametrize("estimator", [PCAS[0], PCAS[4], COVARIANCES[2]], ids=lambda e: str(e.method)[:12])
def test_dtypes_give_the_release_of_their_values(dtype, estimator, X):
    rows = np.abs(np.rint(X)).astype(dtype)
    expected = clone(estimator).fit(rows.astype(np.float64)).release_
    for layout in (rows, np.asfortranarray(rows), np.repeat(rows, 2, axis=0)[::2], rows.tolist()):
        fitted = clone(estimator).fit(layout)
        np.testing.assert_array_equal(fitted.release_.covariance, expected.covariance)
    if dtype == np.float32 and hasattr(fitted, "transform"):
        assert clone(estimator).fit(rows).transform(rows).dtype == np.float32


# --- the caller's data ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [*PCAS, *COVARIANCES], ids=lambda e: f"{type(e).__name__}-{e.method}-{e.center}")
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_callers_arrays_are_never_changed(estimator, order, X):
    rows = np.array(X, order=order)
    before = rows.copy()
    rows.setflags(write=False)
    fitted = clone(estimator).fit(rows)
    for call in ("transform", "mahalanobis", "score"):
        if hasattr(fitted, call):
            getattr(fitted, call)(rows)
    np.testing.assert_array_equal(rows, before)


def test_bad_rows_of_the_caller_are_left_alone(X):
    rows = X.copy()
    rows[3, 1] = np.nan
    before = rows.copy()
    PrivatePCA(2, epsilon=1.0, bound=10.0, random_state=0, missing="drop").fit(rows)
    np.testing.assert_array_equal(rows, before)


def test_public_facts_of_the_caller_are_not_kept_by_reference(X):
    center, lower = np.ones(4), np.full(4, -9.0)
    pca = PrivatePCA(2, epsilon=1.0, bound=(lower, 9.0), center=center, random_state=0).fit(X)
    center[:], lower[:] = 5.0, 0.0
    np.testing.assert_array_equal(pca.mean_, np.ones(4))
    np.testing.assert_array_equal(pca.release_.mean, np.ones(4))


def test_fitted_arrays_are_the_users_and_the_release_stays(X):
    pca = PrivatePCA(2, epsilon=1.0, bound=10.0, random_state=0).fit(X)
    kept = pca.release_.components.copy()
    pca.components_[:] = 0.0
    np.testing.assert_array_equal(pca.release_.components, kept)
