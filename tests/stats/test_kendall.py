"""Kendall's tau against a loop over pairs in extended precision, on ordinary and on spiteful data; its sensitivity."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.privacy.budget import Relation
from dpeigen.stats import KendallTau, kendall_tau
from dpeigen.stats.frame import Frame
from dpeigen.stats.pairs import allowance, n_pairs, pair_sum, pairs_per_row
from dpeigen.stats.transform import Tabulated, Transform, redescending, winsorized_redescending

LONG = np.longdouble
needs_extended = pytest.mark.skipif(np.finfo(LONG).nmant < 60, reason="no extended precision here to compare with")


def ball(s):
    return (s < 1.0).astype(float)  # jumps


def shell(s):
    return np.where((s > 0.5) & (s < 2.0), 0.7, 0.1)


def smooth(s):
    return s / np.hypot(1.0, s)


CUSTOM = {"ball": ball, "shell": shell, "smooth": smooth}


def lag_pairs(n, design):
    """(i, j) of every pair, each once."""
    if design is None or 2 * design >= n - 1:
        return np.triu_indices(n, 1)
    first = np.repeat(np.arange(n), design)
    return first, (first + np.tile(np.arange(1, design + 1), n)) % n


def loop(rows, xi, design=None):
    """The mean of g·gᵀ from differences, in extended precision: what the tiles must agree with."""
    x = np.asarray(rows, dtype=LONG)
    first, second = lag_pairs(len(x), design)
    total = np.zeros((x.shape[1],) * 2, dtype=LONG)
    for at in range(0, len(first), 20_000):
        w = x[first[at : at + 20_000]] - x[second[at : at + 20_000]]
        size = np.abs(w).max(axis=1, keepdims=True)
        w = w[size[:, 0] > 0] / size[size[:, 0] > 0]
        length = np.sqrt((w * w).sum(axis=1))
        s = length * size[size[:, 0] > 0][:, 0] / np.sqrt(LONG(2))
        g = w * (xi(s) / length)[:, None]
        total += np.einsum("ij,ik->jk", g, g)
    return total / len(first)


def xi_of(transform):
    """ξ/b in extended precision."""
    if transform.kind == "spherical":
        return np.ones_like
    if transform.kind == "winsorized":
        return lambda s: np.minimum(s / LONG(transform.radius), LONG(1))
    if transform.kind == "redescending":
        return lambda s: LONG(1) / np.maximum(s / LONG(transform.cutoff), LONG(1)) ** 4
    if transform.kind == "winsorized-redescending":
        return lambda s: np.minimum(s / LONG(transform.cutoff), (LONG(transform.cutoff) / s) ** 4)
    # A function that jumps must see the double that the tiles see: no test puts a distance next to a jump.
    return lambda s: np.clip(transform.function(np.minimum(s, 1.79e308).astype(float)) / LONG(transform.radius), 0, 1)


def computed(rows, transform, design=None):
    return pair_sum(np.asarray(rows, dtype=float), transform, design) / n_pairs(len(rows), design)


def off(rows, transform, design=None):
    """Frobenius distance to the loop, in units of b²."""
    return float(np.linalg.norm(np.asarray(computed(rows, transform, design) - loop(rows, xi_of(transform), design))))


def tabled(function, bound):
    """A function of one's own as the private method sees it."""
    return Transform("custom", bound, Tabulated(function, bound))


SPHERICAL = Transform()
TRANSFORMS = {
    "spherical": SPHERICAL,
    "winsorized": Transform("winsorized", 1.3),
    "redescending": redescending(1.3),
    "winsorized-redescending": winsorized_redescending(1.3),
    "ball": tabled(ball, 1.0),
    "shell": tabled(shell, 0.5),  # its values above the bound are cut
    "smooth": tabled(smooth, 1.0),
}


def rows_of(kind, n, d, seed=0):
    rng = np.random.default_rng([seed, n, d])
    x = rng.normal(size=(n, d)) * np.linspace(2, 0.5, d)
    if kind == "offset":
        return x + 1e7
    if kind == "cauchy":
        return x / rng.normal(size=(n, 1))
    if kind == "clusters":  # tight ones, far from each other and from the middle
        return rng.normal(size=(5, d))[rng.integers(0, 5, n)] * 1e4 + 1e-4 * x
    if kind == "two scales":
        return x * np.where(rng.random((n, 1)) < 0.5, 1e-6, 1e6)
    if kind == "ties":
        return rng.integers(-1, 2, size=(n, d)).astype(float)
    if kind == "zeros":
        return x * (rng.random((n, 1)) < 0.3)
    if kind == "a line":
        return np.outer(rng.normal(size=n), np.ones(d)) + 1e-9 * x
    if kind == "one huge":
        x[n // 2] = 1e200 * (-1.0) ** np.arange(d)
    return x


KINDS = ["plain", "offset", "cauchy", "clusters", "two scales", "ties", "zeros", "a line", "one huge"]


@needs_extended
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_tau_is_the_mean_over_pairs(kind, transform):
    for n, d in ((2, 3), (3, 1), (40, 4), (300, 2)):
        assert off(rows_of(kind, n, d), transform) < 1e-10
    assert off(rows_of(kind, 300, 3), transform, 7) < 1e-10


@needs_extended
@pytest.mark.parametrize("n", [2, 3, 63, 64, 65, 255, 256, 257, 258, 511, 512, 513, 514])
def test_at_the_borders_of_tiles(n):
    for design in (None, 1, 2, n // 2, n // 4 + 1, 10**6):
        if design != 0:
            transform = TRANSFORMS["winsorized" if n % 2 else "spherical"]
            assert off(rows_of("plain", n, 3), transform, design) < 1e-10


@needs_extended
@pytest.mark.parametrize("design", [1, 3, 30, 70, 198, 199, 200])
@pytest.mark.parametrize("transform", [*TRANSFORMS.values()][:3], ids=[*TRANSFORMS][:3])
def test_circulant_designs_are_means_over_their_pairs(design, transform):
    for kind in ("clusters", "cauchy"):
        assert off(rows_of(kind, 400, 3), transform, design) < 1e-10


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7, 20])
def test_the_number_of_pairs_and_the_share_of_a_row(n):
    """Every row is in the same share 2/n of the pairs, whatever the design: that is what the sensitivity rests on."""
    for design in (None, *range(1, n + 2)):
        first, second = lag_pairs(n, design)
        assert n_pairs(n, design) == len(first)
        counts = np.bincount(np.concatenate([first, second]), minlength=n)
        assert set(counts) == {pairs_per_row(n, design)}


@needs_extended
@pytest.mark.parametrize("exponent", [-1000, -500, 500, 1000])
def test_powers_of_two_change_no_bit(exponent):
    """1e±150 and beyond. ξ = 1 does not see them at all; a radius goes along."""
    rows = rows_of("cauchy", 300, 4)
    plain = computed(rows, SPHERICAL)
    np.testing.assert_array_equal(computed(np.ldexp(rows, exponent), SPHERICAL), plain)
    if abs(exponent) < 1000:
        winsorized = Transform("winsorized", math.ldexp(1.3, exponent))
        scaled = computed(np.ldexp(rows, exponent), winsorized)
        np.testing.assert_array_equal(scaled, computed(rows, TRANSFORMS["winsorized"]))


@needs_extended
@pytest.mark.parametrize("scale", [1e150, 1e-150, 1e300, 1e-300, 1e-320, 5e-324])
def test_any_other_scale_changes_only_rounding(scale):
    rows = rows_of("plain", 200, 3) * scale
    assert off(rows, SPHERICAL) < 1e-10
    assert off(rows, Transform("winsorized", 1.3 * scale if scale > 1e-308 else 1e-300)) < 1e-10
    assert np.isfinite(computed(rows, TRANSFORMS["smooth"])).all()


@needs_extended
@pytest.mark.parametrize(
    "odd",
    [
        [[1e200, 0, 0]],
        [[1.7e308, 1.7e308, 1.7e308], [-1.7e308, -1.7e308, -1.7e308]],
        [[5e-324, 0, 0], [0, 5e-324, 0], [0, 0, 0]],
        [[1e-310, 1e-310, 0]] * 3,
        [[1e154, 1e-154, 1.0]],
    ],
    ids=["1e200", "largest", "smallest", "denormal twins", "mixed"],
)
def test_absurd_rows_among_ordinary_ones(odd):
    for base in (rows_of("plain", 100, 3), np.zeros((0, 3)), np.zeros((5, 3)), 1e-200 * rows_of("plain", 9, 3)):
        rows = np.vstack([base, odd, [[0.0, 1.0, 0.0]]])
        for transform in [*TRANSFORMS.values()][:3]:
            assert off(rows, transform) < 1e-10


def test_ties_and_equal_rows_count_as_zero():
    np.testing.assert_array_equal(kendall_tau(np.ones((7, 3))), np.zeros((3, 3)))
    np.testing.assert_array_equal(kendall_tau(np.full((300, 2), -1.7e308)), np.zeros((2, 2)))
    half = np.repeat([[0.0, 0.0], [3.0, 4.0]], 5, axis=0)  # 25 of 45 pairs differ
    np.testing.assert_allclose(kendall_tau(half), 25 / 45 * np.outer([0.6, 0.8], [0.6, 0.8]), rtol=1e-14)


def test_the_trace_says_how_many_pairs_differ():
    rows = rows_of("ties", 500, 2)
    first, second = lag_pairs(500, None)
    assert math.isclose(np.trace(kendall_tau(rows)), (rows[first] != rows[second]).any(axis=1).mean(), rel_tol=1e-12)


# --- spite: data searched for the worst rounding ------------------------------------------------------------------

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-2, 2).map(float),
    st.integers(-(2**20), 2**20).map(lambda i: 1e7 + i * 2.0**-30),
    st.integers(-1074, 1023).map(lambda e: math.ldexp(1.0, e)),
)


@st.composite
def spiteful(draw):
    d = draw(st.integers(1, 4))
    base = np.array(draw(st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=2, max_size=8)))
    n = draw(st.sampled_from([2, 3, 5, 20, 70, 150]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    rows = base[rng.integers(0, len(base), n)]
    jitter = draw(st.sampled_from([0.0, 2.0**-52, 2.0**-30, 2.0**-8, 0.1, 1.0]))
    with np.errstate(over="ignore"):
        rows = rows * (1 + jitter * rng.uniform(-1, 1, rows.shape))
    return np.clip(rows, -1.79e308, 1.79e308)


@needs_extended
@settings(max_examples=150)
@given(spiteful(), st.sampled_from([None, 1, 5, 40]), st.integers(-300, 300))
def test_no_data_set_is_summed_worse_than_the_allowance_says(rows, design, exponent):
    size = math.ldexp(1.3, exponent)
    for transform in (SPHERICAL, Transform("winsorized", size), redescending(size), winsorized_redescending(size)):
        most = allowance(len(rows), rows.shape[1], design, steepness=transform.steepness)
        assert off(rows, transform, design) <= most


@needs_extended
def test_the_allowance_is_not_idle():
    """The plain identity XᵀLX on rows far from the origin is worse than the allowance by far: the search would see."""
    rows = rows_of("offset", 100, 3)
    x = rows - rows_of("offset", 1, 3) * 0.9  # a bad centre
    distances = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    weights = np.divide(1.0, distances, out=np.zeros_like(distances), where=distances > 0)
    naive = x.T @ (np.diag(weights.sum(axis=1)) - weights) @ x / n_pairs(100, None)
    assert np.linalg.norm(np.asarray(naive - loop(rows, np.ones_like))) > 10 * allowance(100, 3)
    assert allowance(10**6, 50, 200) < 1e-9  # and small enough to cost nothing


@pytest.mark.parametrize("kind", ["plain", "clusters", "one huge"])
def test_the_number_of_threads_changes_no_bit(kind):
    rows = rows_of(kind, 900, 5)
    for transform, design in itertools.product([SPHERICAL, TRANSFORMS["winsorized"], TRANSFORMS["shell"]], [None, 40]):
        found = []
        for threads in (1, 2):
            with threadpool_limits(threads, user_api="blas"):
                found.append(pair_sum(rows, transform, design))
        np.testing.assert_array_equal(*found)


def test_the_same_rows_in_other_memory_give_the_same_bits():
    rows = rows_of("cauchy", 700, 3)
    plain = pair_sum(rows, SPHERICAL)
    np.testing.assert_array_equal(pair_sum(np.asfortranarray(rows), SPHERICAL), plain)
    np.testing.assert_array_equal(pair_sum(np.repeat(rows, 2, axis=0)[::2], SPHERICAL), plain)


# --- functions of one's own ---------------------------------------------------------------------------------------


def test_a_function_of_ones_own_equals_the_named_ones():
    rows = rows_of("cauchy", 400, 3)
    np.testing.assert_allclose(kendall_tau(rows, np.ones_like), kendall_tau(rows), atol=1e-13)
    own = kendall_tau(rows, lambda s: np.minimum(s, 2.0), radius=2.0)
    np.testing.assert_allclose(own, kendall_tau(rows, "winsorized", radius=2.0), atol=1e-12)
    np.testing.assert_allclose(kendall_tau(rows, lambda s: 1.0), kendall_tau(rows), atol=1e-13)  # a constant will do
    covariance = kendall_tau(rows_of("plain", 400, 3), lambda s: s)  # ξ(s) = s is the covariance
    np.testing.assert_allclose(covariance, np.cov(rows_of("plain", 400, 3).T), rtol=1e-12)


MISBEHAVING = {
    "NaN": lambda s: np.full_like(s, np.nan),
    "some NaN": lambda s: np.where(s < 1, np.nan, 1.0),
    "negative": lambda s: -np.ones_like(s),
    "infinite": lambda s: np.full_like(s, np.inf),
    "unbounded": lambda s: s**2,
    "a pole": lambda s: 1.0 / s,
    "in place": lambda s: np.multiply(s, 2.0, out=s),
}


@pytest.mark.parametrize("function", MISBEHAVING.values(), ids=MISBEHAVING)
def test_whatever_a_function_returns_its_bound_holds(function):
    """The bound is what privacy rests on, so it is enforced and not believed."""
    transform = tabled(function, 1.0)
    rows = rows_of("cauchy", 300, 3)
    total = pair_sum(rows, transform)
    assert np.isfinite(total).all()
    assert np.linalg.eigvalsh(total).min() >= -1e-9
    assert np.trace(total) <= n_pairs(300, None) * (1 + 1e-12)
    moved = rows.copy()
    moved[0] = 1e3
    change = np.linalg.norm(pair_sum(moved, transform) - total)
    assert change <= math.sqrt(2) * 299 + 1e-6


@pytest.mark.parametrize(
    "function",
    [
        lambda s: s / s.max(),
        lambda s: (s < np.median(s)).astype(float),
        lambda s: np.ones_like(s) / s.size,
        lambda s: np.cumsum(s),
        lambda s: np.where(s > 100, s.mean(), 1.0),
    ],
    ids=["max", "median", "size", "cumulative", "mean far out"],
)
def test_functions_that_mix_distances_cannot_mix_those_of_the_data(function):
    """Such a function sees public points only, so that what it says of a pair depends on that pair alone."""
    transform = tabled(function, 1.0)
    distances = np.abs(np.random.default_rng(0).standard_cauchy(50))
    together = transform.gains(distances)
    np.testing.assert_array_equal([transform.gains(distances[j : j + 1])[0] for j in range(50)], together)
    np.testing.assert_array_equal(transform.gains(distances[:30]), together[:30])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transform": "winsorized"}, "radius.*given for transform='winsorized'"),
        ({"transform": "spherical", "radius": 1.0}, "radius.*None for transform='spherical'"),
        ({"transform": "signs"}, "transform.*'spherical', 'winsorized', 'redescending'"),
        ({"transform": "winsorized", "radius": -1.0}, "radius.*> 0"),
        ({"transform": "winsorized", "radius": math.nan}, "radius"),
        ({"design": 0}, "design"),
        ({"design": "most"}, "design"),
    ],
)
def test_refusals(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kendall_tau(np.eye(3), **options)


@pytest.mark.parametrize("rows", [[[1.0, 2.0]], [1.0, 2.0], [[np.nan, 1.0], [0.0, 0.0]], [[np.inf], [1.0]]])
def test_tables_that_are_none(rows):
    with pytest.raises(ValueError, match="at least 2 finite rows"):
        kendall_tau(rows)


# --- the statistic: integers that merge ----------------------------------------------------------------------------


def statistic(d, rows=64, transform=SPHERICAL, design=None):
    return KendallTau(Frame(d), transform, rows, design)


@pytest.mark.parametrize("design", [None, 5])
def test_parts_merge_exactly_and_in_any_order(design):
    rows = rows_of("cauchy", 64 * 9 + 30, 3)
    whole = statistic(3, design=design).update(rows)
    parts = [statistic(3, design=design).update(rows[at : at + 128]) for at in range(0, len(rows), 128)]
    for order in (range(5), [4, 2, 0, 3, 1], [3, 4, 1, 0, 2]):
        merged = statistic(3, design=design)
        for j in order:
            merged.merge(pickle.loads(pickle.dumps(parts[j])))
        np.testing.assert_array_equal(merged.gram, whole.gram)
        assert (merged.count, merged.parts) == (whole.count, whole.parts) == (whole.count, 10)
        for relation in (Relation.REPLACE,):
            assert merged.frobenius_sensitivity(relation) == whole.frobenius_sensitivity(relation)
    expected = sum(pair_sum(rows[at : at + 64], SPHERICAL, design) for at in range(0, len(rows), 64))
    np.testing.assert_allclose(np.asarray(whole.gram, dtype=float) / whole.steps, expected, rtol=1e-9, atol=1e-6)
    assert whole.count == 9 * n_pairs(64, design) + n_pairs(30, design)


def test_statistics_of_different_designs_do_not_merge():
    one = statistic(2)
    for other in (statistic(2, 32), statistic(2, design=3), statistic(2, transform=TRANSFORMS["winsorized"])):
        with pytest.raises(ValueError, match="different designs"):
            one.merge(other)


def test_empty_parts_and_single_rows_add_nothing():
    tau = statistic(2).update(np.zeros((0, 2))).update(np.ones((1, 2)))
    np.testing.assert_array_equal(tau.gram, np.zeros((2, 2)))
    assert tau.count == 0


def test_rows_added_or_removed_have_no_sensitivity():
    for claim in (KendallTau.frobenius_sensitivity, KendallTau.trace_sensitivity):
        with pytest.raises(ValueError, match="no bounded sensitivity when a row is added"):
            claim(statistic(2), Relation.ADD_REMOVE)


# --- sensitivity ---------------------------------------------------------------------------------------------------


def change(tau, rows, row, new):
    """Frobenius and nuclear norm of the change of the integers when one row is replaced."""
    other = rows.copy()
    other[row] = new
    first, second = (tau.fresh().update(x).gram.astype(float) for x in (rows, other))
    values = np.linalg.eigvalsh(first - second)
    return np.array([np.linalg.norm(first - second), np.abs(values).sum()])


def claims(tau):
    return np.array([tau.frobenius_sensitivity(Relation.REPLACE), tau.trace_sensitivity(Relation.REPLACE)])


SETTINGS = [
    (6, 2, None, "spherical"),
    (6, 1, None, "spherical"),
    (9, 3, 2, "spherical"),
    (7, 2, None, "winsorized"),
    (7, 3, None, "shell"),
    (12, 2, 3, "ball"),
]


def search(n, d, design, name, climbs=3, steps=40):
    """The largest changes found, relative to the claims: random neighbours, then climbing from the best."""
    tau = statistic(d, n, TRANSFORMS[name], design)
    rng = np.random.default_rng([n, d])
    best = np.zeros(2)
    found = []
    for kind in itertools.islice(itertools.cycle(KINDS), 60):
        rows, new = rows_of(kind, n, d, int(rng.integers(1000))), rng.normal(size=d) * 10.0 ** rng.integers(-3, 9)
        row = int(rng.integers(n))
        found.append((change(tau, rows, row, new) / claims(tau), rows, row, new))
        best = np.maximum(best, found[-1][0])
    found.sort(key=lambda item: -item[0][0])
    for value, rows, row, new in found[:climbs]:
        size = 1.0
        for _ in range(steps):
            spread = size * (1 + np.abs(rows).max())
            near, moved = rows + spread * rng.normal(size=rows.shape), new + spread * rng.normal(size=d)
            got = change(tau, near, row, moved) / claims(tau)
            best = np.maximum(best, got)
            if got[0] > value[0]:
                value, rows, new = got, near, moved
            else:
                size *= 0.85
    return best


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_neighbours_differ_by_more_than_is_claimed(setting):
    found = search(*setting)
    assert (found <= 1).all()
    assert (found > 0.4).all()  # the search would see a claim of a third


@pytest.mark.parametrize(("n", "design"), [(2, None), (10, None), (257, None), (11, 2), (300, 40)])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_claim_is_sharp(n, design, name):
    """All others in one point, the row first on one axis and then on another: every one of its terms turns over."""
    tau = statistic(3, n, TRANSFORMS[name], design)
    rows = np.zeros((n, 3))
    at_cutoff = 1.3 * math.sqrt(2)
    far = {"ball": 1.0, "shell": 1.5, "redescending": 1.0, "winsorized-redescending": at_cutoff}.get(name, 1e9)
    rows[n // 3] = [far, 0.0, 0.0]
    found = change(tau, rows, n // 3, np.array([0.0, far, 0.0])) / claims(tau)
    assert (found <= 1).all()
    assert (found >= 0.99).all()
    assert tau.frobenius_sensitivity(Relation.REPLACE) >= LEAST_SENSITIVITY
    mean = tau.frobenius_sensitivity(Relation.REPLACE) / tau.steps / n_pairs(n, design)
    assert math.isclose(mean, 2 * math.sqrt(2) / n, rel_tol=1e-3)  # and not the printed 4/n


def test_one_column_moves_half_as_far():
    tau = statistic(1, 10)
    rows = np.zeros((10, 1))
    found = change(tau, rows, 0, np.array([5.0])) / claims(tau)
    assert (found >= 0.99).all()
    assert (found <= 1).all()


@pytest.mark.parametrize("kind", ["clusters", "offset", "two scales"])
def test_rounding_at_scale_stays_within_the_claim(kind):
    """Where every sum is rounded: the sharp pair on top of spiteful other rows, which cancel in exact arithmetic."""
    n = 500
    tau = statistic(3, n)
    rows = rows_of(kind, n, 3)
    rows[7] = [1e12, 0.0, 0.0]
    found = change(tau, rows, 7, np.array([0.0, 1e12, 0.0])) / claims(tau)
    assert (found <= 1).all()
    assert (found > 0.95).all()
