"""Released variances and means are possible ones, by the declared limits of columns."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivateRidge
from dpeigen.estimators import describe
from dpeigen.report.matrices import deviation_intervals

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore")
DECLARED = {"half": {"type": "bool"}, "group": {"categories": ["a", "b"]}, "grade": {"lower": 0, "upper": 4}, "x": {}}


def table(seed, n=1400):
    rng = np.random.default_rng(seed)
    frame = {"half": rng.random(n) < 0.5, "group": rng.choice(["a", "b"], size=n)}
    return pd.DataFrame(frame | {"grade": rng.choice([0.0, 4.0], size=n), "x": rng.normal(size=n)})


def largest(seed):
    """The largest of variances relative to what is possible, and whether means are possible."""
    release = PrivateCovariance(epsilon=0.7, delta=1e-6, columns=DECLARED, random_state=seed).fit(table(seed)).release_
    low, high = release.limits
    bounded, most = np.isfinite(high), ((high - low) / 2) ** 2
    ratios = np.diag(release.covariance)[bounded] / most[bounded]
    return release, ratios.max(), (low <= release.mean) & (release.mean <= high)


def test_variances_and_means_are_possible(monkeypatch):
    """Columns of two equally frequent values have the largest possible variance. Twin: without limits, more."""
    for seed in range(6):
        release, ratio, possible = largest(seed)
        assert ratio <= 1 + 1e-9
        assert possible.all()
        values = np.linalg.eigvalsh(release.covariance)[::-1]
        np.testing.assert_allclose(release.eigenvalues, values, rtol=1e-8, atol=1e-10)
        low, high = release.intervals().covariance
        assert (low <= release.covariance).all()
        assert (release.covariance <= high).all()
    monkeypatch.setattr(describe, "within_limits", lambda release: release)
    assert max(largest(seed)[1] for seed in range(6)) > 1.01


def test_deviations_on_cards_are_possible_with_a_scale_too():
    """Divided columns keep their covariance; the deviation that is shown is at most half the distance of the limits."""
    largest = 0.0
    for seed in range(4):
        release = (
            PrivateCovariance(epsilon=0.7, delta=1e-6, columns=DECLARED, scale="private", random_state=seed)
            .fit(table(seed))
            .release_
        )
        half = release.feature_names.index("half")
        largest = max(largest, float(np.sqrt(release.raw_covariance[half, half])))
        assert release.deviation(half) <= 0.5
        found = deviation_intervals(release)
        assert found is None or found[0][half] <= release.deviation(half) <= found[1][half] <= 0.5
    assert largest > 0.5  # what it protects from


SKEWED = np.random.default_rng(0).beta(1, 30, size=(400, 2)) * [1.0, 1000.0]


@pytest.mark.parametrize("method", ["gaussian", "laplace", "matrix-laplace", "whitened", "auto"])
@pytest.mark.parametrize("scale", [None, "private"])
def test_intervals_lie_within_public_bounds(method, scale):
    """Means near a bound: without the bounds in the release, their intervals reached far below 0."""
    bound, rows = ([0.0, 0.0], [1.0, 1000.0]), SKEWED if method != "whitened" else np.tile(SKEWED, (5, 1))
    for seed in range(3):
        options = {"epsilon": 0.5, "delta": 1e-6, "method": method, "random_state": seed, "scale": scale}
        release = PrivateCovariance(bound=bound, **options).fit(rows).release_
        low, high = release.intervals().mean
        assert (low >= 0).all()
        assert (high <= bound[1]).all()
        assert (low <= release.mean).all()
        assert (release.mean <= high).all()
        found = deviation_intervals(release)
        assert found is None or (found[1] <= np.array([0.5, 500.0]) * (1 + 1e-9)).all()


def test_a_moment_about_0_may_be_larger_than_a_variance():
    release = PrivateCovariance(epsilon=9.0, delta=1e-6, bound=(0, 1), center=None, random_state=0).fit(
        np.full((4000, 2), 0.9)
    )
    assert release.release_.intervals().covariance[1][0, 0] >= 0.81


def test_regressions_inside_declared_bounds_keep_the_variances_of_their_columns():
    """Limits in the columns' own units were applied to columns multiplied by public factors, and cut a variance."""
    rng, n = np.random.default_rng(0), 3000
    frame = pd.DataFrame({"a": rng.beta(1, 30, n) * 1000, "b": rng.uniform(size=n)})
    frame["c"] = (0.01 * frame["a"] + frame["b"] + rng.normal(0, 0.3, n)).clip(0, 10)
    limits = {"a": (0, 1000), "b": (0, 1), "c": (0, 10)}
    bound = {"bound": ([0, 0], [1000, 1]), "target_bounds": (0, 10), "method": "whitened"}
    fits = [
        PrivateRidge("auto", epsilon=1.0, delta=1e-6, random_state=0, columns=columns, **bound).fit(frame, "c")
        for columns in (None, {name: {"lower": low, "upper": high} for name, (low, high) in limits.items()})
    ]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-9)
    assert fits[0].release_.limits[1].tolist() == pytest.approx([1000, 1, 10])


def test_a_declared_column_without_limits_may_have_a_negative_mean():
    frame = pd.DataFrame(np.random.default_rng(0).normal([-99, 5], [40, 1], size=(3000, 2)), columns=["a", "b"])
    columns = {"a": {"unit_of_measure": "EUR"}, "b": {"lower": 0, "upper": 10, "outside": "missing"}}
    options = {"epsilon": 8.0, "delta": 1e-6, "missing": "correct", "random_state": 0}
    release = PrivateCovariance(columns=columns, **options).fit(frame).release_
    np.testing.assert_array_equal(release.limits, [[-np.inf, 0], [np.inf, 10]])
    assert abs(release.mean[0] + 99) < 5
