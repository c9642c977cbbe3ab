"""Clusters of outliers and the methods that redescend: what they are for, what they cost, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.evaluation import sin_theta
from dpeigen.methods import Kendall, Refined, SpatialSign, location
from dpeigen.methods.signs import outliers
from dpeigen.questions import radius
from dpeigen.stats import norms

SIGNS = SpatialSign("redescending", "private")


def rows_with_cluster(d, share, seed, n=4000, distance=25.0, along=0.0, offset=3.0):
    """Variances 10, 5, 1, …; a cluster in the third direction, or partly along the first."""
    rng = np.random.default_rng([seed, d, round(100 * share)])
    rows = rng.normal(size=(n, d)) * np.sqrt(np.r_[10.0, 5.0, np.ones(d - 2)])
    place = distance * (np.eye(d)[2] * np.sqrt(1 - along**2) + np.eye(d)[0] * along)
    which = rng.choice(n, size=round(share * n), replace=False)
    rows[which] = place + 0.05 * rng.normal(size=(len(which), d))
    return rows + offset


def errors(d, share, runs=3, method="auto", robust=True, **options):
    found = []
    for seed in range(runs):
        rows = rows_with_cluster(d, share, seed, **options)
        made = PrivatePCA(2, epsilon=1.0, delta=1e-5, method=method, robust=robust, random_state=seed).fit(rows)
        found.append(sin_theta(made.components_, np.eye(d)[:2]))
    return np.array(found)


@pytest.mark.parametrize("along", [0.0, 0.7])
@pytest.mark.parametrize(("d", "share", "bar"), [(10, 0.1, 0.1), (25, 0.1, 0.1), (10, 0.2, 0.2), (25, 0.2, 0.2)])
def test_clusters_of_outliers_do_not_turn_robust_directions(d, share, bar, along):
    """Means of ten runs: 0.039, 0.076, 0.041, 0.082. Twin: signs alone are turned by all of them."""
    assert errors(d, share, along=along).mean() <= bar
    assert errors(d, share, runs=1, method=Refined(), along=along).mean() > 2 * bar


@pytest.mark.parametrize("distance", [25.0, 1e3, 1e7])
def test_how_far_away_they_are_does_not_matter(distance):
    assert errors(10, 0.2, runs=2, distance=distance).mean() < 0.1


@pytest.mark.parametrize(
    "method", [SIGNS, SpatialSign("winsorized-redescending", "private"), Kendall("redescending", "private")], ids=str
)
def test_methods_that_redescend_are_not_turned(method):
    assert errors(10, 0.2, runs=2, method=method).mean() < 0.12


@pytest.mark.parametrize("method", [SpatialSign(), SpatialSign("winsorized", "private"), Kendall()], ids=str)
def test_bounded_transforms_that_do_not_redescend_are_turned(method):
    assert errors(10, 0.2, runs=1, method=method).mean() > 0.9


def test_without_outliers_little_is_lost():
    """Seeds are paired. In eight runs the means were 0.077 and 0.079."""
    ours, plain = (errors(25, 0.0, runs=6, method=m).mean() for m in (Refined(cutoff="private"), Refined()))
    assert ours < 1.2 * plain


def test_adding_and_removing_rows_about_a_public_centre():
    rows = rows_with_cluster(10, 0.2, 0, n=8000)
    facts = {"epsilon": 2.0, "delta": 1e-5, "relation": "add_remove", "center": np.full(10, 3.0), "random_state": 0}
    for method in (SIGNS, Refined(cutoff="private")):
        made = PrivatePCA(2, method=method, **facts).fit(rows)
        assert sin_theta(made.components_, np.eye(10)[:2]) < 0.15


def test_variances_and_the_centre_are_those_of_the_other_rows():
    """In two runs of each they were within 12% and 0.4; of plain refined the centre is off by 5."""
    for method in (Refined(cutoff="private"), SIGNS):
        rows = rows_with_cluster(10, 0.2, 1)
        made = PrivatePCA(2, epsilon=2.0, delta=1e-5, method=method, random_state=1).fit(rows)
        np.testing.assert_allclose(made.explained_variance_, [10, 5], rtol=0.35)
        assert np.linalg.norm(made.mean_ - 3.0) < 1.0
    plain = PrivatePCA(2, epsilon=2.0, delta=1e-5, method=Refined(), random_state=1).fit(rows)
    assert np.linalg.norm(plain.mean_ - 3.0) > 1.5


def test_a_robust_covariance_redescends():
    rows = rows_with_cluster(5, 0.2, 2)
    made = PrivateCovariance(epsilon=2.0, delta=1e-5, robust=True, random_state=0).fit(rows)
    np.testing.assert_allclose(np.diag(made.covariance_)[:3], [10, 5, 1], rtol=0.5)


@pytest.mark.parametrize(
    "method", [SpatialSign("redescending", 6.0), Refined(cutoff=6.0), Kendall("redescending", 6.0)]
)
def test_a_public_cutoff_is_in_the_units_of_the_data(method):
    """A thousandth of the cutoff is far too short: nearly nothing is left but noise."""
    rows = rows_with_cluster(10, 0.2, 0)
    good = PrivatePCA(2, epsilon=1.0, delta=1e-5, method=method, random_state=0).fit(rows)
    assert sin_theta(good.components_, np.eye(10)[:2]) < 0.12
    name = "cutoff" if isinstance(method, Refined) else "radius"
    short = type(method)(**{"cutoff": 0.006}) if name == "cutoff" else type(method)("redescending", 0.006)
    lost = PrivatePCA(2, epsilon=1.0, delta=1e-5, method=short, random_state=0).fit(rows)
    assert sin_theta(lost.components_, np.eye(10)[:2]) > 0.5


def test_a_cluster_at_twice_the_length_of_the_others_does_not_draw_the_centre(monkeypatch):
    """The other rows have length 6.2. With a longer cutoff for the centre it is drawn to the cluster, whose rows then
    look near, and some runs lose a direction."""
    assert errors(25, 0.2, runs=8, distance=12.0).mean() <= 0.2
    monkeypatch.setattr(location, "_CENTER_CUTOFF", 1.6)
    assert errors(25, 0.2, runs=8, distance=12.0).max() > 0.5


def test_the_unit_of_the_rows_does_not_decide_whether_a_near_cluster_is_cut_off(monkeypatch):
    """Means of three runs in six units were 0.101 to 0.103. Twin: on quarter octaves a median is up to 19% too long."""
    rows = [1.015 * rows_with_cluster(25, 0.2, seed, distance=12.0) for seed in range(3)]

    def mean_error():
        made = (PrivatePCA(2, epsilon=1.0, delta=1e-5, robust=True, random_state=s).fit(x) for s, x in enumerate(rows))
        return np.mean([sin_theta(each.components_, np.eye(25)[:2]) for each in made])

    assert mean_error() < 0.15
    for module in (norms, radius):
        monkeypatch.setattr(module, "FINE_GRID", norms.GRID)
    assert mean_error() > 0.5


def test_heavy_tails_are_no_outliers(monkeypatch):
    """Seeds are paired: where distant rows have the directions of the others, later looks take them as they are."""
    rng = np.random.default_rng(5)
    variances = np.r_[40.0, 20.0, np.ones(38)]
    rows = [rng.normal(size=(4000, 40)) * np.sqrt(variances / rng.chisquare(2, size=(4000, 1))) for _ in range(5)]

    def mean_error():
        method = Refined(cutoff="private")
        made = (
            PrivatePCA(2, epsilon=1.0, delta=1e-5, center=None, method=method, random_state=s).fit(x)
            for s, x in enumerate(rows)
        )
        return np.mean([sin_theta(each.components_, np.eye(40)[:2]) for each in made])

    ours = mean_error()
    monkeypatch.setattr(outliers.SplitLook, "shows_outliers", lambda *_: True)
    assert ours < 0.97 * mean_error()


def test_where_a_cutoff_would_cost_much_signs_are_taken_as_they_are():
    rows = np.random.default_rng(6).normal(size=(2975, 5)) * [9.0, 9.0, 9.0, 9.0, 1.0]
    made = PrivatePCA(4, epsilon=0.15, delta=1e-6, center="private", robust=True, random_state=0).fit(rows)
    assert "redescending" not in made.release_.facts["choice"]["chosen"]


def test_with_too_few_rows_for_a_cutoff_robust_directions_are_those_of_signs():
    rows = rows_with_cluster(5, 0.0, 0, n=60)
    made = PrivatePCA(1, epsilon=1.0, delta=1e-5, robust=True, random_state=0).fit(rows)
    assert "redescending" not in made.release_.facts["choice"]["chosen"]
    many = PrivatePCA(1, epsilon=1.0, delta=1e-5, robust=True, random_state=0).fit(rows_with_cluster(5, 0.0, 0))
    assert "redescending" in many.release_.facts["choice"]["chosen"]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Refined(cutoff="public"), "cutoff"),
        (Refined(cutoff=-1.0), "radius"),
        (SpatialSign("redescending"), "radius.*its cutoff"),
        (SpatialSign("spherical", "private"), "radius"),
        (SpatialSign("windsor", 1.0), "transform"),
        (SpatialSign(lambda s: s), "radius"),
        (Kendall("redescending"), "radius.*its cutoff"),
    ],
)
def test_refusals_spend_nothing(method, message):
    with pytest.raises(ValueError, match=message):
        PrivatePCA(1, epsilon=1.0, delta=1e-5, method=method).fit(rows_with_cluster(4, 0.0, 0, n=500))


def test_a_function_of_ones_own_about_a_centre():
    rows = rows_with_cluster(10, 0.2, 0)
    method = SpatialSign(lambda s: np.minimum(1.0, (6.0 / s) ** 2), radius=1.0)
    made = PrivatePCA(2, epsilon=1.0, delta=1e-5, method=method, center=np.full(10, 3.0), random_state=0).fit(rows)
    assert sin_theta(made.components_, np.eye(10)[:2]) < 0.12
