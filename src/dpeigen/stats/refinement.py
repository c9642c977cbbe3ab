"""Directions from several noisy sign moments, each of rows stretched by what the ones before had shown.

Everything here is post-processing: its inputs are releases and public numbers. In the units used, the variance of the
directions that do not stand out is 1. A release is the mean of zzᵀ, z = Tx/|Tx|, plus noise of deviation τ. For
elliptical rows with covariance Σ its expectation φ(TΣT) is an integral (`stats.signs`), so that all releases together
are noisy looks at one Σ, here of a few strong directions and a flat rest. `understand` finds one that explains them:

    Σ_s |S_s − φ(T_s Σ T_s)|²_F / τ_s²  →  min,

by steps that divide what is left over by its derivative: an entry ij of Σ, in the axes of Σ, enters the release with
the gain c_ij·t_i·t_j. Each release is so weighted by what it knows; one that was stretched along wrong directions is
merely less informative. (Sampling errors are common to all releases and do not change the weights.)

`stretch` chooses the next T: noise of deviation τ leaves the angle between directions i and l a precision of
(c_il·t_i·t_l·(λ_i − λ_l)/τ)², with c about one over the trace of TΣT. The factors t minimise what is predicted of the
angles between wanted and other directions, when all releases so far and the next are used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpeigen._types import Floats
from dpeigen.stats.signs import compression, solve_levels, stretches
from dpeigen.stats.spectrum import symmetric_eigh

_LEAST_LEVEL, _MOST_LEVEL = 1.001, 1e12
_EXTRA = 8  # directions beyond the wanted ones that may stand out
_CLEAR = 1.1  # times the edge of the noise: from there on an eigenvalue stands out
_STEPS = 15
_SETTLED = 0.05  # a step that explains less than this many squared deviations is the last
_GAIN = 0.5  # of the squared error: rows that are not elliptical have other axes when stretched
_RESOLVED = 0.75  # rows are stretched along a wanted direction when so much of it has been found
_MOST_FACTOR = 3.0  # its logarithm


@dataclass(frozen=True)
class SignRelease:
    """A noisy mean of zzᵀ, z the signs of rows stretched by ``factors`` along the rows of ``basis``."""

    matrix: Floats
    deviation: float
    basis: Floats
    factors: Floats


@dataclass(frozen=True)
class Model:
    """Leading directions, their variances relative to the rest, and how precisely the wanted ones are known."""

    basis: Floats  # j × d, the wanted ones first
    levels: Floats
    wanted: int
    weights: Floats  # (j + 1)²: one over the variance of an entry of Σ in these axes; the last index is of each other

    @property
    def others(self) -> int:
        return self.basis.shape[1] - len(self.basis)

    @property
    def excess(self) -> Floats:
        """λ − 1 without what noise adds: x = e + m·s²/e (Baik, Ben Arous, Péché), and without the spread it makes."""
        found = _above_noise(self.levels - 1, self.others / self.weights[:-1, -1])
        k = self.wanted
        found[:k] = _drawn_together(found[:k], float(np.median(1 / self.weights[:k, :k])) if k else 0.0)
        return found

    def completed(self, wanted: int) -> Floats:
        """The wanted directions; the last of as many as there are columns is what the others leave."""
        if wanted <= len(self.basis):
            return self.basis[:wanted]
        return np.vstack([self.basis, np.linalg.svd(self.basis)[2][len(self.basis) :][: wanted - len(self.basis)]])


# --- what the releases say -------------------------------------------------------------------------------------------


def understand(releases: Sequence[SignRelease], model: Model | None, wanted: int) -> Model:
    """What all releases say, given what was made of those before the last."""
    wanted = min(wanted, len(releases[0].matrix) - 1)
    return _first(releases[0], wanted) if model is None else _fit(releases, model)


def _first(release: SignRelease, wanted: int) -> Model:
    """From signs of rows as they are: the axes are theirs, and levels undo their compression."""
    d = len(release.matrix)
    values, vectors = symmetric_eigh(release.matrix)
    seen = np.append(_drawn_together(values[:wanted], release.deviation**2), values[wanted:])
    count, share = wanted, max(float(values[wanted:].mean()), 0.0)
    for _ in range(20):  # eigenvalues are inflated by the noise, which depends on the share of the rest
        m = d - count
        signal = _above_noise(seen[:count] - share, m * release.deviation**2)
        share = max(1 - float(signal.sum()), math.sqrt(2 * min(count, m)) * release.deviation, 1e-9) / d
        edge = share + 2 * _CLEAR * math.sqrt(m) * release.deviation
        count = _count(values > edge, wanted, d)
    signal = _above_noise(seen[:count] - share, (d - count) * release.deviation**2)
    levels = _levels(share + signal, float(values.sum()), d - count, release.deviation)
    _, c = compression(levels, 1.0, d - count)
    return Model(vectors[:count], levels, wanted, (c / release.deviation) ** 2)


def _rest(inside: float, trace: float, j: int, m: int) -> tuple[float, float]:
    """(the share of m directions beside j others, the squared deviation of its noise in units of that of an entry).

    Signs have a trace of 1: what the others leave of it says the same as the m entries themselves, with other noise.
    """
    return ((1 - inside) * m + (trace - inside) * j) / (j + m), 2 * j * m / (j + m)


def _levels(shares: Floats, trace: float, others: int, deviation: float) -> Floats:
    """Levels from noisy shares of signs. Of the share of the rest, which may drown, no less is believed than noise."""
    rest, variance = _rest(float(shares.sum()), trace, len(shares), others)
    rest = max(rest, math.sqrt(variance) * deviation)
    if not len(shares):
        return shares
    shares = np.maximum(shares, 1e-9)
    found = solve_levels(shares * (max(1 - rest, 0.01) / float(shares.sum())), others)
    return np.clip(found, _LEAST_LEVEL, _MOST_LEVEL)


def _fit(releases: Sequence[SignRelease], model: Model) -> Model:
    """The model that explains all releases, found from one that explains the earlier ones."""
    starts = [_believable(releases, start) for start in _starts(releases[-1], model)]
    looks = [(start, _look(releases, start)) for start in starts]
    model, (loss, change, weights) = min(looks, key=lambda pair: pair[1][0])
    best, step = replace(model, weights=weights), 1.0
    for _ in range(_STEPS - 1):
        model = _believable(releases, _leading(_turned(best, step * change), best))
        found, next_change, weights = _look(releases, model)
        if found < loss:
            settled = loss - found < _SETTLED
            best, loss, change = replace(model, weights=weights), found, next_change
            step = min(1.0, 1.5 * step)
            if settled:
                break
        else:
            step /= 2
            if step < 0.1:
                break
    return best


def _starts(last: SignRelease, model: Model) -> Iterator[Model]:
    """The model itself; and with the levels that the last release shows, if it was stretched along these directions."""
    yield model
    if len(last.basis):
        shares = _squares(model.basis, last.matrix)
        factors = np.append(last.factors, np.ones(len(model.basis) - len(last.basis)))
        levels = _levels(shares, float(np.trace(last.matrix)), model.others, last.deviation) / factors**2
        seen = shares > 3 * math.sqrt(2) * last.deviation
        yield replace(model, levels=np.where(seen, np.clip(levels, _LEAST_LEVEL, _MOST_LEVEL), model.levels))


def _look(releases: Sequence[SignRelease], model: Model) -> tuple[float, Floats, Floats]:
    """(how much is left over, the step of Σ that would explain it, one over the variance of entries of Σ)."""
    basis, levels = model.basis, model.levels
    j, d = basis.shape
    loss, gained = 0.0, np.zeros((j + 1, j + 1))
    total = [np.zeros((j, j)), np.zeros((j, d)), np.zeros((d, d))]
    steps, step_weights = np.zeros(j), np.zeros(j)
    for release in releases:
        left = release.matrix - _expected(model, release)
        factors = _lengths(basis, release)
        _, c = compression(levels * factors**2, 1.0, d - j)
        gain = c * np.outer(np.append(factors, 1.0), np.append(factors, 1.0))
        weight = 1 / release.deviation**2
        loss += weight * float((left**2).sum()) / 2
        gained += weight * gain**2
        blocks = _blocks(left, basis)
        for sums, part, by in zip(total, blocks, _by_block(gain), strict=True):
            sums += weight * by * part
        seen = _squares(basis, release.matrix)
        due = seen - np.diagonal(blocks[0])
        rest, due = max(1 - float(due.sum()), 1e-12), np.maximum(due, 1e-12)
        left_seen, variance = _rest(float(seen.sum()), float(np.trace(release.matrix)), j, d - j)
        log = (seen - due) / due - (left_seen - rest) / rest
        precise = weight / (2 / due**2 + variance / rest**2)
        steps, step_weights = steps + precise * np.clip(log, -1, 1), step_weights + precise
    inside, across, outside = (part / over for part, over in zip(total, _by_block(gained), strict=True))
    inside[np.diag_indices(j)] = levels * np.expm1(steps / step_weights)
    outside -= (np.eye(d) - basis.T @ basis) * (float(np.trace(outside)) / (d - j))
    return loss, _joined(basis, inside, across, outside), gained


def _squares(basis: Floats, matrix: Floats) -> Floats:
    """What a matrix has along each direction."""
    result: Floats = ((basis @ matrix) * basis).sum(axis=1)
    return result


def _blocks(matrix: Floats, basis: Floats) -> tuple[Floats, Floats, Floats]:
    """A symmetric matrix inside the directions, across them, and outside."""
    inside = basis @ matrix @ basis.T
    across = basis @ matrix - inside @ basis
    return inside, across, matrix - _joined(basis, inside, across, 0.0)


def _joined(basis: Floats, inside: Floats, across: Floats, outside: Floats | float) -> Floats:
    sides = basis.T @ across
    result: Floats = basis.T @ inside @ basis + sides + sides.T + outside
    return result


def _by_block(entries: Floats) -> tuple[Floats, Floats, Floats]:
    """Numbers for entries of Σ, of which those of all other directions are the last."""
    return entries[:-1, :-1], entries[:-1, -1:], entries[-1:, -1:]


def _expected(model: Model, release: SignRelease) -> Floats:
    """φ(TΣT), which differs from a multiple of I only along the directions of T and Σ."""
    d = model.basis.shape[1]
    q = np.linalg.qr(np.vstack([release.basis, model.basis]).T)[0].T
    b, u = release.basis @ q.T, model.basis @ q.T
    t = np.eye(len(q)) + (b.T * (release.factors - 1)) @ b
    values, vectors = np.linalg.eigh(t @ (np.eye(len(q)) + (u.T * (model.levels - 1)) @ u) @ t)
    shares, _ = compression(np.maximum(values, values[-1] * 1e-12), 1.0, d - len(q))
    axes = vectors.T @ q
    rest = shares[-1] if len(q) < d else 0.0
    result: Floats = (axes.T * (shares[:-1] - rest)) @ axes
    result[np.diag_indices(d)] += rest
    return result


def _lengths(basis: Floats, release: SignRelease) -> Floats:
    """|Tu| of directions u."""
    along = (basis @ release.basis.T) ** 2
    return np.sqrt(np.maximum(1 + along @ (release.factors**2 - 1), 1e-12))


def _turned(model: Model, change: Floats) -> Floats:
    """Σ after a change, whose parts across the directions are turns of them: the rest stays as large as it was."""
    basis = model.basis
    across = basis @ change
    across -= (across @ basis.T) @ basis
    lengths = np.maximum(model.levels - 1, np.linalg.norm(across, axis=1))  # a larger change is no turn
    covariance = np.eye(basis.shape[1]) + (basis.T * (model.levels - 1)) @ basis
    result: Floats = covariance + change + across.T @ (across / lengths[:, None])
    return result


def _leading(covariance: Floats, before: Model) -> Model:
    """Leading directions of Σ, in units of the rest; as many more than wanted as stand out of the noise."""
    d, wanted, most = len(covariance), before.wanted, len(before.basis) + 1
    values, vectors = symmetric_eigh((covariance + covariance.T) / 2, most)

    def rest_but(count: int) -> float:
        return float(np.trace(covariance) - values[:count].sum()) / (d - count)

    edge = 1 + 2 * _CLEAR * math.sqrt(before.others / float(before.weights[-1, -1]))
    count = min(_count(values / rest_but(most - 1) > edge, wanted, d), most)
    rest = max(rest_but(count), 0.2)
    levels = np.clip(values[:count] / rest, _LEAST_LEVEL, _MOST_LEVEL)
    weights = np.full((count + 1, count + 1), float(before.weights[-1, -1]))
    return Model(vectors[:count], levels, wanted, weights)


def _believable(releases: Sequence[SignRelease], model: Model) -> Model:
    """Levels no larger than some release can tell: there the rest, about its part of the trace, is above its noise."""
    j, d = model.basis.shape
    spread = math.sqrt(_rest(0.0, 0.0, j, d - j)[1])
    over = math.inf
    for release in releases:
        seen = float(model.levels @ _lengths(model.basis, release) ** 2) / (d - j)
        over = min(over, seen / max(1 / (spread * release.deviation) - 1, 1.0))
    return model if over <= 1 else replace(model, levels=np.maximum(model.levels / over, _LEAST_LEVEL))


def _drawn_together(values: Floats, variance: float) -> Floats:
    """Eigenvalues of a noisy block without the spread of noise, k times the variance of an entry for k of them."""
    spread = float(values.var()) if len(values) else 0.0
    kept = math.sqrt(max(1 - len(values) * variance / spread, 0.0)) if spread else 0.0
    return values.mean() + kept * (values - values.mean()) if len(values) else values


def _count(stands_out: NDArray[np.bool_], wanted: int, d: int) -> int:
    """How many directions to model: leading ones, but something must be left to compare with."""
    leading = int(np.argmin(np.append(stands_out, False)))
    return min(max(leading, wanted), wanted + _EXTRA, d - 1)


def _above_noise(excess: Floats, reach: Floats | float) -> Floats:
    """e of x = e + reach/e, and x/2, which is no more than noise, where x is inside the noise."""
    excess = np.maximum(excess, 0.0)
    return (excess + np.sqrt(np.maximum(excess**2 - 4 * reach, 0.0))) / 2


# --- what to look at next --------------------------------------------------------------------------------------------


def look_along(model: Model | None, deviation: float, d: int) -> tuple[Floats, Floats]:
    """(directions, factors) for the rows of the next release, with noise of this deviation: none at first, and none
    where stretching does not promise to pay."""
    none = np.zeros((0, d)), np.zeros(0)
    if model is None or not len(model.basis):
        return none
    factors = _best_factors(model, deviation)
    return none if np.all(factors == 1) else (model.basis[: len(factors)], factors)


def _best_factors(model: Model, deviation: float) -> Floats:
    j, m, wanted = len(model.basis), model.others, model.wanted
    levels = 1 + np.append(model.excess, 0.0)
    gaps = np.maximum(levels[:wanted, None] - levels[None, wanted:], 0.0)
    precision = model.weights[:wanted, wanted:] * gaps**2
    repeats = np.append(np.ones(j - wanted), m)
    with np.errstate(divide="ignore", invalid="ignore"):
        turned = repeats / precision  # sin² of wanted directions towards others
        turned = np.where(np.isfinite(turned), turned, 1e9)
    turned = turned / (1 + turned.sum(axis=1, keepdims=True))
    leaked = turned * gaps
    seen = levels * np.append(np.ones(j), m)  # what rows have along the axes that were found
    seen[:wanted] -= leaked.sum(axis=1)
    seen[wanted:] += leaked.sum(axis=0)

    importance = gaps / levels[:wanted, None]  # what a turn costs in variance: nothing between equals
    found_right = 1 - turned.sum(axis=1, keepdims=True)

    costs, sharp = importance * repeats, (gaps / deviation) ** 2
    unwanted = float(seen[wanted:].sum())

    def turns(squares: Floats, known: Floats | float, right: Floats | float = found_right) -> tuple[Floats, Floats]:
        """(what is left of turns when rows are stretched by roots of ``squares``, and −d/d log news of it)."""
        news = right * squares[:, None] * sharp / (float(squares @ seen[:wanted]) + unwanted) ** 2
        total = np.maximum(known + news, 1e-300)
        left = costs / total
        return left.sum(axis=1), (left * (news / total)).sum(axis=1)

    def predicted(logs: Floats) -> tuple[float, Floats]:
        """The logarithm of all that is left, and its gradient: log news_i = 2 log t_i − 2 log Σ t²·seen + …"""
        squares = np.exp(2 * logs)
        left, falls = turns(squares, precision)
        total = float((left / (1 + left)).sum())
        falls = falls / ((1 + left) ** 2 * total)
        long = squares * seen[:wanted]
        return math.log(total), 4 * float(falls.sum()) / (float(long.sum()) + unwanted) * long - 2 * falls

    none = np.zeros(wanted)
    least = 0.5 * np.log(0.2 * min(1.0, m / j) / levels[:wanted])  # no direction becomes shorter than the rest
    clear = found_right[:, 0] > _RESOLVED
    bounds = [(min(low, 0.0), _MOST_FACTOR) if known else (0.0, 0.0) for low, known in zip(least, clear, strict=True)]
    balanced = np.log(np.maximum(stretches(np.maximum(levels[:wanted], 1.05), m), 1e-6))
    found = min(
        (
            minimize(predicted, start, jac=True, method="L-BFGS-B", bounds=bounds)
            for start in (none, np.where(clear, balanced, 0.0))
        ),
        key=lambda result: float(result.fun),
    )
    alone, plain = turns(np.exp(2 * found.x), 0.0)[0], turns(np.ones(wanted), 0.0, 1.0)[0]  # by the next release alone
    return np.exp(found.x) if alone.sum() < _GAIN * plain.sum() else np.ones(wanted)


def predicted_variance(looks: int, noise: float, signal: float, d: int, k: int) -> float:
    """What noise does to an entry of the turn after so many looks, for k variances ``signal`` and others of 1.

    ``noise``: the deviation of an entry of a mean sign moment that is given the whole budget, of which each look has
    an equal share. What an earlier one has got wrong leaks into the other directions and makes them noisier.
    """
    precision, m = 0.0, d - k
    plain = _gain(signal, 0.0, 1.0, m, k)
    for look in range(looks):
        gain = plain
        if look:
            leak = signal * k / (precision + m)
            factor = float(stretches(np.full(k, max(signal / (1 + leak), 1.05)), m)[0])
            gain = max(gain, _gain(signal, leak, factor, m, k))
        precision += (gain / noise) ** 2 / looks
    return 1 / precision


def _gain(signal: float, leak: float, factor: float, m: int, k: int) -> float:
    _, c = compression(np.array([signal * factor**2]), 1 + leak, m, repeats=k)
    return float(c[0, -1]) * factor * (signal - 1)
