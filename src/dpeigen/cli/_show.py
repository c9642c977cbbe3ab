"""A release in the terminal: the guarantee, what the budget went to, the components and their variances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpeigen._text import clean
from dpeigen.notebook import NOISE
from dpeigen.privacy import Guarantee
from dpeigen.release import Release
from dpeigen.report.matrices import asked_regression
from dpeigen.report.results import named_remarks, unknown_columns
from dpeigen.stats.ridge import RidgeFit

_LARGEST_LOADINGS = 6
_MOST_ROWS = 20


def console() -> Console:
    """Plain text of a steady width where the output is not a terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=110)


def error_console() -> Console:
    """For progress, which is not part of the output."""
    return Console(stderr=True)


def show_release(out: Console, release: Release, title: str) -> None:
    """Everything a reader needs to judge one release."""
    show_guarantee(out, named_remarks(release), title)
    if release.scale is not None:
        out.print(_scales_table(release))


def show_guarantee(out: Console, g: Guarantee, title: str, split: str = "What the budget was spent on") -> None:
    """A promise, kept or planned, and what its budget goes to."""
    out.rule(f"[bold]{title}", align="left")
    g = visible(g)
    text = str(replace(g, split=(), notes=())) if not g.split else str(g).split("\nspent on", 1)[0]
    out.print(text, markup=False)
    out.print("".join(f"note       {note}\n" for note in g.notes), markup=False, end="")
    out.print(_split_table(g, split))


def visible(g: Guarantee) -> Guarantee:
    """The same guarantee with texts that may be printed: those of a release from elsewhere could hold anything."""
    return replace(
        g,
        mechanism=clean(g.mechanism),
        reference=clean(g.reference),
        assumptions=tuple(map(clean, g.assumptions)),
        notes=tuple(map(clean, g.notes)),
        estimand=clean(g.estimand),
        split=tuple(replace(s, purpose=clean(s.purpose), mechanism=clean(s.mechanism)) for s in g.split),
    )


def _split_table(g: Guarantee, title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in ("purpose", "cost", "mechanism"):
        table.add_column(heading)
    for spend in g.split:
        table.add_row(_plain(spend.purpose), str(spend.cost), _plain(spend.mechanism))
    return table


def components_table(release: Release) -> Table:
    """Each component with its private variance and its largest loadings by column name."""
    table = Table(title="Components", title_justify="left", title_style="bold", show_lines=True)
    table.add_column("component", justify="right")
    table.add_column("private variance", justify="right")
    table.add_column("share", justify="right")
    table.add_column("largest loadings")
    total, names = float(np.trace(release.covariance)), release.labels
    for number, (component, value) in enumerate(zip(release.components, release.eigenvalues, strict=True), 1):
        largest = np.argsort(-np.abs(component), kind="stable")[:_LARGEST_LOADINGS]
        loadings = _plain(", ".join(f"{component[i]:+.2f} {names[i]}" for i in largest))
        if not release.is_resolved(number - 1):
            loadings = NOISE
        share = f"{100 * value / total:.1f}%" if total > 0 else ""
        table.add_row(str(number), f"{value:.4g}", share, loadings)
    return table


def contents_table(release: Release) -> Table:
    """What a release of this kind is about."""
    if release.kind == "ridge":
        return _coefficients_table(asked_regression(release))
    return _variances_table(release) if release.kind == "covariance" else components_table(release)


def _coefficients_table(fit: RidgeFit) -> Table:
    title = f"Coefficients for {_plain(fit.target)}"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("column")
    table.add_column("coefficient", justify="right")
    order = np.argsort(-np.abs(fit.coef), kind="stable")
    for j in order[:_MOST_ROWS]:
        table.add_row(_plain(fit.feature_names[j]), f"{fit.coef[j]:+.4g}")
    if len(order) > _MOST_ROWS:
        table.add_row(f"({len(order) - _MOST_ROWS} smaller ones are in the file)", "")
    table.add_row("penalty α", f"{fit.alpha:.4g}", style="dim")
    if fit.error_bound is not None:
        table.add_row("error of all coefficients together (ℓ2), at most, 95%", f"{fit.error_bound:.3g}", style="dim")
    table.add_row("intercept", "not known" if fit.intercept is None else f"{fit.intercept:+.4g}")
    return table


def _variances_table(release: Release) -> Table:
    table = Table(title="Private variances", title_justify="left", title_style="bold")
    for heading in ("column", "centre", "standard deviation"):
        table.add_column(heading, justify="left" if heading == "column" else "right")
    for j in range(min(_MOST_ROWS, release.n_features)):
        table.add_row(*map(_plain, (release.labels[j], release.center_text(j), release.deviation_text(j))))
    if release.n_features > _MOST_ROWS:
        table.add_row(f"({release.n_features - _MOST_ROWS} more are in the file)", "", "")
    return table


def _scales_table(release: Release) -> Table:
    """Where columns lie, and what they were divided by."""
    table = Table(title="Scale of the columns", title_justify="left", title_style="bold")
    table.add_column("column")
    table.add_column("centre", justify="right")
    table.add_column("divided by", justify="right")
    unknown = unknown_columns(release)
    for j, scale in enumerate(np.ones(0) if release.scale is None else release.scale[:_MOST_ROWS]):
        center = "" if j in unknown else _plain(release.center_text(j))
        table.add_row(_plain(release.labels[j]), center, "nothing is known of it" if j in unknown else f"{scale:.4g}")
    if release.n_features > _MOST_ROWS:
        table.add_row(f"({release.n_features - _MOST_ROWS} more are in the file)", "", "")
    return table


def _plain(name: str) -> str:
    """Visible characters without rich's markup."""
    return escape(clean(name))


def as_json(release: Release, folder: str) -> dict[str, Any]:
    """The same for programs."""
    extra: dict[str, Any] = {}
    if release.kind == "covariance":
        extra = {"covariance": release.covariance.tolist()}
    elif release.kind == "ridge":
        fit = asked_regression(release)
        bound = fit.error_bound if fit.error_bound is not None and np.isfinite(fit.error_bound) else None
        extra = {
            "target": fit.target,
            "alpha": fit.alpha,
            "coef": dict(zip(fit.feature_names, np.asarray(fit.coef).tolist(), strict=True)),
            "intercept": fit.intercept,
            "coef_error_bound": bound,
        }
    return {
        "out": folder,
        "guarantee": release.guarantee.to_dict(),
        "facts": dict(release.facts),
        "feature_names": release.feature_names,
        "labels": release.labels,
        "components": release.components.tolist(),
        "explained_variance": release.eigenvalues.tolist(),
        "mean": None if release.mean is None else release.mean.tolist(),
        "center": None if release.mean is None else [release.center_text(j) for j in range(release.n_features)],
        "scale": None if release.scale is None else release.scale.tolist(),
        "estimand": release.estimand,
        "noise_variance": release.noise_variance,
        "resolved": release.resolved,
        **extra,
    }
