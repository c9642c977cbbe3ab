"""Rows of a person clipped together (``max_rows``): one factor, one radius, on the integers, wherever the rows lie."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dpeigen import PrivateCovariance, PrivatePCA
from dpeigen.privacy.budget import Relation
from dpeigen.privacy.randomness import randomness
from dpeigen.sources import UnreadableRowsError, open_source
from dpeigen.sources.choosing import UnitLimits, placed
from dpeigen.sources.joint import WholePeople
from dpeigen.stats import Frame, Lattice, NormHistogram, RowSums, SecondMoment
from dpeigen.stats import units as units_module
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.nested import NestedMoment
from dpeigen.stats.norms import GRID
from dpeigen.stats.together import joint_lengths, with_joint_lengths
from dpeigen.stats.units import UnitBlock, slack_of

from .test_bad_people import RADIUS, STATISTICS, block, hostile, numbers, worst

M = 4
FIRST = float(GRID[np.searchsorted(GRID, 0.5)])
NESTED = Lattice(Frame(3), 2.0)


def capped(people, most=M):
    return block([person[:most] for person in people], capped=most)


# --- what is computed -----------------------------------------------------------------------------------------------


def reference(person, radius, lattice, most=M):
    """One factor for all rows, in plain arithmetic: what the integers come close to."""
    length = math.sqrt(sum(float(row @ row) for row in person) / most)
    return person * (min(1.0, radius / length) if length else 1.0) / math.sqrt(most) / lattice.step


@pytest.mark.parametrize("d", [1, 3, 40])
def test_all_rows_of_a_person_are_shortened_by_one_factor(d):
    rng, lattice = np.random.default_rng(0), Lattice(Frame(d), RADIUS)
    for _ in range(40):
        person = rng.normal(size=(int(rng.integers(1, M + 1)), d)) * 10.0 ** rng.uniform(-2, 3)
        found = lattice.integers(with_joint_lengths(capped([person]), (Frame(d),)))
        # Rounding moves an entry by half a step; rows that are shortened keep √d/2 + 1 steps from their limit.
        assert np.abs(found - reference(person, RADIUS, lattice)).max() <= math.sqrt(d) + 3
        assert int((found.astype(np.int64) ** 2).sum()) <= LEVELS**2 - slack_of(d)


def test_long_rows_stay_where_the_person_has_few():
    """One row of twice the radius is within what four rows may have together; clipped by itself it was not."""
    lattice = Lattice(Frame(2), 1.0)
    row = np.array([[2.0 - 1e-4, 0.0]])
    found = SecondMoment(lattice).update(capped([row]))
    assert np.asarray(found)[0, 0] * M == pytest.approx(4.0, rel=1e-3)


def test_signs_and_rows_in_a_box_need_no_lengths():
    box = Lattice(Frame(2, box=(np.full(2, -1.0), np.full(2, 1.0))), math.sqrt(2.0))
    assert not box.clips
    assert Lattice(Frame(2, box=(np.full(2, -1.0), np.full(2, 1.0))), 1.4).clips
    assert SecondMoment(box).joint_views == ()
    assert STATISTICS["signs"](2).joint_views == ()


def test_joint_lengths_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    norms, whose = np.exp(rng.normal(size=4000) * 20), rng.integers(0, 300, 4000)
    one, order = joint_lengths(norms, whose, 300, np.full(300, 40)), rng.permutation(4000)
    other = joint_lengths(norms[order], whose[order], 300, np.full(300, 40))
    assert (one.sums == other.sums).all()
    assert (one.lengths == other.lengths).all()
    exact = np.sqrt(np.bincount(whose, weights=norms**2, minlength=300) / 40)
    np.testing.assert_allclose(one.lengths, exact, rtol=1e-9)


def test_rows_of_no_length_and_of_any_length():
    for norms in ([0.0, 0.0], [0.0, 1e308], [1e-320, 0.0], [np.finfo(float).max] * 2):
        found = joint_lengths(np.array(norms), np.zeros(2, dtype=int), 1, np.array([2]))
        limits = found.of(np.array(norms), np.zeros(2, dtype=int), np.array([True, False])).squared_limits(LEVELS**2, 3)
        assert np.isfinite(limits).all()
        assert limits.sum() <= LEVELS**2


# --- what a person moves ---------------------------------------------------------------------------------------------


def test_the_squares_of_a_person_stay_within_the_radius_however_many_rows_are_kept():
    rng = np.random.default_rng(2)
    for most in (1, 2, 7, 3000):
        for d in (1, 3, 40):
            person = hostile(rng, d)[:most]
            found = Lattice(Frame(d), RADIUS).integers(with_joint_lengths(capped([person], most), (Frame(d),)))
            assert int((found.astype(np.int64) ** 2).sum()) <= LEVELS**2 - slack_of(d)


@pytest.mark.parametrize("fault", ["one by one", "a person taken for two", "of someone else"])
def test_planted_faults_are_found(fault, monkeypatch):
    def made(people):
        people = [person[:M] for person in people]
        if fault == "a person taken for two":
            return block([half for person in people for half in (person[::2], person[1::2]) if len(half)], capped=M)
        return block(people, capped=M)

    if fault == "one by one":  # each row may have what all of them may have
        monkeypatch.setattr(
            units_module.Together, "squared_limits", lambda self, square, d: np.full(len(self.parts), float(square))
        )
    if fault == "of someone else":  # the parts are not those of the person's own sum
        monkeypatch.setattr(
            units_module.Together,
            "squared_limits",
            lambda self, square, d: np.floor(self.parts * (square / self.sums[:1])),
        )
    assert worst("moment", Relation.ADD_REMOVE, 2, make=made) > 1.5


def lengths_of_people(people):
    return [NormHistogram(Frame(3)).update(capped(people)), NestedMoment(NESTED, FIRST).update(capped(people))]


def test_a_person_moves_counts_of_lengths_by_one_and_all_one_way():
    rng = np.random.default_rng(3)
    others = [rng.normal(size=(int(rng.integers(1, 5)), 3)) for _ in range(6)]
    changes = set()
    for _ in range(60):
        first, second = hostile(rng, 3), hostile(rng, 3)
        tables = [lengths_of_people([*others, person]) for person in (first, second)]
        for one, other in zip(*tables, strict=True):
            assert one.people == other.people == 7
            change = one.cumulative - other.cumulative
            assert set(change.tolist()) <= {0, 1} or set(change.tolist()) <= {0, -1}
            changes |= set(change.tolist())
    assert changes == {-1, 0, 1}


def test_fault_rows_counted_in_place_of_people():
    """What the histogram of all rows would do: a person with four rows moves counts by four."""
    found = [NormHistogram(Frame(3)).update(np.full((rows, 3), 0.5)).cumulative.max() for rows in (1, 4)]
    assert found[1] - found[0] > 1


def test_moments_within_any_radius_hold_all_rows_of_a_person():
    rng = np.random.default_rng(4)
    for _ in range(20):
        person = hostile(rng, 3)
        for radius in GRID[(GRID >= FIRST) & (NESTED.radius >= GRID)]:
            moment = NestedMoment(NESTED, FIRST).update(capped([person])).within(float(radius), 7)
            assert np.trace(moment.gram) <= moment.levels**2
            assert (moment.augmented[0, 1:].astype(float) ** 2).sum() <= (7 * moment.levels) ** 2
            assert moment.augmented[0, 0] <= 49


# --- wherever the rows lie -------------------------------------------------------------------------------------------


def test_rows_in_the_order_of_a_table_are_as_if_each_person_came_at_once():
    rng = np.random.default_rng(5)
    people = [rng.normal(size=(int(m), 3)) * 3 for m in rng.integers(1, M + 1, 200)]
    whole = capped(people)
    order = rng.permutation(len(whole))
    frame = pd.DataFrame(whole.rows[order], columns=list("abc")).assign(who=whole.whose[order])
    for make in [*STATISTICS.values(), lambda d: NormHistogram(Frame(d))]:
        source = open_source(frame, unit="who")
        source.max_rows = M
        source.choose(randomness(None))
        found, expected = source.reduce(make(3)), make(3).update(whole)
        if isinstance(found, NormHistogram):
            assert (found.counts == expected.counts).all()
        else:
            assert (numbers(found) == numbers(expected)).all()
        assert found.count == expected.count == 200
        assert source.passes == 1  # lengths are no pass: nothing is drawn from them


def test_lengths_are_those_of_the_rows_that_are_kept_and_of_the_view_that_is_asked():
    rows = np.column_stack([np.arange(1.0, 101.0), np.ones(100)])
    source = open_source(pd.DataFrame(rows, columns=["a", "b"]).assign(who=np.arange(100) % 5), unit="who")
    source.max_rows = 3
    source.choose(randomness(None))
    one, two = (source.reduce(NormHistogram(Frame(2, center=np.full(2, c)))).counts for c in (0.0, 1e6))
    assert one.sum() == two.sum() == 5
    assert (one != two).any()
    divided = source.mapped(lambda block: np.asarray(block) / 1e3, ["a", "b"])
    third = divided.reduce(NormHistogram(Frame(2))).counts
    assert third.sum() == 5
    assert (third != one).any()


def batches(parts):
    """Blocks of (person, rows of theirs) as an engine sends them."""
    for part in parts:
        whose, sizes, places = (np.array(column) for column in zip(*part, strict=True))
        yield placed(np.ones((len(part), 2)), UnitLimits(3, False), whose, sizes, places, np.zeros(len(part)))


def test_rows_wait_until_their_person_is_complete():
    people = WholePeople()
    parts = [[(1, 2, 1), (2, 5, 1)], [(2, 5, 2), (1, 2, 2)], [(2, 5, 4), (2, 5, 5)], [(2, 5, 3), (3, 1, 1)]]
    assert [len(people(found)) for found in batches(parts)] == [0, 2, 0, 4]  # of five rows three are used
    people.check()
    people = WholePeople()
    (found,) = batches([[(1, 2, 1)]])
    assert not len(people(found))
    with pytest.raises(UnreadableRowsError, match="came together"):
        people.check()


def test_rows_without_their_people_are_not_clipped_together():
    bare = UnitBlock(np.ones((3, 2)), np.full(3, M), np.arange(3) == 0, True)
    with pytest.raises(AssertionError, match="all rows of their people"):
        RowSums(Lattice(Frame(2), 1.0)).update(bare)


# --- what it is good for ---------------------------------------------------------------------------------------------


def few_rows(people=4000, seed=0):
    """People with one or two rows, where up to ten are allowed."""
    rng = np.random.default_rng(seed)
    whose = np.repeat(np.arange(people), rng.integers(1, 3, people))
    return pd.DataFrame(rng.normal(size=(len(whose), 4)) * [2.0, 1.0, 1.0, 1.0], columns=list("abcd")).assign(who=whose)


def test_people_with_few_rows_cost_no_more_noise_than_these():
    """Where ten rows are allowed, people count as one or two, as many as they have."""
    options = {"epsilon": 4.0, "delta": 1e-6, "unit": "who", "max_rows": 10, "random_state": 0}
    for relation in ("replace", "add_remove"):
        fit = PrivateCovariance(method="gaussian", bound="private", relation=relation, **options).fit(few_rows())
        assert fit.release_.facts["rows_that_count"] <= 2
        assert fit.release_.facts["radius"] < 6
        np.testing.assert_allclose(np.diag(fit.covariance_), [4, 1, 1, 1], rtol=0.35)


@pytest.mark.parametrize("method", ["auto", "gaussian", "eigenvector-sampling", "kapralov-talwar", "spatial-sign"])
def test_variances_may_exceed_the_square_of_the_joint_radius(method):
    """Rows are longer than the joint length of a person who has fewer than ten: no result is cut to the radius."""
    bound = {} if method == "auto" else {"bound": "private"}
    options = {"epsilon": 60.0, "delta": 1e-6, "unit": "who", "max_rows": 10, "random_state": 0, "method": method}
    found = PrivatePCA(2, **options, **bound).fit(few_rows())
    assert found.explained_variance_[0] == pytest.approx(4.0, rel=0.25)


def test_the_guarantee_and_the_card_say_it(tmp_path):
    from dpeigen.report import write_card

    options = {"epsilon": 4.0, "delta": 1e-6, "unit": "who", "max_rows": 10, "bound": "private", "method": "gaussian"}
    release = PrivatePCA(1, **options).fit(few_rows(800)).release_
    assert "clipped together" in str(release.guarantee)
    write_card(release, tmp_path / "card.html")
    texts = [path.read_text() for path in (tmp_path / "card.html").glob("*.html")]
    assert any("joint norm that all rows of one unit were clipped to" in text for text in texts)


def test_more_rows_of_a_person_than_the_lattice_can_tell_apart_are_refused():
    with pytest.raises(ValueError, match="max_rows"):
        PrivatePCA(1, epsilon=1.0, unit="who", max_rows=2**20 + 1).fit(few_rows(50))
