"""Bounded rows on an integer lattice.

A framed row y is clipped to the ball of the given radius (or projected on its sphere) and rounded to a vector z of
integers with ‖z‖ ≤ 2^20, which is checked on the integers themselves. One grid step is about radius / (2^20 − √d/2), a
little more than radius/2^20, so that rounding to the nearest integer does not leave the ball. Statistics of z are sums
of integers that double precision holds exactly, so sensitivities are proven for the numbers actually computed.

>>> from dpeigen.stats import Frame
>>> Lattice(Frame(2), radius=1.0).integers(np.array([[3.0, 4.0], [0.0, 0.0]]))
array([[629145., 838859.],
       [     0.,      0.]])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.exact_norms import exact_bits, normalised
from dpeigen.stats.frame import Frame, RowView
from dpeigen.stats.stretch import WhitenedRows
from dpeigen.stats.units import UnitBlock, root_shares, squared_limits
from dpeigen.stats.whole import Turn, turn_of

__all__ = ["EXACT_ROWS", "LEVELS", "Lattice", "limits_of", "unit_lattice"]

LEVELS = 2**20
_FEW = 8  # if fewer than 1/_FEW of the rows are too long, those are clipped separately
_EXACT = 2.0**53  # sums of integers below this are exact in doubles
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

    @cached_property
    def inner(self) -> float:
        """The radius, in grid steps, to which rows are clipped before rounding."""
        return float(self._inner(float(LEVELS)))

    def _inner(self, radius: Any) -> Any:
        root = math.sqrt(self.n_columns)
        return (radius - root / 2 - 1) / (1 + root * 2.0 ** -exact_bits(self.n_columns))

    @property
    def clips(self) -> bool:
        """Whether rows may be longer than the radius, according to public facts."""
        reach = self.frame.reach if isinstance(self.frame, Frame) else math.inf
        return self.shape == "ball" and reach * math.sqrt(self.n_columns) > self.radius

    @cached_property
    def step(self) -> float:
        """The length of one grid step in the frame's units."""
        return self.radius / self.inner

    @cached_property
    def turn(self) -> Turn | None:
        """The map to apply after rows are summed; None if it is applied to each row (`stats.whole`)."""
        return turn_of(self.frame, self.step) if self.shape == "ball" else None

    def integers(self, block: Any, out: Floats | None = None) -> Floats:
        """The lattice rows of a block, as floating-point integers: a new array, or the top of ``out`` if possible.

        Rows that share a person with m − 1 others are divided by √m, and so is the radius of their ball
        (`stats.units`), unless they are clipped together (`stats.together`).
        """
        return self.integers_and_squares(block, out)[0]

    def integers_and_squares(self, block: Any, out: Floats | None = None) -> tuple[Floats, Floats | None]:
        """The same, and the squared norms of lattice rows if they were computed anyway."""
        scale: Any = 1.0 / self.step
        limits: Any = np.float64(LEVELS**2)
        roots = None
        if isinstance(block, UnitBlock):
            if self.frame.rows_per_term > 1:
                raise AssertionError("a pair is a pair of people: one row of each")
            limits = limits_of(block, LEVELS, self.n_columns)
            roots = root_shares(block.sizes)[:, None]
            block = block.rows
        if self.shape == "ball" and isinstance(self.frame, (Frame, WhitenedRows)):
            scaled = self.frame.scaled_image(block, scale, out)
            if scaled is not None:
                if roots is not None:
                    scaled *= roots
                return scaled, self.clip(scaled, block, limits)
        scale = scale if roots is None else scale * roots
        quick = self.frame.quick_image(block) if self.shape == "ball" else None
        rows = self.frame.image(block) if quick is None else quick
        if self.shape == "sphere":
            return self._on_sphere(rows, limits), None
        with np.errstate(over="ignore", invalid="ignore"):
            lattice = np.multiply(rows, scale, out=None if out is None else out[: len(rows)])
            np.rint(lattice, out=lattice)
            squared = self._shorten(lattice, limits)
            outside = ~(squared <= limits)
        if outside.any():
            rows = rows[outside] if quick is None else self.frame.image(np.asarray(block)[outside])
            lattice[outside] = self._on_sphere(rows, limits[outside] if limits.ndim else limits)
            return lattice, None
        return lattice, squared

    def clip(self, scaled: Floats, block: Any, limits: Any) -> Floats:
        """Replace rows in grid steps by lattice rows, in place; each row of the block has one. The squared norms."""
        with np.errstate(over="ignore", invalid="ignore"):
            np.rint(scaled, out=scaled)
            squared = self._shorten(scaled, limits)
        outside = ~(squared <= limits)
        if outside.any():
            rows = self._on_sphere(
                self.frame.image(np.asarray(block)[outside]), limits[outside] if limits.ndim else limits
            )
            scaled[outside], squared[outside] = rows, np.einsum("ij,ij->i", rows, rows)
        return squared

    def _shorten(self, lattice: Floats, limits: Any) -> Floats:
        """Clip rows of integers in place, all at once unless few are too long; returns their squared norms.

        Rows that are still outside are not finite, or so long that the sum of their squares may not be exact.
        """
        squared = np.einsum("ij,ij->i", lattice, lattice)
        outside = ~(squared <= limits)
        if not outside.any():
            return squared
        inner = np.maximum(self._inner(np.sqrt(limits)), 0.0)
        if np.count_nonzero(outside) < len(lattice) // _FEW:
            where = np.flatnonzero(outside & (squared < _EXACT))
            inner = inner[where] if np.ndim(inner) else inner
            rows = lattice[where] * (inner / np.sqrt(np.maximum(squared[where], 1.0)))[:, None]
            lattice[where] = np.rint(rows, out=rows)
            squared[where] = np.einsum("ij,ij->i", rows, rows)
            return squared
        lattice *= np.where(outside & (squared < _EXACT), inner / np.sqrt(np.maximum(squared, 1.0)), 1.0)[:, None]
        np.rint(lattice, out=lattice)
        return np.einsum("ij,ij->i", lattice, lattice)

    def _on_sphere(self, rows: Floats, limits: Any) -> Floats:
        lattice, _, squared = normalised(rows)
        inner = np.maximum(self._inner(np.sqrt(limits)), 0.0)
        lattice *= (inner / np.maximum(np.sqrt(squared), 1.0))[:, None]
        np.rint(lattice, out=lattice)
        while True:  # the choice of `inner` makes the first check pass, but the proof uses the check
            outside = ~(np.einsum("ij,ij->i", lattice, lattice) <= limits)  # written so that NaN fails
            if not outside.any():
                return lattice
            shorter = np.trunc(lattice[outside] * (1 - 2.0**-12))
            lattice[outside] = np.nan_to_num(shorter, nan=0.0, posinf=0.0, neginf=0.0)


def limits_of(block: UnitBlock, levels: int, n_columns: int) -> Floats:
    """The limits on squared norms of people's rows, if a single row may have a norm of ``levels`` steps."""
    if block.together:
        return block.together[0].squared_limits(levels**2, n_columns)
    return squared_limits(block.sizes, levels**2, n_columns)


def unit_lattice(frame: RowView) -> Lattice:
    """Rows projected on the unit sphere: spatial signs."""
    return Lattice(frame, radius=1.0, shape="sphere")
