"""Sums of bounded signs of differences over pairs of rows: ξ, the tiles, the near pairs, and the rounding allowance.

No loop over pairs: with weights ω = ξ²/|x − y|² the sum of g·gᵀ is XᵀLX, L the Laplacian of the weights, which is two
matrix products for each tile of pairs. That identity cancels where two rows are much nearer to each other than to the
centre of the data, so such pairs (and rows of absurd size) are summed from their differences instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpeigen._validate import check_positive, complain
from dpeigen.stats.frame import LARGEST_FLOAT
from dpeigen.stats.threads import in_threads

Floats = NDArray[np.float64]
Scale = Callable[[Floats], ArrayLike]
_TILE = 256  # rows: a tile of weights is half a MiB
_GROUPS = 16  # partial sums, added in a fixed order whatever the number of threads
_NEAR = 2.0**-8  # pairs nearer than this share of |x|² + |y|² are summed from differences
_TINY, _HUGE = 2.0**-600, 2.0**200  # squared distances and entries, in units of the data's spread
_DIRECT = 4096  # pairs at a time


@dataclass(frozen=True)
class Transform:
    """ξ, and its bound b (``radius``): 1, min(radius, s), or a function of s cut off at the radius."""

    kind: Literal["spherical", "winsorized", "custom"] = "spherical"
    radius: float = 1.0
    function: Scale | None = None

    @classmethod
    def of(cls, transform: str | Scale, radius: float | None, owner: str) -> Transform:
        """The transform of a name or a function, checked."""
        if callable(transform):
            if radius is not None and math.isinf(radius):
                return cls("custom", math.inf, _elementwise(transform, owner))
            bound = check_positive("radius", radius, owner) if radius is not None else None
            if bound is None:
                raise ValueError(complain("radius", owner, "a bound on the values of a transform of your own", None))
            return cls("custom", bound, _elementwise(transform, owner))
        if transform == "spherical":
            if radius is not None:
                raise ValueError(complain("radius", owner, "None for transform='spherical'", radius))
            return cls()
        if transform == "winsorized":
            if radius is None:
                remedy = "About the median distance of two rows over √2 is a good choice."
                raise ValueError(complain("radius", owner, "given for transform='winsorized'", None, remedy))
            return cls("winsorized", check_positive("radius", radius, owner))
        must = "'spherical', 'winsorized' or a function of distances"
        raise ValueError(complain("transform", owner, must, transform))

    def gains(self, norms: Floats) -> Floats:
        """ξ(s)/b for s > 0, in [0, 1]."""
        if self.kind == "spherical":
            return np.ones_like(norms)
        if self.kind == "winsorized":
            return np.minimum(norms / self.radius, 1.0)
        assert self.function is not None
        values = np.asarray(self.function(norms), dtype=np.float64)
        if math.isinf(self.radius):
            return np.broadcast_to(values, norms.shape)
        return np.nan_to_num(np.clip(np.broadcast_to(values, norms.shape) / self.radius, 0.0, 1.0), nan=0.0)

    @property
    def unit(self) -> float:
        """What sums in units of b² are multiplied by to be in the data's."""
        return 1.0 if math.isinf(self.radius) else self.radius**2


def _elementwise(function: Scale, owner: str) -> Scale:
    """Refuse a function whose value at one distance depends on others: rows would then not be bounded one by one."""
    probe = np.exp2(np.arange(-40, 41) / 4.0)
    together = np.broadcast_to(np.asarray(function(probe.copy()), dtype=np.float64), probe.shape)
    alone = [float(np.asarray(function(np.array([s]))).reshape(-1)[0]) for s in probe]
    if not np.allclose(together, alone, rtol=1e-9, atol=0.0, equal_nan=True):
        raise ValueError(complain("transform", owner, "a function that acts on each distance by itself", function))
    return function


def pairs_per_row(rows: int, design: int | None) -> int:
    """The most pairs that one of so many rows is in; ``design`` None for all pairs."""
    return rows - 1 if design is None or 2 * design >= rows - 1 else 2 * design


def n_pairs(rows: int, design: int | None) -> int:
    return rows * pairs_per_row(rows, design) // 2


def allowance(rows: int, n_features: int, design: int | None = None) -> float:
    """How far the computed mean is from the exact one at most, in Frobenius norm and units of b², for any data.

    u = 2^−53. A pair in a tile has |x|² + |y|² ≤ 2^8·D, D = |x − y|²; its D, computed as |x|² + |y|² − 2x·y with d + 2
    terms, is off by at most 2(d + 4)u·2^8·D, and so is its weight. The products and sums with the weight add at most
    depth·u·ω·(|x| + |y|)² ≤ 2^9·depth·u, depth the most additions that one product goes through: 2^10 in a BLAS call,
    then tiles and groups. Subtracting the centre turns a difference by at most 2^6·u. Pairs summed from
    differences are off by (d + 8)u and go through 2^12 + (chunks) additions. All is doubled for second-order terms.
    """
    pairs = n_pairs(rows, design)
    reach = pairs_per_row(rows, design)
    depth = 2**10 + 2 * _GROUPS + reach / _tile(reach) + rows / _tile(reach) / _GROUPS + rows / 2**10
    tiled = 2.0**9 * (n_features + 4 + depth) + 2.0**6
    direct = n_features + 8 + _DIRECT + pairs / _DIRECT
    return 2 * 2.0**-53 * (tiled + direct)


def _tile(reach: int) -> int:
    return int(np.clip(reach, 64, _TILE))


# --- the sum over pairs -------------------------------------------------------------------------------------------


def pair_sum(rows: Floats, transform: Transform, design: int | None = None) -> Floats:
    """Σ g·gᵀ/b² over all pairs, or over those of a circulant design."""
    d = rows.shape[1]
    if len(rows) < 2:
        return np.zeros((d, d))
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        work = _PairSum(rows, transform, design)
        groups = [work.starts[g::_GROUPS] for g in range(min(_GROUPS, len(work.starts)))]
        parts = in_threads(work.group, groups)
        total, degrees, direct = (np.sum([part[k] for part in parts], axis=0) for k in range(3))
        total = total + total.T
        for start in range(0, len(rows), 2**10):
            y = work.rows[start : start + 2**10, :d]
            total -= y.T @ (y * degrees[start : start + 2**10, None])
        total = direct - total
    return (total + total.T) / 2


class _PairSum:
    """Rows about a robust centre, in units of their spread, and the tiles of pairs."""

    def __init__(self, raw: Floats, transform: Transform, design: int | None) -> None:
        self.raw, self.transform = raw, transform
        n, d = raw.shape
        self.n, self.d = n, d
        self.cyclic = pairs_per_row(n, design) < n - 1
        self.band = design if self.cyclic and design is not None else n - 1
        self.tile = min(_tile(pairs_per_row(n, design)), n)
        self.starts = list(range(0, n, self.tile))
        center, self.exponent = _center_and_exponent(raw)
        # Columns: the rows, ones, squared norms. Rows of absurd size get norm NaN, which no comparison lets pass.
        self.rows = np.zeros((n, d + 2))
        for start in range(0, n, 2**12):
            y = np.ldexp(raw[start : start + 2**12] - center, -self.exponent)
            fine = np.abs(y).max(axis=1, initial=0.0) < _HUGE
            block = self.rows[start : start + 2**12]
            block[:, :d] = np.where(fine[:, None], y, 0.0)
            block[:, d] = 1.0
            block[:, d + 1] = np.where(fine, np.einsum("ij,ij->i", block[:, :d], block[:, :d]), np.nan)
        self.columns = np.ascontiguousarray(raw.T) if transform.kind == "custom" else None
        if transform.kind == "winsorized":
            self.cap = 0.5 / np.ldexp(transform.radius, -self.exponent) ** 2

    def group(self, starts: list[int]) -> tuple[Floats, Floats, Floats]:
        """Σ Yᵀ·W·Y, the row and column sums of W, and the sum of near pairs, over some rows of tiles."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
            total, degrees, near = np.zeros((self.d, self.d)), np.zeros(self.n), _NearPairs(self)
            for start in starts:
                self._row_of_tiles(start, total, degrees, near)
            return total, degrees, near.sum()

    def _row_of_tiles(self, start: int, total: Floats, degrees: Floats, near: _NearPairs) -> None:
        d, stop = self.d, min(start + self.tile, self.n)
        here = self.rows[start:stop]
        left = np.concatenate([-2.0 * here[:, :d], here[:, d + 1 :], here[:, d : d + 1]], axis=1)
        pulled = np.zeros((stop - start, d + 1))
        last = stop - 1 + self.band if self.cyclic else self.n - 1
        for first in range(start, last + 1, self.tile):
            end = min(first + self.tile, last + 1)
            index = np.arange(first, end) % self.n
            there = self.rows[first:end] if end <= self.n else self.rows[index]
            squared = left @ there.T
            weights, close = self._weights(squared, here, there, start, stop, index)
            inside = self._inside(start, stop, first, end)
            if inside is not None:
                weights[~inside] = 0.0
                close = close & inside
            if close.any():
                i, j = np.nonzero(close)
                weights[close] = 0.0
                near.add(i + start, index[j], squared[close])
            pulled += weights @ there[:, : d + 1]
            degrees[index] += weights.sum(axis=0)
        degrees[start:stop] += pulled[:, d]
        total += here[:, :d].T @ pulled[:, :d]

    def _inside(self, start: int, stop: int, first: int, end: int) -> NDArray[np.bool_] | None:
        """Which pairs of the tile belong to the design; None for all."""
        if first >= stop and end - 1 - start <= self.band:
            return None
        lag = np.arange(first, end)[None, :] - np.arange(start, stop)[:, None]
        return np.asarray((lag >= 1) & (lag <= self.band))

    def _weights(
        self, squared: Floats, here: Floats, there: Floats, start: int, stop: int, index: NDArray[np.intp]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """ω for each pair of the tile, and which are to be summed from their differences.

        ``squared`` holds the distances in units of the spread; for a function of one's own it is overwritten by those
        of the raw rows, summed column by column, so that ξ, which may jump, sees a number that depends on the two rows
        alone.
        """
        norms, others = here[:, self.d + 1], there[:, self.d + 1]
        close = np.zeros((1, 1), dtype=bool)
        if not squared.min() > max(_NEAR * (norms.max() + others.max()), _TINY):  # NaN says no
            close = ~(squared > np.maximum(_NEAR * (norms[:, None] + others[None, :]), _TINY))
        if self.columns is None:
            weights = np.reciprocal(squared)
            if self.transform.kind == "winsorized":
                np.minimum(weights, self.cap, out=weights)
            return weights, close
        raw = np.zeros_like(squared)
        for column in self.columns:
            difference = column[start:stop, None] - column[index][None, :]
            raw += difference * difference
        gains = self.transform.gains(np.sqrt(raw / 2.0))
        weights = gains * gains / squared
        squared[:] = raw
        return weights, close | ~_in_range(raw)


class _NearPairs:
    """Σ g·gᵀ/b² of listed pairs, from their differences."""

    def __init__(self, tiles: _PairSum) -> None:
        self.raw, self.transform, self.custom = tiles.raw, tiles.transform, tiles.columns is not None
        self.total = np.zeros((tiles.d, tiles.d))
        self.waiting: list[tuple[NDArray[np.intp], NDArray[np.intp], Floats]] = []
        self.count = 0

    def add(self, i: NDArray[np.intp], j: NDArray[np.intp], squared: Floats) -> None:
        """Take pairs (and, for a function of one's own, their squared distances)."""
        self.waiting.append((i, j, squared))
        self.count += len(i)
        if self.count >= _DIRECT:
            self.sum()

    def sum(self) -> Floats:
        """The sum so far."""
        if self.waiting:
            i, j, squared = (np.concatenate(part) for part in zip(*self.waiting, strict=True))
            self.waiting, self.count = [], 0
            for at in range(0, len(i), _DIRECT):
                part = slice(at, at + _DIRECT)
                g = self._signs(i[part], j[part], squared[part])
                self.total += g @ g.T
        return self.total

    def _signs(self, i: NDArray[np.intp], j: NDArray[np.intp], squared: Floats) -> Floats:
        """g/b of pairs, as columns. Powers of two keep every size of row in range."""
        difference = self.raw[i].T - self.raw[j].T
        wide = ~np.isfinite(difference).all(axis=0)
        if wide.any():
            difference[:, wide] = self.raw[i[wide]].T / 2 - self.raw[j[wide]].T / 2
        _, exponents = np.frexp(np.abs(difference).max(axis=0))
        scaled = np.ldexp(difference, -exponents)
        squares = np.zeros(len(i))
        for column in scaled:  # in a fixed order: the sum depends on the pair alone
            squares += column * column
        norms = np.sqrt(squares)
        lengths = np.ldexp(norms / math.sqrt(2.0), exponents + wide)
        if self.custom:
            lengths = np.where(_in_range(squared), np.sqrt(squared / 2.0), lengths)
        gains = self.transform.gains(np.minimum(lengths, LARGEST_FLOAT))
        return np.where(norms > 0, scaled * (gains / norms), 0.0)


def _in_range(squared: Floats) -> NDArray[np.bool_]:
    """Squared distances that were summed without overflow or underflow."""
    return np.asarray((squared > 2.0**-900) & (squared < 2.0**900))


def _center_and_exponent(rows: Floats) -> tuple[Floats, int]:
    """A centre and the power of two of the spread: medians of at most 1,001 rows.

    They only decide how accurately tiles are summed and how many pairs are summed from differences.
    """
    some = rows[:: max(1, -(-len(rows) // 1001))]
    some = some[: (len(some) - 1) // 2 * 2 + 1]  # an odd number: the median is one of them
    center = np.median(some, axis=0)
    sizes = np.abs(some - center).max(axis=1, initial=0.0)
    size = float(np.median(sizes)) or float(sizes.max())
    return center, int(np.frexp(size)[1]) if math.isfinite(size) else 1024
