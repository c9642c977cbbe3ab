"""The results on a card, by the kind of release: tables, pictures, and how far above the noise they stand."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpeigen._types import Floats
from dpeigen.privacy.guarantee import MIXED
from dpeigen.release import Release
from dpeigen.report.blocks import Block, More, Picture, Table, Text, clean, count, short
from dpeigen.report.missing import SHOWN_ROWS, about_missing
from dpeigen.stats.ridge import RidgeFit

KIND_TITLES = {"pca": "Private PCA", "covariance": "Private covariance", "ridge": "Private ridge regression"}
NOISE = "not distinguishable from noise"
MOST_COMPONENTS = 8  # in a table or a heat map
MOST_CELLS = 30  # columns of a heat map
_MATRIX = 12  # columns up to which a whole matrix is a readable table


def names_of(release: Release) -> list[str]:
    """Names of the columns as they may be shown."""
    return [clean(name) for name in release.labels]


def largest_columns(release: Release, most: int) -> NDArray[np.intp]:
    """The columns with the largest loadings among the components shown, in the order of the table."""
    weight = np.abs(release.components[:MOST_COMPONENTS]).max(axis=0)
    return np.sort(np.argsort(-weight, kind="stable")[:most])


def widest_columns(release: Release, most: int) -> NDArray[np.intp]:
    """The columns with the largest variances, in the order of the table."""
    return np.sort(np.argsort(-np.diag(release.covariance), kind="stable")[:most])


def correlations(release: Release) -> Floats:
    """The correlation matrix of the released covariance; 0 where a variance is."""
    matrix = release.correlation
    np.fill_diagonal(matrix, (np.diag(release.covariance) > 0).astype(float))
    return matrix


def unknown_columns(release: Release) -> list[int]:
    """Columns in which nothing stood out of the noise."""
    return list((release.facts.get("details") or {}).get("columns_without_scale") or [])


def about_columns(release: Release) -> list[Block]:
    """What the columns were divided by, and of which of them nothing is known."""
    said: list[Block] = []
    if release.scale is not None:
        public = release.estimand == "covariance of columns in public units"
        by = "by a public number" if public else "by its released standard deviation"
        if release.estimand == MIXED:
            by += ", indicators of categories by the square root of their released frequency,"
        said.append(
            Text(f"Every column was divided {by} first: all numbers but the centre are those of scaled columns.")
        )
    unknown = [names_of(release)[j] for j in unknown_columns(release)]
    if unknown:
        shown = ", ".join(map(short, unknown[:SHOWN_ROWS])) + (", …" if len(unknown) > SHOWN_ROWS else "")
        said.append(
            Text(f"Nothing is known of {shown}: constant, or too rare for this budget. A 0 there says nothing.")
        )
    return said


def asked_regression(release: Release) -> RidgeFit:
    """The regression that a release of kind "ridge" was made for; its target is the last column."""
    asked = release.facts.get("ridge") or {"alpha": "auto"}
    return release.ridge(release.n_features - 1, asked["alpha"], scales=asked.get("scales"))


def noise_floor(release: Release) -> tuple[float, str] | None:
    """A variance that noise alone could make, and what exactly is said about it; None where the method states none.

    A symmetric d × d matrix of independent noise of deviation τ has its largest eigenvalue at about 2τ√d (Wigner).
    """
    deviation, error = release.facts.get("noise_deviation"), release.facts.get("covariance_error")
    if deviation is not None and math.isfinite(deviation):
        edge = 2 * math.sqrt(release.n_features) * float(deviation)
        return edge, "a matrix of the noise alone has variances up to about this much"
    if error is not None and math.isfinite(error):
        return float(error), (
            "with probability 95% over the noise, every variance along an axis is within this much of the one without "
            "noise (of the same clipped rows)"
        )
    return None


def standing(release: Release) -> list[str]:
    """What stands above the noise, as sentences."""
    said = []
    floor = noise_floor(release)
    if release.kind == "ridge":
        bound = asked_regression(release).error_bound
        if bound is not None and np.isfinite(bound):
            said.append(
                f"All coefficients together are, with probability 95% over the noise, at most {float(bound):.3g} "
                "(root of the sum of squares) "
                "away from those of the same clipped rows without noise. It is a worst-case number and mostly far "
                "too large."
            )
    elif floor is not None:
        above = int(np.sum(release.eigenvalues > floor[0]))
        which = (
            "No component stands"
            if above == 0
            else f"{count(above, 'component')} of {len(release.eigenvalues)} {'stands' if above == 1 else 'stand'}"
        )
        said.append(
            f"{which} above the noise floor of {floor[0]:.3g}: {floor[1]}. Components below it may be noise and should "
            "not be interpreted."
        )
    else:
        said.append("How strong a component must be to stand above the noise is not stated by this method.")
    if "tau_eigenvalues" in (release.facts.get("details") or {}) and release.facts.get("n_rows"):
        angle = release.subspace_error()
        if angle < 1:
            said.append(
                f"For rows from an elliptical law, the sine of the angle to the true components is below {angle:.3g} "
                "with "
                "probability 95%."
            )
        share = release.breakdown_bound()
        if share > 0:
            said.append(
                f"At least {100 * share:.2g}% of the rows would have to be changed to turn the components by a right "
                "angle."
            )
    return said


def result_blocks(release: Release) -> list[Block]:
    """Tables and pictures for this kind of release."""
    made = {"ridge": _ridge, "covariance": _covariance}.get(release.kind, _pca)
    first, *rest = made(release)
    return [first, *about_columns(release), *about_missing(release), *rest]


# --- components -----------------------------------------------------------------------------------------------------


def _pca(release: Release) -> list[Block]:
    return [
        Text(
            "A component is a direction in which the rows vary much. Its loadings say how much each column takes part; "
            "columns with loadings of the same sign rise together, those of opposite signs go against each other."
        ),
        _variances(release),
        _loadings(release),
        _heat_map(release),
        _scree(release),
        _biplot(release),
    ]


def _shares(release: Release) -> Floats:
    total = float(np.trace(release.covariance))
    return release.eigenvalues / total if total > 0 else np.zeros(len(release.eigenvalues))


def _variances(release: Release) -> Table:
    floor = noise_floor(release)
    values, shares = release.eigenvalues[:SHOWN_ROWS], _shares(release)
    rows = []
    for number, value in enumerate(values):
        largest = np.argsort(-np.abs(release.components[number]), kind="stable")[:3]
        names = ", ".join(f"{release.components[number][j]:+.2f} {names_of(release)[j]}" for j in largest)
        names = names if release.is_resolved(number) else NOISE
        above = [] if floor is None else ["yes" if value > floor[0] else "no"]
        rows.append([f"{number + 1}", f"{value:.4g}", f"{100 * shares[number]:.1f}%", *above, names])
    headings = ["component", "private variance", "share", *(["above the noise"] if floor else []), "largest loadings"]
    left = len(release.eigenvalues) - len(rows)
    return Table("Components", headings, rows, numbers=False, note=f"{left} more are in the file." if left else "")


def _loadings(release: Release) -> Table:
    shown = largest_columns(release, SHOWN_ROWS)
    k = min(len(release.components), MOST_COMPONENTS)
    names = names_of(release)
    told = [release.is_resolved(i) for i in range(k)]
    rows = [[names[j], *(f"{release.components[i, j]:+.3f}" if told[i] else "noise" for i in range(k))] for j in shown]
    left_columns, left = release.n_features - len(shown), len(release.components) - k
    notes = []
    if left_columns:
        notes.append(f"The {len(shown)} columns with the largest loadings; the other {left_columns} are in the file.")
    if left:
        notes.append(f"The first {k} components; the other {left} are in the file.")
    if not all(told):
        notes.append(f"Components marked noise are {NOISE}: their loadings mean nothing.")
    title = f"Loadings of the {'' if release.scale is None else 'scaled '}columns on the components"
    return Table(title, ["column", *(f"component {i + 1}" for i in range(k))], rows, note=" ".join(notes))


def _heat_map(release: Release) -> Picture:
    k = min(len(release.components), MOST_COMPONENTS)
    names = names_of(release)
    told = []
    for i in range(min(k, 3)):
        if not release.is_resolved(i):
            told.append(f"Component {i + 1} is {NOISE}.")
            continue
        largest = np.argsort(-np.abs(release.components[i]), kind="stable")[:3]
        pairs = ", ".join(f"{short(names[j])} ({release.components[i, j]:+.2f})" for j in largest)
        told.append(f"Component {i + 1} is largest on {pairs}.")
    shown = min(release.n_features, MOST_CELLS)
    some = "" if shown == release.n_features else f" the {shown} largest of"
    return Picture(
        "loadings",
        "Heat map of the loadings",
        f"Heat map: loadings of {count(k, 'component')} on{some} {count(release.n_features, 'column')}. "
        f"{' '.join(told)} The numbers are in "
        "the table above.",
        "Blue is positive, red is negative, the darker the larger."
        + ("" if shown == release.n_features else f" The {shown} columns with the largest loadings."),
    )


def _scree(release: Release) -> Picture:
    floor = noise_floor(release)
    values = release.eigenvalues
    said = "" if floor is None else f" A dashed line marks the noise floor at {floor[0]:.3g}."
    k, d = len(values), release.n_features
    caption = "Each bar is a released component."
    if k < d:
        caption = f"The first {count(k, 'bar')} {'is a component' if k == 1 else 'are components'} of the release; the "
        caption += "others follow from the released covariance."
    if floor is not None:
        caption += f" The noise floor, {floor[0]:.3g}: {floor[1]}."
    else:
        caption += " The method states no noise floor."
    shares = _shares(release)
    return Picture(
        "scree",
        "Scree plot",
        f"Bar chart of private variances by component, from {values[0]:.3g} for the first to {values[-1]:.3g} for "
        "component "
        f"{len(values)}, with a line for their cumulative share, {100 * float(shares.sum()):.0f}% at component "
        f"{len(values)}.{said}",
        caption,
    )


def _biplot(release: Release) -> Picture:
    names = names_of(release)
    if len(release.components) == 1:
        largest = np.argsort(-np.abs(release.components[0]), kind="stable")[:3]
        told = ", ".join(f"{short(names[j])} ({release.components[0, j]:+.2f})" for j in largest)
        words = f"Bar chart of the largest loadings of the only component: {told}."
        return Picture("biplot", "Loadings of the component", words, "There is one component, so there is no plane.")
    arrows = (release.components[:2] * np.sqrt(np.maximum(release.eigenvalues[:2], 0.0))[:, None]).T
    order = np.argsort(-np.linalg.norm(arrows, axis=1), kind="stable")[:5]
    told = "; ".join(
        f"{short(names[j])} {'right' if arrows[j, 0] >= 0 else 'left'} and {'up' if arrows[j, 1] >= 0 else 'down'}"
        for j in order
    )
    return Picture(
        "biplot",
        "Biplot",
        "Biplot of components 1 and 2: an arrow for each column over a cloud of synthetic rows. The longest arrows "
        f"point to: {told}.",
        "Arrows show how columns take part in the first two components. The points are synthetic, drawn from the "
        "release: "
        "no point is a person.",
    )


# --- covariance -----------------------------------------------------------------------------------------------------


def _covariance(release: Release) -> list[Block]:
    return [
        Text(
            "The covariance matrix says how much each column varies and which columns vary together. Correlations are "
            "the same on a scale from −1 to 1."
        ),
        _centers(release),
        *_correlations(release),
        _scree(release),
    ]


def _centers(release: Release) -> Table:
    shown, names = widest_columns(release, SHOWN_ROWS), names_of(release)
    rows = [[names[j], clean(release.center_text(j)), clean(release.deviation_text(j))] for j in shown]
    left = release.n_features - len(shown)
    note = f"The {len(shown)} columns with the largest variances; the other {left} are in the file." if left else ""
    return Table("Centre and spread of the columns", ["column", "centre", "standard deviation"], rows, note=note)


def _correlations(release: Release) -> list[Block]:
    matrix, names, d = correlations(release), names_of(release), release.n_features
    pairs = [(i, j) for i in range(d) for j in range(i)] if d <= 2000 else []
    values = np.array([matrix[i, j] for i, j in pairs])
    strongest = [pairs[at] for at in np.argsort(-np.abs(values), kind="stable")[:10]]
    told = ", ".join(f"{short(names[j])} with {short(names[i])} ({matrix[i, j]:+.2f})" for i, j in strongest[:3])
    shown = min(d, MOST_CELLS)
    some = "" if shown == d else f" The {shown} columns with the largest variances."
    rows = [[f"{names[j]}, {names[i]}", f"{matrix[i, j]:+.3f}"] for i, j in strongest]
    blocks: list[Block] = [
        Picture(
            "correlations",
            "Heat map of the correlations",
            f"Heat map of the correlations between {count(shown, 'column')}. The strongest: {told or 'none'}. "
            "Numbers are in the tables below.",
            f"Blue is positive, red is negative, the darker the stronger.{some}",
        )
    ]
    if rows:
        blocks.append(Table("The strongest correlations", ["columns", "correlation"], rows))
    if d <= _MATRIX:
        what = "correlation" if release.estimand == "correlation" else "covariance"
        entries = matrix if what == "correlation" else release.covariance
        whole = [[names[i], *(f"{entries[i, j]:.4g}" for j in range(d))] for i in range(d)]
        blocks.append(More(f"The {what} matrix", [Table(what.capitalize(), ["column", *names], whole)]))
    return blocks


# --- regression -----------------------------------------------------------------------------------------------------


def _ridge(release: Release) -> list[Block]:
    fit = asked_regression(release)
    target, names = clean(fit.target), [clean(name) for name in fit.feature_names]
    order = np.argsort(-np.abs(fit.coef), kind="stable")
    shown = order[:SHOWN_ROWS]
    own = _in_own_units(release, fit)
    rows = [[names[j], f"{fit.coef[j]:+.4g}", *([] if own is None else [f"{own[0][j]:+.4g}"])] for j in shown]
    center = ["not known"] if fit.intercept is None else [f"{float(fit.intercept):+.4g}"]
    rows.append(
        ["intercept", *center, *([] if own is None else [f"{own[1]:+.4g}" if own[1] is not None else "not known"])]
    )
    left = len(order) - len(shown)
    note = f"{left} smaller ones are in the file." if left else ""
    headings = ["column", "coefficient", *([] if own is None else ["in the columns' own units"])]
    told = ", ".join(f"{short(names[j])} ({fit.coef[j]:+.2g})" for j in order[:3])
    bound = fit.error_bound
    error = (
        "The method states no error of its covariance, so there is no error bound."
        if bound is None
        else "The error bound says nothing here: the penalty is too small for the noise."
        if not np.isfinite(bound)
        else "With probability 95% over the noise the coefficients are, all together, at most "
        f"{float(bound):.3g} away from those without noise."
    )
    scaled = "" if np.ptp(fit.scales) == 0 else ", for columns divided by the widths of their bounds"
    return [
        Text(
            f"A linear prediction of “{target}” from {count(len(names), 'other column')}, with a penalty of α = "
            f"{float(fit.alpha):.4g} (scikit-learn's convention{scaled}). It is computed from a "
            "released covariance, so regressions of other columns cost nothing more."
        ),
        Table(f"Coefficients for {target}", headings, rows, note=note),
        Text(error),
        Picture(
            "coefficients",
            "The largest coefficients",
            f"Bar chart of the largest coefficients for {short(target)}: {told}. The numbers are in the table above.",
            "Blue is positive, orange is negative." + (" In units of the bounds." if own else ""),
        ),
        *_correlations(release),
    ]


def _in_own_units(release: Release, fit: RidgeFit) -> tuple[Floats, float | None] | None:
    """Coefficients and intercept for columns that were not rescaled to [0, 1]; None where they were not."""
    units = release.facts.get("rescaled")
    if not units:
        return None
    lower, upper = np.array(units["lower"]), np.array(units["upper"])  # in the order of the columns, the target last
    width = upper - lower
    coef = fit.coef * width[-1] / width[:-1]
    if fit.intercept is None:
        return coef, None
    return coef, float(lower[-1] + width[-1] * float(fit.intercept) - coef @ lower[:-1])
