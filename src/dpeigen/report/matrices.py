"""Covariances and regressions on a card: centres, deviations, correlations and coefficients with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.errors import is_correlated
from dpeigen.notebook import NOISE
from dpeigen.privacy.guarantee import MIXED
from dpeigen.regression import Regression
from dpeigen.release import Release
from dpeigen.report import results
from dpeigen.report.blocks import Block, Cell, Gallery, More, Picture, Table, Text, clean, count, short
from dpeigen.report.missing import SHOWN_ROWS
from dpeigen.ridge import FAINT
from dpeigen.stats.intervals import Interval
from dpeigen.stats.ridge import RidgeFit

_MATRIX = 12  # columns up to which a whole matrix is a readable table
_STRONGEST = 10
_INTERVALS = 200  # columns up to which intervals of all correlations are computed


def covariance_blocks(release: Release) -> list[Block]:
    """Centres, deviations, correlations and the spectrum."""
    return [
        Text(
            "The covariance matrix says how much each column varies and which columns vary together. Correlations say "
            "the same on a scale from −1 to 1."
        ),
        _centers(release),
        *_correlations(release, [results.scree(release)]),
    ]


def _centers(release: Release) -> Table:
    shown, names = results.widest_columns(release, SHOWN_ROWS), results.names_of(release)
    spread, mean = _deviations(release), _means(release)
    rows: list[list[Cell]] = []
    for j in shown:
        deviation: Cell = clean(release.deviation_text(j))
        center: Cell = clean(release.center_text(j))
        if mean is not None and release.mean is not None:
            center = (str(center), _ends(partial(release.value_text, j), mean[0][j], mean[1][j]))
        if spread is not None:
            ends = _ends(partial(release.spread_text, j), spread[0][j], spread[1][j])
            deviation = (str(deviation), ends) if spread[0][j] > 0 else f"{NOISE} ({ends})"
        rows.append([names[j], center, deviation])
    left = release.n_features - len(shown)
    notes = [f"The {len(shown)} columns with the largest variances; the other {left} are in the file."] if left else []
    if release.facts.get("center") == "public":
        notes.append("The centre was given: it is public and not estimated.")
    if spread is not None:
        notes.append("Beside or below each number: its 95% interval. All are in the columns' own units.")
    elif mean is not None and release.mean is not None:
        notes.append("Beside or below each centre: its 95% interval. All are in the columns' own units.")
    return Table(
        "Centre and spread of the columns", ["column", "centre", "standard deviation"], rows, note=" ".join(notes)
    )


def _ends(words: Callable[[float], str], low: float, high: float) -> str:
    """An interval in the unit of its column; ends that are not finite have none."""
    if math.isfinite(low) and math.isfinite(high):
        return f"{clean(words(low))} to {clean(words(high))}"
    return results.interval(low, high)


def _deviations(release: Release) -> Interval | None:
    """Intervals of the standard deviations of columns, in their own units; none where they were divided by them."""
    found = release.usual_intervals
    if found is None or release.estimand == MIXED or _divided(release).any():
        return None
    unit = np.ones(release.n_features) if release.scale is None else release.scale
    low, high = (np.sqrt(np.maximum(np.diag(side), 0.0)) * unit for side in found.covariance)
    return low, high


def _divided(release: Release) -> NDArray[np.bool_]:
    """Columns that were divided by their released deviations: 1 on the diagonal by definition, which is no estimate."""
    if release.scale is not None and (release.estimand == "correlation" or is_correlated(release)):
        return np.ones(release.n_features, dtype=bool)
    return ~release.indicators if release.estimand == MIXED else np.zeros(release.n_features, dtype=bool)


def _means(release: Release) -> Interval | None:
    found = release.usual_intervals
    return None if found is None else found.mean


def correlation_intervals(release: Release) -> Interval | None:
    """Of every correlation; None where there are none, or too many columns."""
    found = release.usual_intervals
    return None if found is None or release.n_features > _INTERVALS else found.correlation


def strongest(release: Release) -> list[tuple[int, int]]:
    """The pairs of columns with the largest correlations among those that can be distinguished from noise."""
    matrix, d, found = results.correlations(release), release.n_features, correlation_intervals(release)
    if d > 2000:
        return []
    rows, columns = np.tril_indices(d, -1)
    sizes = np.abs(matrix[rows, columns])
    if found is not None:
        sizes = np.where(clear(found)[rows, columns], sizes, -1.0)
    order = np.argsort(-sizes, kind="stable")[:_STRONGEST]
    return [(int(rows[at]), int(columns[at])) for at in order if sizes[at] >= 0]


def clear(found: Interval) -> NDArray[np.bool_]:
    """Which intervals do not hold 0."""
    return np.asarray((found[0] > 0) | (found[1] < 0))


def _correlations(release: Release, more: list[Picture]) -> list[Block]:
    matrix, names, d = results.correlations(release), results.names_of(release), release.n_features
    found, pairs = correlation_intervals(release), strongest(release)
    told = ", ".join(f"{short(names[j])} with {short(names[i])} ({matrix[i, j]:+.2f})" for i, j in pairs[:3])
    shown = min(d, results.MOST_CELLS)
    some = "" if shown == d else f" The {shown} columns with the largest variances."
    marked = "" if found is None else " An empty cell: not distinguishable from noise, its interval holds 0."

    def cell(i: int, j: int) -> Cell:
        value = f"{matrix[i, j]:+.3f}"
        return value if found is None else (value, results.interval(found[0][i, j], found[1][i, j], "+.2f"))

    pictures = [
        Picture(
            "correlations",
            "Correlations",
            f"Heat map of the correlations between {count(shown, 'column')}. The strongest: {told or 'none'}. "
            "Numbers are in the tables.",
            f"Blue is positive, orange is negative; strong colour, strong correlation.{marked}{some}",
        ),
        *more,
    ]
    blocks: list[Block] = []
    if pairs:
        title = "The strongest correlations" + ("" if found is None else " (95% interval)")
        rows: list[list[Cell]] = [[f"{names[j]}, {names[i]}", cell(i, j)] for i, j in pairs]
        blocks.append(Table(title, ["columns", "correlation"], rows))
        if found is not None:
            pictures.insert(1, _strongest_picture(told))
    elif d > 1:
        blocks.append(Text("No correlation can be distinguished from noise."))
    blocks.append(Gallery(pictures))
    if d <= _MATRIX:
        what = "correlation" if release.estimand == "correlation" else "covariance"
        entries = matrix if what == "correlation" else release.covariance
        whole: list[list[Cell]] = [
            [names[i], *(_entry(release, what, entries, i, j) for j in range(d))] for i in range(d)
        ]
        blocks.append(More(f"The {what} matrix", [Table(what.capitalize(), ["column", *names], whole)]))
    return blocks


def _entry(release: Release, what: str, entries: Floats, i: int, j: int) -> Cell:
    found = release.usual_intervals
    value = f"{entries[i, j]:.4g}"
    if found is None or (i == j and (what == "correlation" or _divided(release)[i])):
        return value
    low, high = found.correlation if what == "correlation" else found.covariance
    return value, results.interval(low[i, j], high[i, j], ".3g")


def _strongest_picture(told: str) -> Picture:
    return Picture(
        "strongest",
        "The strongest correlations",
        f"Points with whiskers: the strongest correlations and their 95% intervals. The largest: {told}.",
        "Whiskers are 95% intervals.",
    )


# --- regression -----------------------------------------------------------------------------------------------------


def asked_regression(release: Release) -> RidgeFit:
    """The regression that a release of kind "ridge" was made for; its target is the last column."""
    asked = release.facts.get("ridge") or {"alpha": "auto"}
    return release.ridge(release.n_features - 1, asked["alpha"], scales=asked.get("scales"))


def regression_errors(release: Release, fit: RidgeFit) -> Regression | None:
    """The same regression from what was measured, with the errors of its coefficients; None where there are none."""
    try:
        return release.regression(release.n_features - 1, alpha=float(fit.alpha) or FAINT, scales=fit.scales)
    except (ArithmeticError, ValueError):
        return None


def standing_coefficients(release: Release) -> list[str]:
    """How many coefficients can be distinguished from 0."""
    fit = asked_regression(release)
    errors = regression_errors(release, fit)
    if errors is None:
        return ["Nothing tells how far the coefficients may be off: this release has no intervals for them."]
    told = int(np.sum(errors.told))
    low, high = errors.r_squared_interval
    which = "No coefficient" if told == 0 else f"{told} of {len(fit.coef)} coefficients"
    return [f"{which} can be distinguished from 0. R² is {errors.r_squared:.3f} ({low:.3f} to {high:.3f})."]


def ridge_blocks(release: Release) -> list[Block]:
    """Coefficients, and the correlations that they come from."""
    fit = asked_regression(release)
    errors = regression_errors(release, fit)
    target, names = clean(fit.target), [clean(name) for name in fit.feature_names]
    order = np.argsort(-np.abs(fit.coef), kind="stable")
    told = ", ".join(f"{short(names[j])} ({fit.coef[j]:+.2g})" for j in order[:3])
    scaled = "" if np.ptp(fit.scales) == 0 else ", for columns divided by the widths of their bounds"
    picture = Picture(
        "coefficients",
        "Standardised coefficients",
        f"Coefficients for {short(target)}, in deviations of the target for one deviation of a column. The largest "
        f"coefficients: {told}. The numbers are in the table above.",
        "Deviations of the target for one deviation of the column."
        + ("" if errors is None else " Whiskers are 95% intervals. A coefficient whose interval holds 0 has no point."),
    )
    return [
        Text(
            f"A linear prediction of “{target}” from {count(len(names), 'other column')}, with a penalty of α = "
            f"{float(fit.alpha):.4g} (scikit-learn's convention{scaled}). It is computed from a "
            "released covariance, so regressions of other columns cost nothing more."
        ),
        _coefficients(release, fit, errors, order),
        *([] if errors is not None else [Text(_bound(fit))]),
        *_correlations(release, [picture]),
    ]


def _coefficients(release: Release, fit: RidgeFit, errors: Regression | None, order: NDArray[np.intp]) -> Table:
    names, own, shown = [clean(name) for name in fit.feature_names], _in_own_units(release, fit), order[:SHOWN_ROWS]
    rows: list[list[Cell]] = []
    for j in shown:
        value: Cell = f"{fit.coef[j]:+.4g}"
        if errors is not None:
            ends = results.interval(errors.intervals[0][j], errors.intervals[1][j], "+.3g")
            value = (str(value), ends) if np.isfinite(errors.standard_errors[j]) else NOISE
        rows.append([names[j], value, *([] if own is None else [f"{own[0][j]:+.4g}"])])
    center: Cell = "not known" if fit.intercept is None else f"{float(fit.intercept):+.4g}"
    if errors is not None and errors.intercept is not None and errors.intercept_standard_error is not None:
        reach = 1.96 * errors.intercept_standard_error
        center = (str(center), results.interval(errors.intercept - reach, errors.intercept + reach, "+.3g"))
    rows.append(
        ["intercept", center, *([] if own is None else [f"{own[1]:+.4g}" if own[1] is not None else "not known"])]
    )
    left = len(order) - len(shown)
    notes = [f"{left} smaller ones are in the file."] if left else []
    level = "" if errors is None else " (95% interval)"
    if errors is not None:
        notes.append(
            "Intervals are those of the fit to what was measured, at the same penalty. The coefficients are shrunk "
            "towards 0 from it, so one may lie off the middle of its interval."
        )
    headings = ["column", f"coefficient{level}", *([] if own is None else ["in the columns' own units"])]
    return Table(f"Coefficients for {clean(fit.target)}", headings, rows, note=" ".join(notes))


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


def _in_own_units(release: Release, fit: RidgeFit) -> tuple[Floats, float | None] | None:
    """Coefficients and intercept for columns that were not rescaled to [0, 1]; None where they were not."""
    units = release.facts.get("rescaled")
    if not units:
        return None
    lower, upper = np.array(units["lower"]), np.array(units["upper"])  # in the order of the columns, the target last
    width = upper - lower
    coef = fit.coef * width[-1] / width[:-1]
    if fit.intercept is None:
        return coef, None
    return coef, float(lower[-1] + width[-1] * float(fit.intercept) - coef @ lower[:-1])
