"""Errors of a release whose directions were drawn by the exponential mechanism (`stats.drawn`).

Post-processing: a function of the release. Eigenvalues and directions were measured separately. So errors have three
parts: sampling error and clipping, in the eigenbasis of the moment; the noise of the eigenvalues; and the rotation
between the directions and the eigenvectors, which is drawn anew. Eigenvalues of a covariance do not depend on the last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpeigen._types import Floats
from dpeigen.errors import Errors, errors_of, generator_of
from dpeigen.stats.drawn import NoisyValues, decreasing, drawn_rotations, value_noise
from dpeigen.stats.intervals import DECOMPOSED, Spectrum

if TYPE_CHECKING:
    from dpeigen.release import Release
    from dpeigen.stats.measured import Measured

__all__ = ["DrawnErrors"]


@dataclass(frozen=True, eq=False)
class DrawnErrors:
    """Errors if the drawn directions were the eigenvectors, without the noise of eigenvalues; and draws of the rest."""

    measured: Measured
    others: Errors
    values: Floats  # decreasing, as they were measured
    noise: Floats  # of them: draws × d
    turns: Floats  # draws × d × d rotations of the moment, from directions to eigenvectors
    gain: float  # factor on eigenvalues by which clipping is corrected on average

    @classmethod
    def of(cls, release: Release, measured: Measured, of: str, draws: int) -> DrawnErrors:
        """Draw all errors of a release; ``of`` is "population" or "table"."""
        if measured.drawn_values is None or measured.concentrations is None:
            raise AssertionError("directions were drawn")
        others, rng = errors_of(release, measured.along_directions(), of, draws), generator_of(measured)
        values = decreasing(measured.drawn_values)
        noise = value_noise(measured.law, measured.drawn_deviation, (len(others.draws), len(values)), rng)
        turns = drawn_rotations(np.maximum(decreasing(values - noise), 0.0), measured.concentrations, rng)
        back = np.linalg.pinv(measured.back)
        corrected = float(np.trace(back @ others.seen @ back.T))
        gain = corrected / float(values.sum()) if min(corrected, values.sum()) > 0 else 1.0
        return cls(measured, others, values, noise, turns, gain)

    @cached_property
    def along(self) -> Errors:
        """All errors but those of directions."""
        moved = (np.maximum(decreasing(self.values - self.noise), 0.0) - self.values) * self.gain
        back = self.measured.back
        return replace(self.others, draws=self.others.draws - (back * moved[:, None, :]) @ back.T)

    @cached_property
    def all(self) -> Errors:
        """All errors."""
        return self._turned(self.along)

    @cached_property
    def of_directions(self) -> Errors:
        """Those of directions alone."""
        found = Spectrum.of(self.along.seen, self.along.draws[:DECOMPOSED])
        seen = (found.vectors * found.debiased()) @ found.vectors.T
        return self._turned(replace(self.along, seen=seen, draws=np.zeros_like(found.errors)))

    def _turned(self, errors: Errors) -> Errors:
        turns = self.measured.back @ self.turns[: len(errors.draws)] @ np.linalg.pinv(self.measured.back)
        return replace(errors, draws=errors.seen - turns @ (errors.seen - errors.draws) @ np.swapaxes(turns, 1, 2))

    def spectrum(self, seen: Floats, draws: Floats) -> NoisyValues:
        """Eigenvalues of the covariance, from ``others`` in the units in which eigenvalues were measured."""
        found = Spectrum.of(seen, draws[:DECOMPOSED])
        noise = self.noise[: len(found.errors)] * self.gain
        return NoisyValues(found.values, found.vectors, found.errors, found.least, noise)
