"""Assumed rows, and the moments of n of them, without drawing them all.

In the eigenbasis of an elliptical population, the mean moment of rows that are clipped to a radius, or divided by their
norm, is diagonal. After a linear map it is diagonal in the eigenbasis of the mapped covariance. The mean of signs is an
integral (`stats.signs`). That of clipped rows is a Monte Carlo mean with the signs as control variates. If few normal
rows are clipped, it is their variance minus the effect of clipping, averaged over drawn rows whose mean and covariance
are those of the population. Column bounds and an error of the centre change these means; the change is averaged over
the drawn rows. The sampling error of n rows is that of a few thousand rows with random weights (multipliers):
F = Σ gᵢ(yᵢyᵢᵀ − M)/√(nN). If n is small, the n rows are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpeigen._types import Floats
from dpeigen.planner.assumptions import Rows
from dpeigen.planner.box import BoxedAxes
from dpeigen.planner.means import PrincipalAxes, clear_change, smoothed, with_covariance
from dpeigen.planner.views import LEAST_LENGTH, Mapped, View
from dpeigen.privacy.randomness import Generator, made_up_generator

__all__ = ["Population"]

_FEWEST, _MOST, _NUMBERS = 5, 4000, 200_000  # rows drawn: least per column, most, and about this many numbers
_EXACT = 2000  # up to this many rows, all are drawn
_MORE, _MORE_NUMBERS = 2.5, 300_000  # factor on the drawn rows if a few matter much: with outliers or heavy tails
_PARTNERS = 8  # of a row in differences, on either side
_PAIRED, _FEW_COLUMNS = 1000, 30  # rows that are paired, for up to this many columns; fewer if there are more
_DESIGN = 64  # partners of a row that the library uses if it does not use all
_NEAR = 0.003  # of the trace: for smaller errors of the centre, the leading term is used
_FEW_CLIPPED = 0.05  # of the drawn rows: up to this fraction its Monte Carlo error is smaller
_MOST_TALLIES = 64  # histograms of columns that are kept
_PART_SEED = 7


class Population:
    """Assumed rows (or, for ``pairs``, differences of two divided by √2) in repetitions. Deterministic in its seed."""

    def __init__(self, rows: Rows, n: int, seed: int = 0, *, pairs: bool = False, box: BoxedAxes | None = None) -> None:
        self.assumed, self.n, self.pairs, self.box, self.seed = rows, n, pairs, box, seed
        more = 1.0 if rows.normal else _MORE
        numbers = _NUMBERS if rows.normal else _MORE_NUMBERS
        most = max(_FEWEST * self.d, int(min(numbers // self.d, more * _MOST)))
        self.exact = n <= more * _EXACT
        self._plain, self._drawn = self._draw(most, made_up_generator(seed, 0), matched=rows.normal)
        self._cut = np.flatnonzero((self._plain != self._drawn).any(axis=1))  # rows clipped by column bounds
        self._own_axes = self._latest_axes = PrincipalAxes(None, rows.eigenvalues, None)
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
        """The number of rows whose differences are used."""
        return _PAIRED if self.d <= _FEW_COLUMNS else max(_PAIRED * _FEW_COLUMNS // self.d, 3 * self.d)

    @property
    def outliers(self) -> float:
        """The fraction of rows, or of differences, that are outliers."""
        share = self.assumed.contamination
        return 2 * share * (1 - share) if self.pairs else share

    def _draw(self, count: int, rng: Generator, *, matched: bool = False) -> tuple[Floats, Floats]:
        """Rows, and the same clipped to the column bounds; ``matched``: with exactly the true mean and covariance."""
        plain = self.assumed.draw(2 * count if self.pairs else count, rng)
        if matched:
            plain = with_covariance(plain, self.assumed.eigenvalues)
        inside = plain if self.box is None else self.box.clipped(plain)
        cut = inside is not plain
        if self.pairs:
            plain, inside = ((rows[0::2] - rows[1::2]) / math.sqrt(2) for rows in (plain, inside))
        return plain, inside if cut else plain

    def kept(self, key: object, make: Callable[[], Floats]) -> Floats:
        """The cached result of ``make``, which is computed once for all budgets."""
        if key not in self._found:
            self._found[key] = make()
        return self._found[key]

    def part(self, n: int) -> Population:
        """A population of n of the rows, or of the differences."""
        if n not in self._parts:
            self._parts[n] = Population(self.assumed, n, _PART_SEED, pairs=self.pairs, box=self.box)
        return self._parts[n]

    def rows(self, repetition: int) -> Floats:
        """The rows of a repetition, or a sample that represents them."""
        if not self.exact:
            return self._drawn
        return self.kept(
            ("rows", repetition), lambda: self._draw(self.n, made_up_generator(self.seed, 1, repetition))[1]
        )

    def tallied(self, key: object, make: Callable[[Floats], Floats]) -> Floats:
        """Fractions of the population in the cells of a histogram, from the drawn rows; computed once for each key."""
        if key not in self._tallies:
            if len(self._tallies) >= _MOST_TALLIES:
                self._tallies.clear()
            self._tallies[key] = make(self._drawn)
        return self._tallies[key]

    def norms(self, repetition: int, stretch: Floats | None = None, shift: Floats | None = None) -> Floats:
        """Norms of rows in the view, increasing."""
        if stretch is not None or (shift is not None and not self._near(shift)):
            mapped = self._mapped(repetition, stretch)
            return np.sort(mapped.lengths(mapped.moved(shift)))
        found = self.kept(("norms", repetition if self.exact else None), lambda: _lengths(self.rows(repetition)))
        return found if shift is None else np.hypot(found, np.linalg.norm(shift))

    def _mapped(self, repetition: int, stretch: Floats | None) -> Mapped:
        """The rows of a repetition after a linear map. The last result is cached: moments and means share it."""
        which = repetition if self.exact else None
        if self._latest is None or self._latest[0] != which or not self._latest[1].made_by(stretch):
            self._latest = which, Mapped.of(self.rows(repetition), stretch)
        return self._latest[1]

    def moment(self, repetition: int, view: View) -> Floats:
        """The mean moment of n rows in the view."""
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
        """The mean of n rows in the view."""
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
        """The effect of a small error s of the centre: ssᵀ on a moment of rows; a second-order term on that of signs.

        With u = x/|x| and r = |x| the latter is E[ssᵀ − 2(u·s)(suᵀ + usᵀ) + uuᵀ(4(u·s)² − |s|²)]/r². In the eigenbasis
        it is approximately a function of aᵢ = E[uᵢ²], with E[uᵢ²uⱼ²] = c·aᵢaⱼ (three times that for i = j).
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
        """Spherical Kendall's tau of n rows, without the extra sampling error of few partners along k directions."""
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
            mean = mean + clear_change(inside, outside) / len(inside)
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
        """A ratio of variances of the sign moment c of a difference, between k leading directions and the others.

        The numerator is the variance of c. The denominator is that of its expectation given one of its rows, which is
        the covariance of two differences with that row.
        """
        k = min(k, self.d - 1)

        def find() -> Floats:
            rows, steps = self._drawn[: self._paired], range(1, _PARTNERS + 1)
            back = [_differences(rows, step) for step in steps]
            z = np.stack(back + [np.roll(z, -step, axis=0) for z, step in zip(back, steps, strict=True)], axis=1)
            a, b = z[:, :, :k], z[:, :, k:]
            products = (a @ a.transpose(0, 2, 1)) * (b @ b.transpose(0, 2, 1))  # of c for two differences with one row
            same = float(np.einsum("ijj->", products))
            return np.array((2 * _PARTNERS - 1) * same / max(float(products.sum()) - same, 1e-300))

        return float(np.clip(self.kept(("spread", k), find), 2.0, 100.0))

    # --- means ---------------------------------------------------------------------------------------------------

    def mean(self, view: View) -> Floats:
        """The mean moment of the population. For an error of the centre, its even part is averaged over drawn rows."""
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
            found = found + clear_change(inside, outside) / len(self._drawn)
        if key is not None:
            self._found[key] = found
        return found

    def _with_outliers(self, mean: Floats, share: float, outlier: Floats) -> Floats:
        return mean if not share else (1 - share) * mean + share * np.outer(outlier, outlier) / float(outlier @ outlier)

    def _axes(self, stretch: Floats | None) -> PrincipalAxes:
        """The principal axes of rows after a linear map. The last result is cached."""
        if stretch is None:
            return self._own_axes
        if self._latest_axes.stretch is None or not np.array_equal(self._latest_axes.stretch, stretch):
            levels, vectors = np.linalg.eigh((stretch * self.assumed.eigenvalues) @ stretch.T)
            self._latest_axes = PrincipalAxes(stretch, np.maximum(levels, levels[-1] * 1e-12), vectors)
        return self._latest_axes

    def _clipped(self, view: View, axes: PrincipalAxes) -> Floats:
        """The mean of w·x² along the axes, with w = min(1, radius²/|x|²), or of a transform.

        If rows are normal and few are clipped, it is E[x²] minus the mean of (1 − w)·x² over the clipped ones.
        Otherwise it is computed by regression on x²/|x|², whose mean is known.
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
        return smoothed(axes.levels, means - slope * (signs - shares))


def _differences(rows: Floats, step: int = 1) -> Floats:
    """Signs of differences of rows that are ``step`` apart."""
    return View().image(rows - np.roll(rows, step, axis=0))


def _lengths(rows: Floats) -> Floats:
    return np.sort(np.sqrt(np.einsum("ij,ij->i", rows, rows)))
