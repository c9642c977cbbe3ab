"""The tape of a replay: what a first fit drew and measured, played again to a fit on a neighbouring table.

The first fit runs as always, with noise from a seeded generator. The tape keeps every draw and, for every measurement,
the statistic before noise, the noise that was really drawn for it, what it was handed to pay with, and the answer. The
second fit gets the same draws and the same answers. So the two may differ in the statistics alone, and `Change` says by
how much, in the currency of the noise.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from replay_orders import places_in_part, same_coins, same_order

from dpeigen.privacy import Cost
from dpeigen.privacy.randomness import Floats, Integers, Randomness, SeededRandomness, Shape

# Who puts the rows of a whole table in order. All others order rows that were put in a random order before.
WHOLE_TABLE = {("dpeigen.sources.shuffled", "shuffled"), ("dpeigen.sources.shuffled", "_stretches")}

COINS = ("dpeigen.privacy.randomness", "coins")  # who draws a coin for each row of a whole table


class Mismatch(AssertionError):
    """Something besides the statistics differs between two fits that got the same answers."""


@dataclass(frozen=True)
class Loss:
    """A change of a statistic in units of its noise.

    ``kind``: "gaussian" (μ), "pure" (ε), "range" (ε of one bounded-range draw) or "failure" (a probability).
    """

    kind: str
    amount: float


class Noise(Protocol):
    """The law of an answer. Compared between the fits, so it holds everything that must be public."""

    def losses(self, before: Any, after: Any, released: Any) -> tuple[Loss, ...]:
        """What an answer tells of which statistic it came from."""


@dataclass(frozen=True)
class Draw:
    """One call of the generator."""

    kind: str
    scale: float
    values: NDArray[Any]


@dataclass(frozen=True)
class Stage:
    """One measurement of the first fit."""

    name: str
    statistic: Any
    noise: Noise
    cost: Cost | None
    released: Any


@dataclass(frozen=True)
class Change:
    """One measurement, in both fits."""

    name: str
    losses: tuple[Loss, ...]
    cost: Cost | None  # what it was handed to pay with; None where it has a share in a cost that many have
    failure: float = 0.0  # the chance of failure that it was handed
    shared: Cost | None = None  # what all measurements of this name pay with


@dataclass
class Tape:
    """Records one fit, then plays it to another."""

    seed: int
    replaying: bool = False
    draws: list[Draw] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    unclaimed: list[Draw] = field(default_factory=list)  # drawn, and not yet added to anything
    cost: Cost | None = None  # of the measurement that is under way, where only its caller knows it
    shared: Cost | None = None  # of many measurements that follow
    places: NDArray[np.intp] | None = None
    parts: dict[int, NDArray[np.intp]] = field(default_factory=dict)  # the same of random parts, by their rows
    _draw: int = 0
    _stage: int = 0

    def __post_init__(self) -> None:
        self.source = SeededRandomness(np.random.Generator(np.random.PCG64(self.seed)))

    def rewind(self, places: NDArray[np.intp] | None) -> None:
        """From here on play to a second fit. ``places``: where each row of the first table is in the second one."""
        self._refuse_leftovers()
        self.replaying, self.places = True, places
        self._draw = self._stage = 0

    def finish(self) -> None:
        """The second fit is over: it must have asked for everything."""
        self._refuse_leftovers()
        if self._stage < len(self.stages) or self._draw < len(self.draws):
            raise Mismatch(f"The second fit measures less: {self._stage} of {len(self.stages)} measurements.")

    def _refuse_leftovers(self) -> None:
        """Integer noise is drawn for measurements only. (Real numbers also choose where a stream starts.)"""
        left = [draw.kind for draw in self.unclaimed if draw.kind != "normal"]
        if left:
            raise Mismatch(f"Noise was drawn for a measurement that the harness does not know: {left}.")
        self.unclaimed.clear()

    # --- draws ------------------------------------------------------------------------------------------------------

    def draw(self, kind: str, scale: float, size: Shape, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """A fresh draw, or the one of the first fit, which must have asked for the same."""
        shape = size if isinstance(size, tuple) else (size,)
        if not self.replaying:
            self.draws.append(Draw(kind, scale, make()))
        elif self._draw == len(self.draws):
            raise Mismatch(f"The second fit draws more: {kind}.")
        draw = self.draws[self._draw]
        self._draw += 1
        if (draw.kind, draw.scale, draw.values.shape) != (kind, scale, shape):
            was = f"{draw.kind} {draw.values.shape} of scale {draw.scale!r}"
            raise Mismatch(f"The draws differ: {was}, then {kind} {shape} of scale {scale!r}.")
        if kind in ("gaussian", "laplace", "normal"):
            self.unclaimed.append(draw)
        return draw.values.copy()

    def order(self, n: int, whole: bool) -> NDArray[np.intp]:
        """A random order; of the second table one in which each common row has the place that it had before."""
        if not (self.replaying and whole and self.places is not None):
            return self.draw("order", 0.0, n, lambda: self.source.permutation(n))
        rows = len(self.draws[self._draw].values) if self._draw < len(self.draws) else n
        drawn = self.draw("order", 0.0, rows, lambda: np.empty(0))
        return same_order(drawn, self.parts.get(n, self.places) if rows == n else self.places, n)

    def coins(self, n: int, share: float) -> Floats:
        """One number for each row of the table or of a part of it; those below the share are in a new part."""
        drawn = self.draw("uniform", 0.0, n, lambda: self.source.uniform(n))
        if not (self.replaying and self.places is not None):
            return drawn
        places = self.places if len(self.places) == n else self.parts[n]
        coins = same_coins(drawn, places)
        part = places_in_part(drawn < share, coins < share, places)
        self.parts[len(part)] = part  # rows of a part, and then of the part it was taken from, may be put in order
        return coins

    def claim(self, wanted: list[tuple[str, Shape]]) -> list[Draw] | None:
        """The latest draws, if they are of these kinds and shapes; they belong to a measurement from now on."""
        latest = self.unclaimed[-len(wanted) :] if wanted else []
        if [(draw.kind, draw.values.shape) for draw in latest] != wanted:
            return None
        del self.unclaimed[-len(wanted) :]
        return latest

    def aside(self) -> LoggedRandomness:
        """A generator for a measurement whose number of draws may depend on the rows."""
        return LoggedRandomness(np.random.Generator(np.random.PCG64([self.seed, 1, self._stage])))

    # --- measurements -----------------------------------------------------------------------------------------------

    def measure(
        self,
        name: str,
        statistic: Any,
        noise: Noise,
        cost: Cost | None,
        released: Any,
        *,
        failure: float = 0.0,
        shared: Cost | None = None,
    ) -> Any:
        """The answer: the one just made, or that of the first fit, to a measurement that must be the same."""
        if not self.replaying:
            self.stages.append(Stage(name, *copy.deepcopy((statistic, noise, cost, released))))
        elif self._stage == len(self.stages):
            raise Mismatch(f"The second fit measures more: {name}.")
        stage = self.stages[self._stage]
        self._stage += 1
        if not self.replaying:
            return released
        if (stage.name, stage.noise, stage.cost) != (name, noise, cost):
            was, now = (stage.name, stage.noise, stage.cost), (name, noise, cost)
            raise Mismatch(f"The measurements differ: {was}, then {now}.")
        if np.shape(stage.statistic) != np.shape(statistic):
            raise Mismatch(f"The shapes of a statistic differ: {name}.")
        losses = noise.losses(stage.statistic, statistic, stage.released)
        self.changes.append(Change(name, losses, cost, failure, shared))
        return copy.deepcopy(stage.released)


class TapeRandomness(Randomness):
    """The generator that both fits are given."""

    seeded = True  # so that draws keep their order

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def uniform(self, size: Shape) -> Floats:
        caller = sys._getframe(1)
        if (caller.f_globals["__name__"], caller.f_code.co_name) == COINS and isinstance(size, int):
            return self.tape.coins(size, caller.f_locals["chance"])
        return self.tape.draw("uniform", 0.0, size, lambda: self.tape.source.uniform(size))

    def normal(self, size: Shape) -> Floats:
        return self.tape.draw("normal", 0.0, size, lambda: self.tape.source.normal(size))

    def permutation(self, n: int) -> NDArray[np.intp]:
        caller = sys._getframe(1)
        return self.tape.order(n, (caller.f_globals["__name__"], caller.f_code.co_name) in WHOLE_TABLE)

    def discrete_gaussian(self, scale: float, size: int) -> Integers:
        return self.tape.draw("gaussian", scale, size, lambda: self.tape.source.discrete_gaussian(scale, size))

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        return self.tape.draw("laplace", scale, size, lambda: self.tape.source.discrete_laplace(scale, size))


class LoggedRandomness(SeededRandomness):
    """Writes down which integer noise was asked for."""

    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__(generator)
        self.asked: list[tuple[str, float]] = []

    def discrete_gaussian(self, scale: float, size: int) -> Integers:
        self.asked.append(("gaussian", scale))
        return super().discrete_gaussian(scale, size)

    def discrete_laplace(self, scale: float, size: int) -> Integers:
        self.asked.append(("laplace", scale))
        return super().discrete_laplace(scale, size)
