"""A fit warns of steps before it that learnt from the rows, and of searches that spend again and again."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from dpeigen import Ledger, PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.estimators import surroundings
from dpeigen.estimators.surroundings import RepeatedFitsWarning
from dpeigen.privacy.randomness import NotPrivateWarning

X = np.random.default_rng(0).normal(size=(120, 3))
Y = X[:, 0]
FIT = {"epsilon": 9.0, "bound": 3.0, "method": "laplace", "center": None}


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch):
    monkeypatch.setattr(surroundings, "_said", set())


def no_score(estimator, X, y=None):
    return 0.0


def pca(**options):
    return PrivatePCA(1, **FIT, **options)


LEARNING = {
    "scaler": (StandardScaler(), "standardscaler (StandardScaler)"),
    "imputer": (SimpleImputer(), "simpleimputer (SimpleImputer)"),
    "nested": (make_pipeline(Normalizer(), MinMaxScaler()), "pipeline (Pipeline)"),
    "columns": (ColumnTransformer([("a", StandardScaler(), [0]), ("b", "passthrough", [1, 2])]), "columntransformer"),
    "union": (FeatureUnion([("a", "passthrough"), ("b", StandardScaler())]), "featureunion"),
    "encoder": (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), "onehotencoder"),
}


@pytest.mark.parametrize("name", LEARNING)
def test_a_step_that_learnt_from_the_rows_is_named(name):
    step, words = LEARNING[name]
    with pytest.warns(NotPrivateWarning, match="before PrivatePCA in the pipeline learnt") as caught:
        make_pipeline(step, pca()).fit(X[:20] if name == "encoder" else X)
    (said,) = [str(w.message) for w in caught if "learnt" in str(w.message)]
    assert words in said
    assert "scale='private'" in said


QUIET = {
    "none": [],
    "stateless": [Normalizer(), FunctionTransformer(np.tanh)],
    "by columns": [PolynomialFeatures(2)],
    "public": [FrozenEstimator(StandardScaler().fit(X + 1))],
    "passthrough": ["passthrough", ColumnTransformer([("a", "passthrough", [0, 1])])],
    "declared": [FunctionTransformer(np.sign), OneHotEncoder(categories=[[-1.0, 1.0]] * 3, sparse_output=False)],
}


@pytest.mark.parametrize("name", QUIET)
def test_steps_that_learnt_nothing_from_the_rows_are_fine(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pipeline(*QUIET[name], pca()).fit(X)
        make_pipeline(*QUIET[name], pca(), LinearRegression()).fit(X, Y)
        StandardScaler().fit(X)
        pca().fit(X)


def test_only_steps_before_it_count():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pipeline(pca(), StandardScaler(), LinearRegression()).fit(X, Y).predict(X)
    with pytest.warns(NotPrivateWarning, match=r"minmaxscaler \(MinMaxScaler\)\. The"):
        make_pipeline(MinMaxScaler(), pca(), StandardScaler(), LinearRegression()).fit(X, Y)
    with pytest.warns(NotPrivateWarning, match="before PrivateRidge"):
        make_pipeline(StandardScaler(), PrivateRidge(1.0, epsilon=9.0, bound=3.0, method="laplace")).fit(X, Y)
    with pytest.warns(NotPrivateWarning, match=r"standardscaler \(StandardScaler\)"):
        make_pipeline(StandardScaler(), make_pipeline(Normalizer(), pca())).fit(X)


def test_a_search_without_a_ledger_says_once_that_each_fit_spends():
    search = GridSearchCV(
        PrivateCovariance(**FIT), {"epsilon": [1.0, 2.0]}, cv=2, scoring=no_score, error_score="raise"
    )
    with pytest.warns(RepeatedFitsWarning, match=r"n_components='private', dpeigen\.planner") as caught:
        search.fit(X)
    assert len([w for w in caught if w.category is RepeatedFitsWarning]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_val_score(PrivateCovariance(**FIT), X, cv=2, scoring=no_score, error_score="raise")


def test_a_search_with_a_ledger_or_a_seed_is_quiet(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=100.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedFitsWarning)
        cross_val_score(PrivateCovariance(**FIT, ledger=ledger.path), X, cv=2, scoring=no_score, error_score="raise")
        cross_val_score(PrivateCovariance(**FIT, random_state=0), X, cv=2, scoring=no_score, error_score="raise")
        PrivateCovariance(**FIT).fit(X)
    assert len(ledger.history()) == 2
