"""Audits of reports, end to end, on the worst pairs of rows; every one has a twin with a planted fault.

A right mechanism is called wrong with probability at most 1e-6. Generators are seeded for speed.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from dpeigen.auditing.events import audit
from dpeigen.local import LocalAggregator
from dpeigen.local.calibrate import CapParameters, least_cap, upper_tail
from dpeigen.local.parameters import MOST_FEATURES
from dpeigen.local.privunit import LARGEST, LENGTH, SCALE, direction, randomise
from dpeigen.privacy import gaussian_mu
from dpeigen.privacy.randomness import DeviceRandomness

SURE = 1 - 1e-6
E1, E2 = np.array([1.0, 0.0]), np.array([0.0, 1.0])


def reported(made, run=None):
    """The mechanism from a row to the difference of the two diagonal entries that are sent."""
    server = LocalAggregator(made)

    def many(row, runs):
        seen = np.stack([server.read((run or made.report)(row)).steps for _ in range(runs)])
        return seen.astype(float)

    return many


def test_gaussian_reports_keep_their_promise_and_less_noise_is_caught(client):
    made = client(2, epsilon=5.0, delta=1e-6)
    claim = made.parameters.share
    found = audit(reported(made), E1, E2, runs=5000, confidence=SURE)
    assert 0.6 * claim < found.mu_lower <= claim
    weak = client(2, epsilon=5.0, delta=1e-6, seed=1)
    weak.parameters.__dict__["scale"] = int(0.7 * weak.parameters.scale)
    assert audit(reported(weak), E1, E2, runs=5000, confidence=SURE).mu_lower > claim


@pytest.mark.slow
def test_a_site_s_report_keeps_its_promise(client):
    made = client(2, epsilon=5.0, delta=1e-6, seed=3, most_rows=21)
    base = np.tile([0.6, 0.3], (20, 1))
    found = audit(
        reported(made, made.report_rows), np.vstack([base, E1]), np.vstack([base, E2]), runs=4000, confidence=SURE
    )
    assert 0.6 * made.parameters.share < found.mu_lower <= made.parameters.share


def composed(sigma, reports, seed):
    """The sum of many reports of one row along the direction in which e₁ and e₂ differ: N(±√½·reports, σ²·reports).

    That is what the diagonal of Wang and Xu's Algorithm 1 gives; the sum is sufficient.
    """
    rng = np.random.default_rng(seed)

    def many(side, runs):
        return side * reports / math.sqrt(2) + sigma * math.sqrt(reports) * rng.normal(size=(runs, 1))

    return many


@pytest.mark.parametrize("delta", [1e-5, 1e-10])
def test_the_printed_noise_is_caught_at_epsilon_one_half(client, delta):
    """200 reports compose exactly to √200·μ; with the printed σ = √(2 ln(1.25/δ))/ε they reveal more, with ours not."""
    reports, epsilon = 200, 0.5
    claim = math.sqrt(reports) * gaussian_mu(epsilon, delta)
    printed = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    ours = client(2, epsilon=epsilon, delta=delta).parameters.noise
    caught = audit(composed(printed, reports, 0), 1.0, -1.0, runs=400_000, confidence=SURE)
    assert caught.violates_gaussian(claim)
    passed = audit(composed(ours, reports, 1), 1.0, -1.0, runs=400_000, confidence=SURE)
    assert 0.97 * claim < passed.mu_lower <= claim


# --- the pure randomiser -------------------------------------------------------------------------------------------


class Repeatable(DeviceRandomness):
    """The device's own samplers on the words of a seeded generator."""

    def __init__(self, seed):
        self._generator = np.random.default_rng(seed)

    def _words(self, size):
        return self._generator.integers(0, 2**64, size=size, dtype=np.uint64)


def in_caps(cap, length=3):
    """Whether a report of the seeded or faulty randomiser lies in the cap of the first or the second direction."""
    rng = Repeatable(2)
    first, second = (np.rint(LENGTH * v).astype(np.int64) for v in np.eye(length)[:2])
    edge = math.ceil(cap.height * SCALE * LENGTH)

    def many(w, runs):
        draws = np.stack([randomise(w, cap, rng) for _ in range(runs)])
        return ((draws @ first >= edge).astype(float) - (draws @ second >= edge))[:, None]

    return many, first, second


@pytest.mark.slow
def test_pure_reports_keep_their_promise_tightly_and_a_wrong_coin_is_caught():
    """Where g lies in the one cap and not in the other, the loss is exactly ε."""
    epsilon = 1.5
    cap = CapParameters.of(epsilon, 3, SCALE)
    many, first, second = in_caps(cap)
    found = audit(many, first, second, runs=20_000, confidence=SURE)
    assert 0.7 * epsilon < found.epsilon_lower <= epsilon
    wrong = dataclasses.replace(cap, coin=int(0.85 * 2**64))
    assert cap.coin < 0.7 * 2**64
    many, first, second = in_caps(wrong)
    assert audit(many, first, second, runs=6000, confidence=SURE).violates(epsilon)


@pytest.mark.parametrize("height", [0.0, 0.4, 1.3, 2.5])
def test_no_cap_is_smaller_than_the_bound(height):
    """Exact masses of caps under the discrete Gaussian of scale 2^10 in two dimensions, many directions and lengths."""
    scale, reach = 2**10, 2**10 * 9
    n = np.arange(-reach, reach + 1)
    mass = np.exp(-(n**2) / (2 * scale**2))
    mass /= mass.sum()
    tail = np.append(np.cumsum(mass[::-1])[::-1], 0.0)  # P(n ≥ −reach + i)
    least = least_cap(height, 2, scale)
    smallest = 1.0
    for angle in np.linspace(0.01, math.pi - 0.01, 25):
        for length in (30, 50, 1001):
            w = np.rint(length * np.array([math.cos(angle), math.sin(angle)])).astype(int)
            if not w[1]:
                continue
            edge = math.ceil(height * scale * math.hypot(*w))
            from_here = -((n * w[0] - edge) // w[1])  # the second integer must be at least this
            smallest = min(smallest, float(mass @ tail[np.clip(from_here + reach, 0, len(n))]))
    assert least <= smallest * (1 + 1e-12)
    assert least > 0.99 * smallest


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("m", [1, 3, 820, 2_001_000])
def test_the_coin_is_safe_for_the_smallest_cap(epsilon, m):
    cap = CapParameters.of(epsilon, m, SCALE)
    p, q = cap.coin / 2**64, least_cap(cap.height, m, SCALE)
    loss = math.log(p / (1 - p)) + math.log((1 - q) / q)
    assert 0.99 * epsilon - 1e-9 < loss <= epsilon or (epsilon > 8 and loss <= epsilon)
    shift = math.sqrt(m) / (2 * SCALE)
    assert upper_tail(cap.height - shift) / q < 1 + 1e-4


def test_scores_fit_64_bits_for_as_many_columns_as_there_may_be():
    """A draw that could overflow is drawn again: that must be next to impossible, or it would never end."""
    m = MOST_FEATURES * (MOST_FEATURES + 1) // 2
    assert 2 * math.sqrt(m) * SCALE < LARGEST
    assert LARGEST * (LENGTH + math.sqrt(m)) < 2.0**63
    assert 1 / (SCALE * (LENGTH - math.sqrt(m) / 2)) < 2.0**-19 / SCALE


def test_short_rows_are_sent_with_the_right_sign():
    """P(+) = (1 + r)/2; 2000 draws, off by more than 0.12 with probability below 1e-12 (Hoeffding)."""
    rng, vector = Repeatable(0), np.array([0.5, 0.5, -0.2])
    for size in (0.0, 0.5, 1.0):
        plus = np.mean([direction(vector, size, rng)[0] > 0 for _ in range(2000)])
        assert abs(plus - (1 + size) / 2) < 0.12
    norm = np.linalg.norm(direction(vector, 1.0, rng))
    assert norm == pytest.approx(LENGTH, rel=1e-6)
    assert abs(direction(np.zeros(3), 0.0, rng)[0]) == LENGTH
