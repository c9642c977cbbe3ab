"""The error of the covariance and the mean of a release: random draws from the distribution of each.

Post-processing: a function of the release, so it costs nothing and gives the same draws for the same release.

- *Noise*: its distribution is known exactly and is drawn anew.
- *Clipping*: its effect is estimated for elliptical rows with tails that agree with the paid radius (`stats.clipping`).
  An uncertainty is added, since rows need not be elliptical.
- *Sampling error*: that of elliptical rows with these tails, and in addition of principal components that each have
  their own kurtosis, since no release shows it.
- *Missing cells*: entries are divided by the released shares of rows that have both cells. The noise on these shares
  is drawn too.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.clipping_errors import clipping_doubt, estimated_clipping, is_sized, lost_from_columns
from dpeigen.methods.auto import stands_in
from dpeigen.methods.signs.kendall import Kendall
from dpeigen.privacy import Relation
from dpeigen.privacy.randomness import Generator, made_up_generator
from dpeigen.questions.laws import law_named
from dpeigen.release_units import deviations_of, has_relative_variances, units_of_components
from dpeigen.stats.clipping import Clipping, whole_rows
from dpeigen.stats.intervals import Interval, gaussian_errors, sampling_errors
from dpeigen.stats.lost import loss_errors
from dpeigen.stats.missing_errors import missing_errors
from dpeigen.stats.sign_errors import level_errors, model_errors
from dpeigen.stats.sign_shares import share_intervals
from dpeigen.stats.spectrum import project_eigenvalues

if TYPE_CHECKING:
    from dpeigen.release import Release
    from dpeigen.stats.measured import Measured

__all__ = [
    "DRAWS",
    "Errors",
    "errors_of",
    "generator_of",
    "most_draws",
    "shares_by_signs",
]

DRAWS = 400  # of errors
_MANY, _FEWEST = 60, 64  # columns above which fewer draws are made, and the least number of draws
_DOUBT_OF_COEFFICIENTS = 0.5  # of the doubt about clipping, which reduces both sides of a regression
_DOUBT_OF_MEAN = 1.0  # relative to how much clipping shortens rows, which shifts the mean of skewed rows
_DOUBT_OF_MEAN_ON_PURPOSE = 0.7  # the same if more rows were clipped on purpose, most of which are not long
# In deviations of a column: a centre from clipped rows that no moment corrects; the second number is for signs.
_DOUBT_OF_CENTER, _DOUBT_OF_SIGN_CENTER = 0.08, 0.06
# The same if many rows were clipped for it, per share of rows above a tenth: chosen by eye to fit root mean squares of
# biases, 0.3 of the share for shares above a fifth and 0.1 to 0.2 of it below (112 random settings of "gaussian" with a
# private bound: `Setting.of(number, True)` of `benchmarks/_populations.py`, 990000 to 990119, without units).
_MANY_CLIPPED, _OF_CLIPPED = 0.1, 0.5
_LEAST_DOUBT = 0.25  # of that, if the paid radius shows that rows have no long tails
_LEAST_SUM = 0.1  # of drawn variances whose sum is 1 by definition
_TOLD = 3.0  # deviations of its error that a variance must exceed


@dataclass(frozen=True, eq=False)
class Errors:
    """The measured covariance in the data's own units, draws of its error, and draws of the error of the mean."""

    seen: Floats  # d × d, symmetric, not always positive
    covariance: Floats  # the same, made positive semidefinite
    draws: Floats  # draws × d × d
    mean: Floats | None  # draws × d
    known: NDArray[np.bool_]  # columns about which anything is known
    sized: bool = True  # whether the size of rows is known: not if nearly all of them were clipped
    lost: Floats | None = None  # the part of the draws that single columns may have lost by clipping, or may not
    hidden: Floats | None = None  # the deviation of variances without sampling error, by which no column is hidden

    @property
    def told(self) -> NDArray[np.bool_]:
        """Columns whose variance can be distinguished from noise: only these have correlations.

        What a column may have lost by clipping would only make its variance larger.
        """
        hidden = _spread_above(self.without_losses.draws) if self.hidden is None else self.hidden
        return np.asarray(self.known & (np.diag(self.seen) > _TOLD * hidden))

    @property
    def without_losses(self) -> Errors:
        """The errors if clipping took nothing from single columns beyond what the model of all rows corrects."""
        return self if self.lost is None else replace(self, draws=self.draws + self.lost, lost=None)

    def correlations(self) -> Floats:
        """Draws of the correlation matrix."""
        drawn = self.seen - self.draws
        least = 1e-6 * np.maximum(np.diag(self.covariance), 1e-300)
        roots = np.sqrt(np.maximum(np.einsum("mii->mi", drawn), least))
        return np.clip(drawn / (roots[:, :, None] * roots[:, None, :]), -1.0, 1.0)

    def correlation(self) -> tuple[Floats, Floats]:
        """The measured correlation matrix, and draws of its error, to first order."""
        deviations = np.sqrt(np.diag(self.covariance))
        inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
        area = np.outer(inverse, inverse)
        seen, draws = self.seen * area, self.draws * area
        own = np.einsum("mii->mi", draws) / 2
        draws = draws - seen * (own[:, :, None] + own[:, None, :])
        seen = seen.copy()
        np.fill_diagonal(seen, 1.0)
        index = np.arange(len(seen))
        draws[:, index, index] = 0.0
        return seen, draws


@dataclass(frozen=True, eq=False)
class _Noisy:
    """A moment about the mean, draws of its noise, the mean, and draws of the noise on the mean."""

    second: Floats
    noise: Floats
    mean: Floats | None
    shift: Floats | None


def errors_of(
    release: Release, measured: Measured, of: str, draws: int = DRAWS, *, tails: float = 1.0, standard: bool = False
) -> Errors:
    """Draws of the error of the measured quantities; ``of`` is "population" or "table".

    ``tails``: the fraction of the kurtosis that enters sampling error; 1 for moments. Coefficients of a regression
    whose residuals do not depend on the features have the same error as for normal rows, whatever the tails.
    ``standard``: the components with their own kurtosis are those of columns divided by their deviations, so that
    errors do not depend on units. What single columns lost by clipping is then left out, since shortening a whole row
    reduces both sides of a linear relation.
    """
    rng, draws = generator_of(measured), min(draws, most_draws(len(measured.back)))
    found = _noise(measured, release, draws, rng)
    # Noise spreads the measured eigenvalues too far apart, but their sum is unbiased.
    values, vectors = np.linalg.eigh(found.second)
    signs, area = measured.kind == "signs", measured.radius**2
    total = max(float(values.sum()), 1e-6 * area / len(values))
    sized = signs or measured.outside is None or is_sized(measured, total)
    values = project_eigenvalues(values, trace=total if signs else min(total, area))
    cut = whole_rows(len(values), draws) if signs else estimated_clipping(measured, values, draws, rng)
    gain = (vectors * np.sqrt(cut.gains)) @ vectors.T
    whole, positive = gain @ found.second @ gain, (vectors * (values * cut.gains)) @ vectors.T
    noise, shared = gain @ found.noise @ gain, None
    if signs:
        noise = noise + model_errors(values, vectors, draws, _ground(release), rng)
        noise = level_errors(found.second, noise, measured.level, measured.rest, rng)
        shared = measured.common * rng.normal(size=(draws, 1, 1)) * found.second
    else:
        doubt = clipping_doubt(vectors, values * cut.gains, cut, draws, rng)
        noise = noise + doubt * (_DOUBT_OF_COEFFICIENTS if standard else 1.0)
    if measured.counted is not None:  # far rows that were counted, of sizes known up to a factor
        sizes = rng.normal(size=(draws, len(measured.counted), 1))
        noise = noise + measured.counted.T @ (sizes * measured.counted)
    back = measured.back
    errors = Errors(
        back @ whole @ back.T, back @ positive @ back.T, back @ noise @ back.T, None, np.asarray(back.any(axis=1))
    )
    if signs and measured.center_errors is not None and _ground(release) != "pairs":
        # Rows are relative to a noisy centre: their moment has its square too.
        errors = replace(errors, draws=errors.draws + _center_squares(measured.center_errors, draws, rng))
    center = None if found.mean is None else back @ found.mean
    lost, moved = lost_from_columns(release, measured, vectors, values, cut, draws, rng)
    if lost is not None and not standard:
        gone = loss_errors(lost, errors.covariance, rng)
        errors = replace(errors, draws=errors.draws - gone, lost=gone)
    errors = errors if measured.present is None else _without_holes(errors, measured, center, draws, rng)
    errors = replace(errors, hidden=_spread_above(errors.without_losses.draws))
    if shared is not None:  # a factor on all variances hides no column
        errors = replace(errors, draws=errors.draws + back @ shared @ back.T)
    sampled = _sampled(release, measured, errors, tails * cut.common, tails * cut.own, of, draws, rng, standard)
    mean = None
    if release.mean is not None and release.facts.get("center") == "private":
        mean = _mean_errors(measured, found.shift, errors.covariance, cut, of, draws, rng)
        if mean is not None and moved is not None:
            present = 1.0 if measured.present is None else np.diag(measured.present)
            mean = mean - moved * _sides(release, rng, draws) / present
    drawn = errors.draws + sampled
    if signs and has_relative_variances(release):  # their sum is 1 by definition
        sums = 1 - np.einsum("mii->m", drawn) / np.trace(errors.seen)
        drawn = errors.seen - (errors.seen - drawn) / np.maximum(sums, _LEAST_SUM)[:, None, None]
        return replace(errors, draws=drawn, mean=mean, sized=sized, lost=None, hidden=None)
    return replace(errors, draws=drawn, mean=mean, sized=sized)


def _spread_above(draws: Floats) -> Floats:
    """The deviation of errors of variances; from those above the median if they are smaller.

    Those below come from clipping, which hides no column.
    """
    errors = np.einsum("mii->mi", draws)
    above = np.maximum(errors - np.median(errors, axis=0), 0.0)
    return np.minimum(np.sqrt(2 * np.mean(above**2, axis=0)), errors.std(axis=0))


def _center_squares(deviations: Floats, draws: int, rng: Generator) -> Floats:
    """Draws of the square of the error of a centre."""
    moved = rng.normal(size=(draws, len(deviations), 1)) * deviations[:, None]
    return np.asarray(moved * np.swapaxes(moved, 1, 2))


def _sides(release: Release, rng: Generator, draws: int) -> Floats:
    """On which side of each column the tail is: known for shares of rows, which are near 0 or near 1."""
    sides = np.where(rng.random(size=(draws, release.n_features)) < 0.5, -1.0, 1.0)
    if release.mean is None:
        return sides
    ends = np.array([release.rescaled(j) for j in range(release.n_features)])  # in the column's own unit
    return np.where(release.is_share, np.where(ends[:, 0] + ends[:, 1] * release.mean < 0.5, 1.0, -1.0), sides)


def most_draws(d: int) -> int:
    """The number of draws of d × d errors that takes seconds and fits in memory: fewer for large matrices."""
    return max(_FEWEST, int(DRAWS * min(1.0, (_MANY / max(d, 1)) ** 2)))


def _sampled(
    release: Release,
    measured: Measured,
    errors: Errors,
    common: Floats,
    own: Floats,
    of: str,
    draws: int,
    rng: Generator,
    standard: bool,
) -> Floats:
    """Draws of the sampling error, in the data's own units; 0 if there is none."""
    factor = _sampling_factor(measured, of, pairs=release.facts.get("center") == "pairs")
    missing = np.zeros_like(errors.seen)
    if standard and measured.present is not None:  # regressions: missing cells are no multiple of sampling error
        factor = np.full_like(factor, of == "population")
        missing = missing_errors(errors.covariance, np.diag(measured.present), measured.terms, draws, rng)
    if not np.any(factor):
        return missing
    units = deviations_of(errors.covariance) if standard else units_of_components(release, errors.covariance)
    drawn = sampling_errors(errors.covariance, measured.terms, common, draws, rng, own=own, units=units)
    if measured.tails is not None and not standard:
        further = np.maximum(measured.tails[4] - float((3 * common + own).mean()), 0.0)
        drawn += _tailed(errors.covariance, further, measured, rng, draws)
    return np.asarray(drawn * np.sqrt(factor) + missing)


def _tailed(covariance: Floats, kurtosis: Floats, measured: Measured, rng: Generator, draws: int) -> Floats:
    """Additional sampling error of columns with long tails: of their variances, and of entries that depend on them."""
    sizes = rng.normal(size=(draws, len(covariance))) * np.sqrt(kurtosis / measured.terms)
    variances = np.diag(covariance)
    along = np.divide(covariance, variances, out=np.zeros_like(covariance), where=variances > 0)  # column j: Ce_j/C_jj
    return np.asarray((along * (sizes * variances)[:, None, :]) @ along.T)


def _sampling_factor(measured: Measured, of: str, *, pairs: bool = False) -> Floats:
    """The variance of sampling error, entry by entry, relative to that of complete rows."""
    present = np.ones_like(measured.back[:1, :1]) if measured.present is None else measured.present
    if of == "population":
        return np.asarray(1 / present)
    # The table as it would be without missing cells; pairs of the same rows vary half as much as pairs of others.
    return np.asarray(1 / present - (0.5 if pairs else 1.0))


def _without_holes(errors: Errors, measured: Measured, mean: Floats | None, draws: int, rng: Generator) -> Errors:
    """Moments with 0 for missing cells, divided by the shares of rows that have both cells (`methods.holes`)."""
    both, deviations = measured.present, measured.present_deviations
    if both is None or deviations is None:
        raise AssertionError("shares come with their deviations")
    filled = np.zeros(len(both)) if mean is None else mean
    alone = filled / np.diag(both)
    seen = (errors.seen + np.outer(filled, filled)) / both - np.outer(alone, alone)
    shares = gaussian_errors(len(both), draws, 1.0, rng)
    shares[:, np.arange(len(both)), np.arange(len(both))] /= math.sqrt(2)
    moved = errors.draws / both - seen * (shares * deviations / both)
    lost = None if errors.lost is None else errors.lost / both
    return replace(errors, seen=seen, covariance=_positive(seen), draws=moved, lost=lost)


def _positive(matrix: Floats) -> Floats:
    """The nearest covariance matrix, in units in which variances are 1."""
    deviations = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    safe = np.where(deviations > 0, deviations, 1.0)
    values, vectors = np.linalg.eigh(matrix / np.outer(safe, safe) * np.outer(deviations > 0, deviations > 0))
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T * np.outer(deviations, deviations))


def _ground(release: Release) -> str:
    """What is known about the rows whose signs were used (`stats.sign_errors`)."""
    if stands_in(release.choice):
        return "any"
    center = release.facts.get("center")
    if center == "pairs" or release.facts.get("method") == Kendall.name:
        return "pairs"
    return "zero" if center == "public" and release.mean is not None and not release.mean.any() else "rows"


def shares_by_signs(release: Release, measured: Measured, of: str, level: float, count: int) -> Interval | None:
    """Intervals for the first shares of variance from signs alone, if signs replace the covariance; else None."""
    if measured.sign_values is None or measured.sign_deviation is None:
        return None
    if release.scale is not None or not stands_in(release.choice):
        return None
    terms = measured.terms if of == "population" else None
    return share_intervals(measured.sign_values, measured.sign_deviation, terms, level, count, generator_of(measured))


def generator_of(measured: Measured) -> Generator:
    """A generator that is the same for the same release."""
    digest = hashlib.sha256(measured.moment.tobytes() + measured.back.tobytes()).digest()
    return made_up_generator(*np.frombuffer(digest[:16], dtype=np.uint32).tolist())


def _noise(measured: Measured, release: Release, draws: int, rng: Generator) -> _Noisy:
    law, whole, weight = law_named(measured.law), measured.moment, measured.weight
    if measured.deviations is not None:
        noise = gaussian_errors(len(whole), draws, 1.0, rng) * measured.deviations
        return _Noisy((whole + whole.T) / 2, noise, None, None)
    drawn = np.array([law.made_up(len(whole), measured.deviation, rng) for _ in range(draws)])
    if not weight:
        return _Noisy((whole + whole.T) / 2, drawn, None, None)
    mean, shift = whole[0, 1:] / weight, drawn[:, 0, 1:] / weight
    second = (whole[1:, 1:] + whole[1:, 1:].T) / 2 - np.outer(mean, mean)
    cross = shift[:, :, None] * mean
    noise = drawn[:, 1:, 1:] - cross - np.swapaxes(cross, 1, 2) + shift[:, :, None] * shift[:, None, :]
    if release.guarantee.relation is Relation.ADD_REMOVE:  # the number of rows is measured by the constant entry
        noise -= second * (drawn[:, 0, 0] / weight**2)[:, None, None]
    return _Noisy(second, noise, mean, shift)


def _mean_errors(
    measured: Measured, shift: Floats | None, covariance: Floats, cut: Clipping, of: str, draws: int, rng: Generator
) -> Floats | None:
    d, present = len(measured.back), 1.0 if measured.present is None else np.diag(measured.present)
    center = measured.center_errors
    if shift is None:
        if center is None:
            return None
        errors = rng.normal(size=(draws, d)) * center
        signs, heavy = measured.kind == "signs", max(cut.heavy, _LEAST_DOUBT)
        doubt = max(_DOUBT_OF_CENTER * heavy, _OF_CLIPPED * (measured.center_clipped - _MANY_CLIPPED))
        doubt = _DOUBT_OF_SIGN_CENTER if signs else doubt
        errors = errors + rng.normal(size=(draws, d)) * doubt * np.sqrt(np.diag(covariance))
    else:
        errors = shift @ measured.back.T
        part = _DOUBT_OF_MEAN_ON_PURPOSE if cut.on_purpose else _DOUBT_OF_MEAN
        moved = part * cut.shortened * measured.radius / math.sqrt(measured.back.shape[1])
        errors = errors + (rng.normal(size=(draws, measured.back.shape[1])) * moved) @ measured.back.T
    factor = np.diag(_sampling_factor(measured, of))
    if factor.any():
        units = deviations_of(covariance)
        values, vectors = np.linalg.eigh(covariance / np.outer(units, units) / measured.terms)
        drawn = (rng.normal(size=(draws, d)) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T * units
        errors = errors + drawn * np.sqrt(factor) * present  # to be divided by the share below
    return np.asarray(errors / present)
