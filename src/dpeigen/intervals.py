"""Intervals for the numbers of a release: privacy noise, clipping as far as it is known, and sampling error.

Post-processing: a function of the release, so it costs nothing and gives the same result for the same release. The
errors are modelled in `dpeigen.errors`; the mathematics of intervals is in `stats.intervals`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.clipped import clipped_warning, long_columns
from dpeigen.errors import (
    DRAWS,
    Errors,
    errors_of,
    has_relative_variances,
    is_correlated,
    relative_to_paid_units,
    shares_by_signs,
)
from dpeigen.methods.auto import stands_in
from dpeigen.privacy.guarantee import MIXED
from dpeigen.stats.intervals import CLEAR, DECOMPOSED, Interval, Spectrum, entry_intervals, quantiles
from dpeigen.stats.mixed import divided_errors

if TYPE_CHECKING:
    from dpeigen.release import Release
    from dpeigen.stats.measured import Measured

__all__ = ["Intervals", "check_level", "intervals", "measured_in"]

_LONG = 0.8  # a loading above which its own square matters for its error
_OF_ONE_COLUMN, _MOST = 0.9, 0.5  # squared loading and variance share of a component that is one long-tailed column
_DETERMINED = 0.75  # mean squared cosine to draws of a direction; below it, the direction may be another one
_ROUNDING = 1e-10  # of a variance that is 1 by definition


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals for the numbers of a release, each a pair (low, high) of arrays. Computed when they are accessed.

    Each interval contains the released number beside which it is shown.

    Attributes
    ----------
    level : the probability that an interval contains the true number.
    of : "population" or "table".
    components : (k, d) of the loadings. The true component has the sign for which its product with the released one is
        positive.
    eigenvalues, shares : (k,) of the variances along components, and of their shares of the total variance.
    covariance, correlation : (d, d), of every entry. A column about which nothing is known has infinite intervals.
    mean : (d,), in the data's units; None if no mean was measured. Means of indicators and truth values are shares of
        rows, between 0 and 1.
    missing_shares : (d,), of the released shares of missing cells; None if none were paid for.
    known : (d,) the columns about which anything is known. If there are others, components, eigenvalues and shares are
        those of the known columns alone, and the loadings of the others are between −1 and 1.
    resolved : how many components, counted from the first, can be distinguished from noise; 0 if fewer than half of the
        columns are known.
    unresolved : why there are no more: "noise", "equal variances" or "unknown columns"; None if all are resolved.
    measured_variances : (k,) variances along the principal axes as they were measured, before shrinking, decreasing.
        Noise can make the last ones negative. NaN if unknown columns leave fewer axes.
    noise_floors : (k,) the value that the measured variance of each component must exceed. If all remaining variances
        were equal, after the components that exceed their floors, privacy noise and sampling error would stay below it
        in 98% of releases. So a component is resolved exactly if its measured variance is above its floor. −∞ for the
        last of all d components if all others are resolved, because its direction follows from theirs; ∞ if too few
        columns are known.
    clipped : the share of rows that may have been clipped to a paid radius; 0 for a public radius and for signs. The
        effect is estimated from the release (`dpeigen.errors`). It does not cover a tail of fewer rows than these in a
        column where noise hides it.
    cut_column : whether clipping may have made the variance of the first component much too small. This component has
        most of the variance, nearly all of it from one column, and released counts show that a few rows of that column
        are far out. Nothing shows how far. Then its share has no upper limit (1), and the others have no lower one (0).
    determined : (k,) whether the direction of a component is determined. Two equal variances can both exceed the noise:
        then the plane of both directions is known, but not which direction in it comes first.
    """

    release: Release
    level: float = 0.95
    of: str = "population"
    draws: int = DRAWS

    @cached_property
    def errors(self) -> Errors:
        """The measured covariance and mean, and draws of their errors."""
        return errors_of(self.release, measured_in(self.release), self.of, self.draws)

    @cached_property
    def _in_units(self) -> tuple[Floats, Floats]:
        """The matrix whose components are released, and draws of its error."""
        release, errors = self.release, self.errors
        if self._correlated:
            return errors.correlation()
        if release.scale is None:
            return errors.seen, errors.draws
        if relative_to_paid_units(release):
            unit = float(np.trace(release.covariance)) / release.n_features
            seen, draws = errors.correlation()
            return seen * unit, draws * unit
        if release.estimand == MIXED:
            sizes = np.sqrt(np.diag(errors.covariance))
            return divided_errors(errors.seen, sizes, errors.draws, errors.mean, release.scale, release.indicators)
        area = np.outer(release.scale, release.scale)
        return errors.seen / area, errors.draws / area

    @property
    def _sized(self) -> bool:
        """Whether the size of rows is known, or is not needed."""
        return self.errors.sized or self._correlated

    @property
    def _correlated(self) -> bool:
        return is_correlated(self.release)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Columns for which components can be given."""
        if self.draws != DECOMPOSED or self.of != "population":  # one answer for each release
            return self._quick.known
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
        """The number of components about which anything is known."""
        return min(len(self.release.components), int(self.known.sum()))

    @cached_property
    def covariance(self) -> Interval:
        low, high = entry_intervals(*self._in_units, self.level)
        diagonal = np.arange(len(low))
        low[diagonal, diagonal] = np.maximum(low[diagonal, diagonal], 0.0)
        high[diagonal, diagonal] = np.maximum(high[diagonal, diagonal], 0.0) * (1 + _ROUNDING)
        low[diagonal, diagonal] *= 1 - _ROUNDING
        known = self.known if self._sized else np.zeros_like(self.known)
        low, high = _where(known, low, high, 1.0 if self._correlated else math.inf)
        if not self._correlated:  # a variance is at most a quarter of the squared range
            ends, units = self.release.limits, 1.0 if self.release.scale is None else self.release.scale
            most = ((ends[1] - ends[0]) / (2 * units)) ** 2
            bounded = np.isfinite(most) & ((self.release.estimand != MIXED) | ~self.release.is_share)
            low[diagonal, diagonal] = np.where(bounded & ~known, 0.0, low[diagonal, diagonal])
            high[diagonal, diagonal] = np.where(
                bounded, np.minimum(high[diagonal, diagonal], most), high[diagonal, diagonal]
            )
            low[diagonal, diagonal] = np.minimum(low[diagonal, diagonal], high[diagonal, diagonal])
        return _with((low, high), self.release.covariance, np.outer(known, known))

    @cached_property
    def correlation(self) -> Interval:
        drawn = self.errors.seen - self.errors.draws
        variances = np.einsum("mii->mi", drawn)
        least = 1e-6 * np.maximum(np.diag(self.errors.covariance), 1e-300)
        roots = np.sqrt(np.maximum(variances, least))
        found = np.clip(drawn / (roots[:, :, None] * roots[:, None, :]), -1.0, 1.0)
        low, high = quantiles(found, self.level)
        told = self.errors.told
        low, high = _with(_where(told, low, high, 1.0), self.release.correlation, np.outer(told, told))
        np.fill_diagonal(low, 1.0 - _ROUNDING)
        np.fill_diagonal(high, 1.0 + _ROUNDING)
        return low, high

    @cached_property
    def mean(self) -> Interval | None:
        if self.errors.mean is None or self.release.mean is None:
            return None
        low, high = quantiles(self.release.mean - self.errors.mean, self.level)
        known, (least, most) = self.errors.known & self.errors.sized, self.release.limits
        ends = np.where(known, np.clip(low, least, most), least), np.where(known, np.clip(high, least, most), most)
        return _with(ends, self.release.mean, known)

    @property
    def clipped(self) -> float:
        """The share of rows that may have been clipped to a paid radius."""
        return measured_in(self.release).clipped or 0.0

    @cached_property
    def missing_shares(self) -> Interval | None:
        """Of the shares of missing cells: from the noise with which they were released, and sampling error."""
        shares, measured = self.release.missing_shares, measured_in(self.release)
        if shares is None or measured.present_deviations is None:
            return None
        pairs = self.release.facts.get("center") == "pairs"  # a pair has a missing cell if one of its rows has one
        variances = np.diag(measured.present_deviations) ** 2 * (0.25 / np.maximum(1 - shares, 0.05) if pairs else 1.0)
        if self.of == "population":
            variances = variances + shares * (1 - shares) / measured.terms
        reach = -float(ndtri((1 - self.level) / 2)) * np.sqrt(variances)
        return np.clip(shares - reach, 0.0, 1.0), np.clip(shares + reach, 0.0, 1.0)

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
        low, high = low * (1 - _ROUNDING), high * (1 + _ROUNDING)  # the eigenvalue of one column is 1 by definition
        ends = np.append(low, np.zeros(missing)), np.append(high, np.full(missing, most))
        return _with(ends, self.release.eigenvalues, self._released)

    @property
    def _eigenvalues(self) -> Interval:
        """Before the limits by what eigenvalues are."""
        by_signs = self._shares_by_signs
        if by_signs is not None and has_relative_variances(self.release):
            return by_signs[0] * self._total, by_signs[1] * self._total
        low, high = self._spectrum.eigenvalue_intervals(self._debiased, self.level, self._count)
        if self._to_first_order:
            low, high = self._wide_where_unresolved(low, high)
        if by_signs is None:
            return low, high
        traces = np.trace(self._spectrum.errors, axis1=1, axis2=2)
        total, spread = float(self._debiased.sum()), -float(ndtri((1 - self.level) / 2)) * float(traces.std())
        return low, self._at_most(high, by_signs[1] * (total + spread))

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

    @property
    def _from_signs(self) -> bool:
        return self.release.measured is not None and self.release.measured.kind == "signs"

    @property
    def _to_first_order(self) -> bool:
        """Whether the moment was built from signs or drawn directions, whose noise is known to first order."""
        return self.release.measured is not None and self.release.measured.deviations is not None

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

    @property
    def _released(self) -> NDArray[np.bool_]:
        """Which released numbers are shown: none if columns are unknown, since the release is about all columns."""
        return np.full(len(self.release.components), bool(self.known.all())) & self._sized

    @property
    def _total(self) -> float:
        return max(float(np.trace(self.release.covariance)), 1e-300)

    @cached_property
    def shares(self) -> Interval:
        low, high = self._shares
        if self.cut_column:
            first = np.arange(len(low)) == 0
            low, high = np.where(first, low, 0.0), np.where(first, 1.0, high)
        return _with((low, high), np.clip(self.release.eigenvalues / self._total, 0.0, 1.0), self._released)

    @cached_property
    def cut_column(self) -> bool:
        if self._correlated or not self._count or clipped_warning(self.release) is None:
            return False
        own = self.release.components[0] ** 2
        most = float(self._debiased[0]) > _MOST * float(self._debiased.sum())
        return most and own.max() > _OF_ONE_COLUMN and int(own.argmax()) in long_columns(self.release)

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
        total = float(self._debiased.sum()) or 1.0
        drawn = self._spectrum.noisy(self._debiased)[:, :count]
        traces = np.einsum("mii->m", self._spectrum.errors)
        part = self._debiased[:count] / total
        moved = (drawn - part * traces[:, None]).std(axis=0) / np.maximum(drawn.std(axis=0), 1e-300)
        if self._from_signs and self.unresolved == "noise":
            low, high = np.clip(low / total, 0.0, 1.0), np.clip(high / total, 0.0, 1.0)
            return low, high if by_signs is None else self._at_most(high, by_signs[1])
        below, above = (low[:count] - self._debiased[:count]) * moved, (high[:count] - self._debiased[:count]) * moved
        ends = np.clip([part + below / total, part + above / total], 0.0, 1.0)
        # If the total is less certain than the variance itself, the error of the share follows that of the total.
        whole = np.maximum(total - (traces - traces.mean()), 1e-9 * total)
        likely = self._debiased[:count] - (drawn - drawn.mean(axis=0))
        own, by_whole = quantiles(likely, self.level), quantiles(likely / whole[:, None], self.level)
        # Limits of eigenvalues can lie further out, because close ones may be others.
        further = np.minimum(low[:count] - own[0], 0.0), np.maximum(high[:count] - own[1], 0.0)
        by_whole = np.array(by_whole) + np.array(further) / total
        loose = drawn.std(axis=0) * total < traces.std() * self._debiased[:count]
        ends = np.where(loose, np.clip(by_whole, 0.0, 1.0), ends)
        missing = len(low) - count
        return np.append(ends[0], np.zeros(missing)), np.append(ends[1], np.ones(missing))

    @cached_property
    def _directions(self) -> tuple[Floats, Floats]:
        """Draws × components × known columns, with the signs of the released ones; and the released components."""
        released = self.release.components[: self._count, self.known]
        drawn = self._spectrum.directions(self._debiased, self._count)
        along = np.einsum("mkd,kd->mk", drawn, released)
        return drawn * np.where(along < 0, -1.0, 1.0)[:, :, None], released

    @cached_property
    def components(self) -> Interval:
        shape = self.release.components.shape
        ends = np.full(shape, -1.0), np.ones(shape)
        if not self._count:
            return ends
        drawn, released = self._directions
        low, high = quantiles(drawn, self.level)
        # Draws never reach a loading of ±1: they scatter about an estimate that does not reach it either.
        seen = self._spectrum.vectors[:, : len(released)].T
        seen = seen * np.where(np.sum(seen * released, axis=1) < 0, -1.0, 1.0)[:, None]
        high = np.where(seen > _LONG, np.minimum(np.maximum(high, 2 * seen - low), 1.0), high)
        low = np.where(seen < -_LONG, np.maximum(np.minimum(low, 2 * seen - high), -1.0), low)
        places = np.ix_(np.arange(len(released)), np.flatnonzero(self.known))
        ends[0][places] = np.maximum(low - _ROUNDING, -1.0)
        ends[1][places] = np.minimum(high + _ROUNDING, 1.0)
        return _with(ends, self.release.components, np.broadcast_to(self._released[:, None], shape))

    @cached_property
    def determined(self) -> NDArray[np.bool_]:
        found = np.zeros(len(self.release.components), dtype=bool)
        if self._count:
            drawn, _ = self._directions
            seen = self._spectrum.vectors[:, : self._count].T
            found[: self._count] = (np.einsum("mkd,kd->mk", drawn, seen) ** 2).mean(axis=0) > _DETERMINED
        return found

    @cached_property
    def resolved(self) -> int:
        return int(np.sum(self.measured_variances > self.noise_floors))

    @cached_property
    def noise_floors(self) -> Floats:
        if self.draws != DECOMPOSED or self.of != "population":  # one answer for each release, and a quick one
            return self._quick.noise_floors
        if not self._enough_known:
            return np.full(len(self.release.components), math.inf)
        floors = self._spectrum.floors(CLEAR, self._count)
        return np.append(floors, np.full(len(self.release.components) - self._count, math.inf))

    @cached_property
    def measured_variances(self) -> Floats:
        if self.draws != DECOMPOSED or self.of != "population":
            return self._quick.measured_variances
        found = np.full(len(self.release.components), math.nan)
        if self._count:
            found[: self._count] = self._spectrum.values[: self._count]
        return found

    @cached_property
    def _quick(self) -> Intervals:
        return Intervals(self.release, draws=DECOMPOSED)

    @property
    def _enough_known(self) -> bool:
        """Whether the components of the known columns say anything about the table.

        Columns in which hardly any cell could be read, such as text read as numbers, do not count.
        """
        known, d = int(self.known.sum()), len(self.known)
        readable = d - len(self.release.columns_without_cells)
        return 2 * known >= readable and known >= min(2, d)

    @cached_property
    def unresolved(self) -> str | None:
        if self.draws != DECOMPOSED or self.of != "population":
            return self._quick.unresolved
        if self.resolved >= len(self.release.components):
            return None
        if not self._enough_known or self.resolved >= self._count:
            return "unknown columns"
        return "equal variances" if self._spectrum.level_is_known(self.resolved, CLEAR) else "noise"

    def to_frame(self) -> Any:
        """Make a pandas table of the components: loadings with their intervals.

        Returns
        -------
        pandas.DataFrame
            One line for each component and column.
        """
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


def _with(ends: Interval, released: Floats, shown: NDArray[np.bool_]) -> Interval:
    """Extend intervals so that they contain the numbers beside which they are shown.

    A released number is shrunk, or from a robust method that weights rows differently; the interval is about the
    measured number. If the two differ by more than the error, the interval is extended to the released number.
    """
    low, high = ends
    return np.where(shown, np.minimum(low, released), low), np.where(shown, np.maximum(high, released), high)


def _where(known: NDArray[np.bool_], low: Floats, high: Floats, widest: float) -> Interval:
    """Intervals for entries between known columns, and the widest possible for other entries."""
    both = np.outer(known, known) | np.diag(np.full(len(known), widest == 1.0))
    return np.where(both, low, -widest), np.where(both, high, widest)


def check_level(level: float, of: str, owner: str) -> tuple[float, str]:
    """Check the level and whether intervals are for the population or the table.

    Parameters
    ----------
    level : float
        Strictly between 0 and 1.
    of : str
        "population" or "table".
    owner : str
        The name of the caller, for the message.

    Returns
    -------
    (float, str)
        Both, checked.
    """
    check_choice("of", of, ["population", "table"], owner)
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0.5 <= level <= 0.999:
        raise ValueError(complain("level", owner, "a number between 0.5 and 0.999", level))
    return float(level), of


def intervals(release: Release, level: float, of: str) -> Intervals:
    """Compute intervals of a release; see `Release.intervals`.

    Parameters
    ----------
    release : Release
        A release that holds the measured moment.
    level : float
        The probability that an interval contains the true number.
    of : str
        "population" or "table".

    Returns
    -------
    Intervals
        Computed when they are accessed.
    """
    measured_in(release)
    return Intervals(release, *check_level(level, of, "Release.intervals"))


def measured_in(release: Release) -> Measured:
    """Return the measured quantities from which errors are computed; raise an error if there are none.

    Parameters
    ----------
    release : Release
        Any.

    Returns
    -------
    Measured
        The noisy moment and the law of its noise.
    """
    if release.measured is not None:
        return release.measured
    method = release.facts.get("method") or release.guarantee.mechanism
    raise ValueError(
        f"This release does not hold the noisy moment that intervals are computed from. It was saved by an older "
        f"version of dpeigen, or its method ({method}) releases none. Fit again, which spends budget, with "
        "method='auto', 'whitened', 'gaussian', 'laplace' or 'matrix-laplace'."
    )
