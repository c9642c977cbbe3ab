"""The results on a card: components with their intervals, and what can be distinguished from noise."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpeigen import notebook
from dpeigen._types import Floats
from dpeigen.methods.columns import NO_CELLS, NOTHING_SEEN
from dpeigen.notebook import NOISE, variance_intervals
from dpeigen.privacy import Guarantee
from dpeigen.privacy.guarantee import MIXED
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Cell, Gallery, Picture, Table, Text, clean, count, short
from dpeigen.report.missing import SHOWN_ROWS, about_missing

__all__ = [
    "KIND_TITLES",
    "MOST_CELLS",
    "MOST_COMPONENTS",
    "MOST_PICTURES",
    "about_columns",
    "correlations",
    "interval",
    "largest_columns",
    "loadings_unknown",
    "named_remarks",
    "names_of",
    "result_blocks",
    "scree",
    "share_interval",
    "standing",
    "unknown_columns",
    "unknown_names",
    "unknown_reasons",
    "widest_columns",
    "without_loadings",
]

KIND_TITLES = {"pca": "Private PCA", "covariance": "Private covariance", "ridge": "Private ridge regression"}
MOST_COMPONENTS = 8  # in a table or a heat map
MOST_CELLS = 30  # columns of a heat map
_MOST_ORDINAL = 8
MOST_PICTURES = 3  # of loadings


_COMPONENT = (
    "A component is a direction in which the rows vary much. Its loadings say how much each column contributes. "
    "Columns with loadings of the same sign rise together; those of opposite signs move in opposite directions."
)
_IN_UNITS = {
    "pca": "Components, loadings and variances are those of the scaled columns.",
    "covariance": "Centres and standard deviations are in the columns' own units; variances along components are those "
    "of the scaled columns.",
    "ridge": "Coefficients are in the columns' own units.",
}


def names_of(release: Release) -> list[str]:
    """Names of the columns as they may be shown."""
    return [clean(name) for name in release.labels]


def largest_columns(release: Release, most: int) -> NDArray[np.intp]:
    """The columns with the largest loadings among the components shown, in the order of the table."""
    weight = np.abs(release.components[:MOST_COMPONENTS]).max(axis=0)
    return np.sort(np.argsort(-weight, kind="stable")[:most])


def widest_columns(release: Release, most: int) -> NDArray[np.intp]:
    """The columns with the largest variances, in the order of the table."""
    return np.sort(np.argsort(-np.diag(release.covariance), kind="stable")[:most])


def correlations(release: Release) -> Floats:
    """The correlation matrix of the released covariance; 0 where a variance is."""
    matrix = release.correlation
    np.fill_diagonal(matrix, (np.diag(release.covariance) > 0).astype(float))
    return matrix


def unknown_reasons(release: Release) -> dict[int, str]:
    """Columns of which nothing is known, by their places, and why: without a scale, or left out of the intervals."""
    listed = (release.facts.get("details") or {}).get("columns_without_scale") or []
    reasons = dict(zip(listed, release.unknown_columns.values(), strict=True))
    found = release.usual_intervals
    if found is not None:
        for j in np.flatnonzero(~found.known).tolist():
            reasons.setdefault(j, "its variance cannot be distinguished from noise")
    return reasons


def unknown_columns(release: Release) -> list[int]:
    """Columns of which nothing is known."""
    return sorted(unknown_reasons(release))


def about_columns(release: Release) -> list[Block]:
    """What the columns were divided by, and of which of them nothing is known."""
    said: list[Block] = []
    if release.scale is not None:
        public = release.estimand == "covariance of columns in public units"
        by = "by a public number" if public else "by its released standard deviation"
        if release.estimand == MIXED:
            by += ", and indicators of categories by the square root of their released frequency"
        said.append(Text(f"First, every column was divided {by}. {_IN_UNITS.get(release.kind, _IN_UNITS['pca'])}"))
    if ordinal := _ordinal(release):
        said.append(Text(ordinal))
    for reason in dict.fromkeys(unknown_reasons(release).values()):
        which = unknown_names(release, reason)
        said.append(Text(f"Nothing is known about {which}: {reason}. A 0 there means nothing."))
    return said


def _ordinal(release: Release) -> str:
    """How the levels of ordinal columns are counted."""
    said = [
        f"{short(clean(name))}: {', '.join(f'{at} = {short(clean(level))}' for at, level in enumerate(one.levels))}"
        for name, one in (release.columns or {}).items()
        if one.levels is not None
    ]
    more = f"; and {len(said) - _MOST_ORDINAL} more, in release.json" if len(said) > _MOST_ORDINAL else ""
    return f"The levels of ordinal columns are counted from 0. {'; '.join(said[:_MOST_ORDINAL])}{more}." if said else ""


def unknown_names(release: Release, reason: str | None = None) -> str:
    """The columns of which nothing is known, those with this reason, by their names for a reader."""
    names = names_of(release)
    unknown = [j for j, why in sorted(unknown_reasons(release).items()) if reason in (None, why)]
    return ", ".join(short(names[j]) for j in unknown[:SHOWN_ROWS]) + (", …" if len(unknown) > SHOWN_ROWS else "")


def named_remarks(release: Release) -> Guarantee:
    """The guarantee, with columns in its remarks called by their names; a method knows their places only."""
    g = release.guarantee
    if not unknown_columns(release):
        return g
    names, notes = names_of(release), g.notes
    for words in (NOTHING_SEEN, NO_CELLS):
        start, numbers = words.removesuffix(" column(s)"), rf"^{re.escape(words)} ([0-9, …]*) \(counted from 0\):"

        def named(found: re.Match[str], start: str = start) -> str:
            places = [short(names[int(j)]) for j in re.findall(r"\d+", found[1])]
            return f"{start} {', '.join(places)}{', …' if '…' in found[1] else ''}:"

        notes = tuple(re.sub(numbers, named, note) for note in notes)
    return replace(g, notes=notes)


def standing(release: Release) -> list[str]:
    """What can be distinguished from noise, as sentences."""
    said: list[str] = []
    k, told = len(release.eigenvalues), release.resolved
    from dpeigen.report import regressions  # they use what is here

    if release.kind == "ridge":
        said += regressions.standing_coefficients(release)
    elif told is None:
        said.append("It is not known which components can be distinguished from noise: this release has no intervals.")
    elif told == 0:
        said.append(
            "No component can be distinguished from noise: this release shows no result. More rows, a larger ε or "
            "fewer columns would help."
        )
    else:
        which = (
            "Both components"
            if told >= k == 2
            else f"All {k} components"
            if told >= k > 1
            else "The component"
            if told >= k
            else f"{told} of {k} components"
        )
        among = ", among the columns that could be measured" if unknown_columns(release) else ""
        said.append(f"{which} can be distinguished from noise{among}.")
        if release.kind == "pca" and loadings_unknown(release):
            said.append("Their loadings are not known.")
        elif release.kind == "pca" and (unclear := _without_signs(release)):
            names = " and ".join(f"{i + 1}" for i in unclear)
            said.append(
                f"The loadings of component {names} are not determined: it is not known which columns contribute. This "
                "happens when consecutive components have nearly equal variances."
            )
    if "tau_eigenvalues" in (release.facts.get("details") or {}) and release.facts.get("n_rows"):
        angle = release.subspace_error()
        if angle < 1:
            said.append(
                f"For elliptically distributed rows, the sine of the angle to the true components is below {angle:.3g} "
                "with probability 95%."
            )
        share = release.breakdown_bound()
        if share > 0:
            said.append(
                f"At least {100 * share:.2g}% of the rows would have to be changed to rotate the components by a right "
                "angle."
            )
    return said


def result_blocks(release: Release) -> list[Block]:
    """Tables and pictures for this kind of release."""
    from dpeigen.report import matrices, regressions  # they use what is here

    made = {"ridge": regressions.ridge_blocks, "covariance": matrices.covariance_blocks}.get(release.kind, _pca)
    first, *rest = made(release)
    return [first, *about_columns(release), *about_missing(release), *rest]


def interval(low: float, high: float, form: str = ".4g") -> str:
    """Two ends in words.

    >>> interval(0.1, 0.25), interval(-float("inf"), 3.0), interval(-float("inf"), float("inf"))
    ('0.1 to 0.25', 'at most 3', 'not known')
    """
    if np.isinf(low) and np.isinf(high):
        return "not known"
    if np.isinf(high):
        return f"at least {low:{form}}"
    return f"at most {high:{form}}" if np.isinf(low) else f"{low:{form}} to {high:{form}}"


def share_interval(low: float, high: float) -> str:
    """The ends of a share, which is no more than all.

    >>> share_interval(0.1, 0.25), share_interval(0.0, float("inf"))
    ('10.0 to 25.0%', 'not known')
    """
    low, high = max(low, 0.0), min(high, 1.0)
    return "not known" if low <= 0 and high >= 1 else f"{100 * low:.1f} to {100 * high:.1f}%"


# --- components -----------------------------------------------------------------------------------------------------


def _pca(release: Release) -> list[Block]:
    told = [i for i in range(len(release.components)) if release.is_resolved(i)]
    if told and loadings_unknown(release):
        return [Text(_COMPONENT), _variances(release), Gallery([scree(release)])]
    pictures = [_loading_picture(release, i) for i in told[:MOST_PICTURES]]
    both = told[:2] == [0, 1] and not {0, 1} & set(_without_signs(release))
    pictures += [scree(release)] + ([_biplot(release)] if both else [])
    return [
        Text(_COMPONENT),
        _variances(release),
        *([_loadings(release, told)] if told else []),
        Gallery(pictures),
    ]


def loadings_unknown(release: Release) -> bool:
    """Whether intervals say of every loading no more than that it is between −1 and 1."""
    found = release.usual_intervals
    return found is not None and notebook.loadings_unknown(found)


def _without_signs(release: Release) -> list[int]:
    """Components that stand out of the noise, but not from each other, or whose loadings may all be 0."""
    found = release.usual_intervals
    if found is None:
        return []
    low, high = found.components
    clear = (np.any((low > 0) | (high < 0), axis=1) & np.asarray(found.determined)).tolist()
    return [i for i, some in enumerate(clear) if release.is_resolved(i) and not some]


def without_loadings(release: Release) -> str:
    """Why a card prints no loadings, though there are components."""
    unknown = unknown_columns(release)
    why = f"{count(len(unknown), 'column')} could not be measured and may contribute" if unknown else "noise hides them"
    return (
        f"No loadings are shown: {why}, so every loading may be anything between −1 and 1. A release without those "
        "columns, with more rows or with a larger ε would help. The file has the other loadings, without errors."
    )


def _shares(release: Release) -> Floats:
    total = float(np.trace(release.covariance))
    return release.eigenvalues / total if total > 0 else np.zeros(len(release.eigenvalues))


def _variances(release: Release) -> Table:
    floor, found = release.noise_floor, variance_intervals(release)
    values, shares, complete = release.eigenvalues[:SHOWN_ROWS], _shares(release), not unknown_columns(release)
    rows: list[list[Cell]] = []
    for i, value in enumerate(values):
        variance: Cell = f"{value:.4g}"
        percent = f"{100 * shares[i]:.1f}%"
        share: Cell = percent
        told = release.is_resolved(i)
        if found is not None:
            (low, high), (least, most) = found
            ends = interval(low[i], high[i])
            part = share_interval(least[i], most[i]) if i < len(least) else "not known"
            known = told and complete  # else they are those of the other columns
            variance, share = ((f"{value:.4g}", ends), (percent, part)) if known else (ends, part)
        among = told and found is not None and found[0][0][i] <= 0 and not complete
        rows.append([f"{i + 1}", variance, share, "among the known columns" if among else "yes" if told else NOISE])
    left = len(release.eigenvalues) - len(rows)
    notes = [f"{left} more are in the file."] if left else []
    if floor is not None:
        notes.append(f"Noise floor {floor.value:.3g}: {floor.words}.")
        if any(release.is_resolved(i) and value < floor.value for i, value in enumerate(values)):
            notes.append(
                "That is for the direction with the most noise. A component with a smaller variance can still be clear "
                "of noise, if there is less noise along it."
            )
    if found is None and release.resolved is not None:
        notes.append("Intervals of variances take minutes with this many columns: release.intervals().eigenvalues.")
    judged = release.resolved is not None
    headings = ["component", f"variance{_level(release)}", f"share{_level(release)}"]
    if not judged:
        rows = [row[:3] for row in rows]
        notes.append("Which of them can be distinguished from noise is not known.")
    headings += ["clear of noise"] if judged else []
    return Table("Components", headings, rows, numbers=False, note=" ".join(notes))


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
        return value, interval(found.components[0][i, j], found.components[1][i, j], "+.2f")

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
    largest, names = np.argsort(-np.abs(release.components[i]), kind="stable")[:3], names_of(release)
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
    floor, values, k, d = release.noise_floor, release.eigenvalues, len(release.eigenvalues), release.n_features
    said = "" if floor is None else f" A dashed line marks the noise floor at {floor.value:.3g}."
    known = release.usual_intervals is not None
    caption = "Whiskers: 95% intervals." if known and variance_intervals(release) is not None else "No intervals."
    caption += " Strong colour: released components; weak: from the same measurement." if known and k < d else ""
    caption += " The method states no noise floor." if floor is None else f" Dashed: noise floor {floor.value:.3g}."
    return Picture(
        "scree",
        "Scree plot",
        f"Bar chart of variances by component, from {values[0]:.3g} for the first to {values[-1]:.3g} for "
        f"component {k}.{said}",
        caption,
    )


def _biplot(release: Release) -> Picture:
    names = names_of(release)
    arrows = (release.components[:2] * np.sqrt(np.maximum(release.eigenvalues[:2], 0.0))[:, None]).T
    order = np.argsort(-np.linalg.norm(arrows, axis=1), kind="stable")[:5]
    told = "; ".join(
        f"{short(names[j])} {'right' if arrows[j, 0] >= 0 else 'left'} and {'up' if arrows[j, 1] >= 0 else 'down'}"
        for j in order
    )
    crosses = " Crosses: 95% intervals." if release.usual_intervals is not None else ""
    return Picture(
        "biplot",
        "Biplot",
        "Biplot of components 1 and 2: an arrow for each column over a cloud of synthetic rows. The longest arrows "
        f"point to: {told}.",
        f"Arrows: the loadings on components 1 and 2.{crosses} Points are synthetic: none is a person.",
    )
