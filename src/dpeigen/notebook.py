"""Releases, intervals and regressions in notebooks: small escaped HTML tables without external resources.

Results that cannot be distinguished from noise are marked, as on the card (`dpeigen.report`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpeigen import _html
from dpeigen._text import number_text
from dpeigen.clipped import clipped_warning
from dpeigen.noise_floor import compared, floor_notes

if TYPE_CHECKING:
    from dpeigen.intervals import Intervals
    from dpeigen.regression import Regression
    from dpeigen.release import Release
    from dpeigen.stats.intervals import Interval

__all__ = [
    "KIND_TITLES",
    "NOISE",
    "intervals_html",
    "loadings_unknown",
    "regression_html",
    "release_html",
    "variance_intervals",
]

NOISE = "not distinguishable from noise"
_COMPONENTS, _LOADINGS, _COEFFICIENTS, _UNKNOWN = 20, 3, 60, 20
_MOST_COLUMNS = 60  # up to this number, intervals of variances take seconds; those of loadings are always quick
KIND_TITLES = {"pca": "Private PCA", "covariance": "Private covariance", "ridge": "Private ridge regression"}


def variance_intervals(release: Release) -> tuple[Interval, Interval] | None:
    """Intervals of the variances along components and of their shares, if they take only seconds; otherwise None."""
    found = release.usual_intervals
    if found is None or release.n_features > _MOST_COLUMNS:
        return None
    try:
        return found.eigenvalues, found.shares
    except (ArithmeticError, ValueError):  # a file whose numbers are not from a measurement
        return None


def loadings_unknown(found: Intervals) -> bool:
    """Whether the interval of every loading is −1 to 1."""
    low, high = found.components
    return bool((high - low >= 2).all())


def release_html(release: Release) -> str:
    """A release: the guarantee and the components."""
    g = release.guarantee
    name = (
        release.about.get("title") or f"{KIND_TITLES.get(release.kind, release.kind)} of {release.n_features} columns"
    )
    return _html.box(
        name,
        "" if g.is_private else _html.paragraph("NOT PRIVATE", loud=True),
        _html.paragraph(f"(ε, δ) = ({g.epsilon:g}, {g.delta:g}), {g.neighbours}; method {g.mechanism}."),
        _components(release, release.usual_intervals, variance_intervals(release)),
        _html.paragraph(clipped) if (clipped := clipped_warning(release)) else "",
    )


def intervals_html(found: Intervals) -> str:
    """Intervals of components."""
    whose = "the population that the rows were drawn from" if found.of == "population" else "these rows"
    return _html.box(
        f"{100 * found.level:g}% intervals for {whose}",
        _components(found.release, found, (found.eigenvalues, found.shares)),
    )


def regression_html(fit: Regression) -> str:
    """A regression."""
    low, high = fit.r_squared_interval
    known = bool(np.isfinite(fit.standard_errors).any())
    numbers = zip(fit.feature_names, fit.coef, fit.standard_errors, *fit.intervals, strict=True)
    rows = []
    for name, value, error, below, above in list(numbers)[:_COEFFICIENTS]:
        if name in fit.references:
            rows.append([name, "reference level", "", ""])
        elif math.isfinite(error):
            rows.append([name, f"{value:+.4g}", f"{error:.3g}", f"{below:+.4g} to {above:+.4g}"])
        else:
            rows.append([name, "not known", "", ""])
    headings = ["column", "coefficient", "standard error", f"{100 * fit.level:g}% interval"]
    return _html.box(
        f"Regression of {fit.target}",
        _html.paragraph(
            f"R² {f'{fit.r_squared:.3f} ({low:.3f} to {high:.3f})' if known else 'not known'}, {fit.n_rows:,.0f} rows, "
            f"penalty α = {fit.alpha:g}."
        ),
        _html.table("", headings, rows),
        *map(_html.paragraph, fit.notes()),
    )


def _components(release: Release, found: Intervals | None, variances: tuple[Interval, Interval] | None) -> str:
    names, rows, unknown = release.labels, [], release.unknown_columns
    known = [j for j, name in enumerate(release.feature_names) if name not in unknown]
    for i, component in enumerate(release.components[:_COMPONENTS]):
        largest = [known[at] for at in np.argsort(-np.abs(component[known]), kind="stable")[:_LOADINGS]]
        ends = None if variances is None else (float(variances[0][0][i]), float(variances[0][1][i]))
        variance = number_text(float(release.eigenvalues[i]), ends)
        parts = [f"{names[j]} {component[j]:+.2f}" for j in largest]
        if found is not None:
            low, high = found.components
            if ends is not None:
                variance += f" ({number_text(ends[0], ends)} to {number_text(ends[1], ends)})"
            around = [f" ({low[i, j]:+.2f} to {high[i, j]:+.2f})" for j in largest]
            parts = [part + end for part, end in zip(parts, around, strict=True)]
        if not release.is_resolved(i):
            parts = [NOISE]
            if ends is not None:
                variance = f"{number_text(ends[0], ends)} to {number_text(ends[1], ends)}"
        elif found is not None and loadings_unknown(found):
            parts = ["not known"]
        floor = compared(release, i)
        floors = [] if floor is None else [f"{floor[0]} ({floor[1]})" if floor[1] else floor[0]]
        rows.append([f"{i + 1}", variance, *floors, "; ".join(parts)])
    level = "" if found is None else f" ({100 * found.level:g}% interval)"
    headings = ["component", f"variance{level}", f"largest loadings{level}"]
    if release.noise_floors is not None:
        headings.insert(2, "noise floor")
    table = _html.table("Principal components", headings, rows)
    table += "".join(map(_html.paragraph, floor_notes(release, len(rows))))
    table += "".join(_html.paragraph(f"{name}: not known, {why}.") for name, why in [*unknown.items()][:_UNKNOWN])
    return table if found is not None else table + _html.paragraph("This release has no intervals.")
