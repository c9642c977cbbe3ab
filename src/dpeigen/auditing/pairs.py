"""Bad neighbouring data sets: a catalogue of the worst cases in proofs, and a search that starts from them.

Bases: no data at all (zeros), rows spread inside the ball, all in one direction, a tie of the first two eigenvalues,
rows of all lengths (for counts within a radius), a cluster opposite to the row that changes, a cloud. The row that
differs: one unit vector for another, for nothing, for its opposite, two diagonals (which move an off-diagonal entry
most), opposite corners, and rows far outside or tiny.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.auditing.targets import Target, model_rows
from dpeigen.privacy import Relation
from dpeigen.privacy.randomness import made_up_generator

__all__ = ["FAR", "Pair", "catalogue", "neighbours_of"]

FAR = 1e6


@dataclass(frozen=True)
class Pair:
    """Two neighbouring data sets."""

    name: str
    first: Floats
    second: Floats


def catalogue(target: Target, *, quick: bool = False) -> list[Pair]:
    """The known bad pairs for a target; with ``quick`` only those that are worst for most targets."""
    if target.model:
        return _model_pairs(target, 2 if quick else 6)
    bases = _bases(target.n_rows - 1, target.n_features)
    changes = list(_changes(target.n_features, target.relation))
    if target.facts.get("bad rows"):
        changes.insert(0, ("a unit row spoiled", np.eye(target.n_features)[0], np.full(target.n_features, np.nan)))
    if target.local:
        bases = {"nothing": np.zeros((0, target.n_features))}
    elif quick:
        bases = {name: bases[name] for name in ("zeros", "spread", "tie", "lengths")}
        changes = changes[:4]
    return [
        Pair(f"{base}: {change}", _with(rows, one), _with(rows, two))
        for base, rows in bases.items()
        for change, one, two in changes
    ]


def _with(rows: Floats, row: Floats | None) -> Floats:
    return rows if row is None else np.vstack([rows, row[None]])


def _bases(n: int, d: int) -> dict[str, Floats]:
    axes = np.eye(d)
    inner = np.vstack([0.6 * axes, -0.6 * axes])
    cloud = made_up_generator().standard_normal((n, d)) * 0.3
    return {
        "zeros": np.zeros((n, d)),
        "spread": np.resize(inner, (n, d)),
        "tie": np.resize(axes[: min(2, d)], (n, d)),
        "lengths": np.outer(np.geomspace(1e-3, 1.0, max(n, 1))[:n], axes[0]),
        "line": np.tile(axes[0], (n, 1)),
        "opposite cluster": np.tile(-axes[0], (n, 1)),
        "cloud": cloud,
    }


def _changes(d: int, relation: Relation) -> Iterator[tuple[str, Floats, Floats | None]]:
    e1 = np.eye(d)[0]
    e2 = np.eye(d)[1] if d > 1 else np.zeros(1)
    zero, corner = np.zeros(d), np.ones(d) / np.sqrt(d)
    if relation is Relation.ADD_REMOVE:
        yield "a unit row more", e1, None
        yield "a row of zeros more", zero, None
        yield "a diagonal row more", corner, None
        yield "a far row more", FAR * e1, None
        return
    yield "a unit row turned", e1, e2
    yield "a unit row emptied", e1, zero
    yield "a diagonal turned", (e1 + e2) / np.sqrt(2), (e1 - e2) / np.sqrt(2)
    yield "a unit row reversed", e1, -e1
    yield "opposite corners", corner, -corner
    yield "a far row turned", FAR * e1, FAR * e2
    yield "a far row emptied", FAR * e1, zero
    yield "a tiny row turned", e1 / FAR, e2 / FAR


def _model_pairs(target: Target, count: int) -> list[Pair]:
    """Data from the model with one row replaced by another from it, as a distributional claim assumes."""
    pairs = []
    for seed in range(count):
        rows = model_rows(target.n_rows + 1, target.n_features, seed)
        pairs.append(Pair(f"model, draw {seed}", rows[:-1], np.vstack([rows[:-2], rows[-1:]])))
    return pairs


def neighbours_of(pair: Pair, target: Target, uniform: Callable[[int], Floats]) -> Pair:
    """A pair near a given one, for the search: other lengths, another angle, a base half replaced. Still neighbours.

    ``uniform(n)`` gives n numbers in (0, 1); the pair's rows that differ are the last ones.
    """
    if target.model:
        return pair
    draws = uniform(6)
    base, one = pair.first[:-1].copy(), pair.first[-1].copy()
    removed = len(pair.second) < len(pair.first)
    two = None if removed else pair.second[-1].copy()
    if len(base) and draws[0] < 0.5:
        other = list(_bases(len(base), target.n_features).values())
        source = other[int(draws[1] * len(other))]
        share = int(draws[2] * len(base))
        base[:share] = source[:share]
    if draws[3] < 0.4:
        base *= 2.0 ** (2 * draws[4] - 1)
    step = 0.4 * (uniform(2 * target.n_features) - 0.5)
    one += step[: target.n_features] * max(1.0, float(np.linalg.norm(one)))
    if two is not None:
        two += step[target.n_features :] * max(1.0, float(np.linalg.norm(two)))
    name = pair.name if pair.name.endswith("(searched)") else f"{pair.name} (searched)"
    return Pair(name, _with(base, one), _with(base, two))
