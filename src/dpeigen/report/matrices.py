"""Covariances and regressions on a card: centres, deviations, correlations and coefficients with their intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
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
_UNKNOWN = "not known"
_UNIT = re.compile(r"[-+.\de]*\d(?P<unit>%|[ ].+)")
_FACTOR = "a factor of "
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
        if mean is not None and release.mean is not None and center != _UNKNOWN:
            words = partial(release.value_text, j, digits=_digits(release, j, mean[0][j], mean[1][j]))
            center = (clean(words(float(release.mean[j]))), _ends(words, mean[0][j], mean[1][j]))
        if spread is not None and deviation != _UNKNOWN:
            ends = _ends(partial(release.spread_text, j), spread[0][j], spread[1][j])
            deviation = (str(deviation), ends) if spread[0][j] > 0 else f"{NOISE} ({ends})"
        rows.append([names[j], center, deviation])
    left = release.n_features - len(shown)
    notes = [f"The {len(shown)} columns with the largest variances; the other {left} are in the file."] if left else []
    if release.facts.get("center") == "public":
        notes.append("The centre was given: it is public and not estimated.")
    elif any(said.transform for said in (release.columns or {}).values()):
        notes.append(
            "The centre of a transformed column is brought back to the column's unit, so it is no mean: of a logarithm "
            "it is the geometric mean."
        )
    if spread is not None:
        notes.append("Beside or below each number: its 95% interval. All are in the columns' own units.")
    elif mean is not None and release.mean is not None:
        notes.append("Beside or below each centre: its 95% interval. All are in the columns' own units.")
    if spread is None and release.usual_intervals is not None:
        notes.append("Standard deviations are what columns were divided by; how far they may be off is not known.")
    return Table(
        "Centre and spread of the columns", ["column", "centre", "standard deviation"], rows, note=" ".join(notes)
    )


def _digits(release: Release, column: int, low: float, high: float) -> int:
    """As many as tell the ends of an interval apart: 1996.8 to 1997.4 and not 1997 to 1997."""
    place, width = release.rescaled(column)
    first, last = place + width * low, place + width * high
    if not (math.isfinite(first) and math.isfinite(last) and last > first):
        return 4
    return min(max(4, 2 + math.ceil(math.log10(max(abs(first), abs(last)) / (last - first)))), 12)


def _ends(words: Callable[[float], str], low: float, high: float) -> str:
    """An interval in the unit of its column, which is named once; ends that are not finite have none.

    >>> _ends("{:.3g} cm".format, 168, 172), _ends("a factor of {:.2f}".format, 1.5, 2)
    ('168 to 172 cm', 'a factor of 1.50 to 2.00')
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return results.interval(low, high)
    first, last = clean(words(low)), clean(words(high))
    unit = _UNIT.fullmatch(first)
    if unit and last.endswith(unit["unit"]):
        first = first.removesuffix(unit["unit"])
    return f"{first} to {last.removeprefix(_FACTOR) if first.startswith(_FACTOR) else last}"


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
    """The pairs of columns with the largest correlations among those that can be distinguished from noise.

    Levels of one category exclude each other: their correlations are negative by definition, and no finding.
    """
    matrix, d, found = results.correlations(release), release.n_features, correlation_intervals(release)
    if d > 2000:
        return []
    rows, columns = np.tril_indices(d, -1)
    sizes = np.where(_one_category(release)[rows, columns], -1.0, np.abs(matrix[rows, columns]))
    if found is not None:
        sizes = np.where(clear(found)[rows, columns], sizes, -1.0)
    elif d > 1:
        sizes = np.where(sizes > 0, sizes, -1.0)
    order = np.argsort(-sizes, kind="stable")[:_STRONGEST]
    return [(int(rows[at]), int(columns[at])) for at in order if sizes[at] >= 0]


def _one_category(release: Release) -> NDArray[np.bool_]:
    """Which pairs of columns say nothing new: indicators of one category, and any with the second of two levels."""
    found, indicators = np.zeros((release.n_features, release.n_features), dtype=bool), release.indicators
    for _, members in release.variables():
        if indicators[members].all():
            found[np.ix_(members, members)] = True
            if len(members) == 2:  # it is 1 less the first
                found[members[1]], found[:, members[1]] = True, True
    return found


def clear(found: Interval) -> NDArray[np.bool_]:
    """Which intervals do not hold 0."""
    return np.asarray((found[0] > 0) | (found[1] < 0))


def covariance_tables(release: Release) -> list[Table]:
    """The tables of a covariance, for a terminal."""
    return [_centers(release), *(block for block in _correlations(release, []) if isinstance(block, Table))]


def ridge_tables(release: Release) -> list[Table]:
    """The table of a regression, for a terminal."""
    fit = asked_regression(release)
    errors = regression_errors(release, fit)
    table = _coefficients(release, fit, errors)
    said = standing_coefficients(release) + ([] if errors is not None else [_bound(fit)])
    penalty = f"Penalty α = {float(fit.alpha):.4g}."
    return [replace(table, note=" ".join([*said, penalty, table.note]))]


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
        same = bool(np.tril(_one_category(release), -1).any())
        note = (
            "Left out: pairs of levels of one category, which exclude each other by definition, and the second of "
            "two levels, whose correlations are those of the first with the other sign."
            if same
            else ""
        )
        blocks.append(Table(title, ["columns", "correlation"], rows, note=note))
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
        of = " of the scaled columns" if what == "covariance" and release.scale is not None else ""
        blocks.append(More(f"The {what} matrix{of}", [Table(what.capitalize() + of, ["column", *names], whole)]))
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
    if not _known(errors):
        return [f"No coefficient can be distinguished from noise, and R² is not known. {_why_unknown(release)}"]
    told = int(np.sum(errors.told))
    low, high = errors.r_squared_interval
    which = "No coefficient" if told == 0 else f"{told} of {len(fit.coef)} coefficients"
    return [f"{which} can be distinguished from 0. R² is {errors.r_squared:.3f} ({low:.3f} to {high:.3f})."]


def _known(errors: Regression) -> bool:
    """Whether anything is known of the coefficients."""
    return bool(np.isfinite(errors.standard_errors).any())


def _why_unknown(release: Release) -> str:
    target = f"release.regression({release.feature_names[-1]!r}, features=[…])"
    if results.unknown_columns(release):
        return (
            f"The reason: nothing is known of {results.unknown_names(release)}, and every coefficient depends on all "
            f"columns. A regression without them costs nothing: {target}."
        )
    return (
        "The reason: under this noise the columns cannot be told apart. A regression on fewer of them may do, and it "
        f"costs nothing: {target}."
    )


def ridge_blocks(release: Release) -> list[Block]:
    """Coefficients, and the correlations that they come from."""
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
        *_correlations(release, picture),
    ]


def _target(release: Release) -> str:
    return results.names_of(release)[-1]


def _penalised(release: Release, fit: RidgeFit) -> str:
    """The units of the columns that the penalty is for."""
    if np.ptp(fit.scales) == 0:
        return ""
    if release.scale is not None and np.array_equal(fit.scales, release.scale[:-1]):
        return ", for the scaled columns"
    return ", for columns in units in which the privacy noise is alike; release.json lists them under “ridge”"


def standardised(release: Release, fit: RidgeFit) -> Floats:
    """What coefficients are multiplied by to be deviations of the target for one deviation of a column."""
    deviations = np.sqrt(np.maximum(np.diag(release.raw_covariance), 0.0))
    return deviations[:-1] / deviations[-1] if deviations[-1] > 0 else np.zeros(len(fit.coef))


def _coefficients_picture(release: Release, fit: RidgeFit, errors: Regression | None) -> Picture:
    names, sizes = results.names_of(release), fit.coef * standardised(release, fit)
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
        + ("" if errors is None else " Whiskers are 95% intervals. A coefficient whose interval holds 0 has no point."),
    )


def _coefficients(release: Release, fit: RidgeFit, errors: Regression | None) -> Table:
    names, widths = results.names_of(release), _widths(release)
    largest = np.argsort(-np.abs(fit.coef * standardised(release, fit)), kind="stable")
    rows: list[list[Cell]] = []
    for j in np.sort(largest[:SHOWN_ROWS]):
        ends = None if errors is None else (errors.intervals[0][j], errors.intervals[1][j])
        known = errors is None or bool(np.isfinite(errors.standard_errors[j]))
        units = [1.0] if widths is None else [1.0, widths[1][-1] / widths[1][j]]
        rows.append([names[j], *(_with_ends(fit.coef[j] * unit, ends, unit) if known else NOISE for unit in units)])
    rows.append(["intercept", *_intercepts(release, fit, errors)])
    left = len(largest) - (len(rows) - 1)
    notes = [f"{count(left, 'smaller coefficient')} {'is' if left == 1 else 'are'} in the file."] if left else []
    if widths is None:
        notes.append("Coefficients are in the columns' own units: the change of the target for one unit of a column.")
    if any(said.transform for said in (release.columns or {}).values()):
        notes.append("A column with a transform counts after it: one unit of a logarithm is a factor of 2.72.")
    if errors is not None and _known(errors):
        notes.append(
            "Intervals are those of the fit to what was measured, at the same penalty. The coefficients are shrunk "
            "towards 0 from it, so one may lie off the middle of its interval."
        )
    level = "" if errors is None else " (95% interval)"
    units_of = [""] if widths is None else [", columns on [0, 1]", ", columns' own units"]
    headings = ["column", *(f"coefficient{of}{level}" for of in units_of)]
    return Table(f"Coefficients for {_target(release)}", headings, rows, note=" ".join(notes))


def _with_ends(value: float, ends: tuple[float, float] | None, unit: float = 1.0, place: float = 0.0) -> Cell:
    """A number, and its interval times ``unit`` plus ``place``."""
    if ends is None:
        return f"{value:+.4g}"
    low, high = (place + unit * end for end in ends)
    return f"{value:+.4g}", results.interval(low, high, "+.3g")


def _intercepts(release: Release, fit: RidgeFit, errors: Regression | None) -> list[Cell]:
    """As the release counts columns and, where they were rescaled, in their own units."""
    own, widths = _in_own_units(release, fit), _widths(release)
    if fit.intercept is None or (errors is not None and not _known(errors)):
        return [_UNKNOWN if fit.intercept is None else NOISE] * (1 if own is None else 2)
    ends = None
    if errors is not None and errors.intercept is not None and errors.intercept_standard_error is not None:
        reach = 1.96 * errors.intercept_standard_error
        ends = (errors.intercept - reach, errors.intercept + reach)
    found = [_with_ends(float(fit.intercept), ends)]
    if own is not None and own[1] is not None and widths is not None:
        lower, width = widths
        at_zero = not lower[:-1].any()  # else it depends on the errors of the coefficients too
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
    """Lower ends and widths of the bounds that columns were rescaled by, the target last; None where they were not."""
    units = release.facts.get("rescaled")
    if not units:
        return None
    lower, upper = np.array(units["lower"], dtype=float), np.array(units["upper"], dtype=float)
    return lower, upper - lower


def _in_own_units(release: Release, fit: RidgeFit) -> tuple[Floats, float | None] | None:
    """Coefficients and intercept for columns that were not rescaled to [0, 1]; None where they were not."""
    widths = _widths(release)
    if widths is None:
        return None
    lower, width = widths
    coef = fit.coef * width[-1] / width[:-1]
    if fit.intercept is None:
        return coef, None
    return coef, float(lower[-1] + width[-1] * float(fit.intercept) - coef @ lower[:-1])
