"""Columns on a card: their names, their scales, and which are unknown; and the text of intervals."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpeigen._text import number_text
from dpeigen._types import Floats
from dpeigen.methods.columns import NO_CELLS, NOTHING_SEEN
from dpeigen.privacy import Guarantee
from dpeigen.privacy.guarantee import MIXED
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Text, clean, short
from dpeigen.report.missing import SHOWN_ROWS

__all__ = [
    "MOST_CELLS",
    "MOST_COMPONENTS",
    "about_columns",
    "about_uncertain",
    "correlations",
    "interval",
    "largest_columns",
    "named_remarks",
    "names_of",
    "share_interval",
    "unknown_columns",
    "unscaled_columns",
    "why_unknown",
    "widest_columns",
    "without_units",
]

MOST_COMPONENTS = 8  # in a table or a heat map
MOST_CELLS = 30  # columns of a heat map of correlations
_MOST_ORDINAL = 8
_IN_UNITS = {
    "pca": "Components, loadings and variances are those of the scaled columns.",
    "covariance": "Centres and standard deviations are in the columns' own units; variances along components are those "
    "of the scaled columns.",
    "ridge": "Coefficients are in the columns' own units.",
}


def names_of(release: Release) -> list[str]:
    """Names of the columns as they may be shown."""
    return [clean(name) for name in release.labels]


def without_units(names: list[str]) -> list[str]:
    """Names without the unit in brackets, if they still differ from each other.

    >>> without_units(["height (cm)", "crp (log mg/l)", "crp (mg/l)"])
    ['height', 'crp (log mg/l)', 'crp (mg/l)']
    """
    bare = [re.sub(r" \([^()]*\)$", "", name) for name in names]
    return [one if bare.count(one) == 1 else name for one, name in zip(bare, names, strict=True)]


def largest_columns(release: Release, most: int) -> NDArray[np.intp]:
    """The columns with the largest loadings among the components shown, in the order of the table."""
    weight = np.abs(release.components[:MOST_COMPONENTS]).max(axis=0)
    return np.sort(np.argsort(-weight, kind="stable")[:most])


def widest_columns(release: Release, most: int) -> NDArray[np.intp]:
    """The columns with the largest variances, in the order of the table."""
    return np.sort(np.argsort(-np.diag(release.covariance), kind="stable")[:most])


def correlations(release: Release) -> Floats:
    """The correlation matrix of the released covariance; 0 for columns with variance 0."""
    matrix = release.correlation
    np.fill_diagonal(matrix, (np.diag(release.covariance) > 0).astype(float))
    return matrix


def unscaled_columns(release: Release) -> set[int]:
    """Indices of columns about which nothing is known; uncertain ones have a centre and a standard deviation."""
    return set((release.facts.get("details") or {}).get("columns_without_scale") or [])


def unknown_columns(release: Release) -> list[int]:
    """Indices of columns without known correlations and loadings."""
    return sorted(unscaled_columns(release).union(release.uncertain_columns))


def why_unknown(release: Release) -> str:
    """Which columns have no known correlations and loadings, and why, as a clause; empty if there are none."""
    unscaled, uncertain = sorted(unscaled_columns(release)), release.uncertain_columns
    said = [f"{_names(release, unscaled)} could not be measured"] if unscaled else []
    said += [f"the variance of {_names(release, uncertain)} is too uncertain"] if uncertain else []
    return ", and ".join(said)


def about_uncertain(release: Release) -> str:
    """What is known of columns whose variance is too uncertain for correlations; empty if there are none."""
    uncertain = release.uncertain_columns
    if not uncertain:
        return ""
    what = "Its centre and standard deviation are" if len(uncertain) == 1 else "Centres and standard deviations are"
    return (
        f"The variance of {_names(release, uncertain)} is too uncertain for correlations and loadings: it is less than "
        f"three times its error. {what} known."
    )


def about_columns(release: Release) -> list[Block]:
    """What the columns were divided by, and about which of them nothing is known."""
    said: list[Block] = []
    if release.scale is not None:
        public = release.estimand == "covariance of columns in public units"
        by = "by a public number" if public else "by its released standard deviation"
        if release.estimand == MIXED:
            by += ", and indicators of categories by the square root of their released frequency"
        said.append(Text(f"First, every column was divided {by}. {_IN_UNITS.get(release.kind, _IN_UNITS['pca'])}"))
    if ordinal := _ordinal(release):
        said.append(Text(ordinal))
    unscaled, reasons = unscaled_columns(release), release.unknown_columns
    for reason in dict.fromkeys(reasons[release.feature_names[j]] for j in sorted(unscaled)):
        which = _names(release, [j for j in sorted(unscaled) if reasons[release.feature_names[j]] == reason])
        said.append(Text(f"Nothing is known about {which}: {reason}. A 0 there means nothing."))
    if uncertain := about_uncertain(release):
        said.append(Text(uncertain))
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


def _names(release: Release, columns: list[int]) -> str:
    """Labels of these columns."""
    names = names_of(release)
    return ", ".join(short(names[j]) for j in columns[:SHOWN_ROWS]) + (", …" if len(columns) > SHOWN_ROWS else "")


def named_remarks(release: Release) -> Guarantee:
    """The guarantee with names of columns in its remarks; a method knows only their indices."""
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


def interval(low: float, high: float, form: str = "") -> str:
    """An interval as text: in a format with a number of digits, or with as many digits as its length supports.

    >>> interval(0.1, 0.25), interval(-float("inf"), 3.0), interval(-float("inf"), float("inf"))
    ('0.10 to 0.25', 'at most 3', 'not known')
    >>> interval(0.1, 0.25, "+"), interval(0.1, 0.25, ".1f")
    ('+0.10 to +0.25', '0.1 to 0.2')
    """
    low, high = float(low), float(high)
    if np.isinf(low) and np.isinf(high):
        return "not known"
    ends = (low, high)
    first, last = (f"{end:{form}}" if form.strip("+") else number_text(end, ends, form) for end in ends)
    if np.isinf(high):
        return f"at least {first}"
    return f"at most {last}" if np.isinf(low) else f"{first} to {last}"


def share_interval(low: float, high: float) -> str:
    """The interval of a share as text; a share is at most 100%.

    >>> share_interval(0.1, 0.25), share_interval(0.0, float("inf"))
    ('10.0 to 25.0%', 'not known')
    """
    low, high = max(low, 0.0), min(high, 1.0)
    return "not known" if low <= 0 and high >= 1 else f"{100 * low:.1f} to {100 * high:.1f}%"
