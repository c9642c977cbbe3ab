"""Products with a triangle in single precision: right to the last bits, and noticed where they are not."""

import numpy as np
import pytest

from dpeigen.stats import triangular
from dpeigen.stats.triangular import keeps_bits, times_triangle, triangle_of


@pytest.fixture(params=["blas", "whole"])
def product(request, monkeypatch):
    if request.param == "whole":
        monkeypatch.setattr(triangular, "_product", lambda: triangular._whole)
    return times_triangle


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 2), (131, 100), (700, 33)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_are_as_long_as_under_the_whole_map(product, shape, kind):
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(shape[1], shape[1])) * np.geomspace(1e-3, 1e3, shape[1])[:, None]
    rows = np.rint(rng.normal(size=shape) * 2**18).astype(kind)
    before = rows.copy()
    turned = product(rows, triangle_of(matrix))
    assert turned.dtype == np.float32
    expected = np.linalg.norm(rows.astype(np.float64) @ matrix.T, axis=1)
    size = np.linalg.norm(matrix) * np.linalg.norm(rows.astype(np.float64), axis=1)
    assert (
        np.abs(np.linalg.norm(turned.astype(np.float64), axis=1) - expected) <= (shape[1] + 2) * 2.0**-24 * size
    ).all()
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_product_in_the_place_of_the_rows_is_no_other(product, kind):
    rng = np.random.default_rng(6)
    triangle, rows = triangle_of(rng.normal(size=(30, 30))), rng.normal(size=(40, 30)).astype(kind)
    expected = product(rows, triangle)
    fixed = rows.copy()
    fixed.setflags(write=False)
    np.testing.assert_array_equal(product(fixed, triangle, overwrite=True), expected)
    np.testing.assert_array_equal(product(rows, triangle, overwrite=True), expected)


def test_rows_that_do_not_lie_one_after_the_other_are_no_others(product):
    rng = np.random.default_rng(4)
    triangle, rows = triangle_of(rng.normal(size=(30, 30))), rng.normal(size=(40, 60)).astype(np.float32)
    expected = product(np.ascontiguousarray(rows[::2, ::2]), triangle)
    for given in (rows[::2, ::2], np.asfortranarray(rows[::2, ::2])):
        np.testing.assert_array_equal(product(given, triangle), expected)


def test_a_product_that_loses_bits_or_reads_the_wrong_triangle_is_noticed():
    assert keeps_bits(triangular._whole)
    assert keeps_bits(triangular._product())
    assert not keeps_bits(lambda rows, triangle: rows @ triangle)
    assert not keeps_bits(lambda rows, triangle: rows @ np.bitwise_and(triangle.T.view(np.int32), -2).view(np.float32))


def _short(rows, triangle):
    """As if BLAS lost all but the first 256 products of a sum."""
    return rows[:, :256] @ triangle.T[:256]


def _only_tried(rows, triangle):
    """Right for up to 100 columns; else rows come back as they were."""
    return rows @ triangle.T if rows.shape[1] <= 100 else rows.copy()


def _few_bits(rows, triangle):
    """Sums of several products lose their last 12 bits."""
    found = rows @ triangle.T
    several = ((rows != 0).sum(axis=1) > 1)[:, None]
    return np.where(several, np.bitwise_and(found.view(np.int32), -4096).view(np.float32), found)


@pytest.mark.parametrize("faulty", [_short, _only_tried, _few_bits])
def test_a_product_that_is_wrong_only_in_long_sums_is_noticed(faulty):
    assert not keeps_bits(faulty)


def test_a_triangle_of_another_size_is_refused():
    rows = np.ones((3, 4), dtype=np.float32)
    with pytest.raises((AssertionError, ValueError)):
        times_triangle(rows, np.eye(5, dtype=np.float32))


def test_without_the_function_of_blas_whole_products_are_taken(monkeypatch):
    monkeypatch.setattr(triangular, "_strmm", lambda: None)
    assert triangular._product.__wrapped__() is triangular._whole
    monkeypatch.setattr(triangular, "_strmm", lambda: lambda *arguments: None)  # one that does nothing
    assert triangular._product.__wrapped__() is triangular._whole
