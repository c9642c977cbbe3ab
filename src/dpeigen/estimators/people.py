"""The people whose rows a stream was given: all rows of a person must come in one call.

Only digests of ids with a random key are kept, in memory; copies and pickles contain none.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeigen.privacy import Randomness
from dpeigen.sources import Source
from dpeigen.sources.ids import Codes, told_apart, with_missing
from dpeigen.sources.memory import ArraySource
from dpeigen.sources.units import LENGTHS, UnitsByPlace

__all__ = ["KnownPersonError", "Roll", "rows_of"]


class KnownPersonError(ValueError):
    """A call holds rows of someone who was in an earlier one. The message names nobody."""


def rows_of(source: Source) -> NDArray[Any]:
    """All rows of one call, copied into one array."""
    return np.concatenate([np.array(block) for block in source.blocks()] or [np.empty((0, source.n_features))])


class Roll:
    """Everyone whose rows were used so far."""

    def __init__(self, rng: Randomness) -> None:
        self._rng, self._key = rng, rng.token()
        self._digests: set[bytes] = set()
        self._new: set[bytes] = set()

    def newcomers(self, ids: Any, source: Source) -> Codes:
        """The numbers of the people of one call; refuses if someone was in an earlier call whose rows were used."""
        codes, names = told_apart(ids, named=True)
        if source.n_rows is not None and source.n_rows != len(codes):
            raise ValueError(LENGTHS)
        found = {
            hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()
            for name in names
        }
        if found & self._digests:
            raise KnownPersonError(
                "X holds rows of someone who was in an earlier call of partial_fit. All rows of one unit must come in "
                "one call: they are protected together only inside one batch. None of these rows were used or "
                "paid for. This refusal itself says something about the data. Leave those rows out."
            )
        self._new = found
        return with_missing(codes, names)[0]

    def one_each(self, source: Source, codes: Codes) -> Source:
        """One row of each person, drawn at random; people are in a random order, which decides their batches."""
        units = UnitsByPlace(source, lambda: (codes, int(codes.max(initial=-1)) + 1), "")
        units.choose(self._rng)
        heads = units.one_each()
        rows = rows_of(heads)
        return ArraySource(rows[self._rng.permutation(len(rows))], heads.feature_names)

    def take_in(self) -> None:
        """Record the newcomers of the last call, before any of their rows is used."""
        self._digests |= self._new

    def __getstate__(self) -> dict[str, Any]:
        return {"_rng": None, "_key": b"", "_digests": set(), "_new": set()}  # a copy cannot continue
