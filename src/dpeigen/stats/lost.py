"""Draws of what clipping rows to a paid radius took from single columns whose tails are longer than normal.

There are three sources of information. Noisy counts of differences show the tails of single columns, as far as they
exceed the noise (`stats.tails`). The shape of the counts shows which columns are skewed (`stats.column_laws`). And a
paid radius that is large compared with the mean square of the rows shows that some rows are much longer than normal
rows (`stats.clipping`), but not how much longer, nor in which columns.

Clipping reduces variances. It moves a mean away from the tail, and the side of the tail is unknown. For means, norms
beyond the radius R, to which a share p of the rows was clipped, are assumed to have a Pareto tail with an unknown
exponent α: rows lose p·R/(α − 1) of their norm on average. A lognormal column has roughly such a tail. Far rows are
far out in few columns, more likely in those with large estimated fourth moments. Their squared norms lose
2p·R²/(α − 2); this is only assumed for columns whose counts show a long tail. If rows are clipped at less than the
measured radius A, the tail begins at A, since the count was taken there: rows beyond it lose A − R more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betainc

from dpeigen._types import Floats
from dpeigen.privacy.randomness import Generator
from dpeigen.stats.clipping import Clipping
from dpeigen.stats.column_laws import SKEWED

__all__ = ["LINES", "Lost", "far_rows", "loss_errors", "seen_tails", "shared_losses", "skewed_losses", "unseen_rows"]

LINES = 10  # of tails, with those of `stats.column_laws`; files of earlier versions have 6
_SHORTEST_TAIL, _LONGEST_TAIL = 0.15, 0.42  # 1/α
_COUNTED = 0.5, 2.0  # times the share that was asked for: limits for the rows that a noisy scan leaves outside
_LONG_SQUARES = 1.5, 3.5  # excess kurtosis from which variances may have lost far rows, and from which they surely may
_MOST_TAIL = 8.0  # limit for an excess kurtosis: rare indicators have more but are not far out
_LEAST_EXPONENT = 2.8  # least α for what variances lose
_FEW = 0.7  # shape of the gamma law of the columns' parts in far rows: the smaller, the fewer columns they lie along
_TOLD_BY_KURTOSIS, _CLEAR_TAIL = 0.6, 4.0  # log odds of long tails per unit of excess kurtosis; the most that counts
_USUAL_NOISE = 30.0  # on an excess kurtosis, above which it is less informative
_NOT_FURTHER = 0.25  # probability that rows beyond the radius are not much longer than it
_HIDDEN_TAIL = 0.02  # part of the noise on an excess kurtosis that is added to it
_USUAL_TAIL = 0.25  # excess kurtosis of columns without a long tail, for their part in long rows
_UNSEEN = 0.5  # of the noise on what tails lose: most columns have no long tail hidden by noise
_STANDS_OUT, _HIDDEN = 2.0, 0.1  # noise deviations; probability of a hidden tail if no row is longer than normal rows
_NO_TAIL = 0.07  # probability that an apparent tail is noise, so that nothing was lost
_OF_TAIL = 1.5  # the most that was lost from a long tail, relative to the estimate: cells are half an octave wide
_MUCH_MORE, _LONG_TAIL = 5.0, 1.5  # factor on the part that its own kurtosis adds to a column, relative to one of 1.5
_MORE = 1.5  # the largest ratio of a column's part in the loss to its part in all fourth moments
_MOST_OF_MEAN = 0.15  # the most that a mean lost, in deviations, for what two columns lose together
_AGAIN, _MOST_OF_IT = 1.5, 0.75  # times a measured variance: the most that was lost; and of the whole
_LONG_TAILS = 0.5  # probability of tails that nothing shows, where signs replace the covariance
# Shares of skewed columns, and their prior probabilities: beta(0.2, 0.8), by which most tables have nearly none or
# nearly only such columns.
_EDGES = np.linspace(0.0, 1.0, 65)
_SHARES, _SHARE_WEIGHTS = (_EDGES[1:] + _EDGES[:-1]) / 2, np.diff(betainc(SKEWED, 1 - SKEWED, _EDGES))
_SURELY_NOT = 1e-6  # least probability that a column is skewed, and that it is not
_BESIDE = 1.5  # factor on a column's loss along its tail times the deviation of another: what both lose together


@dataclass(frozen=True, eq=False)
class Lost:
    """What the mean and the mean square of each column lost: draws × columns."""

    mean: Floats
    square: Floats

    def or_more(self, other: Lost) -> Lost:
        """The larger of two estimates: both are of what the same rows lost, so adding them would count it twice."""
        return Lost(np.maximum(self.mean, other.mean), np.maximum(self.square, other.square))


def seen_tails(tails: Floats, heavy: float, draws: int, rng: Generator) -> Lost:
    """What the counts show (`stats.tails`: six lines of columns; first and second moments of tails, with their noise).

    The less ``heavy`` rows are by the paid radius, the less likely is a tail that does not exceed its noise.
    """
    shape = draws, tails.shape[1]
    part, noise = _OF_TAIL * rng.random(size=shape), rng.normal(size=shape)
    unlikely = (1 - _HIDDEN) * max(1 - 2 * heavy, 0.0)
    none = np.where(tails[2] > _STANDS_OUT * tails[3], _NO_TAIL, np.maximum(unlikely, _NO_TAIL))
    part = np.where(rng.random(size=shape) < none, 0.0, part)
    found = [
        part * np.maximum(tails[at] + _UNSEEN * noise * tails[at + 1], 0.0) for at in (0, 2)
    ]  # the same rows are clipped in both
    return Lost(found[0], found[1])


def skewed_losses(tails: Floats, draws: int, rng: Generator) -> Lost:
    """What columns lost according to the shape of their counts (`stats.column_laws`): the last lines of ``tails``.

    A column either is skewed, and lost this, or is not, and lost nothing: there is one probability and one loss that
    have the given mean and deviation. Tables have columns of few kinds, so the share of skewed columns is not known
    beforehand, and each column says something about the others.
    """
    shape = draws, tails.shape[1]
    squares = tails[8] ** 2 + tails[9] ** 2
    likely = np.divide(tails[8] ** 2, squares, out=np.full_like(squares, SKEWED), where=squares > 0)
    likely = np.clip(likely, _SURELY_NOT, 1 - _SURELY_NOT)
    odds = likely / (1 - likely) * (1 - SKEWED) / SKEWED  # by the counts of this column alone
    logs = np.log(_SHARE_WEIGHTS) + np.log(_SHARES[:, None] * odds + 1 - _SHARES[:, None]).sum(axis=1)
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    drawn = _SHARES[np.minimum(np.searchsorted(np.cumsum(weights), rng.random(draws)), len(_SHARES) - 1), None]
    skewed = rng.random(shape) < drawn * odds / (drawn * odds + 1 - drawn)
    part = _OF_TAIL * rng.random(size=shape) * skewed / likely
    return Lost(part * tails[6], part * tails[8])


def shared_losses(
    back: Floats, second: Floats, values: Floats, radius: float, cut: Clipping, tails: Floats, rng: Generator
) -> Lost:
    """The parts of single columns in what clipping took from all rows, with ``tails`` as for `seen_tails`.

    The model of elliptical rows (`stats.clipping`) gives the total, in proportion for all columns; ``values`` are the
    eigenvalues of the second moment. Columns with long tails make rows long, so they have a larger part in it, in
    proportion to their estimated fourth moments; less so if no row is longer than normal rows.
    """
    squares, lengths = (cut.gains * cut.sizes - 1) @ values, cut.shortened * radius
    per, variances = _steps(back, second)
    usual = np.divide(variances, per**2, out=np.zeros_like(per), where=per > 0)
    usual /= max(float(usual.sum()), 1e-300)
    drawn = np.maximum(tails[4] + rng.normal(size=(len(squares), len(back))) * _UNSEEN * tails[5], 0.0)
    more = np.maximum(_MORE * _in_all((_USUAL_TAIL + drawn) * usual**2) - usual, 0.0)
    plain, seen = _in_all(usual**2), _in_all((1 + tails[4] / _LONG_TAIL) * usual**2)
    more = np.maximum(more, _MUCH_MORE * (seen - plain)) * min(_HIDDEN + 2 * cut.heavy, 1.0)
    return Lost(more * lengths * per, more * np.maximum(squares, 0.0)[:, None] * per**2)


def far_rows(
    back: Floats, second: Floats, radius: float, cut: Clipping, kurtosis: tuple[Floats, Floats] | None, rng: Generator
) -> tuple[Lost, Floats]:
    """What rows far beyond the radius lost, for columns back·z of clipped rows z; and how far this holds for variances.

    ``kurtosis``: the estimated kurtosis of the columns, and its noise. Variances are only assumed to have lost it in
    columns whose fourth moments are clearly larger than those of exponential columns: others have shorter tails. What
    long rows explain (`stats.clipping`) does not count: that part of the loss is corrected and in the uncertainty.
    """
    draws, d = len(cut.sizes), len(back)
    per, _ = _steps(back, second)
    exponents = 1 / rng.uniform(_SHORTEST_TAIL, _LONGEST_TAIL, size=draws)
    start = max(cut.reached, 1.0)  # in radii: the tail begins where the paid count was taken, or at the radius
    longer = cut.outside * rng.uniform(*_COUNTED, size=draws) * min(cut.reached, 1.0) ** exponents
    odds, tails, long = cut.heavy / max(1 - cut.heavy, 1e-9), np.ones((draws, d)), np.zeros(d)
    if kurtosis is not None:
        clear = np.minimum(kurtosis[0], _CLEAR_TAIL) * np.minimum(1.0, _USUAL_NOISE / np.maximum(kurtosis[1], 1e-300))
        odds *= float(np.exp(_TOLD_BY_KURTOSIS * clear.max()))
        tails = (
            _USUAL_TAIL
            + np.minimum(kurtosis[0], _MOST_TAIL)
            + np.abs(rng.normal(size=(draws, d))) * _HIDDEN_TAIL * kurtosis[1]
        )
        own = kurtosis[0] - float((3 * cut.common).mean())
        long = np.clip((own - _LONG_SQUARES[0]) / np.ptp(_LONG_SQUARES), 0.0, 1.0)
    some = longer * (rng.random(draws) < (1 - _NOT_FURTHER) * odds / (1 + odds))
    along = _in_all(rng.gamma(_FEW, size=(draws, d)) * tails * (per > 0))
    lengths = some * (start / (exponents - 1) + start - 1) * radius
    squares = some * (2 * start**2 / (np.maximum(exponents, _LEAST_EXPONENT) - 2) + start**2 - 1) * radius**2
    return Lost(lengths[:, None] * np.sqrt(along) * per, squares[:, None] * along * per**2), long


def unseen_rows(beyond: Floats, variances: Floats, draws: int, rng: Generator) -> Lost:
    """What rows beyond a radius lost if no counts show the tails of columns (signs in place of the covariance).

    ``beyond``: see `Measured`. Nobody declared these rows elliptical, so half of the draws have long tails in a few
    columns, with the exponents of `far_rows`. Columns with a large part in the norms of rows are more likely.
    """
    exponents = np.maximum(1 / rng.uniform(_SHORTEST_TAIL, _LONGEST_TAIL, size=draws), _LEAST_EXPONENT)
    some = rng.uniform(*_COUNTED, size=draws) * (rng.random(draws) < _LONG_TAILS) * 2 / (exponents - 2)
    parts = np.divide(np.maximum(variances, 0.0), beyond, out=np.zeros_like(beyond), where=beyond > 0)
    squares = some[:, None] * _in_all(rng.gamma(_FEW, size=(draws, len(beyond))) * parts) * beyond
    return Lost(np.zeros_like(squares), squares)


def _steps(back: Floats, second: Floats) -> tuple[Floats, Floats]:
    """For each column, the effect of a step of 1 along its far rows, in its own units; and its variance."""
    lengths, variances = np.linalg.norm(second @ back.T, axis=0), np.einsum("ij,jk,ik->i", back, second, back)
    return np.divide(variances, lengths, out=np.zeros_like(lengths), where=variances > 0), variances


def _in_all(parts: Floats) -> Floats:
    """The parts divided by their sum."""
    return np.asarray(parts / np.maximum(parts.sum(axis=-1, keepdims=True), 1e-300))


def loss_errors(lost: Lost, covariance: Floats, rng: Generator) -> Floats:
    """Errors of a covariance from which clipping took rows far out in single columns.

    In such rows the other columns have a random fraction of the values that a linear relation makes likely, because
    relations need not be linear in the tail, plus a random part that does not depend on this column. The fraction is
    close to 1 for columns with a correlation close to 1, so columns that are nearly equal stay so.
    """
    variances = np.maximum(np.diag(covariance), 0.0)
    whole = variances + np.minimum(lost.square.max(axis=0), _AGAIN * variances)  # so that a part of it is left
    first, second = np.minimum(lost.mean, _MOST_OF_MEAN * np.sqrt(whole)), np.minimum(lost.square, _MOST_OF_IT * whole)
    units = np.where(variances > 0, np.sqrt(variances), 1.0)
    errors = np.zeros((*second.shape, second.shape[1]))
    values, vectors = np.linalg.eigh(covariance / np.outer(units, units))
    others = (rng.normal(size=second.shape) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T * units
    along = covariance / np.maximum(np.maximum(variances, second.mean(axis=0)), 1e-300)[:, None]
    np.fill_diagonal(along, 1.0)
    apart = 1 - np.minimum((covariance / np.outer(units, units)) ** 2, 1.0)  # of a variance, not explained by another
    np.fill_diagonal(apart, 0.0)
    # Correlated columns are long in the same rows: what one of them lost is part of what the others lost.
    own = np.divide(second, second @ (along**2 / (1 + 2 * apart)), out=np.zeros_like(second), where=second > 0)
    first, second = first * own, second * own
    for j in np.flatnonzero(second.any(axis=0)):
        slopes = along[j] * rng.random((len(second), 1)) ** apart[j]  # with squares of 1/(1 + 2·apart) on average
        cross = _BESIDE * first[:, j, None] * (others - others[:, j, None] * along[j])
        cross[:, j] = 0.0
        cross += second[:, j, None] * slopes / 2
        errors += cross[:, :, None] * slopes[:, None, :] + cross[:, None, :] * slopes[:, :, None]
    return errors
