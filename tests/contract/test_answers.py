"""An answer of the curator holds what its mechanism released, and public facts, and nothing else.

Each question is asked of two tables that share only their public facts; the mechanism inside it releases the same for
both (`conftest.MECHANISMS`). The answers must then be the same to the last bit. Under addition and removal the number
of rows is no public fact, and the tables have different ones. A planted leak shows that the comparison can fail.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from inspect import isabstract

import numpy as np
import pytest

from dpeigen.curator import DataCurator, Purpose
from dpeigen.privacy import Budget, ConcentratedCost, GaussianCost, PureCost, Relation
from dpeigen.privacy.histogram import tail_spend
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.questions import (
    BoxMean,
    BulkVariance,
    ClippedMean,
    ColumnCounts,
    ColumnReaches,
    Count,
    Descent,
    Directions,
    EigenvalueRatios,
    Eigenvalues,
    FarRows,
    GaussianLaw,
    HoleShares,
    LaplaceLaw,
    LeadingEigenvalues,
    LeadingProjector,
    Matrix,
    MeanSquares,
    Moment,
    OjaSteps,
    ProjectedMoment,
    Question,
    RadiusHolding,
    RadiusLeaving,
    RadiusNear,
    Ranges,
    RankOne,
    Rayleigh,
    RoughMoment,
    Tau,
    TopEigenvalue,
    WishartLaw,
    gradient_reach,
    moment_within,
    radius_from,
)
from dpeigen.questions.cells import CellCounts, ClassSums
from dpeigen.questions.printed import PrintedRanges, PrintedTopEigenvalue
from dpeigen.questions.rows import RowsThatCount, RowsUsed
from dpeigen.sources import ArraySource
from dpeigen.stats import Frame, Lattice, unit_lattice
from dpeigen.stats.cells import PlaneView
from dpeigen.stats.transform import Transform

REPLACE, ADD_REMOVE = Relation.REPLACE, Relation.ADD_REMOVE
N, D = 300, 3
GAUSSIAN, PURE = GaussianCost(1.0), PureCost(1.0)
BALL, PAIRS = Lattice(Frame(D), 3.0), Frame(D, pairs=True)
BOXED = Frame(D, np.zeros(D), np.ones(D), (np.full(D, -3.0), np.full(D, 3.0)))
START = Matrix(np.eye(D)[:, :1])
NOTHING = Matrix(np.zeros((D, D)))
SQUARE = np.array([[-3.0, 3.0], [-3.0, 3.0]])
PLANE = PlaneView(Frame(2), np.eye(2), SQUARE, np.array([3.0, 3.0]), features=(0, 1), classes=(2,))


def descent(part):
    deviation = 1.01 * gradient_reach(D, 1, N // 2) * 2.0
    return Descent(unit_lattice(PAIRS), START, (0.5, 0.4), part, N // 2, deviation)


def tau(law, **design):
    return Tau(Frame(D), Transform(), N, law, **design)


def steps(size):
    weights = Matrix(np.tile([0.9, 0.1], (N // size, 1)))
    return OjaSteps(Frame(D), 3.0, Matrix(np.eye(D)[:2]), weights, size, (4.5, 4.5), 1.0)


BOTH, REPLACED = (REPLACE, ADD_REMOVE), (REPLACE,)
CASES = [
    (RadiusHolding(Frame(D)), PURE, BOTH),
    (RadiusHolding(PAIRS, half=True), PURE, REPLACED),
    (RadiusLeaving(Frame(D), 20.0), PURE, BOTH),
    (radius_from(Frame(D), 20.0, 1.0), PURE, BOTH),
    (radius_from(Frame(D), 20.0, 1.0, near=True), PURE, BOTH),
    (RadiusNear(Frame(D), 5.0, within=slice(180, 220)), PURE, BOTH),
    (ColumnReaches(Frame(D)), PURE, BOTH),
    (ColumnReaches(PAIRS), PURE, BOTH),
    (FarRows(Frame(D)), PURE, BOTH),
    (FarRows(PAIRS), PURE, BOTH),
    (HoleShares(Frame(D, missing="correct")), GAUSSIAN, BOTH),
    (HoleShares(Frame(D, missing="correct"), together=True), PURE, BOTH),
    (ColumnCounts(PAIRS, "sizes", (0, 1)), GAUSSIAN, BOTH),
    (ColumnCounts(Frame(D), "octaves", (1,)), PURE, BOTH),
    (ClippedMean(BALL), GAUSSIAN, BOTH),
    (ClippedMean(BALL), PURE, BOTH),
    (MeanSquares(BALL), GAUSSIAN, BOTH),
    (MeanSquares(Lattice(PAIRS, 3.0)), PURE, REPLACED),
    (Moment(BALL, GaussianLaw()), GAUSSIAN, BOTH),
    (Moment(BALL, GaussianLaw(), weight=2000), GAUSSIAN, BOTH),
    (Moment(BALL, LaplaceLaw()), PURE, BOTH),
    (RoughMoment(Lattice(BOXED, 3.0), GaussianLaw(), weight=2000), GAUSSIAN, BOTH),
    (Moment(unit_lattice(PAIRS), WishartLaw()), PURE, REPLACED),
    (moment_within(Frame(D), 1.5, 1.0, GaussianLaw(), weight=2000), GAUSSIAN, BOTH),
    (Count(Moment(BALL, GaussianLaw())), GAUSSIAN, (ADD_REMOVE,)),
    (Eigenvalues(BALL, 1e-9), GAUSSIAN, BOTH),
    (Directions(BALL, 1e-9, (0.2, 0.2)), PURE, BOTH),
    (RankOne(BALL, 1e-9, 0.2, NOTHING), PURE, BOTH),
    (Rayleigh(BALL, 1e-9, Matrix(np.eye(D)[0]), NOTHING), GAUSSIAN, BOTH),
    (tau(GaussianLaw()), GAUSSIAN, REPLACED),
    (tau(WishartLaw(), design=20), PURE, REPLACED),
    (tau(GaussianLaw(), design=20, in_parts=True), GAUSSIAN, REPLACED),
    (descent(N // 2), GAUSSIAN, REPLACED),
    (BulkVariance(Frame(D), 0.01, isometric=False, terms=20), GAUSSIAN, REPLACED),
    (LeadingEigenvalues(Frame(D), 0.01, isometric=False, number=2), GAUSSIAN, REPLACED),
    (LeadingProjector(Frame(D), 0.01, isometric=True, rank=2), GAUSSIAN, REPLACED),
    (ProjectedMoment(Frame(D), 0.01, isometric=True, basis=Matrix(np.eye(D)[:2])), GAUSSIAN, REPLACED),
    (BoxMean(Frame(D), 9.0), GAUSSIAN, REPLACED),
    (Ranges(Frame(D), 2.0, 1e-6), GAUSSIAN, BOTH),
    (Ranges(Frame(D), 2.0, 1e-6), PURE, BOTH),
    (TopEigenvalue(Frame(D), N, 60, 1e-6), PureCost(8.0), REPLACED),
    (PrintedTopEigenvalue(Frame(D), N, 60, 1e-6), PureCost(8.0), REPLACED),
    (PrintedRanges(Frame(D), 2.0, 1.0, 1e-6), ConcentratedCost(D / 2), REPLACED),
    (EigenvalueRatios(Frame(D), N, 60, 1e-6, 2), PureCost(8.0), REPLACED),
    (steps(1), GAUSSIAN, REPLACED),
    (steps(30), GAUSSIAN, REPLACED),
    (CellCounts(PLANE, 4, by_class=False), PURE, BOTH),
    (ClassSums(PLANE, 4, by_class=True), PURE, BOTH),
]
ASKED = [(question, cost, relation) for question, cost, relations in CASES for relation in relations]


def tables(relation):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(N, D)) * [1.5, 1.0, 0.5]
    others = 40.0 * rng.standard_t(3, size=(N + 70, D)) @ rng.normal(size=(D, D)) + [300.0, -7.0, 0.0]
    return rows, others[:N] if relation is REPLACE else others


def answers(question, cost, relation, mechanisms, reachable):
    found = []
    for rows in tables(relation):
        rng = SeededRandomness(np.random.default_rng(3))
        shares, budget = {Purpose.SCALE: cost}, Budget(9.0, 0.02)
        if question.failure:
            shares[Purpose.SCALE_THRESHOLD] = tail_spend("", question.failure, budget.epsilon).cost
        curator = DataCurator(ArraySource(rows), relation, shares, budget, rng)
        found.append(reachable(curator.measure(question, purpose=Purpose.SCALE, cost=cost)))
        if not mechanisms.replaying:
            mechanisms.replay()
    assert mechanisms.at == len(mechanisms.released) > 0
    return found


def label(value):
    return type(value).__name__ if isinstance(value, Question) else str(value)


@pytest.mark.parametrize(("question", "cost", "relation"), ASKED, ids=label)
def test_an_answer_holds_what_was_released_and_public_facts(question, cost, relation, mechanisms, reachable):
    first, second = answers(question, cost, relation, mechanisms, reachable)
    assert first == second


def kinds_of(kind):
    for other in kind.__subclasses__():
        yield other
        yield from kinds_of(other)


def test_every_question_is_asked():
    there = {kind for kind in kinds_of(Question) if kind.__module__.startswith("dpeigen.questions.")}
    there -= {RowsThatCount, RowsUsed}  # asked of people's rows only: tests/people
    assert {kind for kind in there if not (kind.__name__.startswith("_") or isabstract(kind))} == {
        type(case[0]) for case in CASES
    }


@dataclass(frozen=True)
class TellsHowMany(Moment):
    """Hands out the number of rows whatever the relation is."""

    def answer(self, found, noise, cost, relation, rng):
        return replace(super().answer(found, noise, cost, relation, rng), count=float(found.count))


@dataclass(frozen=True)
class TellsTheLargest(Moment):
    """The deviation of its noise follows the exact sum."""

    def answer(self, found, noise, cost, relation, rng):
        answer = super().answer(found, noise, cost, relation, rng)
        return replace(answer, deviation=answer.deviation * (1 + 1e-9 * float(found.gram.max())))


@pytest.mark.parametrize(("kind", "relation"), [(TellsHowMany, ADD_REMOVE), (TellsTheLargest, REPLACE)])
def test_a_planted_leak_is_seen(kind, relation, mechanisms, reachable):
    first, second = answers(kind(BALL, GaussianLaw()), GAUSSIAN, relation, mechanisms, reachable)
    assert first != second
