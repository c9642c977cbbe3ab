"""Broken mechanisms with the claims of the correct ones, all of which an audit must detect.

Each is a mistake that has been made in a paper, in a library, or in a first draft.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats, Integers
from dpeigen.auditing.making import VISITS, people_target
from dpeigen.auditing.targets import DELTA, TARGETS, Target, make_task, method_target, shown
from dpeigen.methods import DataScaledGaussian, Gaussian
from dpeigen.methods.base import run_method
from dpeigen.privacy import Budget, Cost, Randomness, Relation, sphere
from dpeigen.privacy.randomness import SeededRandomness, Shape, made_up_generator, made_up_randomness
from dpeigen.questions.laws import GaussianLaw, SymmetricNoise
from dpeigen.sources import ArraySource
from dpeigen.sources.units import UnitsByPlace


@dataclass(frozen=True)
class Fault:
    """What is wrong, and the target that it makes."""

    what: str
    epsilon: float  # the stated ε, at which few runs are enough
    runs: int  # the number of runs that is enough to detect it
    make: Callable[[float], Target]


class Weaker(Randomness):
    """A generator whose noise is ``factor`` times what was asked for."""

    def __init__(self, right: Randomness, factor: float = 0.7) -> None:
        self._right, self._factor, self.seeded = right, factor, right.seeded

    def uniform(self, size: Shape) -> Floats:
        return self._right.uniform(size)

    def normal(self, size: Shape) -> Floats:
        return self._right.normal(size) * self._factor

    def permutation(self, n: int) -> NDArray[np.intp]:
        return self._right.permutation(n)

    def discrete_gaussian(self, scale: float, size: int) -> Integers:
        return self._right.discrete_gaussian(scale * self._factor, size)

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        return self._right.discrete_laplace(scale * self._factor, size)


class Restarted(SeededRandomness):
    """A generator that restarts at every draw: the same noise is added to every number."""

    def __init__(self, right: Randomness) -> None:
        self._seed = [int(w) for w in np.frombuffer(right.token(), dtype=np.uint32)]
        super().__init__(made_up_generator())

    def normal(self, size: Shape) -> Floats:
        return made_up_generator(*self._seed).standard_normal(size)


class _SmallLaw(GaussianLaw):
    def scale(self, moment: Any, cost: Cost, relation: Relation) -> float:
        return super().scale(moment, cost, relation) / math.sqrt(2)


class SmallSensitivity(Gaussian):
    """Noise for a sensitivity of 1 where it is √2: the printed mistake of Wang and Xu."""

    law = _SmallLaw()


class _TriangleLaw(GaussianLaw):
    def draw(self, moment: Any, cost: Cost, relation: Relation, rng: Randomness) -> SymmetricNoise:
        right = super().draw(moment, cost, relation, rng)
        return replace(right, matrix=(np.triu(right.matrix) + np.triu(right.matrix).T) // 2)


class OneTriangle(Gaussian):
    """Noise on the upper triangle only; the matrix is made symmetric by averaging with the noiseless lower one."""

    law = _TriangleLaw()


def _propose_inverted(beta: Floats, count: int, rng: Randomness) -> tuple[Floats, NDArray[np.bool_]]:
    """`sphere._propose` with the sign that two libraries have: divided by the envelope, not multiplied."""
    d, b = len(beta), sphere.envelope(beta)
    omega = 1.0 + 2.0 * beta / b
    u = rng.normal((count, d)) / np.sqrt(omega)
    squares = u**2 / np.sum(u**2, axis=1, keepdims=True)
    log_keep = -squares @ beta - (d / 2) * np.log(squares @ omega)  # at most 0, where the square of the first is 1
    return u, np.log(rng.uniform(count)) < log_keep


@contextmanager
def inverted_bingham() -> Iterator[None]:
    """A context in which directions are drawn with the wrong acceptance probability."""
    right = sphere._propose
    sphere._propose = _propose_inverted
    try:
        yield
    finally:
        sphere._propose = right


def _right(name: str, epsilon: float) -> Target:
    return TARGETS[name].make(name, epsilon, TARGETS[name])


def _weaker(name: str) -> Callable[[float], Target]:
    def make(epsilon: float) -> Target:
        target = _right(name, epsilon)
        return replace(target, run=lambda rows, rng: target.run(rows, Weaker(rng)))

    return make


def _gaussian(method: Gaussian) -> Callable[[float], Target]:
    return lambda epsilon: method_target(method.name, method, Budget(epsilon, DELTA), 2)


def _inverted(epsilon: float) -> Target:
    target = _right("direction", epsilon)

    def run(rows: Floats, rng: Randomness) -> Floats:
        with inverted_bingham():
            return target.run(rows, rng)

    return replace(target, run=run)


def _data_scaled(epsilon: float) -> Target:
    target = _right("gaussian", epsilon)
    method = DataScaledGaussian(constants="sharp")
    task = make_task(2, target.n_rows, Budget(epsilon, DELTA), bound=None)

    def run(rows: Floats, rng: Randomness) -> Floats:
        return shown(run_method(method, ArraySource(rows), task, rng), task)

    return replace(target, run=run)


def _by_row(epsilon: float) -> Target:
    target = _right("people", epsilon)

    def run(rows: Floats, rng: Randomness) -> Floats:
        task = make_task(2, VISITS * len(rows), Budget(epsilon, DELTA))
        return shown(run_method(Gaussian(), ArraySource(np.repeat(rows, VISITS, axis=0)), task, rng), task)

    return replace(target, run=run)


class _Uncapped(UnitsByPlace):
    """All rows of a person, each with the weight that it would have if only some were used."""

    def draw(self) -> None:
        super().draw()
        self._kept = None


def _no_cap(epsilon: float) -> Target:
    return people_target("people, capped", epsilon, TARGETS["people, capped"], _Uncapped)


def _split_people(epsilon: float) -> Target:
    target = _right("gaussian", epsilon)
    return replace(target, run=lambda rows, rng: np.concatenate([target.run(rows, rng) for _ in range(VISITS)]))


def _same_seed(epsilon: float) -> Target:
    target = _right("gaussian", epsilon)
    return replace(target, run=lambda rows, rng: target.run(rows, made_up_randomness()))  # noqa: ARG005


def _restarted(epsilon: float) -> Target:
    target = _right("gaussian", epsilon)
    return replace(target, run=lambda rows, rng: target.run(rows, Restarted(rng)))


FAULTS: dict[str, Fault] = {
    "fault: noise × 0.7": Fault("Gaussian noise of 0.7 times its deviation", 4.0, 2000, _weaker("gaussian")),
    "fault: Laplace noise × 0.7": Fault(
        "Laplace noise of 0.7 times its scale", 2.0, 2000, _weaker("laplace, one column")
    ),
    "fault: sensitivity 1 for √2": Fault(
        "noise for a distance of 1 where it is √2", 4.0, 2000, _gaussian(SmallSensitivity())
    ),
    "fault: inverted Bingham": Fault("proposals kept by the inverse of the envelope", 2.0, 1200, _inverted),
    "fault: scaled by the data": Fault("the bound is the longest row", 4.0, 400, _data_scaled),
    "fault: rows for people": Fault("weights forgotten: noise for one row of a person with five", 4.0, 400, _by_row),
    "fault: no cap": Fault("five rows of a person where two are allowed", 4.0, 400, _no_cap),
    "fault: people in batches": Fault(
        "the rows of a person lie in five batches, each with the whole budget", 4.0, 400, _split_people
    ),
    "fault: reused seed": Fault("every release draws the same noise", 4.0, 400, _same_seed),
    "fault: restarted generator": Fault("the generator starts again inside a release", 4.0, 800, _restarted),
    "fault: one triangle": Fault("noise on one triangle, halved by mirroring", 4.0, 1200, _gaussian(OneTriangle())),
}

__all__ = ["FAULTS", "Fault", "OneTriangle", "SmallSensitivity", "Weaker", "inverted_bingham"]
