"""Questions that are answered from one pass over the rows have the same exact statistic.

A curator keeps the statistic of its last pass and answers every question from it that `reads` the same. If an author
left a field out of `reads`, a question would get another statistic's answer. Here every question is asked beside all
others and beside copies of itself in which one fact is another, however deep it lies; wherever two read the same, their
empty statistics have to agree in everything that they hold. Equality of views is not relied on: all facts are
compared. The twin leaves a field out and is caught.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from functools import cached_property

import numpy as np
import pytest

import dpeigen.papers  # noqa: F401  so that all questions are known
from dpeigen.questions import (
    CellCounts,
    ClassSums,
    ColumnCounts,
    GaussianLaw,
    Moment,
    PrintedRanges,
    PrintedTopEigenvalue,
    Question,
    RoughMoment,
)
from dpeigen.questions.nested import grid_from, radius_from
from dpeigen.questions.radius import RadiusLeaving, RadiusNear
from dpeigen.questions.rows import RowsThatCount, RowsUsed
from dpeigen.stats import Frame, Lattice
from dpeigen.stats.cells import PlaneView
from dpeigen.stats.stretch import WhitenedRows

from .test_questions import AWAY, BASIS, CASES, FRAME, WHITENED

BOXED = Frame(4, np.zeros(4), np.full(4, 0.1), (np.full(4, -20.0), np.full(4, 20.0)))
OTHER = WhitenedRows(FRAME, BASIS, np.array([0.25, 0.36, 0.64, 1.0]))
PLANE = PlaneView(Frame(3), BASIS[:2, :3], np.array([[-1.0, 1.0], [-2.0, 2.0]]), np.array([1.0, 2.0]), (0, 1, 2), (3,))
QUESTIONS = [case.question for case in CASES.values()] + [
    CellCounts(PLANE, 8, by_class=True),
    ClassSums(PLANE, 8, by_class=True),
    PrintedRanges(FRAME, 1.0, 0.1, 0.01),
    PrintedTopEigenvalue(FRAME, 100, 10, 0.01),
    RowsThatCount(FRAME, 5),
    RowsUsed(FRAME, 3),
    RadiusLeaving(WHITENED, 10.0),
    RadiusLeaving(WHITENED, 10.0, together=(WHITENED,)),
    RadiusLeaving(OTHER, 10.0, together=(WHITENED, OTHER)),
    RadiusNear(WHITENED, 10.0, together=(WHITENED, OTHER), within=slice(184, 216)),
    RadiusNear(AWAY, 10.0, within=grid_from(2.0)),
    radius_from(AWAY, 10.0, 2.0, near=True),
    RoughMoment(Lattice(BOXED, 1.0), GaussianLaw()),
    RoughMoment(Lattice(WhitenedRows(BOXED, BASIS, np.array([0.5, 0.6, 0.8, 1.0])), 0.5), GaussianLaw(), 5),
    Moment(Lattice(BOXED, 1.0), GaussianLaw()),
]


UNLIKELY = ValueError, TypeError, IndexError, KeyError, AssertionError  # of facts that no method would state


def others(value):
    """Values of the same kind that are not the same."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, (int, float)):
        return [value + 1, 2 * value + 1]
    if isinstance(value, np.ndarray):
        return [value * 0.75, np.roll(value, 1)]
    if isinstance(value, slice):
        return [slice((value.start or 0) + 3, (value.stop or 300) + 3)]
    if isinstance(value, str):
        return [word for word in ("sizes", "octaves", "stretch", "ball", "sphere", "drop", "refuse") if word != value]
    if isinstance(value, tuple):
        changed = [(*value[:i], new, *value[i + 1 :]) for i, old in enumerate(value) for new in others(old)]
        return [*changed, value[:-1], value[::-1]]
    return variants(value) if dataclasses.is_dataclass(value) else []


def variants(value):
    """Copies in which one field is another; those that cannot be made are left out."""
    found = []
    for field in (field for field in dataclasses.fields(value) if field.init):
        for other in others(getattr(value, field.name)):
            with contextlib.suppress(*UNLIKELY):
                found.append(dataclasses.replace(value, **{field.name: other}))
    return found


def facts(value):
    """Everything that an object holds, as one nested value; what is computed from that when asked for is left out."""
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes() if value.dtype != object else tuple(value.ravel())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(facts, value))
    if isinstance(value, dict):
        return tuple((key, facts(each)) for key, each in value.items())
    if not hasattr(value, "__dict__") or inspect.isroutine(value):
        return value
    held = {k: v for k, v in vars(value).items() if not isinstance(getattr(type(value), k, None), cached_property)}
    return type(value), facts(held)


def needs(question):
    """What the pass of a question does to its rows."""
    return facts(question.statistic()), facts(question.view), question.shuffled, question.gathers


def confused(question, rivals):
    """Rivals that read the same but are answered from another statistic."""
    found = []
    for rival in rivals:
        try:
            same = question.reads == rival.reads
            mine, theirs = needs(question), needs(rival)
        except UNLIKELY:
            continue  # it cannot be asked
        together = getattr(question, "together", ()) and getattr(rival, "together", ())
        alike = mine == theirs or (together and mine[0] == theirs[0])  # each is one of the views of the statistic
        if same and not alike:
            found.append(rival)
    return found


def number(question):
    return f"{QUESTIONS.index(question)} {type(question).__name__}"


@pytest.mark.parametrize("question", QUESTIONS, ids=number)
def test_questions_that_read_the_same_have_the_same_statistic(question):
    assert not confused(question, [*QUESTIONS, *variants(question)])


@pytest.mark.parametrize("question", QUESTIONS, ids=number)
def test_copies_are_answered_from_one_pass(question):
    assert question.reads == dataclasses.replace(question).reads


def test_a_field_that_is_left_out_is_caught():
    @dataclasses.dataclass(frozen=True)
    class Forgetful(ColumnCounts):
        @property
        def reads(self):
            return self.cells, self.rows

    question = Forgetful(FRAME, "octaves", (0, 2))
    assert confused(question, variants(question))
    assert not confused(ColumnCounts(FRAME, "octaves", (0, 2)), variants(ColumnCounts(FRAME, "octaves", (0, 2))))


def test_no_question_is_left_out():
    def kinds(kind):
        return {kind, *(each for sub in kind.__subclasses__() for each in kinds(sub))}

    ours = (kind for kind in kinds(Question) if kind.__module__.startswith("dpeigen."))
    names = {kind.__name__ for kind in ours if not inspect.isabstract(kind) and not kind.__name__.startswith("_")}
    assert names == {type(question).__name__ for question in QUESTIONS}
