"""Errors of covariances from signs: a level that all remaining variances share, and rows that are not elliptical."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.stats.intervals import gaussian_errors
from dpeigen.stats.sign_errors import level_errors, model_errors


@pytest.fixture
def rng():
    return np.random.Generator(np.random.PCG64(3))


def test_a_known_level_changes_nothing(rng):
    noise = gaussian_errors(4, 50, 0.1, rng)
    np.testing.assert_array_equal(level_errors(np.eye(4), noise, 0.0, 3, rng), noise)


def test_an_unknown_level_is_common_to_the_rest_and_leaves_the_directions(rng):
    seen = np.diag([50.0, 2.0, 1.0, 1.0])
    drawn = level_errors(seen, np.zeros((2000, 4, 4)), 1.0, 3, rng)
    assert not drawn[:, 0].any()
    np.testing.assert_allclose(drawn[:, 1, 1], 2 * drawn[:, 2, 2])
    factors = 1 - drawn[:, 3, 3]  # the true variance is what was seen minus the error
    assert abs(np.median(factors) - 1) < 0.1
    assert abs(factors.std() / factors.mean() - 1) < 0.25  # lognormal, with the stated relative deviation


def test_the_model_is_the_better_the_more_directions_there_are(rng):
    few, many = (
        model_errors(np.ones(d), np.eye(d), 400, ground, rng)[:, 0, 1].std()
        for d, ground in ((2, "rows"), (20, "rows"))
    )
    assert few > 5 * many
    assert model_errors(np.ones(20), np.eye(20), 400, "any", rng)[:, 0, 1].std() > 1.5 * many
