"""What all intervals of a release are computed from: the measured matrix, draws of its error, and its spectrum.

Post-processing: a function of the release. The errors are modelled in `dpeigen.errors`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.drawn_errors import DrawnErrors
from dpeigen.errors import DRAWS, Errors, errors_of
from dpeigen.privacy.guarantee import MIXED
from dpeigen.release_units import is_correlated, relative_to_paid_units
from dpeigen.stats.intervals import CLEAR, DECOMPOSED, Interval, Spectrum
from dpeigen.stats.mixed import divided_errors

if TYPE_CHECKING:
    from dpeigen.release import Release
    from dpeigen.stats.measured import Measured

__all__ = ["ROUNDING", "IntervalBasis", "extended", "measured_in"]

ROUNDING = 1e-10  # of a variance that is 1 by definition


@dataclass(frozen=True, eq=False)
class IntervalBasis:
    """The measured matrix in the units of the release, draws of its error, and which components can be told from noise.

    The attributes are described in `dpeigen.intervals.Intervals`.
    """

    release: Release
    level: float = 0.95
    of: str = "population"
    draws: int = DRAWS

    @cached_property
    def errors(self) -> Errors:
        """The measured covariance and mean, and draws of their errors.

        For drawn directions, components are distinguished from noise by their law to first order, and intervals are
        computed from directions drawn anew.
        """
        if self._drawn and not self._is_quick:
            return self._drawn_errors.all
        return errors_of(self.release, measured_in(self.release), self.of, self.draws)

    @cached_property
    def _drawn_errors(self) -> DrawnErrors:
        return DrawnErrors.of(self.release, measured_in(self.release), self.of, self.draws)

    @property
    def _drawn(self) -> bool:
        """Whether directions were drawn from a known law that depends on the moment."""
        return measured_in(self.release).concentrations is not None

    @property
    def _is_quick(self) -> bool:
        return self.draws == DECOMPOSED and self.of == "population"

    @cached_property
    def _in_units(self) -> tuple[Floats, Floats]:
        """The matrix whose components are released, and draws of its error."""
        return self._units_of(self.errors)

    def _units_of(self, errors: Errors) -> tuple[Floats, Floats]:
        release = self.release
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
    def _told(self) -> NDArray[np.bool_]:
        """Columns that have correlations."""
        return self._quick.errors.told if self._drawn and not self._is_quick else self.errors.told

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
        if not self._is_quick:  # one answer for each release
            return self._quick.known
        return self.errors.told if self._correlated else self.errors.known

    @cached_property
    def _spectrum(self) -> Spectrum:
        return self._spectrum_of(self.errors)

    def _spectrum_of(self, errors: Errors) -> Spectrum:
        seen, draws = self._units_of(errors)
        known = np.flatnonzero(self.known)
        chosen = np.ix_(known, known)
        return Spectrum.of(seen[chosen], draws[:DECOMPOSED][:, chosen[0], chosen[1]])

    @cached_property
    def _variances(self) -> Spectrum:
        """The spectrum that shows eigenvalues: if directions were drawn, without the errors of directions."""
        if not self._drawn:
            return self._spectrum
        if self._has_own_values:
            return self._drawn_errors.spectrum(*self._units_of(self._drawn_errors.others))
        # The released matrix, turned by a likely rotation, differs from it as it differs from the true one.
        seen = self._matrices(replace(self.errors, draws=np.zeros_like(self.errors.draws[:1])))[0]
        chosen = np.ix_(np.flatnonzero(self.known), np.flatnonzero(self.known))
        return Spectrum.of(seen[chosen], (self._matrices(self.errors) - seen)[:, chosen[0], chosen[1]])

    @cached_property
    def _without_losses(self) -> Spectrum | None:
        """The same if clipping took nothing from single columns; None if no such losses were assumed.

        Whether there were any is uncertain, and how likely they are rests on models of columns. So the intervals of
        variances hold for both.
        """
        if self._drawn or self.errors.lost is None:
            return None
        return self._spectrum_of(self.errors.without_losses)

    @property
    def _has_own_values(self) -> bool:
        """Whether directions were drawn from the released matrix itself, so that its eigenvalues were measured.

        Those of correlations were not, nor those of columns in other units.
        """
        back = measured_in(self.release).back
        back = back if self.release.scale is None else back / self.release.scale[:, None]
        return self._drawn and bool(np.allclose(back @ back.T, np.eye(len(back)), atol=1e-6))

    def _decomposed(self, errors: Errors) -> tuple[Floats, Floats]:
        """Eigenvalues, draws × known columns, and eigenvectors as rows, of matrices without draws of their errors."""
        found = self._matrices(errors)
        values, vectors = np.linalg.eigh(found[:, self.known][:, :, self.known])
        return values[:, ::-1], np.swapaxes(vectors, 1, 2)[:, ::-1]

    def _matrices(self, errors: Errors) -> Floats:
        """Matrices whose components are released, without draws of their errors."""
        if self._correlated:
            return errors.correlations()[:DECOMPOSED]
        seen, draws = self._units_of(errors)
        return np.asarray(seen - draws[:DECOMPOSED])

    @cached_property
    def _debiased(self) -> Floats:
        return self._variances.debiased()

    @property
    def _count(self) -> int:
        """The number of components about which anything is known."""
        return min(len(self.release.components), int(self.known.sum()))

    @property
    def _from_signs(self) -> bool:
        return self.release.measured is not None and self.release.measured.kind == "signs"

    @property
    def _to_first_order(self) -> bool:
        """Whether the moment was built from signs or drawn directions, whose noise is known to first order."""
        return self.release.measured is not None and self.release.measured.deviations is not None

    @property
    def _released(self) -> NDArray[np.bool_]:
        """Which released numbers stand beside intervals: all if the size of rows is known.

        If columns are unknown, an interval is about the known ones and the released number about all of them. It is
        extended all the same, so that nobody reads a number beside an interval that does not contain it.
        """
        return np.full(len(self.release.components), self._sized)

    @property
    def _total(self) -> float:
        return max(float(np.trace(self.release.covariance)), 1e-300)

    @cached_property
    def resolved(self) -> int:
        return int(np.sum(self.measured_variances > self.noise_floors))

    @cached_property
    def noise_floors(self) -> Floats:
        if not self._is_quick:  # one answer for each release, and a quick one
            return self._quick.noise_floors
        if not self._enough_known:
            return np.full(len(self.release.components), math.inf)
        floors = self._spectrum.floors(CLEAR, self._count)
        return np.append(floors, np.full(len(self.release.components) - self._count, math.inf))

    @cached_property
    def measured_variances(self) -> Floats:
        if not self._is_quick:
            return self._quick.measured_variances
        found = np.full(len(self.release.components), math.nan)
        if self._count:
            found[: self._count] = self._spectrum.values[: self._count]
        return found

    @cached_property
    def _quick(self) -> IntervalBasis:
        return type(self)(self.release, draws=DECOMPOSED)

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
        if not self._is_quick:
            return self._quick.unresolved
        if self.resolved >= len(self.release.components):
            return None
        if not self._enough_known or self.resolved >= self._count:
            return "unknown columns"
        return "equal variances" if self._spectrum.level_is_known(self.resolved, CLEAR) else "noise"


def extended(ends: Interval, released: Floats, shown: NDArray[np.bool_]) -> Interval:
    """Extend intervals so that they contain the numbers beside which they are shown.

    A released number is shrunk, or from a robust method that weights rows differently; the interval is about the
    measured number. If the two differ by more than the error, the interval is extended to the released number.
    """
    low, high = ends
    return np.where(shown, np.minimum(low, released), low), np.where(shown, np.maximum(high, released), high)


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
