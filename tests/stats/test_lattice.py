"""Integer rows inside the ball, checked in unbounded integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpeigen.stats.exact_norms import exact_bits, row_norms
from dpeigen.stats.frame import BadRowsError, Frame
from dpeigen.stats.lattice import EXACT_ROWS, LEVELS, Lattice, unit_lattice
from dpeigen.stats.score_frame import ScoreFrame

FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=80)
DIMENSIONS = [1, 2, 7, 100, 2000]
LARGEST = float(np.finfo(np.float64).max)


def squared_norms(lattice_rows):
    """In Python integers, after checking that the entries are integers at all."""
    assert np.isfinite(lattice_rows).all()
    return [sum(int(v) ** 2 for v in row if v == int(v)) for row in lattice_rows]


def assert_inside(lattice_rows):
    assert np.array_equal(lattice_rows, np.rint(lattice_rows))
    assert all(square <= LEVELS**2 for square in squared_norms(lattice_rows))


def hard_rows(d, radius, seed=0):
    """Rows that tempt rounding out of the ball, and rows at the ends of the number line."""
    rng = np.random.default_rng(seed)
    unit = rng.standard_normal((30, d))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    step = Lattice(Frame(d), radius).step
    flat = np.ones((1, d)) / math.sqrt(d)
    half_up = (np.floor(LEVELS / math.sqrt(d)) + np.arange(-3.0, 3.0)[:, None] + 0.5) * np.ones(d) * step
    signs = rng.choice([-1.0, 1.0], (5, d))
    tiny_next_to_huge = np.where(rng.random((5, d)) < 0.5, 5e-324, 1e300)
    return np.vstack(
        [
            *(unit * radius * factor for factor in (1 - 1e-12, 1.0, 1 + 1e-12, 1 + 1e-5, 2.0, 1e10)),
            flat * radius * np.linspace(0.99, 1.01, 41)[:, None],
            half_up,
            np.nextafter(half_up, np.inf),
            *(np.full((1, d), value) for value in (1e300, -1e-300, 5e-324, LARGEST, -LARGEST)),
            np.eye(1, d) * LARGEST,
            tiny_next_to_huge * signs,
            rng.standard_normal((20, d)) * radius / math.sqrt(d),
            np.zeros((2, d)),
        ]
    )


@pytest.mark.parametrize("shape", ["ball", "sphere"])
@pytest.mark.parametrize("radius", [1.0, 3.7e-9, 1e150])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_no_row_leaves_the_ball(d, radius, shape):
    assert_inside(Lattice(Frame(d), radius, shape).integers(hard_rows(d, radius)))


@FIXED
@given(
    st.integers(1, 6).flatmap(
        lambda d: arrays(float, (5, d), elements=st.floats(allow_nan=False, allow_infinity=False))
    )
)
def test_no_row_leaves_the_ball_nor_looks_at_another(block):
    d = block.shape[1]
    for lattice in (Lattice(Frame(d), 1.0), Lattice(Frame(d), 1e12), unit_lattice(Frame(d))):
        whole = lattice.integers(block)
        assert_inside(whole)
        for i in range(len(block)):
            assert lattice.integers(block[i : i + 1]).tobytes() == whole[i : i + 1].tobytes()
        assert lattice.integers(block[::-1]).tobytes() == whole[::-1].tobytes()


@pytest.mark.parametrize("d", [2, 7, 100, 2000])
def test_twin_rounding_without_the_margin_leaves_the_ball(d):
    rows = hard_rows(d, 1.0)[:180]
    naive = np.rint(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0) * LEVELS)
    with pytest.raises(AssertionError):
        assert_inside(naive)


@pytest.mark.parametrize("d", [2, 7, 100, 2000])
def test_the_check_holds_even_where_the_margin_is_wrong(d):
    class NoMargin(Lattice):
        inner = LEVELS * 1.01

    assert_inside(NoMargin(Frame(d), 1.0).integers(hard_rows(d, 1.0)))
    assert_inside(NoMargin(Frame(d), 1.0, "sphere").integers(hard_rows(d, 1.0)))


@pytest.mark.parametrize("shape", ["ball", "sphere"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_the_check_holds_even_where_a_frame_breaks_its_promise(bad, shape):
    class Broken(Frame):
        def image(self, block):
            return block

    rows = np.array([[bad, 1.0], [3.0, 4.0]])
    with np.errstate(all="ignore"):
        lattice = Lattice(Broken(2), 1.0, shape).integers(rows)
    assert_inside(lattice)
    assert lattice[1].tobytes() == Lattice(Frame(2), 1.0, shape).integers(rows[1:]).tobytes()


@pytest.mark.parametrize("d", DIMENSIONS)
def test_rows_on_the_sphere_have_nearly_the_full_length(d):
    rows = hard_rows(d, 1.0)
    rows = rows[rows.any(axis=1)]
    norms = np.sqrt(np.array(squared_norms(unit_lattice(Frame(d)).integers(rows)), dtype=float))
    # lost: the margin, rounding again by half a step per entry, and twice the inaccuracy of the norm
    lost = 1 + math.sqrt(d) + 2 * LEVELS * math.sqrt(d) * 2.0 ** -exact_bits(d)
    assert norms.min() >= LEVELS - lost
    assert lost < 0.003 * LEVELS


@pytest.mark.parametrize("d", DIMENSIONS)
def test_zero_rows_stay_zero(d):
    for lattice in (Lattice(Frame(d), 2.0), unit_lattice(Frame(d)), Lattice(Frame(d), 1e-300)):
        assert not lattice.integers(np.zeros((3, d))).any()
    dropped = Lattice(Frame(d, missing="drop"), 1.0)
    assert not dropped.integers(np.full((1, d), np.nan)).any()


@pytest.mark.parametrize("radius", [1.0, 7.3e-5, 1e100])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_rows_within_the_radius_are_rounded_to_nearest(d, radius):
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((50, d))
    rows *= radius * rng.uniform(0, 1, (50, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    lattice = Lattice(Frame(d), radius)
    error = np.abs(lattice.integers(rows) - rows / lattice.step)
    assert error.max() <= 0.5 + 1e-10
    assert lattice.step == pytest.approx(radius / LEVELS, rel=0.001)
    assert lattice.step > radius / LEVELS


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("magnitude", [1.5, 1e10, 1e290])
def test_clipped_rows_keep_their_direction(d, magnitude):
    rows = np.random.default_rng(d).standard_normal((40, d))
    rows *= magnitude / np.linalg.norm(rows, axis=1, keepdims=True)
    for lattice in (Lattice(Frame(d), 1.0), unit_lattice(Frame(d))):
        wanted = lattice.inner * rows / magnitude
        steps = 1.0 if magnitude == 1.5 and lattice.shape == "ball" else 0.5  # not much too long: rounded twice
        allowed = steps + 1.01 * np.abs(wanted) * math.sqrt(d) * 2.0 ** -exact_bits(d)
        assert (np.abs(lattice.integers(rows) - wanted) <= allowed).all()


@pytest.mark.parametrize("value", [1e300, 1e-300, 5e-324, 2.2e-308, LARGEST])
def test_any_magnitude_has_a_direction(value):
    lattice = unit_lattice(Frame(2)).integers(np.array([[value, value], [value, -value], [0.0, -value]]))
    assert np.array_equal(lattice, [[741454, 741454], [741454, -741454], [0, -1048574]])
    ball = Lattice(Frame(2), 1.0).integers(np.array([[value, -value]]))
    assert np.array_equal(ball, [[741454, -741454]] if value > 1 else [[0, 0]])


def test_the_callers_array_is_never_changed():
    rows = hard_rows(7, 1.0)
    before = rows.tobytes()
    rows.setflags(write=False)
    for lattice in (Lattice(Frame(7), 1.0), unit_lattice(Frame(7))):
        out = lattice.integers(rows)
        assert not np.shares_memory(out, rows)
        out[:] = 0.0
    assert rows.tobytes() == before


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_rows_are_refused_or_dropped_whatever_the_path(bad):
    rows = hard_rows(3, 1.0)
    clean = rows.copy()
    rows[[4, -1], 1] = bad
    facts = {"center": np.ones(3), "weights": np.array([0.0, 1.0, 1e10]), "box": (np.full(3, -1.0), np.full(3, 2.0))}
    for chosen in ([], ["center"], ["weights"], ["center", "weights"], ["box"], list(facts)):
        arguments = {name: facts[name] for name in chosen}
        for shape in ("ball", "sphere"):
            with pytest.raises(BadRowsError, match="missing="):
                Lattice(Frame(3, **arguments), 1.0, shape).integers(rows)
            dropped = Lattice(Frame(3, **arguments, missing="drop"), 1.0, shape).integers(rows)
            expected = Lattice(Frame(3, **arguments), 1.0, shape).integers(clean)
            expected[[4, -1]] = 0.0
            assert np.array_equal(dropped, expected)


def test_the_quick_path_gives_the_same_integers():
    class Slow(Frame):
        def quick_image(self, block):
            return None

    box = (np.full(7, -0.01), np.full(7, 0.02))
    facts = {"center": np.full(7, 0.3), "weights": np.geomspace(1e-3, 1e200, 7), "box": box, "pairs": True}
    rows = hard_rows(7, 1.0)
    for chosen in ([], ["center"], ["weights"], ["center", "weights"], ["box"], ["box", "center"], ["pairs"]):
        arguments = {name: facts[name] for name in chosen}
        for radius in (1.0, 1e-5, 1e100):
            quick = Lattice(Frame(7, **arguments), radius).integers(rows)
            assert quick.tobytes() == Lattice(Slow(7, **arguments), radius).integers(rows).tobytes()
            assert_inside(quick)


@pytest.mark.parametrize("shape", [(5, 1), (5, 4), (3,), (2, 2, 3)])
def test_blocks_of_the_wrong_shape_are_refused_whatever_the_path(shape):
    # one column would otherwise be stretched over a centre of three
    for frame in (Frame(3), Frame(3, center=np.zeros(3)), Frame(3, weights=np.ones(3)), Frame(3, pairs=True)):
        for lattice in (Lattice(frame, 1.0), unit_lattice(frame)):
            with pytest.raises(ValueError, match=r"expected \(rows, 3\)"):
                lattice.integers(np.full(shape, 0.1))


def test_scores_go_on_the_lattice_too():
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((7, 3)))[0].T
    score = ScoreFrame(Frame(7, weights=np.full(7, 2.0)), basis, residual=True)
    lattice = Lattice(score, 1.0)
    assert lattice.n_columns == 4
    rows = hard_rows(7, 1.0)
    assert_inside(lattice.integers(rows))
    inside = np.random.default_rng(1).standard_normal((20, 7)) / 20
    lengths = row_norms(lattice.integers(inside)) * lattice.step
    assert np.allclose(lengths, 2 * np.linalg.norm(inside, axis=1), rtol=1e-4)  # scores and rest hold the length


def test_sums_of_exact_rows_fit_in_a_double():
    assert EXACT_ROWS * LEVELS**2 <= 2**53
