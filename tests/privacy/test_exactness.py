"""Small things that guarantees rest on: ties, ends of ranges, formulas of the proofs; found by breaking them."""

from __future__ import annotations

import math
from decimal import Context, Decimal

import numpy as np
import pytest

from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    ConcentratedCost,
    GaussianCost,
    PureCost,
    Relation,
    accounting,
    gaussian_mu,
)
from dpeigen.privacy import discrete as device
from dpeigen.privacy.budget import gaussian_share, pure_epsilon
from dpeigen.privacy.calibration import discrete_allowance
from dpeigen.privacy.histogram import failure_of, stable_histograms, tail_delta, threshold
from dpeigen.privacy.noise import perturb_with_count
from dpeigen.privacy.randomness import (
    Randomness,
    SeededRandomness,
    SystemRandomness,
    made_up_generator,
    randomness,
)
from dpeigen.privacy.sphere import _complement, _on_grid, acceptance


class NoNoise(SeededRandomness):
    """Every draw of noise is 0."""

    def __init__(self):
        super().__init__(np.random.default_rng(0))
        self.scales = []

    def discrete_gaussian(self, scale, size):
        self.scales.append(scale)
        return np.zeros(size, dtype=np.int64)

    discrete_laplace = discrete_gaussian


# --- costs --------------------------------------------------------------------------------------------------------


def test_a_mechanism_is_paid_in_its_own_coin():
    assert pure_epsilon(PureCost(0.7)) == 0.7
    assert gaussian_share(GaussianCost(0.7)) == 0.7
    for cost in (GaussianCost(1.0), ConcentratedCost(1.0), ApproximateCost(1.0, 0.1)):
        with pytest.raises(TypeError, match="pure ε"):
            pure_epsilon(cost)
    for cost in (PureCost(1.0), ConcentratedCost(1.0), ApproximateCost(1.0, 0.1)):
        with pytest.raises(TypeError, match="in μ"):
            gaussian_share(cost)


def test_costs_are_shown_in_their_own_units():
    assert str(PureCost(0.25)) == "ε = 0.25"
    assert str(GaussianCost(0.25)) == "μ = 0.25 (Gaussian)"
    assert str(ConcentratedCost(0.25)) == "ρ = 0.25 (concentrated)"
    assert str(ApproximateCost(0.25, 1e-6)) == "ε = 0.25, δ = 1e-06"


def test_the_allowance_for_discrete_noise_is_the_one_of_the_proof():
    """η = m·(t² + 1)/8σ² + 4m·exp(−2π²σ²), ln τ = ln 2m − t²/2 + t/σ, with t = 64."""
    for sigma, m in ((100.0, 1), (1234.5, 7)):
        eta, log_tau = discrete_allowance(sigma, m)
        assert eta == pytest.approx(m * 4097 / (8 * sigma**2), rel=1e-12)
        assert log_tau == pytest.approx(math.log(2 * m) - 2048 + 64 / sigma, rel=1e-12)
    with pytest.raises(ValueError, match="too coarse"):
        discrete_allowance(99.9, 1)


def test_the_allowance_is_taken_off_the_budget(monkeypatch):
    """(ε′ + 2η, e^η·δ′ + τ(1 + e^{η + ε})) must not exceed the budget."""
    eta, tau = 0.1, 1e-8
    solve = accounting._largest_mixed_mu
    monkeypatch.setattr(accounting, "_largest_mixed_mu", solve.__wrapped__)  # not what others have asked before
    monkeypatch.setattr(accounting, "discrete_allowance", lambda sigma, m: (eta, math.log(tau)))
    found = accounting.allocate(Budget(1.0, 1e-6), main={"all": 1.0})["all"]
    tail = tau * 2 * math.exp(eta + 1.0)
    assert found.mu == pytest.approx(gaussian_mu(0.8, (1e-6 - tail) * math.exp(-eta)), rel=1e-9)
    monkeypatch.setattr(accounting, "discrete_allowance", lambda sigma, m: (0.6, math.log(tau)))
    with pytest.raises(ValueError, match="no room for the rounding"):
        accounting.allocate(Budget(1.0, 1e-6), main={"all": 1.0})


# --- histograms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", [PureCost(1.0), GaussianCost(1.0)])
def test_a_bin_at_the_threshold_is_shown_and_one_below_it_is_not(cost):
    failure = 0.01
    least = math.ceil(threshold(cost, 1, failure, Relation.REPLACE))
    labels = np.array([5.0] * least + [9.0] * (least - 1))[:, None]
    (found,) = stable_histograms(labels, cost, failure, Relation.REPLACE, NoNoise())
    assert found == {5.0: float(least)}
    assert failure_of(tail_delta(failure, 1.3), 1.3) == pytest.approx(failure)
    assert tail_delta(failure, 1.3) == pytest.approx(failure * (1 + math.exp(1.3)))


def test_a_histogram_is_paid_for_and_bounded():
    with pytest.raises(TypeError, match="pure ε or in μ"):
        stable_histograms(np.zeros((3, 1)), ConcentratedCost(1.0), 0.1, Relation.REPLACE, NoNoise())
    with pytest.raises(ValueError, match="strictly between"):
        threshold(PureCost(1.0), 1, 0.5, Relation.REPLACE)


def test_a_count_and_values_share_one_noise():
    """One row more changes both: ℓ2 √(l2² + unit²), ℓ1 l1 + unit."""
    rng = NoNoise()
    values, count = perturb_with_count(np.array([3, 4]), 10, GaussianCost(0.5), l2=30.0, l1=50.0, unit=40, rng=rng)
    assert (values.tolist(), count) == ([3, 4], 10.0)
    assert rng.scales[-1] == pytest.approx(50.0 / 0.5)
    perturb_with_count(np.array([3, 4]), 10, PureCost(0.5), l2=30.0, l1=50.0, unit=40, rng=rng)
    assert rng.scales[-1] == pytest.approx(90.0 / 0.5)
    assert perturb_with_count(np.array([3]), -5, PureCost(0.5), l2=1.0, l1=1.0, unit=4, rng=rng)[1] == 1.0


# --- randomness ---------------------------------------------------------------------------------------------------


class Words(SystemRandomness):
    """The system's samplers on words of our choice."""

    def __init__(self, *words):
        self._given = np.array(words, dtype=np.uint64)

    def _words(self, size):
        return self._given.reshape(size)


def test_uniform_numbers_at_their_ends():
    low, middle, high = Words(0, 2**63, 2**64 - 1).uniform(3)
    assert low == 2.0**-64
    assert middle == 0.5
    assert high == 1 - 2.0**-53


def test_normal_numbers_use_every_bit():
    values = Words(0, 1, 2**64 - 2, 2**64 - 1).normal(4)
    assert values[0] == -values[1]
    assert abs(values[0]) == pytest.approx(9.1, abs=0.1)  # half a cell: 2^−65 in the lower tail
    np.testing.assert_allclose(values[2:], 0.0, atol=1e-15)


def test_words_and_tokens():
    for rng in (SystemRandomness(), SeededRandomness(made_up_generator(3))):
        words = {rng.word() for _ in range(50)}
        assert len(words) == 50
        assert all(0 <= word < 2**64 for word in words)
        assert max(words) > 2**60
        assert len(rng.token()) == 16
    twin = np.floor(SeededRandomness(made_up_generator(3)).uniform(4) * 2**32).astype("<u4").tobytes()
    assert SeededRandomness(made_up_generator(3)).token() == twin
    same = [SeededRandomness(made_up_generator(3)).word() for _ in range(2)]
    assert same[0] == same[1] != SeededRandomness(made_up_generator(4)).word()
    np.testing.assert_array_equal(made_up_generator().random(3), made_up_generator().random(3))


def test_a_legacy_generator_seeds_ours():
    with pytest.warns(UserWarning, match="seeded"):
        rng = randomness(np.random.RandomState(5))
    seed = np.random.RandomState(5).randint(0, 2**31 - 1, size=4)
    expected = np.random.Generator(np.random.PCG64(seed)).standard_normal(3)
    np.testing.assert_array_equal(rng.normal(3), expected)
    assert isinstance(rng, Randomness)
    assert randomness(rng) is rng


# --- the exact sampler of devices -----------------------------------------------------------------------------------


def test_an_undecided_comparison_goes_on_with_the_next_bits():
    """A uniform number whose first 63 bits are those of the acceptance probability is decided by the next 64."""
    k, j, scale = 1, 3, 10
    n = k * scale + j
    context = Context(prec=80)
    exponent = context.divide(Decimal(scale * scale - n * n), Decimal(2 * scale * scale))
    probability = context.multiply(context.exp(exponent), context.power(Decimal(2), Decimal(k - 1)))
    target = context.multiply(probability, Decimal(2**63))
    bits = int(target)
    rest = int((target - bits) * 2**64)
    assert 10 < rest < 2**64 - 10
    for word, below in ((0, True), (rest - 1, True), (rest + 1, False), (2**64 - 1, False)):
        decided = device._decide(k, j, scale, bits, lambda size, w=word: np.array([w], dtype=np.uint64))
        assert decided is below
    assert device._decide(k, j, scale, bits - 1, lambda size: 1 / 0)
    assert not device._decide(k, j, scale, bits + 1, lambda size: 1 / 0)


@pytest.mark.parametrize(("k", "j", "scale"), [(1, 3, 10), (0, 7, 9), (5, 1, 2**40 + 1)])
def test_a_tie_is_broken_however_long_it_lasts(k, j, scale):
    """Nine words that are those of the probability, and a tenth that is not."""
    n, context = k * scale + j, Context(prec=900)
    exponent = context.divide(Decimal(scale * scale - n * n), Decimal(2 * scale * scale))
    probability = context.multiply(context.exp(exponent), context.power(Decimal(2), Decimal(k - 1)))
    digits = int(context.multiply(probability, Decimal(2 ** (63 + 640))))
    words = [digits >> 64 * i & 2**64 - 1 for i in reversed(range(10))]
    for change, below in ((-1, True), (1, False)):
        left = iter([*words[:-1], words[-1] + 2 * change])
        decided = device._decide(k, j, scale, digits >> 640, lambda size, w=left: np.array([next(w)], dtype=np.uint64))
        assert decided is below
        assert list(left) == []


# --- directions ---------------------------------------------------------------------------------------------------


def test_the_grid_of_directions():
    """2^26 steps per unit, and nothing finer: half a step is rounded away."""
    np.testing.assert_array_equal(_on_grid(np.array([2.0**-26, 2.0**-27, 0.3 * 2.0**-26])), [2.0**-26, 0.0, 0.0])


@pytest.mark.parametrize("u", [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.6, -0.8, 0.0], [0.0, 0.0, 1.0]])
def test_the_complement_of_any_direction(u):
    basis = _complement(np.array(u))
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-14)
    np.testing.assert_allclose(np.array(u) @ basis, 0.0, atol=1e-14)


def test_acceptance_is_about_the_square_root_of_the_columns():
    assert acceptance(np.zeros(3), 2000, SeededRandomness(made_up_generator(1))) == 1.0
    many = acceptance(np.linspace(0, 50, 10), 4000, SeededRandomness(made_up_generator(1)))
    assert 0.3 < many < 0.8
