"""Where measurements are made: each function that adds noise to a statistic, or draws by it, with the tape in it.

A door calls the real function, so that the real noise is drawn; sees which draws the generator was asked for; and hands
statistic, noise and answer to the tape, which decides what is answered. Noise that was drawn and is not what was added
is a mismatch, and so is noise that was drawn for no door.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from replay_laws import Directions, Histograms, Independent, NoisyMax, SparseVector, Wishart, bins
from replay_tape import Draw, Mismatch, Tape

import dpeigen.methods
from dpeigen.curator import Curator
from dpeigen.privacy import Cost, GaussianCost, histogram, noise, sphere
from dpeigen.privacy.accounting import LEAST_SENSITIVITY
from dpeigen.questions import descent, laws, radius, reaches, rows, spiked, steps

Wrap = Callable[[Tape, Callable[..., Any]], Callable[..., Any]]
for _module in pkgutil.iter_modules(dpeigen.methods.__path__, "dpeigen.methods."):
    importlib.import_module(_module.name)  # those that are loaded when used, too: all are looked through below


@contextmanager
def doors(tape: Tape) -> Iterator[None]:
    """Every measurement goes over the tape until the end of the block."""
    undo: list[tuple[Any, str, Any]] = []

    def put(place: Any, name: str, value: Any) -> None:
        undo.append((place, name, vars(place)[name]))
        setattr(place, name, value)

    try:
        wrapped = {id(vars(module)[name]): wrap(tape, vars(module)[name]) for module, name, wrap in FUNCTIONS}
        for user in [module for key, module in sys.modules.items() if key.startswith("dpeigen.")]:
            for alias in [key for key, value in vars(user).items() if id(value) in wrapped]:
                put(user, alias, wrapped[id(vars(user)[alias])])
        for kind, name, wrap in METHODS:
            for owner in [kind, *_subclasses(kind)]:
                if name in vars(owner) and not getattr(vars(owner)[name], "__isabstractmethod__", False):
                    put(owner, name, wrap(tape, vars(owner)[name]))
        yield
    finally:
        for place, name, value in reversed(undo):
            setattr(place, name, value)


def _subclasses(kind: type) -> list[type]:
    return [each for child in kind.__subclasses__() for each in (child, *_subclasses(child))]


# --- vectors and matrices with noise ----------------------------------------------------------------------------------


def _perturb(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def perturb(values: NDArray[Any], cost: Cost, *, l2: float, l1: float, rng: Any) -> Any:
        noisy = original(values, cost, l2=l2, l1=l1, rng=rng)
        size = (len(values),)
        drawn = tape.claim([("gaussian", size)]) or tape.claim([("laplace", size)])
        law = _independent(drawn, noisy.astype(object) - values)
        return tape.measure("vector", values, law, cost, noisy)

    return perturb


def _noise(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:  # noqa: ARG001
    """Noise of a matrix is drawn before it is used: what it costs is noted with it."""

    def drawn(self: Any, statistic: Any, cost: Cost, relation: Any, rng: Any) -> Any:
        found = original(self, statistic, cost, relation, rng)
        object.__setattr__(found, "replayed_cost", cost)
        return found

    return drawn


def _added_to(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def added_to(self: Any, statistic: NDArray[Any]) -> Any:
        released, d = original(self, statistic), len(self.matrix)
        cost = getattr(self, "replayed_cost", None)
        wishart = tape.claim([("normal", (d, d + 1)), ("normal", (d, d + 1))])
        if wishart is not None:
            return tape.measure("matrix", statistic, Wishart(_wishart_scale(wishart, self.matrix)), cost, released)
        law = _independent(_symmetric(tape, d), _triangle(self.matrix))
        return tape.measure("matrix", _triangle(statistic), law, cost, released)

    return added_to


def _spiked(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def noisy(self: Any, matrix: Any, cost: Cost, rng: Any) -> Any:
        if np.ndim(matrix) == 1:  # a vector goes through `perturb`, which is measured there
            return original(self, matrix, cost, rng)
        released, step = original(self, matrix, cost, rng), self.reach / LEAST_SENSITIVITY
        on_grid = np.array([[round(float(v) / step) for v in row] for row in matrix], dtype=object)
        law = _independent(_symmetric(tape, len(matrix)), None)
        return tape.measure("matrix", _triangle(on_grid), law, cost, released)

    return noisy


def _symmetric(tape: Tape, d: int) -> list[Draw] | None:
    """Draws for the diagonal, then for what is above it."""
    above = d * (d - 1) // 2
    gaussian = [("gaussian", (d,)), ("gaussian", (above,))] if d > 1 else [("gaussian", (1,))]
    return tape.claim(gaussian) or tape.claim([("laplace", (d + above,))])


def _triangle(matrix: NDArray[Any]) -> NDArray[Any]:
    """The diagonal, then what is above it."""
    return np.concatenate([np.diagonal(matrix), matrix[np.triu_indices(len(matrix), 1)]])


def _independent(drawn: list[Draw] | None, added: NDArray[Any] | None) -> Independent:
    if drawn is None:
        raise Mismatch("A measurement has noise that was not drawn for it.")
    if added is not None and not np.array_equal(np.concatenate([draw.values for draw in drawn]), added):
        raise Mismatch("The noise that was added is not the noise that was drawn.")
    return Independent(drawn[0].kind, tuple((draw.scale, draw.values.size) for draw in drawn))


def _wishart_scale(drawn: list[Draw], added: NDArray[Any]) -> float:
    """The scale of the noise that was really added: it is a multiple of what was drawn, rounded to integers."""
    first, second = (draw.values @ draw.values.T for draw in drawn)
    shape = first - second
    scale = float((added * shape).sum() / (shape * shape).sum())
    if np.abs(added - scale * shape).max() > 1 + 1e-9 * np.abs(added).max():
        raise Mismatch("The noise that was added is not the noise that was drawn.")
    return scale


# --- steps with real-valued noise -------------------------------------------------------------------------------------


def _geodesic_step(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def with_noise(gradient: Any, deviation: float, grid: float, rng: Any) -> Any:
        released = original(gradient, deviation, grid, rng)
        drawn = tape.claim([("normal", gradient.shape)])
        if drawn is None or np.abs(gradient + deviation * drawn[0].values - released).max() > grid:
            raise Mismatch("The noise that was added is not the noise that was drawn.")
        law = Independent("gaussian", ((deviation, gradient.size),))
        return tape.measure("gradient", gradient, law, None, released, shared=tape.shared)

    return with_noise


def _oja_step(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    at: dict[int, int] = {}  # rows that were used of each draw

    def with_noise(step: Any, noisy: Any, back: float) -> Any:
        drawn = tape.unclaimed[-1]
        row = at.setdefault(id(drawn), 0) % len(drawn.values)  # from the start again in the second fit
        at[id(drawn)] += 1
        normal = drawn.values[row]
        largest = int(np.argmax(np.abs(normal)))
        scale = float(noisy[largest] / normal[largest])
        if not np.allclose(noisy, scale * normal, rtol=1e-12, atol=0):
            raise Mismatch("The noise that was added is not the noise that was drawn.")
        released = original(step, noisy.copy(), back)
        law = Independent("gaussian", ((scale, step.size),))
        return tape.measure("single step", step, law, tape.cost, released)

    return with_noise


def _with_cost(tape: Tape, original: Callable[..., Any], cost: Callable[..., Cost]) -> Callable[..., Any]:
    """The function; what it is to pay is known to the doors inside it."""

    def costed(*arguments: Any, **options: Any) -> Any:
        tape.cost = cost(*arguments, **options)
        try:
            return original(*arguments, **options)
        finally:
            tape.cost = None

    return costed


def _steps(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    return _with_cost(tape, original, lambda question, *given: GaussianCost(question.mu))  # noqa: ARG005


def _asked(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    """A question is asked: what several answers for one purpose are paid with together."""

    def measure(self: Any, question: Any, *, purpose: Any, cost: Cost) -> Any:
        tape.shared = self.shares.get(purpose)
        return original(self, question, purpose=purpose, cost=cost)

    return measure


# --- radii, histograms, directions ------------------------------------------------------------------------------------


def _radius(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    return _with_cost(tape, original, lambda question, found, noise, cost, *rest: cost)  # noqa: ARG005


def _first_passed(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def first_passed(grid: Any, margins: Any, counts_noise: Any, threshold_noise: int) -> Any:
        released = original(grid, margins, counts_noise, threshold_noise)
        drawn = tape.claim([("laplace", (1,)), ("laplace", (len(grid),))])
        law = _independent(drawn, np.append(threshold_noise, counts_noise))
        if len({scale for scale, _ in law.scales}) > 1:
            raise Mismatch("The proof is for the same noise on the threshold and on the counts.")
        return tape.measure("radius", margins, SparseVector(law.scales[0][0]), tape.cost, released)

    return first_passed


def _noisy_max(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def noisy_max(scores: Any, added: Any) -> Any:
        released = original(scores, added)
        law = _independent(tape.claim([("laplace", (added.size,))]), added.ravel())
        return tape.measure("noisy max", scores, NoisyMax(law.scales[0][0]), tape.cost, released)

    return noisy_max


def _histograms(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def stable_histograms(labels: Any, cost: Cost, failure: float, relation: Any, rng: Any) -> Any:  # noqa: ARG001
        aside = tape.aside()
        released = original(labels, cost, failure, relation, aside)
        ((kind, scale),) = aside.asked
        unit = histogram._UNIT if kind == "gaussian" else 1
        least = histogram.threshold(cost, labels.shape[1], failure, relation)
        law = Histograms(kind, scale / unit, least, unit)
        return tape.measure("histograms", bins(labels), law, cost, released, failure=failure)

    return stable_histograms


def _orthonormal(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def sample_orthonormal(matrix: Any, concentrations: Any, rng: Any) -> Any:  # noqa: ARG001
        released = None if tape.replaying else original(matrix, concentrations, tape.aside())
        law = Directions(tuple(concentrations.tolist()))
        return tape.measure("directions", matrix, law, None, released, shared=tape.shared)

    return sample_orthonormal


def _bingham(tape: Tape, original: Callable[..., Any]) -> Callable[..., Any]:
    def sample_bingham(A: Any, size: int = 1, random_state: Any = None) -> Any:  # noqa: ARG001
        released = None if tape.replaying else original(A, size, tape.aside())
        return tape.measure("directions", A, Directions((1.0,) * size), None, released, shared=tape.shared)

    return sample_bingham


FUNCTIONS: list[tuple[Any, str, Wrap]] = [
    (noise, "perturb", _perturb),
    (descent, "noisy_gradient", _geodesic_step),
    (steps, "with_noise", _oja_step),
    (radius, "first_passed", _first_passed),
    (radius, "noisy_max", _noisy_max),
    (histogram, "stable_histograms", _histograms),
    (sphere, "sample_orthonormal", _orthonormal),
    (sphere, "sample_bingham", _bingham),
]
METHODS: list[tuple[type, str, Wrap]] = [
    (Curator, "measure", _asked),
    (laws.SymmetricLaw, "draw", _noise),
    (laws.SymmetricNoise, "added_to", _added_to),
    (radius._Radius, "answer", _radius),
    (rows.RowsThatCount, "answer", _radius),
    (radius.RadiusNear, "answer", _radius),
    (reaches.ColumnReaches, "answer", _radius),
    (spiked._OfRawMoment, "_noisy", _spiked),
    (steps.OjaSteps, "_answered", _steps),
]
