"""Hostile tables and their neighbours, as every kind of source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.sources.memory import BlockSource

Floats = NDArray[np.float64]
Generator = np.random.Generator
_LARGEST = float(np.finfo(np.float64).max)
_ENTRIES = [0.0, _LARGEST, -_LARGEST, 5e-324, 1e-308, 1e-200, 1e200, 1e154, np.inf, np.nan, 1.0, 2.0**1023,
            1e16, -1e16, 1e-16]  # fmt: skip
_FAR = [1.0, 3.0, 1e3, 1e10, 1e-3]  # 3.0 is the radius of the cases


@dataclass(frozen=True)
class Neighbours:
    """Two tables, and where each row of the first is in the second; −1 for a row that was removed.

    ``people``: one of them has all rows of a person more, who has the largest id.
    """

    before: Floats
    after: Floats
    places: NDArray[np.intp] | None
    people: bool = False


def neighbours(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:
    """A hostile table and one that differs in one row; sometimes both are kept sorted, so that other rows move."""
    table, at = _table(rng, n, d), int(rng.integers(n))
    old, new = _pair(rng, d)
    if rng.random() < 0.7:
        table[at] = old
    ordered = rng.random() < 0.4
    if not replace:
        return one_less(table, at, ordered=ordered, added=rng.random() < 0.5)
    changed = table.copy()
    changed[at] = new
    if not ordered:
        return Neighbours(table, changed, np.arange(n))
    return sorted_neighbours(table, changed)


def people_neighbours(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:
    """The rows of n people, and the same with all rows of one of them replaced, mostly by another number of rows."""
    pair = same_size_neighbours(rng, n, d, replace=replace)
    if rng.random() < 0.3:
        return pair
    changed = _differ(pair.before, pair.after)
    keep = int(rng.choice([1, 2, 7, 1000]))
    after = pair.after[~changed | (np.cumsum(changed) <= keep)]
    first, second = (pair.before, after) if rng.random() < 0.5 else (after, pair.before)
    return Neighbours(first, second, None, people=True)


def same_size_neighbours(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:  # noqa: ARG001
    """Rows of n people, whose numbers are the last column; all rows of one of them, many, are hostile and replaced.

    ``places`` are those of people: a row that stands for one is in the same place in both.
    """
    table = _table(rng, n, d)
    sizes = rng.integers(1, 4, n)
    at = int(rng.integers(n))
    sizes[at] = int(rng.choice([1, 3, 300, 3000]))
    ids = np.repeat(np.arange(n), sizes)
    before = table[ids] + rng.normal(size=(len(ids), d)) * 0.1
    after, theirs = before.copy(), ids == at
    if rng.random() < 0.5:  # all rows of a person alike, and as bad as can be
        before[theirs], after[theirs] = _pair(rng, d)
    else:
        before[theirs] = [_row(rng, d) for _ in range(sizes[at])]
        after[theirs] = [_row(rng, d) for _ in range(sizes[at])]
    order = rng.permutation(len(ids))
    before, after = (np.column_stack([rows, ids])[order] for rows in (before, after))
    return Neighbours(before, after, np.arange(n))


def one_person_less(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:
    """The same, and the table without the hostile person; or the other way round."""
    return without_person(same_size_neighbours(rng, n, d, replace=replace), rng)


def one_holey_person_less(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:
    """The same with many missing cells."""
    return without_person(holey_people(rng, n, d, replace=replace), rng)


def without_person(pair: Neighbours, rng: Generator) -> Neighbours:
    table, changed = pair.before.copy(), np.flatnonzero(_differ(pair.before, pair.after))
    last = table[:, -1].max()
    who = table[changed[0], -1] if len(changed) else last
    table[:, -1] = np.where(table[:, -1] == who, last, np.where(table[:, -1] == last, who, table[:, -1]))
    less = table[table[:, -1] != last]
    first, second = (table, less) if rng.random() < 0.5 else (less, table)
    return Neighbours(first, second, None, people=True)


def holey_neighbours(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:
    """The same with many missing cells; mostly the row that is replaced misses all of them, or none any more."""
    pair = neighbours(rng, n, d, replace=replace)
    before, after, places = pair.before.copy(), pair.after.copy(), pair.places
    assert places is not None
    holes = rng.random(before.shape) < rng.choice([0.1, 0.5, 0.9])
    kept = places >= 0
    changed = np.flatnonzero(kept)[_differ(before[kept], after[places[kept]])]
    before[holes] = np.nan
    after[places[kept]] = np.where(holes[kept], np.nan, after[places[kept]])
    if rng.random() < 0.7:
        before[changed], after[places[changed]] = np.nan, 1.0
    return Neighbours(before, after, places)


def holey_people(rng: Generator, n: int, d: int, *, replace: bool) -> Neighbours:
    """People with many missing cells; mostly the rows of the one who is replaced miss all of them, or none any more."""
    pair = same_size_neighbours(rng, n, d, replace=replace)
    before, after = pair.before.copy(), pair.after.copy()
    changed = np.flatnonzero(_differ(before, after))
    holes = rng.random((len(before), d)) < rng.choice([0.1, 0.5, 0.9])
    before[:, :-1][holes], after[:, :-1][holes] = np.nan, np.nan
    if rng.random() < 0.7:
        before[changed, :-1], after[changed, :-1] = np.nan, 1.0
    return Neighbours(before, after, pair.places)


def _differ(first: Floats, second: Floats) -> NDArray[np.bool_]:
    """Which rows do."""
    return np.asarray(~((first == second) | (np.isnan(first) & np.isnan(second))).all(axis=1))


def one_less(table: Floats, at: int, *, ordered: bool, added: bool) -> Neighbours:
    """The table and the same without one of its rows; the other way round if a row is ``added``."""
    ranks = _sorted(table)[1] if ordered else np.arange(len(table))
    kept = ranks != at
    first, second = table[ranks], table[ranks[kept]]
    if added:
        return Neighbours(second, first, np.flatnonzero(kept))
    return Neighbours(first, second, np.where(kept, np.cumsum(kept) - 1, -1))


def sorted_neighbours(table: Floats, changed: Floats) -> Neighbours:
    """Both tables in the order of their first columns, as someone who keeps a file sorted would have them."""
    first, ranks = _sorted(table)
    second, other = _sorted(changed)
    places = np.empty(len(table), dtype=np.intp)
    where = np.empty(len(table), dtype=np.intp)
    where[other] = np.arange(len(table))
    places[:] = where[ranks]
    return Neighbours(first, second, places)


def model_neighbours(rng: Generator, n: int, spikes: Floats, d: int) -> Neighbours:
    """Normal rows of a spiked covariance, one of them drawn anew from the same law: what `spiked` is proven for."""
    deviations = np.sqrt(np.append(spikes, np.zeros(d - len(spikes))) + 1.0)
    table = rng.normal(size=(n, d)) * deviations
    changed = table.copy()
    changed[int(rng.integers(n))] = rng.normal(size=d) * deviations
    return Neighbours(table, changed, np.arange(n))


def _sorted(table: Floats) -> tuple[Floats, NDArray[np.intp]]:
    order = np.argsort(table[:, 0], kind="stable")
    return table[order], order


def _row(rng: Generator, d: int) -> Floats:
    kind = rng.integers(6)
    if kind == 0:
        return rng.choice(_ENTRIES, size=d)
    if kind == 1:
        return _axis(rng, d)
    if kind == 2:
        return rng.normal(size=d) * 10.0 ** rng.integers(-5, 8)
    if kind == 3:
        return np.zeros(d)
    if kind == 4:
        row = rng.normal(size=d)
        return row / np.linalg.norm(row) * 3.0
    return np.full(d, np.nan)


def _axis(rng: Generator, d: int) -> Floats:
    row = np.zeros(d)
    row[rng.integers(d)] = rng.choice(_FAR) * rng.choice([-1.0, 1.0])
    return row


def _pair(rng: Generator, d: int) -> tuple[Floats, Floats]:
    """Two rows: those that proofs find worst (other axes, opposite, nothing against something), or any."""
    kind = rng.integers(5)
    if kind == 0:
        return _axis(rng, d), _axis(rng, d)
    if kind == 1:
        row = rng.normal(size=d)
        row *= rng.choice(_FAR) / np.linalg.norm(row)
        return row, -row
    if kind == 2:
        return np.zeros(d), _axis(rng, d)
    if kind == 3:
        corners = np.array([-2.0, 3.0])  # of the box of the cases
        return rng.choice(corners, size=d), rng.choice(corners, size=d)
    return _row(rng, d), _row(rng, d)


def _table(rng: Generator, n: int, d: int) -> Floats:
    kind = rng.integers(6)
    if kind == 0:
        return rng.normal(size=(n, d))
    if kind == 1:
        return np.zeros((n, d))
    if kind == 2:
        return rng.normal(size=(n, d)) * np.logspace(0, -3, d)
    if kind == 3:
        return np.tile(_row(rng, d), (n, 1))
    if kind == 4:
        return np.round(rng.normal(size=(n, d)))  # ties
    return np.array([_row(rng, d) for _ in range(n)])


# --- sources ----------------------------------------------------------------------------------------------------------


def names(d: int) -> list[str]:
    return [f"c{j}" for j in range(d)]


def _frame(table: Floats, path: Path) -> Any:  # noqa: ARG001
    import pandas as pd

    frame = pd.DataFrame(table, columns=names(table.shape[1]))
    return frame.astype({"c0": "Float64"})  # columns of two types are turned into numbers block by block


def _parquet(table: Floats, path: Path) -> str:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    columns = dict(zip(names(table.shape[1]), table.T, strict=True))
    parquet.write_table(pa.table(columns), path.with_suffix(".parquet"), row_group_size=97)
    return str(path.with_suffix(".parquet"))


def _csv(table: Floats, path: Path) -> str:
    lines = [",".join(names(table.shape[1])), *(",".join(repr(float(v)) for v in row) for row in table)]
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path.with_suffix(".csv"))


def _blocks(table: Floats) -> Iterator[Floats]:
    step = max(1, len(table) // 3)
    for at in range(0, len(table), step):
        yield table[at : at + step]


def _dask(table: Floats, path: Path) -> Any:  # noqa: ARG001
    import dask.array

    return dask.array.from_array(table, chunks=(max(1, len(table) // 3), table.shape[1]))


def _single(table: Floats, path: Path) -> Any:  # noqa: ARG001
    return np.clip(table, -1e30, 1e30).astype(np.float32)


SOURCES: dict[str, Callable[[Floats, Path], Any]] = {
    "array": lambda table, path: table,  # noqa: ARG005
    "frame": _frame,
    "parquet": _parquet,
    "csv": _csv,
    "block function": lambda table, path: BlockSource(lambda: _blocks(table), n_features=table.shape[1]),  # noqa: ARG005
    "list of blocks": lambda table, path: BlockSource(list(_blocks(table)), n_features=table.shape[1]),  # noqa: ARG005
}
LONG_SOURCES = {**SOURCES, "single": _single, "dask": _dask}
