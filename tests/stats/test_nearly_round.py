"""The quick bound on the length of transformed rows: never too small, and used without changing any sum."""

import numpy as np
import pytest

from dpeigen.stats import Frame, Lattice, whole
from dpeigen.stats.nearly_round import NearlyRound, nearly_round
from dpeigen.stats.nested import ShortenedMoment
from dpeigen.stats.stretch import WhitenedRows

SPECTRA = {
    "round": lambda d: np.ones(d),
    "a few long": lambda d: np.r_[np.geomspace(0.01, 0.2, 5), np.linspace(0.9, 1.0, d - 5)],
    "nearly round": lambda d: np.linspace(0.75, 1.0, d),
}


def basis(d, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def rows_of(matrix, limit, near, seed=0, n=500):
    """Integer rows whose images have lengths near the limit, in all directions that T stretches differently."""
    rng, d = np.random.default_rng(seed), len(matrix)
    images = rng.normal(size=(n, d)) * rng.choice([0.0, 1.0], p=[0.3, 0.7], size=(n, d))
    images[:d] = np.eye(d)
    images *= (limit * near / np.linalg.norm(images, axis=1))[:, None]
    return np.rint(np.linalg.solve(matrix, images.T).T)


def exact_lengths(matrix, rows):
    return np.linalg.norm(rows.astype(np.longdouble) @ matrix.T.astype(np.longdouble), axis=1)


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("d", [40, 57, 200])
def test_no_row_outside_is_taken_for_one_inside(spectrum, d):
    matrix = SPECTRA[spectrum](d)[:, None] * basis(d, 1)
    limit, bound = 2.0**14, nearly_round(matrix)
    for near in (1 - 1e-6, 1.0, 1 + 1e-6, 1 + 1e-4, 1.1):
        rows = rows_of(matrix, limit, near)
        assert np.abs(rows).max() <= 2**21
        outside = np.flatnonzero(exact_lengths(matrix, rows) > limit)
        assert np.isin(outside, bound.beyond(rows.astype(np.float32), limit)).all()


def test_a_bound_without_room_for_rounding_is_found_out():
    d = 200
    matrix, limit = SPECTRA["round"](d)[:, None] * basis(d, 1), 2.0**14
    bound, rows = nearly_round(matrix), rows_of(matrix, limit, 1 + 1e-6)
    outside = np.flatnonzero(exact_lengths(matrix, rows) > limit)
    smaller = NearlyRound(bound.whole * (1 - 1e-4), bound.parts)
    assert not np.isin(outside, smaller.beyond(rows.astype(np.float32), limit)).all()


def test_most_rows_inside_are_shown_to_be():
    d = 100
    matrix = SPECTRA["a few long"](d)[:, None] * basis(d, 2)
    bound, images = nearly_round(matrix), np.random.default_rng(0).normal(size=(5000, d)) * 2**10
    rows = np.rint(np.linalg.solve(matrix, images.T).T).astype(np.float32)
    assert bound.parts.shape == (d, 8)
    assert len(bound.beyond(rows, 1.2 * np.sqrt(d) * 2**10)) < 0.05 * len(rows)
    assert len(bound.beyond(rows, 0.0)) == len(bound.beyond(rows, -1.0)) == len(rows)


def test_there_is_no_bound_where_it_would_not_be_tight():
    d = 100
    assert nearly_round(np.geomspace(1e-3, 1.0, d)[:, None] * basis(d, 3)) is None
    assert nearly_round(np.zeros((d, d))) is None


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_sums_are_the_same_with_and_without_the_bound(spectrum, kind, monkeypatch):
    d, n = 40, 7000
    rng = np.random.default_rng(4)
    view = WhitenedRows(
        Frame(d, np.zeros(d), np.ones(d), (np.full(d, -3.0), np.full(d, 3.0))), basis(d, 5), SPECTRA[spectrum](d)
    )
    rows = rng.normal(size=(n, d)).astype(kind)
    lengths = np.linalg.norm(view.image(rows), axis=1)
    # Radii that leave nobody outside, a few rows, many, and nearly all.
    for radius in (1.1 * lengths.max(), *np.quantile(lengths, [0.99, 0.8, 0.1])):
        lattice = Lattice(view, float(radius))
        assert lattice.turn.quick is not None
        found = ShortenedMoment(lattice, float(radius), 3).update(rows).augmented
        with monkeypatch.context() as context:
            context.setattr(whole.Turn, "quick", None)
            expected = ShortenedMoment(lattice, float(radius), 3).update(rows).augmented
        np.testing.assert_array_equal(found, expected)
