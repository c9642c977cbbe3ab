"""Streams and random parts of the rows: what was not paid for is refused there too, before it is measured."""

from __future__ import annotations

import numpy as np
import pytest

from dpeigen.curator import DataCurator, NotPaidForError, Purpose
from dpeigen.privacy import ApproximateCost, Budget, GaussianCost, PureCost, Relation
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.questions import GaussianLaw, Moment, RadiusHolding
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame, Lattice

D, N = 3, 600
X = np.random.default_rng(0).normal(size=(N, D)) * [3.0, 2.0, 1.0]
MOMENT = Moment(Lattice(Frame(D), 4.0), GaussianLaw())
RADIUS = RadiusHolding(Frame(D))


def curator_with(shares, *, budget, source=None):
    rng = SeededRandomness(np.random.default_rng(0))
    return DataCurator(source or ArraySource(X), Relation.REPLACE, shares, budget, rng)


BATCH = Budget(4.0, 1e-6)
PAID = {Purpose.RADIUS: PureCost(4.0)}


def spends_twice(batch, frame):
    part = batch.part(PAID)
    part.measure(RadiusHolding(frame), purpose=Purpose.RADIUS, cost=PureCost(4.0))
    return part.measure(RadiusHolding(frame), purpose=Purpose.RADIUS, cost=PureCost(4.0))


def takes_a_second_part(batch, frame):
    batch.part(PAID).measure(RadiusHolding(frame), purpose=Purpose.RADIUS, cost=PureCost(4.0))
    return batch.part(PAID)


def takes_all_after_its_parts(batch, frame):
    batch.apart((50, PAID), (50, PAID))
    return batch.part(PAID)


STREAM_FAULTS = {  # and how many measurements come before the refused one
    "reads a sum": (lambda batch, frame: batch.reduce(MOMENT.statistic()), 0),
    "reads rows": (lambda batch, frame: batch.unprotected(), 0),
    "spends undeclared": (lambda batch, frame: batch.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(1.0)), 0),
    "another purpose": (
        lambda batch, frame: batch.part(PAID).measure(RADIUS, purpose=Purpose.MOMENT, cost=PureCost(1.0)), 0
    ),
    "more than its share": (
        lambda batch, frame: batch.part(PAID).measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(4.1)), 0
    ),
    "a share above the budget": (lambda batch, frame: batch.part({Purpose.RADIUS: PureCost(4.1)}), 0),
    "spends twice": (spends_twice, 1),
    "a second part": (takes_a_second_part, 1),
    "all rows after their parts": (takes_all_after_its_parts, 0),
}  # fmt: skip


class Cheat:
    """A stream of one batch of 100 rows, with a fault; ``outside``: the curator of all rows."""

    mechanism, ready, rows_used = "cheat", False, 0

    def __init__(self, fault, outside=None):
        self.fault, self.outside, self.frame = fault, outside, Frame(D)

    def wanted(self):
        return 100

    def use(self, batch):
        self.fault(self.outside or batch, self.frame)


@pytest.fixture
def measured(monkeypatch):
    """What curators of rows have answered."""
    answers, answered = [], DataCurator._answered

    def watched(self, question, cost):
        answers.append(question)
        return answered(self, question, cost)

    monkeypatch.setattr(DataCurator, "_answered", watched)
    return answers


STREAM_COST = ApproximateCost(4.0, 1e-6)


def run(curator, stream, fed, cost=STREAM_COST):
    if fed:
        curator.feed(stream, purpose=Purpose.BATCHES, cost=cost).take(X)
    else:
        curator.in_batches(stream, purpose=Purpose.BATCHES, cost=cost)


@pytest.mark.parametrize("fault", STREAM_FAULTS)
@pytest.mark.parametrize("fed", [False, True], ids=["a table", "partial_fit"])
def test_a_stream_with_a_fault_is_refused_before_it_measures(fault, fed, measured):
    use, before = STREAM_FAULTS[fault]
    curator = curator_with({Purpose.BATCHES: STREAM_COST}, budget=BATCH)
    with pytest.raises((NotPaidForError, AttributeError)):
        run(curator, Cheat(use), fed)
    assert len(measured) == before


@pytest.mark.parametrize("fed", [False, True], ids=["a table", "partial_fit"])
def test_a_stream_cannot_ask_all_rows_beside_its_batches(fed, measured):
    """Every batch pays the whole budget: what is asked of all rows would be paid for a second time."""
    for fault in (
        lambda all_rows, _: all_rows.part(PAID),
        lambda all_rows, _: all_rows.apart((300, PAID), (300, PAID)),
        lambda all_rows, _: honest_share(all_rows.sample(0.5, Frame(D))[0]),
    ):
        curator = curator_with({Purpose.BATCHES: STREAM_COST}, budget=BATCH)
        with pytest.raises(NotPaidForError):
            run(curator, Cheat(fault, curator), fed)
    assert measured == []


@pytest.mark.parametrize("fed", [False, True], ids=["a table", "partial_fit"])
def test_a_stream_spends_in_a_batch_what_it_paid_and_not_the_whole_budget(fed, measured):
    """A tenth was paid: the other nine are for other questions about the same rows."""
    tenth, within = ApproximateCost(0.4, 1e-7), {Purpose.RADIUS: PureCost(0.4)}

    def modest(batch, frame):
        batch.part(within).measure(RadiusHolding(frame), purpose=Purpose.RADIUS, cost=PureCost(0.4))

    run(curator_with({Purpose.BATCHES: tenth}, budget=BATCH), Cheat(modest), fed, tenth)
    assert len(measured) == N // 100
    for shares in (PAID, {Purpose.RADIUS: PureCost(0.41)}, {Purpose.RADIUS: ApproximateCost(0.4, 2e-7)}):
        curator = curator_with({Purpose.BATCHES: tenth}, budget=BATCH)
        with pytest.raises(NotPaidForError):
            run(curator, Cheat(lambda batch, _, shares=shares: batch.part(shares)), fed, tenth)
    assert len(measured) == N // 100


@pytest.mark.parametrize("fed", [False, True], ids=["a table", "partial_fit"])
def test_a_stream_that_is_paid_for_in_another_currency_is_refused(fed, measured):
    """One (epsilon, delta) of a batch does not make it Gaussian."""
    curator = curator_with({Purpose.BATCHES: GaussianCost(0.1)}, budget=BATCH)
    with pytest.raises(NotPaidForError, match="an epsilon and a delta"):
        run(curator, Cheat(honest), fed, GaussianCost(0.1))
    assert measured == []
    assert curator.split == ()


def honest(batch, frame):
    batch.part(PAID).measure(RadiusHolding(frame), purpose=Purpose.RADIUS, cost=PureCost(4.0))


def test_a_stream_without_a_fault_asks_every_batch(measured):
    curator = curator_with({Purpose.BATCHES: STREAM_COST}, budget=BATCH)
    run(curator, Cheat(honest), fed=False)
    assert len(measured) == N // 100
    assert [(spend.purpose, spend.mechanism) for spend in curator.split] == [(Purpose.BATCHES.value, "cheat")]


SAMPLE_FAULTS = {
    "reads a sum": lambda part, whole: part.reduce(MOMENT.statistic()),
    "reads rows": lambda part, whole: part.unprotected(),
    "another purpose": lambda part, whole: part.measure(RADIUS, purpose=Purpose.MOMENT, cost=PureCost(1.0)),
    "more than its share": lambda part, whole: part.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(4.1)),
    "a share above the budget": lambda part, whole: part.part({Purpose.RADIUS: PureCost(4.1)}),
    "twice, on the part and on all rows": lambda part, whole: [honest_share(part), honest_share(whole)],
    "twice, on all rows and on the part": lambda part, whole: [honest_share(whole), honest_share(part)],
    "twice, by a second part": lambda part, whole: [honest_share(part), whole.part(PAID)],
}


def honest_share(curator):
    return curator.measure(RADIUS, purpose=Purpose.RADIUS, cost=PureCost(4.0))


@pytest.mark.parametrize("fault", SAMPLE_FAULTS)
def test_a_random_part_of_the_rows_has_the_account_of_all(fault, measured):
    source = ArraySource(X)
    whole = curator_with(PAID, source=source, budget=BATCH)
    part, share = whole.sample(0.5, Frame(D))
    assert share == 0.5
    with pytest.raises((NotPaidForError, AttributeError)):
        SAMPLE_FAULTS[fault](part, whole)
    assert len(measured) == fault.startswith("twice")
    assert sum(spend.cost.epsilon for spend in whole.split) <= 4.0
