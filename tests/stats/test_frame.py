"""The image of a row: right, finite, and the row's own business."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpeigen.stats.exact_norms import exact_bits, row_norms
from dpeigen.stats.frame import BadRowsError, Frame
from dpeigen.stats.score_frame import ScoreFrame

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=80)
LARGEST = float(np.finfo(np.float64).max)
EXTREMES = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.3e-308,
    1e-300,
    -1e-300,
    1.0,
    -1.0,
    1e300,
    -1e300,
    LARGEST,
    -LARGEST,
]
FINITE = st.one_of(st.sampled_from(EXTREMES), st.floats(allow_nan=False, allow_infinity=False))
BLOCKS = st.integers(1, 9).flatmap(
    lambda d: st.integers(1, 7).flatmap(lambda n: arrays(float, (n, d), elements=FINITE))
)


def extreme_rows(seed, n, d):
    """Rows whose entries have magnitudes from 1e-320 to 1e308, some zero, signs mixed."""
    rng = np.random.default_rng(seed)
    rows = rng.choice([-1.0, 1.0], (n, d)) * 10.0 ** rng.uniform(-320, 308, (n, d))
    return np.where(rng.random((n, d)) < 0.1, 0.0, rows)


def frames(d):
    facts = np.linspace(-3.0, 5.0, d)
    box = (np.full(d, -2.0), np.full(d, 1e200))
    yield Frame(d)
    yield Frame(d, center=facts)
    yield Frame(d, weights=np.exp2(facts) * 1.1)
    yield Frame(d, box=box)
    yield Frame(d, center=facts, weights=np.exp2(facts), box=box)
    yield Frame(d, weights=np.exp2(facts), box=box, pairs=True)
    yield Frame(d, pairs=True)


def directions(d, k, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, k)))[0].T


def assert_row_by_row(image, block, rows_per_term=1):
    """Each framed row has the same bits alone, in part of the block, upside down and in the whole block."""
    whole = image(block)
    assert np.isfinite(whole).all()
    terms = len(block) // rows_per_term
    assert len(whole) == terms
    for i in range(terms):
        alone = block[i * rows_per_term : (i + 1) * rows_per_term]
        assert image(alone).tobytes() == whole[i : i + 1].tobytes()
    cut = terms // 3 * rows_per_term
    assert image(block[cut:]).tobytes() == whole[terms // 3 :].tobytes()
    if rows_per_term == 1:
        assert image(block[::-1]).tobytes() == whole[::-1].tobytes()
    assert np.ascontiguousarray(image(np.asfortranarray(block))).tobytes() == whole.tobytes()


# --- what the image is ------------------------------------------------------------------------------------


def test_the_image_is_weights_times_clipped_minus_centre():
    frame = Frame(
        2,
        center=np.array([1.0, -1.0]),
        weights=np.array([2.0, 0.5]),
        box=(np.array([0.0, -4.0]), np.array([3.0, 4.0])),
    )
    rows = np.array([[5.0, -9.0], [-5.0, 9.0], [2.0, 1.0]])
    assert np.array_equal(frame.image(rows), [[4.0, -1.5], [-2.0, 2.5], [2.0, 1.0]])
    assert (frame.n_columns, frame.rows_per_term) == (2, 1)
    assert np.array_equal(frame.unit, [0.5, 2.0])
    assert np.array_equal(Frame(2).unit, [1.0, 1.0])


def test_pairs_are_half_differences_and_an_odd_last_row_is_left_out():
    frame = Frame(1, pairs=True, center=np.array([7.0]))  # a centre plays no role in a difference
    assert np.array_equal(frame.image(np.array([[1.0], [5.0], [4.0], [2.0], [9.0]])), [[-2.0], [1.0]])
    assert frame.image(np.array([[1.0]])).shape == (0, 1)
    assert frame.rows_per_term == 2
    assert frame.unit == pytest.approx(math.sqrt(2))
    boxed = Frame(1, pairs=True, weights=np.array([10.0]), box=(np.array([0.0]), np.array([3.0])))
    assert np.array_equal(boxed.image(np.array([[1.0], [5.0]])), [[-10.0]])


def test_differences_of_pairs_have_the_covariance_of_the_rows_in_their_own_units():
    # Var((x − x′)/2)·unit² = Var(x). Chi-square with 200000 degrees: deviation 0.0032; 0.02 is 6 of them.
    rows = np.random.default_rng(0).normal(5.0, 3.0, (400_000, 1))
    frame = Frame(1, pairs=True, weights=np.array([0.25]))
    framed = frame.image(rows) * frame.unit
    assert np.mean(framed**2) == pytest.approx(9.0, rel=0.02)


@pytest.mark.parametrize("shape", [(3,), (3, 3), (2, 2, 2)])
def test_a_block_of_the_wrong_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"expected \(rows, 2\)"):
        Frame(2).image(np.ones(shape))


# --- rows that are not numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 2])
def test_a_bad_row_is_refused_with_the_remedy(bad, column):
    rows = np.ones((5, 3))
    rows[3, column] = bad
    for frame in frames(3):
        with pytest.raises(BadRowsError, match="missing="):
            frame.image(rows)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_dropped_row_is_the_zero_row_and_the_others_do_not_notice(bad):
    rows = extreme_rows(1, 6, 3)
    clean = rows.copy()
    rows[2, 1] = bad
    for plain in frames(3):
        frame = Frame(3, plain.center, plain.weights, plain.box, plain.pairs, missing="drop")
        image, expected = frame.image(rows), plain.image(clean)
        gone = 2 // plain.rows_per_term
        assert not image[gone].any()
        others = np.arange(len(image)) != gone
        assert image[others].tobytes() == expected[others].tobytes()
        assert_row_by_row(frame.image, rows, frame.rows_per_term)


def test_infinities_of_both_signs_and_finite_rows_whose_sum_overflows_are_told_apart():
    with pytest.raises(BadRowsError):
        Frame(2).image(np.array([[np.inf, -np.inf]]))
    huge = np.full((4, 2), LARGEST)
    assert np.array_equal(Frame(2).image(huge), huge)


def test_a_bad_row_in_the_odd_place_of_pairs_does_not_reach_the_image():
    rows = np.array([[1.0], [3.0], [np.nan]])
    assert np.array_equal(Frame(1, pairs=True, missing="drop").image(rows), [[-1.0]])


# --- the caller's array, and equality ---------------------------------------------------------------------


def test_the_callers_array_is_never_changed():
    rows = extreme_rows(2, 20, 4)
    rows[5, 0] = np.nan
    before = rows.tobytes()
    rows.setflags(write=False)  # writing would raise even where the bytes happen to agree
    for plain in frames(4):
        frame = Frame(4, plain.center, plain.weights, plain.box, plain.pairs, missing="drop")
        frame.image(rows)
        ScoreFrame(frame, directions(4, 2), residual=True).image(rows)
    assert rows.tobytes() == before


def test_frames_are_equal_by_their_facts_even_after_a_journey():
    for frame in frames(3):
        score = ScoreFrame(frame, directions(3, 1), residual=True)
        assert pickle.loads(pickle.dumps(frame)) == frame
        assert pickle.loads(pickle.dumps(score)) == score
        assert score != ScoreFrame(frame, directions(3, 1, seed=1), residual=True)
        assert score != frame
    different = list(frames(3))
    assert all(a != b for i, a in enumerate(different) for b in different[:i])
    assert Frame(3, center=np.zeros(3)) != Frame(3, center=np.array([0.0, 0.0, 1.0]))


# --- the image of a row is the row's own business ---------------------------------------------------------


@FIXED
@given(BLOCKS)
def test_a_row_has_the_same_image_in_any_block(block):
    for frame in frames(block.shape[1]):
        assert_row_by_row(frame.image, block, frame.rows_per_term)


@FIXED
@given(BLOCKS, st.integers(0, 2**31))
def test_a_row_has_the_same_scores_in_any_block(block, seed):
    d = block.shape[1]
    for k in {1, (d + 1) // 2, d}:
        for frame in (Frame(d), Frame(d, weights=np.exp2(np.arange(d)), pairs=True)):
            score = ScoreFrame(frame, directions(d, k, seed), residual=True)
            assert_row_by_row(score.image, block, frame.rows_per_term)


@FIXED
@given(BLOCKS)
def test_a_row_has_the_same_norm_in_any_block(block):
    norms = row_norms(block)
    assert all(row_norms(block[i : i + 1])[0].tobytes() == norms[i].tobytes() for i in range(len(block)))


@pytest.mark.parametrize("d", [1, 3, 8, 17, 64, 257])
def test_wide_blocks_too(d):
    # Long enough for every vector width and unrolled loop, with tails.
    block = extreme_rows(d, 67, d)
    for frame in frames(d):
        assert_row_by_row(frame.image, block, frame.rows_per_term)
        assert_row_by_row(ScoreFrame(frame, directions(d, min(d, 5)), True).image, block, frame.rows_per_term)


@pytest.mark.parametrize(
    "fault",
    [
        lambda block: block - block.mean(axis=0),
        lambda block: np.rint(block / np.abs(block).max() * 2.0**20),
        lambda block: np.cumsum(block, axis=0),
    ],
)
def test_twin_images_that_look_at_other_rows_are_caught(fault):
    with pytest.raises(AssertionError):
        assert_row_by_row(fault, np.random.default_rng(0).standard_normal((7, 3)))


# --- scores and norms are right ---------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "k"), [(1, 1), (2, 1), (7, 3), (100, 5), (2000, 4)])
@pytest.mark.parametrize("magnitude", [1e-300, 1.0, 1e300])
def test_scores_agree_with_floating_point(d, k, magnitude):
    rows = np.random.default_rng(d).standard_normal((30, d)) * magnitude
    basis = directions(d, k)
    scores = ScoreFrame(Frame(d), basis, residual=True).image(rows)
    assert scores.shape == (30, k + 1)
    norms = np.linalg.norm(rows / magnitude, axis=1)
    expected = (rows / magnitude) @ basis.T
    # Entries are rounded to 2^-b of twice the largest, directions to 2^-b: at most 1.5·√d·2^-b of the norm.
    allowed = 1.5 * math.sqrt(d) * 2.0 ** -exact_bits(d) * norms
    assert (np.abs(scores[:, :k] / magnitude - expected) <= allowed[:, None]).all()
    rest = np.sqrt(np.maximum(norms**2 - (expected**2).sum(axis=1), 0))
    assert (np.abs((scores[:, k] / magnitude) ** 2 - rest**2) <= 4 * (k + 1) * allowed * norms).all()


def test_without_residual_only_scores():
    basis = directions(5, 2)
    score = ScoreFrame(Frame(5, center=np.ones(5)), basis, residual=False)
    assert score.n_columns == 2
    assert score.rows_per_term == 1
    rows = np.random.default_rng(0).standard_normal((4, 5))
    assert np.allclose(score.image(rows), (rows - 1) @ basis.T, atol=1e-5)


def test_scores_that_would_overflow_stop_at_the_largest_number():
    score = ScoreFrame(Frame(4), np.full((1, 4), 0.5), residual=True)
    assert np.array_equal(score.image(np.full((1, 4), -LARGEST))[:, 0], [-LARGEST])


def test_weights_that_would_overflow_stop_at_the_largest_number():
    image = Frame(2, weights=np.array([8.0, 8.0])).image(np.array([[LARGEST, -1e308], [1.0, 2.0]]))
    assert np.array_equal(image, [[LARGEST, -LARGEST], [8.0, 16.0]])


@pytest.mark.parametrize("d", [1, 2, 7, 100, 2000])
def test_row_norms_are_accurate_at_any_magnitude(d):
    rng = np.random.default_rng(d)
    ordinary = rng.standard_normal((20, d)) * 10.0 ** rng.uniform(-306, 300, (20, 1))
    rows = np.vstack([ordinary, extreme_rows(d, 20, d) / d, np.eye(1, d) * 3.0])
    expected = np.array([math.hypot(*row) for row in rows])
    # Each entry is rounded by at most half of 2^-b, in units where the largest is at least a half.
    assert np.allclose(row_norms(rows), expected, rtol=math.sqrt(d) * 2.0 ** -exact_bits(d), atol=1e-323)
    scaled = [math.sqrt(math.fsum((row / np.abs(row).max()) ** 2)) for row in ordinary]
    assert np.allclose(
        row_norms(ordinary),
        np.abs(ordinary).max(axis=1) * scaled,
        rtol=math.sqrt(d) * 2.0 ** -exact_bits(d),
        atol=1e-323,
    )


def test_row_norms_neither_overflow_nor_vanish():
    assert row_norms(np.array([[3e307, 4e307]])) == pytest.approx(5e307, rel=1e-6)
    assert row_norms(np.array([[3e-323, 4e-323]])) == pytest.approx(5e-323, rel=0.1)
    assert row_norms(np.full((1, 4), LARGEST))[0] == math.inf  # 2·LARGEST is
    assert row_norms(np.zeros((2, 3))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("d", [1, 2, 3, 4, 100, 2000, 10**6])
def test_exact_bits_leave_room_for_the_sum(d):
    assert d * 2 ** (2 * exact_bits(d)) < 2**53 <= (4 * d + 4) * 2 ** (2 * exact_bits(d) + 2)


def test_a_frame_keeps_its_facts_when_the_caller_changes_the_arrays():
    center, weights, box = np.zeros(2), np.ones(2), (np.full(2, -1.0), np.full(2, 1.0))
    frame = Frame(2, center, weights, box)
    before, reach = frame.image(np.array([[5.0, 0.5]])).copy(), frame.reach
    center += 1.0
    weights *= 1e300
    box[1][:] = np.inf
    np.testing.assert_array_equal(frame.image(np.array([[5.0, 0.5]])), before)
    assert frame.reach == reach == 1.0
    with pytest.raises(ValueError, match="read-only"):
        frame.center += 1.0
