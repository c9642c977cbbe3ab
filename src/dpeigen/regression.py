"""Linear regression from a release, with standard errors and intervals, in the usual statistical format.

Post-processing: costs nothing, for any number of targets and features. The coefficients are computed from the measured
matrix, not from the shrunk one, so that the distribution of their errors is known (`stats.errors_in_variables`).

The indicators of all levels of a declared category add up to 1. Without a penalty one level, the most frequent by the
release, is the reference: its coefficient is 0, and those of the others are differences from it.

Features that cannot be separated, or whose variance cannot be distinguished from noise, have unknown coefficients, and
`Regression.unknown` says why. The other coefficients keep their intervals.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from dpeigen._text import clean
from dpeigen._types import Floats
from dpeigen._validate import complain
from dpeigen.clipped import clipped_warning
from dpeigen.errors import errors_of
from dpeigen.intervals import check_level, measured_in
from dpeigen.ridge import constants_among, penalty_scales, regression_columns, rows_known
from dpeigen.stats.errors_in_variables import NoisyRegression, regress
from dpeigen.stats.intervals import Interval
from dpeigen.stats.ridge import check_alphas

if TYPE_CHECKING:
    from dpeigen.release import Release

__all__ = ["REFERENCE", "UNKNOWN", "Regression", "regression"]

_EQUAL_SPREAD = (
    "Standard errors assume residuals of equal spread (homoscedastic), as those of ordinary least squares do."
)
REFERENCE, UNKNOWN = "reference level", "not known"
_FAINT = "its variance is not distinguishable from noise"
_TARGET = "the variance of the target is not distinguishable from noise"
_WIDTH = 78
_SHOWN = 3  # names in a sentence
_TAILS = 0.15  # of the kurtosis of the rows that enters the errors of coefficients, between none and all


@dataclass(frozen=True, eq=False)
class Regression:
    """A regression computed from a release, as safe to publish as the release itself.

    Attributes
    ----------
    target, feature_names : names of the columns.
    coef, standard_errors : (p,) in the data's own units. Infinite errors: the coefficient is not known.
    intervals : (low, high), each (p,), for the coefficients of the population (or of the table) at the same α.
    intercept, intercept_standard_error : None if the release has no measured centre.
    r_squared, residual_variance : with ``r_squared_interval`` and ``residual_variance_interval``.
    partial_correlations, partial_correlation_intervals : of the target with each feature, given the other features.
    n_rows, alpha, level, of : the settings of the computation.
    references : names of features that are reference levels of categories, with coefficients of 0: those of the other
        levels are differences from them. Empty with a penalty, which keeps all levels. A level that is determined by
        all others has no partial correlation (NaN).
    unknown : the features with unknown coefficients, and why, in words. They have no partial correlation (NaN).
    warning : what to know if many rows of the release may have been clipped; None if there is nothing.
    """

    target: str
    feature_names: tuple[str, ...]
    coef: Floats
    standard_errors: Floats
    intervals: Interval
    intercept: float | None
    intercept_standard_error: float | None
    r_squared: float
    r_squared_interval: tuple[float, float]
    residual_variance: float
    residual_variance_interval: tuple[float, float]
    partial_correlations: Floats
    partial_correlation_intervals: Interval
    n_rows: float
    alpha: float
    level: float
    of: str
    references: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    warning: str | None = None

    def holding(self, coef: Floats) -> Regression:
        """Extend the intervals to contain these coefficients too, if a shrunk fit is shown beside them.

        Parameters
        ----------
        coef : (p,) array
            In the data's own units.

        Returns
        -------
        Regression
            Unknown intervals stay so.
        """
        low, high = self.intervals
        return replace(self, intervals=(np.minimum(low, coef), np.maximum(high, coef)))

    @property
    def z(self) -> Floats:
        """Coefficients divided by their standard errors."""
        return np.divide(self.coef, self.standard_errors, out=np.zeros_like(self.coef), where=self.standard_errors > 0)

    @property
    def p_values(self) -> Floats:
        """Two-sided p values for a coefficient of 0."""
        return np.asarray(2 * ndtr(-np.abs(self.z)))

    @property
    def told(self) -> Any:
        """Which coefficients can be distinguished from 0: those whose interval does not contain it."""
        return (self.intervals[0] > 0) | (self.intervals[1] < 0)

    def summary(self) -> str:
        """Write a table in the manner of statsmodels.

        Returns
        -------
        str
            Coefficients, standard errors, z values, p values and intervals.
        """
        line, double = "-" * _WIDTH, "=" * _WIDTH
        low, high = self.r_squared_interval
        about = [
            (f"Target: {clean(self.target)}", f"Rows: {self.n_rows:,.0f}"),
            (f"R²: {self.r_squared:.3f} [{low:.3f}, {high:.3f}]", f"Penalty α: {self.alpha:g}"),
            (f"Residual deviation: {math.sqrt(max(self.residual_variance, 0.0)):.4g}", f"Intervals: of the {self.of}"),
        ]
        tail = (1 - self.level) / 2
        head = f"{'':<20}{'coef':>11}{'std err':>10}{'z':>8}{'P>|z|':>7}{f'[{tail:.3f}':>11}{f'{1 - tail:.3f}]':>11}"
        lines = ["Linear regression from a private release".center(_WIDTH), double]
        lines += [f"{left:<{_WIDTH // 2}}{right:>{_WIDTH // 2}}" for left, right in about] + [double, head, line]
        if self.intercept is not None and self.intercept_standard_error is not None:
            reach = -float(ndtri(tail)) * self.intercept_standard_error
            ends = self.intercept - reach, self.intercept + reach
            lines.append(_line("intercept", self.intercept, self.intercept_standard_error, *ends))
        for name, *numbers in zip(self.feature_names, self.coef, self.standard_errors, *self.intervals, strict=True):
            said = REFERENCE if name in self.references else UNKNOWN if name in self.unknown else None
            lines.append(_line(name, *numbers) if said is None else f"{clean(name)[:19]:<20}{said:>58}")
        notes = [line for note in self.notes() for line in textwrap.wrap(note, _WIDTH)]
        return "\n".join([*lines, double, *notes])

    def notes(self) -> list[str]:
        """List what the errors account for, what is not known and why, and a warning if many rows were clipped.

        Returns
        -------
        list of str
            Sentences, with names as they may be shown.
        """
        sampled = self.of == "population"
        accounted = f"privacy noise, clipping as far as it is known{', and sampling' if sampled else ''}"
        notes = [f"Errors account for {accounted}.{f' {_EQUAL_SPREAD}' if sampled else ''}"]
        alike: dict[str, list[str]] = {}
        for name, why in self.unknown.items():
            alike.setdefault(clean(why), []).append(clean(name))
        notes += [f"{', '.join(names)}: {UNKNOWN}, {why}." for why, names in alike.items()]
        if self.unknown and self.intercept is not None:
            notes.append(f"intercept: {UNKNOWN}, it depends on all coefficients.")
        if self.unknown:
            notes.append("More may be known with fewer features=[…], which spends no budget.")
        if self.references:
            notes.append("Other levels of a category: differences from its reference level.")
        return notes if self.warning is None else [*notes, f"Warning: {self.warning}"]

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from dpeigen import notebook

        return notebook.regression_html(self)

    def __repr__(self) -> str:
        return f"Regression({self.target!r} on {len(self.coef)} columns, R² = {self.r_squared:.3f})"


def _line(name: str, value: float, error: float, low: float, high: float) -> str:
    z = value / error if error > 0 else 0.0
    if math.isinf(error):
        return f"{clean(name)[:19]:<20}{UNKNOWN:>58}"
    return (
        f"{clean(name)[:19]:<20}{value:>11.4g}{error:>10.3g}{z:>8.2f}{2 * ndtr(-abs(z)):>7.3f}{low:>11.4g}{high:>11.4g}"
    )


def regression(
    release: Release, target: Any, features: Any, alpha: float, level: float, of: str, scales: ArrayLike | None = None
) -> Regression:
    """Compute a regression from a release; see `Release.regression`.

    Parameters
    ----------
    release : Release
        A release that holds the measured moment.
    target : int or str
        Index or name of a column.
    features : list of int or str, or None
        None: all except the target and, if it is a level of a category, the other levels.
    alpha : float
        The penalty.
    level : float
        The probability that an interval contains the true number.
    of : str
        "population" or "table".
    scales : (p,) array, default=None
        As for `Release.ridge`.

    Returns
    -------
    Regression
        Coefficients with standard errors and intervals.
    """
    owner = "Release.regression"
    measured = measured_in(release)
    level, of = check_level(level, of, owner)
    penalties = check_alphas(alpha, owner, many=False)
    if penalties is None:
        raise ValueError(
            complain("alpha", owner, "a number ≥ 0", alpha, "release.ridge chooses one with alpha='auto'.")
        )
    column, columns = regression_columns(release, target, features, owner)
    errors, n = errors_of(release, measured, of, tails=_TAILS, standard=True), rows_known(release, owner)
    chosen = [*columns, column]
    scale = penalty_scales(release, scales, columns, owner)
    constants = constants_among(release, columns)
    seen, draws = errors.seen[np.ix_(chosen, chosen)], errors.draws[:, chosen][:, :, chosen]
    fit = regress(seen, draws, float(penalties) / n * scale**2, constants)
    references = [] if float(penalties) > 0 else [reference for reference, _ in constants]
    names = release.feature_names
    known = bool(errors.known[column]) and fit.left
    unknown = _unknown(fit, [names[j] for j in columns], references)
    reasons = release.unknown_columns
    for at, j in enumerate(columns):  # a penalty would give them a coefficient of 0, as if that were known
        if not errors.known[j] and at not in references:
            unknown[names[j]] = reasons.get(names[j], _FAINT)
    if not known:
        others = [names[j] for at, j in enumerate(columns) if at not in references]
        unknown = dict.fromkeys(others, _TARGET if fit.left else _FAINT)
    reach = -float(ndtri((1 - level) / 2))
    deviations = _spread(fit.errors)
    deviations[[names[j] in unknown for j in columns]] = math.inf
    deviations[references], fit.coef[references] = 0.0, 0.0
    residual, r_squared = (_spread(part) if known else math.inf for part in (fit.residual_errors, fit.r_squared_errors))
    partial = _spread(fit.partial_errors) if known else np.full(len(columns), math.inf)
    intercept, intercept_error = _intercept(release, fit, column, columns, errors.mean, not unknown)
    return Regression(
        target=names[column],
        feature_names=tuple(names[j] for j in columns),
        coef=fit.coef,
        standard_errors=deviations,
        intervals=(fit.coef - reach * deviations, fit.coef + reach * deviations),
        intercept=intercept,
        intercept_standard_error=intercept_error,
        r_squared=min(max(fit.r_squared, 0.0), 1.0),
        r_squared_interval=_ends(fit.r_squared, reach * float(r_squared), 0.0, 1.0),
        residual_variance=max(fit.residual_variance, 0.0),
        residual_variance_interval=_ends(fit.residual_variance, reach * float(residual), 0.0, math.inf),
        partial_correlations=fit.partial,
        partial_correlation_intervals=(
            np.maximum(fit.partial - reach * partial, -1.0), np.minimum(fit.partial + reach * partial, 1.0),
        ),
        n_rows=n,
        alpha=float(penalties),
        level=level,
        of=of,
        references=tuple(names[columns[j]] for j in references),
        unknown=unknown,
        warning=clipped_warning(release, coefficients=True),
    )  # fmt: skip


def _unknown(fit: NoisyRegression, names: list[str], references: list[int]) -> dict[str, str]:
    """Features whose coefficients are unknown, and why."""
    found: dict[str, str] = {}
    for together in fit.confused:
        for j in together:
            others = [names[i] for i in together if i != j]
            why = f"it cannot be separated from a combination with {', '.join(others)}" if others else _FAINT
            if len(others) > _SHOWN:
                why = f"among {len(together)} columns whose separate effects noise hides"
            if j not in references:
                found.setdefault(names[j], why)
    return found


def _spread(errors: Floats) -> Any:
    """Deviation about 0: what clipping may have taken has one sign, but is too uncertain to be added."""
    return np.sqrt(np.mean(errors**2, axis=0))


def _ends(value: float, reach: float, least: float, most: float) -> tuple[float, float]:
    return max(value - reach, least), min(max(value + reach, least), most)


def _intercept(
    release: Release, fit: NoisyRegression, column: int, columns: list[int], mean: Floats | None, known: bool
) -> tuple[float | None, float | None]:
    """The intercept of a fit through the released centre, and its standard error."""
    center = release.mean
    if center is None:
        return None, None
    value = float(center[column] - fit.coef @ center[columns])
    if not known:
        return value, math.inf
    moved = -fit.errors @ center[columns]
    if mean is not None:
        moved = moved + mean[:, column] - mean[:, columns] @ fit.coef
    return value, float(_spread(moved))
