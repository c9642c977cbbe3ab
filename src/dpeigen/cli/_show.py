"""A release in the terminal: the guarantee, how the budget was spent, the components and their variances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from dpeigen._text import clean
from dpeigen.clipped import clipped_warning
from dpeigen.noise_floor import compared, floor_notes
from dpeigen.notebook import NOISE
from dpeigen.privacy import Guarantee
from dpeigen.release import Release
from dpeigen.report import blocks, matrices, regressions
from dpeigen.report.columns import about_uncertain, interval, named_remarks, unknown_columns
from dpeigen.report.components import loadings_unknown, unknown_may_contribute, variance_cells
from dpeigen.report.missing import few_missing, most_missing
from dpeigen.report.regressions import asked_regression, regression_errors
from dpeigen.report.results import standing
from dpeigen.report.scales import scale_cells

__all__ = [
    "as_json",
    "components_table",
    "console",
    "contents_tables",
    "error_console",
    "left_out",
    "show_guarantee",
    "show_release",
    "visible",
]

_LARGEST_LOADINGS = 6
_MOST_ROWS = 20


def console() -> Console:
    """The console: plain text of a fixed width if the output is not a terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=110)


def error_console() -> Console:
    """The console for progress, which is not part of the output."""
    return Console(stderr=True)


def show_release(out: Console, release: Release, title: str) -> None:
    """Everything a reader needs to judge one release."""
    show_guarantee(out, named_remarks(release), title)
    if uncertain := about_uncertain(release):
        out.print(f"note       {uncertain}", markup=False)
    if warning := clipped_warning(release):
        out.print(f"warning    {warning}", markup=False)
    table = release.scale is not None and release.kind != "covariance"  # which has its own, of centres and deviations
    if table:
        out.print(_scales_table(release))
    if missing := few_missing(release) if table else most_missing(release):
        out.print(missing, markup=False)


def show_guarantee(out: Console, g: Guarantee, title: str, split: str = "What the budget was spent on") -> None:
    """A guarantee, given or planned, and how its budget is spent."""
    out.rule(f"[bold]{title}", align="left")
    g = visible(g)
    text = str(replace(g, split=(), notes=())) if not g.split else str(g).split("\nspent on", 1)[0]
    out.print(text, markup=False)
    out.print("".join(f"note       {note}\n" for note in g.notes), markup=False, end="")
    out.print(_split_table(g, split))


def visible(g: Guarantee) -> Guarantee:
    """The same guarantee with printable texts: those of a release from elsewhere could contain anything."""
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
    """Each component with its variance and its largest loadings by column name, with their 95% intervals."""
    found = release.usual_intervals
    level = "" if found is None else " (95% interval)"
    table = Table(title=f"Components{level}", title_justify="left", title_style="bold", show_lines=True)
    table.add_column("component", justify="right")
    table.add_column("private variance", justify="right")
    table.add_column("share", justify="right")
    if (floors := release.noise_floors) is not None:
        table.add_column("noise floor", justify="right")
    table.add_column("largest loadings")
    for i in range(len(release.eigenvalues)):
        variance, share = ("\n".join(cell) if isinstance(cell, tuple) else cell for cell in variance_cells(release, i))
        loadings = _largest_loadings(release, i) if release.is_resolved(i) else NOISE
        floor = [] if floors is None else ["\n".join(filter(None, compared(release, i) or ()))]
        table.add_row(str(i + 1), variance, share, *floor, loadings)
    notes = [] if release.resolved is None or not unknown_columns(release) else standing(release)
    notes += floor_notes(release, len(release.eigenvalues)) + ([_no_intervals(release)] if found is None else [])
    if notes:
        table.caption, table.caption_justify = Text(clean(" ".join(notes))), "left"
    return table


def _no_intervals(release: Release) -> str:
    if release.resolved is None:
        return "No intervals: the release does not contain what they are computed from."
    return "No intervals: with this many columns they take minutes. release.intervals() computes them."


def _largest_loadings(release: Release, i: int) -> str:
    unknown = set(unknown_columns(release))
    if loadings_unknown(release):
        return f"unknown: {unknown_may_contribute(len(unknown)) if unknown else 'noise hides them'}"
    component, names, found = release.components[i], release.labels, release.usual_intervals
    parts = []
    known = [j for j in np.argsort(-np.abs(component), kind="stable") if j not in unknown]
    for j in known[:_LARGEST_LOADINGS]:
        ends = "" if found is None else f" ({interval(found.components[0][i, j], found.components[1][i, j], '+.2f')})"
        parts.append(_plain(f"{component[j]:+.2f} {names[j]}{ends}"))
    return (", " if found is None else "\n").join(parts)


def contents_tables(release: Release) -> list[RenderableType]:
    """The tables on the card of a release of this kind."""
    if release.kind not in ("ridge", "covariance"):
        return [components_table(release)]
    blocks = regressions.ridge_tables(release) if release.kind == "ridge" else matrices.covariance_tables(release)
    return [_rich(block) for block in blocks]


def _rich(block: blocks.Table) -> Group:
    """A table of a card for a terminal; title and note have the whole width."""
    table = Table()
    for number, heading in enumerate(block.headings):
        table.add_column(_plain(heading), justify="right" if number and block.numbers else "left")
    for row in block.rows:
        table.add_row(*(_plain(cell if isinstance(cell, str) else f"{cell[0]} ({cell[1]})") for cell in row))
    note = [Text(clean(block.note), style="dim")] if block.note else []
    return Group(Text(clean(block.title), style="bold"), table, *note)


def _scales_table(release: Release) -> Table:
    """Centres and scales of the columns, and the paid shares of missing cells, with their intervals."""
    cells = list(scale_cells(release, _MOST_ROWS))
    level = " (95% interval)" if any(isinstance(cell, tuple) for pair in cells for cell in pair) else ""
    table = Table(title=f"Scale of the columns{level}", title_justify="left", title_style="bold")
    missing, found = None if few_missing(release) else release.missing_shares, release.usual_intervals
    table.add_column("column")
    for heading in ("centre", "divided by", *(["missing cells"] if missing is not None else [])):
        table.add_column(heading, justify="right")
    ends = None if found is None else found.missing_shares
    for j, pair in enumerate(cells):
        share = [] if missing is None else [f"{100 * missing[j]:.1f}%"]
        if share and ends is not None:
            share = [f"{share[0]} ({100 * ends[0][j]:.1f} to {100 * ends[1][j]:.1f}%)"]
        shown = (_plain(cell if isinstance(cell, str) else f"{cell[0]} ({cell[1]})") for cell in pair)
        table.add_row(_plain(release.labels[j]), *shown, *share)
    if release.n_features > _MOST_ROWS:
        table.add_row(f"({release.n_features - _MOST_ROWS} more are in the file)")
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
        errors = regression_errors(release, fit)
        ends = None if errors is None else np.transpose(errors.intervals)
        extra = {
            "target": fit.target,
            "alpha": fit.alpha,
            "coef": dict(zip(fit.feature_names, np.asarray(fit.coef).tolist(), strict=True)),
            "coef_intervals": None if ends is None else dict(zip(fit.feature_names, _ends(ends), strict=True)),
            "coef_unknown": None if errors is None else dict(errors.unknown),
            "intercept": fit.intercept,
            "coef_error_bound": bound,
            "r_squared": None if errors is None else errors.r_squared,
            "r_squared_interval": None if errors is None else list(errors.r_squared_interval),
        }
    found = release.usual_intervals
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
        "unknown_columns": release.unknown_columns,
        "measured_variances": _finite(release.measured_variances),
        "noise_floors": _finite(release.noise_floors),
        "warnings": [warning] if (warning := clipped_warning(release)) else [],
        "components_intervals": None if found is None else np.stack(found.components, axis=-1).tolist(),
        **extra,
    }


def _finite(values: NDArray[Any] | None) -> list[float | None] | None:
    """Numbers for JSON: None if a number is not finite, as the noise floor of the last of all components may be."""
    return None if values is None else [float(value) if np.isfinite(value) else None for value in values]


def _ends(pairs: NDArray[Any]) -> list[list[float] | None]:
    """Pairs for JSON, which has no infinity: None if an end is not finite."""
    return [pair.tolist() if np.isfinite(pair).all() else None for pair in pairs]


def left_out(refused: Mapping[str, str]) -> list[str]:
    """Methods that the facts do not allow, in one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, why in refused.items():
        reason = "need --bound" if "'bound' parameter" in why and "must be given" in why else _first_sentence(why)
        reasons.setdefault(reason, []).append(name)
    return [f"not planned: {', '.join(names)} ({reason})" for reason, names in reasons.items()]


def _first_sentence(why: str) -> str:
    """The first sentence of an error, without the name of a parameter that the command line does not have."""
    first = why.split(". ")[0].rstrip(".")
    if first.startswith("The 'X' parameter"):
        return "the table is too short"
    return first
