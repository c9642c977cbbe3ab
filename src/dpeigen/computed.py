"""What is computed from a release: intervals, noise floors, regressions, bounds and synthetic rows.

All of it is post-processing: a function of the release, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._types import Floats
from dpeigen._validate import check_count, complain
from dpeigen.privacy import randomness
from dpeigen.stats.elliptical import breakdown_bound, subspace_error_bound
from dpeigen.stats.ridge import RidgeFit
from dpeigen.stats.spectrum import precise_eigh

if TYPE_CHECKING:
    from dpeigen.intervals import Intervals
    from dpeigen.noise_floor import NoiseFloor
    from dpeigen.regression import Regression
    from dpeigen.release import Release

__all__ = ["Computed"]

_MOST_COLUMNS = 100  # number of columns up to which intervals of loadings take seconds


class Computed:
    """What a release can provide without reading the table again."""

    # Attributes of the release.
    components: Floats
    covariance: Floats
    mean: Floats | None
    scale: Floats | None
    facts: Mapping[str, Any]
    n_features: Any

    @property
    def _release(self) -> Release:
        return cast("Release", self)

    def intervals(self, level: float = 0.95, *, of: str = "population") -> Intervals:
        """Compute intervals for components, eigenvalues, covariance, correlation and mean. They cost nothing.

        Parameters
        ----------
        level : float, default=0.95
            The probability that an interval contains the true number.
        of : {"population", "table"}, default="population"
            "population": the true numbers of the population from which the rows were drawn. "table": those of these
            rows, so without sampling error.

        Returns
        -------
        Intervals
            Lower and upper limits for every number.

        Raises
        ------
        ValueError
            The release does not hold the measured moment: an older file, or a method that releases no moment.
        """
        from dpeigen import intervals

        return intervals.intervals(self._release, level, of)

    def regression(
        self,
        target: int | str,
        features: Iterable[int | str] | None = None,
        alpha: float = 0.0,
        *,
        level: float = 0.95,
        of: str = "population",
        scales: ArrayLike | None = None,
    ) -> Regression:
        """Compute a linear regression of one column on others, with standard errors. Costs nothing.

        ``print(release.regression("y"))`` is a table. Unlike `ridge`, it starts from the measured matrix and not from
        the shrunk one, since only there the distribution of the errors is known.

        Parameters
        ----------
        target : int or str
            Index or name of a column.
        features : list of int or str, default=None
            Indices or names of columns; None: all except the target and, if it is a level of a category, the other
            levels.
        alpha : float ≥ 0, default=0.0
            The penalty, as for `ridge`.
        level : float, default=0.95
            The probability that an interval contains the true number.
        of : {"population", "table"}, default="population"
            As for `intervals`.
        scales : (p,) array of numbers > 0, default=None
            As for `ridge`.

        Returns
        -------
        Regression
            Coefficients, standard errors, intervals, R² and residual variance.
        """
        from dpeigen import regression

        return regression.regression(self._release, target, features, alpha, level, of, scales)

    @cached_property
    def _found(self) -> Intervals | None:
        try:
            found = self.intervals()
            _ = found.resolved
        except (ArithmeticError, ValueError):  # nothing was measured, or the file does not come from a measurement
            return None
        return found

    @cached_property
    def usual_intervals(self) -> Intervals | None:
        """The 95% intervals of the population, for plots and cards; None if there are none, or they take minutes."""
        try:
            found = self._found if self.n_features <= _MOST_COLUMNS else None
            _ = found and found.components
        except (ArithmeticError, ValueError):
            return None
        return found

    @cached_property
    def noise_floor(self) -> NoiseFloor | None:
        """The largest variance that privacy noise alone would show; None if nothing is known about the noise."""
        from dpeigen.noise_floor import noise_floor

        return noise_floor(self._release)

    @property
    def noise_floors(self) -> Floats | None:
        """What the measured variance of each component must exceed to be distinguished from noise, (k,), or None.

        If all remaining variances were equal, after the components that exceed their floors, privacy noise and sampling
        error would stay below it in 98% of releases. A component is resolved exactly if its ``measured_variances`` is
        above its floor. −∞ for the last of all d components if all others are resolved, because its direction follows
        from theirs; ∞ for those that unknown columns hide.
        """
        return None if self._found is None else self._found.noise_floors

    @property
    def measured_variances(self) -> Floats | None:
        """Variances along the principal axes as measured, before they were shrunk to ``eigenvalues``, (k,), or None.

        They are corrected for clipping as far as it is known. Noise spreads them: large ones are too large, small ones
        too small or negative. NaN if unknown columns leave fewer axes.
        """
        return None if self._found is None else self._found.measured_variances

    @cached_property
    def resolved(self) -> int | None:
        """How many components, counted from the first, can be distinguished from noise; None if that is not known.

        On rows of independent columns with equal variances it is 0 in at least 95% of releases. If columns are unknown,
        it is the number of components of the others; 0 if fewer than half of the columns are known.
        """
        return None if self._found is None else self._found.resolved

    @property
    def unresolved(self) -> str | None:
        """Why there are no more: "noise", "equal variances" or "unknown columns"; None if that is not known."""
        return None if self._found is None else self._found.unresolved

    @property
    def too_few_known(self) -> bool:
        """Whether so few columns could be measured that nothing is known about any component."""
        return self.resolved == 0 and self.unresolved == "unknown columns"

    def is_resolved(self, component: int) -> bool:
        """Say whether a component can be distinguished from noise.

        Parameters
        ----------
        component : int
            Counted from 0.

        Returns
        -------
        bool
            True also if nothing is known about it.
        """
        return self.resolved is None or component < self.resolved

    def sample(self, n: int, *, random_state: Any = None) -> Floats:
        """Draw synthetic Gaussian rows with the released mean (0 if none) and covariance. Costs nothing.

        If only directions were paid for (details["variances"] is "relative"), the rows have a total variance of 1.

        Parameters
        ----------
        n : int ≥ 0
            The number of rows.
        random_state : int, Generator or None, default=None
            A seed; synthetic rows are as public as the release, with a seed or without.

        Returns
        -------
        (n, d) array
            Rows in the data's own units.
        """
        n = check_count("n", n, "Release.sample", low=0)
        values, vectors = precise_eigh(self.covariance)
        noise = randomness(random_state).normal((n, self.n_features))
        rows: Floats = (noise * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        rows = rows if self.scale is None else rows * self.scale
        return rows if self.mean is None else rows + self.mean

    def breakdown_bound(self) -> float:
        """Bound the share of rows that must be changed to rotate the components by a right angle (Kendall's tau only).

        Theorem 3.3 of Kim and Jung 2025 with its constant halved, from the released eigenvalues minus their noise; it
        holds with probability 97.5% over the noise. Costs nothing.

        Returns
        -------
        float
            A share between 0 and 1.
        """
        tau = self._tau()
        values, bound, noise = tau["tau_eigenvalues"], tau["tau_bound"], tau["tau_noise_norm"]
        # A row is in a 2/n share of the pairs, or a little more if blocks are uneven.
        return breakdown_bound(values, len(self.components), bound, noise) / max(1.0, tau["tau_share"])

    def subspace_error(self, contamination: float = 0.0) -> float:
        """Bound sinΘ between the released and the true components with probability 95% (Kendall's tau only).

        Theorem 3.2 of Kim and Jung 2025 with explicit constants, for rows from an elliptical distribution. It is 1 if
        the bound says nothing, which is usual for few rows: bounds with explicit constants are wide. Costs nothing.

        Parameters
        ----------
        contamination : float, default=0.0
            The share of rows that may have any value (Theorem 3.4), as you assume; the others are elliptical.

        Returns
        -------
        float
            A bound on sinΘ, at most 1.
        """
        if not 0 <= contamination < 1:
            raise ValueError(complain("contamination", "Release.subspace_error", "in [0, 1)", contamination))
        tau, n = self._tau(), float(self.facts["n_rows"])
        values, bound, noise = tau["tau_eigenvalues"], tau["tau_bound"], tau["tau_noise_norm"]
        share = contamination * max(1.0, tau["tau_share"])
        return subspace_error_bound(values, len(self.components), bound, n, noise, 0.025, min(share, 1 - 1e-9))

    def _tau(self) -> dict[str, Any]:
        details = self.facts.get("details") or {}
        if "tau_eigenvalues" not in details:
            raise ValueError("Only a release of method='kendall' holds the eigenvalues this needs.")
        return dict(details)

    def ridge(
        self,
        target: int | str,
        alpha: float | ArrayLike = 1.0,
        *,
        features: Iterable[int | str] | None = None,
        fit_intercept: bool | None = None,
        scales: ArrayLike | None = None,
    ) -> RidgeFit:
        """Ridge regression of one column on others. Costs nothing: any number of targets, features and α.

        Parameters
        ----------
        target : int or str
            Index or name of a column.
        alpha : float ≥ 0, array of them, or "auto", default=1.0
            scikit-learn's penalty: ‖y − Xw‖² + α‖w‖² over the n rows. (The α of Amin et al. 2019 times 2n is this one.)
            "auto" takes the noise of the release into account (`dpeigen.stats.penalty`): it lies between the minimum of
            an estimate of the prediction error and a penalty proportional to the noise. With noise, α should be much
            larger than without it.
            For a release with a ``scale`` the features are divided by it before the penalty, as after a StandardScaler,
            so that α does not depend on their units. Coefficients are in the data's own units.
        features : list of int or str, default=None
            Indices or names of columns; None: all except the target and, if it is a level of a category, the other
            levels.
        fit_intercept : bool, default=None
            None: with an intercept if the release has a centre. False: through 0. True: refused if there is none.
        scales : (p,) numbers > 0, default=None
            The penalty is α·Σ(s·w)² with these s. None: all 1 for a number as α; for "auto" the units in which the
            release's noise is the same on all features, if it states them, divided by their geometric mean.

        Returns
        -------
        RidgeFit
            Coefficients, intercept and a bound on their error; for m values of α arrays over them.

        Notes
        -----
        The intercept comes from the released centre. A release about a public centre gives a fit through that point;
        one with center=None is about 0 and gives a fit through 0; one with center="pairs" has no centre, so its slopes
        are known and its intercept (None) is not.
        """
        from dpeigen import ridge

        return ridge.ridge(self._release, target, alpha, features, fit_intercept, scales)

    @property
    def noise_units(self) -> Floats:
        """Units of the columns in which noise is about the same on all: as stated, or the scales, or the data's own."""
        stated = self.facts.get("units")
        if stated is not None:
            return np.asarray(stated, dtype=np.float64)
        if self.scale is None and self.facts.get("method") != "whitened":
            return np.ones(self.n_features)
        if self.scale is not None:
            return self.scale
        deviations = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))  # `whitened`: every column in its own unit
        return np.where(deviations > 0, deviations, 1.0)
