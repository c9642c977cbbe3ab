"""Tables and parameters that once cost a budget without an answer, and accounts of `whitened` that must hold."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen import PrivateCovariance
from dpeigen.curator import DataCurator
from dpeigen.estimators.course import PaidCourse
from dpeigen.methods import Whitened
from dpeigen.methods.moment import whitened
from dpeigen.privacy import Budget, Relation
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.sources import ArraySource
from dpeigen.stats import BadRowsError, Frame
from dpeigen.stats.spectrum import symmetric_eigh


def fitted(rows, **options):
    options = {"epsilon": 100.0, "delta": 1e-6, "random_state": 0, "method": "whitened", **options}
    return PrivateCovariance(**options).fit(rows)


class Counting(SeededRandomness):
    """Counts the integers that are drawn with Gaussian noise."""

    drawn = 0

    def discrete_gaussian(self, scale, size):
        self.drawn += size
        return super().discrete_gaussian(scale, size)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_discrete_noise_is_allowed_for_as_often_as_it_is_drawn(relation, monkeypatch):
    allowed = []
    real = whitened.allocate
    monkeypatch.setattr(whitened, "allocate", lambda *a, **o: (allowed.append(o["coordinates"]), real(*a, **o))[1])
    rng = Counting(np.random.default_rng(0))
    rows = np.random.default_rng(1).normal(size=(3000, 4)) * [1, 1e-3, 1e-6, 1e-9] + [1e9, 1, 0, -1e6]
    fitted(rows, epsilon=60.0, center="private", relation=relation, random_state=rng)  # with δ, all of it
    assert 4 * 700 < rng.drawn <= min(allowed)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("far", [1e12, 1e149])
def test_rows_that_all_lie_far_from_the_origin(relation, far):
    """Their moment is of rank one to all the digits there are."""
    rows = far + 1e-12 * np.random.default_rng(0).normal(size=(3000, 4))
    for seed in range(5):
        found = fitted(rows, units="same", relation=relation, center=None, random_state=seed).release_
        assert np.isfinite(found.covariance).all()


@pytest.mark.parametrize("bound", [None, ([-1e149] * 2, [1e149] * 2)])
def test_units_in_which_variances_are_no_numbers_are_refused_before_anything_is_spent(bound):
    rows = np.random.default_rng(0).normal(size=(1000, 2))
    with pytest.raises(ValueError, match="The 'scale' parameter of PrivateCovariance must be") as found:
        fitted(rows, bound=bound, scale=[1e-120, 1.0])
    assert type(found.value) is ValueError


def test_eigenvalues_of_columns_in_very_different_units_are_found_at_all():
    units = np.array([1e-130, 1e20, 1e-145])
    values, rows = symmetric_eigh((np.eye(3) + 0.3) * np.outer(units, units))
    assert values[0] == pytest.approx(1.3e40)
    assert np.isfinite(rows).all()


def test_a_part_of_the_rows_is_never_empty():
    rows = np.random.default_rng(0).normal(size=(3000, 1))
    for seed in range(5):
        assert fitted(rows, method=Whitened(least_sample=100), epsilon=1e4, delta=0.0, random_state=seed).covariance_[
            0, 0
        ] == pytest.approx(1.0, rel=0.2)


def test_what_is_asked_of_a_part_of_the_rows_is_a_pass_over_them():
    """Else a failure after the first answers would be taken for one that costs nothing."""
    source = ArraySource(np.random.default_rng(0).normal(size=(3000, 2)))
    course = PaidCourse(source, None)
    curator = DataCurator(source, Relation.REPLACE, {}, Budget(1.0), SeededRandomness(np.random.default_rng(0)))
    part, share = curator.sample(0.5, Frame(2))
    assert share == 0.5
    assert not course.drawn
    part.seen(Frame(2))
    assert course.drawn


def test_a_bad_row_that_has_no_partner_is_refused_before_anything_is_spent():
    rows = np.random.default_rng(0).normal(size=(21, 2))
    rows[3, 0] = np.nan
    for seed in range(60):  # it sits out with probability 1/21: never in all of them, but for a chance of 5%
        with pytest.raises(BadRowsError):
            fitted(rows, random_state=seed)
