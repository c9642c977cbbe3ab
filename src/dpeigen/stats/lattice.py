"""Bounded rows on an integer lattice.

A framed row y is clipped to the ball of the given radius (or projected on its sphere) and rounded to a vector z of
integers with ‖z‖ ≤ 2^20, checked exactly on the integers themselves. One grid step is about radius / (2^20 − √d/2), a
little more than radius/2^20, so that rounding to the nearest integer cannot leave the ball. Everything computed from
z is then a sum of integers that double precision holds exactly, and sensitivities are facts about those integers.

>>> from dpeigen.stats import Frame
>>> Lattice(Frame(2), radius=1.0).integers(np.array([[3.0, 4.0], [0.0, 0.0]]))
array([[629145., 838859.],
       [     0.,      0.]])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.frame import RowView, exact_bits, normalised

LEVELS = 2**20
EXACT_ROWS = 2**53 // LEVELS**2  # sums of this many products of lattice integers are exact in doubles


@dataclass(frozen=True)
class Lattice:
    """The map from blocks of rows to integer rows inside the ball of radius `LEVELS`."""

    frame: RowView
    radius: float
    shape: Literal["ball", "sphere"] = "ball"

    @property
    def n_columns(self) -> int:
        return self.frame.n_columns

    @property
    def inner(self) -> float:
        """The radius, in grid steps, that rows are clipped to before rounding."""
        root = math.sqrt(self.n_columns)
        return (LEVELS - root / 2 - 1) / (1 + root * 2.0 ** -exact_bits(self.n_columns))

    @property
    def step(self) -> float:
        """The length of one grid step in framed units."""
        return self.radius / self.inner

    def integers(self, block: Any, out: Floats | None = None) -> Floats:
        """The lattice rows of a block, as floating-point integers: a new array, or the top of ``out`` if it can."""
        quick = self.frame.quick_image(block) if self.shape == "ball" else None
        rows = self.frame.image(block) if quick is None else quick
        if self.shape == "sphere":
            return self._on_sphere(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            lattice = np.multiply(rows, 1.0 / self.step, out=None if out is None else out[: len(rows)])
            np.rint(lattice, out=lattice)
            squared = np.einsum("ij,ij->i", lattice, lattice)
            outside = ~(squared <= LEVELS**2)  # too long, or not finite
        if outside.any():
            rows = rows[outside] if quick is None else self.frame.image(np.asarray(block)[outside])
            lattice[outside] = self._on_sphere(rows)
        return lattice

    def _on_sphere(self, rows: Floats) -> Floats:
        scaled, _, squared = normalised(rows)
        norms = np.sqrt(squared)
        lattice = np.rint(scaled * (self.inner / np.maximum(norms, 1.0))[:, None])
        while True:  # by the choice of `inner` the first check passes; the proof rests on the check all the same
            outside = ~(np.einsum("ij,ij->i", lattice, lattice) <= LEVELS**2)  # so that NaN cannot pass
            if not outside.any():
                return lattice
            shorter = np.trunc(lattice[outside] * (1 - 2.0**-12))
            lattice[outside] = np.nan_to_num(shorter, nan=0.0, posinf=0.0, neginf=0.0)


def unit_lattice(frame: RowView) -> Lattice:
    """Rows projected on the unit sphere: spatial signs."""
    return Lattice(frame, radius=1.0, shape="sphere")
