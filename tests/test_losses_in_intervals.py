"""Limits of variances: for losses by clipping that may have happened or not, for noise alone, for unknown columns."""

from dataclasses import replace

import numpy as np
import pytest

from dpeigen import PrivatePCA, errors

CLEARLY = 0.2  # of a variance: far above its sampling error, noise and clipping
TRUTH = np.array([9.0, 4.0, 1.0, 1.0, 1.0])


@pytest.fixture
def release():
    rows = np.random.default_rng(0).normal(size=(20_000, 5)) * np.sqrt(TRUTH)
    return PrivatePCA(2, epsilon=4.0, delta=1e-6, random_state=0).fit(rows).release_


@pytest.fixture
def _all_lost(monkeypatch):
    """In every draw, clipping took so much from each variance."""

    def part(lost, covariance, rng):
        return np.broadcast_to(np.diag(CLEARLY * np.diag(covariance)), (len(lost.square), *covariance.shape))

    monkeypatch.setattr(errors, "loss_errors", part)


@pytest.mark.usefixtures("_all_lost")
def test_limits_of_variances_hold_with_and_without_losses(release):
    found = release.intervals()
    low, high = (np.diag(end) for end in found.covariance)
    assert (low < 0.995 * np.diag(release.covariance)).all()
    assert (low < TRUTH).all()
    assert (high > TRUTH * (1 + CLEARLY / 2)).all()
    assert (found.eigenvalues[0] < 0.995 * release.eigenvalues).all()
    assert (found.eigenvalues[1] > TRUTH[:2] * (1 + CLEARLY / 2)).all()


@pytest.mark.usefixtures("_all_lost")
def test_a_twin_that_is_sure_of_losses_has_no_room_below(release, monkeypatch):
    monkeypatch.setattr(errors.Errors, "without_losses", property(lambda self: self))
    found = release.intervals()
    np.testing.assert_allclose(np.diag(found.covariance[0]), np.diag(release.covariance))
    np.testing.assert_allclose(found.eigenvalues[0], release.eigenvalues)


@pytest.mark.usefixtures("_all_lost")
def test_losses_are_one_part_of_the_errors(release):
    found = release.intervals().errors
    assert found.lost is not None
    assert found.without_losses.lost is None
    np.testing.assert_allclose(found.draws + found.lost, found.without_losses.draws)


def two_groups():
    """Values near 0 and near 180 in one column. No law of columns is like that, but the counts have little noise."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5_000, 4)) + 0.8 * rng.normal(size=(5_000, 1))
    low = rng.random(5_000) < 0.45
    first = np.where(low, rng.integers(1, 9, size=5_000), rng.integers(170, 195, size=5_000))
    return np.column_stack([first, rows[:, :1] + 0.01 * first[:, None], rows[:, 1:]])


@pytest.mark.parametrize(("epsilon", "widest"), [(30.0, 0.15), (100.0, 0.01), (1000.0, 0.002)])
def test_a_column_like_no_law_lost_nothing_where_no_row_was_clipped(epsilon, widest):
    """Before, its variance was thought to have lost two thirds, and the column not to exceed the noise."""
    rows = two_groups()
    truth = np.linalg.eigvalsh(np.corrcoef(rows.T))[::-1][:2]
    found = PrivatePCA(2, epsilon=epsilon, delta=1e-6, scale="private", random_state=0).fit(rows).release_
    ends = found.intervals(of="table")
    low, high = ends.eigenvalues
    assert ends.known.all()
    assert (low < truth).all()
    assert (truth < high).all()
    assert (high - low < widest * truth).all()
    assert (np.abs(found.eigenvalues - (low + high) / 2) < 0.2 * (high - low)).all()


@pytest.fixture
def _much_lost(monkeypatch):
    """Clipping took up to twice the variance of the first column, and more often much than little of it."""

    def part(lost, covariance, rng):
        found = np.zeros((len(lost.square), *covariance.shape))
        found[:, 0, 0] = 2 * covariance[0, 0] * np.sqrt(rng.random(size=len(found)))
        return found

    monkeypatch.setattr(errors, "loss_errors", part)


DEVIATION = 0.0053  # of these correlations by sampling error alone


def correlated(**options):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20_000, 4)) + rng.normal(size=(20_000, 1))
    return PrivatePCA(2, epsilon=10.0, delta=1e-6, random_state=0, **options).fit(rows).release_


@pytest.mark.usefixtures("_much_lost")
@pytest.mark.parametrize("options", [{}, {"scale": "private"}])
def test_limits_of_all_entries_hold_with_and_without_losses(options):
    """Losses in one column make its correlations smaller; without them they are those that were measured."""
    found = correlated(**options)
    ends, beyond = found.intervals(), found.correlation[0, 1:] + DEVIATION
    low, high = ends.correlation
    assert (low[0, 1:] > 0.2).all()  # not unknown
    assert (low[0, 1:] < 0.4).all()
    assert (high[0, 1:] > beyond).all()
    if options:
        assert (ends.covariance[1][0, 1:] > beyond).all()


@pytest.mark.usefixtures("_much_lost")
def test_a_variance_that_may_be_larger_exceeds_the_noise():
    found = correlated(scale="private").intervals()
    assert found.errors.told.all()
    assert not replace(found.errors, lost=None, hidden=None).told[0]  # a twin that takes losses for noise


@pytest.mark.usefixtures("_much_lost")
@pytest.mark.parametrize("options", [{}, {"scale": "private"}])
def test_eigenvalues_and_shares_hold_with_and_without_losses(options):
    """The first of 5 + 3 · 1, or of 2.5 + 3 · 0.5, and its share are those of rows of which nothing was lost."""
    ends = correlated(**options).intervals()
    unit = 0.5 if options else 1.0
    for (low, high), truth in ((ends.eigenvalues, 5 * unit), (ends.shares, 5 / 8)):
        assert low[0] < 0.99 * truth
        assert high[0] > 1.005 * truth


def test_a_variance_that_may_be_noise_alone_has_no_lower_limit(release):
    """In 0.1% of the fits of few rows a rare column gets a scale that is far too large, and noise of its size."""
    noisy = release.intervals()
    errors_of_one = noisy.errors.draws.copy()
    errors_of_one[:, 3, 3] += 0.35 * np.random.default_rng(0).normal(size=len(errors_of_one))
    object.__setattr__(noisy.errors, "draws", errors_of_one)
    object.__setattr__(noisy.errors, "hidden", None)  # of these draws
    assert not noisy.errors.told[3]
    assert noisy.covariance[0][3, 3] == 0
    assert (np.diag(noisy.covariance[0])[:3] > 0).all()


def test_eigenvalues_stand_in_their_intervals_if_columns_are_unknown():
    """The interval is that of the known columns, the released number that of all of them."""
    rows = np.random.default_rng(1).normal(size=(1_500, 4))
    rows[:, 3] = rows[:, 3] > 2.9
    found = PrivatePCA(2, epsilon=2.0, delta=1e-6, scale="private", random_state=0).fit(rows)
    ends = found.release_.intervals()
    assert not ends.known.all()
    for low, high, told in zip(*ends.eigenvalues, found.release_.eigenvalues, strict=True):
        assert low <= told <= high
