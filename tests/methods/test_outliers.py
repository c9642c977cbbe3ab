"""What a first look at both parts of signs tells of outliers, on made-up releases with a known noise."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.methods import Refined
from dpeigen.methods.base import Task
from dpeigen.methods.signs import refined
from dpeigen.methods.signs.outliers import SplitLook, split_look, split_part
from dpeigen.privacy import Budget, Relation
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.questions import NoisyMoment
from dpeigen.stats.lattice import LEVELS

D, N, NOISE = 12, 4000, 0.003


def look(seed, *, tails=None, cluster=0.0, along=0.0, stated=NOISE, distance=4.0):
    """Of rows with variances 8, 4, 1, …, a part of them in a cluster at right angles to both, or partly along one."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(N, D)) * np.sqrt(np.r_[8.0, 4.0, np.ones(D - 2)])
    if tails is not None:
        rows /= np.sqrt(rng.chisquare(tails, size=(N, 1)) / tails)
    median = np.median(np.linalg.norm(rows, axis=1))
    place = np.eye(D)[2] * np.sqrt(1 - along**2) + np.eye(D)[0] * along
    rows[: round(cluster * N)] = distance * median * place
    lengths = np.linalg.norm(rows, axis=1)
    inside = np.minimum(1, 1.4 * np.median(lengths) / lengths) ** 8
    signs = rows / lengths[:, None]
    near, far = ((signs * weight[:, None]).T @ signs / N for weight in (inside, 1 - inside))
    noise = rng.normal(scale=NOISE, size=(2, D, D))
    noise = np.triu(noise) + np.triu(noise, 1).transpose(0, 2, 1)
    return SplitLook(near + noise[0], far + noise[1], stated, float(inside.mean()), float(N))


@pytest.mark.parametrize("tails", [None, 5.0, 2.0, 1.0])
def test_elliptical_rows_are_rarely_taken_for_outliers(tails):
    """About 1 in 10. More than 12 of 40 have a probability of 2e-4 then. Twin: noise stated as half of what it is."""
    assert sum(look(seed, tails=tails).shows_outliers(2) for seed in range(40)) <= 12
    assert sum(look(seed, tails=tails, stated=NOISE / 2).shows_outliers(2) for seed in range(40)) > 30


@pytest.mark.parametrize("along", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("share", [0.1, 0.2])
def test_clusters_are_seen(share, along):
    assert all(look(seed, cluster=share, along=along).shows_outliers(2) for seed in range(10))


def test_blocks_of_the_release_and_the_weight_of_rows_inside():
    near, far = np.diag([0.5, 0.2]), np.diag([0.2, 0.1])
    total = np.zeros((4, 4))
    total[:2, :2], total[2:, 2:] = near, far
    found = split_look(NoisyMoment(total * 1000 * LEVELS**2, 30.0 * LEVELS**2, 1000.0))
    np.testing.assert_allclose(found.near, near)
    np.testing.assert_allclose(found.far, far)
    assert found.deviation == pytest.approx(0.03)
    assert found.inside == pytest.approx(0.7)
    np.testing.assert_allclose(found.inside_release.matrix, near / 0.7)


def test_both_parts_are_combined_by_their_signal():
    """The gaps are 0.4 and 0.1. Twin: equal weights have more noise."""
    found = SplitLook(np.diag([0.55, 0.15]), np.diag([0.2, 0.1]), 0.01, 0.7, 1000.0)
    whole = found.whole_release(1)
    np.testing.assert_allclose(whole.matrix, (found.near + found.far / 4) / 0.775)
    assert whole.deviation == pytest.approx(0.01 * np.hypot(1, 0.25) / 0.775)
    gaps = [np.ptp(np.diag(each.matrix)) / each.deviation for each in (whole, found.inside_release)]
    assert gaps[0] > max(gaps[1], 0.5 / (0.01 * np.sqrt(2)))
    opposed = SplitLook(found.near, np.diag([0.1, 0.2]), 0.01, 0.7, 1000.0).whole_release(1)
    np.testing.assert_allclose(opposed.matrix, found.inside_release.matrix)


def test_more_is_spent_on_the_look_for_outliers_where_noise_could_hide_a_cluster():
    def share(n, d=25, epsilon=1.0):
        return split_part(Task("T", d, 2, Budget(epsilon, 1e-5), Relation.REPLACE, None, None, n), 4)

    assert share(1000) == 1.0
    assert share(10**6) == 0.3
    assert 0.3 < share(2800, d=15) < share(2800, d=20) < share(2500, d=20) < 1.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cutoff", [None, "private"])
def test_no_more_integers_get_noise_than_the_allowance_counts(monkeypatch, cutoff):
    """Rows that all lie in one far place need the most measurements of locations."""
    declared, drawn = [], []
    allocate, discrete_gaussian = refined.allocate, SeededRandomness.discrete_gaussian

    def declaring(*arguments, **options):
        declared.append(options["coordinates"])
        return allocate(*arguments, **options)

    def drawing(self, scale, size, *rest):
        drawn.append(int(np.prod(size)))
        return discrete_gaussian(self, scale, size, *rest)

    monkeypatch.setattr(refined, "allocate", declaring)
    monkeypatch.setattr(SeededRandomness, "discrete_gaussian", drawing)
    monkeypatch.setattr(refined, "center_integers", lambda d: 0)  # there is none to be paid for here
    rows = np.full((4000, 20), 2.0**15)
    method = Refined(cutoff=cutoff)
    PrivatePCA(2, epsilon=1.0, delta=1e-6, center=None, method=method, random_state=0).fit(rows)
    assert drawn
    assert sum(drawn) <= min(declared)
