"""The predicted error of a question while a slider moves: quickly by formulas, then by the simulated curator.

Both are the planner's: `methods.prediction` answers in milliseconds, `planner.simulation` runs the method itself on
made-up people. The assumption is that of `dpeigen plan`: normal rows, and leading variances eleven times as large as
the others. It is a function of public facts alone, and reads no data.

A prediction is the middle one of the simulated runs.

- Components: sinΘ, the sine of the largest angle between the released and the true components.
- Covariances, correlations and regressions: the usual error of one correlation.
- Maps: the usual error of the number of people in one cell.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dpeigen.studio.errors import plain_remedies, words_for_the_page
from dpeigen.studio.project import Project
from dpeigen.studio.rehearse import said_before

__all__ = ["HIGHEST", "LOWEST", "Facts", "Foreseen", "coarse", "facts_of", "only_noise_words", "refined", "words_of"]

LOWEST, HIGHEST = 0.05, 10.0
_EPSILONS = (LOWEST, HIGHEST, 0.5, 0.1, 2.0, 0.2, 1.0, 5.0, 0.07, 0.3, 0.15, 0.7, 1.5, 3.0, 7.0)  # ends first
_QUICK, _ALL = 0.12, 60.0  # seconds for a curve
_LEVEL = 11.0  # of the planner's usual spectrum
_RUNS = 12
_FEW = 40  # columns up to which so many runs are simulated
_simulating = threading.Lock()  # one at a time: the machine is also the user's


@dataclass(frozen=True)
class Facts:
    """What a prediction depends on, all of it public."""

    question: str
    people: int
    columns: int
    components: int | None
    epsilon: float
    delta: float
    standardised: bool
    robust: bool
    relation: str
    holes: bool

    @property
    def measure(self) -> str:
        return {"pca": "angle", "scoremap": "cell"}.get(self.question, "correlation")


@dataclass(frozen=True)
class Foreseen:
    """A prediction; ``error`` is None where nothing can be said, and then ``why`` has the reason and the remedy."""

    error: float | None
    why: str = ""
    method: str = ""
    runs: int = 0
    curve: tuple[tuple[float, float | None], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return vars(self)


def facts_of(project: Project, features: int, given: Mapping[str, Any]) -> Facts | None:
    """The facts of a project, with what the sliders say; None where a number is missing."""
    people, epsilon = given.get("people", project.people), given.get("epsilon", project.epsilon)
    if not people or not epsilon or features < 1:
        return None
    content = project.content
    k = content.get("components", 2)
    if project.question != "pca":
        k = None
    elif not isinstance(k, int):
        k = 1  # to be paid for
    return Facts(
        project.question,
        int(people),
        features,
        None if k is None else max(1, min(k, features - 1)),
        float(epsilon),
        float(given.get("delta", content.get("delta", 1e-6))),
        content.get("scale") == "private",
        bool(content.get("robust")),
        str(content.get("relation", "replace")),
        content.get("missing") == "correct",
    )


def coarse(facts: Facts, seconds: float = _QUICK) -> Foreseen:
    """By formulas, with as much of a curve over ε as can be had in these seconds; what was computed is kept."""
    start, found = time.monotonic(), {facts.epsilon: _by_formula(facts)}
    for epsilon in _EPSILONS:
        if time.monotonic() - start > seconds:
            break
        found[epsilon] = _by_formula(replace(facts, epsilon=epsilon))
    return replace(found[facts.epsilon], curve=tuple((e, found[e].error) for e in sorted(found)))


@lru_cache(maxsize=256)
def refined(facts: Facts) -> Foreseen:
    """By runs of the method itself on made-up people; the formula where there are none. Up to a few seconds."""
    here = coarse(facts, _ALL)
    if facts.measure == "cell" or here.error is None:
        return here
    with _simulating, words_for_the_page(), said_before():
        error = _simulated(facts)
    return here if error is None else replace(here, error=error, runs=_runs(facts))


def _runs(facts: Facts) -> int:
    return _RUNS if facts.columns <= _FEW else max(3, _RUNS * _FEW // facts.columns)


def only_noise_words(facts: Facts) -> str | None:
    """What a fit would warn of before it spends: that nothing but noise is to be expected."""
    from dpeigen.methods.auto import resolve
    from dpeigen.methods.foreseen import only_noise

    if facts.measure == "cell":
        return None
    try:
        task = _task(facts).task
        return only_noise(resolve("auto", task), task, "auto")
    except (ValueError, ArithmeticError):  # which the dry run itself says
        return None


def _task(facts: Facts) -> Any:
    from dpeigen.planner.planning import Problem

    problem = Problem.of(
        facts.people,
        max(2, facts.columns),
        facts.components if facts.columns > 1 else None,
        epsilon=facts.epsilon,
        delta=facts.delta,
        relation=facts.relation,
    )
    missing = "correct" if facts.holes else "refuse"
    scale = "private" if facts.standardised else None
    task = replace(
        problem.task,
        scale=scale,
        robust=facts.robust,
        missing=missing,  # type: ignore[arg-type]
        regression=facts.question == "ridge",
        n_rows=facts.people,  # a prediction is for so many, whoever knows it
    )
    return replace(problem, task=task)


@lru_cache(maxsize=4096)
def _by_formula(facts: Facts) -> Foreseen:
    if facts.measure == "cell":
        from dpeigen.privacy import Relation
        from dpeigen.stats.cells import cell_sensitivity

        return Foreseen(math.sqrt(2) * cell_sensitivity(Relation(facts.relation)) / facts.epsilon, method="score-map")
    from dpeigen.methods.auto import resolve_with_reasons
    from dpeigen.methods.moment.whitened import expected_noise
    from dpeigen.methods.prediction import World, expected_error
    from dpeigen.methods.wrapped import itself

    try:
        task = _task(facts).task
        method = resolve_with_reasons("auto", task)[0]
        if facts.measure == "correlation":
            error: float | None = min(1.0, math.hypot(expected_noise(task), 1 / math.sqrt(facts.people)))
        else:
            outline = itself(method).outline(task, facts.people)
            error = None
            if outline is not None:
                error = expected_error(outline, facts.columns, facts.components or 1, World(_LEVEL, heavy=False))
    except (ValueError, ArithmeticError) as refused:
        return Foreseen(None, plain_remedies(str(refused)))
    return Foreseen(error, "" if error is not None else "There is no formula for this question.", method.name)


def _simulated(facts: Facts) -> float | None:
    import numpy as np

    from dpeigen.methods.auto import resolve_with_reasons
    from dpeigen.methods.wrapped import itself
    from dpeigen.planner.planning import Simulator
    from dpeigen.stats.threads import single_blas

    problem = _task(facts)
    method = itself(resolve_with_reasons("auto", problem.task)[0])
    if method.planned is None or method.holds_rows:
        return None
    # Made-up columns have one unit; dividing them by paid deviations would turn their axes.
    problem = replace(problem, task=replace(problem.task, scale=None))
    simulator, runs = Simulator(problem), _runs(facts)
    if facts.measure == "angle":
        return float(np.median(simulator.errors(method, problem.task, runs)))
    with single_blas():
        found = [run.covariance for run in simulator.found(method, problem.task, runs)]
    errors = []
    for matrix in found:
        deviations = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
        apart = (matrix / np.outer(deviations, deviations))[~np.eye(len(matrix), dtype=bool)]
        errors.append(float(np.sqrt(np.mean(np.clip(apart, -1, 1) ** 2))))
    return float(np.median(errors))


def words_of(error: float | None, measure: str) -> tuple[str, str]:
    """A prediction in words, and a level: good, fair, poor."""
    if error is None:
        return "No prediction.", "poor"
    if measure == "angle":
        degrees = math.degrees(math.asin(min(1.0, error)))
        level = "good" if error < 0.2 else "fair" if error < 0.5 else "poor"
        judged = {"good": "close to the true ones", "fair": "roughly right", "poor": "little but noise"}[level]
        return f"The components will be about {degrees:.0f}° off: {judged}.", level
    if measure == "cell":
        return f"The number of people in a cell of the map will be about {error:.2g} off.", (
            "good" if error < 5 else "fair" if error < 25 else "poor"
        )
    level = "good" if error < 0.05 else "fair" if error < 0.2 else "poor"
    judged = {"good": "small", "fair": "weak relations are lost", "poor": "only strong relations show"}[level]
    return f"A correlation will be about ±{error:.2g} off: {judged}.", level
