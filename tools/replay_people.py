"""Choices of people's rows that belong together in two fits, where one person is there only once.

Draws for different people are independent, so each person may have a generator of their own: the same in both fits.
Whoever is in one table only has the largest id, and ids are whole numbers, so the numbers of the others are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from replay_tape import Tape

from dpeigen.sources import units


@contextmanager
def same_choices(tape: Tape) -> Iterator[None]:
    """People who are in both tables have the same rows kept, and are represented by the same one, or by none."""
    whom: list[NDArray[Any]] = []

    def chosen(codes: NDArray[Any], people: int, limits: units.UnitLimits, rng: Any) -> tuple[Any, Any, Any]:  # noqa: ARG001
        sizes = np.bincount(codes, minlength=people)
        used = np.minimum(sizes, limits.most)
        heads, kept = np.zeros(len(codes), dtype=bool), np.zeros(len(codes), dtype=bool)
        starts, by_person = np.cumsum(sizes) - sizes, np.argsort(codes, kind="stable")
        for person in range(people):
            own = np.random.default_rng([tape.seed, person])
            rows = own.permutation(by_person[starts[person] : starts[person] + sizes[person]])
            heads[rows[:1]] = not limits.thinned or own.random() * limits.counts_as < used[person]
            kept[rows[: limits.most]] = True
        if tape.replaying and not whom:
            pass  # the first fit had no need to draw: nobody has too many rows, and none stands for all of someone's
        elif tape.replaying:
            places = {int(person): place for place, person in enumerate(codes[heads])}
            tape.places = np.array([places.get(int(person), -1) for person in whom[-1]], dtype=np.intp)
        else:
            whom.append(codes[heads])
        return limits.shared(used), heads, kept

    def ranks(codes: NDArray[Any], rng: Any) -> NDArray[np.int64]:  # noqa: ARG001
        found = np.zeros(len(codes), dtype=np.int64)
        for person in np.unique(codes):
            rows = np.flatnonzero(codes == person)
            found[rows] = np.random.default_rng([tape.seed, person, 1]).permutation(len(rows))
        return found

    with patch.object(units, "chosen", chosen), patch.object(units, "ranks", ranks):
        yield
