"""Generalised signs of rows: what they are, that a row's image is its own, and that no pair changes sums by more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpeigen.privacy.budget import Relation
from dpeigen.stats import Frame, RowSums, SecondMoment
from dpeigen.stats.generalised import SignFrame, SplitSigns, WeighedSigns
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.stretch import Stretched
from dpeigen.stats.transform import Tabulated, Transform, redescending, winsorized_redescending

C = 2.0
TRANSFORMS = {
    "spherical": (Transform(), lambda s: 1.0),
    "winsorized": (Transform("winsorized", C), lambda s: min(s, C)),
    "redescending": (redescending(C), lambda s: min(1.0, (C / s) ** 4)),
    "winsorized-redescending": (winsorized_redescending(C), lambda s: min(s, C * (C / s) ** 4)),
    "shell": (
        Transform("custom", 1.0, Tabulated(lambda s: np.exp(-((s - 1) ** 2)), 1.0)),
        lambda s: math.exp(-((s - 1) ** 2)),
    ),
}


def rows_of(rng, n, d):
    """Of every size, some of them 0, equal, or absurdly long."""
    rows = rng.normal(size=(n, d)) * np.exp(rng.normal(scale=3.0, size=(n, 1)))
    rows[0], rows[1], rows[2], rows[3] = 0.0, 1.7e308, -5e-324, rows[4]
    return rows


@pytest.mark.parametrize("name", TRANSFORMS)
def test_images_are_those_of_the_formula(name):
    transform, xi = TRANSFORMS[name]
    rows = rows_of(np.random.default_rng(0), 60, 3)[4:]
    lengths = np.linalg.norm(rows, axis=1)
    expected = np.array([xi(s) for s in lengths])[:, None] * rows / lengths[:, None] / transform.radius
    np.testing.assert_allclose(SignFrame(Frame(3), transform).image(rows), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_an_image_is_finite_short_and_depends_on_its_row_alone(name):
    view = SignFrame(Frame(4, np.full(4, 0.3)), TRANSFORMS[name][0])
    rows = rows_of(np.random.default_rng(1), 300, 4)
    together = view.image(rows)
    assert np.isfinite(together).all()
    assert np.linalg.norm(together, axis=1).max() < 1 + 1e-5  # the lattice then clips to exactly 1
    for j in (0, 1, 2, 3, 77, 299):
        np.testing.assert_array_equal(view.image(rows[j : j + 1])[0], together[j])
    np.testing.assert_array_equal(view.image(rows[100:]), together[100:])


@pytest.mark.parametrize("relation", [Relation.REPLACE, Relation.ADD_REMOVE])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_no_pair_of_rows_changes_a_sum_by_more_than_is_claimed(name, relation):
    """Random and known bad pairs at every length, stretched rows among them; the worst is near the claim."""
    rng, transform = np.random.default_rng(2), TRANSFORMS[name][0]
    stretched = Stretched(Frame(3), np.eye(3)[:1], np.array([0.2]))
    worst = 0.0
    for frame in (Frame(3), stretched):
        view = SignFrame(frame, transform)
        moment, sums = SecondMoment(view.lattice), RowSums(view.lattice)
        directions = [np.eye(3)[0], np.eye(3)[1], -np.eye(3)[0], *rng.normal(size=(20, 3))]
        lengths = [0.0, 1e-300, 0.5, 1.0, C * (1 - 1e-12), C, C * (1 + 1e-12), 3 * C, 1e300]
        rows = np.array([x / np.linalg.norm(x) * s for x in directions for s in lengths])
        z = view.lattice.integers(rows)
        other = z[rng.permutation(len(z))] if relation is Relation.REPLACE else np.zeros_like(z)
        pairs = [(z, other), (z, np.roll(z, 9, axis=0)), (z, np.roll(z, -18, axis=0))]
        for x, y in pairs if relation is Relation.REPLACE else pairs[:1]:
            changes = np.einsum("ij,ik->ijk", x, x) - np.einsum("ij,ik->ijk", y, y)
            largest = np.linalg.norm(changes, axis=(1, 2)).max()
            assert largest <= moment.frobenius_sensitivity(relation) * (1 + 1e-12)
            worst = max(worst, largest / moment.frobenius_sensitivity(relation))
            reach = (2 if relation is Relation.REPLACE else 1) * LEVELS
            assert np.linalg.norm(x - y, axis=1).max() <= reach
        assert sums.update(rows).count == len(rows)
    assert worst > 0.99  # the search would see a claim that is 1% too small


def test_split_signs_are_both_parts_of_a_sign():
    rows = rows_of(np.random.default_rng(3), 80, 3)
    image = SplitSigns(Frame(3), redescending(C)).image(rows)
    near, far = image[:, :3], image[:, 3:]
    np.testing.assert_allclose(near, SignFrame(Frame(3), redescending(C)).image(rows), rtol=1e-12)
    whole = SignFrame(Frame(3), Transform()).image(rows)
    np.testing.assert_allclose(near.T @ near + far.T @ far, whole.T @ whole, atol=1e-9)
    for j in (0, 1, 2, 3, 41):
        np.testing.assert_array_equal(SplitSigns(Frame(3), redescending(C)).image(rows[j : j + 1])[0], image[j])


def test_no_pair_of_rows_changes_a_sum_of_split_signs_by_more_than_is_claimed():
    rng = np.random.default_rng(4)
    lattice = SplitSigns(Frame(3), redescending(C)).lattice
    directions = [np.eye(3)[0], np.eye(3)[1], *rng.normal(size=(20, 3))]
    lengths = [0.0, 1e-300, 0.5, C, 1.01 * C, 1.1 * C, 2 * C, 1e300]
    z = lattice.integers(np.array([x / np.linalg.norm(x) * s for x in directions for s in lengths]))
    assert (z * z).sum(axis=1).max() <= LEVELS**2
    products = np.einsum("ij,ik->ijk", z, z).reshape(len(z), -1)
    changes = np.linalg.norm(products[:, None] - products[None], axis=2)
    claim = SecondMoment(lattice).frobenius_sensitivity(Relation.REPLACE)
    assert 0.99 * claim < changes.max() <= claim * (1 + 1e-12)  # the search would see a claim that is 1% too small


def test_rows_far_beyond_the_cutoff_count_next_to_nothing_and_signs_do_not():
    far = np.array([[1e3 * C, 0.0]])
    for transform, most in ((redescending(C), 1.1e-12), (winsorized_redescending(C), 1.1e-12)):
        assert np.linalg.norm(SignFrame(Frame(2), transform).image(far)) < most
    assert np.linalg.norm(SignFrame(Frame(2), Transform()).image(far)) > 0.999


def test_transforms_are_continuous_at_the_cutoff_and_bounded():
    s = np.concatenate([np.geomspace(1e-9, 1e9, 2001), C * (1 + np.linspace(-1e-6, 1e-6, 101))])
    s.sort()
    for transform in (redescending(C), winsorized_redescending(C)):
        gains = transform.gains(s)
        assert 0 <= gains.min() <= gains.max() <= 1
        near = np.abs(s / C - 1) < 1e-5
        assert np.ptp(gains[near]) < 1e-5


WINSORIZED = ("winsorized", "winsorized-redescending")


@pytest.mark.parametrize("name", WINSORIZED)
def test_weighed_signs_show_how_much_of_each_row_is_left(name):
    transform, xi = TRANSFORMS[name]
    view = WeighedSigns(Frame(3), transform)
    rows = rows_of(np.random.default_rng(4), 60, 3)
    found, lengths = view.image(rows), np.linalg.norm(rows[4:], axis=1)
    assert found.shape == (60, view.n_columns) == (60, 4)
    weights = np.array([xi(s) / s for s in lengths])
    np.testing.assert_allclose(found[4:, 3], view.kappa * weights, rtol=1e-4)
    plain = SignFrame(Frame(3), transform).image(rows)
    np.testing.assert_allclose(found[:, :3], math.sqrt(1 - view.kappa**2) * plain, rtol=1e-12)
    assert np.isfinite(found).all()
    assert found[0, 3] == view.kappa  # a row at the centre is whole
    assert np.linalg.norm(found, axis=1).max() < 1 + 1e-5
    np.testing.assert_array_equal(view.image(rows[7:9]), found[7:9])  # a function of each row alone


@pytest.mark.parametrize("relation", [Relation.REPLACE, Relation.ADD_REMOVE])
@pytest.mark.parametrize("name", WINSORIZED)
def test_no_pair_of_rows_changes_a_sum_of_weighed_signs_by_more_than_is_claimed(name, relation):
    lattice = WeighedSigns(Frame(3), TRANSFORMS[name][0]).lattice
    rows = rows_of(np.random.default_rng(6), 400, 3)
    images = lattice.integers(rows)
    reach = LEVELS * (2 if relation is Relation.REPLACE else 1)
    changes = images - images[::-1] if relation is Relation.REPLACE else images
    assert 0.4 * reach < np.linalg.norm(changes, axis=1).max() <= reach
