"""Means of assumed rows with little Monte Carlo error: axes of elliptical rows, matched draws, smoothed means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpeigen._types import Floats
from dpeigen.stats.signs import compression

__all__ = ["PrincipalAxes", "clear_change", "smoothed", "with_covariance"]

_CLEAR = 2.5  # standard errors above which a change of a mean is considered real


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Variances of rows after a linear map along the axes (columns; None: the coordinate axes)."""

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
        """A matrix given along the axes, in coordinates."""
        return matrix if self.vectors is None else self.vectors @ matrix @ self.vectors.T


def with_covariance(rows: Floats, levels: Floats) -> Floats:
    """Rows after the smallest linear change that gives them mean 0 and these variances along the axes."""
    scaled = (rows - rows.mean(axis=0)) / np.sqrt(levels)
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(rows))
    return scaled @ ((vectors / np.sqrt(values)) @ vectors.T * np.sqrt(levels))


def clear_change(now: Floats, before: Floats) -> Floats:
    """The entries of Σ(zzᵀ − yyᵀ) that exceed their Monte Carlo error; the others would add sampling error."""
    change = now.T @ now - before.T @ before
    # Σ(zᵢzⱼ − yᵢyⱼ)² = Σzᵢ²zⱼ² − 2Σ(zᵢyᵢ)(zⱼyⱼ) + Σyᵢ²yⱼ²
    squares, both, others = now**2, now * before, before**2
    variance = squares.T @ squares - 2 * (both.T @ both) + others.T @ others
    return np.where(change**2 > _CLEAR**2 * variance, change, 0.0)


def smoothed(levels: Floats, mean: Floats) -> Floats:
    """Smoothed means: their ratio to the eigenvalue is smooth in it (means over equal ones, else low degree)."""
    ratio, logs = mean / levels, np.log(levels)
    if np.ptp(logs) < 1e-9:
        return np.full_like(mean, mean.mean())
    degree = min(3, len(np.unique(np.round(logs, 9))) - 1)
    powers = np.vander((logs - logs.mean()) / np.ptp(logs), degree + 1)
    fitted = powers @ np.linalg.lstsq(powers, ratio, rcond=None)[0]
    return levels * np.maximum(fitted, ratio.min() / 2)
