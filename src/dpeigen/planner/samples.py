"""What a plan simulates: n rows of an assumed population, in independent repetitions.

`Samples` answer the questions of a method (`people`), make tables for methods that hold rows (`table`), and know the
truth relative to which errors are measured. There are two kinds: elliptical rows, whose moments are computed without
drawing n rows (`planner.population`), and rows drawn from a table (`planner.resampled`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Protocol

import numpy as np

from dpeigen._types import Floats
from dpeigen.methods import Task
from dpeigen.planner.assumptions import Rows
from dpeigen.planner.box import BoxedAxes
from dpeigen.planner.population import Population
from dpeigen.planner.simulated import Assumed, origin_of
from dpeigen.privacy.randomness import Generator
from dpeigen.questions import People

__all__ = ["EllipticalSamples", "Sample", "Samples"]


class Sample(People, Protocol):
    """One sample of a population, and the relation of its coordinates to the true axes."""

    @property
    def origin(self) -> Floats:
        """The true centre."""

    def in_eigenbasis(self, rows: Floats) -> Floats:
        """Rows (or directions) from the coordinates of the sample to the true principal axes."""


class Samples(ABC):
    """Repetitions of n rows. Deterministic in its seed."""

    in_batches: ClassVar[bool] = True  # whether its samples can be cut into batches, for streams

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed = n, seed
        self._found: dict[object, Floats] = {}

    def kept(self, key: object, make: Callable[[], Floats]) -> Floats:
        """The cached result of ``make``, which is computed once for all budgets."""
        if key not in self._found:
            self._found[key] = make()
        return self._found[key]

    @property
    @abstractmethod
    def covariance(self) -> Floats:
        """The true covariance in its principal axes; refuses if there is none."""

    @abstractmethod
    def people(self, task: Task, repetition: int) -> Sample:
        """The sample of a repetition."""

    @abstractmethod
    def table(self, task: Task, count: int, rng: Generator) -> tuple[Floats, Floats]:
        """``count`` rows, and the true principal directions as the columns of a matrix."""

    def whole(self, count: int, rng: Generator) -> tuple[Floats, Floats] | None:  # noqa: ARG002
        """The same without sampling error, with at least ``count`` rows; None if all methods agree on such rows."""
        return None


class EllipticalSamples(Samples):
    """Rows of an elliptical population, in the box of column bounds if the task has one."""

    def __init__(self, rows: Rows, task: Task, n: int, seed: int = 0) -> None:
        super().__init__(n, seed)
        self._rows, self._box = rows, BoxedAxes.of(task, rows.eigenvalues)
        self._populations: dict[bool, Population] = {}

    @property
    def covariance(self) -> Floats:
        return self._rows.covariance

    def population(self, *, paired: bool) -> Population:
        """Rows, or differences of pairs of them."""
        if paired not in self._populations:
            n = self.n // 2 if paired else self.n
            self._populations[paired] = Population(self._rows, n, self.seed, pairs=paired, box=self._box)
        return self._populations[paired]

    def people(self, task: Task, repetition: int) -> Sample:
        return Assumed(self.population(paired=False), self.population(paired=True), task, repetition, turned=True)

    def table(self, task: Task, count: int, rng: Generator) -> tuple[Floats, Floats]:
        rows = self._rows.draw(count, rng)
        if self._box is not None:
            return rows @ self._box.turn.T + origin_of(task), self._box.turn
        return rows + origin_of(task), np.eye(task.n_features)
