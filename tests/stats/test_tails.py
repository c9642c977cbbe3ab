"""What clipping takes from single columns is read off noisy counts of pairs; where there is no tail, it is nothing."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.stats.columns import REACH
from dpeigen.stats.columns import Sizes as Histogram
from dpeigen.stats.frame import Frame
from dpeigen.stats.tails import PairCounts, lost_tails


def lost(column, radius, reach, noise=0.0, outside=1.0):
    """For rows whose other columns have a mean square of 4, one deviation being one step."""
    pairs = np.abs(column[::2] - column[1::2])[:, None] / 2
    histogram = Histogram(Frame(1), (0,))
    histogram.tally(pairs)
    counts = histogram.counts + noise * np.random.default_rng(0).normal(size=histogram.counts.shape)
    spread = np.array([column.std()])
    seen = PairCounts(counts.astype(float), np.array([noise]), float(len(pairs)))
    return lost_tails(seen, np.array([reach]), spread, 1 / spread, 4.0, radius, outside)[:, 0]


def really_lost(column, radius):
    steps = (column - column.mean()) / column.std()
    factor = np.minimum(1, radius / np.sqrt(steps**2 + 4))
    off = column - column.mean()
    return abs(np.mean(off * (1 - factor))), np.mean(off**2 * (1 - factor**2))


@pytest.mark.parametrize("share", [0.01, 0.03])
def test_a_rare_value_loses_what_it_loses(share):
    column = (np.random.default_rng(1).random(100_000) < share).astype(float)
    found, truth = lost(column, 4.0, 1.0), really_lost(column, 4.0)
    assert 0.8 * truth[0] < found[0] < 2 * truth[0]
    assert 0.8 * truth[1] < found[2] < 2 * truth[1]
    assert 0.7 < (found[4] + 6) / (1 / share) < 1.4  # its kurtosis is about 1/share − 6


def test_a_normal_column_loses_nothing_beyond_the_model():
    column = np.random.default_rng(2).normal(size=100_000)
    found = lost(column, 4.0, 4.0)
    assert found[2] < 0.01
    assert found[4] < 0.6


def test_no_more_is_lost_than_the_rows_outside_can_lose():
    column = (np.random.default_rng(1).random(10_000) < 0.02).astype(float)
    most = lost(column, 4.0, 1.0, outside=0.001)
    assert most[2] <= 0.001
    noisy = lost(column, 4.0, 1.0, noise=50.0)
    assert noisy[3] > 0
    assert lost(column, 4.0, 1.0)[3] == 0


def test_other_units_change_nothing_but_units():
    column = (np.random.default_rng(1).random(10_000) < 0.02).astype(float)
    plain, other = lost(column, 4.0, 1.0), lost(8 * column, 4.0, 8.0)
    np.testing.assert_allclose(other, plain * [8, 8, 64, 64, 1, 1], rtol=1e-9)
    assert REACH > 100


def test_noise_alone_is_no_kurtosis():
    """Counts that show less than half of the variance, or a negative one: values within 4 deviations have little."""
    noisy = np.random.default_rng(0).normal(scale=60, size=(6, 2 * REACH + 1))
    one = np.ones(6)
    lost = lost_tails(PairCounts(noisy, 60 * one, 75.0), 4 * one, one, one, 6.0, 9.0, 0.0)
    assert (lost[4] <= 2 * (4**2 * 2**0.5 - 3)).all()
    assert (lost[5] <= 2 * (4 * 4**2 * 2**0.5 - 3)).all()


def test_a_kurtosis_that_counts_show_is_kept_where_clipping_made_the_variance_larger_or_smaller():
    """2% of the rows are at 4 deviations: whatever variance was measured otherwise, the counts show the tail."""
    counts = np.zeros((1, 2 * REACH + 1))
    counts[0, REACH - 2], counts[0, REACH + 2] = 3000, 200
    one = np.ones(1)
    found = [lost_tails(PairCounts(counts, 5 * one, 5000.0), 4 * one, s * one, one, 6.0, 9.0, 0.0)[4] for s in (0.5, 3)]
    assert found[0] == found[1] > 3
