"""Assumed rows, and what the moments of n of them look like, without drawing them all.

In the eigenbasis of an elliptical population the mean moment of rows that are clipped to a radius, or divided by their
length, is diagonal, and so it is after any linear map, in the eigenbasis of what that makes of the covariance. The
mean of signs is an integral (`stats.signs`), that of clipped rows a Monte Carlo mean with the signs as control
variates; where few normal rows are clipped, it is their variance less what clipping takes from those few, over drawn
rows whose mean and covariance are those of the population. Bounds of columns and a centre that is off change these
means; the change is a mean over the drawn rows. The sampling error of n rows is that of a few thousand rows with random
weights (multipliers): F = Σ gᵢ(yᵢyᵢᵀ − M)/√(nN). If n is small, the n rows are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpeigen._types import Floats
from dpeigen.planner.assumptions import Rows
from dpeigen.planner.box import BoxedAxes
from dpeigen.planner.views import LEAST_LENGTH, Mapped, View
from dpeigen.privacy.randomness import Generator, made_up_generator
from dpeigen.stats.signs import compression

__all__ = ["Population"]

_FEWEST, _MOST, _NUMBERS = 5, 4000, 200_000  # rows that are drawn for each column, at most, about so many numbers
_EXACT = 2000  # rows up to which they are drawn themselves
_MORE, _MORE_NUMBERS = 2.5, 300_000  # times as many where a few count for much: with outliers or heavy tails
_PARTNERS = 8  # of a row among differences, to either side
_PAIRED, _FEW_COLUMNS = 1000, 30  # rows that are paired, of up to so many columns; fewer where there are more
_DESIGN = 64  # partners that the library takes where it does not take all
_NEAR = 0.003  # of the trace: of centres that are off by less, the leading term counts
_CLEAR = 2.5  # standard errors from which on a change of a mean is taken for one
_FEW_CLIPPED = 0.05  # of the drawn rows: up to there its Monte Carlo error is the smaller one
_MOST_TALLIES = 64  # histograms of columns that are kept
_PART_SEED = 7


@dataclass(frozen=True, eq=False)
class _Axes:
    """Variances along the axes (columns; None: those of the coordinates) of rows after a linear map."""

    stretch: Floats | None
    levels: Floats
    vectors: Floats | None

    @cached_property
    def shares(self) -> Floats:
        """The mean squares of the signs of such rows."""
        return compression(self.levels, 1.0, 0)[0][:-1]

    def turned(self, rows: Floats) -> Floats:
        return rows if self.vectors is None else rows @ self.vectors

    def back(self, matrix: Floats) -> Floats:
        """A matrix along the axes in the coordinates."""
        return matrix if self.vectors is None else self.vectors @ matrix @ self.vectors.T


class Population:
    """Assumed rows (or, for ``pairs``, differences of two over √2) in repetitions. Deterministic in its seed."""

    def __init__(self, rows: Rows, n: int, seed: int = 0, *, pairs: bool = False, box: BoxedAxes | None = None) -> None:
        self.assumed, self.n, self.pairs, self.box, self.seed = rows, n, pairs, box, seed
        more = 1.0 if rows.normal else _MORE
        numbers = _NUMBERS if rows.normal else _MORE_NUMBERS
        most = max(_FEWEST * self.d, int(min(numbers // self.d, more * _MOST)))
        self.exact = n <= more * _EXACT
        self._plain, self._drawn = self._draw(most, made_up_generator(seed, 0), matched=rows.normal)
        self._cut = np.flatnonzero((self._plain != self._drawn).any(axis=1))  # by bounds of columns
        self._own_axes = self._latest_axes = _Axes(None, rows.eigenvalues, None)
        self._norm_squares = _lengths(self._drawn) ** 2
        self._found: dict[object, Floats] = {}
        self._parts: dict[int, Population] = {}
        self._tallies: dict[object, Floats] = {}
        self._latest: tuple[int | None, Mapped] | None = None

    @property
    def d(self) -> int:
        return self.assumed.n_features

    @property
    def _paired(self) -> int:
        """Rows whose differences are looked at."""
        return _PAIRED if self.d <= _FEW_COLUMNS else max(_PAIRED * _FEW_COLUMNS // self.d, 3 * self.d)

    @property
    def outliers(self) -> float:
        """The share of rows, or of differences, that are outliers."""
        share = self.assumed.contamination
        return 2 * share * (1 - share) if self.pairs else share

    def _draw(self, count: int, rng: Generator, *, matched: bool = False) -> tuple[Floats, Floats]:
        """Rows, and the same inside the column bounds; ``matched``: their mean and covariance are the true ones."""
        plain = self.assumed.draw(2 * count if self.pairs else count, rng)
        if matched:
            plain = _with_covariance(plain, self.assumed.eigenvalues)
        inside = plain if self.box is None else self.box.clipped(plain)
        cut = inside is not plain
        if self.pairs:
            plain, inside = ((rows[0::2] - rows[1::2]) / math.sqrt(2) for rows in (plain, inside))
        return plain, inside if cut else plain

    def kept(self, key: object, make: Callable[[], Floats]) -> Floats:
        """What is made once for all budgets."""
        if key not in self._found:
            self._found[key] = make()
        return self._found[key]

    def part(self, n: int) -> Population:
        """So many of the rows, or of the differences."""
        if n not in self._parts:
            self._parts[n] = Population(self.assumed, n, _PART_SEED, pairs=self.pairs, box=self.box)
        return self._parts[n]

    def rows(self, repetition: int) -> Floats:
        """The rows of a repetition, or those that stand for them."""
        if not self.exact:
            return self._drawn
        return self.kept(
            ("rows", repetition), lambda: self._draw(self.n, made_up_generator(self.seed, 1, repetition))[1]
        )

    def tallied(self, key: object, make: Callable[[Floats], Floats]) -> Floats:
        """Shares of the population in the cells of a histogram, from the drawn rows; made once for each key."""
        if key not in self._tallies:
            if len(self._tallies) >= _MOST_TALLIES:
                self._tallies.clear()
            self._tallies[key] = make(self._drawn)
        return self._tallies[key]

    def norms(self, repetition: int, stretch: Floats | None = None, shift: Floats | None = None) -> Floats:
        """Lengths of rows as they are looked at, increasing."""
        if stretch is not None or (shift is not None and not self._near(shift)):
            mapped = self._mapped(repetition, stretch)
            return np.sort(mapped.lengths(mapped.moved(shift)))
        found = self.kept(("norms", repetition if self.exact else None), lambda: _lengths(self.rows(repetition)))
        return found if shift is None else np.hypot(found, np.linalg.norm(shift))

    def _mapped(self, repetition: int, stretch: Floats | None) -> Mapped:
        """The rows of a repetition after a linear map. The last ones are kept: moments and means share them."""
        which = repetition if self.exact else None
        if self._latest is None or self._latest[0] != which or not self._latest[1].made_by(stretch):
            self._latest = which, Mapped.of(self.rows(repetition), stretch)
        return self._latest[1]

    def moment(self, repetition: int, view: View) -> Floats:
        """The mean moment of n rows as they are looked at."""
        if view.shift is not None and view.transform is None and self._near(view.shift):
            plain = View(view.radius, view.stretch)
            return self.moment(repetition, plain) + self._leading_term(repetition, plain, view.shift)
        if view.key is None:
            return self._moment(repetition, view)
        return self.kept((view.key, repetition), lambda: self._moment(repetition, view))

    def _moment(self, repetition: int, view: View) -> Floats:
        mapped = self._mapped(repetition, view.stretch)
        off = mapped.moved(view.shift)
        weights = view.factors(mapped.lengths(off)) ** 2
        if self.exact:
            return mapped.moment(weights / self.n, off)
        g = self._weights(repetition, len(weights))
        scale = 1 / math.sqrt(len(g) * self.n)
        rest = 1 - float(g.sum()) * scale
        if off is None:
            return rest * self.mean(view) + mapped.moment(scale * g * weights)
        # The mean as in `mean`, with the sampling error in the same sum.
        opposite, plain = (view.factors(each) ** 2 for each in mapped.about(off)[1:])
        share = rest / len(weights)
        found = mapped.moment(scale * g * weights + share / 2 * weights, off, share / 2 * opposite, -share * plain)
        return rest * self.mean(replace(view, shift=None)) + found

    def center(self, repetition: int, view: View) -> Floats:
        """The mean of n rows as they are looked at."""
        if view.shift is not None and view.transform is None and self._near(view.shift):
            moved = view.shift if view.stretch is None else view.stretch @ view.shift
            return self.center(repetition, View(view.radius, view.stretch)) - moved
        if view.key is None:
            return self._center(repetition, view)
        return self.kept(("center", view.key, repetition), lambda: self._center(repetition, view))

    def _center(self, repetition: int, view: View) -> Floats:
        mapped = self._mapped(repetition, view.stretch)
        off = mapped.moved(view.shift)
        weights = view.factors(mapped.lengths(off))
        if self.exact:
            return mapped.mean(weights / self.n, off)
        g = self._weights(repetition, len(weights)) / math.sqrt(len(weights) * self.n)
        if off is None:
            return mapped.mean(g * weights)
        plain = view.factors(mapped.lengths(None))
        return mapped.mean((g + 1 / len(g)) * weights, off) - mapped.mean(plain / len(g))

    def _near(self, shift: Floats) -> bool:
        return float(shift @ shift) <= _NEAR * float(self.assumed.eigenvalues.sum())

    def _leading_term(self, repetition: int, view: View, shift: Floats) -> Floats:
        """What a centre that is off by little adds: ssᵀ to a moment of rows; to that of signs what second order leaves.

        With u = x/|x| and r = |x| it is E[ssᵀ − 2(u·s)(suᵀ + usᵀ) + uuᵀ(4(u·s)² − |s|²)]/r², in the eigenbasis a
        function of the shares aᵢ = E[uᵢ²], about, with E[uᵢ²uⱼ²] = c·aᵢaⱼ (three times that for i = j).
        """
        moved = shift if view.stretch is None else view.stretch @ shift
        if view.radius is not None:
            return np.outer(moved, moved)
        axes, squares = self._axes(view.stretch), self._norm_squares
        if view.stretch is not None:
            squares = self._mapped(repetition, view.stretch).squares
        a, moved = axes.shares, axes.turned(moved)
        c = 1 / (1 + 2 * float(a @ a))
        change = np.outer(moved, moved) * (1 - 2 * (a[:, None] + a) + 8 * c * np.outer(a, a))
        change += np.diag(a * (4 * c * float(moved**2 @ a) - float(moved @ moved)))
        change *= float(np.mean(1 / np.maximum(squares, LEAST_LENGTH)))
        return axes.back(change)

    def _weights(self, repetition: int, count: int) -> Floats:
        """Multipliers of the drawn rows."""
        return self.kept(
            ("weights", repetition), lambda: made_up_generator(self.seed, 3, repetition).normal(size=count)
        )

    def differences(self, repetition: int, k: int) -> Floats:
        """Kendall's tau of n rows, spherical, less what few partners add to its sampling error along k directions."""
        key = ("differences", repetition, k)
        if key in self._found:
            return self._found[key]
        rng = made_up_generator(self.seed, 2, repetition)
        rows = self.rows(repetition)
        most = self._paired
        rows = rows[rng.permutation(len(rows))[:most]] if len(rows) > most else rows
        count, partners = len(rows), min(_PARTNERS, len(rows) // 2)
        share = self.assumed.contamination
        mean = self._with_outliers(np.diag(self._own_axes.shares), 2 * share * (1 - share), self.assumed.outlier)
        if len(self._cut):
            inside, outside = _differences(self._drawn), _differences(self._plain)
            mean = mean + _clear_change(inside, outside) / len(inside)
        g = rng.normal(size=count)
        found = np.zeros((self.d, self.d))
        for step in range(1, partners + 1):
            z = _differences(rows, step)
            weights = g + np.roll(g, step)
            found += (z * weights[:, None]).T @ z - weights.sum() * mean
        spread, design = self._spread(k), _DESIGN if self.n > _DESIGN**2 else self.n
        extra = (1 + (spread / 2 - 1) / design) / (1 + (spread - 1) / (2 * partners))
        self._found[key] = mean + found * math.sqrt(extra / (count * self.n)) / partners
        return self._found[key]

    def _spread(self, k: int) -> float:
        """How much the sign moment c of a difference varies, between k leading directions and the others, over how
        much its expectation given one of its rows does, which is the covariance of two differences of a row."""
        k = min(k, self.d - 1)

        def find() -> Floats:
            rows, steps = self._drawn[: self._paired], range(1, _PARTNERS + 1)
            back = [_differences(rows, step) for step in steps]
            z = np.stack(back + [np.roll(z, -step, axis=0) for z, step in zip(back, steps, strict=True)], axis=1)
            a, b = z[:, :, :k], z[:, :, k:]
            products = (a @ a.transpose(0, 2, 1)) * (b @ b.transpose(0, 2, 1))  # of c of two differences of a row
            same = float(np.einsum("ijj->", products))
            return np.array((2 * _PARTNERS - 1) * same / max(float(products.sum()) - same, 1e-300))

        return float(np.clip(self.kept(("spread", k), find), 2.0, 100.0))

    # --- means ---------------------------------------------------------------------------------------------------

    def mean(self, view: View) -> Floats:
        """The mean moment of the population; of what a centre that is off adds the even part, over the drawn rows."""
        if view.shift is not None:
            mapped = Mapped.of(self._drawn, view.stretch)
            off = mapped.moved(view.shift)
            there, opposite, plain = (view.factors(each) ** 2 / len(mapped.rows) for each in mapped.about(off))
            return self.mean(replace(view, shift=None)) + mapped.moment(there / 2, off, opposite / 2, -plain)
        key = None if view.key is None else ("mean", view.key)
        if key is not None and key in self._found:
            return self._found[key]
        axes = self._axes(view.stretch)
        found = axes.back(np.diag(axes.shares if view.plain_signs else self._clipped(view, axes)))
        if self.outliers and view.plain_signs:
            outlier = self.assumed.outlier if view.stretch is None else view.stretch @ self.assumed.outlier
            found = self._with_outliers(found, self.outliers, outlier)
        if len(self._cut):
            inside, outside = (view.image(rows[self._cut]) for rows in (self._drawn, self._plain))
            found = found + _clear_change(inside, outside) / len(self._drawn)
        if key is not None:
            self._found[key] = found
        return found

    def _with_outliers(self, mean: Floats, share: float, outlier: Floats) -> Floats:
        return mean if not share else (1 - share) * mean + share * np.outer(outlier, outlier) / float(outlier @ outlier)

    def _axes(self, stretch: Floats | None) -> _Axes:
        """The principal axes of rows after a linear map. The last ones are kept."""
        if stretch is None:
            return self._own_axes
        if self._latest_axes.stretch is None or not np.array_equal(self._latest_axes.stretch, stretch):
            levels, vectors = np.linalg.eigh((stretch * self.assumed.eigenvalues) @ stretch.T)
            self._latest_axes = _Axes(stretch, np.maximum(levels, levels[-1] * 1e-12), vectors)
        return self._latest_axes

    def _clipped(self, view: View, axes: _Axes) -> Floats:
        """The mean of w·x² along the axes, with w = min(1, radius²/|x|²), or of a transform.

        If few of the rows are clipped and these are normal, E[x²] less (1 − w)·x² of the clipped ones; else by
        regression on x²/|x|², whose mean is known.
        """
        same = self._plain is self._drawn and not self.exact
        mapped = self._mapped(0, view.stretch) if same else Mapped.of(self._plain, view.stretch)
        weights, count = view.factors(mapped.lengths(None)) ** 2, len(mapped.rows)
        if self.assumed.normal and view.transform is None:
            clipped = np.flatnonzero(weights < 1)
            if len(clipped) <= _FEW_CLIPPED * count:
                return axes.levels - (1 - weights[clipped]) @ axes.turned(mapped.rows[clipped]) ** 2 / count
        squares, weights = axes.turned(mapped.rows) ** 2, weights / count
        if self.outliers:
            return weights @ squares
        inverse, shares = 1 / np.maximum(mapped.squares, LEAST_LENGTH), axes.shares
        means, signs = np.stack([weights, inverse / count]) @ squares
        products, sign_squares = np.stack([weights * inverse, inverse**2 / count]) @ squares**2
        slope = (products - signs * means) / (sign_squares - 2 * shares * signs + shares**2)
        return _smoothed(axes.levels, means - slope * (signs - shares))


def _with_covariance(rows: Floats, levels: Floats) -> Floats:
    """Rows after the map that gives them mean 0 and these variances along the axes, nearest to none."""
    scaled = (rows - rows.mean(axis=0)) / np.sqrt(levels)
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(rows))
    return scaled @ ((vectors / np.sqrt(values)) @ vectors.T * np.sqrt(levels))


def _differences(rows: Floats, step: int = 1) -> Floats:
    """Signs of differences of rows that are so many apart."""
    return View().image(rows - np.roll(rows, step, axis=0))


def _lengths(rows: Floats) -> Floats:
    return np.sort(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


def _clear_change(now: Floats, before: Floats) -> Floats:
    """Σ(zzᵀ − yyᵀ) where it stands out of its Monte Carlo error; the rest would be a second sampling error."""
    change = now.T @ now - before.T @ before
    # Σ(zᵢzⱼ − yᵢyⱼ)² = Σzᵢ²zⱼ² − 2Σ(zᵢyᵢ)(zⱼyⱼ) + Σyᵢ²yⱼ²
    squares, both, others = now**2, now * before, before**2
    variance = squares.T @ squares - 2 * (both.T @ both) + others.T @ others
    return np.where(change**2 > _CLEAR**2 * variance, change, 0.0)


def _smoothed(levels: Floats, mean: Floats) -> Floats:
    """The ratio to the eigenvalue is a smooth function of it: means over equal ones, a low degree where they differ."""
    ratio, logs = mean / levels, np.log(levels)
    if np.ptp(logs) < 1e-9:
        return np.full_like(mean, mean.mean())
    degree = min(3, len(np.unique(np.round(logs, 9))) - 1)
    powers = np.vander((logs - logs.mean()) / np.ptp(logs), degree + 1)
    fitted = powers @ np.linalg.lstsq(powers, ratio, rcond=None)[0]
    return levels * np.maximum(fitted, ratio.min() / 2)
