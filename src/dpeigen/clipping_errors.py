"""What clipping rows to a radius took from the moment of a release: a correction, and how uncertain it is.

Post-processing: a function of the release. `stats.clipping` models whole rows, `stats.lost` what single columns lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpeigen._types import Floats
from dpeigen.methods.auto import stands_in
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.clipping import MAY_BE_LONG, Clipping, clipping
from dpeigen.stats.intervals import gaussian_errors
from dpeigen.stats.lost import LINES, Lost, far_rows, seen_tails, shared_losses, skewed_losses, unseen_rows

if TYPE_CHECKING:
    from dpeigen.release import Release
    from dpeigen.stats.measured import Measured

__all__ = ["clipping_doubt", "estimated_clipping", "is_sized", "lost_from_columns"]

# Uncertainty of the correction for clipping, relative to it: of a factor common to all directions, and of each
# direction; then the latter if more rows were clipped on purpose, because a larger paid radius bounds most of them.
# With 0, 0.4 and 0.2, entries had wider intervals, and the worst eigenvalues were covered less
# (`benchmarks/FURTHER.md`).
_DOUBT_OF_ALL, _DOUBT, _DOUBT_ON_PURPOSE = 0.5, 0.25, 0.12
_FULL = 0.8  # of the squared radius: with a larger mean square nearly all rows were clipped, and their size is unknown
_NEARLY = 0.92  # the same if a larger radius was paid for, which few rows exceed: it shows how long they are


def estimated_clipping(measured: Measured, values: Floats, draws: int, rng: Generator) -> Clipping:
    """The effect of clipping on rows with these eigenvalues, by the paid radius and the rows it leaves outside."""
    outside = None
    if measured.outside is not None:
        outside = min(measured.outside / measured.terms, 0.5), measured.outside_scale / measured.terms
    return clipping(values, measured.radius, outside, draws, rng, measured.outside_radius)


def is_sized(measured: Measured, total: float) -> bool:
    """Whether not all rows with this mean square were clipped; few rows exceed a paid radius."""
    area, furthest = measured.radius**2, max(measured.radius, measured.outside_radius or 0.0) ** 2
    return total < _FULL * area or (total < _NEARLY * area and total < _FULL * furthest)


def clipping_doubt(vectors: Floats, levels: Floats, cut: Clipping, draws: int, rng: Generator) -> Floats:
    """Errors of the correction for clipping, which rests on a model."""
    lost, part = np.maximum(1 - 1 / cut.gains, 0.0), _DOUBT_ON_PURPOSE if cut.on_purpose else _DOUBT
    scale = np.sqrt(np.maximum(levels, 0.0) * part * lost)
    errors = gaussian_errors(len(levels), draws, 1.0, rng) * np.outer(scale, scale)
    index, common = np.arange(len(levels)), _DOUBT_OF_ALL * rng.normal(size=(draws, 1))
    errors[:, index, index] -= (cut.sizes - 1 + common * lost) * levels
    return np.asarray(vectors @ errors @ vectors.T)


def lost_from_columns(
    release: Release, measured: Measured, vectors: Floats, values: Floats, cut: Clipping, draws: int, rng: Generator
) -> tuple[Lost | None, Floats | None]:
    """What clipping took from single columns, as far as the release shows it; and the total taken from their means."""
    if measured.beyond is not None and stands_in(release.choice):
        second = measured.back @ ((vectors * values) @ vectors.T) @ measured.back.T
        return unseen_rows(measured.beyond, np.diag(second), draws, rng), None
    if measured.outside is None or measured.kind == "signs":
        return None, None
    tails, second = measured.tails, (vectors * values) @ vectors.T
    if measured.present is not None:  # rows with missing cells are shorter, so others seem long
        cut = replace(cut, heavy=min(cut.heavy, MAY_BE_LONG))
    if tails is None:
        return None, far_rows(measured.back, second, measured.radius, cut, None, rng)[0].mean
    if len(tails) == LINES:
        seen = skewed_losses(tails, draws, rng)
    else:  # a release of an earlier version
        seen = shared_losses(measured.back, second, values, measured.radius, cut, tails, rng)
    seen = seen.or_more(seen_tails(tails, cut.heavy, draws, rng))
    far, long = far_rows(measured.back, second, measured.radius, cut, (tails[4], tails[5]), rng)
    return seen.or_more(Lost(far.mean * long, far.square * long)), seen.or_more(far).mean
