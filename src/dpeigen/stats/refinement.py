"""A covariance fitted to several noisy moments of signs (method "refined"). Post-processing of releases only.

Observed, for s = 1, 2, …: Sₛ, the mean of zzᵀ over all rows, z = Tₛx/|Tₛx|, plus symmetric Gaussian noise of standard
deviation τₛ on an entry. The stretch Tₛ = I + Σⱼ (tⱼ − 1)bⱼbⱼᵀ is known; it was chosen from S₁ … Sₛ₋₁ (`next_look`).

Unknown: the covariance Σ of the rows, up to scale. The model has a few directions uⱼ that exceed the noise, and
variance 1 in all other directions (the rest):    Σ = I + Σⱼ (λⱼ − 1)uⱼuⱼᵀ.

Estimated: the directions uⱼ and their variances λⱼ, by least squares over all releases,

    Σₛ ‖Sₛ − φ(TₛΣTₛ)‖²_F/τₛ²  →  min,

where φ(A) = E[zzᵀ] for elliptical rows of covariance A: it has the eigenvectors of A, and its eigenvalues ("shares",
which sum to 1) are integrals (`stats.signs.compression`). The first release, T₁ = I, gives a start in closed form;
later ones are fitted by damped Gauss–Newton steps. In the axes of the model an entry Σᵢₗ enters release s with the gain
cᵢₗtᵢtₗ (c: `compression`), so that release determines the entry with precision (cᵢₗtᵢtₗ/τₛ)². A release that was
stretched along wrong directions is only less precise. (The sampling error is common to all releases and does not change
these weights.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg.lapack import dgeqrf, dorgqr

from dpeigen._types import Floats
from dpeigen.stats.sign_model import (
    CLEAR,
    LEAST_VARIANCE,
    MOST_VARIANCE,
    SignModel,
    SignRelease,
    first_model,
    how_many,
    share_of_rest,
    variances_from,
)
from dpeigen.stats.signs import compression
from dpeigen.stats.spectrum import symmetric_eigh

__all__ = ["LEAST_KNOWN", "fit_model", "level_noise", "unrestricted"]

_STEPS = 15
LEAST_KNOWN = 5.0  # the largest relative error of the level of the rest that is stated
_SETTLED = 0.05  # a step that explains less than this many squared deviations is the last


def fit_model(releases: Sequence[SignRelease], before: SignModel | None, wanted: int) -> SignModel:
    """The model that fits all releases; ``before`` is the model of those before the last."""
    wanted = min(wanted, len(releases[0].matrix) - 1)
    return first_model(releases[0], wanted) if before is None else _least_squares(releases, before)


def unrestricted(releases: Sequence[SignRelease], model: SignModel) -> tuple[Floats, Floats, Floats]:
    """(Σ one step from the model in its axes, without its restrictions; the axes; the deviations of its entries).

    The axes of the rest are those in which it is diagonal. The deviation of a diagonal entry is √2 times the number
    returned here.
    """
    j, d = model.directions.shape
    axes = model.completed(d) if j else np.eye(d)
    _, change, precision = _gauss_newton(releases, model)
    covariance = np.eye(d) + (model.directions.T * (model.variances - 1)) @ model.directions
    index = np.minimum(np.arange(d), j)
    found: Floats = axes @ (covariance + change) @ axes.T
    values, vectors = np.linalg.eigh((found[j:, j:] + found[j:, j:].T) / 2)
    axes = np.vstack([axes[:j], vectors.T @ axes[j:]])
    bent, slopes = _bent(values, model)
    found[:j, j:] = found[:j, j:] @ vectors
    found[j:, :j], found[j:, j:] = found[:j, j:].T, np.diag(bent)
    # Gains are proportional to one over the trace. That of the model is smaller if its rest is as large as the noise.
    longer = max(float(np.trace(found)) / float(np.trace(covariance)), 1.0)
    deviations = longer / np.sqrt(precision[np.ix_(index, index)])
    deviations[j:, j:] *= slopes
    return found, axes, deviations


def level_noise(releases: Sequence[SignRelease], model: SignModel) -> float:
    """The relative deviation of the level of the rest, compared with the variances of the directions.

    From the first release: later ones determine it only as far as their stretch was along the right directions.
    """
    j, m = len(model.directions), model.others
    shares, _ = compression(model.variances, 1.0, m)
    spread = math.sqrt(share_of_rest(0.0, 0.0, j, m)[1]) * releases[0].deviation
    return min(LEAST_KNOWN, spread / max(m * float(shares[-1]), 1e-300))


def _bent(values: Floats, model: SignModel) -> tuple[Floats, Floats]:
    """Variances of the rest, which need not be equal, from those of a linear step; and how errors of entries grow.

    Shares grow more slowly than variances: a variance α among others of 1 has a share of about φ·α(1 + b)/(1 + bα),
    with the slope c at 1: b = φ/c − 1. An entry between two axes changes by the divided difference of the variances
    along them, which for this function is the product of the roots of both slopes.
    """
    shares, slopes = compression(model.variances, 1.0, model.others)
    b = max(float(shares[-1] / slopes[-1, -1]) - 1, 0.0)
    seen = np.minimum(1 + (values - 1) / (1 + b), (1 + b) / max(b, 1e-9) * 0.9)
    left = 1 + b - b * seen
    return seen / left, 1 / np.outer(left, left)


# --- all releases together -------------------------------------------------------------------------------------------


def _least_squares(releases: Sequence[SignRelease], before: SignModel) -> SignModel:
    """Gauss–Newton from the best start; steps that do not help are halved, and those that do grow again."""
    starts = [_believable(releases, start) for start in _starts(releases[-1], before)]
    tried = [(start, _gauss_newton(releases, start)) for start in starts]
    model, (loss, change, precision) = min(tried, key=lambda pair: pair[1][0])
    best, step = replace(model, precision=precision), 1.0
    for _ in range(_STEPS - 1):
        model = _believable(releases, _leading(_changed(best, step * change), best))
        found, next_change, precision = _gauss_newton(releases, model)
        if found < loss:
            settled = loss - found < _SETTLED
            best, loss, change = replace(model, precision=precision), found, next_change
            step = min(1.0, 1.5 * step)
            if settled:
                break
        else:
            step /= 2
            if step < 0.1:
                break
    return best


def _starts(last: SignRelease, model: SignModel) -> Iterator[SignModel]:
    """The model itself; and with the variances by the last release, if it was stretched along its directions."""
    yield model
    if len(last.basis):
        shares = _along(model.directions, last.matrix)
        factors = np.append(last.factors, np.ones(len(model.directions) - len(last.basis)))
        found = variances_from(shares, float(np.trace(last.matrix)), model.others, last.deviation) / factors**2
        seen = shares > 3 * math.sqrt(2) * last.deviation
        found = np.where(seen, np.clip(found, LEAST_VARIANCE, MOST_VARIANCE), model.variances)
        yield replace(model, variances=found)


def _gauss_newton(releases: Sequence[SignRelease], model: SignModel) -> tuple[float, Floats, Floats]:
    """(half the sum of squares, the change of Σ that would explain the residuals, the precision of entries of Σ).

    With residual R and gain g of each release, an entry changes by (Σₛ g·R/τ²)/(Σₛ g²/τ²). Variances change by factors.
    """
    directions = model.directions
    j, d = directions.shape
    loss, precision = 0.0, np.zeros((j + 1, j + 1))
    sums = np.zeros((j, j)), np.zeros((j, d)), np.zeros((d, d))
    log_steps, log_precision = np.zeros(j), np.zeros(j)
    for release in releases:
        expected, gain = _expected(model, release)
        residual, weight = release.matrix - expected, _weight(release)
        loss += weight * float((residual**2).sum()) / 2
        precision += weight * gain**2
        parts = _blocks(residual, directions)
        for total, part, by in zip(sums, parts, _by_block(gain), strict=True):
            total += weight * by * part
        step, known = _log_variance_step(model, release, np.diagonal(parts[0]))
        log_steps, log_precision = log_steps + known * step, log_precision + known
    inside, across, outside = (total / over for total, over in zip(sums, _by_block(precision), strict=True))
    inside[np.diag_indices(j)] = model.variances * np.expm1(log_steps / log_precision)
    outside -= (np.eye(d) - directions.T @ directions) * (float(np.trace(outside)) / (d - j))  # its mean stays 1
    return loss, _joined(directions, inside, across, outside), precision


def _weight(release: SignRelease) -> float:
    return 1 / release.deviation**2


def _log_variance_step(model: SignModel, release: SignRelease, residuals: Floats) -> tuple[Floats, Floats]:
    """(change of log λ that gives shares relative to the rest as measured, at most 1; its precision).

    With expected shares a of the directions and r of the rest, d log λ = (â − a)/a − (r̂ − r)/r, of variance
    (2/a² + v/r²)·τ², v from `share_of_rest`.
    """
    seen = _along(model.directions, release.matrix)
    due = seen - residuals
    rest, due = max(1 - float(due.sum()), 1e-12), np.maximum(due, 1e-12)
    trace = float(np.trace(release.matrix))
    rest_seen, variance = share_of_rest(float(seen.sum()), trace, len(seen), model.others)
    change = (seen - due) / due - (rest_seen - rest) / rest
    return np.clip(change, -1, 1), _weight(release) / (2 / due**2 + variance / rest**2)


def _expected(model: SignModel, release: SignRelease) -> tuple[Floats, Floats]:
    """(φ(TΣT), the gain ∂φᵢₗ/∂Σᵢₗ = cᵢₗtᵢtₗ; the last index stands for each direction of the rest).

    φ differs from a multiple of I only in the span of the directions of T and Σ, where it is computed.
    """
    d = model.directions.shape[1]
    if not len(release.basis):
        shares, gain = compression(model.variances, 1.0, model.others)
        return _flat_but(model.directions, shares), gain
    lengths = _lengths(model.directions, release)
    _, c = compression(model.variances * lengths**2, 1.0, model.others)
    factors = np.append(lengths, 1.0)
    span = _orthonormal(np.vstack([release.basis, model.directions]))
    b, u = release.basis @ span.T, model.directions @ span.T
    stretch = np.eye(len(span)) + (b.T * (release.factors - 1)) @ b
    values, vectors = np.linalg.eigh(stretch @ (np.eye(len(span)) + (u.T * (model.variances - 1)) @ u) @ stretch)
    shares, _ = compression(np.maximum(values, values[-1] * 1e-12), 1.0, d - len(span))
    if len(span) == d:
        shares[-1] = 0.0
    return _flat_but(vectors.T @ span, shares), c * np.outer(factors, factors)


def _flat_but(axes: Floats, shares: Floats) -> Floats:
    """The matrix with these shares along orthonormal axes, and the last share in all other directions."""
    result: Floats = (axes.T * (shares[:-1] - shares[-1])) @ axes
    result.flat[:: len(result) + 1] += shares[-1]
    return result


def _orthonormal(rows: Floats) -> Floats:
    """An orthonormal basis of their span, by LAPACK directly: the matrices are small, and the calls many."""
    reflections, scales, _, _ = dgeqrf(rows.T)
    return np.asarray(dorgqr(reflections[:, : min(rows.shape)], scales)[0].T)


def _lengths(directions: Floats, release: SignRelease) -> Floats:
    """|Tu| of directions u."""
    along = (directions @ release.basis.T) ** 2
    return np.sqrt(np.maximum(1 + along @ (release.factors**2 - 1), 1e-12))


def _changed(model: SignModel, change: Floats) -> Floats:
    """Σ after a change Δ. Its part across the directions rotates them: the second-order term preserves the rest."""
    u = model.directions
    across = u @ change
    across -= (across @ u.T) @ u
    lengths = np.maximum(model.variances - 1, np.linalg.norm(across, axis=1))  # a larger change is no rotation
    covariance = np.eye(u.shape[1]) + (u.T * (model.variances - 1)) @ u
    result: Floats = covariance + change + across.T @ (across / lengths[:, None])
    return result


def _leading(covariance: Floats, before: SignModel) -> SignModel:
    """The model nearest to Σ: leading directions in units of the rest, and additional ones that exceed the noise."""
    d, wanted, most = len(covariance), before.wanted, len(before.directions) + 1
    values, vectors = symmetric_eigh((covariance + covariance.T) / 2, most)

    def rest_but(count: int) -> float:
        return float(np.trace(covariance) - values[:count].sum()) / (d - count)

    known = float(before.precision[-1, -1])
    edge = 1 + 2 * CLEAR * math.sqrt(before.others / known)
    count = min(how_many(values / rest_but(most - 1) > edge, wanted, d), most)
    variances = np.clip(values[:count] / max(rest_but(count), 0.2), LEAST_VARIANCE, MOST_VARIANCE)
    return SignModel(vectors[:count], variances, wanted, np.full((count + 1, count + 1), known))


def _believable(releases: Sequence[SignRelease], model: SignModel) -> SignModel:
    """Variances no larger than some release can show: there the share of the rest exceeds its noise."""
    j, m = len(model.directions), model.others
    spread = math.sqrt(share_of_rest(0.0, 0.0, j, m)[1])
    over = math.inf
    for release in releases:
        seen = float(model.variances @ _lengths(model.directions, release) ** 2) / m
        over = min(over, seen / max(1 / (spread * release.deviation) - 1, 1.0))
    return model if over <= 1 else replace(model, variances=np.maximum(model.variances / over, LEAST_VARIANCE))


# --- blocks of a symmetric matrix: inside the span of the directions, across, and outside ----------------------------


def _along(directions: Floats, matrix: Floats) -> Floats:
    """uᵀMu for each direction."""
    result: Floats = ((directions @ matrix) * directions).sum(axis=1)
    return result


def _blocks(matrix: Floats, u: Floats) -> tuple[Floats, Floats, Floats]:
    """UMUᵀ, UM(I − UᵀU), and the remainder of M."""
    inside = u @ matrix @ u.T
    across = u @ matrix - inside @ u
    return inside, across, matrix - _joined(u, inside, across, 0.0)


def _joined(u: Floats, inside: Floats, across: Floats, outside: Floats | float) -> Floats:
    sides = u.T @ across
    result: Floats = u.T @ inside @ u + sides + sides.T + outside
    return result


def _by_block(entries: Floats) -> tuple[Floats, Floats, Floats]:
    """Numbers for entries of Σ by block; the last index stands for each direction of the rest."""
    return entries[:-1, :-1], entries[:-1, -1:], entries[-1:, -1:]
