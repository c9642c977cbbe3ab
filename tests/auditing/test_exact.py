"""Exact losses: at most what is stated, close to it, and above it with 0.7 times the noise."""

from __future__ import annotations

import pytest

from dpeigen.auditing import exact

CHECKS = {
    "gaussian": exact.gaussian,
    "laplace": exact.laplace,
    "matrix-laplace-1": lambda e, f=1.0: exact.matrix_laplace(e, 1, f),
    "matrix-laplace-2": lambda e, f=1.0: exact.matrix_laplace(e, 2, f),
    "bingham-2": lambda e, f=1.0: exact.bingham(e, 2, f),
    "bingham-3": lambda e, f=1.0: exact.bingham(e, 3, f),
}


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
@pytest.mark.parametrize("name", CHECKS)
def test_the_loss_is_what_is_stated(name, epsilon):
    found = CHECKS[name](epsilon)
    assert not found.refuted
    assert 0.95 * epsilon < found.loss <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("name", CHECKS)
def test_less_noise_is_seen(name):
    found = CHECKS[name](1.0, 0.7)
    assert found.refuted
    assert found.loss > 1.3


def test_all_checks_run():
    assert len(exact.exact_losses(1.0)) == len(CHECKS)
