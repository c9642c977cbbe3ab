"""A warning if many rows were clipped: from released counts only, so it costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpeigen._text import clean, short

if TYPE_CHECKING:
    from dpeigen.release import Release

__all__ = ["MANY", "clipped_share", "clipped_warning", "cut_columns", "foreseen_clipping", "long_columns"]

MANY = 0.03  # of the rows
_FEW = 0.005  # of the rows: enough to change variances that come from rare large values
_LONG = 1.5  # an excess kurtosis, by the noisy counts that gave the scales
# The same for a warning. 1 of 108 releases of normal rows exceeded it, and 10% exceeded 1.5; of 36 releases of
# exponential rows 97% did (three shapes from 5,000×6 to 50,000×15, ε = 1 and 2; raw, in public and in private units).
_TOLD = 2.5
_NAMED = 5


def clipped_share(release: Release) -> float | None:
    """The share of rows that may have been clipped, as far as released counts show it; None if they do not."""
    measured = release.measured
    return None if measured is None or measured.kind == "signs" else measured.clipped


def long_columns(release: Release, least: float = _LONG) -> list[int]:
    """Columns with rare large values, as far as released counts show them; the longest tails first.

    ``least``: the least excess kurtosis of such a column.
    """
    measured = release.measured
    if measured is None or measured.tails is None:
        return []
    tails = np.where(release.is_flag | ~measured.back.any(axis=1), 0.0, measured.tails[4])
    return [int(j) for j in np.argsort(-tails, kind="stable") if tails[j] > least]


def cut_columns(release: Release) -> list[int]:
    """Columns from which clipping may have taken much, if so many rows were clipped; the longest tails first."""
    return long_columns(release) if (clipped_share(release) or 0.0) > _FEW else []


def clipped_warning(release: Release, *, coefficients: bool = False) -> str | None:
    """What to know, and what to do, if more than 3% of the rows may have been clipped.

    If released counts show a column with rare large values, 0.5% are enough. ``coefficients``: whether to speak of
    those of regressions too; a release of a regression always does.
    """
    share = clipped_share(release)
    if share is None or share <= _FEW:
        return None
    found, columns = long_columns(release, _TOLD), release.columns or {}
    if share <= MANY and not found:
        return None
    coefficients = coefficients or release.kind == "ridge"
    many = f"About {100 * share:.2g}% of the rows may have been clipped. "
    further = " without a transform" if any(said.transform for said in columns.values()) else ""
    if not found and release.measured is not None and release.measured.tails is not None:
        return (
            f"{many}This share follows from ε and the number of rows. The released counts show no column with rare "
            "large values, but they show only what stands out of the noise. If there is one, its variance is too small "
            f"and its mean is shifted{', as are coefficients' if coefficients else ''}, perhaps by more than their "
            f"intervals say. {_remedy(further)}"
        )
    names = [short(clean(release.labels[j])) for j in found[:_NAMED]]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    which = (
        f"Released counts show such values most clearly in {', '.join(names)}{more}."
        if names
        else "The released counts do not show which columns these are."
    )
    return (
        f"{many}In columns with rare large values this makes variances too small and shifts means"
        f"{' and coefficients' if coefficients else ''}, perhaps by more than their intervals say. {which} "
        f"{_remedy(further)}"
    )


def foreseen_clipping(share: float | None) -> str | None:
    """The same before a release, for the share that follows from public facts; None for a small one."""
    if share is None or share <= MANY:
        return None
    return (
        f"About {100 * share:.2g}% of the rows would be clipped to a private radius. Results allow for that, except in "
        f"columns with rare large values (costs, laboratory values): their variances come out too small. {_remedy('')}"
    )


def _remedy(further: str) -> str:
    return (
        f'For amounts and counts{further} declare transform = "log" (always above 0) or "log1p" (may be 0). A flag of '
        '0 and 1 needs no transform: declare type = "bool" or its two levels, which bounds its mean and variance. '
        "More rows or a larger ε clip fewer rows."
    )
