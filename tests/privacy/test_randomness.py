"""Every distribution the library draws from, for both sources of randomness.

Seeded tests raise a false alarm with probability at most 1e-6 over the choice of seed (which is fixed), unseeded tests
with probability at most 1e-9 per run: the bounds in conftest are exact. Each has a twin with a planted fault.
"""

from __future__ import annotations

import itertools
import math
import os

import numpy as np
import pytest
from scipy.special import ndtr

from dpeigen.privacy import NotPrivateWarning, Randomness, randomness
from dpeigen.privacy.randomness import SeededRandomness, SystemRandomness, derived_generator

SEEDED, SYSTEM = 1e-6, 1e-9
DRAWS = 20_000


def gaussian_pmf(scale):
    reach = range(-math.ceil(4 * scale), math.ceil(4 * scale) + 1)
    total = math.fsum(math.exp(-(k**2) / (2 * scale**2)) for k in range(-int(40 * scale) - 1, int(40 * scale) + 2))
    return {k: math.exp(-(k**2) / (2 * scale**2)) / total for k in reach}


def laplace_pmf(scale):
    ratio = math.exp(-1 / scale)
    reach = range(-math.ceil(6 * scale), math.ceil(6 * scale) + 1)
    return {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in reach}


# --- where randomness comes from ---------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: 7, lambda: np.int64(7), lambda: np.random.default_rng(7)])
def test_a_seed_reproduces_everything_and_warns(make):
    results = []
    for _ in range(2):
        with pytest.warns(NotPrivateWarning, match="seeded, not private"):
            rng = randomness(make())
        assert rng.seeded
        draws = (
            rng.uniform(5),
            rng.normal((2, 3)),
            rng.permutation(9),
            rng.discrete_gaussian(50.0, 5),
            rng.discrete_laplace(5.0, 5),
        )
        results.append(draws)
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


def test_legacy_random_states_are_taken_and_warned_about():
    with pytest.warns(NotPrivateWarning):
        first = randomness(np.random.RandomState(3)).normal(4)
    with pytest.warns(NotPrivateWarning):
        second = randomness(np.random.RandomState(3)).normal(4)
    np.testing.assert_array_equal(first, second)


def test_a_source_of_randomness_is_passed_on_without_a_second_warning():
    rng = randomness(1)
    assert randomness(rng) is rng


@pytest.mark.parametrize("bad", [-1, 1.5, "0", True, [1], object()])
def test_other_seeds_are_refused(bad):
    with pytest.raises(ValueError, match="'random_state' parameter of dpeigen"):
        randomness(bad)


def test_system_randomness_differs_between_calls_and_warns_nobody(recwarn):
    """Equal draws would need a coincidence of probability below 1e-30."""
    first, second = randomness(None), randomness(None)
    assert not first.seeded
    for draw in (
        lambda r: r.uniform(8),
        lambda r: r.normal(8),
        lambda r: r.permutation(50),
        lambda r: r.discrete_gaussian(1e6, 8),
        lambda r: r.discrete_laplace(1e6, 8),
    ):
        assert not np.array_equal(draw(first), draw(first))
        assert not np.array_equal(draw(first), draw(second))
    assert not recwarn.list


def test_system_randomness_ignores_numpy_seeds():
    np.random.seed(0)  # noqa: NPY002 - the point is that it has no effect
    first = randomness(None).uniform(8)
    np.random.seed(0)  # noqa: NPY002
    assert not np.array_equal(first, randomness(None).uniform(8))


@pytest.mark.parametrize("state", [None, 0])
def test_shapes_types_and_empty_draws(state):
    rng = randomness(state)
    assert isinstance(rng, Randomness)
    assert rng.uniform(3).shape == (3,)
    assert rng.normal((2, 0, 3)).shape == (2, 0, 3)
    for draws in (rng.discrete_gaussian(3.0, 4), rng.discrete_laplace(np.float32(3), 4)):
        assert draws.shape == (4,)
        assert draws.dtype == np.int64
    assert len(rng.discrete_gaussian(3.0, 0)) == len(rng.discrete_laplace(3.0, 0)) == len(rng.permutation(0)) == 0
    for name in ("discrete_gaussian", "discrete_laplace"):
        for bad in (0.0, -1.0, math.nan, math.inf, 2.0**62):
            with pytest.raises(ValueError, match="grid steps"):
                getattr(rng, name)(bad, 3)


# --- real numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_extreme_words_stay_inside_the_open_interval(monkeypatch, byte):
    monkeypatch.setattr(os, "urandom", lambda n: byte * n)
    rng = randomness(None)
    assert 0 < rng.uniform(1)[0] < 1
    assert np.isfinite(rng.normal(1)[0])


def test_the_seeded_uniform_excludes_both_ends():
    class Extreme(np.random.Generator):
        def random(self, size):
            return np.array([0.0, 1 - 2.0**-53])

    draws = randomness(Extreme(np.random.PCG64(0))).uniform(2)
    assert (draws > 0).all()
    assert (draws < 1).all()


@pytest.mark.parametrize(("state", "alarm"), [(11, SEEDED), (None, SYSTEM)])
def test_uniform(chance, state, alarm):
    draws = randomness(state).uniform((100, 1000))
    assert chance.cdf(draws, lambda x: np.clip(x, 0, 1)) > alarm
    assert chance.cdf(draws * 0.95, lambda x: np.clip(x, 0, 1)) < alarm  # planted fault


@pytest.mark.parametrize(("state", "alarm"), [(12, SEEDED), (None, SYSTEM)])
def test_normal(chance, state, alarm):
    draws = randomness(state).normal((100, 1000))
    assert chance.cdf(draws, ndtr) > alarm
    assert chance.cdf(draws * 1.2, ndtr) < alarm  # planted faults: too wide, shifted, one-sided
    assert chance.cdf(draws + 0.1, ndtr) < alarm
    assert chance.cdf(np.abs(draws), ndtr) < alarm


@pytest.mark.parametrize(("state", "alarm"), [(13, SEEDED), (None, SYSTEM)])
def test_normals_are_independent_in_pairs(chance, state, alarm):
    """(x + y)/√2 of disjoint pairs is standard normal too; of equal ones it is not."""
    first, second = randomness(state).normal((2, 50_000))
    assert chance.cdf((first + second) / math.sqrt(2), ndtr) > alarm
    assert chance.cdf((first + first) / math.sqrt(2), ndtr) < alarm


# --- integers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_system_discrete_gaussian(chance, scale):
    draws = randomness(None).discrete_gaussian(scale, DRAWS)
    assert chance.counts(draws, gaussian_pmf(scale)) > SYSTEM
    assert chance.counts(draws, gaussian_pmf(1.5 * scale)) < SYSTEM  # planted fault


def test_exact_draws_are_told_from_rounded_ones(chance):
    """At scale 0.5 rounded Gaussians are not discrete Gaussians, and the test sees it."""
    pmf = gaussian_pmf(0.5)
    assert chance.counts(randomness(None).discrete_gaussian(0.5, DRAWS), pmf) > SYSTEM
    assert chance.counts(np.rint(0.5 * randomness(None).normal(DRAWS)), pmf) < SYSTEM


def test_seeded_discrete_gaussian(chance):
    """Rounded normals: right at the scales in use (thousands of steps), and already at 30."""
    draws = randomness(21).discrete_gaussian(30.0, 200_000)
    assert chance.counts(draws, gaussian_pmf(30.0)) > SEEDED
    assert chance.counts(draws, gaussian_pmf(36.0)) < SEEDED  # planted fault


@pytest.mark.parametrize(("state", "alarm"), [(22, SEEDED), (None, SYSTEM)])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_discrete_laplace(chance, scale, state, alarm):
    draws = randomness(state).discrete_laplace(scale, DRAWS)
    assert chance.counts(draws, laplace_pmf(scale)) > alarm
    assert chance.counts(draws, laplace_pmf(1.5 * scale)) < alarm  # planted faults: scale, support
    assert chance.counts(np.abs(draws), laplace_pmf(scale)) < alarm


@pytest.mark.parametrize("name", ["discrete_gaussian", "discrete_laplace"])
def test_noise_on_a_fine_grid_has_the_right_scale(chance, name):
    """At 2⁴⁰ steps the integers are as good as continuous; the planted fault is 20% too little noise."""
    draws = getattr(randomness(None), name)(2.0**40, DRAWS) / 2.0**40

    def laplace(x):
        return np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)

    function = ndtr if name == "discrete_gaussian" else laplace
    assert chance.cdf(draws, function) > SYSTEM
    assert chance.cdf(0.8 * draws, function) < SYSTEM


# --- orders ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [5, None])
@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutations_are_permutations(state, n):
    np.testing.assert_array_equal(np.sort(randomness(state).permutation(n)), np.arange(n))


@pytest.mark.parametrize(("state", "alarm"), [(31, SEEDED), (None, SYSTEM)])
def test_permutations_are_uniform(chance, state, alarm):
    orders = list(itertools.permutations(range(4)))
    uniform = dict.fromkeys(range(24), 1 / 24)
    rng = randomness(state)
    seen = [orders.index(tuple(rng.permutation(4))) for _ in range(DRAWS)]
    assert chance.counts(seen, uniform) > alarm

    def naive_shuffle(picks):  # planted fault: swap each place with any place, the classical mistake
        order = list(range(4))
        for i, j in enumerate(picks):
            order[i], order[j] = order[j], order[i]
        return orders.index(tuple(order))

    picks = (4 * rng.uniform((DRAWS, 4))).astype(int)
    assert chance.counts([naive_shuffle(p) for p in picks], uniform) < alarm


def test_tied_keys_are_drawn_again(monkeypatch):
    rounds = iter([np.array([5, 5, 1], dtype=np.uint64), np.array([9, 7, 8], dtype=np.uint64)])
    monkeypatch.setattr(os, "urandom", lambda n: next(rounds).tobytes())
    assert randomness(None).permutation(3).tolist() == [1, 2, 0]


def test_streams_that_are_derived_are_their_own_and_come_back():
    names = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 1.0), (0, "a", None), (0, 1.0, "a")]
    first, again = ([derived_generator(*n).integers(2**62) for n in names] for _ in range(2))
    assert first == again
    assert len(set(first)) == len(names)


@pytest.mark.parametrize("state", [None, 0])
def test_coins_fall_as_often_as_they_should(state):
    """Six deviations either way: a false alarm once in 5e8 runs."""
    rng, size = SystemRandomness() if state is None else SeededRandomness(np.random.default_rng(state)), 100_000
    for chance in (0.05, 0.5, 0.99):
        heads = int(rng.coins(chance, size).sum())
        assert abs(heads - chance * size) < 6 * np.sqrt(chance * (1 - chance) * size)
    assert not rng.coins(0.0, 1000).any()
    assert rng.coins(1.0, 1000).all()
    assert (rng.coins(0.5, 1000) != rng.coins(0.5, 1000)).any()
