"""Subjects of the replay test whose columns have units of many sizes, so that narrow columns are counted again.

A column that is narrow beside the others gets counts in cells of its own size (`methods.narrow`), in a stretch that
follows from the counts before it. The row that changes is usually in these cells, because hostile rows are outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from replay_subjects import APPROXIMATE, BOUNDS, REPLACE, Setting, Subject, moments, of_people
from replay_tables import Neighbours, neighbours, one_less, sorted_neighbours, without_person

from dpeigen.methods import Kendall, Refined, SpatialSign

Floats = NDArray[np.float64]
Generator = np.random.Generator
_PLACES = [0.0, 0.0, 1.0, -7.0, 1e5, -1e10, 1e15]  # in units of the column
_LEAST, _MOST = -9.0, 6.0  # of the decimal logarithm of a unit; those of signs differ by 12 at most


# --- tables -----------------------------------------------------------------------------------------------------------


def _mixed(rng: Generator, n: int, d: int) -> tuple[Floats, Floats, Floats]:
    """Rows, and unit and place of each column."""
    unit = 10.0 ** rng.uniform(_LEAST, _MOST, d)
    unit[int(rng.integers(d))] = 10.0**_MOST
    place = rng.choice(_PLACES, d) * unit
    table = np.empty((n, d))
    for j, kind in enumerate(rng.integers(8, size=d)):
        table[:, j] = place[j] + unit[j] * _column(rng, n, int(kind))
    return table, unit, place


def _column(rng: Generator, n: int, kind: int) -> Floats:
    if kind == 0:
        return np.zeros(n)  # constant
    if kind == 1:
        return (rng.random(n) < 0.3).astype(np.float64)
    if kind == 2:
        return np.round(2 * rng.normal(size=n))  # ties, at edges of cells
    if kind == 3:
        return np.asarray(rng.standard_t(1.5, n))
    return rng.normal(size=n)


def _near(rng: Generator, unit: Floats, place: Floats) -> Floats:
    """A row in, or a little outside, the cells of narrow columns; rarely it misses cells."""
    row = place + unit * rng.normal(size=len(unit)) * 10.0 ** rng.integers(-3, 3, len(unit))
    return np.where(rng.random(len(unit)) < 0.05, np.nan, row)


def mixed_neighbours(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:
    """Columns in units from 1e-9 to 1e6, and a row that changes inside their cells, or is hostile."""
    table, unit, place = _mixed(rng, n, d)
    at, hostile = int(rng.integers(n)), rng.random() < 0.3
    pair = neighbours(rng, 2, d, replace=True)
    table[at] = pair.before[0] if hostile else _near(rng, unit, place)
    new = pair.after[0] if rng.random() < 0.3 else _near(rng, unit, place)
    ordered = rng.random() < 0.4
    if not replace:
        return one_less(table, at, ordered=ordered, added=rng.random() < 0.5)
    changed = table.copy()
    changed[at] = new
    return sorted_neighbours(table, changed) if ordered else Neighbours(table, changed, np.arange(n))


def mixed_people(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:  # noqa: ARG001
    """The same rows, of n people, one of whom has many rows that are all replaced; the last column says whose."""
    table, unit, place = _mixed(rng, n, d)
    sizes, at = rng.integers(1, 4, n), int(rng.integers(n))
    sizes[at] = int(rng.choice([1, 3, 300, 3000]))
    ids = np.repeat(np.arange(n), sizes)
    before = table[ids]
    after, theirs = before.copy(), ids == at
    if rng.random() < 0.5:
        before[theirs], after[theirs] = _near(rng, unit, place), _near(rng, unit, place)
    else:
        for rows in (before, after):
            rows[theirs] = [_near(rng, unit, place) for _ in range(sizes[at])]
    order = rng.permutation(len(ids))
    before, after = (np.column_stack([rows, ids])[order] for rows in (before, after))
    return Neighbours(before, after, np.arange(n))


def one_mixed_person_less(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:
    """The same, and the table without that person; or the other way round."""
    return without_person(mixed_people(rng, n, d, replace=replace), rng)


def _in_a_box(method: str) -> Callable[[Setting, Any, Any], Any]:
    """Public bounds that differ between columns, so that columns have weights."""

    def fit(setting: Setting, source: Any, rng: Any) -> Any:
        reach = np.logspace(8, 22, setting.d)
        return moments(method, bound=(-reach, 2 * reach))(setting, source, rng)

    return fit


# --- the list ---------------------------------------------------------------------------------------------------------

_MIXED: Mapping[str, Any] = {"bounds": BOUNDS[:1], "centers": ("private",), "rows": (700, 2000), "columns": (3, 4, 6),
                             "epsilons": (30.0, 100.0), "sources": ("array", "frame"),
                             "tables": mixed_neighbours}  # fmt: skip
_PAIRED: Mapping[str, Any] = {**_MIXED, "relations": REPLACE}
_PEOPLE: Mapping[str, Any] = {**_PAIRED, "rows": (700,), "sources": ("array",), "tables": mixed_people}
_LESS: Mapping[str, Any] = {**_PEOPLE, "relations": ("add_remove",), "tables": one_mixed_person_less}

MIXED_SUBJECTS: list[Subject] = [
    Subject("mixed units, signs", moments("spatial-sign"), **_MIXED),
    Subject("mixed units, signs, redescending", moments(SpatialSign("redescending", "private")), **_MIXED),
    Subject("mixed units, refined", moments("refined"), **_MIXED, deltas=APPROXIMATE),
    Subject("mixed units, refined, cutoff", moments(Refined(cutoff="private")), **_MIXED, deltas=APPROXIMATE),
    Subject("mixed units, refined, differences", moments(Refined(differences=True)), **_PAIRED, deltas=APPROXIMATE),
    Subject("mixed units, robust", moments("auto", robust=True), **_MIXED),
    Subject("mixed units, one unit", moments("auto", robust=True, units="same"), **_MIXED),
    Subject("mixed units, correlation", moments("refined", scale="private"), **_MIXED, deltas=APPROXIMATE),
    Subject("mixed units, kendall", moments(Kendall("redescending", "private", location="paid")), **_PAIRED),
    Subject("mixed units, private radius", moments("gaussian", bound="private"), **_MIXED, deltas=APPROXIMATE),
    Subject("mixed units, private radius, holes", moments("gaussian", bound="private", missing="correct"), **_MIXED,
            deltas=APPROXIMATE),
    Subject("mixed units, sampling", moments("eigenvector-sampling", bound="private"), **_MIXED),
    Subject("mixed units, wide radius", moments("spatial-sign", bound=1e22), **_MIXED),
    Subject("mixed units, wide box", _in_a_box("spatial-sign"), **_MIXED),
    Subject("mixed units, private rank", moments("gaussian", n_components="private", bound="private"),
            **{**_MIXED, "columns": (4,)}, deltas=APPROXIMATE),
    Subject("mixed units, oja", moments("oja", bound="private"), **{**_PAIRED, "rows": (2000,), "columns": (2, 3)},
            deltas=APPROXIMATE),
    Subject("mixed units, single", moments("spatial-sign"), **{**_MIXED, "sources": ("single",)}),
    Subject("mixed units, people", of_people("auto", robust=True), **_PEOPLE),
    Subject("mixed units, people, capped", of_people(Refined(cutoff="private"), max_rows=3), **_PEOPLE,
            deltas=APPROXIMATE),
    Subject("mixed units, a person less", of_people("auto", robust=True, max_rows=3), **_LESS),
]  # fmt: skip
