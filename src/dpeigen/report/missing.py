"""Missing cells on a card: how many there were, and how they were treated."""

from __future__ import annotations

import numpy as np

from dpeigen._text import clean
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Table, Text, count, short

__all__ = ["SHOWN_ROWS", "about_missing"]

SHOWN_ROWS = 40  # of a table
_IN_WORDS = 30  # most columns that a sentence lists


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
            )
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
        return [Text(f"{assumed} Missing cells (shares released with noise{level}): {told}.")]
    return [
        Text(assumed),
        Table("Missing cells", ["column", "share (released, with noise)"], rows, note=note),
    ]


def _ends(release: Release) -> list[str]:
    """The 95% interval of the share of missing cells of each variable, as text; empty if there is none."""
    found = None if release.usual_intervals is None else release.usual_intervals.missing_shares
    if found is None:
        return ["" for _ in release.variables()]
    low, high = found
    means = [(float(low[columns].mean()), float(high[columns].mean())) for _, columns in release.variables()]
    return [f" ({100 * least:.1f} to {100 * most:.1f}%)" for least, most in means]
