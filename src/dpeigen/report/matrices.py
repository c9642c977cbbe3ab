"""Covariances on a card: centres, deviations and correlations with their intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpeigen._text import number_text
from dpeigen._types import Floats
from dpeigen.notebook import NOISE
from dpeigen.privacy.guarantee import MIXED
from dpeigen.release import Release
from dpeigen.release_units import is_correlated
from dpeigen.report.blocks import Block, Cell, Gallery, More, Picture, Table, Text, clean, count, short
from dpeigen.report.columns import (
    MOST_CELLS,
    correlations,
    interval,
    names_of,
    unscaled_columns,
    widest_columns,
    without_units,
)
from dpeigen.report.components import scree
from dpeigen.report.missing import SHOWN_ROWS
from dpeigen.stats.intervals import Interval, quantiles

if TYPE_CHECKING:
    from dpeigen.intervals import Intervals

__all__ = [
    "UNKNOWN",
    "center_cell",
    "clear",
    "correlation_blocks",
    "correlation_intervals",
    "covariance_blocks",
    "covariance_tables",
    "deviation_intervals",
    "divided_by_estimates",
    "ends_text",
    "strongest",
]

_MATRIX = 12  # most columns for which the whole matrix is shown as a table
_STRONGEST = 10
_BY_CHANCE = 0.02  # probability that any of all correlations of independent columns is called clear
UNKNOWN = "not known"
_UNIT = re.compile(r"[-+.\de]*\d(?P<unit>%|[ ].+)")
_FACTOR = "a factor of "
_INTERVALS = 200  # most columns for which intervals of all correlations are computed


def covariance_blocks(release: Release) -> list[Block]:
    """Centres, deviations, correlations and the spectrum."""
    return [
        Text(
            "The covariance matrix says how much each column varies and which columns vary together. Correlations say "
            "the same on a scale from −1 to 1."
        ),
        _centers(release),
        *correlation_blocks(release, [] if release.too_few_known else [scree(release)]),
    ]


def _centers(release: Release) -> Table:
    shown, names = widest_columns(release, SHOWN_ROWS), names_of(release)
    spread, mean = deviation_intervals(release), _means(release)
    rows: list[list[Cell]] = []
    for j in shown:
        deviation: Cell = clean(release.deviation_text(j))
        center = center_cell(release, j, mean)
        if spread is not None and deviation != UNKNOWN:
            low, high = float(spread[0][j]), float(spread[1][j])
            words = partial(release.spread_text, j, ends=(low, high))
            ends = ends_text(words, low, high)
            deviation = (clean(words(release.deviation(j))), ends) if low > 0 else f"{NOISE} ({ends})"
        rows.append([names[j], center, deviation])
    left = release.n_features - len(shown)
    notes = [f"The {len(shown)} columns with the largest variances; the other {left} are in the file."] if left else []
    if release.facts.get("center") == "public":
        notes.append("The centre was given: it is public and not estimated.")
    elif any(said.transform for said in (release.columns or {}).values()):
        notes.append(
            "The centre of a transformed column is converted back to the column's unit, so it is not the mean: for a "
            "logarithm it is the geometric mean."
        )
    if spread is not None:
        notes.append("Beside or below each number: its 95% interval. All are in the columns' own units.")
    elif mean is not None and release.mean is not None:
        notes.append("Beside or below each centre: its 95% interval. All are in the columns' own units.")
    if spread is None and release.usual_intervals is not None:
        notes.append("The errors of the standard deviations are not known: nearly all rows were clipped.")
    return Table(
        "Centre and spread of the columns", ["column", "centre", "standard deviation"], rows, note=" ".join(notes)
    )


def center_cell(release: Release, column: int, mean: Interval | None) -> Cell:
    """The released centre of a column in its own unit, with its interval if there is one."""
    center = clean(release.center_text(column))
    if mean is None or release.mean is None or center == UNKNOWN:
        return center
    low, high = float(mean[0][column]), float(mean[1][column])
    words = partial(release.value_text, column, ends=(low, high))
    return clean(words(float(release.mean[column]))), ends_text(words, low, high)


def ends_text(words: Callable[[float], str], low: float, high: float) -> str:
    """An interval in the unit of its column, which is written once; infinite ends have no unit.

    >>> ends_text("{:.3g} cm".format, 168, 172), ends_text("a factor of {:.2f}".format, 1.5, 2)
    ('168 to 172 cm', 'a factor of 1.50 to 2.00')
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return interval(low, high)
    first, last = clean(words(low)), clean(words(high))
    unit = _UNIT.fullmatch(first)
    if unit and last.endswith(unit["unit"]):
        first = first.removesuffix(unit["unit"])
    return f"{first} to {last.removeprefix(_FACTOR) if first.startswith(_FACTOR) else last}"


def deviation_intervals(release: Release) -> Interval | None:
    """Intervals of the standard deviations of columns, in their own units."""
    found = release.usual_intervals
    if found is None:
        return None
    if release.estimand == MIXED or divided_by_estimates(release).any():
        return _measured_deviations(release, found)
    unit = np.ones(release.n_features) if release.scale is None else release.scale
    low, high = (np.sqrt(np.maximum(np.diag(side), 0.0)) * unit for side in found.covariance)
    return low, high


def _measured_deviations(release: Release, found: Intervals) -> Interval | None:
    """The same for columns that were divided by released deviations: from the moment that was measured afterwards.

    The intervals always contain the deviations that columns were divided by, which are shown.
    """
    errors = found.errors
    if not errors.sized:
        return None
    drawn = np.diag(errors.seen) - np.einsum("mii->mi", errors.draws)
    low, high = quantiles(np.sqrt(np.maximum(drawn, 0.0)), found.level)
    most = release.largest_deviations
    high = np.minimum(high, most)
    shown = np.minimum(np.sqrt(np.maximum(np.diag(release.raw_covariance), 0.0)), most)
    return (
        np.where(errors.known, np.minimum(low, shown), 0.0),
        np.where(errors.known, np.maximum(high, shown), math.inf),
    )


def divided_by_estimates(release: Release) -> NDArray[np.bool_]:
    """Columns that were divided by their released deviations: the diagonal is 1 by definition, not an estimate."""
    if release.scale is not None and (release.estimand == "correlation" or is_correlated(release)):
        return np.ones(release.n_features, dtype=bool)
    return ~release.indicators if release.estimand == MIXED else np.zeros(release.n_features, dtype=bool)


def _means(release: Release) -> Interval | None:
    found = release.usual_intervals
    return None if found is None else found.mean


def correlation_intervals(release: Release) -> Interval | None:
    """Intervals of every correlation; None if there are none, or too many columns."""
    found = release.usual_intervals
    return None if found is None or release.n_features > _INTERVALS else found.correlation


def strongest(release: Release) -> list[tuple[int, int]]:
    """The pairs of columns with the largest correlations among those that can be distinguished from noise.

    Levels of one category exclude each other, so their correlations are negative by definition and are left out.
    """
    matrix, d, found = correlations(release), release.n_features, correlation_intervals(release)
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
    """Which pairs of columns are redundant: indicators of one category, and any pair with the second of two levels."""
    found, indicators = np.zeros((release.n_features, release.n_features), dtype=bool), release.indicators
    for _, members in release.variables():
        if indicators[members].all():
            found[np.ix_(members, members)] = True
            if len(members) == 2:  # it is 1 minus the first
                found[members[1]], found[:, members[1]] = True, True
    return found


def clear(found: Interval) -> NDArray[np.bool_]:
    """Which intervals do not contain 0."""
    return np.asarray((found[0] > 0) | (found[1] < 0))


def clear_of_all(release: Release) -> int:
    """How many correlations differ from 0 in a joint test of all pairs (Bonferroni).

    Of independent columns, a few in a hundred pairs have 95% intervals without 0. Intervals are widened about their
    middle, as for normal errors, so that with a probability of 98% or more none of them is without 0 there.
    """
    found = correlation_intervals(release)
    if found is None:
        return 0
    pairs = np.tril(~_one_category(release), -1)
    low, high = found[0][pairs], found[1][pairs]
    wider = float(ndtri(_BY_CHANCE / (2 * max(len(low), 1))) / ndtri(0.025))
    reach = wider * (high - low) / 2
    return int((np.abs(low + high) / 2 > reach).sum())


def covariance_tables(release: Release) -> list[Table]:
    """The tables of a covariance, for a terminal."""
    return [_centers(release), *(block for block in correlation_blocks(release, []) if isinstance(block, Table))]


def correlation_blocks(release: Release, more: list[Picture]) -> list[Block]:
    """The strongest correlations, a heat map with further pictures, and the matrix."""
    matrix, names, d = correlations(release), names_of(release), release.n_features
    found, pairs = correlation_intervals(release), strongest(release)
    told = ", ".join(f"{short(names[j])} with {short(names[i])} ({matrix[i, j]:+.2f})" for i, j in pairs[:3])
    shown = min(d, MOST_CELLS)
    some = "" if shown == d else f" The {shown} columns with the largest variances."
    marked = "" if found is None else " An empty cell: not distinguishable from noise, its interval contains 0."

    def cell(i: int, j: int) -> Cell:
        value = f"{matrix[i, j]:+.3f}"
        if found is None:
            return value
        low, high = found[0][i, j], found[1][i, j]
        return value, interval(low, high, "+.3f")

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
        bare = without_units(names)  # a correlation has no unit
        rows: list[list[Cell]] = [[f"{bare[j]}, {bare[i]}", cell(i, j)] for i, j in pairs]
        same = bool(np.tril(_one_category(release), -1).any())
        note = (
            "Left out: pairs of levels of one category, which exclude each other by definition, and the second level "
            "of a category with two, whose correlations are those of the first with the opposite sign."
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
    if {i, j} & unscaled_columns(release):
        return UNKNOWN
    if found is None or (i == j and (what == "correlation" or divided_by_estimates(release)[i])):
        return value
    low, high = found.correlation if what == "correlation" else found.covariance
    if what == "correlation" and low[i, j] <= -1 and high[i, j] >= 1:
        return UNKNOWN
    ends = float(low[i, j]), float(high[i, j])
    return number_text(float(entries[i, j]), ends), interval(*ends)


def _strongest_picture(told: str) -> Picture:
    return Picture(
        "strongest",
        "The strongest correlations",
        f"Points with whiskers: the strongest correlations and their 95% intervals. The largest: {told}.",
        "Whiskers are 95% intervals.",
    )
