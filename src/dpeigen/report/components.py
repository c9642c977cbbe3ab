"""Components on a card: variances, loadings and pictures, and whether they can be distinguished from noise."""

from __future__ import annotations

import numpy as np

from dpeigen import notebook
from dpeigen._text import number_text
from dpeigen.noise_floor import compared, floor_notes
from dpeigen.notebook import NOISE, variance_intervals
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Cell, Gallery, Picture, Table, Text, count, short
from dpeigen.report.columns import (
    MOST_COMPONENTS,
    interval,
    largest_columns,
    names_of,
    share_interval,
    unknown_columns,
)
from dpeigen.report.missing import SHOWN_ROWS

__all__ = [
    "MOST_PICTURES",
    "component_blocks",
    "loadings_unknown",
    "scree",
    "undetermined",
    "unknown_may_contribute",
    "variance_cells",
    "without_loadings",
]

MOST_PICTURES = 3  # of loadings
_COMPONENT = (
    "A component is a direction in which the rows vary much. Its loadings say how much each column contributes. "
    "Columns with loadings of the same sign rise together; those of opposite signs move in opposite directions."
)


def component_blocks(release: Release) -> list[Block]:
    told = [i for i in range(len(release.components)) if release.is_resolved(i)]
    if release.too_few_known:  # bars would show what was never measured
        return [Text(_COMPONENT), _variances(release)]
    if told and loadings_unknown(release):
        return [Text(_COMPONENT), _variances(release), Gallery([scree(release)])]
    pictures = [_loading_picture(release, i) for i in told[:MOST_PICTURES]]
    both = told[:2] == [0, 1] and not {0, 1} & set(undetermined(release))
    pictures += [scree(release)] + ([_biplot(release)] if both else [])
    return [
        Text(_COMPONENT),
        _variances(release),
        *([_loadings(release, told)] if told else []),
        Gallery(pictures),
    ]


def loadings_unknown(release: Release) -> bool:
    """Whether the interval of every loading is −1 to 1."""
    found = release.usual_intervals
    return found is not None and notebook.loadings_unknown(found)


def undetermined(release: Release) -> list[int]:
    """Components that differ from noise but not from each other, or whose loadings may all be 0."""
    found = release.usual_intervals
    if found is None:
        return []
    low, high = found.components
    clear = (np.any((low > 0) | (high < 0), axis=1) & np.asarray(found.determined)).tolist()
    return [i for i, some in enumerate(clear) if release.is_resolved(i) and not some]


def without_loadings(release: Release) -> str:
    """Why a card prints no loadings although there are components."""
    unknown = unknown_columns(release)
    why = unknown_may_contribute(len(unknown)) if unknown else "noise hides them"
    remedies = "without those columns, with more rows or with a larger ε" if unknown else "with more rows or a larger ε"
    which = "the other loadings" if unknown else "them"
    return (
        f"No loadings are shown: {why}, so every loading may be anything between −1 and 1. A release {remedies} would "
        f"help. The file has {which}, without errors."
    )


def unknown_may_contribute(number: int) -> str:
    """Why no loadings are shown beside so many columns with an unknown variance."""
    return f"{count(number, 'column')} {'has' if number == 1 else 'have'} no known variance and may contribute"


def variance_cells(release: Release, i: int) -> tuple[Cell, Cell]:
    """The variance along a component and its share of the whole, with their intervals.

    If columns are unknown, the intervals are for the components of the others. If the component cannot be distinguished
    from noise, only the intervals are given. If there are too few known columns, nothing is given.
    """
    told, found, total = release.is_resolved(i), variance_intervals(release), float(np.trace(release.covariance))
    if not told and release.unresolved == "unknown columns":
        return "not known", "not known"
    value, part = float(release.eigenvalues[i]), float(release.eigenvalues[i]) / total if total > 0 else 0.0
    variance, percent = f"{value:.4g}", f"{100 * part:.1f}%"
    if found is None:
        return variance, percent
    (low, high), (least, most) = found
    variance, ends = number_text(value, (float(low[i]), float(high[i]))), interval(low[i], high[i])
    shares = share_interval(least[i], most[i]) if i < len(least) else "not known"
    return ((variance, ends), (percent, shares)) if told else (ends, shares)


def _variances(release: Release) -> Table:
    found = variance_intervals(release)
    values = release.eigenvalues[:SHOWN_ROWS]
    rows: list[list[Cell]] = []
    for i in range(len(values)):
        variance, share = variance_cells(release, i)
        told = release.is_resolved(i)
        among = told and found is not None and found[0][0][i] <= 0 and unknown_columns(release)
        clear = "among the known columns" if among else "yes" if told else NOISE
        rows.append([f"{i + 1}", variance, share, _floor(release, i), clear])
    left = len(release.eigenvalues) - len(rows)
    notes = [f"{left} more are in the file."] if left else []
    notes += floor_notes(release, len(rows))
    if found is None and release.resolved is not None:
        notes.append("Intervals of variances take minutes with this many columns: release.intervals().eigenvalues.")
    judged = release.resolved is not None
    headings = ["component", f"variance{_level(release)}", f"share{_level(release)}"]
    if not judged:
        rows = [row[:3] for row in rows]
        notes.append("Which of them can be distinguished from noise is not known.")
        if (floor := release.noise_floor) is not None:
            notes.append(f"Noise floor {floor.value:.3g}: {floor.words}.")
    headings += ["noise floor", "clear of noise"] if judged else []
    return Table("Components", headings, rows, numbers=False, note=" ".join(notes))


def _floor(release: Release, i: int) -> Cell:
    floor, measured = compared(release, i) or ("", "")
    return (floor, measured) if measured else floor


def _level(release: Release) -> str:
    return "" if release.usual_intervals is None else " (95% interval)"


def _loadings(release: Release, told: list[int]) -> Table:
    shown, names, found = largest_columns(release, SHOWN_ROWS), names_of(release), release.usual_intervals
    chosen = told[:MOST_COMPONENTS]

    unknown = set(unknown_columns(release))

    def cell(i: int, j: int) -> Cell:
        if j in unknown:
            return "not known"
        value = f"{release.components[i, j]:+.3f}"
        if found is None:
            return value
        return value, interval(found.components[0][i, j], found.components[1][i, j], "+.3f")

    rows: list[list[Cell]] = [[names[j], *(cell(i, j) for i in chosen)] for j in shown]
    left_columns, left = release.n_features - len(shown), len(told) - len(chosen)
    notes = []
    if left_columns:
        notes.append(f"The {len(shown)} columns with the largest loadings; the other {left_columns} are in the file.")
    if left:
        notes.append(f"The first {len(chosen)} components; the other {left} are in the file.")
    if len(told) < len(release.components):
        dropped = len(release.components) - len(told)
        notes.append(f"{count(dropped, 'component')} {'is' if dropped == 1 else 'are'} {NOISE} and not shown.")
    title = f"Loadings of the {'' if release.scale is None else 'scaled '}columns{_level(release)}"
    return Table(title, ["column", *(f"component {i + 1}" for i in chosen)], rows, note=" ".join(notes))


def _largest(release: Release, i: int) -> str:
    known, names = np.setdiff1d(np.arange(release.n_features), unknown_columns(release)), names_of(release)
    largest = known[np.argsort(-np.abs(release.components[i, known]), kind="stable")][:3]
    return ", ".join(f"{short(names[j])} ({release.components[i, j]:+.2f})" for j in largest)


def _loading_picture(release: Release, i: int) -> Picture:
    known = release.usual_intervals is not None
    return Picture(
        f"loadings-{i + 1}",
        f"Component {i + 1}",
        f"Bar chart of the loadings of component {i + 1}. The largest: {_largest(release, i)}. The numbers are in the "
        "table above.",
        "Whiskers: 95% intervals. No bar: the interval contains 0." if known else "No intervals.",
    )


def scree(release: Release) -> Picture:
    """The picture of the variances along components."""
    values, k, d = release.eigenvalues, len(release.eigenvalues), release.n_features
    if (seen := release.measured_variances) is not None:  # others have no bars
        values = values[: max(1, int(np.isfinite(seen).sum()))]
    known = release.usual_intervals is not None
    caption = "Whiskers: 95% intervals." if known and variance_intervals(release) is not None else "No intervals."
    caption += " Strong colour: released components; weak: from the same measurement." if known and k < d else ""
    drawn, said = _drawn_floors(release)
    return Picture(
        "scree",
        "Scree plot",
        f"Bar chart of variances by component, from {values[0]:.3g} for the first to {values[-1]:.3g} for "
        f"component {len(values)}.{said}",
        f"{caption} {drawn}",
    )


def _drawn_floors(release: Release) -> tuple[str, str]:
    """How noise floors are drawn in a scree plot, for its caption and for its alternative text."""
    if (release.noise_floors is not None) and np.isfinite(release.noise_floors).any():
        clear = f"{release.resolved} of {len(release.eigenvalues)} measured variances lie above their noise floor"
        return (
            "Circles: variances as measured, before shrinking. Short lines: noise floors. A component is clear of "
            "noise if its circle lies above its line.",
            f" A circle marks each variance as measured and a short line its noise floor: {clear}.",
        )
    floor = release.noise_floor
    if floor is None or release.resolved is not None:
        return "No noise floor is known.", ""
    return f"Dashed: noise floor {floor.value:.3g}.", f" A dashed line marks the noise floor at {floor.value:.3g}."


def _biplot(release: Release) -> Picture:
    names = names_of(release)
    arrows = (release.components[:2] * np.sqrt(np.maximum(release.eigenvalues[:2], 0.0))[:, None]).T
    arrows[unknown_columns(release)] = 0.0
    order = np.argsort(-np.linalg.norm(arrows, axis=1), kind="stable")[:5]
    told = "; ".join(
        f"{short(names[j])} {'right' if arrows[j, 0] >= 0 else 'left'} and {'up' if arrows[j, 1] >= 0 else 'down'}"
        for j in order
        if arrows[j].any()
    )
    which = "known " if unknown_columns(release) else ""
    crosses = " Crosses: 95% intervals." if release.usual_intervals is not None else ""
    return Picture(
        "biplot",
        "Biplot",
        f"Biplot of components 1 and 2: an arrow for each {which}column over a cloud of synthetic rows. The longest "
        f"arrows point to: {told}.",
        f"Arrows: the loadings on components 1 and 2.{crosses} Points are synthetic: none is a person.",
    )
