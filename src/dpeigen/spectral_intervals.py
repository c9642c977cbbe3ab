"""Intervals for the eigenvalues, shares of variance and components of a release (`dpeigen.intervals`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpeigen._types import Floats
from dpeigen.clipped import cut_columns
from dpeigen.errors import shares_by_signs
from dpeigen.interval_basis import ROUNDING, IntervalBasis, extended, measured_in
from dpeigen.methods.auto import stands_in
from dpeigen.release_units import has_relative_variances
from dpeigen.stats.intervals import Interval, Spectrum, quantiles

__all__ = ["SpectralIntervals"]

_LONG = 0.8  # a loading above which its own square matters for its error
_OF_ONE_COLUMN, _MOST = 0.9, 0.5  # squared loading and variance share of a component that is one long-tailed column
_DETERMINED = 0.75  # mean squared cosine to draws of a direction; below it, the direction may be another one


@dataclass(frozen=True, eq=False)
class SpectralIntervals(IntervalBasis):
    """Intervals for eigenvalues, shares and components; `dpeigen.intervals.Intervals` describes the attributes."""

    @cached_property
    def eigenvalues(self) -> Interval:
        if not self._count:
            return np.zeros(len(self.release.components)), np.full(len(self.release.components), math.inf)
        low, high = self._eigenvalues
        # An eigenvalue is at most each of those before it, and so at most their upper limits.
        low, high = np.maximum.accumulate(low[::-1])[::-1], np.minimum.accumulate(high)
        missing = len(self.release.components) - self._count
        most = float(self.known.sum()) if self._correlated else math.inf
        high = np.minimum(high, most) if self._sized else np.full_like(high, math.inf)
        low, high = low * (1 - ROUNDING), high * (1 + ROUNDING)  # the eigenvalue of one column is 1 by definition
        ends = np.append(low, np.zeros(missing)), np.append(high, np.full(missing, most))
        return extended(ends, self.release.eigenvalues, self._released)

    @property
    def _eigenvalues(self) -> Interval:
        """Before the limits by what eigenvalues are."""
        by_signs = self._shares_by_signs
        if by_signs is not None and has_relative_variances(self.release):
            return by_signs[0] * self._total, by_signs[1] * self._total
        low, high = self._variances.eigenvalue_intervals(self._debiased, self.level, self._count)
        if self._without_losses is not None:
            least, most = self._values_without_losses[1]
            low, high = np.minimum(low, least), np.maximum(high, most)
        if self._drawn:
            return self._turned_intervals(low, high)
        if self._to_first_order:
            low, high = self._wide_where_unresolved(low, high)
        if by_signs is None:
            return low, high
        traces = np.trace(self._spectrum.errors, axis1=1, axis2=2)
        total, spread = float(self._debiased.sum()), -float(ndtri((1 - self.level) / 2)) * float(traces.std())
        return low, self._at_most(high, by_signs[1] * (total + spread))

    @cached_property
    def _values_without_losses(self) -> tuple[Floats, Interval]:
        """Debiased eigenvalues, and intervals for the first of them, if clipping took nothing from single columns."""
        if self._without_losses is None:
            raise AssertionError("only asked for where losses are assumed")
        values = self._without_losses.debiased()
        return values, self._without_losses.eigenvalue_intervals(values, self.level, self._count)

    def _turned_intervals(self, low: Floats, high: Floats) -> Interval:
        """Extend intervals of eigenvalues that were not measured, if directions were drawn, by a second way.

        Intervals by inverting a test suit weak correlations, which errors make seem stronger. If correlations are
        clear, errors of directions make them seem weaker: then they are like those of matrices turned by likely
        rotations.
        """
        if self._has_own_values:
            return low, high
        errors, count = self._drawn_errors, self._count
        along, turned = self._spectrum_of(errors.along), self._decomposed(errors.of_directions)[0][:, :count]
        values, (least, most) = along.debiased(), quantiles(turned, self.level)
        below, above = along.eigenvalue_intervals(values, self.level, count)
        middle, values = np.median(turned, axis=0), values[:count]  # both errors are independent
        least, most = np.hypot(middle - least, values - below), np.hypot(most - middle, above - values)
        return np.clip(middle - least, 0.0, low), np.maximum(high, middle + most)

    def _at_most(self, high: Floats, by_signs: Floats) -> Floats:
        """Upper limits by signs alone for variances that paid ones do not distinguish from noise.

        Lower limits stay: rows that are not elliptical can make the first share of signs too large.
        """
        unclear = np.arange(self._count) >= self.resolved
        return np.where(unclear, np.minimum(high, by_signs), high)

    @cached_property
    def _shares_by_signs(self) -> Interval | None:
        """Of shares of variance from signs alone, if signs replace the covariance."""
        if not self.known.all():
            return None
        return shares_by_signs(self.release, measured_in(self.release), self.of, self.level, self._count)

    def _wide_where_unresolved(self, low: Floats, high: Floats) -> Interval:
        """Widen the intervals of variances that cannot be distinguished from noise: each may be any of them.

        If signs are used in place of the covariance, little more than the sum of these variances is known: the j-th of
        them is at most the sum divided by j.
        """
        unclear = np.arange(len(low)) >= self.resolved
        if self.unresolved != "noise" or not unclear.any():
            return low, high
        least, most = float(low[unclear].min()), np.full(len(low), high[unclear].max())
        if stands_in(self.release.choice):
            traces = np.trace(self._spectrum.errors, axis1=1, axis2=2)
            left = float(self._debiased[self.resolved :].sum()) + 2 * float(traces.std())
            least, most = 0.0, np.maximum(most, left / np.maximum(np.arange(len(low)) - self.resolved + 1, 1))
        return np.where(unclear, least, low), np.where(unclear, most, high)

    @cached_property
    def shares(self) -> Interval:
        low, high = self._shares
        if self.cut_column:
            first = np.arange(len(low)) == 0
            low, high = np.where(first, low, 0.0), np.where(first, 1.0, high)
        return extended((low, high), np.clip(self.release.eigenvalues / self._total, 0.0, 1.0), self._released)

    @cached_property
    def cut_column(self) -> bool:
        if self._correlated or not self._count:
            return False
        own = self.release.components[0] ** 2
        most = float(self._debiased[0]) > _MOST * float(self._debiased.sum())
        return most and own.max() > _OF_ONE_COLUMN and int(own.argmax()) in cut_columns(self.release)

    @property
    def _shares(self) -> Interval:
        (low, high), count = self.eigenvalues, self._count
        if not count:
            return np.zeros_like(low), np.ones_like(low)
        if self._correlated:
            return low / self.known.sum(), np.minimum(high / self.known.sum(), 1.0)
        by_signs = self._shares_by_signs
        if by_signs is not None and has_relative_variances(self.release):
            return low / self._total, np.minimum(high / self._total, 1.0)
        if self._from_signs and self.unresolved == "noise":
            total = float(self._debiased.sum()) or 1.0
            low, high = np.clip(low / total, 0.0, 1.0), np.clip(high / total, 0.0, 1.0)
            return low, high if by_signs is None else self._at_most(high, by_signs[1])
        ends = self._relative_to_all(self._variances, self._debiased, (low[:count], high[:count]))
        if self._without_losses is not None:
            least, most = self._relative_to_all(self._without_losses, *self._values_without_losses)
            ends = np.minimum(ends[0], least), np.maximum(ends[1], most)
        missing = len(low) - count
        least = np.where(low[:count] > 0, ends[0], 0.0)
        return np.append(least, np.zeros(missing)), np.append(ends[1], np.ones(missing))

    def _relative_to_all(self, spectrum: Spectrum, values: Floats, ends: Interval) -> Interval:
        """Intervals for shares of variance, from those for eigenvalues with these `debiased` values."""
        (low, high), total, count = ends, float(values.sum()) or 1.0, len(ends[0])
        drawn, traces = spectrum.noisy(values)[:, :count], spectrum.traces()
        first = values[:count]
        part = first / total
        moved = (drawn - part * traces[:, None]).std(axis=0) / np.maximum(drawn.std(axis=0), 1e-300)
        shares = np.clip([part + (end - first) * moved / total for end in ends], 0.0, 1.0)
        # If the total is less certain than the variance itself, the error of the share follows that of the total.
        whole = np.maximum(total - (traces - traces.mean()), 1e-9 * total)
        likely = first - (drawn - drawn.mean(axis=0))
        own, by_whole = quantiles(likely, self.level), np.array(quantiles(likely / whole[:, None], self.level))
        # Limits of eigenvalues can lie further out, because close ones may be others.
        further = np.minimum(low - own[0], 0.0), np.maximum(high - own[1], 0.0)
        by_whole = by_whole + np.array(further) / total
        loose = drawn.std(axis=0) * total < traces.std() * first
        least, most = np.where(loose, np.clip(by_whole, 0.0, 1.0), shares)
        return least, most

    @cached_property
    def _directions(self) -> tuple[Floats, Floats]:
        """Draws × components × known columns, with the signs of the released ones; and the released components."""
        released = self.release.components[: self._count, self.known]
        drawn = (
            self._decomposed(self.errors)[1][:, : self._count]
            if self._drawn
            else self._spectrum.directions(self._debiased, self._count)
        )
        along = np.einsum("mkd,kd->mk", drawn, released)
        return drawn * np.where(along < 0, -1.0, 1.0)[:, :, None], released

    @cached_property
    def components(self) -> Interval:
        shape = self.release.components.shape
        ends = np.full(shape, -1.0), np.ones(shape)
        if not self._count:
            return ends
        drawn, released = self._directions
        low, high = self._any_of_equal(*quantiles(drawn, self.level))
        # Draws never reach a loading of ±1: they scatter about an estimate that does not reach it either.
        seen = self._spectrum.vectors[:, : len(released)].T
        seen = seen * np.where(np.sum(seen * released, axis=1) < 0, -1.0, 1.0)[:, None]
        high = np.where(seen > _LONG, np.minimum(np.maximum(high, 2 * seen - low), 1.0), high)
        low = np.where(seen < -_LONG, np.maximum(np.minimum(low, 2 * seen - high), -1.0), low)
        places = np.ix_(np.arange(len(released)), np.flatnonzero(self.known))
        ends[0][places] = np.maximum(low - ROUNDING, -1.0)
        ends[1][places] = np.minimum(high + ROUNDING, 1.0)
        return extended(ends, self.release.components, np.broadcast_to(self._released[:, None], shape))

    def _any_of_equal(self, low: Floats, high: Floats) -> Interval:
        """Extend intervals of unresolved components to those for equal variances: errors make variances differ."""
        first, released = self.resolved, self.release.components[: self._count, self.known]
        if self._drawn or self._from_signs or first >= self._count:
            return low, high
        values = np.append(self._debiased[:first], np.full(len(self._debiased) - first, self._debiased[first:].mean()))
        drawn = self._spectrum.directions(values, self._count)[:, first:]
        drawn = drawn * np.where(np.einsum("mkd,kd->mk", drawn, released[first:]) < 0, -1.0, 1.0)[:, :, None]
        least, most = quantiles(drawn, self.level)
        low, high = low.copy(), high.copy()
        low[first:], high[first:] = np.minimum(low[first:], least), np.maximum(high[first:], most)
        return low, high

    @cached_property
    def determined(self) -> NDArray[np.bool_]:
        found = np.zeros(len(self.release.components), dtype=bool)
        if self._count:
            drawn, _ = self._directions
            seen = self._spectrum.vectors[:, : self._count].T
            found[: self._count] = (np.einsum("mkd,kd->mk", drawn, seen) ** 2).mean(axis=0) > _DETERMINED
        return found
