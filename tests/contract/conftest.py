"""Two data sets, one release: replays what mechanisms release, so that whatever else changes with the data is a leak.

A door is a function through which numbers leave by a paid mechanism. In a first fit every result of a door is written
down, with the state of the seeded generator after it; in a second fit, of other data with the same public facts, the
doors give the same results again. Then nothing that a user can reach may differ, down to the last bit.

Methods have one door, the curator's answers. That an answer itself holds nothing but what its mechanism released is
tested with the doors inside the questions (`mechanisms`).
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Mapping

import numpy as np
import pytest

from dpeigen.curator import DataCurator
from dpeigen.privacy.randomness import SeededRandomness
from dpeigen.questions import (
    ColumnReaches,
    RadiusHolding,
    RadiusLeaving,
    RadiusNear,
    base,
    box,
    cells,
    columns,
    count,
    descent,
    far_rows,
    laws,
    printed,
    ranges,
    scale,
    spectrum,
    spiked,
    steps,
)

DOORS = [(DataCurator, "_answered")]

# Where noise meets the exact statistic of a question.
MECHANISMS = [
    (laws.SymmetricNoise, "added_to"),
    *((m, "perturb") for m in (base, box, cells, columns, count, far_rows, spectrum, steps)),
    (base, "perturb_with_count"),
    *((m, "stable_histograms") for m in (printed, ranges, scale)),
    (steps, "with_noise"),
    *((kind, "answer") for kind in (RadiusHolding, RadiusLeaving, RadiusNear, ColumnReaches)),
    *((spectrum, name) for name in ("sample_orthonormal", "sample_bingham")),
    (descent, "_gradient"),  # noise is added in the next line, from the same generator
    (spiked._OfRawMoment, "_noisy"),
]


class Doors:
    """Records in the first pass, replays in the second."""

    def __init__(self, monkeypatch, places):
        self.released, self.replaying, self.at = [], False, 0
        for place, name in places:
            monkeypatch.setattr(place, name, self._door(getattr(place, name)))

    def replay(self):
        self.replaying, self.at = True, 0

    def _door(self, original):
        @functools.wraps(original)
        def door(*arguments, **named):
            generator = find_generator((*arguments, *named.values()))
            if not self.replaying:
                result = original(*arguments, **named)
                state = None if generator is None else generator.bit_generator.state
                self.released.append((original.__qualname__, copy.deepcopy(result), copy.deepcopy(state)))
                return result
            name, result, state = self.released[self.at]
            assert name == original.__qualname__, "the order of releases depends on the data"
            self.at += 1
            if generator is not None:
                generator.bit_generator.state = copy.deepcopy(state)
            return copy.deepcopy(result)

        return door


def find_generator(values):
    for value in values:
        rng = value if isinstance(value, SeededRandomness) else getattr(value, "rng", None)
        if isinstance(value, DataCurator):
            rng = value._DataCurator__rng
        if isinstance(rng, SeededRandomness):
            return rng._generator
    return None


@pytest.fixture
def doors(monkeypatch):
    return Doors(monkeypatch, DOORS)


@pytest.fixture
def mechanisms(monkeypatch):
    return Doors(monkeypatch, MECHANISMS)


def everything(thing, seen=None, path="it", depth=0):
    """(path, value) of all that can be reached from an object: attributes, items, closures, to the last bit."""
    seen = {} if seen is None else seen
    if thing is None or isinstance(thing, (bool, int, float, complex, str, bytes, np.generic, np.dtype)):
        yield path, repr(thing)
        return
    if id(thing) in seen or depth > 60:
        return
    seen[id(thing)] = thing  # kept alive: an id is not used twice
    if isinstance(thing, np.ndarray):
        yield path, (str(thing.dtype), thing.shape)
        if thing.dtype == object:
            yield from everything(thing.tolist(), seen, f"{path}[]", depth + 1)
        else:
            yield path, thing.tobytes()
        if thing.base is not None:
            yield from everything(thing.base, seen, f"{path}.base", depth + 1)
        return
    if isinstance(thing, (type, types.ModuleType, types.BuiltinFunctionType)):
        yield path, getattr(thing, "__qualname__", repr(thing))
        return
    if isinstance(thing, Mapping):
        for key in thing:
            yield from everything(key, seen, f"{path} key", depth + 1)
            yield from everything(thing[key], seen, f"{path}[{key!r}]", depth + 1)
    elif isinstance(thing, (list, tuple, set, frozenset)):
        items = sorted(thing, key=repr) if isinstance(thing, (set, frozenset)) else thing
        yield path, len(items)
        for number, item in enumerate(items):
            yield from everything(item, seen, f"{path}[{number}]", depth + 1)
    elif isinstance(thing, types.FunctionType):
        yield path, thing.__qualname__
        for cell in thing.__closure__ or ():
            yield from everything(cell.cell_contents, seen, f"{path}.closure", depth + 1)
        yield from everything(thing.__defaults__, seen, f"{path}.defaults", depth + 1)
    elif isinstance(thing, types.MethodType):
        yield from everything(thing.__func__, seen, f"{path}.func", depth + 1)
        yield from everything(thing.__self__, seen, f"{path}.self", depth + 1)
    if isinstance(thing, BaseException):
        yield path, (type(thing).__qualname__, str(thing))
        for name in ("args", "__cause__", "__context__", "__notes__"):
            yield from everything(getattr(thing, name, None), seen, f"{path}.{name}", depth + 1)
    if hasattr(thing, "__dict__"):
        for name in sorted(vars(thing)):
            yield from everything(vars(thing)[name], seen, f"{path}.{name}", depth + 1)
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if hasattr(thing, name):
                yield from everything(getattr(thing, name), seen, f"{path}.{name}", depth + 1)


@pytest.fixture(scope="session")
def reachable():
    """A function that lists what is reachable from an object, as path → values."""

    def listed(thing):
        found = {}
        for path, value in everything(thing):
            found.setdefault(path, []).append(value)
        return found

    return listed
