"""Shares of variance from a noisy moment of signs alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from dpeigen.privacy.randomness import made_up_generator
from dpeigen.stats.intervals import gaussian_errors
from dpeigen.stats.sign_shares import share_intervals, variance_shares
from dpeigen.stats.signs import compression


def signs_of(variances):
    """Eigenvalues of the mean of zzᵀ for elliptical rows."""
    return compression(np.asarray(variances, dtype=float), 1.0, 0)[0][:-1]


@pytest.mark.parametrize(
    "variances", [[6, 1], [6, 2, 1, 1], [50, 1, 1, 1, 1], [3, 3, 3, 1], [1, 1, 1], [40, 30, 1, 1, 1]]
)
def test_limits_of_elliptical_rows_hold_their_shares(variances):
    signs, shares = signs_of(variances), np.array(variances) / sum(variances)
    low, high = variance_shares(signs, signs, len(signs))
    assert (low <= shares + 1e-3).all()
    assert (shares <= high + 1e-3).all()


def test_limits_of_a_first_share_are_reached():
    few, many = signs_of([9, 1]), signs_of([20, 1, 1, 1, 1, 1])
    assert variance_shares(few, few, 2)[0][0] == pytest.approx(0.9, abs=1e-3)
    assert variance_shares(many, many, 6)[1][0] == pytest.approx(0.8, abs=1e-3)


def test_doubt_and_noise_widen():
    signs = signs_of([20, 2, 1, 1])
    low, high = variance_shares(signs, signs, 4)
    wider = variance_shares(signs, signs, 4, doubt=0.5)
    assert wider[0][0] < low[0]
    assert wider[1][0] > high[0]
    loud, quiet = (share_intervals(signs, tau, None, 0.95, 2, made_up_generator(1)) for tau in (0.08, 0.01))
    assert loud[1][0] - loud[0][0] > quiet[1][0] - quiet[0][0]
    assert (loud[0] >= 0).all()
    assert (loud[1] <= 1).all()


@pytest.mark.parametrize("variances", [[100, 7, 3, 3] + 10 * [0.5], [9, 4, 1, 1, 1], [30, 10, 1, 1, 1, 1, 1, 1]])
def test_one_strong_direction_is_covered(variances):
    """60 noisy moments. A coverage of 95% fails this with probability below 1e-4."""
    variances = np.array(variances, dtype=float)
    signs, shares, rng = signs_of(variances), variances / variances.sum(), made_up_generator(3)
    noise, held = gaussian_errors(len(signs), 60, 0.04, rng), 0
    for each in noise:
        seen = np.linalg.eigvalsh(np.diag(signs) + each)[::-1]
        low, high = share_intervals(seen, 0.04, None, 0.95, 1, rng)
        held += bool(low[0] <= shares[0] <= high[0])
    assert held >= binom.ppf(1e-4, 60, 0.95)
