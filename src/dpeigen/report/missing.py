"""Missing cells on a card: how many there were, and how they were treated."""

from __future__ import annotations

import numpy as np

from dpeigen._text import clean
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Table, Text, count, short
from dpeigen.sources.wording import codes_text

__all__ = ["SHOWN_ROWS", "about_missing"]

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
    rows = [[variables[j][0], f"{100 * variables[j][1]:.1f}%{ends[j]}"] for j in shown]
    assumed = (
        "Cells may be missing. They are assumed to be missing completely at random: whether a cell is missing does not "
        "depend on any value. If that is wrong, the results describe the cells that are present."
    )
    if len(rows) <= _IN_WORDS:
        told = ", ".join(f"{short(name)} {share}" for name, share in rows)
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


def _ends(release: Release) -> list[str]:
    """The 95% interval of the share of missing cells of each variable, as text; empty if there is none."""
    found = None if release.usual_intervals is None else release.usual_intervals.missing_shares
    if found is None:
        return ["" for _ in release.variables()]
    low, high = found
    means = [(float(low[columns].mean()), float(high[columns].mean())) for _, columns in release.variables()]
    return [f" ({100 * least:.1f} to {100 * most:.1f}%)" for least, most in means]
