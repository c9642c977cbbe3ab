"""Intervals for the numbers of a release: privacy noise, clipping as far as it is known, and sampling error.

Post-processing: a function of the release, so it costs nothing, and the same every time for the same release. Where the
errors come from is in `dpeigen.errors`, the mathematics of intervals in `stats.intervals`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.errors import CLEAR, DECOMPOSED, DRAWS, Errors, errors_of, is_correlated
from dpeigen.privacy.guarantee import MIXED
from dpeigen.privacy.randomness import made_up_generator
from dpeigen.stats.intervals import Interval, Spectrum, entry_intervals, quantiles
from dpeigen.stats.mixed import divided_errors

if TYPE_CHECKING:
    from dpeigen.release import Release
    from dpeigen.stats.measured import Measured

_LONG = 0.8  # a loading from which on its own square takes part in its error
_ROUNDING = 1e-12  # of a variance that is 1 by definition


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals for the numbers of a release, each a pair (low, high) of arrays. Computed when they are asked for.

    Attributes
    ----------
    level : the probability that an interval holds the number it is for.
    of : "population" or "table".
    components : (k, d) of the loadings. The sign of the truth is the one that makes its product with the released
        component positive.
    eigenvalues, shares : (k,) of the variances along components, and of their share of the whole variance.
    covariance, correlation : (d, d), of every entry. A column of which nothing is known has infinite ones.
    mean : (d,), in the data's units; None where no mean was measured.
    resolved : how many components, from the first on, can be told from noise.
    """

    release: Release
    level: float = 0.95
    of: str = "population"
    draws: int = DRAWS

    @cached_property
    def errors(self) -> Errors:
        """What was measured, and draws of its error."""
        return errors_of(self.release, measured_in(self.release), self.of, self.draws)

    @cached_property
    def _in_units(self) -> tuple[Floats, Floats]:
        """The matrix that the components are those of, and draws of its error."""
        release, errors = self.release, self.errors
        if self._correlated:
            return errors.correlation()
        if release.scale is None:
            return errors.seen, errors.draws
        if release.estimand == MIXED:
            sizes = np.sqrt(np.diag(errors.covariance))
            return divided_errors(errors.seen, sizes, errors.draws, errors.mean, release.scale, release.indicators)
        area = np.outer(release.scale, release.scale)
        return errors.seen / area, errors.draws / area

    @property
    def _sized(self) -> bool:
        """Whether the size of rows is known, or does not matter."""
        return self.errors.sized or self._correlated

    @property
    def _correlated(self) -> bool:
        return is_correlated(self.release)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Columns that the components can be told of."""
        return self.errors.told if self._correlated else self.errors.known

    @cached_property
    def _spectrum(self) -> Spectrum:
        seen, draws = self._in_units
        known = np.flatnonzero(self.known)
        chosen = np.ix_(known, known)
        return Spectrum.of(seen[chosen], draws[:DECOMPOSED][:, chosen[0], chosen[1]])

    @cached_property
    def _debiased(self) -> Floats:
        return self._spectrum.debiased()

    @property
    def _count(self) -> int:
        """Components that anything is known of."""
        return min(len(self.release.components), int(self.known.sum()))

    @cached_property
    def covariance(self) -> Interval:
        low, high = entry_intervals(*self._in_units, self.level)
        diagonal = np.arange(len(low))
        low[diagonal, diagonal] = np.maximum(low[diagonal, diagonal], 0.0)
        high[diagonal, diagonal] = np.maximum(high[diagonal, diagonal], 0.0) * (1 + _ROUNDING)
        low[diagonal, diagonal] *= 1 - _ROUNDING
        known = self.known if self._sized else np.zeros_like(self.known)
        return _where(known, low, high, 1.0 if self._correlated else math.inf)

    @cached_property
    def correlation(self) -> Interval:
        drawn = self.errors.seen - self.errors.draws
        variances = np.einsum("mii->mi", drawn)
        least = 1e-6 * np.maximum(np.diag(self.errors.covariance), 1e-300)
        roots = np.sqrt(np.maximum(variances, least))
        found = np.clip(drawn / (roots[:, :, None] * roots[:, None, :]), -1.0, 1.0)
        low, high = quantiles(found, self.level)
        low, high = _where(self.errors.told, low, high, 1.0)
        np.fill_diagonal(low, 1.0 - _ROUNDING)
        np.fill_diagonal(high, 1.0 + _ROUNDING)
        return low, high

    @cached_property
    def mean(self) -> Interval | None:
        if self.errors.mean is None or self.release.mean is None:
            return None
        low, high = quantiles(self.release.mean - self.errors.mean, self.level)
        known = self.errors.known & self.errors.sized
        return np.where(known, low, -math.inf), np.where(known, high, math.inf)

    @cached_property
    def eigenvalues(self) -> Interval:
        if not self._count:
            return np.zeros(len(self.release.components)), np.full(len(self.release.components), math.inf)
        low, high = self._spectrum.eigenvalue_intervals(self._debiased, self.level, self._count)
        if self._from_signs:
            low, high = self._wide_where_unresolved(low, high)
        missing = len(self.release.components) - self._count
        # A further column makes no eigenvalue smaller, and each larger by no more than its own variance.
        further = np.count_nonzero(~self.known)
        most = float(len(self.known)) if self._correlated else math.inf
        high = np.minimum(high + further, most) if self._correlated or not further else np.full_like(high, math.inf)
        high = high if self._sized else np.full_like(high, math.inf)
        return np.append(low, np.zeros(missing)), np.append(high, np.full(missing, most))

    @property
    def _from_signs(self) -> bool:
        return self.release.measured is not None and self.release.measured.kind == "signs"

    def _wide_where_unresolved(self, low: Floats, high: Floats) -> Interval:
        """Signs say little of variances that they cannot tell from noise: the j-th is no larger than the whole over j.

        A moment shows such a variance with the noise that is known; signs show it through a model of the others.
        """
        traces = np.trace(self._spectrum.errors, axis1=1, axis2=2)
        whole = float(self._debiased.sum()) + 2 * float(traces.std())
        unclear = np.arange(len(low)) >= self.resolved
        most = whole / np.arange(1, len(low) + 1)
        return np.where(unclear, 0.0, low), np.where(unclear, np.maximum(high, most), high)

    @cached_property
    def shares(self) -> Interval:
        total = float(self._debiased.sum()) or 1.0
        (low, high), count = self.eigenvalues, self._count
        drawn = self._spectrum.noisy(self._debiased)[:, :count]
        traces = np.einsum("mii->m", self._spectrum.errors)
        part = self._debiased[:count] / total
        moved = (drawn - part * traces[:, None]).std(axis=0) / np.maximum(drawn.std(axis=0), 1e-300)
        if self._correlated:
            return low / len(self.known), high / len(self.known)
        if not self.known.all():
            return np.zeros_like(low), np.ones_like(low)
        if self._from_signs:
            ends = np.clip([low / total, high / total], 0.0, 1.0)
            return ends[0], ends[1]
        below, above = (low[:count] - self._debiased[:count]) * moved, (high[:count] - self._debiased[:count]) * moved
        ends = np.clip([part + below / total, part + above / total], 0.0, 1.0)
        return ends[0], ends[1]

    @cached_property
    def components(self) -> Interval:
        released = self.release.components
        if not self.known.all():
            return np.full(released.shape, -1.0), np.ones(released.shape)
        rng = made_up_generator(len(released))
        drawn = self._spectrum.directions(self._debiased, rng, self._count)
        along = np.einsum("mkd,kd->mk", drawn, released)
        drawn = drawn * np.where(along < 0, -1.0, 1.0)[:, :, None]
        low, high = quantiles(drawn, self.level)
        # Draws never reach a loading of ±1: they scatter about an estimate that does not reach it either.
        seen = self._spectrum.vectors[:, : len(released)].T
        seen = seen * np.where(np.sum(seen * released, axis=1) < 0, -1.0, 1.0)[:, None]
        high = np.where(seen > _LONG, np.minimum(np.maximum(high, 2 * seen - low), 1.0), high)
        low = np.where(seen < -_LONG, np.maximum(np.minimum(low, 2 * seen - high), -1.0), low)
        return low, high

    @cached_property
    def resolved(self) -> int:
        if self.draws != DECOMPOSED or self.of != "population":  # one answer for one release, and a quick one
            return Intervals(self.release, draws=DECOMPOSED).resolved
        if not self.known.any():
            return 0
        return self._spectrum.resolved(CLEAR, self._count)

    def to_frame(self) -> Any:
        """A pandas table of the components: loadings with their intervals."""
        import pandas as pd

        low, high = self.components
        names, k = self.release.feature_names, len(self.release.components)
        index = pd.MultiIndex.from_product([range(1, k + 1), names], names=["component", "column"])
        values = {"loading": self.release.components, "low": low, "high": high}
        return pd.DataFrame({name: np.ravel(value) for name, value in values.items()}, index=index)

    def _repr_html_(self) -> str:
        from dpeigen import notebook

        return notebook.intervals_html(self)

    def __repr__(self) -> str:
        k = len(self.release.components)
        return f"Intervals(level={self.level:g}, of={self.of!r}, {self.resolved} of {k} components told from noise)"


def _where(known: NDArray[np.bool_], low: Floats, high: Floats, widest: float) -> Interval:
    """Intervals of entries between columns that are known, and the widest for others."""
    both = np.outer(known, known) | np.diag(np.full(len(known), widest == 1.0))
    return np.where(both, low, -widest), np.where(both, high, widest)


def check_level(level: float, of: str, owner: str) -> tuple[float, str]:
    """Checked."""
    check_choice("of", of, ["population", "table"], owner)
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0.5 <= level <= 0.999:
        raise ValueError(complain("level", owner, "a number between 0.5 and 0.999", level))
    return float(level), of


def intervals(release: Release, level: float, of: str) -> Intervals:
    """Checked."""
    measured_in(release)
    return Intervals(release, *check_level(level, of, "Release.intervals"))


def measured_in(release: Release) -> Measured:
    """What errors are computed from; says plainly where there is nothing."""
    if release.measured is not None:
        return release.measured
    method = release.facts.get("method") or release.guarantee.mechanism
    raise ValueError(
        f"This release does not hold the noisy moment that intervals are computed from. It was saved by an older "
        f"version of dpeigen, or its method ({method}) releases none. Fit again, which spends budget, with "
        "method='auto', 'whitened', 'gaussian', 'laplace' or 'matrix-laplace'."
    )
