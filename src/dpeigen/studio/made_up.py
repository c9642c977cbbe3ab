"""Made-up tables with the declared columns, for predictions. They are drawn from public facts alone.

Each resembles a typical table of people. All columns depend on a few factors, the first ones stronger. Numbers without
a transform have mixed distributions: normal, skewed, counts. Numbers with a transform are normal after it. Truth
values, ordered scales and categories are a normal variable, cut into uneven shares. If missing cells are corrected for,
5% of the cells are missing. If people have several rows, they have three similar ones on average.

The strength of the factors and the frequency of each distribution were chosen once, so that eigenvalues of correlation
matrices and predictions match the median of many public tables (`benchmarks/forecasts.py`). The user's table may be
easier or harder: tables drawn with different seeds give the range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator, made_up_generator
from dpeigen.sources.declared import Declared
from dpeigen.sources.memory import ArraySource

__all__ = ["HOLES", "VISITS", "ColumnFacts", "MadeUpTable", "column_facts", "made_up"]

HOLES = 0.05  # the share of missing cells
VISITS = 3.0  # rows of a person, on average
_SAME = 0.8  # the fraction of a column's deviation that is between people
_FACTORS, _DECAY = 8, (0.5, 1.2)  # the later ones are weaker
_EXPLAINED = 0.2, 0.65  # the share of the variance that the factors explain; tables differ in both
_SKEWED = 0.1, 0.95  # the share of numeric columns that are skewed
_LONG = 0.3, 1.6  # how skewed these are: the deviation of their logarithm
_KIND = 5  # part of the seed


@dataclass(frozen=True)
class ColumnFacts:
    """What is declared about a column, as far as predictions depend on it."""

    kind: str  # number, transformed, bool, date, ordinal, category
    values: int = 0  # of a category or an ordered scale
    low: float | None = None  # public bounds that rows are clipped to
    high: float | None = None

    @property
    def features(self) -> int:
        """The number of numeric columns that encode it."""
        return self.values if self.kind == "category" else 1

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """The bounds of these columns; infinite if none are declared."""
        if self.kind in ("category", "bool"):
            return [(0.0, 1.0)] * self.features
        if self.kind == "ordinal":
            return [(0.0, float(max(1, self.values - 1)))]
        return [(-math.inf if self.low is None else self.low, math.inf if self.high is None else self.high)]


def column_facts(said: Declared, *, bounded: bool) -> ColumnFacts:
    """The facts of a declaration; ``bounded``: rows are clipped to the limits of all columns."""
    if said.listed is not None:
        return ColumnFacts("ordinal" if said.levels is not None else "category", len(said.listed))
    kind = "transformed" if said.transform else said.type if said.type == "bool" else "number"
    kind = "date" if said.type in ("date", "timestamp") else kind
    limits = said.bounds() if bounded and kind != "bool" else None
    return ColumnFacts(kind, 0, *limits[0]) if limits else ColumnFacts(kind)


@dataclass(frozen=True, eq=False)
class MadeUpTable:
    """A made-up table."""

    complete: Floats
    seen: Floats  # with missing cells
    people: NDArray[np.int64] | None  # whose row it is
    names: tuple[str, ...]
    flags: NDArray[np.bool_]  # columns that are indicators of categories
    schema: dict[str, Declared]
    bounds: tuple[tuple[float, ...], tuple[float, ...]]  # of all columns of numbers, where they are declared

    def source(self) -> Any:
        """The rows as a fit reads them."""
        found = ArraySource(self.seen, list(self.names))
        found.schema = self.schema or None
        return found

    @cached_property
    def weights(self) -> Floats:
        """Weights of the rows: every person has weight 1."""
        if self.people is None:
            return np.full(len(self.complete), 1 / len(self.complete))
        found = 1 / np.bincount(self.people)[self.people]
        return np.asarray(found / found.sum())

    @cached_property
    def standardised(self) -> Floats:
        """Columns with mean 0 and variance 1; an indicator is divided by the root of its frequency (mixed data)."""
        means = self.weights @ self.complete
        away = self.complete - means
        variances = np.where(self.flags, means, self.weights @ away**2)
        return np.asarray(away / np.sqrt(np.maximum(variances, 1e-300)))

    def moment(self, rows: Floats) -> Floats:
        """The second moment of such rows."""
        return np.asarray((rows * self.weights[:, None]).T @ rows)


def made_up(columns: tuple[ColumnFacts, ...], people: int, seed: int, *, visits: bool, holes: bool) -> MadeUpTable:
    """A table of so many people."""
    rng = made_up_generator(seed, _KIND)
    factors = rng.normal(size=(len(columns), _FACTORS)) * np.arange(1, _FACTORS + 1) ** -rng.uniform(*_DECAY)
    factors *= np.sqrt(rng.uniform(*_EXPLAINED) / np.sum(factors**2, axis=1, keepdims=True))
    ids = np.repeat(np.arange(people), rng.poisson(VISITS - 1, people) + 1) if visits else None
    hidden = _latent(rng, factors, people, ids)
    parts, names, flags, skewed = [], list[str](), list[bool](), rng.uniform(*_SKEWED)
    schema: dict[str, Declared] = {}
    for at, column in enumerate(columns):
        values = _cells(rng, column, hidden[:, at], skewed)
        parts.append(values)
        if column.kind == "category":
            listed = tuple(f"{level}" for level in range(column.values))
            schema[f"x{at}"] = Declared(categories=listed)
            names += [f"x{at}={level}" for level in listed]
        else:
            names.append(f"x{at}")
        flags += [column.kind == "category"] * column.features
    complete = np.column_stack(parts)
    seen = complete
    if holes:
        gone = rng.random((len(complete), len(columns))) < HOLES
        seen = np.where(np.repeat(gone, [c.features for c in columns], axis=1), np.nan, complete)
    bounds = tuple(pair for column in columns for pair in column.bounds)
    lower, upper = (tuple(side) for side in zip(*bounds, strict=True))
    return MadeUpTable(complete, seen, ids, tuple(names), np.array(flags), schema, (lower, upper))


def _latent(rng: Generator, factors: Floats, people: int, ids: NDArray[np.int64] | None) -> Floats:
    """A normal variable for each column."""
    own = np.sqrt(np.maximum(1 - np.sum(factors**2, axis=1), 0.05))
    found = rng.normal(size=(people, factors.shape[1])) @ factors.T
    if ids is None:
        return np.asarray(found + own * rng.normal(size=found.shape))
    between = own * rng.normal(size=found.shape)
    within = rng.normal(size=(len(ids), len(own)))
    return np.asarray(found[ids] + _SAME * between[ids] + np.sqrt(1 - _SAME**2) * own * within)


def _cells(rng: Generator, column: ColumnFacts, hidden: Floats, skewed: float) -> Floats:
    if column.kind == "bool":
        return (hidden > rng.uniform(0.0, 1.6)).astype(float)[:, None]
    if column.kind in ("ordinal", "category"):
        shares = rng.dirichlet(np.full(column.values, 2.0)) * 0.9 + 0.1 / column.values
        order = np.argsort(np.argsort(hidden, kind="stable"), kind="stable") / len(hidden)
        level = np.minimum(np.searchsorted(np.cumsum(shares), order, side="right"), column.values - 1)
        if column.kind == "ordinal":
            return level.astype(float)[:, None]
        return (level[:, None] == rng.permutation(column.values)).astype(float)
    values, long = hidden, rng.uniform(*_LONG)
    if column.kind == "number" and rng.random() < skewed:
        values = np.exp(long * hidden)
        values = np.floor(2 * values) if rng.random() < 0.5 else values  # counts
    if column.low is not None and column.high is not None:
        spread = (column.high - column.low) / 8  # public bounds are wide
        middle = (column.high + column.low) / 2 if values is hidden else column.low + spread
        values = np.clip(middle + spread * values, column.low, column.high)
    return np.asarray(values)[:, None]
