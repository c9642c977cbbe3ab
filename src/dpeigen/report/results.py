"""The results on a card: what can be distinguished from noise, and the tables and pictures of each kind of release."""

from __future__ import annotations

from dpeigen.release import Release
from dpeigen.report.blocks import Block, count
from dpeigen.report.columns import (
    MOST_COMPONENTS,
    about_columns,
    about_uncertain,
    correlations,
    interval,
    largest_columns,
    named_remarks,
    names_of,
    share_interval,
    unknown_columns,
    why_unknown,
    widest_columns,
    without_units,
)
from dpeigen.report.components import (
    MOST_PICTURES,
    component_blocks,
    loadings_unknown,
    scree,
    undetermined,
    unknown_may_contribute,
    variance_cells,
    without_loadings,
)
from dpeigen.report.missing import about_missing

__all__ = [
    "KIND_TITLES",
    "MOST_CELLS",
    "MOST_COMPONENTS",
    "MOST_PICTURES",
    "about_columns",
    "about_uncertain",
    "clear_correlations",
    "correlations",
    "interval",
    "known_deviations",
    "largest_columns",
    "loadings_unknown",
    "named_remarks",
    "names_of",
    "result_blocks",
    "scree",
    "share_interval",
    "standing",
    "undetermined",
    "unknown_columns",
    "unknown_may_contribute",
    "variance_cells",
    "why_unknown",
    "widest_columns",
    "without_loadings",
    "without_units",
]

KIND_TITLES = {"pca": "Private PCA", "covariance": "Private covariance", "ridge": "Private ridge regression"}
MOST_CELLS = 30  # columns of a heat map


def standing(release: Release) -> list[str]:
    """What can be distinguished from noise, as sentences."""
    said: list[str] = []
    k, told = len(release.eigenvalues), release.resolved
    from dpeigen.report import regressions  # which imports this module

    if release.kind == "ridge":
        said += regressions.standing_coefficients(release)
    elif told is None:
        said.append("It is not known which components can be distinguished from noise: this release has no intervals.")
    elif told == 0 and release.kind == "covariance":
        said.append(_standing_matrix(release))
    elif release.too_few_known and (unknown := why_unknown(release)):
        said.append(f"This release shows no component, because {unknown}. {_remedy(release)}")
    elif told == 0:
        said.append(
            "No component can be distinguished from noise: this release shows no result. More rows, a larger ε or "
            "fewer columns would help."
        )
    else:
        which = (
            "Both components"
            if told >= k == 2
            else f"All {k} components"
            if told >= k > 1
            else "The component"
            if told >= k
            else f"{told} of {k} components"
        )
        said.append(f"{which} can be distinguished from noise.")
        if unknown := why_unknown(release):
            what = "Loadings and variances" if release.kind == "pca" else "Components"
            what = f"Intervals of {what.lower()}" if release.uncertain_columns else what
            said.append(f"{what} are those of the other columns: {unknown}.")
        if release.kind == "pca" and loadings_unknown(release):
            said.append("Their loadings are not known.")
        elif release.kind == "pca" and (unclear := undetermined(release)):
            *first, last = (f"{i + 1}" for i in unclear)
            names = f"components {', '.join(first)} and {last}" if first else f"component {last}"
            said.append(
                f"The loadings of {names} are not determined: it is not known which columns contribute. This "
                "happens when consecutive components have nearly equal variances."
            )
    if "tau_eigenvalues" in (release.facts.get("details") or {}) and release.facts.get("n_rows"):
        angle = release.subspace_error()
        if angle < 1:
            said.append(
                f"For elliptically distributed rows, the sine of the angle to the true components is below {angle:.3g} "
                "with probability 95%."
            )
        share = release.breakdown_bound()
        if share > 0:
            said.append(
                f"At least {100 * share:.2g}% of the rows would have to be changed to rotate the components by a right "
                "angle."
            )
    return said


def _standing_matrix(release: Release) -> str:
    """What a covariance shows if no component can be distinguished from noise."""
    corrected = "corrected for the number of pairs of columns (Bonferroni, 2%)"
    if clear := clear_correlations(release):
        some = "one correlation" if clear == 1 else f"{clear} correlations"
        return f"No component can be distinguished from noise, but {some} can, {corrected}."
    help_ = "More rows, a larger ε or fewer columns would help."
    if not (known := known_deviations(release)):
        return f"Nothing can be distinguished from noise: this release shows no result. {help_}"
    return (
        f"The standard deviations of {known} of {count(release.n_features, 'column')} can be distinguished from noise; "
        f"no component can, and no correlation, {corrected}. {help_}"
    )


def known_deviations(release: Release) -> int:
    """For a covariance: how many standard deviations of columns can be distinguished from 0."""
    from dpeigen.report import matrices  # which imports this module

    found = matrices.deviation_intervals(release) if release.kind == "covariance" else None
    return 0 if found is None else int((found[0] > 0).sum())


def _remedy(release: Release) -> str:
    """What to do about columns that could not be measured."""
    empty, unknown = set(release.columns_without_cells), set(unknown_columns(release))
    said = []
    if empty:
        said.append("Declare types, categories or the decimal mark of columns that cannot be read, or leave them out.")
    if len(empty) == release.n_features:
        said.append(
            "If no column can be read, perhaps the lines of the file have more or fewer fields than the line with the "
            "names, as below a title or with numbers of rows."
        )
    if unknown - empty:
        said.append("Leave out constant columns. Public bounds, more rows or a larger ε help to measure the others.")
    return " ".join(said)


def clear_correlations(release: Release) -> int:
    """For a covariance: how many correlations can be distinguished from 0, corrected for the number of pairs."""
    from dpeigen.report import matrices  # which imports this module

    return matrices.clear_of_all(release) if release.kind == "covariance" else 0


def result_blocks(release: Release) -> list[Block]:
    """Tables and pictures for this kind of release."""
    from dpeigen.report import matrices, regressions  # which import this module

    made = {"ridge": regressions.ridge_blocks, "covariance": matrices.covariance_blocks}
    first, *rest = made.get(release.kind, component_blocks)(release)
    return [first, *about_columns(release), *about_missing(release), *rest]
