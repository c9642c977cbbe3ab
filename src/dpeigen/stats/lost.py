"""Draws of what clipping rows to a paid radius took from single columns, where their tails are longer than normal ones.

Two things tell of it. Noisy counts of differences show tails of single columns as far as they stand out of the noise
(`stats.tails`). And a paid radius that is long beside the mean square of the rows shows that some rows are much longer
than normal ones are (`stats.clipping`), but not how much longer, nor in which columns. Beyond the radius R, to which a
share p of the rows was clipped, lengths are taken to have a Pareto tail with an exponent α that nothing tells: rows
lose p·R/(α − 1) of their length on average and 2p·R²/(α − 2) of their square. A lognormal column has about such a tail.
Far rows lie along few columns, more likely along those whose fourth moments are large as far as these were seen.

All of that has one sign for variances: clipping makes them smaller. A mean moves against the tail, and which side that
lies on is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.clipping import Clipping

__all__ = ["Lost", "far_rows", "loss_errors", "seen_tails"]

_SHORTEST_TAIL, _LONGEST_TAIL = 0.15, 0.45  # 1/α
_COUNTED = 0.5, 2.0  # times the share that was asked for: rows that a noisy scan leaves outside
_MOST = 1.5  # times the variance inside the radius: what lies beyond it at most
_FEW = 0.7  # shape of the gamma law of what columns have of far rows: less, and they lie along fewer of them
_TOLD_BY_KURTOSIS, _CLEAR_TAIL = 0.6, 4.0  # powers of e that an excess kurtosis of 1 makes long tails likelier by
_USUAL_NOISE = 30.0  # on an excess kurtosis, from which on it tells less
_NOT_FURTHER = 0.2  # chance that rows beyond the radius are not much longer than it
_HIDDEN_TAIL = 0.02  # of the noise on an excess kurtosis
_USUAL_TAIL = 0.25  # excess kurtosis of columns without a long tail, for the share they have in long rows
_UNSEEN = 0.5  # of the noise on what tails lose: most columns have no long tail that noise hides
_NO_TAIL = 0.07  # chance that what seems to be a tail is noise: then nothing was taken
_OF_TAIL = 1.5  # of what clipping seems to have taken from a long tail, at most: cells are half an octave wide
_BESIDE = 1.5  # of what a column loses along its tail, times the deviation of another: what the two lose together


@dataclass(frozen=True, eq=False)
class Lost:
    """Draws × columns: what the mean of each column lost, and its mean square."""

    mean: Floats
    square: Floats

    def __add__(self, other: Lost) -> Lost:
        return Lost(self.mean + other.mean, self.square + other.square)


def seen_tails(tails: Floats, cut: Clipping, draws: int, rng: Generator) -> Lost:
    """What `stats.tails` shows: first and second of them with their noise, six lines of columns."""
    shape = draws, tails.shape[1]
    part, noise = _OF_TAIL * rng.random(size=shape), rng.normal(size=shape)
    part = np.where(rng.random(size=shape) < _NO_TAIL, 0.0, part)
    found = [
        part * np.maximum(tails[at] + _UNSEEN * cut.heavy * noise * tails[at + 1], 0.0) for at in (0, 2)
    ]  # the same rows are clipped in both
    return Lost(found[0], found[1])


def far_rows(
    back: Floats, second: Floats, radius: float, cut: Clipping, kurtosis: tuple[Floats, Floats] | None, rng: Generator
) -> Lost:
    """What rows beyond the radius lost, for columns back·z of clipped rows z with this second moment.

    ``kurtosis`` is that of the columns, as far as it was seen, and its noise.
    """
    draws, d = len(cut.sizes), len(back)
    steps, variances = np.linalg.norm(second @ back.T, axis=0), np.einsum("ij,jk,ik->i", back, second, back)
    per = np.divide(variances, steps, out=np.zeros_like(steps), where=variances > 0)  # a step of far rows, in own units
    exponents = 1 / rng.uniform(_SHORTEST_TAIL, _LONGEST_TAIL, size=draws)
    longer = cut.outside * rng.uniform(*_COUNTED, size=draws) * cut.reached**exponents
    odds, tails = cut.heavy / max(1 - cut.heavy, 1e-9), np.ones((draws, d))
    if kurtosis is not None:
        clear = np.minimum(kurtosis[0], _CLEAR_TAIL) * np.minimum(1.0, _USUAL_NOISE / np.maximum(kurtosis[1], 1e-300))
        odds *= float(np.exp(_TOLD_BY_KURTOSIS * clear.max()))
        tails = _USUAL_TAIL + kurtosis[0] + np.abs(rng.normal(size=(draws, d))) * _HIDDEN_TAIL * kurtosis[1]
    some = longer * (rng.random(draws) < (1 - _NOT_FURTHER) * odds / (1 + odds))
    along = rng.gamma(_FEW, size=(draws, d)) * tails * (per > 0)
    along /= np.maximum(along.sum(axis=1, keepdims=True), 1e-300)
    lengths, squares = some / (exponents - 1) * radius, some * 2 / (exponents - 2) * radius**2
    squares /= 1 + squares / max(_MOST * float(np.trace(second)), 1e-300)
    return Lost(lengths[:, None] * np.sqrt(along) * per, squares[:, None] * along * per**2)


def loss_errors(lost: Lost, covariance: Floats, rng: Generator) -> Floats:
    """Of a covariance whose rows far out in a column were clipped.

    There the other columns lie where that column makes it likely, or anywhere else as far as they do not depend on it:
    columns that are nearly the same stay so.
    """
    first, second = lost.mean, lost.square
    variances = np.maximum(np.diag(covariance), 0.0)
    units = np.where(variances > 0, np.sqrt(variances), 1.0)
    errors = np.zeros((*second.shape, second.shape[1]))
    values, vectors = np.linalg.eigh(covariance / np.outer(units, units))
    others = (rng.normal(size=second.shape) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T * units
    for j in np.flatnonzero(second.any(axis=0)):
        along = covariance[j] / max(float(covariance[j, j]), float(second[:, j].mean()))
        along[j] = 1.0
        cross = _BESIDE * first[:, j, None] * (others - others[:, j, None] * along)
        cross[:, j] = 0.0
        cross += second[:, j, None] * along / 2
        errors += cross[:, :, None] * along + cross[:, None, :] * along[:, None]
    return errors
