"""Sums of bounded signs of differences over pairs of rows: tiles of pairs, near pairs, and the rounding allowance.

There is no loop over pairs. With weights ω = ξ²/|x − y|² the sum of g·gᵀ is XᵀLX, where L is the Laplacian of the
weights: two matrix products for each tile of pairs. That identity suffers from cancellation if two rows are much nearer
to each other than to the centre of the data, so such pairs (and extremely long rows) are summed from their differences.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.stats.exact_norms import LARGEST_FLOAT
from dpeigen.stats.threads import in_threads
from dpeigen.stats.transform import REDESCENDING, SMALLEST_FLOAT, Transform

__all__ = ["allowance", "n_pairs", "pair_sum", "pairs_per_row"]

_TILE = 256  # rows: a tile of weights is half a MiB
_GROUPS = 16  # partial sums, added in a fixed order whatever the number of threads
_NEAR = 2.0**-8  # pairs with a squared distance below this fraction of |x|² + |y|² are summed from differences
_TINY, _HUGE = 2.0**-600, 2.0**200  # squared distances and entries, in units of the data's spread
_DIRECT = 4096  # pairs at a time


def pairs_per_row(rows: int, design: int | None) -> int:
    """The most pairs that one of ``rows`` rows is in; ``design``: None for all pairs."""
    return rows - 1 if design is None or 2 * design >= rows - 1 else 2 * design


def n_pairs(rows: int, design: int | None) -> int:
    return rows * pairs_per_row(rows, design) // 2


def allowance(rows: int, n_features: int, design: int | None = None, *, steepness: float = 0.0) -> float:
    """A bound on the error of the computed mean, in Frobenius norm and units of b², for any data.

    u = 2^−53. A pair in a tile has |x|² + |y|² ≤ 2^8·D, D = |x − y|². D is computed as |x|² + |y|² − 2x·y with d + 2
    terms; its error is at most 2(d + 4)u·2^8·D, and that of its weight 1 + ``steepness`` times as much
    (`Transform.steepness`). The products and sums with the weight add at most depth·u·ω·(|x| + |y|)² ≤ 2^9·depth·u,
    where depth is the most additions that one product takes part in: below 2^11 in BLAS calls, then tiles and groups.
    Subtracting the centre rotates a difference by at most 2^6·u. Pairs summed from differences have an error of
    (d + 8)u and take part in 2^12 additions plus one per chunk. Everything is doubled for second-order terms.
    """
    pairs = n_pairs(rows, design)
    reach = pairs_per_row(rows, design)
    depth = 2**11 + 2 * _GROUPS + reach / _tile(reach) + rows / _tile(reach) / _GROUPS + rows / 2**10
    tiled = 2.0**9 * ((n_features + 4) * (1 + steepness) + depth) + 2.0**6
    direct = (n_features + 8) * (1 + 2 * steepness) + _DIRECT + 2 * pairs / _DIRECT + _GROUPS
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
        # Columns: the rows, ones, squared norms. Extremely long rows get norm NaN, which fails every comparison.
        self.rows = np.zeros((n, d + 2))
        for start in range(0, n, 2**12):
            y = np.ldexp(raw[start : start + 2**12] - center, -self.exponent)
            fine = np.abs(y).max(axis=1, initial=0.0) < _HUGE
            block = self.rows[start : start + 2**12]
            block[:, :d] = np.where(fine[:, None], y, 0.0)
            block[:, d] = 1.0
            block[:, d + 1] = np.where(fine, np.einsum("ij,ij->i", block[:, :d], block[:, :d]), np.nan)
        if transform.kind == "winsorized":
            self.cap = 0.5 / np.ldexp(transform.radius, -self.exponent) ** 2
        elif transform.kind in REDESCENDING:
            self.cap = 2.0 * np.ldexp(transform.cutoff, -self.exponent) ** 2  # the squared distance of the cutoff

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
            close = self._near(squared, here[:, d + 1], there[:, d + 1])
            weights = self._weights(squared)
            inside = self._inside(start, stop, first, end)
            if inside is not None:
                weights[~inside] = 0.0
                close = close & inside
            if close.any():
                i, j = np.nonzero(close)
                weights[close] = 0.0
                near.add(i + start, index[j])
            pulled += weights @ there[:, : d + 1]
            degrees[index] += weights.sum(axis=0)
        degrees[start:stop] += pulled[:, d]
        total += here[:, :d].T @ pulled[:, :d]

    def _inside(self, start: int, stop: int, first: int, end: int) -> NDArray[np.bool_] | None:
        """Which pairs of the tile are in the design; None if all are."""
        if first >= stop and end - 1 - start <= self.band:
            return None
        lag = np.arange(first, end)[None, :] - np.arange(start, stop)[:, None]
        return np.asarray((lag >= 1) & (lag <= self.band))

    def _near(self, squared: Floats, norms: Floats, others: Floats) -> NDArray[np.bool_]:
        """Which pairs of the tile are to be summed from their differences."""
        if squared.min() > max(_NEAR * (norms.max() + others.max()), _TINY):  # False for NaN
            return np.zeros((1, 1), dtype=bool)
        return np.asarray(~(squared > np.maximum(_NEAR * (norms[:, None] + others[None, :]), _TINY)))

    def _weights(self, squared: Floats) -> Floats:
        """ω = ξ²/(b²·D) for each pair of the tile, D in units of the spread."""
        weights = np.reciprocal(squared)
        if self.transform.kind == "winsorized":
            np.minimum(weights, self.cap, out=weights)
        elif self.transform.kind in REDESCENDING:
            beyond = np.minimum(self.cap * weights, 1.0)
            gains = (beyond * beyond) ** 2
            weights = (
                weights * gains
                if self.transform.kind == "redescending"
                else np.minimum(weights * gains, 1.0 / self.cap)
            )
        elif self.transform.kind == "custom":
            lengths = np.ldexp(np.sqrt(np.maximum(squared, 0.0) / 2.0), self.exponent)
            gains = self.transform.gains(np.clip(np.nan_to_num(lengths, nan=1.0), SMALLEST_FLOAT, LARGEST_FLOAT))
            weights *= gains
            weights *= gains
        return weights


class _NearPairs:
    """Σ g·gᵀ/b² of listed pairs, from their differences."""

    def __init__(self, tiles: _PairSum) -> None:
        self.raw, self.transform = tiles.raw, tiles.transform
        self.total = np.zeros((tiles.d, tiles.d))
        self.waiting: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
        self.count = 0

    def add(self, i: NDArray[np.intp], j: NDArray[np.intp]) -> None:
        """Add pairs."""
        self.waiting.append((i, j))
        self.count += len(i)
        if self.count >= _DIRECT:
            self.sum()

    def sum(self) -> Floats:
        """The sum so far."""
        if self.waiting:
            i, j = (np.concatenate(part) for part in zip(*self.waiting, strict=True))
            self.waiting, self.count = [], 0
            for at in range(0, len(i), _DIRECT):
                part = slice(at, at + _DIRECT)
                g = self._signs(i[part], j[part])
                self.total += g @ g.T
        return self.total

    def _signs(self, i: NDArray[np.intp], j: NDArray[np.intp]) -> Floats:
        """g/b of pairs, as columns. Scaling by powers of two avoids overflow for rows of any size."""
        difference = self.raw[i].T - self.raw[j].T
        wide = ~np.isfinite(difference).all(axis=0)
        if wide.any():
            difference[:, wide] = self.raw[i[wide]].T / 2 - self.raw[j[wide]].T / 2
        _, exponents = np.frexp(np.abs(difference).max(axis=0))
        scaled = np.ldexp(difference, -exponents)
        norms = np.sqrt(np.einsum("ij,ij->j", scaled, scaled))
        lengths = np.ldexp(norms / math.sqrt(2.0), exponents + wide)
        gains = self.transform.gains(np.clip(lengths, SMALLEST_FLOAT, LARGEST_FLOAT))
        return np.where(norms > 0, scaled * (gains / norms), 0.0)


def _center_and_exponent(rows: Floats) -> tuple[Floats, int]:
    """A centre and the power of two of the spread: medians of at most 1,001 rows.

    They only affect the accuracy of the tiles and how many pairs are summed from differences.
    """
    some = rows[:: max(1, -(-len(rows) // 1001))]
    some = some[: (len(some) - 1) // 2 * 2 + 1]  # an odd number: the median is one of them
    center = np.median(some, axis=0)
    sizes = np.abs(some - center).max(axis=1, initial=0.0)
    size = float(np.median(sizes)) or float(sizes.max())
    return center, int(np.frexp(size)[1]) if math.isfinite(size) else 1024
