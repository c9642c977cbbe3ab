"""Products of integers are exact: this machine's BLAS is tested, and a BLAS that is not exact is not used."""

import warnings

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.stats import Frame, Lattice, SecondMoment, products


def strassen(left, right):
    """One level of Strassen's algorithm: products of sums of blocks."""
    if left.shape[0] < 2 or right.shape[1] < 2 or left.shape[1] < 2:
        return left @ right
    m, n, k = (size + size % 2 for size in (left.shape[0], right.shape[1], left.shape[1]))
    a, b = np.zeros((m, k)), np.zeros((k, n))
    a[: left.shape[0], : left.shape[1]], b[: right.shape[0], : right.shape[1]] = left, right
    a11, a12, a21, a22 = a[: m // 2, : k // 2], a[: m // 2, k // 2 :], a[m // 2 :, : k // 2], a[m // 2 :, k // 2 :]
    b11, b12, b21, b22 = b[: k // 2, : n // 2], b[: k // 2, n // 2 :], b[k // 2 :, : n // 2], b[k // 2 :, n // 2 :]
    m1, m2, m3 = (a11 + a22) @ (b11 + b22), (a21 + a22) @ b11, a11 @ (b12 - b22)
    m4, m5, m6, m7 = a22 @ (b21 - b11), (a11 + a12) @ b22, (a21 - a11) @ (b11 + b12), (a12 - a22) @ (b21 + b22)
    whole = np.block([[m1 + m4 - m5 + m7, m3 + m5], [m2 + m4, m1 - m2 + m3 + m6]])
    return whole[: left.shape[0], : right.shape[1]]


def in_single_precision(left, right):
    return (left.astype(np.float32) @ right.astype(np.float32)).astype(np.float64)


def in_two_halves_of_single_precision(left, right):
    """As a library might that has fast units for short numbers only."""
    high, low = left.astype(np.float32), (left - left.astype(np.float32)).astype(np.float32)
    return high.astype(np.float64) @ right + in_single_precision(low, right)


def test_the_blas_of_this_machine_is_exact():
    assert products.blas_is_exact()
    assert products.passes(lambda a, b: np.einsum("ij,jk->ik", a, b))


@pytest.mark.parametrize("product", [strassen, in_single_precision, in_two_halves_of_single_precision])
def test_a_product_that_is_not_exact_fails_the_test(product):
    assert not products.passes(product)


@pytest.fixture
def poor_blas(monkeypatch):
    """A machine whose BLAS fails."""
    products.blas_is_exact.cache_clear()
    monkeypatch.setattr(products.np, "matmul", in_single_precision)
    with pytest.warns(UserWarning, match="does not sum products of integers exactly"):
        assert not products.blas_is_exact()
    monkeypatch.undo()
    yield
    products.blas_is_exact.cache_clear()


ROWS = np.random.default_rng(0).normal(size=(500, 6))


def moment():
    return SecondMoment(Lattice(Frame(6), 3.0), center_weight=2**20).update(ROWS)


def test_sums_are_the_same_without_blas(request):
    by_blas = moment()
    request.getfixturevalue("poor_blas")
    by_integers = moment()
    np.testing.assert_array_equal(by_blas.gram, by_integers.gram)
    np.testing.assert_array_equal(by_blas.total, by_integers.total)


@pytest.mark.usefixtures("poor_blas")
def test_what_needs_another_proof_is_refused():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateCovariance(epsilon=1.0, bound=3.0, center=None).fit(ROWS)
        for method in ("kendall", "geodesic"):
            with pytest.raises(RuntimeError, match="Nothing was spent"):
                PrivatePCA(1, epsilon=1.0, delta=1e-6, method=method).fit(ROWS)
