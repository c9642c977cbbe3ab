"""Released variances and means are possible ones, by the declared limits of columns."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivateCovariance
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
