"""The last radius of `whitened`: further out where clipping would cost more than noise, and never absurdly short."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.clipped import clipped_share
from dpeigen.evaluation import sin_theta
from dpeigen.methods.moment import last_view
from dpeigen.methods.moment.reach import grid_for, in_box, shortened, widened
from dpeigen.stats import Frame
from dpeigen.stats.clipping import share_beyond
from dpeigen.stats.norms import GRID
from dpeigen.stats.stretch import WhitenedRows, lengths_of


def test_rows_are_clipped_further_out_where_noise_is_small():
    assert widened(3.0, outside=0.05, noise=1.0, d=5) == 3.0  # noise is large: nothing to gain
    near, far = (widened(3.0, outside=0.05, noise=noise, d=5) for noise in (1e-4, 1e-6))
    assert 3.0 < near < far
    assert widened(3.0, outside=0.001, noise=1e-4, d=5) < near
    assert widened(3.0, outside=0.05, noise=0.0, d=5) == 3.0


def test_no_radius_is_looked_at_that_hardly_any_row_fits_in():
    """A whitened row has mean square d; a map that makes it 10 times as long moves the grid along."""
    for size in (1.0, 10.0):
        shortest = GRID[grid_for(np.eye(4) / size, np.eye(4))][0]
        assert 0.2 * 2 * size < shortest < 0.35 * 2 * size


def test_variances_of_skewed_rows_lose_little_to_clipping():
    """Variances are off by less than 4% on average; without the wider radius 5% of them were lost."""
    rng = np.random.default_rng(0)
    rows = rng.exponential(size=(30_000, 3))
    found = [PrivateCovariance(epsilon=0.5, delta=1e-6, random_state=s).fit(rows).covariance_ for s in range(4)]
    assert np.mean([np.diag(each) for each in found]) > 0.96


def test_no_radius_is_longer_than_rows_in_a_box_can_be():
    """Corners of the box are as long as any row; in a turned view they may be shorter than is assumed."""
    rng, d = np.random.default_rng(0), 6
    center, weights, half = rng.normal(size=d), np.exp(rng.normal(size=d)), 2 * np.exp(rng.normal(size=d))
    frame = Frame(d, center, weights, (center - half, center + half))
    corners = center + half * rng.choice((-1.0, 1.0), size=(200, d)) * 1e6
    view = WhitenedRows(frame, np.linalg.qr(rng.normal(size=(d, d)))[0], np.exp(-rng.random(d)))
    for each in (frame, view):
        end = in_box(GRID[-1], each)
        assert end in GRID
        assert lengths_of(each, corners).max() <= end < 16 * lengths_of(each, corners).max()
        assert in_box(GRID[100], each) == GRID[100]
    assert in_box(GRID[-1], Frame(d)) == GRID[-1]  # no box
    assert in_box(GRID[-1], Frame(d, None, weights, (center - half, center + half), pairs=True)) == GRID[-1]


def test_more_rows_are_clipped_where_noise_is_likely_to_turn_directions():
    assert shortened(3.0, outside=0.05, angle=0.0) == shortened(3.0, outside=0.05, angle=0.09) == 3.0
    some, many, most = (shortened(3.0, outside=0.02, angle=angle) for angle in (0.1, 0.2, 0.9))
    assert 3.0 > some > many > most > 1.8
    assert share_beyond(0.02, many / 3.0) == pytest.approx(5 * 0.2**2)
    assert shortened(3.0, outside=0.0, angle=0.9) == 3.0


@pytest.mark.parametrize("center", [None, "pairs"])
def test_few_rows_and_a_large_budget_leave_a_radius(center):
    """No row is left outside of the radius here, and rounds see nothing: it was shortened to 0."""
    rows = np.random.default_rng(0).standard_t(3, size=(60, 4)) * np.exp2([-8, 0, 3, 8])
    for epsilon in (30.0, 80.0):
        made = PrivatePCA(1, epsilon=epsilon, delta=0.0, method="whitened", center=center, random_state=0).fit(rows)
        assert np.isfinite(made.components_).all()


def spiked(seed, n=7000, d=12, k=9, level=100.0):
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) * np.sqrt(np.r_[np.full(k, level), np.ones(d - k)]) @ basis.T, basis[:, :k].T


def test_components_of_elliptical_rows_are_not_lost_in_the_noise_of_the_longest(monkeypatch):
    """Rounds see nothing here. Twin: at the radius that few rows exceed the error was 1.7 times as large."""

    def errors():
        found = []
        for seed in range(6):
            rows, truth = spiked(seed)
            made = PrivatePCA(9, epsilon=1.5, center=None, bound="private", random_state=seed).fit(rows)
            assert made.release_.facts["method"] == "whitened"
            level, share = made.explained_variance_.mean(), clipped_share(made.release_)
            found.append((sin_theta(made.components_, truth), level, share))
        return np.mean(found, axis=0)

    error, level, share = errors()
    assert level == pytest.approx(100.0, rel=0.12)
    assert 0.05 < share <= 0.26
    monkeypatch.setattr(last_view, "shortened", lambda radius, outside, angle: radius)
    assert errors()[0] > 1.25 * error


def test_the_release_says_that_more_rows_were_clipped():
    options = {"method": "whitened", "center": None, "random_state": 0}
    made, plenty = (PrivatePCA(9, epsilon=e, **options).fit(spiked(0)[0]).release_ for e in (1.5, 40))
    assert any("more rows were clipped" in note for note in made.guarantee.notes)
    assert not any("more rows were clipped" in note for note in plenty.guarantee.notes)
