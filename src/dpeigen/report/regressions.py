"""Regressions on a card: coefficients with their intervals, in the units that a reader expects."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpeigen._text import number_text
from dpeigen._types import Floats
from dpeigen.notebook import NOISE
from dpeigen.regression import Regression
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Cell, Picture, Table, Text, clean, count, short
from dpeigen.report.columns import interval, names_of, unknown_columns, why_unknown
from dpeigen.report.matrices import UNKNOWN, correlation_blocks
from dpeigen.report.missing import SHOWN_ROWS
from dpeigen.ridge import FAINT
from dpeigen.stats.ridge import RidgeFit

__all__ = [
    "asked_regression",
    "regression_errors",
    "ridge_blocks",
    "ridge_tables",
    "standardised",
    "standing_coefficients",
]


def ridge_tables(release: Release) -> list[Table]:
    """The table of a regression, for a terminal."""
    fit = asked_regression(release)
    errors = regression_errors(release, fit)
    table = _coefficients(release, fit, errors)
    said = standing_coefficients(release) + ([] if errors is not None else [_bound(fit)])
    penalty = f"Penalty α = {float(fit.alpha):.4g}."
    return [replace(table, note=" ".join([*said, penalty, table.note]))]


def asked_regression(release: Release) -> RidgeFit:
    """The regression of a release of kind "ridge"; its target is the last column."""
    asked = release.facts.get("ridge") or {"alpha": "auto"}
    target = release.n_features - 1
    return release.ridge(target, asked["alpha"], features=range(target), scales=asked.get("scales"))


def regression_errors(release: Release, fit: RidgeFit) -> Regression | None:
    """The same regression from the measured moment, with errors of its coefficients; None if there are none."""
    try:
        target = release.n_features - 1
        penalty = float(fit.alpha) or FAINT
        found = release.regression(target, features=range(target), alpha=penalty, scales=fit.scales)
        return found.holding(np.asarray(fit.coef))
    except (ArithmeticError, ValueError):
        return None


def standing_coefficients(release: Release) -> list[str]:
    """How many coefficients can be distinguished from 0."""
    fit = asked_regression(release)
    errors = regression_errors(release, fit)
    if errors is None:
        return ["The errors of the coefficients are not known: this release has no intervals for them."]
    if not _known(errors):
        return [f"No coefficient can be distinguished from noise, and R² is not known. {_why_unknown(release)}"]
    told = int(np.sum(errors.told))
    low, high = errors.r_squared_interval
    which = "No coefficient" if told == 0 else f"{told} of {len(fit.coef)} coefficients"
    return [f"{which} can be distinguished from 0. R² is {errors.r_squared:.3f} ({low:.3f} to {high:.3f})."]


def _known(errors: Regression) -> bool:
    """Whether anything is known about the coefficients."""
    return bool(np.isfinite(errors.standard_errors).any())


def _why_unknown(release: Release) -> str:
    target = f"release.regression({release.feature_names[-1]!r}, features=[…])"
    if unknown_columns(release):
        return (
            f"The reason: {why_unknown(release)}, and every coefficient depends on all columns. A regression "
            f"without them spends no budget: {target}."
        )
    return (
        "The reason: with this much noise the effects of the columns cannot be separated. Try a regression on fewer "
        f"of them, which spends no budget: {target}."
    )


def ridge_blocks(release: Release) -> list[Block]:
    """Coefficients, and the correlations from which they follow."""
    fit = asked_regression(release)
    errors = regression_errors(release, fit)
    target, count_of = _target(release), count(len(fit.coef), "other column")
    alpha = float(fit.alpha)
    penalty = f"with a penalty of α = {alpha:.4g} (scikit-learn's convention{_penalised(release, fit)})"
    picture = [] if errors is not None and not _known(errors) else [_coefficients_picture(release, fit, errors)]
    return [
        Text(
            f"A linear prediction of “{target}” from {count_of}, {penalty if alpha > 0 else 'without a penalty'}. It "
            "is computed from a released covariance, so regressions of other columns cost nothing more."
        ),
        _coefficients(release, fit, errors),
        *([] if errors is not None else [Text(_bound(fit))]),
        *correlation_blocks(release, picture),
    ]


def _target(release: Release) -> str:
    return names_of(release)[-1]


def _penalised(release: Release, fit: RidgeFit) -> str:
    """The units of the columns in which the penalty is stated."""
    if np.ptp(fit.scales) == 0:
        return ""
    if release.scale is not None and np.array_equal(fit.scales, release.scale[:-1]):
        return ", for the scaled columns"
    return ", for columns scaled to equal privacy noise; release.json lists the scales under “ridge”"


def standardised(release: Release, fit: RidgeFit) -> Floats:
    """Factors that turn coefficients into deviations of the target for one deviation of a column."""
    deviations = np.sqrt(np.maximum(np.diag(release.raw_covariance), 0.0))
    return deviations[:-1] / deviations[-1] if deviations[-1] > 0 else np.zeros(len(fit.coef))


def _coefficients_picture(release: Release, fit: RidgeFit, errors: Regression | None) -> Picture:
    names, sizes = names_of(release), fit.coef * standardised(release, fit)
    shown = np.ones(len(sizes), dtype=bool) if errors is None else np.asarray(errors.told)
    order = [j for j in np.argsort(-np.abs(sizes), kind="stable") if shown[j]]
    told = ", ".join(f"{short(names[j])} ({sizes[j]:+.2g})" for j in order[:3])
    which = f"The largest: {told}." if told else "None can be distinguished from 0."
    return Picture(
        "coefficients",
        "Standardised coefficients",
        f"Coefficients for {short(_target(release))}, in standard deviations of the target for one standard deviation "
        f"of a column. {which} The coefficients in the columns' units are in the table above.",
        "Standard deviations of the target for one standard deviation of the column."
        + (
            ""
            if errors is None
            else " Whiskers are 95% intervals. A coefficient whose interval contains 0 has no point."
            + ("" if np.isfinite(errors.standard_errors).all() else " Coefficients that are not known are left out.")
        ),
    )


def _coefficients(release: Release, fit: RidgeFit, errors: Regression | None) -> Table:
    names, widths = names_of(release), _widths(release)
    largest = np.argsort(-np.abs(fit.coef * standardised(release, fit)), kind="stable")
    rows: list[list[Cell]] = []
    for j in np.sort(largest[:SHOWN_ROWS]):
        ends = None if errors is None else (errors.intervals[0][j], errors.intervals[1][j])
        known = errors is None or bool(np.isfinite(errors.standard_errors[j]))
        units = [1.0] if widths is None else [1.0, widths[1][-1] / widths[1][j]]
        why_not = NOISE if errors is None or not _known(errors) else UNKNOWN
        rows.append([names[j], *(_with_ends(fit.coef[j] * unit, ends, unit) if known else why_not for unit in units)])
    rows.append(["intercept", *_intercepts(release, fit, errors)])
    left = len(largest) - (len(rows) - 1)
    notes = [f"{count(left, 'smaller coefficient')} {'is' if left == 1 else 'are'} in the file."] if left else []
    if widths is None:
        notes.append("Coefficients are in the columns' own units: the change of the target for one unit of a column.")
    if _of_categories(release, fit):
        notes.append(
            "The levels of a category exclude each other: between two levels the target changes by the difference of "
            "their coefficients."
        )
    if any(said.transform for said in (release.columns or {}).values()):
        notes.append("Transformed columns are used after the transform: one unit of a logarithm is a factor of 2.72.")
    if errors is not None and _known(errors):
        notes += _unknown(release, errors)
        notes.append(
            "Intervals are for the coefficients of the population at the same penalty, and assume residuals of equal "
            "spread (homoscedastic), as those of ordinary least squares do. The released coefficients are shrunk to "
            "correct for noise, so they need not be in the middle of their intervals."
        )
    level = "" if errors is None else " (95% interval)"
    units_of = [""] if widths is None else [", columns on [0, 1]", ", columns' own units"]
    headings = ["column", *(f"coefficient{of}{level}" for of in units_of)]
    return Table(f"Coefficients for {_target(release)}", headings, rows, note=" ".join(notes))


def _unknown(release: Release, errors: Regression) -> list[str]:
    """Which coefficients are not known, and why."""
    labels = dict(zip(release.feature_names, names_of(release), strict=True))
    named = [(short(labels[name]), clean(why)) for name, why in errors.unknown.items()]
    if not named:
        return []
    alike: dict[str, list[str]] = {}
    for name, why in named[:SHOWN_ROWS]:
        alike.setdefault(why, []).append(name)
    told = ", ".join(f"{', '.join(names)} ({why})" for why, names in alike.items())
    more = f", and {len(named) - SHOWN_ROWS} more" if len(named) > SHOWN_ROWS else ""
    intercept = " The intercept depends on all coefficients." if errors.intercept is not None else ""
    fewer = f"release.regression({release.feature_names[-1]!r}, features=[…])"
    return [
        f"Not known: {told}{more}.{intercept} More may be known in a regression on fewer columns, which spends no "
        f"budget: {clean(fewer)}."
    ]


def _of_categories(release: Release, fit: RidgeFit) -> bool:
    """Whether several levels of one category are among the features."""
    used, columns = {*fit.feature_names}, release.columns or {}
    return any(said.categories and len(used & {*said.features(name)}) > 1 for name, said in columns.items())


def _with_ends(value: float, ends: tuple[float, float] | None, unit: float = 1.0, place: float = 0.0) -> Cell:
    """A number, and its interval times ``unit`` plus ``place``."""
    if ends is None:
        return f"{value:+.4g}"
    if not np.isfinite(ends).all():
        return UNKNOWN
    low, high = (place + unit * end for end in ends)
    return number_text(value, (low, high), "+"), interval(low, high, "+")


def _intercepts(release: Release, fit: RidgeFit, errors: Regression | None) -> list[Cell]:
    """The intercept in the units of the release and, if columns were rescaled, in their own units."""
    own, widths = _in_own_units(release, fit), _widths(release)
    if fit.intercept is None or (errors is not None and not _known(errors)):
        return [UNKNOWN if fit.intercept is None else NOISE] * (1 if own is None else 2)
    ends = None
    if errors is not None and errors.intercept is not None and errors.intercept_standard_error is not None:
        reach, shown = 1.96 * errors.intercept_standard_error, float(fit.intercept)
        ends = (min(errors.intercept - reach, shown), max(errors.intercept + reach, shown))  # as for coefficients
    found = [_with_ends(float(fit.intercept), ends)]
    if own is not None and own[1] is not None and widths is not None:
        lower, width = widths
        at_zero = not lower[:-1].any()  # otherwise it also depends on the errors of the coefficients
        found.append(_with_ends(own[1], ends if at_zero else None, width[-1], lower[-1]))
    return found


def _bound(fit: RidgeFit) -> str:
    bound = fit.error_bound
    if bound is None:
        return "The method states no error of its covariance, so there is no error bound."
    if not np.isfinite(bound):
        return "The error bound says nothing here: the penalty is too small for the noise."
    return (
        "With probability 95% over the noise the coefficients are, all together, at most "
        f"{float(bound):.3g} away from those without noise."
    )


def _widths(release: Release) -> tuple[Floats, Floats] | None:
    """Lower ends and widths of the bounds that rescaled the columns, the target last; None without rescaling."""
    units = release.facts.get("rescaled")
    if not units:
        return None
    lower, upper = np.array(units["lower"], dtype=float), np.array(units["upper"], dtype=float)
    return lower, upper - lower


def _in_own_units(release: Release, fit: RidgeFit) -> tuple[Floats, float | None] | None:
    """Coefficients and intercept in the columns' own units; None if columns were not rescaled to [0, 1]."""
    widths = _widths(release)
    if widths is None:
        return None
    lower, width = widths
    coef = fit.coef * width[-1] / width[:-1]
    if fit.intercept is None:
        return coef, None
    return coef, float(lower[-1] + width[-1] * float(fit.intercept) - coef @ lower[:-1])
