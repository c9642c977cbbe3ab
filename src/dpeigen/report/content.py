"""The content of a card: title and authors, a summary of the facts, the results, and valid conclusions.

Everything is read from the release. The parts are in `results`, `matrices`, `effects`, `promise` and `files`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpeigen._version import __version__
from dpeigen.clipped import MANY, clipped_share, clipped_warning
from dpeigen.notebook import KIND_TITLES
from dpeigen.privacy import Guarantee
from dpeigen.privacy.guarantee import weak_budget
from dpeigen.release import Release
from dpeigen.report.blocks import Block, Card, Items, Notice, Section, Table, clean, count
from dpeigen.report.columns import named_remarks
from dpeigen.report.components import loadings_unknown, without_loadings
from dpeigen.report.effects import effects
from dpeigen.report.files import check, cite, data, terms
from dpeigen.report.metadata import authors, dataset
from dpeigen.report.promise import budget, notices, privacy_unit, promise
from dpeigen.report.results import clear_correlations, known_deviations, result_blocks, standing

__all__ = ["make_card"]

_KINDS = {
    "pca": "Principal components of {}",
    "covariance": "{}, with variances and correlations",
    "ridge": "A linear regression computed from {}",
}


def make_card(release: Release, digests: Mapping[str, str]) -> Card:
    """The card of a release whose files have these digests."""
    g, about = release.guarantee, release.about
    plain = f"{KIND_TITLES.get(release.kind, 'Private release')} of {count(release.n_features, 'column')}"
    title = clean(about.get("title") or plain)
    sections = [
        Section("short", "In short", _short(release)),
        Section("result", "The result", result_blocks(release)),
        Section("effects", "What noise and clipping did", effects(release)),
        Section("conclusions", "What may and may not be concluded", _conclusions(release)),
        Section("promise", "The privacy guarantee", promise(named_remarks(release))),
        Section("budget", "What the budget was spent on", budget(release)),
        Section("data", "What is known about the data", data(release)),
        Section("cite", "How to cite", cite(release, title, digests)),
        Section("check", "How to check the files", check(digests)),
    ]
    return Card(
        title,
        _tiles(release),
        [*notices(g), *_warnings(release)],
        sections,
        f"dpeigen {__version__}",
        subtitle=plain if "title" in about else "",
        byline=_byline(release),
        metadata=dataset(release, title, f"{plain}, released with differential privacy. {_estimand(release)}", digests),
    )


def _warnings(release: Release) -> list[Notice]:
    """Warnings that there is no result, that errors are unknown, or that many rows were clipped."""
    clipped, g = clipped_warning(release), release.guarantee
    rows = release.facts.get("n_rows")
    weak = weak_budget(g.epsilon, g.delta, None if rows is None else int(rows), g.unit)
    found = [("Weak guarantee", weak), (_clipped_title(release), clipped)]
    return _no_result(release) + [Notice("warning", title, text) for title, text in found if text]


def _clipped_title(release: Release) -> str:
    return "Many rows were clipped" if (clipped_share(release) or 0.0) > MANY else "Some rows were clipped"


def _no_result(release: Release) -> list[Notice]:
    if release.kind == "pca" and release.resolved and loadings_unknown(release):
        return [Notice("warning", "No loadings", without_loadings(release))]
    if release.kind == "ridge" or release.resolved:
        return []
    if release.resolved == 0:
        some = clear_correlations(release) or known_deviations(release)
        title = "No components" if some else "No result"
        return [Notice("warning", title, " ".join(standing(release)))]
    said = "This page cannot say how large the errors of its numbers are, or which of them are only noise."
    return [Notice("warning", "No intervals", said)]


def _byline(release: Release) -> list[tuple[str, str]]:
    found = []
    if names := authors(release):
        found.append(("By", ", ".join(names)))
    if contact := release.about.get("contact"):
        found.append(("Contact:", contact))
    found.append(("", release.date or "date not stated"))
    return found


def _tiles(release: Release) -> list[tuple[str, str]]:
    g = release.guarantee
    tiles = [("ε", f"{g.epsilon:g}"), ("δ", f"{g.delta:g}"), ("columns", f"{release.n_features:,}")]
    rows = release.facts.get("n_rows")
    if rows is not None:
        words = terms(g)
        words += " (released, with noise)" if release.facts.get("n_rows_is") == "released" else ""
        tiles.append((words, f"{rows:,.0f}"))
    if release.kind == "pca":
        tiles.append(("components", f"{len(release.components)}"))
    return [*tiles, ("mechanism", g.mechanism)]


def _short(release: Release) -> list[Block]:
    about = release.about
    rows = [
        ("Data", about.get("description") or "The author gave no description of the data."),
        ("Population", about.get("population") or "The author did not say which population the rows represent."),
        ("Privacy unit", privacy_unit(release.guarantee)),
        ("What is estimated", _estimand(release)),
        ("Outcome", " ".join(standing(release))),
    ]
    return [Table("Summary", [], rows, numbers=False)]


def _estimand(release: Release) -> str:
    g: Guarantee = release.guarantee
    thing = g.about or "the covariance matrix of the columns"
    words = _KINDS.get(release.kind, "{}").format(clean(thing))
    whose = " Intervals are for the population that the rows were drawn from." if release.usual_intervals else ""
    return f"{words[0].upper()}{words[1:]}.{whose}"


def _conclusions(release: Release) -> list[Block]:
    may = [
        "The numbers describe the rows as a group and, through the intervals, the population they were drawn from.",
        "Read the interval, not the last digit: another release of the same table would have other digits.",
        "Anything may be computed from this release and published at no further privacy cost, for example regressions "
        "between its columns or synthetic rows.",
    ]
    may_not = [
        "This page says nothing about any single person.",
        "Do not interpret what is marked as not distinguishable from noise, or the sign of a number whose interval "
        "contains 0.",
        "Do not use the usual formulas for standard errors and p-values: they ignore the privacy noise. Use "
        "release.intervals() and release.regression(), which include it.",
        "Correlation is not causation.",
    ]
    if release.kind == "pca":
        may_not.insert(2, "The sign of a component means nothing: (+, −) and (−, +) are the same component.")
        may_not.insert(3, "Components with nearly equal variances cannot be separated: noise and chance mix them.")
    may_not.append(
        "Scores or predictions for people in the table are not covered by the guarantee: they are as confidential as "
        "the rows."
    )
    return [Items("You may conclude", may), Items("You may not conclude", may_not)]
