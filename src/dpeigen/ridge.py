"""Ridge regression from a release: any target, features and penalties, at no cost.

The mathematics is in `stats.ridge`. This module takes what that needs from a release: the matrix, the point to regress
about, the size of its noise, and the units in which the noise is the same on all columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dpeigen._types import Floats
from dpeigen._validate import check_count, check_vector, complain
from dpeigen.privacy import gaussian_mu
from dpeigen.stats.errors_in_variables import Constant
from dpeigen.stats.penalty import choose_penalty
from dpeigen.stats.ridge import RidgeFit, RidgePath, check_alphas, lemma_one_bound, orthogonal_to

if TYPE_CHECKING:
    from dpeigen.release import Release

__all__ = ["FAINT", "constants_among", "penalty_scales", "regression_columns", "ridge", "rows_known"]

FAINT = 1e-100  # a penalty that only chooses among coefficients with equal predictions
_ROUNDING = 1e-9


def ridge(
    release: Release,
    target: int | str,
    alpha: float | ArrayLike,
    features: Iterable[int | str] | None,
    fit_intercept: bool | None,
    scales: ArrayLike | None,
) -> RidgeFit:
    """See `Release.ridge`."""
    owner = "Release.ridge"
    column, columns = regression_columns(release, target, features, owner)
    matrix, center = _about(release, fit_intercept, owner)
    alphas, n = check_alphas(alpha, owner), rows_known(release, owner)
    scale = np.ones(release.n_features)
    scale[columns] = penalty_scales(release, scales, columns, owner, auto=alphas is None)
    constants = constants_among(release, columns) if fit_intercept is not False else []
    weights = np.array([weights * scale[columns] for _, weights in constants]).reshape(-1, len(columns))
    scaled, units = matrix / scale / scale[:, None], release.noise_units / scale
    path = RidgePath.of(scaled, column, columns, units, free=orthogonal_to(weights))
    if alphas is None:
        stated = _in_units(release, "noise_deviation") is not None
        deviation = math.hypot(_noise_deviation(release, n), _missing_deviation(release, [*columns, column], n))
        alphas = np.array(choose_penalty(path, deviation, n, stated=stated) * n)
    penalties = np.atleast_1d(alphas) / n
    coef = path.coefficients(penalties) / scale[columns]
    intercept = None if center is None else center[column] - coef @ center[columns]
    error = _in_units(release, "covariance_error") if matrix is release.covariance else None
    bound = None
    if error is not None:
        whole = RidgePath.of(scaled, column, columns, units) if constants else path
        bound = lemma_one_bound(whole, penalties, error, path.coefficients(penalties)) / scale[columns].min()
    names = release.feature_names
    one = alphas.ndim == 0
    return RidgeFit(
        coef=coef[0] if one else coef,
        intercept=intercept if intercept is None or not one else float(intercept[0]),
        alpha=float(alphas) if one else alphas,
        feature_names=tuple(names[j] for j in columns),
        target=names[column],
        error_bound=bound if bound is None or not one else float(bound[0]),
        scales=scale[columns],
    )


def regression_columns(
    release: Release, target: int | str, features: Iterable[int | str] | None, owner: str
) -> tuple[int, list[int]]:
    """Checked indices of the target and the features."""
    if (release.facts.get("details") or {}).get("variances") == "relative":
        raise ValueError(
            f"{owner} needs variances in the data's units; those of this release are relative to their sum: only "
            "directions were paid for. Release with method='spatial-sign' or 'refined', by name."
        )
    column = _column(release, "target", target, owner)
    return column, _feature_columns(release, features, column, owner)


def penalty_scales(
    release: Release, scales: ArrayLike | None, columns: list[int], owner: str, *, auto: bool = False
) -> Floats:
    """The scales of the features for the penalty."""
    if scales is None and release.scale is not None:
        return release.scale[columns]
    if scales is None and auto:
        logs = np.log(release.noise_units[columns])
        return np.exp(logs - logs.mean())
    if scales is None:
        return np.ones(len(columns))
    chosen = check_vector("scales", scales, len(columns), owner)
    if not (chosen > 0).all():
        raise ValueError(complain("scales", owner, "numbers > 0, one for each feature", scales))
    return chosen


def constants_among(release: Release, columns: list[int]) -> list[Constant]:
    """Features that are all levels of a declared category: their sum is 1. The most frequent level is the reference.

    A moment about a public point in place of the mean has no such direction, unless the point has that sum too.
    """
    found: list[Constant] = []
    for _, members in release.variables():
        if not release.indicators[members].all() or not set(members) <= set(columns):
            continue
        low, width = np.array([release.rescaled(j) for j in members]).T
        mean = None if release.mean is None else low + width * release.mean[members]
        if release.facts.get("center") == "public" and (mean is None or abs(mean.sum() - 1) > _ROUNDING):
            continue
        weights, places = np.zeros(len(columns)), [columns.index(j) for j in members]
        weights[places] = width
        size = np.diag(release.raw_covariance)[members] * width**2 if mean is None else mean
        size = np.where(np.diag(release.raw_covariance)[members] > 0, size, -1.0)  # no level that is unknown
        found.append((places[int(np.argmax(size))], weights))
    return found


def _column(release: Release, name: str, value: Any, owner: str) -> int:
    if not isinstance(value, str):
        return check_count(name, value, owner, low=0, high=release.n_features - 1)
    found = [j for j, known in enumerate(release.feature_names) if known == value]
    if len(found) != 1:
        must = "an index, or a name that stands once among the columns"
        raise ValueError(complain(name, owner, must, value, f"They are {release.feature_names}."))
    return found[0]


def _feature_columns(release: Release, features: Iterable[int | str] | None, target: int, owner: str) -> list[int]:
    must = "different columns other than the target, at least one"
    if isinstance(features, str):
        raise TypeError(complain("features", owner, f"a list of {must}", features))
    chosen = _others(release, target) if features is None else list(features)
    if features is None and not chosen and release.indicators[target]:
        remedy = "The other levels of the target's category, which determine it, were left out: name those you want."
        raise ValueError(complain("features", owner, "given if there is no other variable", features, remedy))
    columns = [_column(release, "features", value, owner) for value in chosen]
    if not columns or target in columns or len(set(columns)) < len(columns):
        raise ValueError(complain("features", owner, must, features if features is None else chosen))
    return columns


def _others(release: Release, target: int) -> list[int]:
    """All columns but the target and, if it is a level of a category, the other levels, from which it follows."""
    left = {target}
    if release.indicators[target]:
        left |= next({*columns} for _, columns in release.variables() if target in columns)
    return [j for j in range(release.n_features) if j not in left]


def _about(release: Release, fit_intercept: bool | None, owner: str) -> tuple[Floats, Floats | None]:
    """The matrix for the regression, and the point through which the fit goes (None: not known)."""
    if fit_intercept is not None and not isinstance(fit_intercept, (bool, np.bool_)):
        raise TypeError(complain("fit_intercept", owner, "True, False or None", fit_intercept))
    fit_intercept = None if fit_intercept is None else bool(fit_intercept)
    origin = np.zeros(release.n_features)
    about_zero = release.mean is not None and release.facts.get("center") == "public" and not release.mean.any()
    if fit_intercept and (release.mean is None or about_zero):
        remedy = "Release with center='private' (or a public centre), or leave fit_intercept None."
        got = "second moment about 0" if about_zero else "release without a centre"
        raise ValueError(
            complain("fit_intercept", owner, "None or False for this release", f"True for a {got}", remedy)
        )
    covariance = release.raw_covariance
    if release.mean is None:
        return covariance, None if fit_intercept is None else origin
    if fit_intercept is False or about_zero:
        return (covariance if about_zero else covariance + np.outer(release.mean, release.mean)), origin
    return covariance, release.mean


def rows_known(release: Release, owner: str) -> float:
    """The number of rows, public or released; an error if it is neither."""
    n = release.facts.get("n_rows")
    if n is None:
        raise ValueError(f"{owner} needs the number of rows, public or released, which this release does not hold.")
    return float(n)


def _in_units(release: Release, fact: str) -> float | None:
    """A stated size of the covariance's noise, for N in Ĉ = C + UNU, where U are the units in which it is isotropic."""
    size, units = release.facts.get(fact), release.facts.get("units")
    return None if size is None else float(size) / (1.0 if units is None else max(units) ** 2)


def _noise_deviation(release: Release, n: float) -> float:
    """The deviation of an off-diagonal entry of the covariance, in the units of the noise.

    If the release does not state it, it is assumed to be that of plain noise on the second moment at the same budget,
    for rows as long as the radius, or √2 times as long as the covariance implies if there is none.
    """
    stated = _in_units(release, "noise_deviation")
    if stated is not None:
        return stated
    d, budget, units = release.n_features, release.guarantee, release.noise_units
    noise = math.sqrt(2 * (d + 1)) / budget.epsilon
    if budget.delta > 0:
        noise = min(noise, 1 / gaussian_mu(budget.epsilon, budget.delta))
    radius = release.facts.get("radius")
    square = 2 * float(np.sum(np.diag(release.raw_covariance) / units**2)) if radius is None else float(radius) ** 2
    return noise * square / (n / 2 if release.facts.get("center") == "pairs" else n)


def _missing_deviation(release: Release, columns: list[int], n: float) -> float:
    """The deviation of an off-diagonal entry because of missing cells, in the units of the noise; 0 without them.

    A sum over the rows that have both cells, divided by the share qᵢqⱼ of such rows, differs from that over all rows by
    about (1/(qᵢqⱼ) − 1)·vᵢvⱼ/n in mean square. Entries have different rows, so that no noise-free direction is left:
    a combination of columns that is constant in every row has a variance of this size in the corrected matrix. A pair
    of rows has a cell if both rows have it.
    """
    missing = release.missing_shares
    if missing is None:
        return 0.0
    seen = np.clip(1 - missing[columns], 1 / n, 1.0)
    if release.facts.get("center") == "pairs":
        seen, n = seen**2, n / 2
    sizes = np.diag(release.raw_covariance)[columns] / release.noise_units[columns] ** 2
    squares = np.outer(sizes, sizes) * (1 / np.outer(seen, seen) - 1) / n
    return math.sqrt(float(squares[np.triu_indices(len(columns), 1)].mean()))
