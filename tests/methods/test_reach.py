"""The last radius of `whitened`: further out where clipping would cost more than noise, and never absurdly short."""

from __future__ import annotations

import numpy as np

from dpeigen import PrivateCovariance
from dpeigen.methods.moment.reach import grid_for, in_box, widened
from dpeigen.stats import Frame
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
