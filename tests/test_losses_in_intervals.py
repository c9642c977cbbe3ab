"""Limits of variances: for losses by clipping that may have happened or not, for noise alone, for unknown columns."""

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
