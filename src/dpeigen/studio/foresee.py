"""The predicted error of a question while a slider moves: real releases of made-up tables with the declared columns.

The estimator itself runs, with the options of the release, on made-up tables (`made_up`) with the declared categories,
missing cells, transforms, bounds and rows per person. The error is the distance from the answer without privacy on the
same rows (`trial`). It is a function of public facts alone, and reads no data.

A prediction is the median over the made-up tables. The range is from the best to the worst of them, made wider because
real tables differ more; `benchmarks/forecasts.py` compares both with public tables.

Noise depends on people times ε. So a large number of people is replaced by a smaller one, with a larger ε that gives
the same noise relative to their number. Then a run takes a few hundredths of a second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import median
from typing import Any

from dpeigen.studio.errors import RefusedError, plain_remedies, words_for_the_page
from dpeigen.studio.made_up import VISITS, ColumnFacts, MadeUpTable, column_facts, made_up
from dpeigen.studio.project import Project
from dpeigen.studio.rehearse import said_before
from dpeigen.studio.trial import Asked, Tried, tried

__all__ = ["HIGHEST", "LOWEST", "MOST", "Facts", "Foreseen", "coarse", "facts_of", "only_noise_words", "refined"]

LOWEST, HIGHEST = 0.05, 10.0
MOST = {"angle": 1.0, "correlation": 2.0, "fitted": 10.0}  # the largest errors that are shown
_EPSILONS = (LOWEST, HIGHEST, 0.5, 0.1, 2.0, 0.2, 1.0, 5.0, 0.07, 0.3, 0.15, 0.7, 1.5, 3.0, 7.0)  # ends first
_QUICK, _ALL = 0.1, 2.4  # seconds of processor time for a first answer, and for the whole
_TABLES, _FIRST = 9, 3  # made-up tables for the answer, and for a first one; each point of the curve uses one
_WIDER = {"angle": 1.3, "correlation": 1.5, "fitted": 1.5}  # real tables differ more
_NUMBERS, _FEWEST, _MOST = 50_000, 600, 2000  # people of a made-up table
_HIGHEST_EPSILON = 1000.0  # with which fewer people replace more
_WIDE, _WIDEST = 120, 300  # numeric columns from which on a run takes seconds, and minutes
_KEPT = 64  # refined answers that are cached for quick ones
_ENOUGH = 4  # points of a curve that are enough to interpolate
_refined: dict[Facts, tuple[float, Foreseen]] = {}


@dataclass(frozen=True)
class Facts:
    """What a prediction depends on, all of it public."""

    question: str
    people: int
    columns: tuple[ColumnFacts, ...]
    components: int
    epsilon: float
    delta: float
    standardised: bool = True
    robust: bool = False
    relation: str = "replace"
    missing: str = "refuse"
    visits: bool = False  # whether people may have several rows
    max_rows: int | None = None
    bounded: bool = False  # whether rows are clipped to public bounds of all columns
    target: int = 0

    @property
    def measure(self) -> str:
        return {"pca": "angle", "scoremap": "cell", "ridge": "fitted"}.get(self.question, "correlation")

    @property
    def features(self) -> int:
        """The number of numeric columns."""
        return sum(column.features for column in self.columns)


@dataclass(frozen=True)
class Foreseen:
    """A prediction; if there is none, ``error`` is None and ``why`` has the reason and the remedy."""

    error: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""
    later: bool = False  # there is no quick answer
    runs: int = 0
    unclear: int = 0  # runs in which nothing could be distinguished from noise
    curve: tuple[tuple[float, float | None], ...] = field(default=())


def facts_of(project: Project, given: Mapping[str, Any]) -> Facts | None:
    """The facts of a project, with the values of the sliders; None if a number is missing."""
    from dpeigen.cli._columns import declared_bounds
    from dpeigen.cli._config import read_study

    people, epsilon = given.get("people", project.people), given.get("epsilon", project.epsilon)
    if not people or not epsilon:
        return None
    content = project.content
    with words_for_the_page():
        study = read_study(project.settings_path)
        known = {name: said for name, said in (study.columns or {}).items() if name != content.get("unit")}
        bounded = declared_bounds(known, study) is not None
    columns = tuple(column_facts(said, bounded=bounded) for said in known.values())
    features = sum(column.features for column in columns)
    if not columns:
        return None
    k = content.get("components", 2)
    return Facts(
        project.question,
        int(people),
        columns,
        max(1, min(k, features - 1)) if isinstance(k, int) else 1,  # otherwise the number is paid for
        float(epsilon),
        float(given.get("delta", content.get("delta", 1e-6))),
        content.get("scale") == "private",
        bool(content.get("robust")),
        str(content.get("relation", "replace")),
        str(content.get("missing", "refuse")),
        "unit" in content,
        content.get("max_rows"),
        bounded,
        _place([*known], columns, str(content.get("target", ""))),
    )


def _place(names: list[str], columns: tuple[ColumnFacts, ...], target: str) -> int:
    """The index of the target among the numeric columns."""
    before = columns[: names.index(target)] if target in names else ()
    return sum(column.features for column in before)


def coarse(facts: Facts, seconds: float = _QUICK) -> Foreseen:
    """From the curve of a refined answer at another ε, or from a few made-up tables and a part of the curve."""
    known = _refined.get(replace(facts, epsilon=1.0))
    if known is not None and not _refusal(facts):
        return _along(known[1], known[0], facts)
    if _WIDE < facts.features <= _WIDEST and facts.measure != "cell":
        return Foreseen(None, later=True)
    return _answer(facts, _FIRST, seconds)


def refined(facts: Facts, seconds: float = _ALL) -> Foreseen:
    """From more made-up tables, with the whole curve unless runs are slow."""
    found = _answer(facts, _TABLES, seconds)
    if found.runs and len(found.curve) >= _ENOUGH:
        while len(_refined) >= _KEPT:
            _refined.pop(next(iter(_refined)), None)
        _refined[replace(facts, epsilon=1.0)] = facts.epsilon, found
    return found


def _along(known: Foreseen, there: float, facts: Facts) -> Foreseen:
    """The answer that the curve of another ε gives, with an equally wide range."""
    import numpy as np

    points = [(math.log(e), math.log(error)) for e, error in known.curve if error]
    if len(points) < 2 or not known.error:
        return known
    at, then = np.interp([math.log(facts.epsilon), math.log(there)], [x for x, _ in points], [y for _, y in points])
    most, moved = MOST[facts.measure], math.exp(at - then)
    error, low, high = (min(most, (value or 0.0) * moved) for value in (known.error, known.low, known.high))
    return replace(known, error=error, low=low, high=high)


def _answer(facts: Facts, tables: int, seconds: float) -> Foreseen:
    if facts.measure == "cell":
        return _cell(facts)
    if facts.question != "covariance" and facts.features < 2:
        return Foreseen(None, why="This question needs two columns or more.")
    if facts.features > _WIDEST:
        return Foreseen(None, why=f"There is no prediction for more than {_WIDEST} numeric columns.", later=True)
    if why := _refusal(facts):
        return Foreseen(None, why=why)
    end, runs = time.thread_time() + seconds, list[Tried]()
    for number in range(tables):
        if runs and time.thread_time() > end - seconds / 3:  # the rest is for the curve
            break
        found = _run(facts, number)
        runs += [] if found is None else [found]
    if not runs:
        return Foreseen(None, why="The method refused every made-up table of this kind. Try a larger ε.")
    errors = [run.error for run in runs]
    found_error = median(errors)
    curve = _points(facts, end - time.thread_time(), found_error)
    unclear = sum(not run.clear for run in runs)
    wider = _WIDER[facts.measure]
    low, high = min(errors) / wider, min(max(errors) * wider, MOST[facts.measure])
    found_error, low, high = (max(value, 1e-12) for value in (found_error, low, high))
    return Foreseen(found_error, low, high, runs=len(runs), unclear=unclear, curve=curve)


def _points(facts: Facts, seconds: float, here: float) -> tuple[tuple[float, float | None], ...]:
    """Errors of one table at other ε, as a decreasing curve, scaled so that it goes through the answer."""
    end, found, base = time.thread_time() + seconds, dict[float, float](), _run(facts, 0)
    for epsilon in _EPSILONS:
        if time.thread_time() > end:
            break
        run = _run(replace(facts, epsilon=epsilon), 0)
        if run is not None and base is not None and run.error > 0 and base.error > 0:
            found[epsilon] = run.error * here / base.error
    found[facts.epsilon] = here
    known = sorted(found)
    return tuple(zip(known, _falling([found[epsilon] for epsilon in known]), strict=True))


def _falling(errors: list[float]) -> list[float]:
    """The nearest non-increasing sequence (pool adjacent violators, geometric means).

    >>> _falling([4.0, 1.0, 4.0, 1.0])
    [4.0, 2.0, 2.0, 1.0]
    """
    pools: list[tuple[float, int]] = []
    for error in errors:
        total, count = math.log(max(error, 1e-12)), 1
        while pools and pools[-1][0] / pools[-1][1] < total / count:
            before, size = pools.pop()
            total, count = total + before, count + size
        pools.append((total, count))
    return [round(math.exp(total / count), 12) for total, count in pools for _ in range(count)]


def _cell(facts: Facts) -> Foreseen:
    """The noise of the number of people in one cell of a map, by its formula."""
    from dpeigen.privacy import Relation
    from dpeigen.stats.cells import cell_sensitivity

    width = math.sqrt(2) * cell_sensitivity(Relation(facts.relation))
    curve = tuple((epsilon, width / epsilon) for epsilon in sorted(_EPSILONS))
    return Foreseen(width / facts.epsilon, curve=curve)


# --- runs -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def _run(facts: Facts, number: int) -> Tried | None:
    from dpeigen.privacy.ledger.requirement import made_up_rows
    from dpeigen.stats.threads import single_blas

    most = _NUMBERS // (facts.features * (round(VISITS) if facts.visits else 1))
    people = min(facts.people, max(_FEWEST, min(_MOST, most)))
    holes, seed = facts.missing != "refuse", _order(facts.columns, facts.components)[number]
    table = _table(facts.columns, people, seed, facts.visits, holes)
    lower, upper = table.bounds
    asked = Asked(
        facts.question,
        facts.components,
        _epsilon_for(facts, people),
        facts.delta,
        facts.standardised,
        facts.robust,
        facts.relation,
        facts.missing,
        facts.max_rows,
        (lower, upper) if facts.bounded else None,
        facts.target,
    )
    with said_before(), made_up_rows(), single_blas():  # one at a time: the machine is also the user's
        return tried(asked, table, seed)


@lru_cache(maxsize=64)
def _order(columns: tuple[ColumnFacts, ...], k: int) -> tuple[int, ...]:
    """The seeds of the made-up tables, those with a typical eigenvalue gap after the wanted components first."""
    import numpy as np

    gaps = []
    for seed in range(_TABLES):
        table = made_up(columns, _FEWEST, seed, visits=False, holes=False)
        values = np.linalg.eigvalsh(table.moment(table.standardised))[::-1]
        gaps.append(math.log(max(values[k - 1] - (values[k] if len(values) > k else 0.0), 1e-9)))
    return tuple(sorted(range(_TABLES), key=lambda seed: abs(gaps[seed] - median(gaps))))


@lru_cache(maxsize=64)
def _table(columns: tuple[ColumnFacts, ...], people: int, seed: int, visits: bool, holes: bool) -> MadeUpTable:
    return made_up(columns, people, seed, visits=visits, holes=holes)


def _epsilon_for(facts: Facts, people: int) -> float:
    """The ε at which this smaller number of people has the same noise per person as all have at the real ε."""
    more = facts.people / people
    if facts.delta <= 0:
        return min(_HIGHEST_EPSILON, facts.epsilon * more)
    # The Gaussian mechanism: its signal to noise ratio is about √(2(ε + log 1/δ)) − √(2 log 1/δ).
    rest = math.sqrt(2 * math.log(1 / facts.delta))
    ratio = more * (math.sqrt(2 * facts.epsilon + rest**2) - rest)
    return min(_HIGHEST_EPSILON, ratio**2 / 2 + ratio * rest)


# --- refusals -------------------------------------------------------------------------------------------------------


def _task(facts: Facts) -> Any:
    from dpeigen.planner.problem import Problem

    problem = Problem.of(
        facts.people,
        max(2, facts.features),
        facts.components if facts.question == "pca" and facts.features > 1 else None,
        epsilon=facts.epsilon,
        delta=facts.delta,
        relation=facts.relation,
    )
    return replace(
        problem.task,
        scale="private" if facts.standardised else None,
        robust=facts.robust,
        missing="correct" if facts.missing == "correct" else "refuse",
        regression=facts.question == "ridge",
        n_rows=facts.people,  # a prediction is for this number, public or not
    )


@lru_cache(maxsize=4096)
def _refusal(facts: Facts) -> str:
    """Why the method would refuse this number of people, and the remedy; empty if it does not."""
    from dpeigen.methods.auto import resolve_with_reasons

    if facts.bounded:
        return ""  # the fit itself says so
    try:
        resolve_with_reasons("auto", _task(facts))
    except (ValueError, ArithmeticError) as refused:
        return plain_remedies(str(refused))
    return ""


def only_noise_words(facts: Facts) -> str | None:
    """The warning of a fit, before it spends anything, that only noise is to be expected."""
    from dpeigen.methods.auto import resolve
    from dpeigen.methods.foreseen import only_noise

    if facts.measure == "cell":
        return None
    try:
        task = _task(facts)
        return only_noise(resolve("auto", task), task, "auto")
    except (ValueError, ArithmeticError, RefusedError):  # the dry run reports this itself
        return None
