"""Intervals for the numbers of a release: privacy noise, clipping as far as it is known, and sampling error.

Post-processing: a function of the release, so it costs nothing, and the same every time for the same release. The law
of the noise is known exactly and is drawn anew; sampling error is that of elliptical rows whose tails follow from the
radius that was paid for and from the number of rows outside it (`stats.clipping`).
The mathematics is in `stats.intervals`.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen._validate import check_choice, complain
from dpeigen.privacy import Relation
from dpeigen.privacy.guarantee import MIXED
from dpeigen.privacy.randomness import Generator, made_up_generator
from dpeigen.questions.laws import law_named
from dpeigen.stats.clipping import Clipping, clipping, whole_rows
from dpeigen.stats.intervals import Interval, Spectrum, entry_intervals, gaussian_errors, quantiles, sampling_errors
from dpeigen.stats.mixed import divided_errors
from dpeigen.stats.spectrum import project_eigenvalues

if TYPE_CHECKING:
    from dpeigen.release import Release
    from dpeigen.stats.measured import Measured

_DRAWS = 400  # of errors; a fraction of them for what takes a decomposition each
_DECOMPOSED = 160
_DOUBT = 0.4  # of what is added for clipping, in each direction
_LONG = 0.8  # a loading from which on its own square takes part in its error
_INFLATED = 1.25  # noise of signs, whose model has a flat rest
_DOUBT_OF_SIGNS = 0.1  # of a covariance: no rows are quite elliptical
_TOLD = 3.0  # deviations of its error that a variance has to be larger than
_ROUNDING = 1e-12  # of a variance that is 1 by definition
_CLEAR = 0.98  # level of the tests that tell a component from noise


@dataclass(frozen=True, eq=False)
class Errors:
    """The covariance in the data's own units as it was measured, draws of its error, and of the error of the mean."""

    seen: Floats  # d × d, symmetric, not always positive
    covariance: Floats  # the same, made positive
    draws: Floats  # draws × d × d
    mean: Floats | None  # draws × d
    known: NDArray[np.bool_]  # columns of which anything is known

    @property
    def told(self) -> NDArray[np.bool_]:
        """Columns whose variance can be told from noise: only those have correlations."""
        spread = np.einsum("mii->mi", self.draws).std(axis=0)
        return np.asarray(self.known & (np.diag(self.seen) > _TOLD * spread))

    def correlation(self) -> tuple[Floats, Floats]:
        """The correlation matrix as it was measured, and draws of its error, to first order."""
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


def errors_of(release: Release, of: str, draws: int = _DRAWS) -> Errors:
    """Draws of the error of what was measured; ``of`` is "population" or "table"."""
    measured = release.measured
    if measured is None:
        raise ValueError(_too_old(release))
    rng = generator_of(measured)
    second, noise, shift = _noise(measured, release, draws, rng)
    # Eigenvalues of what was seen are too far apart, but their sum is right.
    values, vectors = np.linalg.eigh(second)
    least = 1e-6 * measured.radius**2 / len(second)
    signs = measured.kind == "signs"
    most = math.inf if signs else measured.radius**2
    values = project_eigenvalues(values, trace=min(max(float(values.sum()), least), most))
    cut = whole_rows(len(values), draws) if signs else _clipped(measured, values, draws, rng)
    gain = (vectors * np.sqrt(cut.gains)) @ vectors.T
    whole = gain @ second @ gain
    positive = (vectors * (values * cut.gains)) @ vectors.T
    noise = gain @ noise @ gain * (_INFLATED if signs else 1.0)
    noise += _doubt(positive, cut, signs, draws, rng)
    back = measured.back
    seen, covariance, noise = back @ whole @ back.T, back @ positive @ back.T, back @ noise @ back.T
    terms = measured.terms
    if of == "population" or release.facts.get("center") == "pairs":
        again = 1.0 if of == "population" else 2.0  # pairs of the same rows vary half as much as pairs of others
        noise = noise + sampling_errors(covariance, terms * again, cut.kurtosis, draws, rng)
    mean = None
    if release.mean is not None and release.facts.get("center") == "private":
        mean = _mean_errors(measured, shift, covariance if of == "population" else None, draws, rng)
    return Errors(seen, covariance, noise, mean, np.asarray(back.any(axis=1)))


def _doubt(covariance: Floats, cut: Clipping, signs: bool, draws: int, rng: Generator) -> Floats:
    """Errors of what was added for clipping, or of a covariance that was made of signs, which rest on a model."""
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    doubt = _DOUBT * float(1 - 1 / cut.gains.mean()) if not signs else _DOUBT_OF_SIGNS
    errors = gaussian_errors(len(values), draws, doubt, rng)
    return np.asarray(root @ errors @ root.T - (cut.sizes - 1)[:, None, None] * covariance)


def _clipped(measured: Measured, values: Floats, draws: int, rng: Generator) -> Clipping:
    outside = None
    if measured.outside is not None:
        outside = min(measured.outside / measured.terms, 0.5), measured.outside_scale / measured.terms
    return clipping(values, measured.radius, outside, draws, rng)


def generator_of(measured: Measured) -> Generator:
    """The same for the same release."""
    digest = hashlib.sha256(measured.moment.tobytes() + measured.back.tobytes()).digest()
    return made_up_generator(*np.frombuffer(digest[:16], dtype=np.uint32).tolist())


def _noise(measured: Measured, release: Release, draws: int, rng: Generator) -> tuple[Floats, Floats, Floats | None]:
    """The moment about the mean, draws of the noise on it, and draws of the noise on the mean."""
    law, whole, weight = law_named(measured.law), measured.moment, measured.weight
    if measured.deviations is not None:
        return (whole + whole.T) / 2, gaussian_errors(len(whole), draws, 1.0, rng) * measured.deviations, None
    drawn = np.array([law.made_up(len(whole), measured.deviation, rng) for _ in range(draws)])
    if not weight:
        return (whole + whole.T) / 2, drawn, None
    mean, shift = whole[0, 1:] / weight, drawn[:, 0, 1:] / weight
    second = (whole[1:, 1:] + whole[1:, 1:].T) / 2 - np.outer(mean, mean)
    cross = shift[:, :, None] * mean
    noise = drawn[:, 1:, 1:] - cross - np.swapaxes(cross, 1, 2) + shift[:, :, None] * shift[:, None, :]
    if release.guarantee.relation is Relation.ADD_REMOVE:  # the number of rows is measured by the constant
        noise -= second * (drawn[:, 0, 0] / weight**2)[:, None, None]
    return second, noise, shift


def _mean_errors(
    measured: Measured, shift: Floats | None, covariance: Floats | None, draws: int, rng: Generator
) -> Floats | None:
    d = len(measured.back)
    if shift is None and measured.center_deviation is None:
        return None
    errors = (
        rng.normal(size=(draws, d)) * (measured.center_deviation or 0.0) if shift is None else shift @ measured.back.T
    )
    if covariance is not None:
        values, vectors = np.linalg.eigh(covariance / measured.terms)
        errors = errors + (rng.normal(size=(draws, d)) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(errors)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals for the numbers of a release, each a pair (low, high) of arrays. Computed when they are asked for.

    Attributes
    ----------
    level : the probability that an interval holds the number it is for.
    of : "population" or "table".
    components : (k, d) of the loadings. The sign of the truth is the one that makes its product with the released
        component positive.
    eigenvalues, shares : (k,) of the variances along components, and of their share of the whole variance.
    covariance, correlation : (d, d), of every entry. A column of which nothing is known has infinite ones.
    mean : (d,), in the data's units; None where no mean was measured.
    resolved : how many components, from the first on, can be told from noise.
    """

    release: Release
    level: float = 0.95
    of: str = "population"

    @cached_property
    def errors(self) -> Errors:
        """What was measured, and draws of its error."""
        return errors_of(self.release, self.of)

    @cached_property
    def _in_units(self) -> tuple[Floats, Floats]:
        """The matrix that the components are those of, and draws of its error."""
        release, errors = self.release, self.errors
        if self._correlated:
            return errors.correlation()
        if release.scale is None:
            return errors.seen, errors.draws
        if release.estimand == MIXED:
            sizes = np.sqrt(np.diag(errors.covariance))
            return divided_errors(errors.seen, sizes, errors.draws, errors.mean, release.scale, release.indicators)
        area = np.outer(release.scale, release.scale)
        return errors.seen / area, errors.draws / area

    @property
    def _correlated(self) -> bool:
        """Whether columns were divided by released deviations: then variances are 1 by definition."""
        own = np.diag(self.release.covariance)
        return self.release.scale is not None and bool(np.allclose(own[own > 0], 1.0, rtol=1e-9))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Columns that the components can be told of."""
        return self.errors.told if self._correlated else self.errors.known

    @cached_property
    def _spectrum(self) -> Spectrum:
        seen, draws = self._in_units
        known = np.flatnonzero(self.known)
        chosen = np.ix_(known, known)
        return Spectrum.of(seen[chosen], draws[:_DECOMPOSED][:, chosen[0], chosen[1]])

    @cached_property
    def _debiased(self) -> Floats:
        return self._spectrum.debiased()

    @property
    def _count(self) -> int:
        """Components that anything is known of."""
        return min(len(self.release.components), int(self.known.sum()))

    @cached_property
    def covariance(self) -> Interval:
        low, high = entry_intervals(*self._in_units, self.level)
        diagonal = np.arange(len(low))
        low[diagonal, diagonal] = np.maximum(low[diagonal, diagonal], 0.0)
        high[diagonal, diagonal] = np.maximum(high[diagonal, diagonal], 0.0) * (1 + _ROUNDING)
        low[diagonal, diagonal] *= 1 - _ROUNDING
        return _where(self.known, low, high, 1.0 if self._correlated else math.inf)

    @cached_property
    def correlation(self) -> Interval:
        drawn = self.errors.seen - self.errors.draws
        variances = np.einsum("mii->mi", drawn)
        least = 1e-6 * np.maximum(np.diag(self.errors.covariance), 1e-300)
        roots = np.sqrt(np.maximum(variances, least))
        found = np.clip(drawn / (roots[:, :, None] * roots[:, None, :]), -1.0, 1.0)
        low, high = quantiles(found, self.level)
        low, high = _where(self.errors.told, low, high, 1.0)
        np.fill_diagonal(low, 1.0 - _ROUNDING)
        np.fill_diagonal(high, 1.0 + _ROUNDING)
        return low, high

    @cached_property
    def mean(self) -> Interval | None:
        if self.errors.mean is None or self.release.mean is None:
            return None
        low, high = quantiles(self.release.mean - self.errors.mean, self.level)
        known = self.errors.known
        return np.where(known, low, -math.inf), np.where(known, high, math.inf)

    @cached_property
    def eigenvalues(self) -> Interval:
        if not self._count:
            return np.zeros(len(self.release.components)), np.full(len(self.release.components), math.inf)
        low, high = self._spectrum.eigenvalue_intervals(self._debiased, self.level, self._count)
        missing = len(self.release.components) - self._count
        # A further column makes no eigenvalue smaller, and may make each larger.
        high = high if self.known.all() else np.full_like(high, math.inf)
        return np.append(low, np.zeros(missing)), np.append(high, np.full(missing, math.inf))

    @cached_property
    def shares(self) -> Interval:
        total = float(self._debiased.sum()) or 1.0
        (low, high), count = self.eigenvalues, self._count
        drawn = self._spectrum.noisy(self._debiased)[:, :count]
        traces = np.einsum("mii->m", self._spectrum.errors)
        part = self._debiased[:count] / total
        moved = (drawn - part * traces[:, None]).std(axis=0) / np.maximum(drawn.std(axis=0), 1e-300)
        if not self.known.all():
            return np.zeros_like(low), np.ones_like(low)
        below, above = (low[:count] - self._debiased[:count]) * moved, (high[:count] - self._debiased[:count]) * moved
        ends = np.clip([part + below / total, part + above / total], 0.0, 1.0)
        return ends[0], ends[1]

    @cached_property
    def components(self) -> Interval:
        released = self.release.components
        if not self.known.all():
            return np.full(released.shape, -1.0), np.ones(released.shape)
        rng = made_up_generator(len(released))
        drawn = self._spectrum.directions(self._debiased, rng, self._count)
        along = np.einsum("mkd,kd->mk", drawn, released)
        drawn = drawn * np.where(along < 0, -1.0, 1.0)[:, :, None]
        low, high = quantiles(drawn, self.level)
        # Draws never reach a loading of ±1: they scatter about an estimate that does not reach it either.
        seen = self._spectrum.vectors[:, : len(released)].T
        seen = seen * np.where(np.sum(seen * released, axis=1) < 0, -1.0, 1.0)[:, None]
        high = np.where(seen > _LONG, np.minimum(np.maximum(high, 2 * seen - low), 1.0), high)
        low = np.where(seen < -_LONG, np.maximum(np.minimum(low, 2 * seen - high), -1.0), low)
        return low, high

    @cached_property
    def resolved(self) -> int:
        if not self.known.any():
            return 0
        return self._spectrum.resolved(_CLEAR, self._count)

    def to_frame(self) -> Any:
        """A pandas table of the components: loadings with their intervals."""
        import pandas as pd

        low, high = self.components
        names, k = self.release.feature_names, len(self.release.components)
        index = pd.MultiIndex.from_product([range(1, k + 1), names], names=["component", "column"])
        values = {"loading": self.release.components, "low": low, "high": high}
        return pd.DataFrame({name: np.ravel(value) for name, value in values.items()}, index=index)

    def __repr__(self) -> str:
        k = len(self.release.components)
        return f"Intervals(level={self.level:g}, of={self.of!r}, {self.resolved} of {k} components told from noise)"


def _where(known: NDArray[np.bool_], low: Floats, high: Floats, widest: float) -> Interval:
    """Intervals of entries between columns that are known, and the widest for others."""
    both = np.outer(known, known) | np.diag(np.full(len(known), widest == 1.0))
    return np.where(both, low, -widest), np.where(both, high, widest)


def check_level(level: float, of: str, owner: str) -> tuple[float, str]:
    """Checked."""
    check_choice("of", of, ["population", "table"], owner)
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0.5 <= level <= 0.999:
        raise ValueError(complain("level", owner, "a number between 0.5 and 0.999", level))
    return float(level), of


def intervals(release: Release, level: float, of: str) -> Intervals:
    """Checked."""
    refuse_without_moment(release)
    return Intervals(release, *check_level(level, of, "Release.intervals"))


def refuse_without_moment(release: Release) -> None:
    """Say plainly that there is nothing to compute errors from."""
    if release.measured is None:
        raise ValueError(_too_old(release))


def _too_old(release: Release) -> str:
    method = release.facts.get("method") or release.guarantee.mechanism
    if release.missing_shares is not None:
        return (
            "Intervals do not account for missing cells yet: results of missing='correct' were divided by released "
            "shares of cells. Complete rows, or missing='drop', have intervals."
        )
    return (
        f"This release does not hold the noisy moment that intervals are computed from. It was saved by an older "
        f"version of dpeigen, or its method ({method}) releases none. Fit again, which spends budget, with "
        "method='auto', 'whitened', 'gaussian', 'laplace' or 'matrix-laplace'."
    )
