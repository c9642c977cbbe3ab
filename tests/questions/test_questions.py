"""Every question is answered for assumed rows as it is for real ones.

Tables of rows of an elliptical population are asked, and the population is, 400 times each. Rank tests (Mann–Whitney)
compare the two sets of answers, number by number: of the values, which finds means that differ by more than about 0.4
deviations, and of distances from the common median, which finds deviations that differ by more than about 40%. If both
sets have one law they can be exchanged, whatever that law is, so a false alarm has probability 1e-6 for all numbers of
a comparison together. With little budget noise is most of the spread, and the twin, noise that is simulated 1.5 times
too small, is caught; with plenty the spread is that of sampling. Seeds are fixed.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from dpeigen import questions
from dpeigen.methods import Task
from dpeigen.planner import Rows
from dpeigen.planner.population import Population
from dpeigen.planner.simulated import Assumed
from dpeigen.privacy import Budget, GaussianCost, PureCost, Relation
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
    Tau,
    TopEigenvalue,
    WishartLaw,
    gradient_reach,
    moment_within,
    radius_from,
)
from dpeigen.stats import Frame, Lattice, ScoreFrame, unit_lattice
from dpeigen.stats.generalised import SignFrame, WeighedSigns
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.stretch import Stretched, WhitenedRows
from dpeigen.stats.transform import Transform, redescending, winsorized_redescending

REPLACE, ADD_REMOVE = Relation.REPLACE, Relation.ADD_REMOVE
R, N, D, FALSE_ALARM = 400, 2000, 4, 1e-6
PEOPLE = Rows(np.array([8.0, 4.0, 2.0, 1.0]), tails=5.0)
LITTLE = {"gaussian": GaussianCost(0.02), "pure": PureCost(0.04)}
PLENTY = {"gaussian": GaussianCost(20.0), "pure": PureCost(40.0)}

# --- what is asked ---------------------------------------------------------------------------------------------------

FRAME = Frame(D)
AWAY = Frame(D, center=np.array([2.0, 0.0, -1.0, 0.0]))
PAIRS = Frame(D, pairs=True)
BASIS = np.linalg.qr(np.random.default_rng(0).normal(size=(D, D)))[0].T  # some released basis
STRETCHED = Stretched(FRAME, BASIS[:2], np.array([0.5, 0.3]))
WHITENED = WhitenedRows(FRAME, BASIS, np.array([0.5, 0.6, 0.8, 1.0]))
BALL = Lattice(FRAME, 6.0)
START = Matrix(np.linalg.qr(np.random.default_rng(1).normal(size=(D, 1)))[0])
SOME = Matrix(np.diag([60.0, 20.0, 0.0, 0.0]))  # was subtracted, in squared radii


def upper(matrix):
    return matrix[np.triu_indices(len(matrix))]


def squares(directions):
    return (np.atleast_2d(directions) ** 2)[:2].ravel()


@dataclass(frozen=True)
class Case:
    question: Question[Any]
    read: Any  # the numbers of an answer
    kinds: tuple[str, ...] = ("gaussian", "pure")
    relations: tuple[Relation, ...] = (REPLACE, ADD_REMOVE)
    rows: int = N
    budget: float = 1.0  # times what is little


def totals(answer):
    return upper(answer.total) / LEVELS**2


def descent():
    deviation = gradient_reach(D, 1, N // 2) * 3**0.5 / 0.02 * (1 + 1e-9)
    return Descent(unit_lattice(PAIRS), START, (0.5, 0.4, 0.3), N // 2, N // 2, deviation)


def steps(size, mu, rows=200):
    """Steps that turn the start by a noticeable angle, most of which is noise."""
    count = rows // size
    taken = mu * size * 0.4 / 36 / count**0.5
    weights = np.tile([1 - 8 * taken, taken], (count, 1))
    return OjaSteps(FRAME, 6.0, Matrix(BASIS[:2]), Matrix(weights), size, (18.0, 18.0), mu)


def shown(middles):
    """Whether a bin of each column stands out, and how far from 0 it is."""
    return np.array([-1.0 if middle is None else abs(middle) for middle in middles])


def exponent(value):
    return -99.0 if value is None else np.log2(value)


CASES = {
    "radius holding": Case(RadiusHolding(FRAME), np.log2, ("pure",)),
    "radius holding half": Case(RadiusHolding(PAIRS, half=True), np.log2, ("pure",), (REPLACE,)),
    "radius holding half of the rows": Case(RadiusHolding(FRAME, half=True), np.log2, ("pure",), budget=0.5),
    "redescending mean": Case(ClippedMean(SignFrame(AWAY, winsorized_redescending(4.0)).lattice), lambda a: a.mean),
    "redescending mean and weight": Case(
        ClippedMean(WeighedSigns(AWAY, winsorized_redescending(4.0)).lattice), lambda a: a.mean
    ),
    "redescending squares": Case(
        MeanSquares(SignFrame(ScoreFrame(FRAME, BASIS[:2], residual=True), winsorized_redescending(4.0)).lattice),
        lambda a: a.squares,
    ),
    "redescending signs": Case(
        Moment(SignFrame(STRETCHED, redescending(4.0)).lattice, GaussianLaw()), totals, ("gaussian",)
    ),
    "radius holding, away": Case(RadiusHolding(AWAY), np.log2, ("pure",)),
    "radius of scores": Case(RadiusHolding(ScoreFrame(FRAME, BASIS[:2], residual=True)), np.log2, ("pure",)),
    "radius leaving": Case(RadiusLeaving(STRETCHED, 1000.0), np.log2, ("pure",), budget=0.25),
    "radius leaving few": Case(RadiusLeaving(FRAME, 10.0), np.log2, ("pure",)),
    "radius leaving few, usual": Case(RadiusLeaving(FRAME, 10.0, usual=1.0), np.log2, ("pure",)),
    "radius near": Case(RadiusNear(FRAME, 100.0, within=slice(184, 216)), np.log2, ("pure",)),
    "reaches of columns": Case(ColumnReaches(FRAME), np.log2, ("pure",)),
    "far rows": Case(FarRows(FRAME), lambda a: a.reshape(20, -1).sum(axis=1)[:8], ("pure",)),
    "radius from": Case(radius_from(FRAME, 1000.0, 2.0), np.log2, ("pure",), budget=0.25),
    "shares of holes": Case(HoleShares(replace(FRAME, missing="correct")), lambda a: a.shares),
    "mean": Case(ClippedMean(BALL), lambda a: a.mean),
    "mean, away": Case(ClippedMean(Lattice(AWAY, 6.0)), lambda a: a.mean),
    "squares": Case(MeanSquares(BALL), lambda a: a.squares),
    "squares of scores": Case(
        MeanSquares(Lattice(ScoreFrame(FRAME, BASIS[:2], residual=True), 6.0)), lambda a: a.squares
    ),
    "squares of pairs": Case(MeanSquares(Lattice(PAIRS, 4.0)), lambda a: a.squares, relations=(REPLACE,)),
    "moment, gaussian": Case(Moment(BALL, GaussianLaw()), totals, ("gaussian",)),
    "moment, every entry alike": Case(Moment(BALL, GaussianLaw(isometric=False)), totals, ("gaussian",)),
    "moment, laplace": Case(Moment(BALL, LaplaceLaw()), totals, ("pure",)),
    "moment, matrix laplace": Case(Moment(BALL, WishartLaw()), totals, ("pure",)),
    "moment with a constant": Case(Moment(Lattice(AWAY, 6.0), GaussianLaw(), LEVELS // 2), totals, ("gaussian",)),
    "moment of pairs": Case(Moment(Lattice(PAIRS, 4.0), GaussianLaw()), totals, ("gaussian",), (REPLACE,)),
    "moment of signs": Case(Moment(unit_lattice(STRETCHED), GaussianLaw()), totals, ("gaussian",)),
    "moment of signs of pairs": Case(Moment(unit_lattice(PAIRS), WishartLaw()), totals, ("pure",), (REPLACE,)),
    "moment, whitened": Case(Moment(Lattice(WHITENED, 3.0), GaussianLaw()), totals, ("gaussian",)),
    "moment within": Case(moment_within(AWAY, 4.0 * 2**0.25, 4.0, GaussianLaw(), LEVELS // 2), totals, ("gaussian",)),
    "sizes": Case(ColumnCounts(PAIRS, "sizes", (0, 1, 2, 3)), lambda a: a.counts[:, 190:210].ravel()),
    "octaves": Case(ColumnCounts(FRAME, "octaves", (0, 2)), lambda a: a.counts[:, 60:70].ravel()),
    "stretch": Case(
        ColumnCounts(Frame(D, np.full(D, -8.0), np.ones(D)), "stretch", (1,)), lambda a: a.counts[:, :20].ravel()
    ),
    "count": Case(Count(Moment(BALL, GaussianLaw())), lambda a: a, relations=(ADD_REMOVE,)),
    "eigenvalues": Case(Eigenvalues(BALL, 1e-9), lambda a: a.values),
    "directions": Case(Directions(BALL, 1e-9, (0.02, 0.02)), squares, ("pure",), budget=3.0),
    "rank one": Case(RankOne(BALL, 1e-9, 0.02, SOME), squares, ("pure",)),
    "rayleigh": Case(Rayleigh(BALL, 1e-9, Matrix(BASIS[0]), SOME), lambda a: a),
    "tau": Case(Tau(FRAME, Transform(), 200, GaussianLaw()), lambda a: upper(a.mean), ("gaussian",), (REPLACE,), 200),
    "pure tau": Case(Tau(FRAME, Transform(), 200, WishartLaw()), lambda a: upper(a.mean), ("pure",), (REPLACE,), 200),
    "descent": Case(descent(), lambda v: upper(v @ v.T), ("gaussian",), (REPLACE,)),
    "mean in a box": Case(BoxMean(AWAY, 40.0), lambda a: a.mean, relations=(REPLACE,)),
    "ranges": Case(Ranges(FRAME, 4.0, 0.01), shown, relations=(REPLACE,), budget=0.45),
    "top eigenvalue": Case(TopEigenvalue(FRAME, N, 100, 0.01), exponent, ("pure",), (REPLACE,), budget=3.5),
    "ratios": Case(
        EigenvalueRatios(FRAME, N, 100, 0.01, 2), lambda a: [exponent(r) for r in a], ("pure",), (REPLACE,), budget=3.5
    ),
    "steps": Case(steps(1, 0.02), squares, ("gaussian",), (REPLACE,), 200),
    "steps of many rows": Case(steps(10, 0.02), squares, ("gaussian",), (REPLACE,), 200),
    "projector": Case(LeadingProjector(FRAME, 0.002, isometric=True, rank=2), upper, ("gaussian",), (REPLACE,)),
    "leading eigenvalues": Case(
        LeadingEigenvalues(FRAME, 0.02, isometric=False, number=2), lambda a: a, ("gaussian",), (REPLACE,)
    ),
    "bulk": Case(BulkVariance(FRAME, 0.02, isometric=False, terms=N), lambda a: a, ("gaussian",), (REPLACE,)),
    "block": Case(
        ProjectedMoment(FRAME, 0.02, isometric=True, basis=Matrix(BASIS[:2])), upper, ("gaussian",), (REPLACE,)
    ),
}
FIXED = (
    Directions,
    RankOne,
    Descent,
    OjaSteps,
)  # how much they are worth is said by themselves, and checked against the cost


def worth(cost, factor):
    """A cost so many times as large, hence noise so many times smaller."""
    return GaussianCost(cost.mu * factor) if isinstance(cost, GaussianCost) else PureCost(cost.epsilon * factor)


def less_noise(question, cost, factor=1.5):
    """The same with noise that is so many times too small."""
    if isinstance(question, Directions):
        return replace(question, concentrations=tuple(c * factor for c in question.concentrations)), cost
    if isinstance(question, RankOne):
        return replace(question, concentration=question.concentration * factor), cost
    if isinstance(question, OjaSteps):
        return replace(question, mu=question.mu * factor), cost
    if isinstance(question, Descent):
        return replace(question, deviation=question.deviation / factor), cost
    return question, worth(cost, factor)


# --- asking ----------------------------------------------------------------------------------------------------------


@functools.cache
def population(rows):
    return Population(PEOPLE, rows, 3), Population(PEOPLE, rows // 2, 3, pairs=True)


@functools.cache
def tables(rows):
    return [PEOPLE.draw(rows, np.random.default_rng([11, r])) for r in range(R)]


def asked(case, found, cost, relation):
    """Answers from the statistics of rows."""
    answers = []
    for r, statistic in enumerate(found):
        rng = SeededRandomness(np.random.default_rng([12, r]))
        noise = case.question.draw(cost, relation, rng)
        answers.append(case.question.answer(statistic, noise, cost, relation, rng))
    return answers


def simulated(case, question, cost, relation):
    """Answers for the population."""
    task = Task("test", D, 2, Budget(1.0), relation, None, None, case.rows if relation is REPLACE else None)
    people = (Assumed(*population(case.rows), task, r) for r in range(R))
    return [question.simulated(each, cost, relation, np.random.default_rng([13, r])) for r, each in enumerate(people)]


def doubt(case, first, second):
    """The least p-value of all tests, times how many there are: of means, of spreads, and of all spreads at once."""
    numbers = np.array([np.atleast_1d(case.read(answer)) for answer in [*first, *second]])
    off = np.abs(numbers - np.median(numbers, axis=0))
    whole = (off / np.maximum(np.median(off, axis=0), 1e-300)).sum(axis=1)
    columns = [*numbers.T, *off.T, whole]
    return len(columns) * min(mannwhitneyu(c[:R], c[R:], method="asymptotic").pvalue for c in columns)


def stated(answer):
    """What an answer says about itself: its noise and how many terms there were."""
    values = vars(answer) if dataclasses.is_dataclass(answer) else {}
    return {name: value or 0.0 for name, value in values.items() if not isinstance(value, np.ndarray)}


# Several seconds each; with plenty of budget they are compared below, quickly.
SLOW = {"sizes", "octaves", "stretch"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in CASES])
def test_answers_have_the_mean_and_the_spread_that_are_simulated(name):
    case = CASES[name]
    found = [case.question.statistic().update(table) for table in tables(case.rows)]
    for kind, relation in itertools.product(case.kinds, case.relations):
        cost = worth(LITTLE[kind], case.budget)
        real = asked(case, found, cost, relation)
        assert doubt(case, real, simulated(case, case.question, cost, relation)) > FALSE_ALARM
        assert doubt(case, real, simulated(case, *less_noise(case.question, cost), relation)) < FALSE_ALARM


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not isinstance(case.question, FIXED)])
def test_with_plenty_of_budget_the_spread_is_that_of_sampling(name):
    case = CASES[name]
    cost, relation = PLENTY[case.kinds[0]], case.relations[-1]
    found = [case.question.statistic().update(table) for table in tables(case.rows)]
    real, made_up = asked(case, found, cost, relation), simulated(case, case.question, cost, relation)
    assert doubt(case, real, made_up) > FALSE_ALARM
    assert stated(real[0]) == pytest.approx(stated(made_up[0]), rel=0.01)
    coarse = (ColumnReaches, Count, RadiusHolding, RadiusLeaving, Ranges, TopEigenvalue, EigenvalueRatios)
    if not isinstance(case.question, coarse):  # twin: half as many rows
        half = [case.question.statistic().update(table[::2]) for table in tables(case.rows)]
        assert doubt(case, asked(case, half, cost, relation), made_up) < FALSE_ALARM


def test_no_question_is_left_out():
    kinds = {each for each in vars(questions).values() if isinstance(each, type) and issubclass(each, Question)}
    kinds -= {questions.CellCounts, questions.ClassSums}  # no plan asks for a map: rehearsals only
    kinds -= {questions.RoughMoment}  # simulated as `Moment`; that its sum is near: tests/stats/test_rough.py
    kinds -= {questions.PrintedRanges, questions.PrintedTopEigenvalue}  # of papers alone: no plan asks for them
    assert kinds - {Question} == {type(case.question) for case in CASES.values()}
