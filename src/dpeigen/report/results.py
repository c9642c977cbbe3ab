"""The results on a card: what can be distinguished from noise, and the tables and pictures of each kind of release."""

from __future__ import annotations

from dpeigen.release import Release
from dpeigen.report import matrices, regressions
from dpeigen.report.blocks import Block, count
from dpeigen.report.columns import about_columns, unknown_columns, why_unknown
from dpeigen.report.components import component_blocks, loadings_unknown, undetermined
from dpeigen.report.missing import about_missing

__all__ = ["clear_correlations", "known_deviations", "result_blocks", "standing"]

_BLOCKS = {"ridge": regressions.ridge_blocks, "covariance": matrices.covariance_blocks}  # others: components


def standing(release: Release) -> list[str]:
    """What can be distinguished from noise, as sentences."""
    told = release.resolved
    if release.kind == "ridge":
        said = regressions.standing_coefficients(release)
    elif told is None:
        said = ["It is not known which components can be distinguished from noise: this release has no intervals."]
    elif told == 0 and release.kind == "covariance":
        said = [_standing_matrix(release)]
    elif release.too_few_known and (unknown := why_unknown(release)):
        said = [f"This release shows no component, because {unknown}. {_remedy(release)}"]
    elif told == 0:
        said = [
            "No component can be distinguished from noise: this release shows no result. More rows, a larger ε or "
            "fewer columns would help."
        ]
    else:
        said = _standing_components(release, told)
    return [*said, *_of_signs(release)]


def _standing_components(release: Release, told: int) -> list[str]:
    """What a release shows of whose components ``told`` can be distinguished from noise."""
    k = len(release.eigenvalues)
    if told < k:
        which = f"{told} of {k} components"
    else:
        which = {1: "The component", 2: "Both components"}.get(k, f"All {k} components")
    said = [f"{which} can be distinguished from noise."]
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
            f"The loadings of {names} are not determined: it is not known which columns contribute. This happens when "
            "consecutive components have nearly equal variances."
        )
    return said


def _of_signs(release: Release) -> list[str]:
    """Bounds on the angle to the true components, and on outliers, that `kendall` states for elliptical rows."""
    if "tau_eigenvalues" not in (release.facts.get("details") or {}) or not release.facts.get("n_rows"):
        return []
    said = []
    angle, share = release.subspace_error(), release.breakdown_bound()
    if angle < 1:
        said.append(
            f"For elliptically distributed rows, the sine of the angle to the true components is below {angle:.3g} "
            "with probability 95%."
        )
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
    return matrices.clear_of_all(release) if release.kind == "covariance" else 0


def result_blocks(release: Release) -> list[Block]:
    """Tables and pictures for this kind of release."""
    first, *rest = _BLOCKS.get(release.kind, component_blocks)(release)
    return [first, *about_columns(release), *about_missing(release), *rest]
