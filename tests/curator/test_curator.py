"""What was not declared and paid for is refused before a row is read, and the record is what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.curator import DataCurator, NotPaidForError, Purpose
from dpeigen.methods import Gaussian, KapralovTalwar, PrivateRank, Refined, SpatialSign, Task, Whitened
from dpeigen.methods.base import run_method
from dpeigen.privacy import (
    ApproximateCost,
    Budget,
    ConcentratedCost,
    GaussianCost,
    PureCost,
    Relation,
    compose_delta,
)
from dpeigen.privacy.histogram import tail_spend
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.questions import Count, Eigenvalues, GaussianLaw, Moment, RadiusHolding, RadiusLeaving, Ranges
from dpeigen.sources import ArraySource
from dpeigen.sources.memory import Batch
from dpeigen.stats import Frame, Lattice

D, N = 3, 600
X = np.random.default_rng(0).normal(size=(N, D)) * [3.0, 2.0, 1.0]
MOMENT = Moment(Lattice(Frame(D), 4.0), GaussianLaw())
RADIUS = RadiusHolding(Frame(D))


def seeded(seed=0):
    return SeededRandomness(np.random.default_rng(seed))


def task(relation=Relation.REPLACE, **changes):
    facts = Task(
        owner="test",
        n_features=D,
        n_components=2,
        budget=Budget(8.0, 1e-6),
        relation=relation,
        bound=4.0,
        center=None,
        n_rows=N if relation is Relation.REPLACE else None,
    )
    return replace(facts, **changes)


def curator_with(shares, *, source=None, budget=None, relation=Relation.REPLACE):
    return DataCurator(source or ArraySource(X), relation, shares, budget or Budget(50.0, 1e-3), seeded())


# --- methods with a fault -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadsTheSum(Gaussian):
    """Asks the curator for the exact sum."""

    def estimate(self, curator, task):
        curator.reduce(MOMENT.statistic())
        return super().estimate(curator, task)


@dataclass(frozen=True)
class ReadsTheRows(Gaussian):
    """Asks for the rows without having said that it holds any."""

    def estimate(self, curator, task):
        source, _ = curator.unprotected()
        return replace(super().estimate(curator, task), details={"sum": source.reduce(MOMENT.statistic()).gram})


@dataclass(frozen=True)
class SpendsUndeclared(Gaussian):
    """Pays for a radius that is not among its shares."""

    def estimate(self, curator, task):
        curator.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(0.01))
        return super().estimate(curator, task)


@dataclass(frozen=True)
class SpendsMore(Gaussian):
    """Draws half the noise that its share pays for."""

    def estimate(self, curator, task):
        cost = GaussianCost(2 * self.shares(task)[Purpose.MOMENT].mu)
        curator.measure(MOMENT, purpose=Purpose.MOMENT, cost=cost)
        return super().estimate(curator, task)


@dataclass(frozen=True)
class SpendsAnotherKind(Gaussian):
    """Pays with a pure cost for what it declared in Gaussian cost."""

    def estimate(self, curator, task):
        curator.measure(MOMENT, purpose=Purpose.MOMENT, cost=PureCost(0.01))
        return super().estimate(curator, task)


@dataclass(frozen=True)
class ChangesTheRelation(Gaussian):
    """Halves the sensitivity by saying that rows are added or removed."""

    def estimate(self, curator, task):
        curator.relation = Relation.ADD_REMOVE
        return super().estimate(curator, task)


@dataclass(frozen=True)
class RaisesTheBudget(Gaussian):
    """Gives itself a larger budget, and a part that uses it."""

    def estimate(self, curator, task):
        curator.budget = Budget(100.0, 1e-3)
        return super().estimate(curator.part({Purpose.MOMENT: GaussianCost(5.0)}), task)


@dataclass(frozen=True)
class PaysWithDebt(Gaussian):
    """Computes a cost that is below 0, so that its share would grow."""

    def estimate(self, curator, task):
        left = self.shares(task)[Purpose.MOMENT].mu
        curator.measure(MOMENT, purpose=Purpose.MOMENT, cost=GaussianCost(left - 2 * left))
        return super().estimate(curator, task)


@dataclass(frozen=True)
class PaysWithNoNumber(Gaussian):
    """Computes a cost that is no number: no comparison with its share is true."""

    def estimate(self, curator, task):
        curator.measure(MOMENT, purpose=Purpose.MOMENT, cost=GaussianCost(float("inf") * 0))
        return super().estimate(curator, task)


@dataclass(frozen=True)
class SpendsForAnother(Gaussian):
    """Pays under the purpose of another method, with a part that it makes for itself beside its own share."""

    def estimate(self, curator, task):
        shares = {Purpose.WHITENED_MOMENT: self.shares(task)[Purpose.MOMENT], **self.shares(task)}
        curator.part(shares).measure(MOMENT, purpose=Purpose.WHITENED_MOMENT, cost=shares[Purpose.MOMENT])
        return super().estimate(curator, task)


FAULTS = {
    ChangesTheRelation: AttributeError,
    RaisesTheBudget: AttributeError,
    PaysWithDebt: ValueError,
    PaysWithNoNumber: ValueError,
    SpendsForAnother: NotPaidForError,
    ReadsTheSum: AttributeError,
    ReadsTheRows: NotPaidForError,
    SpendsUndeclared: NotPaidForError,
    SpendsMore: NotPaidForError,
    SpendsAnotherKind: NotPaidForError,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda kind: kind.__name__)
def test_a_fault_is_refused_before_anything_is_measured(fault):
    source = ArraySource(X)
    with pytest.raises(FAULTS[fault]):
        run_method(fault(), source, task(), seeded())
    assert source.passes == 0
    assert run_method(Gaussian(), source, task(), seeded()).components.shape == (2, D)  # without the fault
    assert source.passes == 1


@pytest.mark.parametrize("fault", FAULTS, ids=lambda kind: kind.__name__)
def test_an_estimator_releases_nothing_of_a_method_with_a_fault(fault):
    pca = PrivatePCA(2, epsilon=8.0, delta=1e-6, bound=4.0, center=None, method=fault(), random_state=0)
    with pytest.raises(FAULTS[fault]):
        pca.fit(X)
    assert not hasattr(pca, "release_")


def test_one_purpose_cannot_be_spent_twice():
    """Not even on the same question, whose statistic is at hand: its answers together would hold less noise."""
    source = ArraySource(X)
    curator = curator_with({Purpose.MOMENT: GaussianCost(1.0)}, source=source)
    curator.measure(MOMENT, purpose=Purpose.MOMENT, cost=GaussianCost(1.0))
    for question, cost in ((MOMENT, GaussianCost(1.0)), (MOMENT, GaussianCost(1e-3)), (RADIUS, PureCost(1e-3))):
        with pytest.raises(NotPaidForError, match="more than what is left"):
            curator.measure(question, purpose=Purpose.MOMENT, cost=cost)
    assert source.passes == 1
    assert [spend.cost for spend in curator.split] == [GaussianCost(1.0)]


@dataclass(frozen=True)
class SpendsTwice(Gaussian):
    """Measures its moment once more, to average out the noise."""

    def estimate(self, curator, task):
        super().estimate(curator, task)
        return super().estimate(curator, task)


def test_a_method_that_spends_twice_is_refused_and_its_second_reading_never_happens():
    source = ArraySource(X)
    with pytest.raises(NotPaidForError, match="second moment"):
        run_method(SpendsTwice(), source, task(), seeded())
    assert source.passes == 1


# --- shares ---------------------------------------------------------------------------------------------------------

PARTIAL = [
    (GaussianCost(1.0), GaussianCost(0.6), GaussianCost(0.8)),  # in squares
    (PureCost(1.0), PureCost(0.25), PureCost(0.75)),
    (ConcentratedCost(1.0), ConcentratedCost(0.25), ConcentratedCost(0.75)),
]


def ask(curator, cost):
    """Some question that can be paid for in this kind of cost."""
    if isinstance(cost, PureCost):
        return curator.measure(RADIUS, purpose=Purpose.MOMENT, cost=cost)
    if isinstance(cost, GaussianCost):
        return curator.measure(MOMENT, purpose=Purpose.MOMENT, cost=cost)
    from dpeigen.questions import Directions

    concentration = math.sqrt(2 * cost.rho) * (1 - 1e-6)  # replacement: ρ = (2c)²/8
    question = Directions(MOMENT.lattice, 1e-9, (concentration,))
    return curator.measure(question, purpose=Purpose.MOMENT, cost=cost)


@pytest.mark.parametrize(("whole", "first", "second"), PARTIAL, ids=lambda cost: type(cost).__name__)
def test_partial_spends_of_a_share_add_up_to_it(whole, first, second):
    curator = curator_with({Purpose.MOMENT: whole})
    ask(curator, first)
    with pytest.raises(NotPaidForError):
        ask(curator, whole)
    ask(curator, second)
    with pytest.raises(NotPaidForError):
        ask(curator, type(whole)(1e-3))
    (spend,) = curator.split
    assert type(spend.cost) is type(whole)
    found, expected = (next(iter(vars(cost).values())) for cost in (spend.cost, whole))
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_share_of_another_kind_is_spent_at_once():
    share = ApproximateCost(1.0, 1e-6)
    curator = curator_with({Purpose.STEPS: share})
    with pytest.raises(NotPaidForError):
        curator.measure(RADIUS, purpose=Purpose.STEPS, cost=ApproximateCost(0.5, 1e-6))


# --- parts ----------------------------------------------------------------------------------------------------------


def test_a_part_refuses_shares_that_do_not_fit_the_budget():
    source = ArraySource(X)
    curator = curator_with({}, source=source, budget=Budget(1.0))
    with pytest.raises(NotPaidForError, match="more than the budget"):
        curator.part({Purpose.RADIUS: PureCost(0.6), Purpose.CENTER_RADIUS: PureCost(0.5)})
    first = curator.part({Purpose.RADIUS: PureCost(0.6)}, "first: ")
    first.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(0.6))
    with pytest.raises(NotPaidForError, match="more than the budget"):
        curator.part({Purpose.RADIUS: PureCost(0.5)})
    with pytest.raises(NotPaidForError, match="more than the budget"):
        first.part({Purpose.RADIUS: PureCost(0.5)})
    curator.part({Purpose.RADIUS: PureCost(0.4)}).measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(0.4))
    assert [(spend.purpose, spend.cost) for spend in curator.split] == [
        ("first: radius", PureCost(0.6)), ("radius", PureCost(0.4))
    ]  # fmt: skip
    assert source.passes == 2  # the part has a statistic of its own


def test_what_was_left_before_a_part_cannot_be_spent_beside_it():
    """Each of these fits the budget alone, and all of them together would be three times as much."""
    source, share = ArraySource(X), {Purpose.RADIUS: PureCost(1.0)}
    curator = curator_with(share, source=source, budget=Budget(1.0))
    first = curator.part(share)
    second = curator.part(share)
    for earlier in (curator, first):
        with pytest.raises(NotPaidForError, match="only the last part may spend"):
            earlier.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(1.0))
    assert source.passes == 0
    second.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(1.0))
    assert [spend.cost for spend in curator.split] == [PureCost(1.0)]


@dataclass(frozen=True)
class Halfway(Gaussian):
    """As if it released less than a whole covariance: the number of components is paid for first."""

    whole = False


@dataclass(frozen=True)
class Greedy(Halfway):
    """Declares ten times what it was given."""

    def shares(self, task):
        return {purpose: GaussianCost(10 * cost.mu) for purpose, cost in super().shares(task).items()}


@dataclass(frozen=True)
class GreedyInTheEnd(Halfway):
    """Declares more from the moment on at which the number of components is known."""

    def shares(self, task):
        costs = super().shares(task)
        return costs if task.n_components == 1 else {p: GaussianCost(10 * c.mu) for p, c in costs.items()}


class TwoComponents(PrivateRank):
    """Plans for one component and goes on with two."""

    def _inner_task(self, task, k, radius, center):
        return replace(super()._inner_task(task, 1, radius, center), n_components=2)


def test_a_method_inside_a_method_cannot_take_more_than_is_left():
    facts = task(n_components=1, private_rank=True)
    for inner in (Halfway(), Greedy()):
        split = run_method(PrivateRank(inner), ArraySource(X), facts, seeded()).split
        assert 0.99e-6 < compose_delta(split, 8.0) <= 1e-6
    source = ArraySource(X)
    with pytest.raises(NotPaidForError, match="more than the budget"):
        run_method(TwoComponents(GreedyInTheEnd()), source, facts, seeded())
    assert source.passes == 1  # that for the number of components, which was paid for


# --- the record -----------------------------------------------------------------------------------------------------

METHODS = [
    (Gaussian(), {"bound": "private", "center": "private"}),
    (SpatialSign(), {"bound": None, "center": "private"}),
    (Refined(), {"bound": None}),
    (Whitened(), {"bound": None}),
    (KapralovTalwar(), {}),
    (PrivateRank(Gaussian()), {"n_components": 1, "private_rank": True}),
]


def total(costs):
    """One number for costs of one kind: their sum, or the root of that of their squares."""
    kinds = {type(cost) for cost in costs}
    assert len(kinds) == 1
    numbers = [next(iter(vars(cost).values())) for cost in costs]
    return math.hypot(*numbers) if kinds == {GaussianCost} else math.fsum(numbers)


@pytest.mark.parametrize(("method", "facts"), METHODS, ids=lambda v: getattr(v, "name", ""))
@pytest.mark.parametrize("relation", list(Relation))
def test_the_recorded_split_is_what_was_measured(method, facts, relation, monkeypatch):
    measured, answered = [], DataCurator._answered

    def watched(self, question, cost):
        measured.append((question.mechanism(cost), cost))
        return answered(self, question, cost)

    monkeypatch.setattr(DataCurator, "_answered", watched)
    given = task(relation, **facts)
    estimate = run_method(method, ArraySource(X), given, seeded())
    for mechanism in {name for name, _ in measured}:
        recorded = [spend.cost for spend in estimate.split if spend.mechanism == mechanism]
        assert total(recorded) == pytest.approx(total([cost for name, cost in measured if name == mechanism]))
    assert {spend.mechanism for spend in estimate.split} == {name for name, _ in measured}
    assert len({spend.purpose for spend in estimate.split}) == len(estimate.split)
    assert compose_delta(estimate.split, given.budget.epsilon) <= given.budget.delta
    if not isinstance(method, PrivateRank):
        declared = {purpose.value: cost for purpose, cost in method.shares(given).items()}
        if method.name == "whitened":  # whose last moment gets what rounds have left
            for kind in (GaussianCost, PureCost):
                spent = [spend.cost for spend in estimate.split if isinstance(spend.cost, kind)]
                shares = [cost for cost in method.shares(given).values() if isinstance(cost, kind)]
                assert total(spent) == pytest.approx(total(shares), rel=1e-6)
            return
        for spend in estimate.split:
            assert total([spend.cost]) == pytest.approx(total([declared[spend.purpose]]), rel=1e-9)


# --- passes ---------------------------------------------------------------------------------------------------------


def test_questions_that_read_the_same_statistic_cost_one_pass():
    source = ArraySource(X)
    shares = {
        Purpose.ROWS: GaussianCost(1.0),
        Purpose.MOMENT: GaussianCost(1.0),
        Purpose.EIGENVALUES: GaussianCost(1.0),
    }
    curator = curator_with({**shares, Purpose.RADIUS: PureCost(1.0)}, source=source, relation=Relation.ADD_REMOVE)
    curator.measure(Count(MOMENT), purpose=Purpose.ROWS, cost=GaussianCost(1.0))
    found = curator.measure(MOMENT, purpose=Purpose.MOMENT, cost=GaussianCost(1.0))
    again = Eigenvalues(Lattice(Frame(D), 4.0), 1e-9)
    values = curator.measure(again, purpose=Purpose.EIGENVALUES, cost=GaussianCost(1.0)).values
    assert source.passes == 1
    np.testing.assert_allclose(values.sum(), np.trace(found.total) / 2**40, rtol=0.1)  # about the same rows
    curator.measure(RadiusLeaving(Frame(D), 10.0), purpose=Purpose.RADIUS, cost=PureCost(1.0))
    assert source.passes == 2


@pytest.mark.parametrize(
    "other",
    [
        Moment(Lattice(Frame(D), 2.0), GaussianLaw()),
        Moment(Lattice(Frame(D, np.ones(D)), 4.0), GaussianLaw()),
        Moment(MOMENT.lattice, GaussianLaw(), weight=1000),
    ],
    ids=["radius", "centre", "weight"],
)
def test_questions_about_other_statistics_are_not_answered_from_the_last(other):
    source = ArraySource(X)
    shares = {Purpose.MOMENT: GaussianCost(9e9), Purpose.FIRST_MOMENT: GaussianCost(9e9)}
    curator = curator_with(shares, source=source, budget=Budget(1e30, 0.999))
    curator.measure(MOMENT, purpose=Purpose.FIRST_MOMENT, cost=GaussianCost(9e9))
    found = curator.measure(other, purpose=Purpose.MOMENT, cost=GaussianCost(9e9))
    assert source.passes == 2
    exact = other.statistic().update(X).augmented.astype(float)
    np.testing.assert_allclose(found.total, exact, atol=1e6, rtol=1e-6)


def test_a_method_reads_no_more_often_than_it_has_statistics():
    for method, facts, passes in ((Gaussian(), {}, 1), (KapralovTalwar(), {}, 1), (Refined(), {"bound": None}, 6)):
        source = ArraySource(X)
        run_method(method, source, task(**facts), seeded())
        assert source.passes == passes


# --- rows apart -----------------------------------------------------------------------------------------------------

WHOLE = {Purpose.RADIUS: PureCost(50.0)}


def ask_radius(curator):
    return curator.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(50.0))


def batch(rows=X, **options):
    return curator_with({}, source=Batch(rows, in_random_order=True), **options)


def test_parts_hold_disjoint_rows_and_each_has_the_whole_budget():
    lengths = np.repeat([1.0, 64.0, 4096.0], 200)[:, None] * np.eye(D)[np.zeros(600, dtype=int)]
    first, second, third = batch(lengths).apart((200, WHOLE), (200, WHOLE), (200, WHOLE))
    found = [ask_radius(third), ask_radius(first), ask_radius(second)]
    assert found == pytest.approx([4096.0, 1.0, 64.0], rel=0.2)
    with pytest.raises(NotPaidForError, match="left of its share"):
        ask_radius(first)


def test_after_a_cut_only_the_parts_may_spend():
    whole = batch()
    seen = whole.seen(Frame(D, center=np.ones(D)))
    part = whole.part(WHOLE)
    with pytest.raises(NotPaidForError, match="only the last part may spend"):
        seen.apart((300, WHOLE), (300, WHOLE))
    ask_radius(part.apart((300, WHOLE), (300, WHOLE))[1])
    for other in (part, whole):
        with pytest.raises(NotPaidForError, match="only the last part may spend"):
            ask_radius(other)


def test_rows_that_were_cut_are_not_paid_for_once_more_as_a_whole():
    """Each part may spend the whole budget, so that a part made of all rows would make it twice."""
    whole = batch()
    others = [whole.seen(Frame(D)), whole.first(300)]
    whole.apart((300, WHOLE), (300, WHOLE))
    for other in (whole, *others):
        with pytest.raises(NotPaidForError, match="cut into parts"):
            other.part(WHOLE)
    first, _ = batch().apart((300, WHOLE), (300, WHOLE))
    ask_radius(first.part(WHOLE))  # of a part's own rows, a part can be made


def test_rows_that_have_paid_are_not_cut():
    curator = batch().part(WHOLE)
    ask_radius(curator.first(300))
    with pytest.raises(NotPaidForError, match="spent on all of these rows before"):
        curator.apart((300, WHOLE), (300, WHOLE))


def test_images_and_first_rows_share_the_account():
    curator = batch().part({Purpose.RADIUS: PureCost(1.0)})
    for other in (curator.seen(Frame(D, center=np.ones(D))), curator.first(100)):
        other.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(0.5))
    with pytest.raises(NotPaidForError, match="left of its share"):
        curator.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(0.1))
    assert [spend.cost for spend in curator.split] == [PureCost(1.0)]


def test_what_follows_positions_is_refused_where_they_may_be_sorted_or_move():
    with pytest.raises(AssertionError, match="how the table is sorted"):
        curator_with({}).first(10)
    with pytest.raises(AssertionError, match="move rows from one part"):
        batch(relation=Relation.ADD_REMOVE).apart((10, {}))
    with pytest.raises(AssertionError, match="more rows than there are"):
        batch().apart((N, {}), (1, {}))


def test_images_of_a_table_are_in_a_random_order():
    """400 rows in their old order, or with a changed row in its place among others, would be seen at once."""
    rows = np.arange(400.0)[:, None] * np.ones(D)
    curator = curator_with({}, source=ArraySource(rows)).seen(Frame(D))
    order = curator._DataCurator__source.in_memory()[:, 0]
    np.testing.assert_array_equal(np.sort(order), rows[:, 0])
    assert 100 < (np.diff(order) < 0).sum() < 300


def test_a_histogram_pays_for_its_threshold_too():
    cost, budget = PureCost(1.0), Budget(2.0, 1e-3)
    question, source = Ranges(Frame(D), 1.0, 1e-6), ArraySource(X)
    tail = tail_spend("threshold of the ranges", 1e-6, budget.epsilon)
    with pytest.raises(NotPaidForError, match="threshold of the ranges is not among the shares"):
        curator_with({Purpose.RANGES: cost}, source=source, budget=budget).measure(
            question, purpose=Purpose.RANGES, cost=cost
        )
    assert source.passes == 0
    curator = curator_with({Purpose.RANGES: cost, Purpose.RANGES_THRESHOLD: tail.cost}, source=source, budget=budget)
    with pytest.raises(NotPaidForError, match="left of its share"):
        curator.measure(replace(question, chance=2e-6), purpose=Purpose.RANGES, cost=cost)
    curator = curator_with({Purpose.RANGES: cost, Purpose.RANGES_THRESHOLD: tail.cost}, source=source, budget=budget)
    curator.measure(question, purpose=Purpose.RANGES, cost=cost)
    assert [spend.purpose for spend in curator.split] == ["ranges", "threshold of the ranges"]
    assert curator.split[1] == tail


def test_a_stream_must_be_paid_for():
    cost = ApproximateCost(1.0, 1e-6)
    source = ArraySource(X)
    with pytest.raises(NotPaidForError, match="not among the shares"):
        curator_with({}, source=source).in_batches(None, purpose=Purpose.BATCHES, cost=cost)
    curator = curator_with({Purpose.BATCHES: cost}, source=source)
    with pytest.raises(NotPaidForError, match="left of its share"):
        curator.feed(None, purpose=Purpose.BATCHES, cost=ApproximateCost(2.0, 1e-6))
    assert source.passes == 0


def test_a_part_of_a_part_is_smaller_and_the_same_when_it_is_asked_again():
    """The sizes of parts are within six deviations of what they should be: a false alarm once in 5e8 runs."""
    rows = np.arange(20_000.0)[:, None]
    shares = {Purpose.ROWS: GaussianCost(9e6)}
    whole = curator_with(shares, source=ArraySource(rows), budget=Budget(1e30, 0.999), relation=Relation.ADD_REMOVE)
    part, share = whole.sample(0.5, Frame(1))
    few, again = (part.sample(0.2, Frame(1))[0] for _ in range(2))
    plain = Count(RadiusLeaving(Frame(1), 0.0))
    sizes = [each.measure(plain, purpose=Purpose.ROWS, cost=GaussianCost(1e6)) for each in (whole, part, few, again)]
    assert share == 0.5
    assert sizes[0] == pytest.approx(20_000, abs=0.01)
    assert sizes[1] == pytest.approx(10_000, abs=6 * 70.8)
    assert sizes[2] == pytest.approx(2000, abs=6 * 42.5)
    assert sizes[2] == pytest.approx(sizes[3], abs=0.01)
    assert whole.sample(0.5, Frame(1))[0].measure(plain, purpose=Purpose.ROWS, cost=GaussianCost(1e6)) == pytest.approx(
        sizes[1], abs=0.01
    )
