"""The transform ξ of lengths that generalised signs use: g(x) = ξ(|x|)·x/|x|, with 0 ≤ ξ ≤ b.

The spherical sign gives every row length 1. The winsorized one bounds lengths at b. The redescending ones give rows
beyond a cutoff a weight that falls with their length. A user's function is tabulated at public points first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._types import Floats
from dpeigen._validate import check_positive, complain
from dpeigen.stats.frame import LARGEST_FACT

__all__ = [
    "REDESCENDING",
    "SMALLEST_FLOAT",
    "Scale",
    "Tabulated",
    "Transform",
    "redescending",
    "winsorized_redescending",
]

Scale = Callable[[Floats], ArrayLike]
SMALLEST_FLOAT = float(np.nextafter(0.0, 1.0))
REDESCENDING = ("redescending", "winsorized-redescending")  # beyond a cutoff c they fall like (c/s)⁴


@dataclass(frozen=True)
class Transform:
    """ξ, and its bound b (``radius``).

    "spherical": 1. "winsorized": min(b, s). "redescending": min(1, (c/s)⁴) with b = 1, and
    "winsorized-redescending": min(s, c·(c/s)⁴) with b = c, for a cutoff c: rows (or differences) far beyond it have
    almost no weight. "custom": a function of s, clipped to b.
    """

    kind: Literal["spherical", "winsorized", "redescending", "winsorized-redescending", "custom"] = "spherical"
    radius: float = 1.0
    function: Scale | None = None
    cutoff: float = math.inf

    @classmethod
    def of(cls, transform: str | Scale, radius: float | None, owner: str) -> Transform:
        """The transform for a name or a function, checked. A function without a bound has radius infinity."""
        if radius is not None:
            radius = check_positive("radius", radius, owner)
            if not 1 / LARGEST_FACT <= radius <= LARGEST_FACT:
                must = f"between {1 / LARGEST_FACT:g} and {LARGEST_FACT:g}"
                raise ValueError(complain("radius", owner, must, radius))
        if callable(transform):
            return cls("custom", math.inf if radius is None else radius, transform)
        if transform == "spherical":
            if radius is not None:
                raise ValueError(complain("radius", owner, "None for transform='spherical'", radius))
            return cls()
        if transform == "winsorized":
            if radius is None:
                remedy = "About the median distance of two rows over √2 is a good choice."
                raise ValueError(complain("radius", owner, "given for transform='winsorized'", None, remedy))
            return cls("winsorized", radius)
        if transform in REDESCENDING:
            if radius is None:
                remedy = "About 1.4 times the median length is a good choice."
                raise ValueError(
                    complain("radius", owner, f"given for transform={transform!r}: its cutoff", None, remedy)
                )
            return redescending(radius) if transform == "redescending" else winsorized_redescending(radius)
        must = f"'spherical', 'winsorized', {', '.join(map(repr, REDESCENDING))} or a function of distances"
        raise ValueError(complain("transform", owner, must, transform))

    def gains(self, norms: Floats) -> Floats:
        """ξ(s)/b for s > 0, in [0, 1]."""
        if self.kind == "spherical":
            return np.ones_like(norms)
        if self.kind == "winsorized":
            return np.minimum(norms / self.radius, 1.0)
        if self.kind in REDESCENDING:
            inside = norms / self.cutoff
            gains = 1.0 / np.maximum(inside, 1.0) ** 4
            return gains if self.kind == "redescending" else np.minimum(inside, gains)
        if self.function is None:
            raise AssertionError("a custom transform has a function")
        values = np.broadcast_to(np.asarray(self.function(norms), dtype=np.float64), norms.shape)
        return values if math.isinf(self.radius) else np.nan_to_num(np.clip(values / self.radius, 0.0, 1.0), nan=0.0)

    def weights(self, norms: Floats) -> Floats:
        """ξ(s)/s, for a winsorized ξ: 1 up to the bound, and less beyond it."""
        lengths = np.maximum(norms / self.radius, 1.0)
        return np.asarray(self.gains(lengths * self.radius) / lengths)

    @property
    def steepness(self) -> float:
        """σ such that a relative change ρ of a squared distance D, ρ small, changes ξ²/D by at most (1 + σ)·ρ·b²/D.

        ξ² is constant or grows with D below a cutoff, and falls like D⁻⁴ beyond it; see `Tabulated` for functions.
        """
        return {"custom": 2.0**9, "redescending": 4.0, "winsorized-redescending": 4.0}.get(self.kind, 0.0)

    @property
    def unit(self) -> float:
        """The factor that converts sums in units of b² to the data's units."""
        return 1.0 if math.isinf(self.radius) else self.radius**2


def redescending(cutoff: float) -> Transform:
    """ξ(s) = min(1, (c/s)⁴): signs up to the cutoff, with decreasing weight beyond it."""
    return Transform("redescending", 1.0, cutoff=cutoff)


def winsorized_redescending(cutoff: float) -> Transform:
    """ξ(s) = min(s, c·(c/s)⁴): unchanged up to the cutoff, with decreasing weight beyond it."""
    return Transform("winsorized-redescending", cutoff, cutoff=cutoff)


class Tabulated:
    """A custom function, tabulated at public points and interpolated linearly between them.

    The function never sees a distance of the data. Even if it depends on the other entries of its argument, keeps a
    state or raises, the value used at a distance depends on that distance alone. A relative change ρ of the distance
    changes the value by at most 2^9·ρ of its bound.
    """

    _CELLS = 256  # per octave

    def __init__(self, function: Scale, bound: float) -> None:
        octaves, cells = np.arange(-1074, 1025), np.arange(self._CELLS) / self._CELLS
        points = np.ldexp(0.5 + cells / 2, octaves[:, None]).reshape(-1)
        with np.errstate(all="ignore"):
            values = np.asarray(function(np.maximum(points, np.nextafter(0.0, 1.0))), dtype=np.float64)
        if values.shape not in ((), points.shape):
            raise ValueError(f"A transform must give one value for each distance. Got shape {values.shape}.")
        bounded = np.nan_to_num(np.clip(np.broadcast_to(values, points.shape), 0.0, bound), nan=0.0)
        self._values = np.append(bounded, bounded[-1])

    def __eq__(self, other: object) -> bool:  # a copy from another process is equal
        return isinstance(other, Tabulated) and np.array_equal(self._values, other._values)

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, distances: Floats) -> Floats:
        mantissas, exponents = np.frexp(distances)
        places = (mantissas - 0.5) * (2 * self._CELLS)
        cells = np.floor(places)
        index = (np.maximum(exponents, -1074) + 1074) * self._CELLS + cells.astype(np.int64)
        below = self._values[np.clip(index, 0, len(self._values) - 2)]
        above = self._values[np.clip(index, 0, len(self._values) - 2) + 1]
        return below + (places - cells) * (above - below)
