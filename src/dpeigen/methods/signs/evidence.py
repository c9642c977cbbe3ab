"""What moments of signs show about the covariance without a simplified model: the basis of intervals for sign methods.

Post-processing of releases. The model of `stats.refinement` (a few directions that exceed the noise, equal variances
elsewhere) is an estimate. One step from it, without the restrictions of the model, gives every entry of the covariance
in the axes of the model, up to a factor, with noise of known deviation. Paid variances replace those along the
directions and determine the factor. For elliptical rows this is the covariance; its sampling error is about that of
Tyler's estimator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpeigen._types import Floats
from dpeigen.privacy import Cost, Relation
from dpeigen.privacy.randomness import made_up_generator
from dpeigen.questions import NoisyMoment
from dpeigen.questions.radius import holding_left
from dpeigen.stats.clipping import NORMAL_TAILS, USUAL_LAWS, clipping, far_likelihoods, share_beyond
from dpeigen.stats.lattice import LEVELS
from dpeigen.stats.measured import Measured
from dpeigen.stats.refinement import LEAST_KNOWN, fit_model, level_noise, unrestricted
from dpeigen.stats.sign_model import SignModel, SignRelease
from dpeigen.stats.stretch import Stretched

__all__ = ["HELD", "FarWeight", "Paid", "left_outside", "measured_signs", "sign_release"]

_DRAWS = 100
_ANYHOW = 0.03  # of a variance of clipped scores: the uncertainty whatever the model says
# Uncertainty of the correction for clipping along a direction, relative to it: uniform sources lose nothing,
# exponential ones twice as much (`benchmarks/intervals.py`, settings where signs replace the covariance).
_DOUBT = 0.8
# Factor on the noise of entries beside the directions if rows were stretched and no variances were paid for: signs of
# stretched rows depend on the level of the rest, which only the signs show then (same settings).
_ALONE = 2.5
_BY_SIGNS = 0.35  # relative deviation of a variance by signs, for rows that are not elliptical
_ROUNDS = 5
_LEAST_UNIT = 0.3  # of its deviation: the least factor between paid variances and those that signs show
HELD = (0.05, 0.015)  # the share of rows beyond a radius that is a multiple of a median, and its uncertainty
_DESCENT = 5  # (ξ(s)/s)² = (c/s)¹⁰ for rows of norm s beyond a cutoff c
_LEAST_PART = 1e-10  # of the largest mean square: noise can make others negative
_LEAST_WEIGHT = 0.1  # of a row, on average: half of the rows have full weight


@dataclass(frozen=True)
class FarWeight:
    """The weight of rows beyond a cutoff, as it was measured: the tails of the rows, or outliers."""

    cutoff: float  # in median norms
    weight: float
    deviation: float  # of the noise on it
    terms: float
    outliers: bool  # whether these rows have other directions than the others

    def likelihoods(self, values: Floats) -> Floats:
        """Of the laws of rows with these eigenvalues. Outliers do not show tails, so these may also be normal."""
        found = far_likelihoods(values, self.cutoff, self.weight, self.deviation, self.terms)
        return np.maximum(found, NORMAL_TAILS * found.sum()) if self.outliers else found


@dataclass(frozen=True)
class Paid:
    """Mean squares of clipped scores along directions, and of the remainder if there is one."""

    directions: Floats
    squares: Floats  # of framed rows
    noise: Floats  # its deviation
    radius: float  # of framed rows
    outside: tuple[float, float] | None  # the share of longer rows, and the noise on it; None: it is public
    units: Floats | float  # factors from the squares to the data's own units
    descends: bool = False  # whether rows beyond the radius have decreasing weight
    far: FarWeight | None = None

    @property
    def plain(self) -> Floats:
        """The squares in the data's own units."""
        return self.squares * self.units

    @property
    def beyond(self) -> Floats | None:
        """For each column, the squared distance of the radius along it times the share of longer rows; None if public.

        Rows that are far out along a column lose a multiple of it, which depends on their tails.
        """
        if self.outside is None:
            return None
        units = np.broadcast_to(self.units, len(self.squares))
        along = np.vstack([self.directions**2, 1 - (self.directions**2).sum(axis=0)])[: len(units)]
        return np.asarray(self.outside[0] * self.radius**2 / np.maximum(units**-1.0 @ along, 1e-300))

    def _spread(self, squares: Floats) -> Floats:
        """Positive squares along all directions, with the remainder in equal parts."""
        k, d = self.directions.shape
        spread = np.append(squares[:k], np.full(d - k, squares[-1] / max(d - k, 1)))
        return np.maximum(spread, _LEAST_PART * max(float(spread.max()), 1e-290))

    def whole(self) -> tuple[Floats, Floats, float]:
        """The squares before clipping, the deviation of their noise, and that of a common factor."""
        d, spread = self.directions.shape[1], self._spread(self.squares)
        cut = clipping(
            spread, self.radius, self.outside, _DRAWS, made_up_generator(d), count=USUAL_LAWS,
            power=_DESCENT if self.descends else 1,
            evidence=None if self.far is None else self.far.likelihoods(self._spread(self.plain)),
        )  # fmt: skip
        gains, sizes = cut.gains[: len(self.squares)], cut.sizes[:, : len(self.squares)]
        common = sizes @ np.maximum(self.squares, 0.0) / max(float(np.maximum(self.squares, 0.0).sum()), 1e-300)
        unsure = np.hypot(_ANYHOW, _DOUBT * np.maximum(1 - 1 / gains, 0.0))
        doubt = np.hypot((sizes - common[:, None]).std(axis=0), unsure) * gains * self.plain
        return self.plain * gains, np.hypot(self.noise * self.units * gains, doubt), float(common.std())


def measured_signs(
    looks: Sequence[SignRelease],
    terms: float,
    *,
    model: SignModel | None = None,
    paid: Paid | None = None,
    center_deviations: Floats | None = None,
) -> Measured:
    """From moments of signs, and variances that were paid for. Without these, the covariance has trace 1."""
    d = len(looks[0].matrix)
    # Variances within the noise are not modelled separately: in a noisy matrix they are too far apart.
    model = fit_model(looks, None, 1) if model is None else model
    (matrix, axes, deviations), common = unrestricted(looks, model), 0.0
    level, rest = level_noise(looks, model), d - len(model.directions)
    if paid is None:
        unit = 1 / float(np.trace(matrix))
        matrix, deviations = matrix * unit, deviations * unit
        if any(len(look.basis) for look in looks):
            deviations[: d - rest, d - rest :] *= _ALONE
            deviations[d - rest :, : d - rest] *= _ALONE
    else:
        squares, rest = paid.whole(), d - len(paid.directions)
        axes, matrix, deviations, (common, level) = _with_variances(
            matrix, axes, deviations, paid.directions, squares, terms, level
        )
        common, level = math.hypot(common, squares[2]), min(level, LEAST_KNOWN)
    return Measured(
        matrix, axes.T, "gaussian", 0.0, terms, 1.0, kind="signs", deviations=deviations,
        center_deviations=center_deviations, common=common, level=level, rest=rest,
        sign_values=np.asarray(np.linalg.eigvalsh(looks[0].matrix)[::-1], dtype=np.float64),
        sign_deviation=looks[0].deviation, beyond=None if paid is None else paid.beyond,
    )  # fmt: skip


def _with_variances(
    matrix: Floats,
    axes: Floats,
    deviations: Floats,
    directions: Floats,
    found: tuple[Floats, Floats, float],
    terms: float,
    level: float,
) -> tuple[Floats, Floats, Floats, tuple[float, float]]:
    """The same in axes that begin with the directions, in the units of the variances along them.

    The last pair: the relative deviations of a common factor and of the level of the remaining variances.
    """
    k, d = directions.shape
    same = np.allclose(axes[:k], directions)  # then the other axes stay, and with them what is known along each
    turned = np.vstack([directions, axes[k:] if same else np.linalg.svd(directions)[2][k:]])
    between = turned @ axes.T
    matrix = between @ matrix @ between.T
    deviations = np.sqrt(between**2 @ deviations**2 @ (between**2).T)
    shown = np.append(np.diag(matrix)[:k], np.diag(matrix)[k:].sum())[: len(found[0])]
    relative = math.sqrt(2) * np.diag(deviations)[:k] / np.maximum(shown[:k], 1e-300)
    by_signs = np.append(np.hypot(relative, _BY_SIGNS), math.hypot(level, _ANYHOW))[: len(shown)]
    squares, noise, common = _combined(found[0], found[1], np.maximum(shown, 1e-3), by_signs)
    unit = float(squares[-1] / max(float(shown[-1]), 1e-3)) if k < d else float(squares.sum() / shown.sum())
    matrix, deviations = matrix * unit, deviations * unit
    levels = np.append(squares[:k], np.diag(matrix)[k:])
    for j in range(k):
        matrix[j, j] = squares[j] + _turned_away(j, levels, deviations[j], terms)
        deviations[j, j] = noise[j] / math.sqrt(2)  # diagonal entries vary √2 times as much
    return turned, matrix, deviations, (common, float(noise[-1] / squares[-1]) if k < d else 0.0)


def _combined(squares: Floats, noise: Floats, shown: Floats, relative: Floats) -> tuple[Floats, Floats, float]:
    """Variances from paid ones and from signs, their deviations, and the relative deviation of a common factor.

    Signs show variances up to a factor, with ``relative`` deviations. The factor is the one that fits the paid ones.
    Noise can make a paid variance negative; signs show that it is not.
    """
    unit = max(float(squares.sum() / shown.sum()), 1e-3 * float((noise / shown).min()))
    for _ in range(_ROUNDS):
        weights = shown**2 / (noise**2 + (unit * shown * relative) ** 2)
        spread = float(weights.sum() ** -0.5)
        unit = max(float(weights @ (squares / shown) / weights.sum()), _LEAST_UNIT * spread)
    model = unit * shown * relative
    part = noise**2 / (noise**2 + model**2)  # of what signs show
    found = part * unit * shown + (1 - part) * squares
    deviations = np.sqrt(part) * model
    found = np.maximum(found, deviations / LEAST_KNOWN)
    return found, deviations, float(part.mean()) * spread / unit


def _turned_away(j: int, levels: Floats, deviations: Floats, terms: float) -> float:
    """How far the variance along an inaccurate direction is below the eigenvalue that a noisy moment would show.

    Noise N on an entry rotates the direction by N/(λⱼ − λᵢ). The variance along it is smaller by N²/(λⱼ − λᵢ), whereas
    a noisy moment shows one that is larger by as much. Errors are computed as for a noisy moment, so both are added.
    For stronger directions the signs are reversed.
    """
    levels = np.maximum(levels, 0.0)
    squares, gaps = deviations**2 + levels[j] * levels / terms, levels[j] - levels
    lower, higher = gaps >= 0, gaps < 0
    lower[j] = False
    gap = float(gaps[lower].mean()) if lower.any() else 0.0
    more = math.sqrt(gap**2 + 4 * float(squares[lower].sum())) - gap
    less = np.sqrt(gaps[higher] ** 2 + 4 * squares[higher]) + gaps[higher]
    return more - min(float(less.sum()), 0.5 * float(levels[j]))


def sign_release(found: NoisyMoment, view: Stretched | None = None, *, weighted: bool = False) -> SignRelease:
    """A noisy mean of the signs of rows, stretched or not.

    ``weighted``: rows may add less than 1 to the trace (redescending signs); the mean is then a weighted one.
    """
    noisy, deviation = found.total / LEVELS**2, found.deviation / LEVELS**2
    count = found.count
    if weighted:
        spread = math.sqrt(2 * len(noisy)) * deviation  # of the noise on the trace
        count = max(float(np.trace(noisy)), 3 * spread, 1.0 if count is None else _LEAST_WEIGHT * count)
    elif count is None:
        count = max(1.0, float(np.trace(noisy)))  # every row except a zero row adds 1 to the trace
    none = np.zeros((0, len(noisy))), np.zeros(0)
    basis, factors = none if view is None else (view.directions, view.factors)
    return SignRelease(noisy / count, deviation / count, basis, factors)


def left_outside(cost: Cost, relation: Relation, terms: float, further: float = 1.0) -> tuple[float, float]:
    """The share of rows beyond ``further`` times a paid radius, and the noise on it.

    With few rows the scan stops early, so that it does not run on: more rows are outside than the 5% asked for.
    """
    rows, scale = holding_left(cost, relation, terms)
    share = min(rows / terms, 0.5)
    beyond = share_beyond(share, further) if further != 1 else share
    return beyond, scale / terms * beyond / share
