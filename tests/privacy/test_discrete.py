"""The exact discrete Gaussian without OpenDP: its law, its exact branch, its randomness.

False-alarm probability of each statistical test at most 1e-6, with wrong twins.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpeigen.privacy import discrete
from dpeigen.privacy.randomness import DeviceRandomness

ALPHA = 1e-6


def source(seed):
    rng = np.random.default_rng(seed)
    return lambda count: rng.integers(0, 2**64, size=count, dtype=np.uint64)


def masses(scale):
    n = np.arange(-9 * scale, 9 * scale + 1)
    weights = np.exp(-(n**2) / (2 * scale**2))
    return dict(zip(n.tolist(), (weights / weights.sum()).tolist(), strict=True))


@pytest.mark.parametrize("scale", [1, 2, 3, 8])
@pytest.mark.parametrize("margin", [discrete.MARGIN, 0.3])
def test_small_scales_have_the_right_masses(chance, scale, margin):
    """With a wide margin most decisions are made in decimal arithmetic: the same law."""
    size = 100_000 if margin < 0.1 else 8000
    draws = discrete.sample(scale, size, source(scale), margin=margin)
    assert chance.counts(draws, masses(scale)) > ALPHA
    wrong = masses(scale)
    wrong[0], wrong[1] = 0.5 * wrong[0], wrong[1] + 0.5 * wrong[0]
    assert chance.counts(draws, wrong) < ALPHA


@pytest.mark.parametrize("scale", [2**28, 2**40 + 12345, 2**56])
def test_large_scales_are_gaussian(chance, scale):
    draws = discrete.sample(scale, 100_000, source(1))
    assert chance.cdf(draws / scale, stats.norm.cdf) > ALPHA
    assert chance.cdf(draws / scale * 1.06, stats.norm.cdf) < ALPHA
    assert chance.counts(draws % 7, dict.fromkeys(range(7), 1 / 7)) > ALPHA  # the last digits are random too


def test_the_exact_branch_decides_as_the_probability_says():
    """P(accept) for k = 2, j = 0 is 2·exp(−3/2): bits below are taken, bits above are not, equal ones draw more."""
    edge = math.floor(2 * math.exp(-1.5) * 2**63)

    def never(count):
        raise AssertionError("no more bits are needed here")

    assert discrete._decide(2, 0, 10, edge - 2**20, never)
    assert not discrete._decide(2, 0, 10, edge + 2**20, never)
    drawn = []

    def counted(count):
        drawn.append(count)
        return np.array([2**63], dtype=np.uint64)

    exactly = int(discrete.Decimal(2**63) * discrete.Context(prec=60).multiply(
        discrete.Context(prec=60).exp(discrete.Decimal("-1.5")), discrete.Decimal(2)))  # fmt: skip
    discrete._decide(2, 0, 10, exactly, counted)
    assert drawn


def test_the_margin_covers_floating_point():
    """Thresholds in floating point are within the margin of the truth, over all that is ever proposed."""
    rng, context = np.random.default_rng(0), discrete.Context(prec=50)
    for k in [0, 1, 2, 5, 9, 20, 45]:
        for _ in range(20):
            scale = int(rng.integers(1, 2**56))
            j = int(rng.integers(0, scale))
            x = np.array([j]).astype(np.uint64).astype(float) / scale
            below, above = discrete._thresholds(np.array([k]), x, discrete.MARGIN)
            n = k * scale + j
            truth = context.exp(context.divide(discrete.Decimal(scale**2 - n**2), discrete.Decimal(2 * scale**2)))
            truth = context.multiply(truth, context.power(discrete.Decimal(2), discrete.Decimal(k - 1 + 63)))
            assert int(below[0]) <= truth <= int(above[0])
            if truth > 2**45:
                assert (int(above[0]) - int(below[0])) / float(truth) < 3 * discrete.MARGIN


def test_a_word_of_zeros_goes_on():
    zeros = iter([np.zeros(1, dtype=np.uint64), np.array([8], dtype=np.uint64)])
    k = discrete._trailing_zeros(np.array([0, 4], dtype=np.uint64), lambda count: next(zeros))
    assert k.tolist() == [63 + 63 + 3, 2]


def test_bounds_and_sizes():
    assert len(discrete.sample(5, 0, source(0))) == 0
    assert len(discrete.sample(5, 7, source(0))) == 7
    for scale in (0, -1, 2**56 + 1):
        with pytest.raises(ValueError, match="scale"):
            discrete.sample(scale, 1, source(0))


def test_the_device_draws_from_the_system():
    rng = DeviceRandomness()
    assert not rng.seeded
    assert rng.token() != rng.token()
    assert len({int(n) for n in rng.discrete_gaussian(2.0**40, 100)}) == 100
    assert rng.discrete_gaussian(0.4, 1000).std() > 0.9  # a scale is never rounded down
    assert 0 <= rng.word() < 2**64


@pytest.mark.parametrize("size", [0, 1, 2, 3, 17, 1000])
def test_as_many_are_drawn_as_were_asked_for(size):
    for seed in range(20):
        assert len(discrete.sample(10, size, source(seed))) == size
