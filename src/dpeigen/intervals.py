"""Intervals for the numbers of a release: privacy noise, clipping as far as it is known, and sampling error.

Post-processing: a function of the release, so it costs nothing and gives the same result for the same release. The
errors are modelled in `dpeigen.errors`; the mathematics of intervals is in `stats.intervals`. Here are the intervals of
entries and means; those of components and eigenvalues are in `dpeigen.spectral_intervals`.
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
from dpeigen.interval_basis import ROUNDING, extended, measured_in
from dpeigen.privacy.guarantee import MIXED
from dpeigen.spectral_intervals import SpectralIntervals
from dpeigen.stats.intervals import Interval, entry_intervals, quantiles

if TYPE_CHECKING:
    from dpeigen.release import Release

__all__ = ["Intervals", "check_level", "intervals", "measured_in"]


@dataclass(frozen=True, eq=False)
class Intervals(SpectralIntervals):
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

    @cached_property
    def covariance(self) -> Interval:
        if self._drawn and self._correlated:
            return self.correlation
        low, high = entry_intervals(*self._in_units, self.level)
        diagonal = np.arange(len(low))
        if self.errors.lost is not None:  # columns may have lost something by clipping, or nothing
            least, most = entry_intervals(*self._units_of(self.errors.without_losses), self.level)
            low, high = np.minimum(low, least), np.maximum(high, most)
        low[diagonal, diagonal] = np.maximum(low[diagonal, diagonal], 0.0)
        high[diagonal, diagonal] = np.maximum(high[diagonal, diagonal], 0.0) * (1 + ROUNDING)
        low[diagonal, diagonal] *= 1 - ROUNDING
        if not self._from_signs and self.release.estimand != MIXED:  # a variance may be noise alone
            low[diagonal, diagonal] = np.where(self._told, low[diagonal, diagonal], 0.0)
        known = self.known if self._sized else np.zeros_like(self.known)
        low, high = _where(known, low, high, 1.0 if self._correlated else math.inf)
        if not self._correlated:  # a variance is at most a quarter of the squared range
            units = 1.0 if self.release.scale is None else self.release.scale
            most = (self.release.largest_deviations / units) ** 2
            bounded = np.isfinite(most) & ((self.release.estimand != MIXED) | ~self.release.is_share)
            low[diagonal, diagonal] = np.where(bounded & ~known, 0.0, low[diagonal, diagonal])
            high[diagonal, diagonal] = np.where(
                bounded, np.minimum(high[diagonal, diagonal], most), high[diagonal, diagonal]
            )
            low[diagonal, diagonal] = np.minimum(low[diagonal, diagonal], high[diagonal, diagonal])
        return extended((low, high), self.release.covariance, np.outer(known, known))

    @cached_property
    def correlation(self) -> Interval:
        low, high = quantiles(self.errors.correlations(), self.level)
        if self.errors.lost is not None:
            least, most = quantiles(self.errors.without_losses.correlations(), self.level)
            low, high = np.minimum(low, least), np.maximum(high, most)
        told = self._told
        low, high = extended(_where(told, low, high, 1.0), self.release.correlation, np.outer(told, told))
        np.fill_diagonal(low, 1.0 - ROUNDING)
        np.fill_diagonal(high, 1.0 + ROUNDING)
        return low, high

    @cached_property
    def mean(self) -> Interval | None:
        if self.errors.mean is None or self.release.mean is None:
            return None
        low, high = quantiles(self.release.mean - self.errors.mean, self.level)
        known, (least, most) = self.errors.known & self.errors.sized, self.release.limits
        ends = np.where(known, np.clip(low, least, most), least), np.where(known, np.clip(high, least, most), most)
        return extended(ends, self.release.mean, known)

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
