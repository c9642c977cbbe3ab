"""Rows drawn with replacement from a public or synthetic table: a population with any distribution.

n rows drawn with replacement from N are the N rows with multinomial counts. So every sum over single rows is a weighted
sum over the table, exact for every n, and no array has n rows. Pairs are made of the drawn rows if there are few;
otherwise they are drawn from a fixed set of pairs of the table. Kendall's tau of many rows is that of the table plus
the sampling error of some rows, scaled to n. Every question is asked about rows in its own view (`RowView.image`), so
nothing is assumed about the distribution of the rows.

The truth is that of the table: its principal axes and variances about the given centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.methods import Task
from dpeigen.planner.samples import Sample, Samples
from dpeigen.privacy.randomness import Generator, made_up_generator
from dpeigen.questions.base import counted
from dpeigen.sources import open_source
from dpeigen.stats.columns import ColumnHistogram
from dpeigen.stats.exact_norms import row_norms
from dpeigen.stats.frame import RowView
from dpeigen.stats.pairs import n_pairs, pair_sum
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = ["Counts", "Resampled", "TableSamples"]

_FEWEST, _MOST, _NUMBERS = 5000, 50_000, 1_000_000  # rows and pairs used: least, most, and about this many numbers
_COUNTED = 20_000  # up to this many terms, norms are listed as often as they were drawn
_TAU_ROWS, _TAU_TABLE = 1000, 4000  # rows of which all pairs are summed: of a sample, and of the table
_TALLIED = 20_000  # rows in histograms of columns
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Resampled:
    """A public table, and the truth about it: principal axes (columns) and variances about the origin."""

    table: Floats
    n_rows: int  # of the given table; if it has very many rows, some are sampled
    origin: Floats
    axes: Floats
    eigenvalues: Floats

    @classmethod
    def of(cls, like: Any, task: Task) -> Resampled:
        """The checked table. Errors contain no cell: someone may have given a private table by mistake."""
        table = _read(like, task.n_features)
        given, most = len(table), _most(task.n_features)
        if given > most:
            table = table[made_up_generator(given, 8).permutation(given)[:most]]
        origin = np.zeros(task.n_features) if task.center is None else task.center
        origin = table.mean(axis=0) if isinstance(origin, str) else origin
        away = table - origin
        values, vectors = symmetric_eigh(away.T @ away / len(away))
        return cls(table, given, origin, vectors.T, np.maximum(values, 0.0))

    @property
    def covariance(self) -> Floats:
        """The covariance in its principal axes."""
        return np.diag(self.eigenvalues)

    @property
    def variances(self) -> Floats:
        return self.eigenvalues


def _read(like: Any, d: int) -> Floats:
    """All rows of a table, in memory; checked to have d columns and finite entries."""
    must, source = f"a table of {d} columns and 2 rows or more", open_source(like)
    if source.n_features != d:
        raise ValueError(complain("like", "plan", must, f"{source.n_features} columns"))
    table = np.concatenate([np.empty((0, d)), *(np.asarray(block, dtype=np.float64) for block in source.blocks())])
    if len(table) < 2:
        raise ValueError(complain("like", "plan", must, f"{len(table)} rows"))
    if not np.isfinite(table).all():
        remedy = "Leave rows with missing cells, and columns of text, out."
        raise ValueError(complain("like", "plan", f"{must}, all of them finite numbers", "cells that are not", remedy))
    if not np.ptp(table, axis=0).any():
        raise ValueError(complain("like", "plan", f"{must} that differ", "equal rows"))
    return table


def _most(d: int) -> int:
    return int(np.clip(_NUMBERS // d, _FEWEST, _MOST))


class TableSamples(Samples):
    """Samples of n rows of a table."""

    in_batches = False

    def __init__(self, rows: Resampled, n: int, seed: int = 0) -> None:
        super().__init__(n, seed)
        self.rows = rows

    @property
    def covariance(self) -> Floats:
        return self.rows.covariance

    def people(self, task: Task, repetition: int) -> Sample:  # noqa: ARG002
        return _Drawn(self, repetition)

    def table(self, task: Task, count: int, rng: Generator) -> tuple[Floats, Floats]:  # noqa: ARG002
        return self.rows.table[rng.integers(len(self.rows.table), size=count)], self.rows.axes

    def whole(self, count: int, rng: Generator) -> tuple[Floats, Floats] | None:
        table = self.rows.table
        return rng.permutation(np.tile(table, (math.ceil(count / len(table)), 1))), self.rows.axes

    def pairs(self) -> Floats:
        """A fixed set of pairs of the table's rows, as consecutive rows; every row is in equally many pairs."""

        def make() -> Floats:
            rng, table = made_up_generator(self.seed, 9), self.rows.table
            turns = math.ceil(_most(table.shape[1]) / len(table))
            orders = (np.stack([rng.permutation(len(table)) for _ in range(2)], axis=1) for _ in range(turns))
            return table[np.concatenate(list(orders)).reshape(-1)]

        return self.kept("pairs", make)

    def tau(self, view: RowView, transform: Any) -> Floats:
        """The mean over pairs of the table's rows."""

        def make() -> Floats:
            rows = self.rows.table
            if len(rows) > _TAU_TABLE:
                rows = rows[made_up_generator(self.seed, 10).permutation(len(rows))]
            design = None if len(rows) <= _TAU_TABLE else _TAU_TABLE**2 // (2 * len(rows))
            return pair_sum(view.image(rows), transform, design) / n_pairs(len(rows), design)

        return self.kept(("tau", _key(view), transform), make)


class _Drawn:
    """The sample of a repetition, in the table's own coordinates, as questions use it."""

    def __init__(self, samples: TableSamples, repetition: int) -> None:
        self._samples, self._repetition = samples, repetition
        self._looks = 0
        size = len(samples.rows.table)
        self._counts: Counts = self._rng(1).multinomial(samples.n, np.full(size, 1 / size))

    @property
    def origin(self) -> Floats:
        return self._samples.rows.origin

    def in_eigenbasis(self, rows: Floats) -> Floats:
        return rows @ self._samples.rows.axes

    def terms(self, view: RowView) -> int:
        return self._samples.n // view.rows_per_term

    def moment(self, view: RowView, radius: float | None) -> Floats:
        rows, weights = self._clipped(view, radius)
        return (rows * weights[:, None]).T @ rows

    def mean(self, view: RowView, radius: float) -> Floats:
        rows, weights = self._clipped(view, radius)
        return weights @ rows

    def squares(self, view: RowView, radius: float) -> Floats:
        rows, weights = self._clipped(view, radius)
        return weights @ rows**2

    def norms(self, view: RowView) -> Floats:
        rows, counts = self.seen(view)
        lengths = row_norms(rows)
        return np.sort(np.repeat(lengths, counts) if counts.sum() <= _COUNTED else lengths)

    def sample(self, view: RowView, count: int) -> Floats:
        rows, counts = self.seen(view)
        return rows[self._rng(2).choice(len(rows), size=count, p=counts / counts.sum())]

    def counts(self, statistic: ColumnHistogram) -> Floats:
        return counted(self, statistic, _TALLIED)

    def expected(self, view: RowView, radius: float) -> Floats:
        rows = _shortened(view.image(self._samples.rows.table), radius)
        return rows.T @ rows / len(rows)

    def tau(self, view: RowView, transform: Any, design: int | None) -> Floats:  # noqa: ARG002
        n, table = self._samples.n, self._samples.rows.table
        m = min(n, _TAU_ROWS)

        def make() -> Floats:
            drawn = view.image(table[self._rng(3).integers(len(table), size=m)])
            found = pair_sum(drawn, transform) / n_pairs(m, None)
            if m == n:
                return found
            mean = self._samples.tau(view, transform)
            return mean + math.sqrt(m / n) * (found - mean)

        return self._samples.kept(("sampled tau", self._repetition, _key(view), transform), make)

    def seen(self, view: RowView) -> tuple[Floats, Counts]:
        """Rows (or pairs of them) in the view, and how often each was drawn."""
        if view.rows_per_term == 1:
            drawn = np.flatnonzero(self._counts)
            return view.image(self._samples.rows.table[drawn]), self._counts[drawn]
        self._looks += 1  # every measurement with pairs draws a new pairing
        terms = self.terms(view)
        if terms <= _most(self._samples.rows.table.shape[1]):
            order = self._rng(4, self._looks).permutation(np.repeat(np.arange(len(self._counts)), self._counts))
            return view.image(self._samples.rows.table[order[: 2 * terms]]), np.ones(terms, dtype=np.int64)
        pairs = view.image(self._samples.pairs())
        rng = self._rng(5, self._looks % 2)  # two samples: pairings have errors in common (`planner.simulated`)
        return pairs, rng.multinomial(terms, np.full(len(pairs), 1 / len(pairs)))

    def _clipped(self, view: RowView, radius: float | None) -> tuple[Floats, Floats]:
        rows, counts = self.seen(view)
        return _shortened(rows, radius), counts / counts.sum()

    def _rng(self, *purpose: int) -> Generator:
        return made_up_generator(self._samples.seed, 7, self._repetition, *purpose)


def _shortened(rows: Floats, radius: float | None) -> Floats:
    """Rows clipped to the radius; if it is None, divided by their norms."""
    lengths = np.maximum(row_norms(rows), 1e-300)
    factors = 1 / lengths if radius is None else np.minimum(1.0, radius / lengths)
    return rows * factors[:, None]


def _key(view: RowView) -> object:
    """A key for views; frames of differences with different centres are the same."""
    weights, box = getattr(view, "weights", None), getattr(view, "box", None)
    return None if weights is None else weights.tobytes(), None if box is None else np.stack(box).tobytes()
