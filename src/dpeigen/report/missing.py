"""Missing cells on a card: how many there were, and how they were treated."""

from __future__ import annotations

import numpy as np

from dpeigen._text import clean
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Table, Text, count, short
from dpeigen.sources.wording import codes_text

__all__ = ["SHOWN_ROWS", "about_missing", "few_missing", "most_missing"]

SHOWN_ROWS = 40  # of a table
_IN_WORDS = 30  # most columns that a sentence lists
_NAMED = 10  # most columns that are named for one list of codes


def about_missing(release: Release) -> list[Block]:
    """How many cells were missing, and how they were treated."""
    shares = release.missing_shares
    if shares is None:
        if release.facts.get("missing") != "drop":
            return []
        return [
            Text(
                "Rows with missing or unreadable cells were replaced by the centre. How many is not known. They pull "
                "variances towards 0 and means towards that centre."
            ),
            *_about_codes(release),
        ]
    variables = [(clean(name), float(shares[columns].mean())) for name, columns in release.variables()]
    shown = np.sort(np.argsort([-share for _, share in variables], kind="stable")[:SHOWN_ROWS])
    left = len(variables) - len(shown)
    note = f"{count(left, 'column')} with fewer missing cells: in release.json." if left else ""
    ends = _ends(release)
    rows = [[variables[j][0], f"{100 * variables[j][1]:.1f}%{_in_words(ends[j])}"] for j in shown]
    clear = [row for row, j in zip(rows, shown, strict=True) if (pair := ends[j]) is None or pair[0] > 0]
    most = max((pair[1] for pair in ends if pair is not None and pair[0] <= 0), default=0.0)
    assumed = (
        "Cells may be missing. They are assumed to be missing completely at random: whether a cell is missing does not "
        "depend on any value. If that is wrong, the results describe the cells that are present."
    )
    if few := few_missing(release):
        return [Text(f"{assumed} {few}"), *_about_codes(release)]
    if len(rows) <= _IN_WORDS:
        told = ", ".join(f"{short(name)} {share}" for name, share in clear)
        if len(clear) < len(rows):
            told += f"; every other column below {100 * most:.1f}%, not distinguishable from 0"
        level = ", with 95% intervals" if any(ends) else ""
        return [
            Text(f"{assumed} Missing cells (shares released with noise{level}): {told}."),
            *_about_codes(release),
        ]
    return [
        Text(assumed),
        *_about_codes(release),
        Table("Missing cells", ["column", "share (released, with noise)"], rows, note=note),
    ]


def _about_codes(release: Release) -> list[Block]:
    """Which numbers and dates were declared to stand for missing cells."""
    found: dict[str, list[str]] = {}
    for name, said in (release.columns or {}).items():
        if codes := codes_text(said):
            found.setdefault(codes, []).append(short(clean(name)))
    told = [
        f"{short(codes)} in {', '.join(names[:_NAMED])}{f' and {len(names) - _NAMED} more' if names[_NAMED:] else ''}"
        for codes, names in list(found.items())[:_IN_WORDS]
    ]
    return [Text(f"Declared codes that count as missing: {'; '.join(told)}.")] if told else []


def few_missing(release: Release) -> str:
    """One sentence for all columns, if no share of missing cells can be distinguished from 0; otherwise empty."""
    ends = [pair for pair in _ends(release) if pair is not None]
    if not ends or any(low > 0 for low, _ in ends):
        return ""
    most = f"{100 * max(high for _, high in ends):.1f}%"
    return f"Missing cells: below {most} in every column (95% intervals), not distinguishable from 0."


def most_missing(release: Release) -> str:
    """One sentence: the columns with the largest shares of missing cells; empty if no shares were released."""
    shares, ends = release.missing_shares, _ends(release)
    if shares is None:
        return ""
    if few := few_missing(release):
        return few
    told = [(clean(name), float(shares[columns].mean())) for name, columns in release.variables()]
    clear = [j for j in range(len(told)) if (pair := ends[j]) is None or pair[0] > 0]
    largest = sorted(sorted(clear, key=lambda j: -told[j][1])[:_IN_WORDS])
    words = ", ".join(f"{short(told[j][0])} {100 * told[j][1]:.1f}%{_in_words(ends[j])}" for j in largest)
    rest = [pair[1] for j, pair in enumerate(ends) if pair is not None and j not in largest]
    level = ", with 95% intervals" if any(ends) else ""
    others = f"; every other column below {100 * max(rest):.1f}%" if rest else ""
    return f"Missing cells (shares released with noise{level}): {words}{others}."


def _in_words(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f" ({100 * ends[0]:.1f} to {100 * ends[1]:.1f}%)"


def _ends(release: Release) -> list[tuple[float, float] | None]:
    """The 95% interval of the share of missing cells of each variable; None if there is none."""
    found = None if release.usual_intervals is None else release.usual_intervals.missing_shares
    if found is None:
        return [None for _ in release.variables()]
    low, high = found
    return [(float(low[columns].mean()), float(high[columns].mean())) for _, columns in release.variables()]
