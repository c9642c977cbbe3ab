"""What clipping took from the rows far outside the radius, by noisy counts of them (`questions.far_rows`).

Guarantee: one question is asked; everything else is post-processing.

Rows Tz are clipped to a radius R in the last moment of `whitened`. A cell gives two entries of a row z up to a factor.
If even the row with the shortest image Tz in the cell is outside the radius, all rows in it were clipped: to their box,
then to the radius. Each of them is replaced by one row z: the two entries are those of the middle of the cell, and the
others are predicted from them by the rough moment behind T, times the share of their variance that it explains (R²).
What holds for most rows need not hold so far out, so columns that are weakly related to those two are left near 0, and
no entry exceeds the second largest or the paid reach of its column. Let y be what clipping leaves of z. Then the mean
of zzᵀ has lost (zzᵀ − yyᵀ)/n for each row in the cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Bools, Floats
from dpeigen.curator import Curator, Purpose
from dpeigen.methods.moment.last_view import LastView, Looked
from dpeigen.privacy import Cost
from dpeigen.questions import FarRows
from dpeigen.stats import Frame
from dpeigen.stats.far_rows import HALF_RATIO, HALF_SIZE, LEAST_RATIO, FarCell, describe
from dpeigen.stats.frame import LARGEST_FACT

__all__ = ["COUNTED", "Counted", "ask_far_rows"]

# Relative deviations of the squares of sizes that are uniform, on a logarithmic scale, in a cell: a quarter octave for
# the largest entry, and half an octave more for the second.
_OF_SIZE, _OF_SECOND = 2 * math.log(HALF_SIZE**2) / math.sqrt(12), 2 * math.log(HALF_RATIO**2) / math.sqrt(12)

COUNTED = (
    "Rows far outside the radius were counted by their two largest entries and added to the covariance. Their sizes "
    "are known to about 10%."
)


@dataclass(frozen=True)
class Counted:
    """What clipping took from the mean of zzᵀ over framed rows, and vectors k: its error is Σ g·kkᵀ, g standard normal.

    Sizes of rows in one cell differ independently.
    """

    lost: Floats  # d × d
    doubt: Floats  # any number × d


def ask_far_rows(curator: Curator, looked: Looked, last: LastView, cost: Cost) -> Counted:
    """Counts of the rows far outside the last radius, and what they add to the moment."""
    shape = last.back @ last.back.T  # the inverse of TᵀT
    frame, unit = looked.frame, math.sqrt(2) / (last.reach * np.sqrt(np.diag(shape)))
    question = FarRows(_without_box(frame, unit, looked.columns.known))
    counts = curator.measure(question, purpose=Purpose.FAR_ROWS, cost=cost)
    reach = np.full(frame.n_features, np.inf) if looked.columns.reach is None else looked.columns.reach / frame.unit
    found, lost, doubt = np.flatnonzero(counts > 0), np.zeros_like(shape), [np.zeros((0, frame.n_features))]
    for cell, count in zip(describe(found, frame.n_features), counts[found].tolist(), strict=True):
        row = _typical_row(cell, unit, shape, reach, last)
        if row is not None:
            left = _clipped(row, frame, last)
            lost += count * (np.outer(row, row) - np.outer(left, left))
            doubt.append(_doubt(cell, row) * count**0.25)
    return Counted(lost / looked.count, np.concatenate(doubt) / math.sqrt(looked.count))


def _doubt(cell: FarCell, row: Floats) -> Floats:
    """Vectors k for one row of a cell: its whole size, and its second entry."""
    vectors = math.sqrt(_OF_SIZE) * row[None]
    if cell.second is None:
        return vectors
    second = math.sqrt(_OF_SECOND) * row * (np.arange(len(row)) == cell.second)
    return np.concatenate([vectors, second[None]])


def _without_box(frame: Frame, unit: Floats, known: Bools) -> Frame:
    """Rows in which an entry is 1 if the shortest row with it and one more like it is as long as the radius."""
    center = np.zeros(frame.n_features) if frame.center is None else frame.center
    weights = unit if frame.weights is None else unit * frame.weights
    box = np.where(known, -LARGEST_FACT, center), np.where(known, LARGEST_FACT, center)
    return Frame(frame.n_features, center, weights, box, missing=frame.missing)


def _typical_row(cell: FarCell, unit: Floats, shape: Floats, reach: Floats, last: LastView) -> Floats | None:
    """The framed row that stands for a cell; None if some rows in the cell may be inside the radius."""
    columns, sizes, least = [cell.first], [cell.size], [cell.size / HALF_SIZE]
    if cell.second is not None:
        second = cell.size * cell.ratio * (1 if cell.same_sign else -1)
        columns, sizes, least = [*columns, cell.second], [*sizes, second], [*least, second / HALF_SIZE / HALF_RATIO]
    inside = shape[np.ix_(columns, columns)]
    if np.linalg.matrix_rank(inside, hermitian=True) < len(columns):
        return None
    low = np.array(least) / unit[columns]
    if math.sqrt(max(0.0, float(low @ np.linalg.solve(inside, low)))) < last.reach:
        return None
    coefficients = np.linalg.solve(inside, shape[columns]).T  # of all columns on those described
    predicted = coefficients @ (np.array(sizes) / unit[columns])
    row = np.asarray(_explained(coefficients, shape[columns], np.diag(shape)) * predicted)
    second = cell.ratio if cell.second is not None else LEAST_RATIO
    most = np.minimum(cell.size * second / unit, reach)  # no other entry is larger
    others = np.isin(np.arange(len(row)), columns, invert=True)
    row[others] = np.clip(row, -most, most)[others]
    return row


def _explained(coefficients: Floats, moments: Floats, variances: Floats) -> Floats:
    """The share of the variance of each column that a regression explains (R²); 1 for the regressors."""
    return np.asarray(np.einsum("ij,ji->i", coefficients, moments) / variances)


def _clipped(row: Floats, frame: Frame, last: LastView) -> Floats:
    """What is left of a framed row after clipping to its box and to the radius."""
    if frame.box is not None:
        center = 0.0 if frame.center is None else frame.center
        weights = 1.0 if frame.weights is None else frame.weights
        row = np.clip(row, (frame.box[0] - center) * weights, (frame.box[1] - center) * weights)
    length = float(np.linalg.norm(np.linalg.solve(last.back, row)))
    return row * min(1.0, last.reach / max(length, 1e-300))
