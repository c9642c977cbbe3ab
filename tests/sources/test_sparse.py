"""Sparse matrices give what the same dense rows give, and never become dense as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dpeigen import PrivateCovariance, PrivatePCA, PrivateRidge
from dpeigen.sources import memory, open_source
from dpeigen.sources.sparse import SparseSource

RNG = np.random.default_rng(5)
X = RNG.normal(size=(600, 4)) * (RNG.random((600, 4)) < 0.3) * [3, 2, 1, 1]
FORMATS = ["csr", "csc", "coo", "lil"]


def options(**more):
    return {"epsilon": 4.0, "delta": 1e-6, "random_state": 3, **more}


@pytest.mark.parametrize("kind", FORMATS)
def test_components_are_those_of_the_dense_rows(kind):
    for more in ({"bound": 6.0, "center": None}, {}, {"relation": "add_remove", "bound": 6.0}):
        dense = PrivatePCA(2, **options(**more)).fit(X)
        found = PrivatePCA(2, **options(**more)).fit(sparse.coo_array(X).asformat(kind))
        assert np.array_equal(found.components_, dense.components_)
        assert found.guarantee_ == dense.guarantee_


def test_rows_are_made_dense_a_block_at_a_time(monkeypatch):
    monkeypatch.setattr(memory, "_BLOCK_NUMBERS", 400)
    source = open_source(sparse.csr_matrix(X))
    assert isinstance(source, SparseSource)
    assert {len(block) for block in source.blocks()} == {100}
    pca = PrivatePCA(2, **options(bound=6.0)).fit(source)
    scores = pca.transform(sparse.csr_matrix(X))
    assert scores == pytest.approx(pca.transform(X), abs=1e-12)


def test_covariance_regression_and_people():
    ids = np.arange(600) // 2
    for unit in (None, ids):
        dense = PrivateCovariance(**options(bound=9.0)).fit(X, unit=unit)
        found = PrivateCovariance(**options(bound=9.0)).fit(sparse.csr_matrix(X), unit=unit)
        assert np.array_equal(found.covariance_, dense.covariance_)
    assert found.mahalanobis(sparse.csr_matrix(X)) == pytest.approx(found.mahalanobis(X))
    assert found.score(sparse.csr_matrix(X)) == pytest.approx(found.score(X))
    y = X @ [1.0, 0.5, 0.0, 0.0]
    ridge = PrivateRidge(1.0, **options()).fit(sparse.csr_matrix(X), y)
    assert np.array_equal(ridge.coef_, PrivateRidge(1.0, **options()).fit(X, y).coef_)
    assert ridge.predict(sparse.csr_matrix(X)) == pytest.approx(ridge.predict(X))


def test_one_pass_methods_take_them():
    whole = PrivatePCA(1, method="oja", **options(bound=6.0)).fit(sparse.csr_matrix(X))
    assert whole.components_.shape == (1, 4)


def test_missing_cells_are_refused_or_corrected_as_in_dense_rows():
    holes = X.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match="missing="):
        PrivatePCA(2, **options()).fit(sparse.csr_matrix(holes))
    dense = PrivatePCA(2, **options(missing="correct")).fit(holes)
    found = PrivatePCA(2, **options(missing="correct")).fit(sparse.csr_matrix(holes))
    assert np.array_equal(found.components_, dense.components_)


def test_no_rows_are_answered_where_their_number_is_private():
    empty = sparse.csr_matrix((0, 4))
    found = PrivatePCA(2, **options(bound=6.0, relation="add_remove")).fit(empty)
    assert found.components_.shape == (2, 4)


def test_what_cannot_be_used_is_refused():
    with pytest.raises(ValueError, match="real numbers"):
        PrivatePCA(1, **options()).fit(sparse.csr_matrix(X * 1j))
    with pytest.raises(ValueError, match="no column names"):
        open_source(sparse.csr_matrix(X), columns=["a"])


def test_indices_that_do_not_fit_are_refused():
    """SciPy writes such entries into other rows: one row would change all."""
    n = 6
    pointers = np.array([0] + [n] * n)
    for indices in (np.arange(0, 2 * n, 2), np.full(n, -1)):
        wrong = sparse.csr_matrix((n, 2))
        wrong.data, wrong.indices, wrong.indptr = np.ones(n), indices, pointers
        with pytest.raises(ValueError, match="not a valid sparse matrix"):
            PrivatePCA(1, **options(bound=1.0)).fit(wrong)
