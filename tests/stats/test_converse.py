"""Lower bounds: shape, limits, known cases, and no method of this library does better than they allow."""

import math

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.stats.converse import (
    lower_bound_gaussian,
    lower_bound_heavy,
    lower_bound_without_tails,
    rate_gaussian,
    rate_heavy,
    rate_of_dp_pca,
    rate_of_oja,
    rate_without_tails,
    rows_for,
)

GAUSSIAN = {"d": 50, "epsilon": 0.1, "top": 1.5, "second": 1.0}
BOUNDS = {
    "gaussian": lambda n, **o: lower_bound_gaussian(n, **{**GAUSSIAN, **o}),
    "without tails": lambda n, **o: lower_bound_without_tails(n, **{**GAUSSIAN, **o}),
    "heavy": lambda n, **o: lower_bound_heavy(n, **{"d": 50, "epsilon": 0.1, "delta": 1e-6, "condition": 20.0, **o}),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_more_rows_or_a_larger_epsilon_allow_less_error(name):
    bound = BOUNDS[name]
    values = [bound(n) for n in np.unique(np.geomspace(10, 10**8, 40).astype(int)).tolist()]
    assert all(0 <= v <= 0.5 for v in values)
    assert values[0] > 0
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] < 0.1 * values[0]
    by_epsilon = [bound(3000, epsilon=e) for e in (0.001, 0.01, 0.1, 1.0)]
    assert (np.diff(by_epsilon) <= 1e-12).all()


def test_without_privacy_the_gaussian_bound_falls_as_the_root_of_n():
    """For large ε n the second term vanishes, and Fano's plain inequality is left: error × √n is constant."""
    values = [lower_bound_gaussian(n, 500, 1e6, 2.0, 1.0) * math.sqrt(n) for n in (10**4, 10**6)]
    assert values[0] == pytest.approx(values[1], rel=0.02)
    best = max(a / 4 * (1 - (10**6 * a * a / 2 + math.log(2)) / (0.0233 * 500)) for a in np.geomspace(1e-6, 1, 20_001))
    assert lower_bound_gaussian(10**6, 500, 1e6, 2.0, 1.0) == pytest.approx(best, rel=1e-3)


def test_with_little_epsilon_it_falls_as_one_over_epsilon_n():
    values = [lower_bound_gaussian(n, 500, 1e-5, 2.0, 1.0) * n for n in (10**6, 10**7)]
    assert values[0] == pytest.approx(values[1], rel=0.05)


def test_the_kl_divergence_of_the_construction():
    """½(λ₁ − λ₂)²/(λ₁λ₂)·sin²: half of what the paper prints in its equation 21; its final bound is right."""
    top, second, angle = 3.0, 1.0, 0.3
    v, w = np.array([1.0, 0.0]), np.array([math.cos(angle), math.sin(angle)])
    first, other = (second * np.eye(2) + (top - second) * np.outer(u, u) for u in (v, w))
    kl = 0.5 * (np.trace(np.linalg.solve(other, first)) - 2)
    assert kl == pytest.approx((top - second) ** 2 / (2 * top * second) * math.sin(angle) ** 2)


def test_heavy_tails_fix_the_share_of_spikes():
    """With κ = 20 the share is about 1/400, so a handful of rows decide: nothing is learnt from few of them."""
    assert lower_bound_heavy(100, 50, 0.1, 1e-9, 20.0) == pytest.approx(0.125, rel=0.1)
    assert lower_bound_heavy(10**7, 50, 1.0, 1e-9, 20.0) == 0.0
    assert lower_bound_heavy(1000, 50, 0.1, 0.5, 20.0) == 0.0  # δ alone gives everything away


def test_rows_for_inverts():
    n = rows_for(0.02, lambda n: lower_bound_gaussian(n, **GAUSSIAN))
    assert lower_bound_gaussian(n, **GAUSSIAN) <= 0.02 < lower_bound_gaussian(n - 1, **GAUSSIAN)
    with pytest.raises(ValueError, match="'error'"):
        rows_for(0.01, lambda n: 0.5)


def test_rates():
    assert rate_gaussian(10**6, 10, 1.0, 2.0, 1.0) == pytest.approx((math.sqrt(1e-5) + 1e-5) * math.sqrt(2))
    assert rate_heavy(10, 10, 0.1, 1e-6, 5.0) == 1.0
    assert rate_without_tails(10**6, 10, 1.0, 2.0, 1.0) == pytest.approx(math.sqrt(0.5) * 2e-4)
    options = {"condition": 2.0, "variance": 10.0}
    sharp, flat = (rate_of_dp_pca(10**5, 10, 1.0, 1e-6, spread=s, **options) for s in (0.01, 1.0))
    assert sharp < flat < rate_of_oja(10**5, 10, 1.0, 1e-6, spread=1.0, **options)


def test_refusals():
    with pytest.raises(ValueError, match="'d' parameter"):
        lower_bound_gaussian(100, 5, 1.0, 2.0, 1.0)
    with pytest.raises(ValueError, match="'top' parameter"):
        lower_bound_gaussian(100, 50, 1.0, 1.0, 2.0)
    with pytest.raises(ValueError, match="'condition' parameter"):
        lower_bound_heavy(100, 50, 1.0, 1e-6, 1.0)


@pytest.mark.filterwarnings("ignore:.*seeded.*")
def test_no_pure_method_beats_the_bound():
    """A mean over 10 data sets; the bound is about the worst direction: it holds, whether tight or not."""
    d, n, epsilon = 30, 400, 0.2
    rng = np.random.default_rng(0)
    errors = []
    for seed in range(10):
        v = rng.normal(size=d)
        v /= np.linalg.norm(v)
        X = rng.normal(size=(n, d)) + math.sqrt(0.5) * np.outer(rng.normal(size=n), v)
        c = PrivatePCA(1, epsilon=epsilon, method="matrix-laplace", bound=8.0, center=None, random_state=seed)
        c = c.fit(X).components_[0]
        errors.append(math.sqrt(1 - (c @ v) ** 2))
    assert np.mean(errors) > lower_bound_gaussian(n, d, epsilon, 1.5, 1.0) > 0
