"""Robust directions of standardised columns: any unit, few assumptions, and the same guarantee."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.evaluation import sin_theta

OPTIONS = {"delta": 1e-6, "robust": True, "random_state": 0}


def table(n=20_000, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.standard_t(3, size=n)
    rows = np.column_stack([common + 0.4 * rng.standard_t(3, size=n) for _ in range(3)])
    return np.column_stack([rows, rng.standard_t(3, size=(n, 3))])


UNITS = np.array([1e-6, 1.0, 1e3, 1e6, 1.0, 1e-3])


def test_units_and_origin_change_little():
    X = table()
    truth = np.linalg.eigh(np.corrcoef(np.sign(X - np.median(X, axis=0)).T))[1][:, -1:].T
    for units, away in ((1.0, 0.0), (UNITS, 0.0), (UNITS, 1e4)):
        fitted = PrivatePCA(1, epsilon=2.0, scale="private", **OPTIONS).fit(X * units + away * units)
        assert sin_theta(fitted.components_, truth) < 0.2
        assert "standardised columns" in fitted.release_.estimand
        spread = np.median(np.abs(X - np.median(X, axis=0)), axis=0) * units
        assert (fitted.scale_ / spread > 0.7).all()
        assert (fitted.scale_ / spread < 10).all()


def test_public_deviations_cost_nothing():
    X = table() * UNITS
    fitted = PrivatePCA(1, epsilon=2.0, scale=UNITS, **OPTIONS).fit(X)
    plain = PrivatePCA(1, epsilon=2.0, **OPTIONS).fit(X / UNITS)
    np.testing.assert_allclose(fitted.components_, plain.components_, atol=1e-6)
    assert fitted.release_.guarantee.split == plain.release_.guarantee.split


def test_everything_is_paid_for_within_the_budget():
    fitted = PrivatePCA(2, epsilon=1.0, scale="private", **OPTIONS).fit(table())
    guarantee = fitted.release_.guarantee
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-6)
    assert guarantee.split[0].purpose.startswith("units: ")
    assert len(guarantee.split) > 2


def test_transform_divides_by_released_numbers():
    X = table() * UNITS
    fitted = PrivatePCA(2, epsilon=2.0, scale="private", **OPTIONS).fit(X)
    expected = ((X[:5] - fitted.mean_) / fitted.scale_) @ fitted.components_.T
    np.testing.assert_allclose(fitted.transform(X[:5]), expected)


def test_too_few_rows_are_refused_before_anything_is_spent():
    with pytest.raises(ValueError, match=r"public deviations; [\d,]+ rows; or epsilon=[\d.]+\. Nothing was spent"):
        PrivatePCA(1, epsilon=0.1, scale="private", **OPTIONS).fit(table(400))


def test_a_private_number_of_components_is_refused():
    with pytest.raises(ValueError, match="n_components"):
        PrivatePCA("private", epsilon=8.0, scale="private", **OPTIONS).fit(table())
